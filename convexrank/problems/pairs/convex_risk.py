"""Empirical convex risk over all pairs of rows with different real labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy import sparse

from convexrank import losses
from convexrank.backend.cached import cached_property
from convexrank.backend.gram import dense
from convexrank.backend.jax_oracles import pad, shape_class
from convexrank.data import check_positive, check_vector, check_weights, keep, keep_checked
from convexrank.pair_sums import all_pairs, logistic
from convexrank.problems._linear_scores import RiskData
from convexrank.problems._pair_reference import reference_exponential, reference_graded
from convexrank.problems._second_order import SecondOrder
from convexrank.problems._streams import refuse_chunks
from convexrank.problems.bipartite._base import random_features
from convexrank.problems.duals._blocks import Conjugate
from convexrank.problems.duals._loss_blocks import MODEL, Pairs, graded_pairs
from convexrank.problems.duals._losses import loss_conjugate
from convexrank.regularizers import L1Ball, L2Ball

__all__ = ["ConvexRisk"]

Array = np.ndarray

# Up to this many rows second derivatives are affordable.
_FEW_ROWS = 1_500


@dataclass(frozen=True, eq=False)
class ConvexRisk(SecondOrder):
    r"""The empirical convex ranking risk A_n: a U-statistic over all pairs of rows with real-valued labels.

    .. math::
        \min_w \; \frac{1}{n(n-1)} \sum_{i \ne j,\; y_i \ne y_j} \phi\bigl(-\operatorname{sgn}(y_i-y_j)(f_i-f_j)\bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    over all ordered pairs, so that each unordered pair counts twice; φ(x) = ℓ(−x) is the cost that belongs to the loss
    ℓ. The paper's sum also runs over pairs with equal labels, which add the constant φ(0) each: :meth:`paper_value`.
    ``l1_ball`` and ``l2_ball`` constrain w as in the paper's classes for boosting and for kernel machines.

    Cost of a value: O(n log n) with the exponential, hinge and squared hinge costs, whatever the number of different
    labels; O(n²) time with bounded memory otherwise. A pair with tied scores has the cost φ(0).

    Parameters
    ----------
    X, l2, l1, dtype : as for :class:`PNormPush`
        The data, the strengths and the precision.
    y : array, shape (n,)
        Real labels, at least two different values; rows with larger labels should rank higher.
    cost : Loss or str
        A loss object or a name: exponential, logistic, hinge, squared_hinge. ``losses.Logistic(base=2)`` is the
        paper's logit cost, with φ(0) = 1.
    l1_ball, l2_ball : float, optional
        Radius B of the constraint :math:`\|w\|_1 \le B` or :math:`\|w\|_2 \le B`; at most one of the two constraints.
    sample_weight : array, shape (n,), optional
        Weights of rows, like repeated rows: a pair has the weight :math:`w_i w_j`, and n is the total weight (above 1).

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, all labels are equal, or a number is out of range.

    References
    ----------
    S. Clémençon, G. Lugosi, N. Vayatis, Ranking and empirical minimization of U-statistics (2006), section 7.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[1.0], [2.0], [1.5], [0.0]], [0.1, 2.5, 3.0, -1.0]
    >>> problem = cr.problems.ConvexRisk(X, y, "hinge", l2_ball=2.0)
    >>> solution = problem.solve()
    >>> solution.status.name, round(float(solution.x[0]), 4)
    ('CONVERGED', 1.5518)
    """

    y: Any
    cost: Any = "exponential"
    l1_ball: float | None = None
    l2_ball: float | None = None
    sample_weight: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = self.X.shape[0]
        weights = check_weights(self.sample_weight, rows)
        keep(
            self,
            y=check_vector(self.y, rows, "y"),
            cost=losses.resolve(self.cost, "cost"),
            sample_weight=weights,
        )
        kept = np.arange(rows) if weights is None else np.flatnonzero(weights)
        if len(np.unique(self.y[kept])) < 2:
            raise ValueError(
                f"y has one distinct value ({self.y[kept[0]]}) among rows with a positive weight, expected at least "
                "two; there is no pair to rank."
            )
        if weights is not None and not weights.sum() > 1:
            raise ValueError(f"sample_weight sums to {weights.sum()}, expected more than 1: it stands for n.")
        if self.l1_ball is not None and self.l2_ball is not None:
            raise ValueError("l1_ball and l2_ball are both given; give at most one constraint.")
        keep_checked(self, check_positive, "l1_ball", "l2_ball")
        _ = self.ball  # a bad radius is refused here, not at the first solve
        # stable sort by label: what the exponential cost sweeps over
        keep(self, _order=kept[np.argsort(self.y[kept], kind="stable")])

    depends_on_differences = True

    @property
    def takes_chunks(self) -> bool:  # type: ignore[override]
        """Whether X may be rows out of memory: where the cost factorises, in two passes, with all scores held."""
        return losses.resolve(self.cost, "cost").factorises

    @property
    def ball(self) -> L1Ball | L2Ball | None:
        """The constraint on w."""
        if self.l1_ball is not None:
            return L1Ball(check_positive(self.l1_ball, "l1_ball"))
        return None if self.l2_ball is None else L2Ball(check_positive(self.l2_ball, "l2_ball"))

    @property
    def differentiable(self) -> bool:
        """Whether the cost is differentiable."""
        return self.cost.smooth

    @property
    def smooth_at_zero(self) -> bool:
        """Whether the cost is differentiable at 0: the hinge is, its kink is at 1."""
        return self.cost.smooth or isinstance(self.cost, losses.Hinge)

    @property
    def has_curvature(self) -> bool:
        """Newton's method, unless second derivatives would need too many pairs."""
        return self.differentiable and (self.cost.factorises or self.X.shape[0] <= _FEW_ROWS)

    @property
    def pairwise_curvature(self) -> bool:  # type: ignore[override]
        """Whether second derivatives run over all pairs: unless the cost factorises."""
        return not self.cost.factorises

    @property
    def _order(self) -> Array:
        return self.__dict__["_order"]

    @cached_property
    def _sorted_weights(self) -> Array:
        return np.ones(len(self._order)) if self.sample_weight is None else self.sample_weight[self._order]

    @property
    def row_counts(self) -> Array | None:
        """The weights of the rows."""
        return self.sample_weight

    @cached_property
    def _log_weights(self) -> Array:
        return np.log(self._sorted_weights)

    @cached_property
    def _ranks(self) -> Array:
        """Labels in sorted order, as 0, 1, 2, …."""
        return np.unique(self.y[self._order], return_inverse=True)[1].ravel()

    @cached_property
    def _below(self) -> Array:
        """For each row in sorted order, how many rows have a smaller label."""
        return np.searchsorted(self._ranks, self._ranks, side="left")

    @cached_property
    def _factor(self) -> float:
        """Each unordered pair counts twice, and the mean is over n(n − 1) ordered pairs."""
        total = self._sorted_weights.sum()
        return 2.0 / (total * (total - 1.0))

    @cached_property
    def jax_risk(self) -> RiskData:
        """The risk as a JAX function of the scores sorted by label."""
        size, kind = shape_class(len(self._order)), self.X.dtype
        factor = np.asarray(self._factor, kind)
        if self.cost.factorises:
            logs = pad(self._log_weights.astype(kind), size, -np.inf)
            return RiskData(all_pairs.exponential_graded, (logs, pad(self._below, size), factor), (size,))
        weights, ranks = pad(self._sorted_weights.astype(kind), size), pad(self._ranks, size)
        return RiskData(all_pairs.BlockedGraded(self.cost), (weights, ranks, factor), (size,))

    def split(self, scores: Array) -> tuple[Array, ...]:
        """Return the scores sorted by label, without rows of weight 0."""
        return (scores[self._order],)

    def join(self, parts: tuple[Array, ...]) -> Array:
        """Return the gradient in all scores."""
        gradient = np.zeros(self.X.shape[0], dtype=parts[0].dtype)
        gradient[self._order] = parts[0][: len(self._order)]
        return gradient

    def risk_and_score_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, by the fastest sum over pairs that the cost allows."""
        ordered = self.split(scores)[0]
        if self.cost.factorises:
            return self._scaled(
                all_pairs.exponential_value_and_gradient(ordered, self._log_weights, self._below)
            )
        if isinstance(self.cost, losses.Logistic) and np.ptp(ordered) <= logistic.WIDEST:
            value, slope = logistic.logistic_graded(ordered, self._below, self._sorted_weights)
            unit = 1.0 / np.log(self.cost.base)
            return self._scaled((unit * value, unit * slope))
        if self.cost.polynomial is None:
            return super().risk_and_score_gradient(scores)
        return self._scaled(
            all_pairs.polynomial_graded(self.cost.polynomial, ordered, self._ranks, self._sorted_weights)
        )

    @cached_property
    def _ordered_rows(self) -> Array:
        """The rows of X sorted by label, dense."""
        return dense(self.X[self._order])

    def second_order(self, w: Any) -> tuple[float, Array, Array]:
        """Return value, gradient and Hessian of risk + l2/2·‖w‖². O(n d²) with the exponential cost."""
        refuse_chunks(self.X, "second derivatives")
        if not self.cost.factorises:
            return super().second_order(w)
        w = self.check_point(w)
        value, gradient = self.smooth_value_and_gradient(w)
        ordered = self.split(self.scores(w))[0]
        curvature = all_pairs.exponential_curvature(
            ordered, self._log_weights, self._below, self._ordered_rows
        )
        return value, gradient, self._factor * curvature + self.l2 * np.eye(self.dimension)

    def _scaled(self, answer: tuple[float, Array]) -> tuple[float, Array]:
        return self._factor * answer[0], self._factor * self.join((answer[1],))

    @cached_property
    def conjugate(self) -> Conjugate | None:
        """A multiplier for each unordered pair; None for a cost of the caller's own."""
        found = loss_conjugate(self.cost)
        if found is None:
            return None
        upper, lower = graded_pairs(self._ranks)
        rows, weights = self._order, self._sorted_weights
        pairs = Pairs(found, rows[upper], rows[lower], self._factor * weights[upper] * weights[lower])
        return Conjugate((pairs,), self.rows)

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression, one term for each unordered pair."""
        upper, lower = graded_pairs(self._ranks, MODEL)
        rows, weights = self._order, self._sorted_weights
        pair_costs = self.cost(scores[rows[upper]] - scores[rows[lower]])
        return self._factor * ((weights[upper] * weights[lower]) @ pair_costs), []

    def reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and a subgradient in the scores: sorted, or from the double sum where no sort helps."""
        ordered, weights = self.split(scores)[0], self._sorted_weights
        if self.cost.factorises:
            return self._scaled(reference_exponential(ordered, self._log_weights, self._below))
        return self._scaled(reference_graded(self.cost, ordered, self._ranks, weights, weights))

    def ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, from the definition, for proofs; shape (n,) in and out."""
        from convexrank.proof.pairs import tangent_of_graded

        rows, weights = self._order, self._sorted_weights
        return tangent_of_graded(scores, self.cost, rows, self.y[rows], weights)

    def paper_value(self, w: Any) -> float:
        r"""Return A_n as printed: pairs with equal labels included, which add the constant φ(0) each."""
        risk, _ = self.reference_scores(self.scores(self.check_point(w)))
        weights, total = self._sorted_weights, self._sorted_weights.sum()
        mass = np.bincount(self._ranks, weights)
        tied = float((mass * (mass - 1.0)).sum()) / (total * (total - 1.0))
        with np.errstate(all="ignore"):
            return risk + tied * float(self.cost(0.0))

    @property
    def attained(self) -> bool:
        """Whether the cost reaches its infimum, so that separable data have a minimiser."""
        return self.cost.attained

    def is_separating(self, w: Array) -> bool:
        """Whether all pairs are ranked strictly in the right order."""
        ordered = self.split(self.scores(w))[0]
        starts = np.flatnonzero(np.diff(self._ranks, prepend=-1))
        lowest, highest = np.minimum.reduceat(ordered, starts), np.maximum.reduceat(ordered, starts)
        return bool((lowest[1:] > np.maximum.accumulate(highest)[:-1]).all())

    def ordering(self) -> tuple[Any, Any]:
        """Return the constraints t_g ≤ f for the rows of grade g and f ≤ t_(g+1), one threshold between two grades."""
        ranks, count = self._ranks, int(self._ranks.max())
        upper, lower = np.flatnonzero(ranks > 0), np.flatnonzero(ranks < count)
        signs = np.r_[np.ones(len(upper)), -np.ones(len(lower))]
        rows = self.X[self._order[np.r_[upper, lower]]]
        columns = np.r_[ranks[upper] - 1, ranks[lower]]
        places = np.arange(len(signs)), columns
        return sparse.diags_array(signs) @ rows, sparse.csr_array((-signs, places), shape=(len(signs), count))

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over ordered pairs."""
        from convexrank.problems._plain import loss_of

        f, y = [float(score) for score in scores], self.y.tolist()
        weight = [1.0] * len(f) if self.sample_weight is None else self.sample_weight.tolist()
        cost, n, risk = loss_of(self.cost), sum(weight), 0.0
        for i in range(len(f)):
            for j in range(len(f)):
                if y[i] != y[j] and weight[i] > 0.0 and weight[j] > 0.0:
                    sign = 1.0 if y[i] > y[j] else -1.0
                    risk += weight[i] * weight[j] * cost(sign * (f[i] - f[j]))
        return risk / (n * (n - 1.0))

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        X = random_features(rng, int(rng.integers(5, 24)), int(rng.integers(1, 5)), bounded=True)
        y = X @ rng.normal(size=X.shape[1]) + rng.normal(size=len(X))
        if rng.random() < 0.5:
            y = np.round(y)  # graded labels, many of them equal
            y[0], y[-1] = y.min() - 1.0, y.max() + 1.0
        cost = ["exponential", "logistic", "hinge", "squared_hinge"][int(rng.integers(4))]
        kind = int(rng.integers(3))
        balls: dict[str, Any] = {"l1_ball": 2.0} if kind == 1 else {"l2_ball": 1.0} if kind == 2 else {}
        return cls(X, y, cost, l2=float(rng.choice([1e-2, 0.3])), l1=float(rng.choice([0.0, 0.01])), **balls)
