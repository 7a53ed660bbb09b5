"""What solving a problem returns: how it ended, a bound on the error, and the evidence for it."""

from __future__ import annotations

import enum
import json
import math
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

__all__ = ["Certificate", "ConvergenceWarning", "Solution", "Status", "Witness"]

Array = np.ndarray


class ConvergenceWarning(UserWarning):
    """The solver stopped before the certificate met the tolerance, or the answer is a minimum that is worth nothing."""


class Status(enum.Enum):
    """How a solve ended; the value is the message."""

    CONVERGED = "the certificate meets the tolerance"
    MAX_ITER = "the iteration limit was reached first; raise max_iter, or warm-start with x0=solution"
    TIME_LIMIT = "the time limit was reached first; raise time_limit, or warm-start with x0=solution"
    INTERRUPTED = "interrupted; this is the best point so far, continue with x0=solution"
    SEPARABLE = (
        "a direction ranks every pair as asked, so the infimum is approached as its length grows and never attained; "
        "add l2 or l1"
    )
    UNBOUNDED = "the objective falls without bound along the returned direction; add l2, or more l1"
    INFEASIBLE = "no point satisfies the constraints"
    FAILED = "the solver made no further progress before the certificate met the tolerance"

    @property
    def message(self) -> str:
        """What the status means and what to do."""
        return self.value


@dataclass(frozen=True)
class Witness:
    r"""Points whose subgradients, averaged with the weights, prove a lower bound.

    For a convex risk R, points :math:`\theta_j` with subgradients :math:`u_j` and weights :math:`\lambda` on the
    simplex give :math:`R(\theta) \ge \sum_j \lambda_j [R(\theta_j) + \langle u_j, \theta-\theta_j\rangle]`.
    A witness is evidence, not trust: a certificate evaluates risk and subgradients again.

    Parameters
    ----------
    points : ndarray, shape (m, d)
        The points :math:`w_j`, whose scores are :math:`\theta_j = Xw_j`.
    weights : ndarray, shape (m,)
        The weights :math:`\lambda_j`, at least 0; they are scaled to sum to 1.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.RmaxPush([[3.0], [1.0], [2.0], [0.0]], [1, 1, 0, 0], "hinge", l2=0.1)
    >>> witness = problem.solve().witness
    >>> witness.points.shape == (len(witness.weights), 1)
    True
    """

    points: Array
    weights: Array


@dataclass(frozen=True)
class Certificate:
    """A bound on the error at a point, and what kind of bound it is.

    Parameters
    ----------
    gap : float
        The bound. Infinity when nothing is proved.
    value, lower_bound : float
        The objective at the point and the proved lower bound on the optimum, in the sense of ``kind``; NaN and
        −infinity where there is no objective.
    kind : str
        ``"global"``: value − inf. ``"ball"``: value − minimum over ‖w‖₂ ≤ radius, the best that is provable where
        nothing bounds the minimiser. ``"distance"``: the distance from the point to the solution, in ``metric``.
        ``"violation"``: how far the point is from satisfying the constraints of a feasibility problem, in ``metric``.
        ``"residual"``: not a bound on an error but the residual of the method; a small one says that the point is
        stationary, of a problem that is not convex, or a fixed point, and not that it is a global minimum.
    radius : float
        The radius for kind "ball"; infinity otherwise.
    metric : str
        What the distance or the violation is measured in, such as "L1 norm".

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> certificate = problem.certificate([0.0])
    >>> certificate.kind, bool(certificate.gap >= certificate.value - problem.solve().value)
    ('global', True)
    """

    gap: float
    value: float
    lower_bound: float
    kind: str = "global"
    radius: float = float("inf")
    metric: str = ""

    def __str__(self) -> str:
        if self.kind == "distance":
            return f"the distance to the solution is at most {self.gap:.3g} ({self.metric})"
        if self.kind == "violation":
            least = f"; by every point, at least {self.lower_bound:.3g}" if self.lower_bound > 0 else ""
            return f"the constraints are violated by at most {self.gap:.3g} ({self.metric}){least}"
        if self.kind == "ball":
            return f"value - minimum over ||w|| <= {self.radius:.3g} is at most {self.gap:.3g}"
        if self.kind == "residual":
            what = (
                "no bound on an error"
                if math.isnan(self.value)
                else "a stationary point, no proof of a minimum"
            )
            return f"residual {self.gap:.3g}: {what}"
        return f"value - optimum is at most {self.gap:.3g}"


@dataclass(frozen=True)
class Solution:
    """What a solver returns.

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
        Steps of the solver; 0 for the exact one.
    seconds : float
        Wall time, compilation included.
    trace : dict of str to ndarray
        "objective", "gap" (the solver's estimate; the certificate's at the end) and "seconds", one entry an
        iteration kept.
    certificate : Certificate
        The bound at x, and its kind.
    solver, problem : str
        Names.
    message : str
        The status's message, with what is particular to this run.
    witness : Witness or None
        Evidence for the certificate of a non-smooth problem.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> solution = problem.solve()
    >>> solution.converged, solution.certificate.kind, bool(solution.gap < 1e-8)
    (True, 'global', True)
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

    @property
    def converged(self) -> bool:
        """Whether the certificate met the tolerance."""
        return self.status is Status.CONVERGED

    def save(self, path: Any) -> None:
        """Write to one ``.npz`` file that :meth:`load` reads; nothing in it is executable."""
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
        with open(path, "wb") as file:
            np.savez(file, x=self.x, plain=np.array(json.dumps(plain)), **arrays)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            plain = json.loads(str(stored["plain"]))
            trace = {key.removeprefix("trace_"): stored[key] for key in stored if key.startswith("trace_")}
            witness = (
                Witness(stored["witness_points"], stored["witness_weights"])
                if "witness_points" in stored
                else None
            )
            x = stored["x"]
        plain["status"] = Status[plain["status"]]
        plain["certificate"] = Certificate(**plain["certificate"])
        return cls(x=x, trace=trace, witness=witness, **plain)
