"""Capabilities of problems: protocols and faces, which declare all members that solvers call.

A solver lists the names of the capabilities that it needs. What many methods call are members of the problem: a
protocol declares them, and the signature of a solver states it for the type checker. What one family of methods calls
is a :class:`Face`, a small object of its own that the problem makes when it is asked: ``problem.face(FiniteSum)``. The
faces of problems with rows are in ``convexrank/solvers/row_faces.py``, those of graphs and games in
``convexrank/solvers/graph_faces.py``, and what certificates and proofs read in ``convexrank/core/minorants.py``.
``JaxObjective``, ``JaxCurved`` and ``JaxProximal`` say which functions of the face ``Compiled`` there are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.results import Certificate, Solution, Status, Witness
from convexrank.regularizers import Penalty

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = [
    "Advice",
    "Batched",
    "Certified",
    "CertifiedInParts",
    "Convex",
    "Exact",
    "Existence",
    "Face",
    "Feasibility",
    "Field",
    "FixedPoint",
    "Modelled",
    "Ordered",
    "Proximal",
    "Referenced",
    "Shape",
    "Smooth",
    "Solvable",
    "TwiceDifferentiable",
    "has_face",
    "has_objective",
    "members",
    "offers",
    "value_at",
]

Array = np.ndarray


class Face:
    """What one family of methods asks of a problem, as an object of its own, with the members that the methods call.

    A problem that names the class in ``capabilities`` makes the object in a method with the name of the class, such as
    ``_finite_sum`` for ``FiniteSum``. ``problem.face(FiniteSum)`` calls it. It is a method, not an entry of a table, so
    that a derived class overrides it and may ask ``super()``.
    """

    maker: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.maker = re.sub(r"(?=[A-Z])", "_", cls.__name__).lower()


F = TypeVar("F", bound=Face)
K = TypeVar("K", bound="Solvable")


def has_face(problem: object, kind: type[Face]) -> bool:
    """Return whether an object is a problem that makes a face."""
    return hasattr(problem, kind.maker)


class Method(Protocol):
    """The members of a method that the loop's bookkeeping uses, for iterative and other methods."""

    @property
    def name(self) -> str:
        """The name under which the registry knows it."""
        ...

    @property
    def requires(self) -> frozenset[str]:
        """Names of the capabilities that a problem must offer."""
        ...

    @property
    def default_max_iter(self) -> int:
        """Iteration limit when the caller gives none."""
        ...


#: What a caller may give as a solver: None for the default, a name, a solver, or a function of the problem.
SolverLike: TypeAlias = Method | Callable[[Any], Any] | str | None


