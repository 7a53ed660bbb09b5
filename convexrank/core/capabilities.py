"""What a problem can do: small protocols. A solver lists the names of those that it needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from convexrank.core.cvxpy_model import CvxpyModel
    from convexrank.core.results import Certificate, Witness

__all__ = [
    "AffineFixedPoint",
    "Blocks",
    "Certified",
    "Convex",
    "Coordinates",
    "Exact",
    "Feasibility",
    "Field",
    "FiniteSum",
    "FixedPoint",
    "Flows",
    "Lipschitz",
    "Multimodal",
    "Proximal",
    "Referenced",
    "Saddle",
    "SingleIndex",
    "Smooth",
    "SplitFeasibility",
    "TwiceDifferentiable",
]

Array = np.ndarray


@runtime_checkable
class Exact(Protocol):
    """Has an exact model in cvxpy."""

    def to_cvxpy(self) -> CvxpyModel:
        """Return the cvxpy problem and its named variables."""
        ...


@runtime_checkable
class Convex(Protocol):
    """Has a value and a subgradient of its risk (the part without the penalty)."""

    def risk_and_subgradient(self, w: Array) -> tuple[float, Array]:
        """Return the risk at w and one subgradient with respect to w."""
        ...


@runtime_checkable
class Smooth(Protocol):
    """The whole objective is differentiable."""

    def value_and_gradient(self, w: Array) -> tuple[float, Array]:
        """Return the objective and its gradient."""
        ...


@runtime_checkable
class TwiceDifferentiable(Protocol):
    """Second derivatives are affordable: what Newton's method needs."""

    def hessian(self, w: Array) -> Array:
        """Return the Hessian of the smooth part."""
        ...


@runtime_checkable
class Proximal(Protocol):
    """A smooth part, and a proximal map for the rest."""

    def smooth_value_and_gradient(self, w: Array) -> tuple[float, Array]:
        """Return the smooth part and its gradient."""
        ...

    def prox(self, v: Array, step: float) -> Array:
        """Return the proximal map of the part that is not smooth."""
        ...


@runtime_checkable
class Coordinates(Protocol):
    """Edges of all weak rankers, and exact line search along one: what boosting needs."""

    def coordinates(self) -> Any:
        """Return the coordinate oracle of the problem."""
        ...


@runtime_checkable
class Field(Protocol):
    """A monotone-type direction without an objective."""

    def field(self, x: Array) -> Array:
        """Return the direction at x."""
        ...

    def prox(self, v: Array, step: float) -> Array:
        """Return the proximal map of what the direction leaves out, constraints for instance."""
        ...


@runtime_checkable
class Lipschitz(Protocol):
    """A constant for steps that need no function values."""

    @property
    def lipschitz(self) -> float:
        """A Lipschitz constant of the gradient of the smooth part, or what is published as one of the field."""
        ...


@runtime_checkable
class SingleIndex(Protocol):
    """Targets to be fitted by a function of one linear score: what Isotron and its relatives need."""

    @property
    def targets(self) -> Array:
        """The targets, shape (n,)."""
        ...

    def scores(self, w: Array) -> Array:
        """Return the scores, shape (n,)."""
        ...

    def update_direction(self, fitted: Array, w: Array) -> Array:
        """Return what a unit step subtracts from w, for fitted targets of shape (n,)."""
        ...


@runtime_checkable
class Blocks(Protocol):
    """An exact minimiser over one block of variables, the others fixed.

    A joint point holds the unknowns of all blocks, the problem's own x first. The objective at x is the least over
    the others.
    """

    @property
    def block_count(self) -> int:
        """Number of blocks; one pass takes them in order, and the first one does not look at what follows x."""
        ...

    @property
    def joint_dimension(self) -> int:
        """Number of unknowns of all blocks."""
        ...

    def minimize_block(self, block: int, x: Array) -> Array:
        """Return the joint point with one block minimised over."""
        ...


@runtime_checkable
class FiniteSum(Protocol):
    """The risk is a sum of terms with gradients of their own, such as one a query."""

    @property
    def term_constants(self) -> Array:
        """A Lipschitz constant of the gradient of each term, shape (m,)."""
        ...

    def term_gradient(self, term: int, w: Array) -> Array:
        """Return the gradient of one term at w, shape (d,)."""
        ...

    def term_gradients(self, w: Array) -> Array:
        """Return the gradients of all terms at w, shape (m, d); their sum is the gradient of the risk."""
        ...


