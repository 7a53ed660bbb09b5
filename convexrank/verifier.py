"""The verifier: the fast path against the exact model, on random instances or on yours.

For each instance it holds four independent statements of the formulation against each other: the compiled oracle, the
cvxpy model, the reference code of the certificate, and the solution of the fast solver against the conic one.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from convexrank.data import check_integer, check_positive
from convexrank.problem import ConvergenceWarning, CvxpyModel, Problem, Solution, Status

__all__ = ["Comparison", "Report", "verify"]

Array = np.ndarray

# Values of the same formula in another order of operations, relative to the largest value met on the way.
_ORACLE = 1e-8
# A central difference with the step below; its own error is about step².
_STEP, _SLOPE = 1e-5, 1e-5
# The same where a value of the model is itself a solve: good to about 1e-11, but only to this where scores are all but
# tied, and with brackets wide enough to keep the noise of a slope low.
_SOLVED, _SOLVED_STEP = 1e-7, 1e-3
_ENDED = frozenset({Status.SEPARABLE, Status.UNBOUNDED, Status.INFEASIBLE})


@dataclass(frozen=True)
class Comparison:
    """What was found on one instance. ``failures`` and ``skipped`` are empty when all is well.

    Parameters
    ----------
    problem : str
        Name of the class.
    seed : int or None
        Seed of the random instance; None for one of the caller's.
    objective_error, point_error : float
        Relative difference of the two objectives, and of the two points where the minimiser is unique (else NaN).
    failures : tuple of str
        What disagreed.
    skipped : str
        Why nothing could be compared.
    seconds : float
        Time taken.

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


