"""No-regret play with the whole round on a device."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from convexrank.core.capabilities import Solvable
from convexrank.core.loop import State
from convexrank.core.results import Witness
from convexrank.data import check_integer, keep_checked
from convexrank.solvers.graph_faces import JaxSaddle
from convexrank.solvers.jitted._chunks import chosen, compiled, is_small, place, run_chunk
from convexrank.solvers.jitted.devices import check_device, computing_on

Array = np.ndarray

# Chunks without a smaller gap, at least, after which rounding is reached. Gaps fall as one over the rounds, unevenly:
# as many chunks as all before may go by without a smaller one.
_PATIENCE = 50


@dataclass(frozen=True)
class JaxNoRegretPlay:
    r"""Rounds of a game, compiled as one loop with the graph on a device.

    The learner follows the leader, and the newest move gets the share that lowers the greatest payoff most: the method
    of Frank and Wolfe with line search, as :class:`~convexrank.solvers.NoRegretPlay` has it, with its rates. The share
    is found by halving, without a look at the host. What a chunk is, and what happens between chunks, is as for
    :class:`~convexrank.solvers.JaxAccelerated`; the residual is the duality gap, the average of the moves the witness.

    Parameters
    ----------
    chunk : int
        Number of rounds between two looks of the host, fewer near a time limit.
    device : str or jax.Device, optional
        Where to run: ``"gpu"``, ``"cpu"``, ``"gpu:1"`` or a device; by default JAX's default device.

    Raises
    ------
    DeviceMemoryError
        When the graph does not fit the device.
    ValueError
        When JAX has no such device.

    References
    ----------
    Dissertation on learning to rank, chapter 5, Theorem 12. M. Jaggi, Revisiting Frank-Wolfe, ICML 2013, theorem 1.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    >>> cr.problems.PageRankGame(graph, "kl").solve("jax-no-regret-play", tol=1e-6).status.name
    'CONVERGED'
    """

    chunk: int = 20
    device: Any = None

    name = "jax-no-regret-play"
    requires = frozenset({"JaxSaddle"})
    default_max_iter = 5_000

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "chunk", minimum=1)
        check_device(self.device)

    def init(self, problem: Solvable, x0: Array) -> State:
        """Put the graph on the device, compile, and begin with s = 0."""
        from convexrank.solvers.jitted.programs import game as programs

        device = chosen(self.device)
        with computing_on(device):
            game, s = place(device, problem.face(JaxSaddle).game, np.zeros_like(x0), "float64", 0)
            small = is_small(game)
            advance = partial(compiled(programs.advance, small), game)
            play = advance(compiled(programs.start, small)(game, s), 0)
            return _state(problem, _Memory(device, advance, play))

    def step(self, problem: Solvable, state: State) -> State:
        """Run one chunk on the device."""
        memory: _Memory = state.memory
        with computing_on(memory.device):
            play, pace = run_chunk(memory.advance, memory.play, self.chunk, memory.pace)
        return _state(problem, replace(memory, play=play, pace=pace))


@dataclass(frozen=True)
class _Memory:
    device: Any
    advance: Any = field(repr=False)
    play: Any = field(repr=False)
    lowest: float = np.inf
    idle: int = 0
    chunks: int = 0
    pace: float = np.inf


def _state(problem: Solvable, memory: _Memory) -> State:
    """The state that reports w, a distribution up to rounding, with the gap that the device found."""
    play = memory.play
    x, gap = problem.project_feasible(np.asarray(play.x, dtype=np.float64)), float(play.gap)
    idle = 0 if gap < memory.lowest else memory.idle + 1
    memory = replace(memory, lowest=min(gap, memory.lowest), idle=idle, chunks=memory.chunks + 1)
    witness = Witness(np.asarray(play.s, dtype=np.float64)[None, :], np.ones(1))
    stalled = bool(play.stalled) or idle >= max(_PATIENCE, memory.chunks - idle)
    return State(x, problem.objective(x), max(gap, 0.0), memory, stalled=stalled, witness=witness)