@runtime_checkable
class Solvable(Protocol):
    """Members that the loop and every solver may use; :class:`convexrank.Problem` implements most of them."""

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of the protocols that this instance fulfils."""
        ...

    @property
    def default_solver(self) -> str:
        """Name of the default solver."""
        ...

    @property
    def dimension(self) -> int:
        """Number of unknowns."""
        ...

    def face(self, kind: type[F]) -> F:
        """Return what one family of methods asks of this problem."""
        ...

    def solve(
        self,
        solver: SolverLike = None,
        *,
        tol: float = 1e-8,
        max_iter: int | None = None,
        time_limit: float | None = None,
        x0: Any = None,
    ) -> Solution:
        """Solve."""
        ...

    def changed(self, **values: Any) -> Any:
        """Return the same problem with other parameters."""
        ...

    def start(self) -> Array:
        """Return the point at which solvers start unless told otherwise."""
        ...

    def check_point(self, x: Any, name: str = "x") -> Array:
        """Return x as an array of the right shape."""
        ...

    def objective(self, w: Any) -> float:
        """Evaluate the objective."""
        ...

    def project_feasible(self, x: Array) -> Array:
        """Return a feasible point near x."""
        ...

    def prox(self, v: Array, step: float) -> Array:
        """Return the proximal map of the part that is not smooth; v where there is none."""
        ...


@dataclass(frozen=True)
class Advice(Face):
    """What a problem says about how it is solved, and about an answer.

    Parameters
    ----------
    adapted : callable
        Takes a solver to the one that runs in its place, such as in other variables. With the options of a solve that
        begins it refuses what processes are asked differently; None elsewhere.
    reason : callable
        Returns why the default solver is the default, in a few words; may be empty.
    remark : callable
        Takes an answer that met the tolerance to a remark, such as that it is trivial; may be empty.
    seeks_evidence : bool
        Whether a certificate without a witness looks for one otherwise than by a solve.
    """

    adapted: Callable[[Method, Any], Any]
    reason: Callable[[], str]
    remark: Callable[[Solution], str]
    seeks_evidence: bool = True


@dataclass(frozen=True)
class Shape(Face):
    """What is known of the shape of an objective beforehand.

    Parameters
    ----------
    column_scales : ndarray, shape (d,)
        Scales of the unknowns that equalise their effects on the objective, powers of two.
    strong_convexity : float
        A modulus of strong convexity in the Euclidean norm; 0 when none is known.
    risk_infimum : float
        A number that the risk is never below; minus infinity if none is known.
    """

    column_scales: Array
    strong_convexity: float = 0.0
    risk_infimum: float = -math.inf


@dataclass(frozen=True)
class Batched(Face):
    """Many problems that differ from one in weights of rows, or in l2, evaluated in one pass.

    Parameters
    ----------
    members : callable
        Takes the weights of rows, shape (B, n), and l2, shape (B,), or None for either, to what evaluates the problems;
        None where they are evaluated one by one.
    """

    members: Callable[[Array | None, Array | None], Any]


@dataclass(frozen=True)
class Modelled(Face):
    """What is known of an exact model before it is made.

    Parameters
    ----------
    other : callable, optional
        Returns the model in another form, tried if conic solvers fail on the first.
    is_nonlinear : bool
        Whether the model is convex by a theorem only, and goes to a nonlinear solver.
    always_feasible : bool
        Whether some point satisfies all constraints whatever the data.
    """

    other: Callable[[], CvxpyModel] | None = None
    is_nonlinear: bool = False
    always_feasible: bool = False


@dataclass(frozen=True)
class Existence(Face):
    """What is known of a minimiser, and whether there is one.

    Parameters
    ----------
    terminal_status : callable
        Recognises at a point that no minimiser exists: separable data, an unbounded objective. None otherwise.
    is_doubtful : callable
        Whether a converged point is reason to ask ``explanation`` all the same.
    explanation : callable
        Explains why no minimiser exists: status, direction, detail; None where nothing is found.
    """

    terminal_status: Callable[[Array], Status | None]
    is_doubtful: Callable[[Array], bool]
    explanation: Callable[[], tuple[Status, Array, str] | None]


@runtime_checkable
class Exact(Solvable, Protocol):
    """Has an exact model in cvxpy."""

    @property
    def rows(self) -> int:
        """Number of examples, by which attempts that would take too long are left out; 0 where there are none."""
        ...

    def to_cvxpy(self) -> CvxpyModel:
        """Return the cvxpy problem and its named variables, the unknown first."""
        ...


@runtime_checkable
class Convex(Solvable, Protocol):
    """A convex risk with a value and a subgradient, and a penalty."""

    @property
    def penalty(self) -> Penalty:
        """The part of the objective that depends on w alone."""
        ...

    def risk_and_subgradient(self, w: Array) -> tuple[float, Array]:
        """Return the risk at w and one subgradient with respect to w."""
        ...

    def gap_estimate(self, w: Array, value: float, gradient: Array) -> float:
        """Estimate value − optimum at w from a subgradient of risk and l2 there, at no cost."""
        ...


@runtime_checkable
class Smooth(Solvable, Protocol):
    """The whole objective is differentiable."""

    def value_and_gradient(self, w: Any) -> tuple[float, Array]:
        """Return the objective and its gradient."""
        ...

    def gap_estimate(self, w: Array, value: float, gradient: Array) -> float:
        """Estimate value − optimum at w from the gradient there, at no cost, for solvers."""
        ...


@runtime_checkable
class TwiceDifferentiable(Smooth, Protocol):
    """Second derivatives are affordable, as Newton's method requires."""

    def second_order(self, w: Any) -> tuple[float, Array, Array]:
        """Return the objective, its gradient and its Hessian, shape (d, d), from one pass."""
        ...