@dataclass(frozen=True)
class Report:
    """The verdict over all instances.

    Parameters
    ----------
    comparisons : tuple of Comparison
        One for each instance.

    Attributes
    ----------
    ok : bool
        True when something was compared and nothing disagreed. Nothing compared is a failure.
    compared, skipped : int, list of str
        How many instances were compared, and the reasons of the others.
    failures : list of str
        What disagreed, with the seed.
    worst : dict
        Largest relative objective error, largest relative point error (where the minimiser is unique) and the seed of
        the former.

    Examples
    --------
    >>> import convexrank as cr
    >>> report = cr.verify(cr.problems.IRPush.random(0))
    >>> report.ok, report.compared, len(report.failures)
    (True, 1, 0)
    """

    comparisons: tuple[Comparison, ...] = field(repr=False)

    @property
    def compared(self) -> int:
        """Number of instances compared."""
        return sum(not item.skipped for item in self.comparisons)

    @property
    def skipped(self) -> list[str]:
        """Reasons of the instances that were not compared."""
        return [
            f"{item.problem} seed {item.seed}: {item.skipped}" for item in self.comparisons if item.skipped
        ]

    @property
    def failures(self) -> list[str]:
        """Everything that disagreed."""
        return [
            f"{item.problem} seed {item.seed}: {text}" for item in self.comparisons for text in item.failures
        ]

    @property
    def ok(self) -> bool:
        """Whether each problem had something compared, and nothing disagreed."""
        groups = self._groups()
        something_compared = all(any(not item.skipped for item in items) for items in groups.values())
        return bool(groups) and something_compared and not self.failures

    @property
    def worst(self) -> dict[str, Any]:
        """Largest errors and where they were met."""
        compared = [item for item in self.comparisons if not item.skipped]
        if not compared:
            return {"objective_error": math.nan, "point_error": math.nan, "seed": None}
        most = max(compared, key=lambda item: item.objective_error)
        points = [item.point_error for item in compared if math.isfinite(item.point_error)]
        return {
            "objective_error": most.objective_error,
            "point_error": max(points, default=math.nan),
            "seed": most.seed,
        }

    def _groups(self) -> dict[str, list[Comparison]]:
        groups: dict[str, list[Comparison]] = {}
        for item in self.comparisons:
            groups.setdefault(item.problem, []).append(item)
        return groups

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for JSON."""
        return {
            "ok": self.ok,
            "compared": self.compared,
            "skipped": self.skipped,
            "failures": self.failures,
            "worst": self.worst,
            "comparisons": [asdict(item) for item in self.comparisons],
        }

    def __str__(self) -> str:
        head = (
            "problem",
            "compared",
            "skipped",
            "objective error",
            "point error",
            "worst seed",
            "seconds",
            "verdict",
        )
        rows: list[tuple[str, ...]] = [head]
        for name, items in self._groups().items():
            part = Report(tuple(items))
            worst = part.worst
            rows.append(
                (
                    name,
                    str(part.compared),
                    str(len(part.skipped)),
                    f"{worst['objective_error']:.1e}",
                    f"{worst['point_error']:.1e}",
                    str(worst["seed"]),
                    f"{sum(item.seconds for item in items):.1f}",
                    "ok" if part.ok else "FAILED",
                )
            )
        widths = [max(len(row[j]) for row in rows) for j in range(len(head))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        ]
        lines += [f"disagreement: {text}" for text in self.failures] + [
            f"skipped: {text}" for text in self.skipped
        ]
        return "\n".join(lines)


def verify(
    target: Any = None,
    *,
    instances: int = 20,
    seed: int = 0,
    solver: Any = None,
    reference: Any = "exact",
    tol: float = 1e-6,
    progress: Callable[[Comparison], Any] | None = None,
) -> Report:
    """Hold the fast path against the exact model.

    Parameters
    ----------
    target : Problem, Problem class, iterable of either, or None
        An instance of yours; or a class, of which random instances are drawn; None takes every registered problem.
    instances : int
        Random instances of each class.
    seed : int
        First seed; instance j uses seed + j, so that every finding can be reproduced by ``Class.random(seed)``.
    solver : None, str, solver object or callable
        The fast side; a callable takes the problem and returns a point: your own algorithm.
    reference : str or solver object
        The exact side.
    tol : float
        Relative agreement asked of the two objectives.
    progress : callable, optional
        Called with each Comparison as it is made.

    Returns
    -------
    Report
        The verdict, ``report.ok``, and what it rests on.

    Examples
    --------
    >>> import convexrank as cr
    >>> report = cr.verify(cr.problems.PNormPush, instances=2, seed=0)
    >>> report.ok, report.compared
    (True, 2)
    """
    check_integer(instances, "instances", 1)
    check_integer(seed, "seed", 0)
    check_positive(tol, "tol")
    comparisons = []
    for name, number, make in _instances(target, instances, seed):
        start = time.perf_counter()
        found = _compare(name, number, make(), solver, reference, tol)
        found = replace(found, seconds=time.perf_counter() - start)
        comparisons.append(found)
        if progress is not None:
            progress(found)
    return Report(tuple(comparisons))


def _instances(
    target: Any, instances: int, seed: int
) -> Iterable[tuple[str, int | None, Callable[[], Problem]]]:
    if target is None:
        from convexrank.problems import REGISTRY

        target = list(REGISTRY.values())
    if isinstance(target, Problem):
        yield type(target).__name__, None, lambda: target
    elif isinstance(target, type) and issubclass(target, Problem):
        if not hasattr(target, "random"):
            raise TypeError(f"{target.__name__} has no random instances; pass an instance of your own.")
        for number in range(seed, seed + instances):
            yield target.__name__, number, lambda number=number: target.random(number)  # type: ignore[attr-defined]
    elif isinstance(target, Iterable) and not isinstance(target, str):
        for item in target:
            yield from _instances(item, instances, seed)
    else:
        raise TypeError(f"target is {target!r}, expected a problem, a problem class, or several of them.")


def _compare(
    name: str, seed: int | None, problem: Any, solver: Any, reference: Any, tol: float
) -> Comparison:
    if "Exact" not in problem.capabilities:
        return Comparison(name, seed, skipped="no exact model")
    try:
        model = problem.to_cvxpy()
    except ValueError as error:  # a custom price or loss that cvxpy cannot read
        return Comparison(name, seed, skipped=f"no exact model: {error}")
    if not model.problem.is_dcp():
        return Comparison(name, seed, skipped="no exact model: cvxpy cannot verify that it is convex")
    failures = [*_check_oracles(problem, model, seed)]
    if failures:  # the two sides state different problems: solving them would compare nothing
        return Comparison(name, seed, failures=tuple(failures))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # statuses are compared below
        fast = _solve_fast(problem, solver)
        exact = problem.solve(reference)
    if exact.status in _ENDED or fast.status in _ENDED:
        if exact.status is not fast.status:
            failures.append(f"fast says {fast.status.name}, exact says {exact.status.name}")
        return Comparison(name, seed, failures=tuple(failures))
    if fast.status is not Status.CONVERGED:
        failures.append(f"fast did not converge: {fast.status.name}: {fast.message}")
    if exact.status is not Status.CONVERGED and not failures:
        return Comparison(
            name, seed, failures=tuple(failures), skipped=f"the reference failed: {exact.message}"
        )
    return _check_solutions(name, seed, problem, model, fast, exact, tol, failures)


def _solve_fast(problem: Any, solver: Any) -> Solution:
    if not (callable(solver) and not hasattr(solver, "requires")):
        return problem.solve(solver)
    answer = solver(problem)
    x = problem.check_point(answer, "the answer of your solver")
    certificate = problem.certificate(x)
    value = problem.objective(x)
    return Solution(
        x, value, certificate.gap, certificate.gap, Status.CONVERGED, 0, 0.0, {}, certificate,
        getattr(solver, "__name__", "callable"), type(problem).__name__, "",
    )  # fmt: skip


def _disagree(a: float, b: float, tolerance: float) -> bool:
    """Whether two values differ by more than the tolerance; NaN always does, equal infinities never."""
    if a == b:
        return False
    return not abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))


def _check_oracles(problem: Any, model: CvxpyModel, seed: int | None) -> Iterable[str]:
    """Value and slope of the oracle, and the reference's value, against the model at a few points."""
    rng = np.random.default_rng(12345 if seed is None else seed)
    precision = _SOLVED if model.auxiliary else _ORACLE
    for scale in (0.0, 0.3, 1.0):
        w = problem.repair(scale * rng.normal(size=problem.dimension))
        expected = model.value_at(w)
        value = problem.objective(w)
        if _disagree(value, expected, precision):
            yield f"objective {value:.10g}, the model gives {expected:.10g} at a random point"
        if "Convex" in problem.capabilities:
            reference = problem.reference_risk(w)[0] + problem.penalty.value(w)
            if _disagree(reference, expected, precision):
                yield f"the certificate's value {reference:.10g}, the model gives {expected:.10g}"
        if scale and "Convex" in problem.capabilities:
            yield from _check_slopes(problem, model, w, rng)


