"""Results of a solve: the point, the status, a bound on the error, and the evidence for it."""

from __future__ import annotations

import enum
import json
import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np

from convexrank.core.display import draw, solution_html, solution_line, solution_summary
from convexrank.data.files import replacing
from convexrank.data.messages import shown

__all__ = [
    "Certificate",
    "CertificateError",
    "ConvergenceWarning",
    "DeferredWitness",
    "Solution",
    "Status",
    "Witness",
]

Array = np.ndarray

# A gap that is so many times as large as the value leaves none of its 53 bits.
_LOST = 2.0**53

# Where the figure is: core names it and imports it when it is drawn, as it does with the solvers.
_TRACE = "plotting.convergence:trace"


class ConvergenceWarning(UserWarning):
    """The solver stopped before the certificate met the tolerance, or the answer is a trivial minimum."""


class CertificateError(ValueError):
    """Error of a missing proof; the message states the reason, and what would make a proof possible.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.IRPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0])
    >>> problem.prove([0.0])
    Traceback (most recent call last):
    convexrank.core.results.CertificateError: IRPush without a penalty: nothing bounds its minimiser, ...
    """


class Status(enum.Enum):
    """Status at the end of a solve; the value is the message."""

    CONVERGED = "the certificate meets the tolerance"
    MAX_ITER = "the iteration limit was reached first; raise max_iter, or warm-start with x0=solution"
    TIME_LIMIT = "the time limit was reached first; raise time_limit, or warm-start with x0=solution"
    INTERRUPTED = "interrupted; this is the best point so far, continue with x0=solution"
    SEPARABLE = (
        "a direction ranks every pair as asked, or the risk falls along it for ever, so that no minimum is attained; "
        "add l2 or l1"
    )
    UNBOUNDED = "the objective falls without bound along the returned direction; add l2, or more l1"
    INFEASIBLE = "no point satisfies the constraints"
    FAILED = "the solver made no further progress before the certificate met the tolerance"

    def __init__(self, message: str) -> None:
        #: The meaning of the status, and a remedy.
        self.message = message

    @property
    def lacks_minimum(self) -> bool:
        """Whether there is no minimum, so that a bound over a ball says nothing about the problem."""
        return self in (Status.SEPARABLE, Status.UNBOUNDED)


@dataclass(frozen=True, eq=False)
class Witness:
    r"""Points whose subgradients, averaged with the weights, prove a lower bound.

    For a convex risk R, points :math:`\theta_j` with subgradients :math:`u_j` and weights :math:`\lambda` on the
    simplex give :math:`R(\theta) \ge \sum_j \lambda_j [R(\theta_j) + \langle u_j, \theta-\theta_j\rangle]`.
    A certificate does not trust a witness: it evaluates risk and subgradients again.

    Parameters
    ----------
    points : ndarray, shape (m, d)
        The points :math:`w_j`, whose scores are :math:`\theta_j = Xw_j`.
    weights : ndarray, shape (m,)
        The weights :math:`\lambda_j`, at least 0; they are scaled to sum to 1.
    widths : ndarray, shape (m,), optional
        At a point with a width above 0, the multipliers of the risk smoothed with that width replace a
        subgradient; 0 by default.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.RmaxPush([[3.0], [2.0], [1.0], [0.0]], [1, 1, 0, 0], "hinge", l2=0.1)
    >>> witness = problem.solve().witness
    >>> witness.points.shape[1], round(float(witness.weights.sum()), 6)
    (1, 1.0)
    """

    points: Array
    weights: Array
    widths: Array | None = None

    @classmethod
    def of(cls, x: Any, given: Any) -> Self | None:
        """Return the witness that a caller passed, or that of a solution.

        Raises
        ------
        TypeError
            When the argument is not a witness.
        """
        chosen = x.witness if given is None and isinstance(x, Solution) else given
        if chosen is not None and not isinstance(chosen, cls):
            raise TypeError(
                f"witness is {shown(chosen)}, expected a Witness, such as solution.witness, or None."
            )
        return chosen

    def shares(self) -> Array | None:
        """Return the weights scaled to sum to 1; None if they are negative, not finite, or all zero."""
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.ndim != 1 or not np.isfinite(weights).all() or weights.min(initial=0.0) < 0.0:
            return None
        largest = weights.max(initial=0.0)
        if largest == 0.0:
            return None
        scaled = weights / largest  # the sum of huge weights would overflow
        return scaled / scaled.sum()

    def moved(self, by: Callable[[Array], Array]) -> Witness:
        """Return the witness at other points, which are made from these, one per row, when they are asked for."""
        return DeferredWitness(lambda: by(np.asarray(self.points)), self.weights, self.widths)

    def smoothing(self) -> Array | None:
        """Return a width per point; None if the given widths have another shape, or are negative or not finite."""
        shape = np.shape(self.weights)
        if self.widths is None:
            return np.zeros(shape)
        widths = np.asarray(self.widths, dtype=np.float64)
        return (
            widths if widths.shape == shape and np.isfinite(widths).all() and (widths >= 0.0).all() else None
        )

    @property
    def is_smoothed(self) -> bool:
        """Whether multipliers of smooth functions are part of it, which no side of a kink decides."""
        widths = self.smoothing()
        return widths is not None and bool(widths.any())


