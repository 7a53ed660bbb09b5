"""The verifier: compare the fast solver with the exact model, on random instances or on given ones.

For each convex instance it compares the compiled oracle, the cvxpy model, the reference code of the certificate and the
definition, plain loops from the source's formula, and the solution of the fast solver with that of the conic solver.
Fixed points are compared with a slow reference, feasibility problems with the verdict of the conic solver: one module
for each kind.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from convexrank.backend.interruption import as_a_whole
from convexrank.backend.progress import progress_bar
from convexrank.core.capabilities import (
    Certified,
    Exact,
    Feasibility,
    FixedPoint,
    Referenced,
    Solvable,
    has_objective,
    offers,
)
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.loop import scale_of
from convexrank.core.problem import Problem
from convexrank.core.results import Solution, Status
from convexrank.core.solving import compiled_for
from convexrank.data import check_flag, check_integer, check_positive, shown
from convexrank.data.display import html_table
from convexrank.data.messages import progress_as_verbose
from convexrank.solvers.jitted.devices import find_device
from convexrank.verification.comparison import CONIC, REFERENCE, Case, Comparison, compare_convex, is_named
from convexrank.verification.definitions import (
    classes,
    takes_designs,
    with_definition,
    with_design,
    with_proof,
)

__all__ = ["Comparison", "Report", "verify"]

# How far from the reference certificates are asked: factors exp(scale · normal).
_SCALES = (0.0, 1e-8, 1e-4, 1e-2, 1.0)


def compare(case: Case) -> Comparison:
    """Compare the fast solver with the exact side on one instance, and both with the definition."""
    case.tell("oracles and answers")
    found = _compared(case)
    case.tell("the definition")
    return with_definition(case, found)


def _compared(case: Case) -> Comparison:
    problem = case.problem
    if case.device is not None and case.solver is None and not compiled_for(problem):
        return case.skipped("no compiled solver fits it")
    if offers(problem, Exact) and "Feasibility" in problem.capabilities:
        return compare_feasibility(case, problem)
    if offers(problem, Exact) and has_objective(problem):
        return compare_convex(case, problem)
    if offers(problem, Referenced):
        return compare_fixed_point(case, problem)
    return case.skipped("no exact model and no reference")


def compare_feasibility(case: Case, problem: Exact) -> Comparison:
    """Compare a problem without an objective that has an exact model."""
    model = problem.to_cvxpy()
    fast, exact = case.solve_fast(), case.solve_exact()
    if exact.status not in (Status.CONVERGED, Status.INFEASIBLE):
        return case.skipped(f"the reference failed: {exact.message}")
    if fast.status is not exact.status:
        return case.found(
            [f"{case.side} says {fast.status.name}, exact says {exact.status.name}: {fast.message}"]
        )
    failures = [*_check_violations(problem, model, exact, case.random())]
    error = math.nan
    if fast.status is Status.CONVERGED:
        error = model.distance_to(fast.x) / max(1.0, float(np.linalg.norm(fast.x)))
        if not error <= max(case.tol, CONIC):
            failures.append(f"{case.point} is {error:.3g} from the model's feasible points")
        if not problem.face(Feasibility).violation(fast.x) <= fast.gap + REFERENCE * scale_of(fast.gap):
            failures.append(f"the violation of {case.point} exceeds what is certified, {fast.gap:.3g}")
    return case.found(failures, point_error=error)


def _check_violations(
    problem: Solvable, model: CvxpyModel, exact: Solution, rng: np.random.Generator
) -> Iterable[str]:
    """Check that the violation is zero where the model is satisfied, and nowhere else."""
    centre = exact.x if exact.status is Status.CONVERGED else np.zeros(problem.dimension)
    for scale in (0.0, 1e-3, 1.0):
        point = centre + scale * rng.normal(size=problem.dimension)
        far, violation = model.distance_to(point), problem.face(Feasibility).violation(point)
        if far <= CONIC and not violation <= 10.0 * math.sqrt(CONIC):
            yield f"violation {violation:.3g} at a point that satisfies the model"
        if far > math.sqrt(CONIC) and not violation > REFERENCE:
            yield f"violation {violation:.3g} at a point {far:.3g} away from the model's feasible points"


def compare_fixed_point(case: Case, problem: Referenced) -> Comparison:
    """Compare a problem that has a reference of its own."""
    truth = problem.reference()
    failures = []
    if offers(problem, FixedPoint):
        moved = problem.distance(problem.apply_map(truth), truth)
        if not moved <= REFERENCE:
            failures.append(f"the map moves the reference by {moved:.3g}")
    failures += _check_distances(problem, truth, case.random())
    fast = case.solve_fast()
    error = problem.distance(fast.x, truth)
    if fast.status is not Status.CONVERGED:
        failures.append(f"{case.side} did not converge: {fast.status.name}: {fast.message}")
    if not error <= case.tol:
        failures.append(f"{case.point} is {error:.3g} from the reference")
    if fast.certificate.kind == "distance" and not error <= fast.gap + REFERENCE:
        failures.append(
            f"{case.point} is {error:.3g} from the reference, its certificate says {fast.gap:.3g}"
        )
    return case.found(failures, point_error=error)


def _check_distances(problem: Referenced, truth: np.ndarray, rng: np.random.Generator) -> Iterable[str]:
    """Compare certificates at points near and far with the distance to the reference."""
    if not offers(problem, Certified):
        return
    for scale in _SCALES:
        point = problem.project_feasible(truth * np.exp(scale * rng.normal(size=truth.shape)))
        certificate = problem.certificate(point)
        error = problem.distance(point, truth)
        if certificate.kind == "distance" and not error <= certificate.gap + REFERENCE:
            yield f"a point {error:.3g} from the reference is certified to {certificate.gap:.3g}"


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
        True when at least one comparison was made and nothing disagreed.
    compared, skipped : int, list of str
        The number of compared instances, and the reasons for which others were skipped.
    failures : list of str
        All disagreements, with their seeds.
    proved, unproved : int, dict of str to int
        The number of proved bounds, and the reasons of the others with their numbers; 0 and empty without ``prove``.
    not_compared : dict of str to int
        Reasons for which a second statement of the formula, its definition, was not compared, with their numbers.
    worst : dict
        Largest relative objective error, largest relative point error (where the minimiser is unique) and the seed of
        the former (of the latter where there is no objective).

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
        return [f"{item.instance}: {item.skipped}" for item in self.comparisons if item.skipped]

    @property
    def proved(self) -> int:
        """Number of instances whose bound was proved."""
        return sum(item.proved is True for item in self.comparisons)

    @property
    def unproved(self) -> dict[str, int]:
        """Reasons for which bounds were not proved, with their numbers."""
        reasons = [f"{item.problem}: {item.unproved}" for item in self.comparisons if item.proved is False]
        return {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}

    @property
    def not_compared(self) -> dict[str, int]:
        """Reasons for which there was no second statement to compare with, with their numbers."""
        reasons = [item.not_compared for item in self.comparisons if item.not_compared]
        return {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}

    @property
    def failures(self) -> list[str]:
        """All disagreements."""
        return [f"{item.instance}: {text}" for item in self.comparisons for text in item.failures]

    @property
    def ok(self) -> bool:
        """Whether each problem had at least one comparison, and nothing disagreed."""
        groups = self._groups()
        something_compared = all(any(not item.skipped for item in items) for items in groups.values())
        return bool(groups) and something_compared and not self.failures

    @property
    def worst(self) -> dict[str, Any]:
        """Largest errors, with their seeds."""
        compared = [item for item in self.comparisons if not item.skipped]
        if not compared:
            return {"objective_error": math.nan, "point_error": math.nan, "seed": None}
        most = max(compared, key=_badness)
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
            "proved": self.proved,
            "unproved": self.unproved,
            "not_compared": self.not_compared,
            "comparisons": [asdict(item) for item in self.comparisons],
        }

    def __repr__(self) -> str:
        verdict = "ok" if self.ok else "FAILED" if self.failures else "NOT COMPARED"
        count = len(self.failures)
        failed = f", {count} disagreement{'s' * (count > 1)}" if count else ""
        return f"Report: {verdict}, {self.compared} compared, {len(self.skipped)} skipped{failed}"

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        return html_table(repr(self), rows, head)

    def _table(self) -> list[tuple[str, ...]]:
        """A head and one row for each problem."""
        head = (
            "problem",
            "compared",
            "skip",
            "value",
            "point",
            "seed",
            "time",
            "verdict",
        )
        asked = any(item.proved is not None for item in self.comparisons)
        head = (*head, "proved") if asked else head
        rows: list[tuple[str, ...]] = [head]
        for name, items in self._groups().items():
            part = Report(tuple(items))
            worst = part.worst
            rows.append(
                (
                    name,
                    str(part.compared),
                    str(len(part.skipped)),
                    _shown(worst["objective_error"]),
                    _shown(worst["point_error"]),
                    "-" if worst["seed"] is None else str(worst["seed"]),
                    f"{sum(item.seconds for item in items):.1f}",
                    "ok" if part.ok else ("FAILED" if part.failures else "NOT COMPARED"),
                    *([f"{part.proved} of {len(items)}"] if asked else []),
                )
            )
        return rows

    def __str__(self) -> str:
        rows = self._table()
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines += [f"disagreement: {text}" for text in self.failures] + [
            f"skipped: {text}" for text in self.skipped
        ]
        lines += [f"not proved, {count} times: {reason}" for reason, count in self.unproved.items()]
        lines += [f"not compared, {count} times: {reason}" for reason, count in self.not_compared.items()]
        return "\n".join(lines)


def _shown(error: float) -> str:
    """An error in the table; a dash where there is none."""
    return "-" if math.isnan(error) else f"{error:.1e}"


def _badness(item: Comparison) -> float:
    """The error that determines the worst instance: of the objective, or of the point if there is no objective."""
    for error in (item.objective_error, item.point_error):
        if not math.isnan(error):
            return error
    return 0.0


@progress_as_verbose
@as_a_whole
def verify(
    target: Any = None,
    *,
    instances: int = 20,
    seed: int = 0,
    solver: Any = None,
    reference: Any = "exact",
    tol: float = 1e-6,
    prove: bool = False,
    designs: bool = False,
    device: Any = None,
    verbose: Callable[[Comparison], Any] | bool | None = None,
) -> Report:
    """Compare the fast solver with the exact model, or with a slow reference where there is no objective.

    The definition of a problem, its formula as plain loops, is compared with objective and certificate at the start, at
    random points and at both answers; ``report.not_compared`` says where there is none.

    Parameters
    ----------
    target : Problem, Problem class, iterable of either, or None
        An instance of a problem; or a class, of which random instances are drawn; or None for all registered problems.
    instances : int
        Number of random instances of each class.
    seed : int
        First seed; instance j uses seed + j, so that ``Class.random(seed)`` reproduces every disagreement.
    solver : None, str, solver object, callable, array, OptimizeResult or Solution
        The fast solver, or your own algorithm: a callable takes the problem and returns a point, as an array, as
        scipy's OptimizeResult or as a Solution. For an instance, the answer itself may be passed.
    reference : str or solver object
        The exact solver.
    tol : float
        Relative tolerance of the two objectives; for problems without objective, the largest allowed distance.
    prove : bool
        Whether to prove the bound at each fast answer in ball arithmetic, and to count the proofs; see
        :mod:`convexrank.proof`.
    designs : bool
        Whether to draw random instances over :mod:`designs <convexrank.features>` of thresholds and products, for
        classes with linear scores. The fast solver never builds their columns; the exact model does.
    device : str or jax.Device, optional
        Where the fast solver runs, with its data: the compiled solvers are compared, as ``problem.solve(device=...)``
        chooses them. Instances that none of them fits are skipped; of all problems those with such a solver are taken.
    verbose : callable or bool, optional
        True shows a progress bar, which also says what is computed; a function is called with each Comparison.

    Returns
    -------
    Report
        The verdict ``report.ok``, and the comparisons.

    Raises
    ------
    ValueError, TypeError
        When an argument is out of range, or the answer of your solver is not a point with finite entries.
    KeyboardInterrupt
        When Ctrl-C is pressed, at the next step of a solve.

    Examples
    --------
    >>> import convexrank as cr
    >>> report = cr.verify(cr.problems.PNormPush, instances=2, seed=0)
    >>> report.ok, report.compared
    (True, 2)
    """
    instances, seed = check_integer(instances, "instances", 1), check_integer(seed, "seed", 0)
    check_positive(tol, "tol")
    check_flag(prove, "prove")
    check_flag(designs, "designs")
    if device is not None:
        find_device(device)
        if not is_named(solver):
            raise ValueError(
                f"device is {shown(device)}, and solver is your own, which runs where it likes; leave one of them out."
            )
    told = verbose if callable(verbose) else None
    if told is None and not isinstance(verbose, bool | None):
        raise TypeError(f"verbose is {shown(verbose)}, expected True, or a function of a Comparison.")
    comparisons = []
    if target is None:
        target = classes(designs, device, seed)
    cases = _instances(target, instances, seed, designs)
    bar = progress_bar(verbose is True, what="comparisons", over=cases)
    for name, number, make in bar:
        start = time.perf_counter()
        case = Case(
            name, number, make(), solver, reference, tol, device, lambda doing: bar.set_postfix_str(doing)
        )
        found = with_proof(case, compare(case)) if prove else compare(case)
        found = replace(found, seconds=time.perf_counter() - start)
        comparisons.append(found)
        if told is not None:
            told(found)
    return Report(tuple(comparisons))


def _instances(
    target: Any, instances: int, seed: int, designs: bool
) -> Iterable[tuple[str, int | None, Callable[[], Problem]]]:
    if isinstance(target, Problem):
        if designs:
            raise TypeError(
                "designs are made for random instances, and target is an instance; pass its class, or the problem over "
                "a design with designs=False."
            )
        yield type(target).__name__, None, lambda: target
    elif isinstance(target, type) and issubclass(target, Problem):
        if not hasattr(target, "random"):
            raise TypeError(f"{target.__name__} has no random instances; pass an instance of your own.")
        if designs and not takes_designs(target):
            raise TypeError(
                f"{target.__name__} has no linear scores, and takes no design; leave designs at False."
            )
        for number in range(seed, seed + instances):
            yield target.__name__, number, lambda number=number: _random(target, number, designs)
    elif isinstance(target, Iterable) and not isinstance(target, str) and getattr(target, "ndim", 1):
        for item in target:
            yield from _instances(item, instances, seed, designs)
    else:
        raise TypeError(f"target is {target!r}, expected a problem, a problem class, or several of them.")


def _random(problem: Any, seed: int, designs: bool) -> Problem:
    drawn = problem.random(seed)
    return with_design(drawn, seed) if designs else drawn
