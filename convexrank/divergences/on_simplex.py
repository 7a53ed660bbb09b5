"""Generators of divergences, restricted to the probability simplex.

The restriction of a separable convex φ to the simplex has a conjugate that is finite everywhere and a bounded domain:
what the PageRank game asks of a divergence. Everything here runs in numpy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq

from convexrank.backend.cached import cached_property
from convexrank.data.nodes import called
from convexrank.divergences.base import Divergence
from convexrank.divergences.separable import SquaredEuclidean, resolve
from convexrank.regularizers import Simplex

if TYPE_CHECKING:
    from convexrank.graphs import Transition
    from convexrank.proof.games import OnSimplex

Array = np.ndarray

# How far from the simplex a point may be by rounding.
_SUM, _NEGATIVE = 1e-9, 1e-12
# Entries at which a slope would be infinite are moved inside by this.
_INSIDE = 1e-14
# Entries below are taken for this where a slope is asked for at all costs.
_FLOOR = 1e-12
_SIMPLEX = Simplex(1.0)


def restricted(divergence: Any, n: int) -> Any:
    """Return the generator of a divergence, restricted to distributions over n nodes.

    Parameters
    ----------
    divergence : Divergence or str
        A separable divergence whose domain has the numbers between 0 and 1 in it, or its name; or an object with a
        bounded domain of its own, such as :class:`~convexrank.divergences.PolytopeEntropy`.
    n : int
        Number of nodes.

    Returns
    -------
    Restricted or PolytopeEntropy
        The generator φ: values, slopes, the conjugate and its gradient.

    Raises
    ------
    ValueError, TypeError
        For an unknown divergence, or one that does not fit n nodes.

    Examples
    --------
    >>> restricted("squared", 2).points([2.0, 0.0]).tolist()
    [1.0, 0.0]
    """
    return divergence.restrict(n) if hasattr(divergence, "restrict") else Restricted(resolve(divergence), n)


@dataclass(frozen=True, eq=False)
class Restricted:
    r"""A separable φ on the simplex: :math:`\phi(w) = \sum_i \varphi_i(w_i)` for :math:`w \ge 0, \sum_i w_i = 1`.

    .. math:: \phi^*(z) = \max_{w\in\Delta} \langle z, w\rangle - \phi(w), \qquad
              \nabla\phi^*(z)_i = (\varphi_i')^{-1}(z_i - \lambda) \text{ or an end of } [0, 1],

    with λ such that the entries sum to 1: softmax for KL, the projection on the simplex for the squared distance. Both
    are finite for every z, and the maximiser does not change when a constant is added to z.

    Parameters
    ----------
    divergence : Divergence
        The divergence.
    n : int
        Number of entries.

    Raises
    ------
    ValueError
        When the domain lacks numbers between 0 and 1, or there are weights for another number of entries.

    Examples
    --------
    >>> from convexrank import divergences
    >>> Restricted(divergences.KL(), 2).points([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """

    divergence: Divergence
    n: int

    is_simplex = True

    def __post_init__(self) -> None:
        domain = self.divergence.domain
        if domain.lower > 0.0 or domain.upper < 1.0:
            raise ValueError(
                f"the domain of {self.divergence._label} is {domain}, expected one with the numbers between 0 and 1 in "
                "it, as distributions have; take 'kl', 'squared' or 'bit_entropy', for instance."
            )
        weights = self.divergence.weights
        if weights is not None and len(weights) != self.n:
            raise ValueError(
                f"{self.divergence._label} has {len(weights)} weights, expected {self.n}, one for each node."
            )

    @cached_property
    def _weights(self) -> Array | float:
        return 1.0 if self.divergence.weights is None else np.asarray(self.divergence.weights)

    @cached_property
    def _reference(self) -> tuple[float, float, float]:
        """A number of the size of the entries, the value and the slope of the function of one number there."""
        point = min(1.0 / self.n, 0.5)
        at = np.array([point])
        return point, float(self.divergence._phi(at)[0]), float(self.divergence._slope(at)[0])

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """Slopes at 0 and 1."""
        with np.errstate(all="ignore"):
            low, high = self.divergence._slope(np.array([0.0, 1.0]))
        return (-math.inf if math.isnan(low) else float(low), math.inf if math.isnan(high) else float(high))

    @property
    def steep(self) -> bool:
        """Whether slopes are infinite at 0."""
        return self._ends[0] == -math.inf

    @property
    def modulus(self) -> float:
        """The modulus of strong convexity in the Euclidean norm."""
        return self.divergence.strong_convexity(0.0, 1.0)

    def entries(self, x: Array, weights: Array | float) -> Array:
        """Return :math:`u_i φ(x_i)` for numbers x and weights u, in numpy alone."""
        point, value, slope = self._reference
        # the atoms' way through JAX costs a hundred times as much on short vectors
        with np.errstate(divide="ignore", invalid="ignore"):
            between = self.divergence._between(x, np.full_like(x, point))
        return weights * (value + slope * (x - point) + between)

    def contains(self, w: Array) -> bool:
        """Return whether w is a distribution, up to rounding."""
        return bool(w.min() >= -_NEGATIVE and abs(float(w.sum()) - 1.0) <= _SUM)

    def phi(self, w: Array) -> float:
        """Evaluate φ at a distribution, infinity elsewhere."""
        if not self.contains(w):
            return math.inf
        return float(self.entries(np.maximum(w, 0.0), self._weights).sum())

    def slopes(self, w: Array) -> Array:
        """Return the gradient of the separable function; −infinity where w is 0 and φ is steep."""
        with np.errstate(divide="ignore"):
            return self.divergence.slopes(np.clip(w, 0.0, 1.0)) if self.n > 1 else np.zeros(1)

    def inner_slopes(self, w: Array) -> Array:
        """Return the gradient at w, with entries near 0 moved a little inside."""
        return self.slopes(np.maximum(w, _FLOOR))

    def points(self, z: Any) -> Array:
        """Return the maximiser of ⟨z, w⟩ − φ(w)."""
        z = np.asarray(z, dtype=np.float64)
        if self.n == 1:
            return np.ones(1)
        if self.divergence.total is not None:
            return self.divergence.points(z)
        if self._is_plain_square:
            return _SIMPLEX.prox(z, 1.0)
        return self._by_level(z)

    def _by_level(self, z: Array) -> Array:
        weights, (low, high) = self._weights, self._ends
        even = z - weights * self.divergence._slope(np.array([1.0 / self.n]))

        def entries(level: float) -> Array:
            with np.errstate(divide="ignore", over="ignore"):
                found = self.divergence._point(np.clip((z - level) / weights, low, high))
            return np.clip(found, 0.0, 1.0)

        # at the least of these levels every entry is 1/n or more, at the greatest every entry is 1/n or less
        first, last = float(even.min()), float(even.max())
        if first < last and float(entries(first).sum()) > 1.0 > float(entries(last).sum()):
            found: Any = brentq(lambda level: float(entries(level).sum()) - 1.0, first, last, xtol=1e-300)
            first = float(found)
        w = entries(first)
        return w / w.sum()

    def conjugate(self, z: Array) -> float:
        """Evaluate φ*, infinity nowhere."""
        w = self.points(z)
        return float(z @ w) - self.phi(w)

    def project_feasible(self, w: Array) -> Array:
        """Return the nearest distribution, with entries above 0 where φ is steep."""
        w = _SIMPLEX.prox(w, 1.0)
        if self.steep and w.min() < _INSIDE:
            w = np.maximum(w, _INSIDE)
            w = w / w.sum()
        return w

    def model(self, w: Any) -> tuple[Any, list[Any]]:
        """Return φ of a cvxpy variable, and its constraints."""
        import cvxpy as cp

        return self.divergence.phi(w), [w >= 0, cp.sum(w) == 1]

    @property
    def has_conjugate_model(self) -> bool:
        """Whether φ* has a form in cvxpy."""
        return self.divergence.total is not None or self._is_plain_square

    @property
    def _is_plain_square(self) -> bool:
        return isinstance(self.divergence, SquaredEuclidean) and self.divergence.weights is None

    def conjugate_model(self, z: Any) -> Any:
        """Return φ* of a cvxpy expression, where there is a form."""
        import cvxpy as cp

        if not self.has_conjugate_model:
            raise ValueError(
                f"the conjugate of {self.divergence._label} on the simplex has no form in cvxpy."
            )
        if self.divergence.total is not None:
            return self.divergence.conjugate(z)
        level = cp.Variable()
        return level + 0.5 * cp.sum_squares(cp.pos(z - level))

    def of_columns(self, operator: Transition) -> Array:
        """Return φ of every column of a transition matrix, O(m): only entries of links differ from the teleport.

        Shape (n,); a ValueError says where φ is infinite.
        """
        graph, weights = operator.graph, np.broadcast_to(self._weights, self.n)
        chance = (1.0 - operator.alpha) * operator.teleport
        sources, targets, linked = graph.edges()
        base = self.entries(chance, weights)
        with np.errstate(invalid="ignore"):
            moved = chance[targets] + operator.alpha * linked * operator.share[sources]
            change = self.entries(moved, weights[targets]) - base[targets]
            values = float(base.sum()) + np.bincount(sources, change, self.n)
        if graph.dangling.size:
            values[graph.dangling] = self.entries(chance + operator.alpha * operator.escape, weights).sum()
        if not np.isfinite(values).all():
            place = int(np.argmin(np.isfinite(values)))
            raise ValueError(
                f"{self.divergence._label} is infinite at the recommendations of node {called(graph.names, place)}, "
                "some of which are 0; take a personalization that is positive on all nodes, or another divergence."
            )
        return values

    def in_balls(self) -> OnSimplex:
        """Return φ in ball arithmetic, for proofs."""
        from convexrank.proof.games import OnSimplex

        weights = self.divergence.weights
        return OnSimplex(self.divergence.in_balls(), None if weights is None else np.asarray(weights))