class DeferredWitness(Witness):
    """A witness whose points may be a function that makes them when asked: they are many, and long.

    Parameters
    ----------
    points : ndarray or callable
        The points, shape (m, d), or a function without arguments that returns them.
    weights, widths : ndarray, shape (m,)
        As for :class:`Witness`.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank.core.results import DeferredWitness
    >>> DeferredWitness(lambda: np.eye(2), np.ones(2)).points.shape
    (2, 2)
    """

    _points: Array | Callable[[], Array]

    def __init__(
        self, points: Array | Callable[[], Array], weights: Array, widths: Array | None = None
    ) -> None:
        self.__dict__.update(_points=points, weights=weights, widths=widths)

    @property
    def points(self) -> Array:  # type: ignore[override]
        """The points, shape (m, d)."""
        return self._points() if callable(self._points) else self._points

    def __reduce__(self) -> Any:
        return Witness, (self.points, self.weights, self.widths)


@dataclass(frozen=True)
class Certificate:
    """A bound on the error at a point, and the kind of the bound.

    Parameters
    ----------
    gap : float
        The bound; infinity if there is none.
    value, lower_bound : float
        The objective at the point, and the lower bound on the optimum in the sense of ``kind``; NaN and
        −infinity if there is no objective.
    kind : str
        The quantity that ``gap`` bounds. ``"global"``: value − infimum. ``"ball"``: value − minimum over ‖w‖₂ ≤ radius,
        for problems in which nothing bounds the minimiser, or only a very small penalty. ``"constrained"``: value −
        minimum under constraints that the caller added, and their violation, evaluated from multipliers in
        floating-point arithmetic; over ‖w‖₂ ≤ radius if that is finite. ``"distance"``: the distance
        from the point to the solution, in ``metric``. ``"violation"``: the violation of the constraints of a
        feasibility problem, in ``metric``.
        ``"residual"``: ``gap`` is the residual of the method and not a bound on an error. A small residual means that
        the point is nearly stationary, or nearly a fixed point, but not that it is a global minimum.
    radius : float
        The radius for kind "ball", and for "constrained" where nothing bounds the minimiser; infinity otherwise.
    metric : str
        The metric of the distance or the violation, such as "L1 norm". For kind "ball", the norm of the ball if it is
        not ‖w‖₂: ``"||w/units||"`` is the length in units of columns of different sizes.
    proved : bool
        Whether the bound is a theorem: evaluated in ball arithmetic, from the data as exact rational numbers.
    least : float
        A lower bound on value − optimum (or on the distance); minus infinity if it was not computed.
    remark : str
        A change of the problem to which the bound refers, such as an addition to a diagonal, or how far constraints are
        violated; empty without either.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> certificate = problem.certificate([0.0])
    >>> print(f"{certificate.kind}: {certificate.value - problem.solve().value:.3f} <= {certificate.gap:.3f}")
    global: 0.124 <= 2.813
    """

    gap: float
    value: float
    lower_bound: float
    kind: str = "global"
    radius: float = float("inf")
    metric: str = ""
    proved: bool = False
    least: float = -float("inf")
    remark: str = ""

    @property
    def says_nothing(self) -> bool:
        """Whether the gap is infinite, larger than the value over a ball, or leaves no bit of the value."""
        size = 1.0 if math.isnan(self.value) else max(1.0, abs(self.value))
        over_ball = self.kind in ("ball", "constrained") and math.isfinite(self.radius)
        return not math.isfinite(self.gap) or self.gap > (size if over_ball else _LOST * size)

    @property
    def interval(self) -> tuple[float, float]:
        """An interval that contains the bounded quantity, such as value − optimum for kind "global"."""
        return self.least, self.gap

    def __str__(self) -> str:
        remark = f", {self.remark}" if self.remark else ""
        return f"{self._statement()}{remark}, proved" if self.proved else f"{self._statement()}{remark}"

    def _statement(self) -> str:
        if self.kind == "distance":
            return f"the distance to the solution is at most {self.gap:.3g} ({self.metric})"
        if self.kind == "violation":
            least = f"; by every point, at least {self.lower_bound:.3g}" if self.lower_bound > 0 else ""
            return f"the constraints are violated by at most {self.gap:.3g} ({self.metric}){least}"
        if self.kind == "ball":
            return f"value - minimum over {self.metric or '||w||'} <= {self.radius:.3g} is at most {self.gap:.3g}"
        if self.kind == "constrained":
            ball = f" and ||w|| <= {self.radius:.3g}" if math.isfinite(self.radius) else ""
            return f"value - minimum under the constraints{ball} is at most {self.gap:.3g}"
        if self.kind == "residual":
            what = (
                "no bound on an error"
                if math.isnan(self.value)
                else "a stationary point, no proof of a minimum"
            )
            return f"residual {self.gap:.3g}: {what}"
        return f"value - optimum is at most {self.gap:.3g}"


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of a solve.

    Parameters
    ----------
    x : ndarray
        The point.
    value : float
        The objective at x.
    gap : float
        Bound on value − optimum from the certificate (see ``certificate`` for its kind).
    residual : float
        The solver's own measure of progress at x.
    status : Status
        How the solve ended.
    iterations : int
        Number of steps of the solver; 0 for the exact solver.
    seconds : float
        Wall time, compilation included.
    trace : dict of str to ndarray
        Arrays "objective", "gap" (the solver's estimate; the last entry is from the certificate) and "seconds", with
        one entry per kept iteration.
    certificate : Certificate
        The bound at x, and its kind.
    solver, problem : str
        Names of the solver and of the problem class.
    message : str
        The message of the status, with details of this run.
    witness : Witness or None
        Evidence for the certificate of a non-smooth problem.
    instance : Problem or None
        The problem itself, which :meth:`prove` needs; neither saved nor pickled, because it holds the data.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> solution = problem.solve()
    >>> solution
    Solution: CONVERGED (newton, 4 steps, 0.00083 s), value -0.1238, gap 3e-13 certified (global)
    """

    x: Array
    value: float
    gap: float
    residual: float
    status: Status
    iterations: int
    seconds: float
    trace: dict[str, Array] = field(repr=False)
    certificate: Certificate
    solver: str
    problem: str
    message: str = field(repr=False)
    witness: Witness | None = field(repr=False, default=None)
    instance: Any = field(repr=False, default=None)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the problem out."""
        return {**self.__dict__, "instance": None}

    def __eq__(self, other: object) -> bool:
        """Whether two solves ended at the same point in the same way; seconds and the problems are not compared."""
        if not isinstance(other, Solution):
            return NotImplemented
        return self._ending == other._ending and bool(np.array_equal(self.x, other.x, equal_nan=True))

    def __hash__(self) -> int:
        return hash(self._ending)

    @property
    def _ending(self) -> tuple[Any, ...]:
        """End of the solve, in words and certain numbers."""
        return self.problem, self.solver, self.status, self.iterations, repr(self.certificate)

    def __repr__(self) -> str:
        return solution_line(self)

    def _repr_html_(self) -> str:
        return solution_html(self)

    def summary(self) -> str:
        """Return a few lines: problem, status, value, bound, size of x, and the message of the run."""
        return solution_summary(self)

    def plot(self, **options: Any) -> Array:
        """Draw objective and gap against steps or time; options and result as of :func:`convexrank.plotting.trace`."""
        return draw(_TRACE, self, **options)

    def prove(self) -> Certificate:
        """Prove the bound, in ball arithmetic; see :meth:`convexrank.Problem.prove`.

        Raises
        ------
        CertificateError
            When nothing can be proved, or the solution came from a file and has no problem.
        """
        return problem_of(self, "call problem.prove(solution)").prove(self)

    def export(self, path: Any) -> Any:
        """Write a folder with a proof of the bound, which an independent program checks: ``convexrank check PATH``.

        Parameters
        ----------
        path : path
            The folder.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        CertificateError
            When nothing can be proved, or the checking program does not support the formulation.
        """
        return problem_of(self, "call problem.export(solution, path)").export(self, path)

    @property
    def dual(self) -> Solution:
        """The dual point of this solution, with its own gap; see :class:`convexrank.problems.RankingDual`.

        Raises
        ------
        ValueError
            When the problem has no dual, or no minimiser, or the solution has no problem.
        """
        return problem_of(self, "solve problem.dual() instead")._dual_solution(self)

    @property
    def weights(self) -> Array:
        """Dual weights, the influence of each row, shape (n,), in the order of X; positive for rows that are pulled up.

        Raises
        ------
        ValueError
            As for :attr:`dual`.
        """
        found = self.dual
        return found.instance.weights(found)

    @property
    def converged(self) -> bool:
        """Whether the certificate met the tolerance."""
        return self.status is Status.CONVERGED

    def save(self, path: Any) -> None:
        """Write to one ``.npz`` file that :meth:`load` reads; nothing in it is executable.

        An existing file is replaced only when the new one is complete: if the disk is full, the old file stays.
        """
        plain = {
            "value": self.value,
            "gap": self.gap,
            "residual": self.residual,
            "status": self.status.name,
            "iterations": self.iterations,
            "seconds": self.seconds,
            "certificate": vars(self.certificate),
            "solver": self.solver,
            "problem": self.problem,
            "message": self.message,
        }
        arrays: dict[str, Any] = {f"trace_{key}": values for key, values in self.trace.items()}
        if self.witness is not None:
            arrays |= {"witness_points": self.witness.points, "witness_weights": self.witness.weights}
            if self.witness.widths is not None:
                arrays["witness_widths"] = self.witness.widths
        with replacing(path) as file:
            np.savez(file, x=self.x, plain=np.array(json.dumps(plain)), **arrays)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read a file that :meth:`save` wrote.

        Raises
        ------
        ValueError
            When the file is of another kind; the message has path and reason. Nothing in a file is executed.
        OSError
            When the file cannot be opened.
        """
        with open(path, "rb") as file:
            try:
                return cls._read(file)
            except Exception as error:  # zip, numpy and JSON know dozens of ways to fail on junk
                reason = f"{type(error).__name__}: {error}"
                raise ValueError(f"{path} is no solution written by Solution.save ({reason}).") from error

    @classmethod
    def _read(cls, file: Any) -> Self:
        if not zipfile.is_zipfile(file):
            raise ValueError("no .npz file")
        with np.load(file, allow_pickle=False) as stored:
            arrays = dict(stored)
        plain = json.loads(str(arrays["plain"]))
        plain["status"] = Status[plain["status"]]
        plain["certificate"] = Certificate(**plain["certificate"])
        trace = {key.removeprefix("trace_"): arrays[key] for key in arrays if key.startswith("trace_")}
        witness = None
        if "witness_points" in arrays:
            widths = arrays.get("witness_widths")
            witness = Witness(arrays["witness_points"], arrays["witness_weights"], widths)
        found = cls(x=arrays["x"], trace=trace, witness=witness, **plain)
        for part in (found, found.certificate):
            _refuse_other_types(part)
        return found


def check_solution(solution: Any, expected: str = "a Solution, as problem.solve() returns it") -> Solution:
    """Return a solution; refuse anything else."""
    if not isinstance(solution, Solution):
        raise TypeError(f"solution is {shown(solution)}, expected {expected}.")
    return solution


def problem_of(solution: Solution, remedy: str) -> Any:
    """Return the problem of a solution; one from a file or a pickle has none."""
    if solution.instance is None:
        raise CertificateError(f"this solution came from a file or a pickle without its problem; {remedy}.")
    return solution.instance


def _refuse_other_types(part: Solution | Certificate) -> None:
    """Refuse text for numbers and the like: a file may hold anything under the right names."""
    kinds = {"float": float | int, "int": int, "str": str}
    for one in fields(part):
        value = getattr(part, one.name)
        if one.type in kinds and (isinstance(value, bool) or not isinstance(value, kinds[str(one.type)])):
            raise TypeError(f"{one.name} is {value!r}, expected {one.type}")
        if one.type == "Array" and value.dtype.kind not in "iuf":
            raise TypeError(f"{one.name} holds {value.dtype} values, expected numbers")


def found_at(
    x: Array,
    certificate: Certificate,
    status: Status,
    message: str,
    seconds: float,
    problem: Any,
    name: str,
) -> Solution:
    """Return the solution at a point that no solve of its own ended at."""
    return Solution(
        x=np.array(x),
        value=certificate.value,
        gap=certificate.gap,
        residual=certificate.gap,
        status=status,
        iterations=0,
        seconds=seconds,
        trace={
            "objective": np.array([certificate.value]),
            "gap": np.array([certificate.gap]),
            "seconds": np.array([seconds]),
        },
        certificate=certificate,
        solver="solve_many",
        problem=name,
        message=message,
        witness=None,
        instance=problem,
    )
