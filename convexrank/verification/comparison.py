"""The comparison of one instance: the instance, its solutions, tolerances, and the result."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convexrank.core.capabilities import value_at
from convexrank.core.results import ConvergenceWarning, Solution, Status
from convexrank.solvers.own_algorithm import point_of

Array = np.ndarray

# Values of the same formula in another order of operations, relative to the largest value met on the way.
ORACLE = 1e-8
# A central difference with the step below; its own error is about step².
STEP, SLOPE = 1e-5, 1e-5
# A reference (a dense solve, a long iteration) is good to about this, in the metric of the certificate.
REFERENCE = 1e-9
# Distances to a feasible set come from a conic solver.
CONIC = 1e-6


@dataclass(frozen=True)
class Comparison:
    """The result for one instance. ``failures`` and ``skipped`` are empty if everything agrees.

    Parameters
    ----------
    problem : str
        Name of the class.
    seed : int or None
        Seed of the random instance; None for an instance of the caller.
    objective_error : float
        Relative difference of the two objectives; NaN where there is no objective.
    point_error : float
        Relative difference of the two points where the minimiser is unique, or distance of the fast answer from the
        reference (from the feasible set); else NaN.
    failures : tuple of str
        The disagreements.
    skipped : str
        The reason for which nothing was compared.
    seconds : float
        Time of the comparison.
    proved : bool or None
        Whether the bound at the fast answer was proved; None if no proof was requested.
    unproved : str
        The reason for which it was not proved.
    not_compared : str
        The reason for which there was no second statement of the formula to compare with.

    Examples
    --------
    >>> import convexrank as cr
    >>> comparison = cr.verify(cr.problems.IRPush, instances=1, seed=3).comparisons[0]
    >>> comparison.problem, comparison.seed, comparison.failures
    ('IRPush', 3, ())
    """

    problem: str
    seed: int | None
    objective_error: float = 0.0
    point_error: float = math.nan
    failures: tuple[str, ...] = ()
    skipped: str = ""
    seconds: float = 0.0
    proved: bool | None = None
    unproved: str = ""
    not_compared: str = ""

    @property
    def instance(self) -> str:
        """Name of the instance, in words."""
        return f"your {self.problem}" if self.seed is None else f"{self.problem} seed {self.seed}"


@dataclass(frozen=True)
class Case:
    """One instance to be compared.

    Parameters
    ----------
    name : str
        Name of the class.
    seed : int or None
        Seed of the instance.
    problem : Problem
        The instance.
    solver : None, str, solver object, callable or point
        The fast solver, or that of the caller: see :func:`convexrank.verify`.
    reference : str or solver object
        The exact solver.
    tol : float
        Relative tolerance of the two objectives; for problems without objective, the largest allowed distance.
    device : str, jax.Device or None
        Where the fast solver runs, compiled; None for solvers in numpy.
    """

    name: str
    seed: int | None
    problem: Any
    solver: Any
    reference: Any
    tol: float
    device: Any = None
    tell: Callable[[str], Any] = field(default=str, repr=False)  # is told what is done next
    _answers: dict[str, Solution] = field(init=False, repr=False, default_factory=dict)

    @property
    def side(self) -> str:
        """Name of the solver that is checked, in messages."""
        return "fast" if is_named(self.solver) else "your solver"

    @property
    def point(self) -> str:
        """Name of its answer in messages."""
        return "the fast point" if is_named(self.solver) else "your solver's point"

    def random(self) -> np.random.Generator:
        """Return where random points come from, the same at every call."""
        return np.random.default_rng(12345 if self.seed is None else self.seed)

    def solve_fast(self) -> Solution:
        """Return the answer of the fast side; it is computed once."""
        return self._solved(self.point, self.solver, "solver", self.device)

    def solve_exact(self) -> Solution:
        """Return the answer of the exact side; it is computed once."""
        return self._solved("the exact point", self.reference, "reference")

    def _solved(self, where: str, solver: Any, name: str, device: Any = None) -> Solution:
        if where not in self._answers:
            self.tell(where)
            self._answers[where] = _solve(self.problem, solver, name, device)
        return self._answers[where]

    def answers(self) -> dict[str, Solution]:
        """Return the answers so far, by the names of their points in messages."""
        return dict(self._answers)

    def found(
        self, failures: list[str], objective_error: float = math.nan, point_error: float = math.nan
    ) -> Comparison:
        """Return what was found."""
        return Comparison(self.name, self.seed, objective_error, point_error, tuple(failures))

    def skipped(self, reason: str) -> Comparison:
        """Return why nothing could be compared."""
        return Comparison(self.name, self.seed, skipped=reason)


def is_named(solver: Any) -> bool:
    """Return whether a solver is one of the package, and not a caller's own, or the answer of one."""
    return solver is None or isinstance(solver, str) or hasattr(solver, "requires")


def _solve(problem: Any, solver: Any, name: str, device: Any) -> Solution:
    """Solve, or take the answer of the caller's own algorithm."""
    if is_named(solver):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # statuses are compared
            return problem.solve(solver, device=device)
    x = point_of(solver(problem) if callable(solver) else solver, problem, name, gave=callable(solver))
    certificate = problem.certificate(x)
    return Solution(
        x, value_at(problem, x), certificate.gap, certificate.gap, Status.CONVERGED, 0, 0.0, {}, certificate,
        getattr(solver, "__name__", type(solver).__name__), type(problem).__name__, "",
    )  # fmt: skip


def disagree(a: float, b: float, tolerance: float = ORACLE) -> bool:
    """Return whether two values differ by more than the tolerance; NaN always does, equal infinities never."""
    return not math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
