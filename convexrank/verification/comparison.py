"""What was found on one instance, and what every kind of comparison needs: the instance, its solutions, tolerances."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.core.results import ConvergenceWarning, Solution, Status

__all__ = ["Case", "Comparison", "disagree"]

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
    """What was found on one instance. ``failures`` and ``skipped`` are empty when all is well.

    Parameters
    ----------
    problem : str
        Name of the class.
    seed : int or None
        Seed of the random instance; None for one of the caller's.
    objective_error : float
        Relative difference of the two objectives; NaN where there is no objective.
    point_error : float
        Relative difference of the two points where the minimiser is unique, or distance of the fast answer from the
        reference (from the feasible set); else NaN.
    failures : tuple of str
        What disagreed.
    skipped : str
        Why nothing could be compared.
    seconds : float
        Time taken.
    proved : bool or None
        Whether the bound at the fast answer was proved; None where that was not asked for.
    unproved : str
        Why it was not.

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
    solver : None, str, solver object or callable
        The fast side.
    reference : str or solver object
        The exact side.
    tol : float
        Relative agreement asked of the two objectives; the distance allowed where there is none.
    """

    name: str
    seed: int | None
    problem: Any
    solver: Any
    reference: Any
    tol: float

    def random(self) -> np.random.Generator:
        """Return where random points come from, the same at every call."""
        return np.random.default_rng(12345 if self.seed is None else self.seed)

    def solve_fast(self) -> Solution:
        """Return the answer of the fast side."""
        return _solve(self.problem, self.solver)

    def solve_exact(self) -> Solution:
        """Return the answer of the exact side."""
        return _solve(self.problem, self.reference)

    def found(
        self, failures: list[str], objective_error: float = math.nan, point_error: float = math.nan
    ) -> Comparison:
        """Return what was found."""
        return Comparison(self.name, self.seed, objective_error, point_error, tuple(failures))

    def skipped(self, reason: str) -> Comparison:
        """Return why nothing could be compared."""
        return Comparison(self.name, self.seed, skipped=reason)


def _solve(problem: Any, solver: Any) -> Solution:
    """Solve, or take the answer of the caller's own algorithm."""
    if not (callable(solver) and not hasattr(solver, "requires")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # statuses are compared
            return problem.solve(solver)
    x = problem.check_point(solver(problem), "the answer of your solver")
    certificate = problem.certificate(x)
    return Solution(
        x, problem.value_at(x), certificate.gap, certificate.gap, Status.CONVERGED, 0, 0.0, {}, certificate,
        getattr(solver, "__name__", "callable"), type(problem).__name__, "",
    )  # fmt: skip


def disagree(a: float, b: float, tolerance: float = ORACLE) -> bool:
    """Whether two values differ by more than the tolerance; NaN always does, equal infinities never."""
    return not math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