@runtime_checkable
class Proximal(Solvable, Protocol):
    """A smooth part, and a proximal map for the rest."""

    def smooth_value_and_gradient(self, w: Array) -> tuple[float, Array]:
        """Return the smooth part and its gradient."""
        ...

    def nonsmooth_value(self, w: Array) -> float:
        """Return the part of the objective that is not smooth; infinity outside constraints."""
        ...

    def gap_estimate(self, w: Array, value: float, gradient: Array) -> float:
        """Estimate value − optimum at w from the gradient of the smooth part there, at no cost."""
        ...


@dataclass(frozen=True)
class Field(Face):
    """A monotone-type direction without an objective; terms that it does not include are in ``prox`` of the problem.

    Parameters
    ----------
    direction : callable
        Takes a point to the direction there.
    """

    direction: Callable[[Array], Array]


def offers(problem: Solvable, kind: type[K]) -> TypeIs[K]:
    """Return whether a problem offers the capability of a protocol."""
    return kind.__name__ in problem.capabilities


def has_objective(problem: Solvable) -> bool:
    """Return whether there is an objective; fixed points, fields and feasibility problems have none."""
    return problem.capabilities.isdisjoint(("FixedPoint", "Feasibility", "Field"))


def value_at(problem: Solvable, x: Array) -> float:
    """Return the objective at x, NaN where there is none."""
    return problem.objective(x) if has_objective(problem) else math.nan


@runtime_checkable
class FixedPoint(Solvable, Protocol):
    """A map whose fixed point is the answer; there is no objective."""

    @property
    def modulus(self) -> float:
        """A contraction factor of the map in the metric of ``distance``."""
        ...

    def distance(self, a: Array, b: Array) -> float:
        """Return how far apart two points are, in the metric that the certificate bounds."""
        ...

    def apply_map(self, x: Array) -> Array:
        """Return the image of x."""
        ...


@dataclass(frozen=True)
class Feasibility(Face):
    """Constraints without an objective: any point that satisfies them is an answer.

    Parameters
    ----------
    violation : callable
        Takes a point to the violation of the constraints there; 0 if it satisfies them.
    """

    violation: Callable[[Array], float]


@runtime_checkable
class Referenced(Solvable, Protocol):
    """Has a slow reference answer, dense or by brute force, that shares no code with the fast one."""

    def reference(self) -> Array:
        """Return the answer."""
        ...

    def distance(self, a: Array, b: Array) -> float:
        """Return how far apart two answers are, in the metric that the certificate bounds."""
        ...


@dataclass(frozen=True)
class Ordered(Face):
    """The unknowns are scores, and a bound on their error proves a part of their order.

    Parameters
    ----------
    proved_top : callable
        Takes a point, a bound and a number to the longest list of first entries, of at most that number, whose order no
        error up to the bound can change.
    """

    proved_top: Callable[[Array, float, int], Array]


@runtime_checkable
class Certified(Solvable, Protocol):
    """A gap or error bound at a point, from the problem and the point only, sharing no code with a solver."""

    def certificate(self, x: Array, witness: Witness | None = None) -> Certificate:
        """Return the bound at x."""
        ...


@dataclass(frozen=True)
class CertifiedInParts(Face):
    """A certificate put together from parts of the unknowns, which processes compute beside one another.

    Parameters
    ----------
    part : callable
        Takes a point, the number of a part and that of all parts to the numbers that the part of the unknowns
        contributes; all parts have the same number of them.
    together : callable
        Takes a point and the numbers of all parts, one row for each, to the bound.
    """

    part: Callable[[Array, int, int], Array]
    together: Callable[[Array, Array], Certificate]


@cache
def members(protocol: type) -> frozenset[str]:
    """Return the names that a protocol declares, its own and inherited ones."""
    declaring = [
        cls for cls in protocol.__mro__ if getattr(cls, "_is_protocol", False) and cls is not Protocol
    ]
    return frozenset(name for cls in declaring for name in vars(cls) if not name.startswith("_"))
