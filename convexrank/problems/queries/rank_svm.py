"""RankSVM: the hinge loss over the pairs of each query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy import sparse

from convexrank import losses
from convexrank.backend.cached import cached_property
from convexrank.backend.jax_oracles import pad, shape_class
from convexrank.core.score_model import Curvature, ScoreModel
from convexrank.data import keep
from convexrank.pair_sums.within_queries import active_sums, pair_list
from convexrank.problems._linear_scores import RiskData
from convexrank.problems._pair_reference import centred, graded_in_blocks, reference_graded
from convexrank.problems._second_order import SecondOrder
from convexrank.problems._smoothed import Smoothed
from convexrank.problems._smoothed_reference import lowered_pairs
from convexrank.problems.duals._blocks import Conjugate
from convexrank.problems.duals._loss_blocks import MODEL, Pairs, refuse_many_pairs
from convexrank.problems.duals._losses import loss_conjugate
from convexrank.problems.queries._base import QueryScores, random_queries
from convexrank.problems.queries._smoothed_pairs import PairRows, smoothed_pairs

__all__ = ["RankSVM"]

Array = np.ndarray

# Pairs for each row that are taken one by one at the first width.
_PAIRS_PER_ROW = 200.0


@dataclass(frozen=True)
class _PairRisk:
    """The risk as a JAX function over a list of pairs. Hashable by its loss."""

    loss: Any

    def __call__(self, data: Any, scores: Any) -> Any:
        import jax.numpy as jnp

        upper, lower, weights = data
        return weights @ jnp.where(weights > 0, self.loss(scores[upper] - scores[lower]), 0.0)


@dataclass(frozen=True, eq=False)
class RankSVM(SecondOrder, QueryScores):
    r"""RankSVM: the scores of two documents of a query with different grades should differ by a margin of 1.

    .. math::
        \min_w \; \sum_{i=1}^{m} c_i \sum_{j,k :\, y_{ij} > y_{ik}} \ell\bigl(s_{ij} - s_{ik}\bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad s_i = X_i w

    with the hinge :math:`\ell(z) = \max(0, 1-z)` or its square. A sum over the m queries that have two rows of
    different grades; the others contribute nothing. With ``normalize`` :math:`c_i` is one over the number of pairs of
    the query, so that long queries do not outweigh short ones; without it every pair counts once, and
    :math:`1/\lambda_2` is the constant C of the support vector machine. The size of a difference of grades has no
    effect. Convex. A value costs O(n log n), without a list of pairs.

    Parameters
    ----------
    X : array, sparse array or JAX array, shape (n, d)
        The features, one row per document; no intercept, which would cancel in every pair.
    y : array, shape (n,)
        Grades; rows with larger grades should rank higher.
    qid : array of int or str, shape (n,), QueryGroups, or None
        The query of each row, in any order; None is one query.
    loss : Loss or str
        The hinge or its square: hinge, squared_hinge.
    normalize : bool
        Whether to divide the loss of each query by its number of pairs.
    l2, l1 : float
        Strengths :math:`\lambda_2, \lambda_1` of the penalties.
    dtype : {"float64", "float32"}
        Precision of the data.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, no query has two different grades, the loss is another,
        or a number is out of range.

    References
    ----------
    R. Herbrich, T. Graepel, K. Obermayer, Large margin rank boundaries for ordinal regression (2000); T. Joachims,
    Optimizing search engines using clickthrough data, KDD (2002), optimization problem 1.

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.9]]
    >>> problem = cr.problems.RankSVM(X, [2, 0, 1, 1], qid=[5, 5, 5, 9], l2=0.1)
    >>> solution = problem.solve()
    >>> solution
    Solution: CONVERGED (continuation, 9 steps, 0.061 s), value 0.1, gap 3e-09 certified (global)
    """

    loss: Any = "hinge"
    normalize: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        keep(self, loss=losses.resolve(self.loss))
        if not isinstance(self.loss, losses.Hinge | losses.SquaredHinge):
            raise ValueError(
                f"loss is {self.loss}, expected hinge or squared_hinge; problems.CrucialPairs takes any loss and a "
                "list of pairs, problems.ConvexRisk any loss and one list of rows."
            )
        super().__post_init__()

    @property
    def differentiable(self) -> bool:
        """Whether the loss is: the square is."""
        return self.loss.smooth

    @property
    def smooth_at_zero(self) -> bool:
        """Yes: the kink of the hinge is at a margin of 1."""
        return True

    attained = True  # the hinge reaches zero

    depends_on_differences = True

    @cached_property
    def ranks(self) -> Array:
        """The grades of each query as 0, 1, 2, …, query by query."""
        return self._numbers - self.groups.minima(self._numbers, 0)[self.groups.query]

    @cached_property
    def _numbers(self) -> Array:
        return self.groups.numbered(self.grades)

    @cached_property
    def pair_counts(self) -> Array:
        """The number of pairs of each query."""
        groups, equal = self.groups, np.bincount(self._numbers)[self._numbers]
        return (groups.sizes**2 - groups.sums(equal)) // 2

    @cached_property
    def query_weights(self) -> Array:
        """One over the number of pairs, or one."""
        return 1.0 / self.pair_counts if self.normalize else np.ones(len(self.groups))

    @cached_property
    def _row_weights(self) -> Array:
        return self.query_weights[self.groups.query]

    @cached_property
    def pairs(self) -> tuple[Array, Array]:
        """Places of the upper and of the lower row of every pair: what the exact model and JAX use."""
        return pair_list(self.ranks, self.groups)

    @cached_property
    def jax_risk(self) -> RiskData:
        """The risk as a JAX function of the scores, over a list of pairs."""
        upper, lower = self.pairs
        size, kind = shape_class(len(upper)), self.X.dtype
        weights = pad(self._row_weights[upper].astype(kind), size)
        return RiskData(
            _PairRisk(self.loss), (pad(upper, size), pad(lower, size), weights), self.padded_sizes[:1]
        )

    def _sides(self, scores: Array) -> tuple[Array, Array, Array]:
        """Centred scores; and count, sum and sum of squares of the violating partners below and above each row."""
        groups, ranks = self.groups, self.ranks
        centred = scores - (groups.sums(scores) / groups.sizes)[groups.query]
        moments = np.column_stack([np.ones(len(centred)), centred, centred**2])
        reversed_ranks = groups.maxima(ranks, 0)[groups.query] - ranks
        below = active_sums(centred, ranks, groups, moments)
        above = active_sums(-centred, reversed_ranks, groups, moments[:, :2])
        return centred, below, above

    def query_oracle(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient (a subgradient) in the scores, all queries at once."""
        centred, below, above = self._sides(scores)
        short = 1.0 - centred
        if not self.loss.smooth:
            values, slopes = short * below[:, 0] + below[:, 1], above[:, 0] - below[:, 0]
        else:
            values = short**2 * below[:, 0] + 2.0 * short * below[:, 1] + below[:, 2]
            slopes = 2.0 * ((1.0 + centred) * above[:, 0] - above[:, 1] - short * below[:, 0] - below[:, 1])
        return float(self._row_weights @ np.maximum(values, 0.0)), self._row_weights * slopes

    def score_model(self, scores: Array) -> ScoreModel:
        r"""Return the risk to second order in the scores, roughly: the pairs of each row are counted, not listed.

        With :math:`b_i, a_i` the violating partners below and above a row and T their sum over a query, rows i and j
        are taken to have :math:`(b_i a_j + a_i b_j) / T` pairs, which keeps all counts. It is exact where all pairs of
        two grades violate the margin, as at the start.
        """
        ordered = self.split(np.asarray(scores, dtype=np.float64))[0]
        value, slope = self.query_oracle(ordered)
        if not self.loss.smooth:
            return ScoreModel(value, self.join((slope,)))
        groups, (_, below, above) = self.groups, self._sides(ordered)
        lower, upper = (2.0 * self._row_weights * side[:, 0] for side in (below, above))
        totals = groups.sums(lower)
        rates = 0.5 / np.where(totals > 0.0, totals, np.inf)
        shape, parts = (self.rows, len(groups)), (lower + upper, lower - upper)
        columns = [sparse.csc_array((part, self._rows, groups.offsets), shape=shape) for part in parts]
        shares = sparse.csc_array(sparse.hstack(columns, format="csc"))
        curvature = Curvature(self.join((parts[0],)), shares, np.concatenate([rates, -rates]), exact=False)
        return ScoreModel(value, self.join((slope,)), curvature)

    def second_order(self, w: Any) -> tuple[float, Array, Array]:
        """Return value, gradient and (generalised) Hessian of risk + l2/2·‖w‖². O(n d² + n d log n)."""
        w = self.check_point(w)
        value, gradient = self.smooth_value_and_gradient(w)
        centred, below, above = self._sides(self._ordered(w))
        rows, weights = self._dense_rows, self._row_weights[:, None]
        partners = active_sums(centred, self.ranks, self.groups, rows)
        cross = (weights * rows).T @ partners
        curvature = (weights * (below[:, :1] + above[:, :1]) * rows).T @ rows - cross - cross.T
        return value, gradient, 2.0 * curvature + self.l2 * np.eye(self.dimension)

    @property
    def has_smoothing(self) -> bool:
        """Whether the loss has a kink."""
        return not self.differentiable

    @property
    def first_width(self) -> float:
        """Twice the margin, so that all pairs are within at w = 0; less where there are very many pairs a row."""
        return min(2.0, _PAIRS_PER_ROW * self.groups.rows / float(self.pair_counts.sum()))

    @cached_property
    def _pair_rows(self) -> PairRows:
        return PairRows(self.rows_of_queries, self.ranks, self.groups, self._row_weights)

    def smoothed(self, w: Array, width: float) -> Smoothed:
        """Return a smooth function below the risk at w, with its derivatives."""
        return smoothed_pairs(self._pair_rows, self._ordered(w), width)

    def reference_below(self, scores: Array, width: float) -> tuple[float, Array]:
        """Return a linear function below the risk: a pair at the margin, within the width, has a part of its slope."""
        value, gradient = self.reference_scores(scores)
        query = self.groups.query
        near_zero = centred(self.split(scores)[0], query)
        change, slope = lowered_pairs(near_zero, self.ranks, self._row_weights, query, width)
        return value + change, gradient + self.join((slope,))

    @cached_property
    def conjugate(self) -> Conjugate | None:
        """A multiplier for each pair of a query."""
        found = loss_conjugate(self.loss)
        if found is None:
            return None
        refuse_many_pairs(int(self.pair_counts.sum()))
        upper, lower = self.pairs
        pairs = Pairs(found, self._rows[upper], self._rows[lower], self._row_weights[upper])
        return Conjugate((pairs,), self.rows)

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression, one term for each pair."""
        refuse_many_pairs(int(self.pair_counts.sum()), MODEL)
        upper, lower = self.pairs
        ordered = scores[self._rows]
        return self._row_weights[upper] @ self.loss(ordered[upper] - ordered[lower]), []

    def reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and a subgradient in the scores, sorted; O(n log n log g) for g grades."""
        ones = np.ones(len(self.ranks))
        query, ordered = self.groups.query, self.split(scores)[0]
        value, gradient = reference_graded(self.loss, ordered, self.ranks, self._row_weights, ones, query)
        return value, self.join((gradient,))

    def reference_query(self, query: int, scores: Array) -> tuple[float, Array]:
        """Return the weighted loss of one query from its double sum, and a subgradient."""
        ones, grades = np.ones(len(scores)), self.grades[self.stretch(query)]
        value, slope = graded_in_blocks(self.loss, scores, grades, ones, ones)
        return self.query_weights[query] * value, self.query_weights[query] * slope

    def ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, from the definition, for proofs; shape (n,) in and out."""
        from convexrank.proof.queries import tangent_of_queries_pairs

        return tangent_of_queries_pairs(scores, self.loss, self._queries(), self.normalize)

    def ball_below(self, scores: Any, width: float) -> Any:
        """Return :meth:`reference_below` in ball arithmetic."""
        from convexrank.proof.queries import tangent_of_parts_of_hinge

        return tangent_of_parts_of_hinge(scores, width, self._queries(), self.normalize)

    def is_separating(self, w: Array) -> bool:
        """Whether every pair is ranked strictly in the right order."""
        upper, lower = self.pairs
        scores = self.split(self.scores(w))[0]
        return bool((scores[upper] > scores[lower]).all())

    def ordering(self) -> tuple[Any, Any]:
        """Return the constraint that each pair is in the right order."""
        upper, lower = self.pairs
        rows = self.rows_of_queries
        return rows[upper] - rows[lower], np.zeros((len(upper), 0))

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and pairs."""
        from convexrank.problems._plain import loss_of, queries_of

        f, y, loss, risk = [float(score) for score in scores], self.y.tolist(), loss_of(self.loss), 0.0
        for rows in queries_of(self.qid, len(f)):
            count, total = 0, 0.0
            for j in rows:
                for k in rows:
                    if y[j] > y[k]:
                        count += 1
                        total += loss(f[j] - f[k])
            if count:
                risk += total / count if self.normalize else total
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        X, y, qid = random_queries(rng)
        loss = ["hinge", "squared_hinge"][int(rng.integers(2))]
        l2, l1 = float(rng.choice([1e-2, 0.3])), float(rng.choice([0.0, 0.0, 0.05]))
        return cls(X, y, qid, loss, normalize=bool(rng.random() < 0.5), l2=l2, l1=l1)
