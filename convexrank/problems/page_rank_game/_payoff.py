"""Base of the PageRank game: its data, its threshold, and both players."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.progress import warn_caller
from convexrank.core.minorants import rounding
from convexrank.data import check_choice, check_flags, check_positive, keep, keep_checked
from convexrank.data.display import counted
from convexrank.data.nodes import called
from convexrank.divergences import PolytopeEntropy, resolve
from convexrank.divergences.on_simplex import restricted
from convexrank.graphs import Graph
from convexrank.graphs.transition import solve_poisson, stationary
from convexrank.problems.graph_ranks._base import WalkRank, random_graph
from convexrank.regularizers import L1Ball, L2Ball

Array = np.ndarray

# The radius taken by default, in units of the threshold: line search is fastest about there.
_FACTOR = 2.0
# A smaller threshold is rounding of 0; then any radius suffices, and the default is 1.
_NO_THRESHOLD = 1e-9
# A radius this little below the threshold is at it.
_AT_THRESHOLD = 1e-12


@dataclass(frozen=True)
class Norm:
    """A norm, its dual, and what the PageRank game needs of them.

    Parameters
    ----------
    name : str
        "1", "2" or "inf".
    order, dual_order : float
        That of the norm and of its dual norm, as numpy and cvxpy call them.
    duality_map : callable
        A vector of norm at most 1 whose product with r is the dual norm of r; 0 at 0. For "1" and "inf" there may be
        several: the first of the largest entries, and 0 where an entry is 0.
    centre : callable
        The constant c for which the norm of s − c is least.
    project : callable
        The nearest point, in the Euclidean norm, of the ball of a radius.
    """

    name: str
    order: float
    dual_order: float
    duality_map: Callable[[Array], Array]
    centre: Callable[[Array], float]
    project: Callable[[Array, float], Array]

    def of(self, r: Array) -> float:
        """Return the norm of a vector."""
        return float(np.linalg.norm(r, self.order))

    def dual(self, r: Array) -> float:
        """Return its dual norm."""
        return float(np.linalg.norm(r, self.dual_order))


def _unit(r: Array) -> Array:
    length = float(np.linalg.norm(r))
    return r / length if length > 0.0 else np.zeros_like(r)


def _corner(r: Array) -> Array:
    place, corner = int(np.abs(r).argmax()), np.zeros_like(r)
    corner[place] = np.sign(r[place])
    return corner


def _middle(s: Array) -> float:
    return 0.5 * (float(s.max()) + float(s.min()))


def _onto_taxicab(s: Array, radius: float) -> Array:
    return L1Ball(radius).prox(s, 1.0)


def _onto_euclidean(s: Array, radius: float) -> Array:
    return L2Ball(radius).prox(s, 1.0)


def _clipped(s: Array, radius: float) -> Array:
    return np.clip(s, -radius, radius)


_NORMS = {
    "1": Norm("1", 1.0, math.inf, _corner, np.median, _onto_taxicab),
    "2": Norm("2", 2.0, 2.0, _unit, np.mean, _onto_euclidean),
    "inf": Norm("inf", math.inf, 1.0, np.sign, _middle, _clipped),
}


def norm_of(name: str) -> Norm:
    """Return the norm named "1", "2" or "inf"; numbers will do.

    Raises
    ------
    ValueError
        For anything else.

    Examples
    --------
    >>> import numpy as np
    >>> norm_of("1").dual(np.array([1.0, -3.0]))
    3.0
    """
    if not isinstance(name, str):
        name = f"{name:g}" if isinstance(name, float) else str(name)
    return check_choice(name, dict(_NORMS), "norm")


@dataclass(frozen=True, eq=False)
class PageRankPayoff(WalkRank):
    """The payoff of the PageRank game and what follows from it, for :class:`~convexrank.problems.PageRankGame`."""

    graph: Graph
    divergence: Any = "kl"
    alpha: float = 0.85
    epsilon: float | None = None
    norm: str = "2"
    personalization: Any = None
    dangling: str = "teleport"
    relaxed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(self)
        if not hasattr(self.divergence, "restrict"):
            keep(self, divergence=resolve(self.divergence))
        keep(self, norm=norm_of(self.norm).name)
        _ = self.recommendations  # refuses columns at which φ is infinite
        if self.epsilon is None:
            if math.isinf(self.threshold):
                lost = np.flatnonzero(self.stationary <= 0.0)
                raise ValueError(
                    f"the rank is 0 at {counted(len(lost), 'nodes')}, such as {called(self.graph.names, lost[0])}, "
                    f"where the slope of {self.divergence._label} is infinite: no finite penalty is exact. Take a "
                    "personalization that is positive on all nodes, divergence='squared', or an epsilon of your own "
                    "with relaxed=True."
                )
        else:
            keep_checked(self, check_positive, "epsilon")
            if not self.relaxed and not self.is_exact:
                warn_caller(
                    f"epsilon = {self.epsilon:.6g} bounds the multipliers by {self.radius:.6g}, below the threshold "
                    f"{self.threshold:.6g}: the answer is the optimum of a relaxation, not PageRank. Leave epsilon "
                    "out, or pass relaxed=True if that is meant."
                )

    # --- the data of the game ---------------------------------------------------------------------------------------

    @cached_property
    def generator(self) -> Any:
        """The generator φ with its domain: values, slopes, the conjugate and its gradient."""
        return restricted(self.divergence, self.graph.n)

    @property
    def is_simplex(self) -> bool:
        """Whether the domain of w is the simplex."""
        return self.generator.is_simplex

    @cached_property
    def recommendations(self) -> Array:
        """The values :math:`a_i = φ(t_i)`."""
        return self.generator.of_columns(self.operator)

    @cached_property
    def ball(self) -> Norm:
        """The norm of the multipliers."""
        return norm_of(self.norm)

    @cached_property
    def stationary(self) -> Array:
        """PageRank π, to rounding."""
        return stationary(self.operator)

    @cached_property
    def multipliers(self) -> Array | None:
        """The s* of least norm for which π is the best reply; None where a slope is infinite at π."""
        return self._centred(self.stationary)

    @cached_property
    def threshold(self) -> float:
        """The least radius R* for which the answer is PageRank; infinity when none is enough."""
        return math.inf if self.multipliers is None else self.ball.of(self.multipliers)

    @cached_property
    def radius(self) -> float:
        """The radius R = 1/ε of the multipliers."""
        if self.epsilon is not None:
            return 1.0 / self.epsilon
        return _FACTOR * self.threshold if self.threshold > _NO_THRESHOLD else 1.0

    @property
    def is_exact(self) -> bool:
        """Whether R ≥ R*, so that the answer is PageRank."""
        return self.radius >= self.threshold * (1.0 - _AT_THRESHOLD)

    def rounding(self, value: float, s: float) -> float:
        """Return a bound on the rounding of the value of either player's problem; s bounds the multipliers in size."""
        sizes = 2.0 * float(np.abs(self.recommendations).max()) + 6.0 * s  # w adds up to 1
        return rounding(self.graph.n) * (abs(value) + sizes)

    def _in_proofs(self) -> Any:
        """Return the game as proofs read it."""
        from convexrank.proof.games import Game

        walk = self.graph, self.alpha, self.personalization, self.dangling
        multipliers = self.epsilon, self.radius, self.norm
        return Game(*walk, *multipliers, self.generator, self.stationary, self.maximizer)

    # --- the players --------------------------------------------------------------------------------------------------

    def difference(self, w: Array) -> Array:
        """Return w − Pw."""
        return w - self.operator @ w

    def pull_back(self, s: Array) -> Array:
        """Return (I − Pᵀ)s."""
        return s - self.operator.T @ s

    def payoff(self, s: Array, w: Array) -> float:
        """Return M(s, w); minus infinity when w is outside its domain."""
        value = float(w @ self.recommendations) - self.generator.phi(w)
        return value + float(s @ self.difference(w)) if math.isfinite(value) else -math.inf

    def payoff_gradient(self, s: Array, w: Array) -> Array:
        """Return the gradient of M(s, ·) at w, entries near 0 moved a little inside."""
        return self.recommendations + self.pull_back(s) - self.generator.inner_slopes(w)

    def best_response(self, x: Array) -> Array:
        """Return the s of the ball for which M(s, x) is least: −R times the duality map of x − Px."""
        return -self.radius * self.ball.duality_map(self.difference(x))

    def maximizer(self, s: Array) -> Array:
        """Return the w for which M(s, w) is greatest, ∇φ*(a + (I − Pᵀ)s)."""
        return self.generator.points(self.recommendations + self.pull_back(s))

    def replies(self, s: Array, move: Array) -> Callable[[float], tuple[Array, float]]:
        """Return γ → (the best w against s + γ(move − s), the slope of its payoff in γ), at O(n) per evaluation."""
        start, change = self.recommendations + self.pull_back(s), self.pull_back(move - s)

        def at(share: float) -> tuple[Array, float]:
            w = self.generator.points(start + share * change)
            return w, float(change @ w)

        return at

    def supporting_move(self, w: Array) -> Array:
        """Return an s of the ball to which w is about the best reply: Poisson's equation at w, scaled; 0 if none."""
        s = self._centred(w)
        if s is None:
            return np.zeros(self.dimension)
        size = self.ball.of(s)
        return s if size <= self.radius else s * (self.radius / size)

    def _centred(self, w: Array) -> Array | None:
        """The s of least norm with ∇φ(w) = a + (I − Pᵀ)s − c1 for some c."""
        right = self.generator.slopes(w) - self.recommendations
        if not np.isfinite(right).all():
            return None
        s = solve_poisson(self.operator, right)
        return s - self.ball.centre(s)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance, exact or relaxed; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        graph = random_graph(rng)
        alpha = float(rng.choice([0.3, 0.5, 0.85, 0.95]))
        divergence: Any = str(rng.choice(["kl", "squared", "bit_entropy", "polytope"]))
        if divergence == "polytope":
            divergence = PolytopeEntropy(
                (1.0 + rng.random((graph.n, 1))) * (np.eye(graph.n) - 1 / graph.n) + 1 / graph.n
            )
        norm = str(rng.choice(["1", "2", "inf"]))
        v = rng.random(graph.n) + 0.05 if rng.integers(2) else None
        mode = str(rng.choice(["teleport", "uniform"]))
        exact = cls(graph, divergence, alpha, None, norm, v, mode)
        factor = float(rng.choice([0.4, 0.8, 1.3, 2.0]))
        if factor == 2.0 or exact.threshold <= _NO_THRESHOLD:
            return exact
        return cls(graph, divergence, alpha, 1.0 / (factor * exact.threshold), norm, v, mode, relaxed=True)
