"""An algorithm of the caller's own, a function of the problem: its answer is accepted by certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank.core.capabilities import Existence, Solvable, value_at
from convexrank.core.loop import Monitor, Options, State, certificate_of, scale_of
from convexrank.core.results import Solution, Status
from convexrank.data import shown

Array = np.ndarray


@dataclass(frozen=True)
class OwnAlgorithm:
    """Solver of ``problem.solve(function)``: one call of the function, then the certificate of its point.

    Parameters
    ----------
    function : callable
        Takes the problem and returns a point: an array, scipy's OptimizeResult or a Solution.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> def descent(problem):
    ...     w = problem.start()
    ...     for _ in range(200):
    ...         w = w - 0.5 * problem.value_and_gradient(w)[1]
    ...     return w
    >>> solution = problem.solve(descent)
    >>> solution.status.name, solution.solver
    ('CONVERGED', 'descent')
    """

    function: Callable[[Any], Any]

    requires = frozenset()
    default_max_iter = 0

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def solve(self, problem: Solvable, options: Options) -> Solution:
        """Call the function, and certify its answer; its word for it counts nothing."""
        monitor, given = Monitor(problem, self, options), self.function(problem)
        x = point_of(given, problem, "solver", gave=True)
        witness = given.witness if isinstance(given, Solution) else None
        state = State(x, value_at(problem, x), math.inf, witness=witness)
        found = certificate_of(problem, x, witness, math.inf)
        state = replace(state, residual=found.gap)
        monitor.record(state)
        monitor.best = state  # outside of the constraints, too: there is no better one
        if (ended := problem.face(Existence).terminal_status(x)) is not None:
            return monitor.finish(ended)
        enough = options.tol * scale_of(state.value)
        if not math.isfinite(enough):
            return monitor.finish(Status.FAILED, f"the point of {self.name} violates the constraints")
        if found.gap <= enough:
            return monitor.finish(Status.CONVERGED)
        return monitor.finish(Status.FAILED, f"expected a gap of at most {enough:.3g} from {self.name}")


def point_of(given: Any, problem: Solvable, name: str, gave: bool) -> Array:
    """Return the point in an answer: an array, scipy's OptimizeResult or a Solution.

    Parameters
    ----------
    given : object
        The answer.
    problem : Problem
        The problem.
    name : str
        Name of the argument in messages.
    gave : bool
        Whether the argument is a function, which gave the answer.

    Raises
    ------
    ValueError, TypeError
        When it is no point with finite entries, or has another shape.
    """
    given = getattr(given, "x", given)
    try:
        x = np.asarray(given, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        x, cause = np.empty(()), error
    else:
        cause = None
    if x.ndim == 0:
        raise TypeError(
            f"{name} {'gave' if gave else 'is'} {shown(given, 200)}, expected None, a name, a solver object, or a "
            "point: an array, scipy's OptimizeResult or a Solution, itself or from a function of the problem."
        ) from cause
    if wrong := int(np.count_nonzero(~np.isfinite(x))):
        raise ValueError(
            f"{name} gave a point with {wrong} of {x.size} entries NaN or infinite, expected finite numbers: it failed "
            f"on this {type(problem).__name__}."
        )
    return problem.check_point(x, f"the point of {name}")
