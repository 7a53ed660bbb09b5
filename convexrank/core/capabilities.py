"""Capabilities of problems: protocols and faces, which declare all members that solvers call.

A solver lists the names of the capabilities that it needs. What many methods call are members of the problem: a
protocol declares them, and the signature of a solver states it for the type checker. What one family of methods calls
is a :class:`Face`, a small object of its own that the problem makes when it is asked: ``problem.face(FiniteSum)``. The
faces of problems with rows are in ``convexrank/solvers/row_faces.py``, those of graphs and games in
``convexrank/solvers/graph_faces.py``. ``JaxObjective``, ``JaxCurved`` and ``JaxProximal`` say which functions of the
face ``Compiled`` there are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.results import Certificate, Solution, Status, Witness
from convexrank.regularizers import Penalty

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = [
    "Certified",
    "CertifiedInParts",
    "Convex",
    "Exact",
    "Existence",
    "Face",
    "Feasibility",
    "Field",
    "FixedPoint",
    "InBalls",
    "Modelled",
    "Ordered",
    "Proximal",
    "Referenced",
    "Smooth",
    "Solvable",
    "TwiceDifferentiable",
    "has_objective",
    "is_field",
    "members",
    "value_at",
]

Array = np.ndarray


class Face:
    """What one family of methods asks of a problem, as an object of its own, with the members that the methods call.

    A problem that names the class in ``capabilities`` makes the object in a method with the name of the class, such as
    ``_finite_sum`` for ``FiniteSum``. ``problem.face(FiniteSum)`` calls it.
    """

    maker: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.maker = re.sub(r"(?=[A-Z])", "_", cls.__name__).lower()


F = TypeVar("F", bound=Face)


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
    def default_reason(self) -> str:
        """Reason for the default solver, in a few words; may be empty."""
        ...

    @property
    def dimension(self) -> int:
        """Number of unknowns."""
        ...

    @property
    def units(self) -> Array:
        """Units of the unknowns that equalise their effects on the objective, powers of two."""
        ...

    @property
    def strong_convexity(self) -> float:
        """A modulus of strong convexity of the objective in the Euclidean norm; 0 when none is known."""
        ...

    def face(self, kind: type[F]) -> F:
        """Return what one family of methods asks of this problem."""
        ...

    def solve(
        self, solver: Any = None, *, tol: float = 1e-8, time_limit: float | None = None, x0: Any = None
    ) -> Solution:
        """Solve."""
        ...

    def adapt_solver(self, solver: Any, options: Any = None) -> Any:
        """Return the solver that runs in place of one that fits; refuse what processes are asked differently."""
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

    def remark(self, x: Array) -> str:
        """Return a remark on an answer that met the tolerance."""
        ...


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
class InBalls(Face):
    """A risk of linear scores in ball arithmetic, for proofs.

    Parameters
    ----------
    tangent : callable
        Takes scores to the risk and a tangent in them.
    below : callable
        Takes scores and a width to what the multipliers of the risk smoothed by the width prove: a linear function.
    """

    tangent: Callable[[Any], Any]
    below: Callable[[Any, float], Any]


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

    @property
    def risk_infimum(self) -> float:
        """A number that the risk is never below; minus infinity if none is known."""
        ...

    def risk_and_subgradient(self, w: Array) -> tuple[float, Array]:
        """Return the risk at w and one subgradient with respect to w."""
        ...

    def prox(self, v: Array, step: float) -> Array:
        """Return the proximal map of the part of the penalty that is not smooth."""
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

    def prox(self, v: Array, step: float) -> Array:
        """Return the proximal map of the part that is not smooth."""
        ...

    def gap_estimate(self, w: Array, value: float, gradient: Array) -> float:
        """Estimate value − optimum at w from the gradient of the smooth part there, at no cost."""
        ...


@runtime_checkable
class Field(Solvable, Protocol):
    """A monotone-type direction without an objective."""

    def field(self, x: Array) -> Array:
        """Return the direction at x."""
        ...

    def prox(self, v: Array, step: float) -> Array:
        """Return the proximal map of the terms that the direction does not include, such as constraints."""
        ...


def has_objective(problem: Solvable) -> bool:
    """Return whether there is an objective; fixed points, fields and feasibility problems have none."""
    return problem.capabilities.isdisjoint(("FixedPoint", "Feasibility", "Field"))


def value_at(problem: Solvable, x: Array) -> float:
    """Return the objective at x, NaN where there is none."""
    return problem.objective(x) if has_objective(problem) else math.nan


def is_field(problem: Solvable) -> TypeIs[Field]:
    """Return whether a problem offers a field in place of an objective, as the type checker understands it.

    Parameters
    ----------
    problem : Problem
        The problem of a solver that accepts objectives and fields.

    Returns
    -------
    bool
        Whether the solver has to follow the field.
    """
    return "Field" in problem.capabilities


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


@runtime_checkable
class Feasibility(Solvable, Protocol):
    """Constraints without an objective: any point that satisfies them is an answer."""

    def violation(self, x: Array) -> float:
        """Return the violation of the constraints at x; 0 if x satisfies them."""
        ...


@runtime_checkable
class Referenced(Solvable, Protocol):
    """Has a slow reference answer, dense or by brute force, that shares no code with the fast one."""

    def reference(self) -> Array:
        """Return the answer."""
        ...

    def distance(self, a: Array, b: Array) -> float:
        """Return how far apart two answers are, in the metric that the certificate bounds."""
        ...


@runtime_checkable
class Ordered(Solvable, Protocol):
    """The unknowns are scores, and a bound on their error proves a part of their order."""

    def proved_top(self, x: Array, bound: float, k: int) -> Array:
        """Return the longest list of first entries, at most k, whose order no error up to ``bound`` can change."""
        ...


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
