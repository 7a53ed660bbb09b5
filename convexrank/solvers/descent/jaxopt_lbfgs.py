"""jaxopt's L-BFGS: the whole step runs on JAX's default device. The one file that imports jaxopt.

jaxopt is no longer maintained. Only this file uses it, so that it can be replaced easily.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from convexrank.backend.compilation import jit
from convexrank.backend.interruption import check_time, rounds_in_time
from convexrank.backend.jax_oracles import with_x64
from convexrank.core.capabilities import Smooth
from convexrank.core.loop import State
from convexrank.data import check_integer, keep_checked
from convexrank.solvers.jitted._chunks import is_small
from convexrank.solvers.row_faces import Compiled

Array = np.ndarray

# Chunks without progress after which no more is to be had at this precision.
_PATIENCE = 5
# The device is asked whether it is done after so large a share of the time it took so far, and so many seconds at most.
_SHARE_ASLEEP, _LONGEST_SLEEP = 0.05, 0.05


@dataclass(frozen=True)
class JaxoptLBFGS:
    """L-BFGS with data and iterations on the device (a GPU, if JAX has one).

    Each step of the loop runs a chunk of iterations on the device, so that transfers cost little. Compilation takes
    seconds; for data that fit the host, ``newton`` and ``lbfgs`` start faster. At a time limit and at Ctrl-C the solve
    ends, and the chunk that is under way on the device comes to its end unheeded; a compilation is waited for.

    Parameters
    ----------
    memory : int
        Number of correction pairs kept.
    chunk : int
        Number of iterations between two evaluations of the gap, fewer near a time limit; the loop counts chunks.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> problem.solve(cr.solvers.JaxoptLBFGS()).status.name
    'CONVERGED'
    """

    memory: int = 20
    chunk: int = 10

    name = "jaxopt-lbfgs"
    requires = frozenset({"JaxObjective", "Smooth"})
    default_max_iter = 1_000

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "memory", "chunk", minimum=1)

    def init(self, problem: Smooth, x0: Array) -> State:
        """Move the data to the device and compile."""
        import jax.numpy as jnp
        from jax.tree_util import Partial

        with with_x64():
            face = problem.face(Compiled)
            objective = face.objective()
            check_time()  # moving large data takes seconds, and so does compiling
            double = face.dtype == "float64"
            if isinstance(objective, Partial):
                begin, advance = _programs(self.memory, double, is_small(objective))
            else:  # its data are part of it, and go when its programs go
                begin, advance = _programs.__wrapped__(self.memory, double, False, objective)
                objective = None
            start = jnp.asarray(x0, dtype=face.dtype)
            inner = _when_ready(begin(objective, start))
            return _state(problem, _Memory(partial(advance, objective), start, inner))

    def step(self, problem: Smooth, state: State) -> State:
        """Run one chunk on the device."""
        memory: _Memory = state.memory
        count, start = rounds_in_time(self.chunk, memory.pace), time.perf_counter()
        with with_x64():
            x, inner = _when_ready(memory.advance(memory.x, memory.inner, count))
            pace = (time.perf_counter() - start) / count
            return _state(problem, _Memory(memory.advance, x, inner, memory.lowest, memory.idle, pace))


@dataclass(frozen=True)
class _Memory:
    advance: Any
    x: Any
    inner: Any
    lowest: float = np.inf  # the smallest residual seen; it does not fall monotonically
    idle: int = 0
    pace: float = math.inf  # seconds of an iteration


def _when_ready(results: Any) -> Any:
    """Wait for what the device computes, with looks at the clock: nothing stops it, but nobody has to wait for it."""
    import jax

    begun = time.perf_counter()
    for array in jax.tree.leaves(results):
        while not array.is_ready():
            check_time()
            time.sleep(min(_SHARE_ASLEEP * (time.perf_counter() - begun), _LONGEST_SLEEP))
    check_time()
    return results


@lru_cache(maxsize=64)
def _programs(
    memory: int, double: bool, small: bool, fixed: Callable[[Any], Any] | None = None
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The start and the chunk of iterations, of a fixed objective or of those handed in: one program for each shape."""
    with warnings.catch_warnings(action="ignore"):  # jaxopt announces that it is no longer maintained
        import jaxopt
    import jax

    # backtracking compiles in half the time; in single precision its decreases are lost in rounding
    search = "backtracking" if double else "zoom"

    def solver(objective: Any) -> Any:
        return jaxopt.LBFGS(
            fixed or objective, history_size=memory, tol=0.0, maxiter=10**9, linesearch=search, jit=True
        )

    def begin(objective: Any, x: Any) -> Any:
        return solver(objective).init_state(x)

    def advance(objective: Any, x: Any, state: Any, count: Any) -> Any:
        update = solver(objective).update
        return jax.lax.fori_loop(0, count, lambda _, pair: tuple(update(*pair)), (x, state))

    keep = fixed is None
    return jit(begin, small, keep), jit(advance, small, keep)


def _state(problem: Smooth, memory: _Memory) -> State:
    """Judge the device's point by the host's oracle."""
    point = np.asarray(memory.x, dtype=np.float64)
    value, gradient = problem.value_and_gradient(point)
    residual = problem.gap_estimate(point, value, gradient)
    idle = 0 if residual < memory.lowest else memory.idle + 1
    memory = replace(memory, lowest=min(residual, memory.lowest), idle=idle)
    return State(point, value, residual, memory, stalled=idle >= _PATIENCE)