@runtime_checkable
class Saddle(Protocol):
    """A payoff M(s, w), affine in s and concave in w, with best responses; w, which maximises, is the unknown."""

    @property
    def is_simplex(self) -> bool:
        """Whether w may be any distribution, and nothing else."""
        ...

    def payoff(self, s: Array, w: Array) -> float:
        """Return what w wins against s."""
        ...

    def payoff_gradient(self, s: Array, w: Array) -> Array:
        """Return the gradient of the payoff with respect to w."""
        ...

    def best_response(self, x: Array) -> Array:
        """Return the s with the least payoff against w = x."""
        ...

    def maximizer(self, s: Array) -> Array:
        """Return the w with the greatest payoff against s."""
        ...

    def replies(self, s: Array, move: Array) -> Callable[[float], tuple[Array, float]]:
        """Return a function of γ: the best w against s + γ(move − s), and the slope of its payoff in γ."""
        ...

    def supporting_move(self, w: Array) -> Array:
        """Return an s against which w is about the best reply."""
        ...

    def dual(self, bounded: bool = True) -> Any:
        """Return the problem of s alone: the least of the greatest payoffs."""
        ...


@runtime_checkable
class FixedPoint(Protocol):
    """A map whose fixed point is the answer; there is no objective."""

    @property
    def modulus(self) -> float:
        """A factor by which the map brings any two points closer in the metric of ``distance``."""
        ...

    def distance(self, a: Array, b: Array) -> float:
        """Return how far apart two points are, in the metric that the certificate bounds."""
        ...

    def apply_map(self, x: Array) -> Array:
        """Return the image of x."""
        ...


@runtime_checkable
class Flows(Protocol):
    """Flows through candidates, in balance between their owners, with a gain each: ranks of a mixture of chains."""

    @property
    def candidates(self) -> Array:
        """The distributions over owners, one a row, shape (K, n)."""
        ...

    @property
    def owners(self) -> Array:
        """The owner of each candidate, in order, shape (K,)."""
        ...

    @property
    def gains(self) -> Array:
        """What a unit of each flow gains, shape (K,)."""
        ...

    def dual(self, s: Array) -> float:
        """Return the dual function at multipliers of the balance, an upper bound on what all flows gain."""
        ...


@runtime_checkable
class Multimodal(Protocol):
    """Local minima: a step that never raises the objective, points to start from, and what is left to gain."""

    @property
    def floor(self) -> float:
        """A value that the objective is never below."""
        ...

    def improve(self, x: Array) -> Array:
        """Return a point whose objective is not larger."""
        ...

    def random_start(self, rng: np.random.Generator) -> Array:
        """Draw a point."""
        ...

    def stationarity(self, x: Array) -> float:
        """Return what a step gains to first order; 0 at a local minimum."""
        ...


@runtime_checkable
class AffineFixedPoint(Protocol):
    """A fixed point x = αTx + (1−α)v on a graph, one for each operator: what a sweep over the nodes needs."""

    @property
    def operators(self) -> tuple[Any, ...]:
        """The :class:`~convexrank.graphs.Transition` of each system; several have one α and one graph."""
        ...


@runtime_checkable
class Referenced(Protocol):
    """Has a slow answer of its own, dense or by brute force, that shares no code with the fast one."""

    def reference(self) -> Array:
        """Return the answer."""
        ...

    def distance(self, a: Array, b: Array) -> float:
        """Return how far apart two answers are, in the metric that the certificate bounds."""
        ...


@runtime_checkable
class Feasibility(Protocol):
    """Asks for any point that satisfies the constraints; there is no objective."""

    def violation(self, x: Array) -> float:
        """Return how far x is from satisfying the constraints; 0 when it does."""
        ...


@runtime_checkable
class SplitFeasibility(Protocol):
    """Asks for an unknown of one convex set whose image lies in another, and has a projection on each."""

    def lift(self, x: Array) -> Array:
        """Return the image of x."""
        ...

    def recover(self, point: Array) -> Array:
        """Return the x of its set whose image is nearest to a point."""
        ...

    def project(self, point: Array) -> Array:
        """Return the point of the other set nearest to a point."""
        ...


@runtime_checkable
class Certified(Protocol):
    """A gap or error bound at a point, from the problem and the point only, sharing no code with a solver."""

    def certificate(self, x: Array, witness: Witness | None = None) -> Certificate:
        """Return the bound at x."""
        ...
