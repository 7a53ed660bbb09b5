"""Divergences on the probability simplex, and on any polytope: there by the entropy of mixtures of its vertices.

The restriction of a separable convex φ to the simplex has a conjugate that is finite everywhere and a bounded domain:
what the PageRank game asks of a divergence. Everything here runs in numpy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.optimize import brentq

from convexrank.backend.cached import cached_property
from convexrank.data import check_real_array
from convexrank.data.nodes import called
from convexrank.divergences.base import Divergence, softmax
from convexrank.divergences.separable import SquaredEuclidean, resolve
from convexrank.regularizers import Simplex

if TYPE_CHECKING:
    from convexrank.graphs import Transition
    from convexrank.proof.games import Mixtures, OnSimplex

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


# Newton's method: a slope this small is rounding; steps, halvings of a step, and when a point is given up as outside.
_FLAT, _STEPS, _HALVINGS, _OUTSIDE = 1e-13, 200, 40, 1e-7
# A direction in which the vertices differ by less, relative to the largest difference, is dropped.
_RANK = 1e-10
# Weight of the equation Σλ = 1 when the nearest point of the polytope is asked for.
_HEAVY = 1e3
# How far a point from outside is moved in. Close to the boundary mixtures have weights of e^{-30}, and conic solvers
# say that there are none.
_INWARD = 0.1


@dataclass(frozen=True)
class PolytopeEntropy:
    r"""The convex function with :math:`\phi^*(\theta) = \log\sum_k e^{\langle\theta, y_k\rangle}` for given vertices.

    .. math:: \phi(x) = \min\Bigl\{\textstyle\sum_k \lambda_k\log\lambda_k \;:\; \sum_k\lambda_k y_k = x,\
              \lambda\in\Delta\Bigr\}, \qquad
              \nabla\phi^*(\theta) = \sum_k y_k\,
              \frac{e^{\langle\theta, y_k\rangle}}{\sum_l e^{\langle\theta, y_l\rangle}}

    The domain is the convex hull of the vertices; their entries sum to 1 and may be negative. φ is strictly convex
    there, with a modulus of one over the squared radius of the vertices, and :math:`\phi^*` is finite everywhere. With
    the unit vectors as vertices it is the negative entropy, whose divergence is KL. Points y that are not vertices of
    the hull also change φ.

    The divergence is not separable: :class:`~convexrank.problems.PageRankGame` accepts it, projections do not. A value
    is computed by Newton's method, O(kn²) per step, for up to some hundreds of nodes and vertices.

    Parameters
    ----------
    vertices : array-like, shape (k, n)
        The points :math:`y_k`, one in each row, with sum 1. Kept as tuples.

    Raises
    ------
    ValueError
        When there is no vertex, or one is not finite or does not sum to 1.

    References
    ----------
    Dissertation on learning to rank, section 5.3, before (5.17), where the exponent is a scalar product.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import divergences
    >>> triangle = divergences.PolytopeEntropy([[1, 1, -1], [-1, 1, 1], [1, -1, 1]])
    >>> round(triangle.phi(np.full(3, 1 / 3)), 6), round(-float(np.log(3)), 6)
    (-1.098612, -1.098612)
    >>> divergences.PolytopeEntropy(np.eye(2)).points(np.array([0.0, np.log(3.0)])).round(6).tolist()
    [0.25, 0.75]
    """

    vertices: Any

    # what the game asks of a generator: the domain is no simplex, and slopes are finite inside
    is_simplex = False
    has_conjugate_model = True
    _label = "PolytopeEntropy"

    def __post_init__(self) -> None:
        points = np.asarray(check_real_array(self.vertices, "vertices"), dtype=np.float64)
        if points.ndim != 2 or 0 in points.shape:
            raise ValueError(f"vertices has shape {points.shape}, expected (k, n): a vertex in each row.")
        if not np.isfinite(points).all():
            raise ValueError("vertices has entries that are not finite, expected numbers.")
        sums = points.sum(axis=1)
        if np.abs(sums - 1.0).max() > _SUM:
            place = int(np.abs(sums - 1.0).argmax())
            raise ValueError(f"vertices[{place}] sums to {sums[place]:.9g}, expected 1, as scores do.")
        object.__setattr__(self, "vertices", tuple(map(tuple, points.tolist())))

    def __repr__(self) -> str:
        return f"PolytopeEntropy({len(self.vertices)} vertices)"

    def restrict(self, n: int) -> Self:
        """Return itself, if its vertices have n entries."""
        if self.points_array.shape[1] != n:
            raise ValueError(
                f"the vertices have {self.points_array.shape[1]} entries, expected {n}, one for each node."
            )
        return self

    # --- the polytope -------------------------------------------------------------------------------------------------

    @cached_property
    def points_array(self) -> Array:
        """The vertices, shape (k, n)."""
        return np.array(self.vertices)

    @cached_property
    def _frame(self) -> tuple[Array, Array, Array]:
        """The mean of the vertices, an orthonormal basis of their plane, and the vertices in it."""
        centre = self.points_array.mean(axis=0)
        _, sizes, directions = np.linalg.svd(self.points_array - centre, full_matrices=False)
        basis = directions[sizes > _RANK * max(float(sizes.max(initial=0.0)), 1e-300)].T
        return centre, basis, (self.points_array - centre) @ basis

    @property
    def modulus(self) -> float:
        """A modulus of strong convexity, in the Euclidean norm."""
        radius = float(np.linalg.norm(self.points_array - self._frame[0], axis=1).max())
        return 1.0 / radius**2 if radius > 0.0 else 1.0

    def _mixture(self, x: Array) -> tuple[Array, Array] | None:
        """The multipliers θ and the weights λ of the mixture of greatest entropy; None outside the polytope."""
        centre, basis, corners = self._frame
        target = (x - centre) @ basis
        if float(np.abs(centre + basis @ target - x).max(initial=0.0)) > _OUTSIDE:
            return None
        u = np.zeros(len(target))
        value, weights = _value(corners, u, target)
        for _ in range(_STEPS):
            slope = corners.T @ weights - target
            if float(np.abs(slope).max(initial=0.0)) <= _FLAT:
                break
            spread = corners - corners.T @ weights
            step = np.linalg.lstsq(spread.T @ (weights[:, None] * spread), -slope, rcond=1e-15)[0]
            length, fall = 1.0, float(slope @ step)
            for _ in range(_HALVINGS):
                trial, mixed = _value(corners, u + length * step, target)
                if trial <= value + 1e-4 * length * fall + 1e-15 * abs(value):
                    break
                length *= 0.5
            if trial > value + 1e-15 * abs(value):
                break
            u, value, weights = u + length * step, trial, mixed
        if float(np.abs(corners.T @ weights - target).max(initial=0.0)) > _OUTSIDE:
            return None
        return basis @ u, weights

    def contains(self, w: Array) -> bool:
        """Return whether w is in the polytope, up to 1e-7."""
        return self._mixture(w) is not None

    def project_feasible(self, w: Array) -> Array:
        """Return w if it is in the polytope, else the nearest point, moved a tenth of the way to the mean."""
        from scipy.optimize import nnls

        equations = np.vstack([self.points_array.T, np.full(len(self.vertices), _HEAVY)])
        weights, apart = nnls(equations, np.append(w, _HEAVY))
        nearest = self.points_array.T @ (weights / weights.sum())
        return nearest if apart <= _OUTSIDE else (1.0 - _INWARD) * nearest + _INWARD * self._frame[0]

    # --- the function -------------------------------------------------------------------------------------------------

    def phi(self, w: Array) -> float:
        """Evaluate φ; infinity outside the polytope."""
        found = self._mixture(np.asarray(w, dtype=np.float64))
        if found is None:
            return math.inf
        weights = found[1][found[1] > 0.0]
        return float(weights @ np.log(weights))

    def slopes(self, w: Array) -> Array:
        """Return the gradient in the plane of the vertices; large at the boundary, −infinity outside."""
        found = self._mixture(np.asarray(w, dtype=np.float64))
        return np.full(len(w), -math.inf) if found is None else found[0]

    def inner_slopes(self, w: Array) -> Array:
        """Return the gradient at w."""
        return self.slopes(w)

    def points(self, z: Array) -> Array:
        """Return the maximiser of ⟨z, w⟩ − φ(w): a mixture of the vertices."""
        return self.points_array.T @ softmax(self.points_array @ z)

    def conjugate(self, z: Array) -> float:
        """Evaluate φ*."""
        heights = self.points_array @ z
        return float(heights.max() + np.log(np.exp(heights - heights.max()).sum()))

    def of_columns(self, operator: Transition) -> Array:
        """Return φ of every column of a transition matrix, one Newton's method for each column.

        Shape (n,); the matrix is formed, and a ValueError names a column outside the polytope.
        """
        values = np.array([self.phi(column) for column in operator.dense().T])
        if np.isinf(values).any():
            node = called(operator.graph.names, np.isinf(values).argmax())
            raise ValueError(
                f"the recommendations of node {node} lie outside the polytope; add vertices, "
                "such as the unit vectors, whose hull has all distributions in it."
            )
        return values

    def in_balls(self) -> Mixtures:
        """Return φ over balls, each vertex taken over its sum: what proofs use."""
        from convexrank.proof.games import Mixtures

        return Mixtures(self.points_array, self._mixture)

    # --- models -----------------------------------------------------------------------------------------------------

    def model(self, w: Any) -> tuple[Any, list[Any]]:
        """Return φ of a cvxpy variable, by weights of the vertices, and the constraints."""
        import cvxpy as cp

        centre, basis, corners = self._frame
        weights = cp.Variable(len(self.vertices), name="mixture")
        # in the plane's own coordinates, or equations that repeat each other look infeasible to a precise solver
        linked = [corners.T @ weights == basis.T @ (w - centre)] if basis.size else []
        across = np.eye(len(centre))
        if basis.size:
            across = np.linalg.svd(basis, full_matrices=True)[0][:, basis.shape[1] :]
        return -cp.sum(cp.entr(weights)), [*linked, cp.sum(weights) == 1, across.T @ (w - centre) == 0]

    def conjugate_model(self, z: Any) -> Any:
        """Return φ* of a cvxpy expression."""
        import cvxpy as cp

        return cp.log_sum_exp(self.points_array @ z)


def _value(corners: Array, u: Array, target: Array) -> tuple[float, Array]:
    heights = corners @ u
    top = float(heights.max(initial=0.0))
    masses = np.exp(heights - top)
    return top + math.log(float(masses.sum())) - float(target @ u), masses / masses.sum()