def _check_slopes(problem: Any, model: CvxpyModel, w: Array, rng: np.random.Generator) -> Iterable[str]:
    """Both subgradients against differences of the model's value: equal where smooth, else between the sides."""
    direction = rng.normal(size=len(w))
    direction /= np.linalg.norm(direction)

    # the model's objective holds l2 and l1; a ball is a constraint and has no value
    terms = replace(problem.penalty, ball=None)

    def risk(step: float) -> float:
        point = w + step * direction
        return model.value_at(point) - terms.value(point)

    width = _SOLVED_STEP if model.auxiliary else _STEP
    centre, ahead, behind = risk(0.0), risk(width), risk(-width)
    low, high = (centre - behind) / width, (ahead - centre) / width
    for name, oracle in (("oracle", problem.risk_and_subgradient), ("reference", problem.reference_risk)):
        slope = float(oracle(w)[1] @ direction)
        # one-sided differences bracket the slope of a convex function, up to rounding of the values
        noise = _SLOPE * max(1.0, abs(slope)) + 1e-15 * abs(centre) / _STEP * 10
        if not low - noise <= slope <= high + noise:
            yield f"slope of the {name} {slope:.8g} outside [{low:.8g}, {high:.8g}] of the model"


def _check_solutions(
    name: str,
    seed: int | None,
    problem: Any,
    model: CvxpyModel,
    fast: Solution,
    exact: Solution,
    tol: float,
    failures: list[str],
) -> Comparison:
    ours, theirs = model.value_at(fast.x), model.value_at(exact.x)
    scale = max(1.0, abs(theirs))
    error = abs(ours - theirs) / scale
    if not error <= tol:
        failures.append(f"objective {ours:.10g} at the fast point, {theirs:.10g} at the exact one")
    for which, solution, value in (("fast", fast, ours), ("exact", exact, theirs)):
        if _disagree(solution.value, value, _SOLVED if model.auxiliary else _ORACLE):
            failures.append(f"{which} reports the value {solution.value:.10g}, the model gives {value:.10g}")
        if not math.isfinite(problem.objective(solution.x)):
            failures.append(f"the {which} point violates the constraints")
    certificate = fast.certificate
    if certificate.kind != "residual":
        best = min(ours, theirs)
        slack = (_SOLVED if model.auxiliary else 1e-9) * scale
        if not certificate.lower_bound <= best + slack:
            failures.append(
                f"certified lower bound {certificate.lower_bound:.10g} above a known value {best:.10g}"
            )
        if not ours - certificate.lower_bound <= certificate.gap + slack:
            failures.append("the certified gap is smaller than value less lower bound")
    point_error = math.nan
    if getattr(problem, "unique", False):
        distance = float(np.linalg.norm(fast.x - exact.x))
        point_error = distance / max(1.0, float(np.linalg.norm(exact.x)))
        # strong convexity: ‖x − x*‖² ≤ 2 (value − optimum) / l2, for both points
        allowed = sum(math.sqrt(2.0 * max(s.gap, 1e-14 * scale) / problem.l2) for s in (fast, exact))
        if not distance <= allowed:
            failures.append(f"points differ by {distance:.3g}, at most {allowed:.3g} is possible")
    return Comparison(name, seed, error, point_error, tuple(failures))
