"""A local method from several starts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convexrank.core.capabilities import Solvable
from convexrank.core.loop import State
from convexrank.data import check_integer, keep_checked
from convexrank.solvers.graph_faces import Multimodal

Array = np.ndarray

# A start has shown its worth when this little is left to gain; only the best one is taken further.
_WORTH = 1e-9
# So near to the floor nothing better is left to look for.
_AT_FLOOR = 1e-12
# A start that has gained nothing for this many steps is done, and one that has taken so many; what is left to gain is
# asked every so often.
_PATIENCE, _STEPS, _EVERY = 3, 5_000, 10


@dataclass(frozen=True)
class MultiStart:
    """A local method from one start after another; the best local minimum is kept.

    The steps are those of the problem's own method, which never increase the objective. The first start is x0; then
    come points at which the problem expects minima, such as the corners of a simplex, and random points. Before the end
    of the last start the residual is infinite; then it is the possible decrease to first order at the best point.
    CONVERGED means that this residual is small: the point is stationary. **There is no claim that the minimum is
    global.** A point at the known lower bound of the problem ends the search.

    Parameters
    ----------
    starts : int
        Number of starts, x0 and random points, in addition to those of the problem; 1 means x0 only.
    seed : int
        Seed of the random starts.

    References
    ----------
    F. Schoen, Stochastic techniques for global optimization, Journal of Global Optimization 1 (1991), section 3.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.ConsensusRank([[[0, 1], [1, 0]], [[1, 0]]])
    >>> problem.solve(cr.solvers.MultiStart(starts=3, seed=1)).status.name
    'CONVERGED'
    """

    starts: int = 8
    seed: int = 0

    name = "multi-start"
    requires = frozenset({"Multimodal"})
    default_max_iter = 100_000

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "starts", minimum=1)
        keep_checked(self, check_integer, "seed", minimum=0)

    def init(self, problem: Solvable, x0: Array) -> State:
        """Start at x0."""
        x = problem.project_feasible(x0)
        value = problem.objective(x)
        return State(x, value, math.inf, _Memory(x, value, 0, 0, 1))

    def step(self, problem: Solvable, state: State) -> State:
        """Improve the point of the present start, or go to the next one; at last, improve the best."""
        memory: _Memory = state.memory
        valleys = problem.face(Multimodal)
        x = valleys.improve(memory.x)
        value = problem.objective(x)
        idle = memory.idle + 1 if memory.value - value <= 1e-15 * max(1.0, abs(value)) else 0
        best, height = (x, value) if value < state.value else (state.x, state.value)
        if memory.polishing:
            after = _Memory(x, value, idle, memory.steps + 1, memory.started, polishing=True)
            return State(best, height, valleys.stationarity(best), after, stalled=idle >= _PATIENCE)
        steps = memory.steps + 1
        done = idle >= _PATIENCE or steps >= _STEPS
        if not done and (steps % _EVERY == 0 or memory.value - value <= _WORTH):
            done = valleys.stationarity(x) <= _WORTH * max(1.0, abs(value))
        if not done:
            return State(best, height, math.inf, _Memory(x, value, idle, steps, memory.started))
        fixed = valleys.fixed_starts() if self.starts > 1 else ()
        if memory.started >= self.starts + len(fixed) or height - valleys.floor <= _AT_FLOOR:
            after = _Memory(best, height, 0, 0, memory.started, polishing=True)
            return State(best, height, valleys.stationarity(best), after)
        if memory.started <= len(fixed):
            fresh = problem.project_feasible(fixed[memory.started - 1])
        else:
            rng = np.random.default_rng([self.seed, memory.started - len(fixed)])
            fresh = valleys.random_start(rng)
        begun = _Memory(fresh, problem.objective(fresh), 0, 0, memory.started + 1)
        return State(best, height, math.inf, begun)


@dataclass(frozen=True)
class _Memory:
    x: Array
    value: float
    idle: int
    steps: int
    started: int
    polishing: bool = False
