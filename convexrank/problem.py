"""Problems, what they can do, and what solving one returns."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from convexrank.capabilities import (
    Affine,
    Blocks,
    Certified,
    Constraints,
    Convex,
    Coordinates,
    Curvature,
    Exact,
    Feasibility,
    Field,
    FixedPoint,
    Flows,
    Lipschitz,
    Proximal,
    Referenced,
    Restarts,
    Saddle,
    SingleIndex,
    Smooth,
    Terms,
)
from convexrank.data import check_vector
from convexrank.models import CvxpyModel

__all__ = [
    "Affine",
    "Blocks",
    "Certificate",
    "Certified",
    "Constraints",
    "ConvergenceWarning",
    "Convex",
    "Coordinates",
    "Curvature",
    "CvxpyModel",
    "Exact",
    "Feasibility",
    "Field",
    "FixedPoint",
    "Flows",
    "Lipschitz",
    "Problem",
    "Proximal",
    "Referenced",
    "Restarts",
    "Saddle",
    "SingleIndex",
    "Smooth",
    "Solution",
    "Status",
    "Terms",
    "Witness",
]

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
        ``"residual"``: not a bound on an error but the residual of the method.
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
            return f"residual {self.gap:.3g} (no bound on the objective)"
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


class Problem:
    """A formulation with its data, immutable. Subclasses are frozen dataclasses that state their capabilities.

    A capability is offered when the class has its methods *and* names it in ``capabilities``, which may depend on the
    instance: a push with the hinge loss is convex but not smooth.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> sorted(problem.capabilities)
    ['Certified', 'Convex', 'Coordinates', 'Curvature', 'Exact', 'Proximal', 'Smooth']
    """

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of the protocols of :mod:`convexrank.problem` that this instance fulfils."""
        raise NotImplementedError

    @property
    def dimension(self) -> int:
        """Number of unknowns."""
        raise NotImplementedError

    @property
    def has_objective(self) -> bool:
        """Whether there is an objective; fixed points, fields and feasibility problems have none, and value NaN."""
        return not {"FixedPoint", "Feasibility", "Field"} & self.capabilities

    @property
    def model_forms(self) -> frozenset[str]:
        """Keyword arguments of ``to_cvxpy`` that give the same model in another form, tried when one form fails."""
        return frozenset()

    @property
    def model_is_nonlinear(self) -> bool:
        """Whether the exact model is convex by a theorem only, and goes to a nonlinear solver."""
        return False

    @property
    def strong_convexity(self) -> float:
        """A modulus of strong convexity of the objective in the Euclidean norm; 0 when none is known."""
        return 0.0

    def start(self) -> Array:
        """Return the point at which solvers start unless told otherwise."""
        return np.zeros(self.dimension)

    def check_point(self, x: Any, name: str = "x") -> Array:
        """Return x as an array of the right shape; a Solution stands for its point."""
        return check_vector(x.x if isinstance(x, Solution) else x, self.dimension, name, each="unknown")

    def repair(self, x: Array) -> Array:
        """Return a feasible point near x; conic solvers violate constraints by their tolerance."""
        return x

    def prox(self, v: Array, step: float) -> Array:
        """Return the proximal map of constraints and of terms that are not smooth: v where there are none."""
        return v

    def value_at(self, x: Array) -> float:
        """Return the objective at x, NaN where there is none."""
        return self.objective(x) if self.has_objective else float("nan")

    @property
    def default_solver(self) -> str:
        """Name of the solver used when none is asked for."""
        raise NotImplementedError

    def objective(self, w: Any) -> float:
        """Evaluate the objective."""
        raise NotImplementedError

    def terminal_status(self, w: Array) -> Status | None:
        """Recognise at w that no minimiser exists (separable data, unbounded objective); None otherwise."""
        return None

    def remark(self, x: Array) -> str:
        """Say what a caller has to know about an answer that was found as asked, such as that it is worthless."""
        return ""

    def is_suspicious(self, w: Array) -> bool:
        """Whether a converged point is reason to ask :meth:`nonexistence` all the same."""
        return False

    def nonexistence(self) -> tuple[Status, Array, str] | None:
        """Explain, after a solve that did not converge, why no minimiser exists: status, direction, detail."""
        return None

    def solve(
        self,
        solver: Any = None,
        *,
        tol: float = 1e-8,
        max_iter: int | None = None,
        time_limit: float | None = None,
        x0: Any = None,
        callback: Callable[[Any], Any] | None = None,
        progress: bool = False,
    ) -> Solution:
        """Solve, fast by default, exactly with ``solver="exact"``.

        Parameters
        ----------
        solver : None, str or solver object
            None takes the default for the problem; a name is one of ``solvers.available(problem)``, or
            ``"exact:SCS"`` to pick the conic solver.
        tol : float
            Converged means: certified gap ≤ tol · max(1, \\|value\\|). Where the certificate bounds a distance to the
            solution or a violation, tol is absolute: the true error is at most tol.
        max_iter : int, optional
            Iteration limit; each solver has its own default.
        time_limit : float, optional
            Seconds.
        x0 : array or Solution, optional
            Starting point (warm start).
        callback : callable, optional
            Called with the state after each iteration (``state.x``, ``state.value``, ``state.iteration``); returning
            True stops with status INTERRUPTED.
        progress : bool
            Show a progress bar.

        Returns
        -------
        Solution
            The point, its certificate, and how it was found.

        Raises
        ------
        ValueError, TypeError
            For an unknown solver, one that does not fit the problem, or options out of range.

        Warns
        -----
        ConvergenceWarning
            When the status is not CONVERGED, or the problem has a remark on the answer (see ``solution.message``).
        """
        # The one door that looks upward: solvers import problems, never the other way round.
        from convexrank.solvers import solve

        return solve(
            self,
            solver,
            tol=tol,
            max_iter=max_iter,
            time_limit=time_limit,
            x0=x0,
            callback=callback,
            progress=progress,
        )
