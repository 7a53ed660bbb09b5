"""NDCG-consistent regression: fit the gains of each query, divided by the query's best DCG."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.gram import weighted_gram
from convexrank.backend.jax_oracles import pad
from convexrank.core.score_model import Curvature, ScoreModel, without_products
from convexrank.data import keep
from convexrank.data.gains import gains
from convexrank.divergences.names import name_of
from convexrank.problems._linear_scores import RiskData
from convexrank.problems._streams import refuse_chunks
from convexrank.problems.duals._blocks import Conjugate
from convexrank.problems.duals._query_blocks import Exponentials, Squares
from convexrank.problems.queries._base import query_sums, random_queries
from convexrank.problems.queries._softmax import SoftmaxQueries

__all__ = ["NDCGRegression"]

Array = np.ndarray

_DIVERGENCES = ("squared", "generalized_i")


def _squared(data: Any, scores: Any) -> Any:
    import jax
    import jax.numpy as jnp

    query, targets, row_weights, sizes = data
    residuals = jnp.where(row_weights > 0, scores - targets, 0.0)
    # a size of infinity stands for "no offset"
    means = jax.ops.segment_sum(residuals, query, sizes.shape[0]) / sizes
    centred = residuals - jnp.append(means, 0.0)[query]
    return 0.5 * row_weights @ (centred * centred)


def _shifted_exponential(data: Any, scores: Any) -> Any:
    import jax.numpy as jnp

    targets, row_weights, constant = data
    return constant + row_weights @ (jnp.where(row_weights > 0, jnp.exp(scores), 0.0) - targets * scores)


@dataclass(frozen=True, eq=False)
class NDCGRegression(SoftmaxQueries):
    r"""Regression on normalised gains, which is consistent with NDCG.

    .. math::
        \min_{w,\beta} \; \sum_{i=1}^{m} c_i\, D_\varphi\bigl(t_i \big\| (\nabla\varphi)^{-1}(X_i w + \beta_i)\bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad
        t_{ij} = \frac{g(y_{ij})}{\sum_r g(y_{i[r]})/\log_2(1+r)}

    A sum over the m queries that have two rows of different grades; the others contribute nothing. The target of a
    document is its gain over the best DCG of its query, so that the sum of targets over discounts is NDCG.

    * ``divergence="squared"``: :math:`\tfrac12\sum_j (s_j - t_j)^2`;
    * ``divergence="generalized_i"``: :math:`\sum_j t_j \log(t_j/e^{s_j}) - t_j + e^{s_j}`.

    With ``offsets`` each query has its own offset :math:`\beta_i`, whose best value has a closed form: residuals of
    the square are centred, and the I-divergence becomes :math:`T_i\,\mathrm{KL}(t_i/T_i \| \mathrm{softmax}(s_i))`
    with :math:`T_i = \sum_j t_{ij}`, a weighted ListNet. Otherwise the offsets are 0. :math:`c_i` is one
    over the number of rows with ``normalize``, else 1. Convex. A value costs O(n).

    Parameters
    ----------
    X, qid, l2, l1, dtype : as for :class:`RankSVM`
        The data, the strengths and the precision; offsets are not penalised.
    y : array, shape (n,)
        Grades of at least 0; rows with larger grades should rank higher.
    divergence : {"squared", "generalized_i"} or Divergence
        Which Bregman divergence: a name, or a divergence object; kept as the name.
    gain : {"exp2", "linear"}
        The gain g(y) = 2^y − 1 or g(y) = y.
    offsets : bool
        Whether each query has an offset.
    normalize : bool
        Whether to divide the loss of each query by its number of rows.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, no query has two different grades, grades are negative,
        or a number is out of range.

    References
    ----------
    P. Ravikumar, A. Tewari, E. Yang, On NDCG consistency of listwise ranking methods, AISTATS (2011); S. Acharyya,
    dissertation (2013), section 3.4, where it is the baseline for the squared loss and the I-divergence.

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.9]]
    >>> problem = cr.problems.NDCGRegression(X, [2, 0, 1, 1], qid=[5, 5, 5, 9], l2=0.1)
    >>> problem.targets.round(4).tolist(), problem.solve().status.name
    ([0.8262, 0.0, 0.2754], 'CONVERGED')
    """

    divergence: Any = "squared"
    gain: Literal["exp2", "linear"] = field(default="exp2", kw_only=True)
    offsets: bool = field(default=True, kw_only=True)
    normalize: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        keep(self, divergence=name_of(self.divergence, _DIVERGENCES))
        super().__post_init__()
        _ = self.targets  # bad grades are refused here, not at the first solve

    @property
    def _is_squared(self) -> bool:
        return self.divergence == "squared"

    @property
    def _is_softmax(self) -> bool:
        return self.offsets and not self._is_squared

    @property
    def depends_on_differences(self) -> bool:  # type: ignore[override]
        """Whether each query has an offset of its own."""
        return self.offsets

    @cached_property
    def targets(self) -> Array:
        """The normalised gains of the rows that count, query by query."""
        groups, worth = self.groups, gains(self.grades, self.gain)
        sorted_down = worth[np.lexsort((-worth, groups.query))]
        rank = np.arange(1, groups.rows + 1) - groups.offsets[groups.query]
        return worth / groups.sums(sorted_down / np.log2(1.0 + rank))[groups.query]

    @cached_property
    def distributions(self) -> Array:
        """The targets scaled to sum to 1 in each query."""
        return self.targets / self.groups.sums(self.targets)[self.groups.query]

    @cached_property
    def _weights(self) -> Array:
        """The weight of each query before its targets are scaled."""
        return 1.0 / self.groups.sizes if self.normalize else np.ones(len(self.groups))

    @cached_property
    def query_weights(self) -> Array:
        """The weight of each query's divergence between distributions."""
        return self._weights * self.groups.sums(self.targets)

    @cached_property
    def _row_weights(self) -> Array:
        return self._weights[self.groups.query]

    @cached_property
    def _entropy(self) -> float:
        """The part of the I-divergence without offsets that does not depend on the scores."""
        t = self.targets
        return float(self._row_weights @ (t * np.log(np.where(t > 0, t, 1.0)) - t))

    @cached_property
    def conjugate(self) -> Conjugate | None:
        """Weighted residuals of squares, distributions of queries, or the predictions of the I-divergence."""
        if self._is_softmax:
            return super().conjugate
        rows, targets, weights = self._rows, self.targets, self._row_weights
        if self._is_squared:
            groups = self.groups.query if self.offsets else None
            return Conjugate((Squares(rows, targets, weights, groups),), self.rows)
        shift = -self.join((weights * targets,))
        return Conjugate((Exponentials(rows, weights, weights * targets),), self.rows, shift, -self._entropy)

    @cached_property
    def jax_risk(self) -> RiskData:
        """The risk as a JAX function of the scores, query by query."""
        if self._is_softmax:
            return super().jax_risk
        (rows, queries), kind = self.padded_sizes, self.X.dtype
        targets, weights = (pad(values.astype(kind), rows) for values in (self.targets, self._row_weights))
        if not self._is_squared:
            return RiskData(
                _shifted_exponential, (targets, weights, np.asarray(self._entropy, kind)), (rows,)
            )
        sizes = self.groups.sizes if self.offsets else np.full(len(self.groups), np.inf)
        data = (
            pad(self.groups.query, rows, queries),
            targets,
            weights,
            pad(sizes.astype(kind), queries, np.inf),
        )
        return RiskData(_squared, data, (rows,))

    def _residuals(self, scores: Array) -> Array:
        residuals = scores - self.targets
        return (
            residuals - (self.groups.sums(residuals) / self.groups.sizes)[self.groups.query]
            if self.offsets
            else residuals
        )

    def query_oracle(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, all queries at once."""
        if self._is_softmax:
            return super().query_oracle(scores)
        if self._is_squared:
            residuals = self._residuals(scores)
            pulls = self._row_weights * residuals
            return 0.5 * float(pulls @ residuals), pulls
        with np.errstate(over="ignore", invalid="ignore"):
            levels = np.exp(scores)
            value = self._entropy + float(self._row_weights @ (levels - self.targets * scores))
            return value, self._row_weights * (levels - self.targets)

    def score_model(self, scores: Array) -> ScoreModel:
        """Return the risk to second order in the scores."""
        if self._is_softmax:
            return super().score_model(scores)
        value, gradient = self.risk_and_score_gradient(scores)
        if not self._is_squared:
            with np.errstate(over="ignore"):
                levels = np.exp(self.split(np.asarray(scores, dtype=np.float64))[0])
            return ScoreModel(value, gradient, without_products(self.join((self._row_weights * levels,))))
        diagonal = self.join((self._row_weights,))
        if not self.offsets:
            return ScoreModel(value, gradient, replace(without_products(diagonal), steepness=0.0))
        columns = self._by_query(np.ones(self.groups.rows))
        rates = self._weights / self.groups.sizes
        return ScoreModel(value, gradient, Curvature(diagonal, columns, rates, steepness=0.0))

    def second_order(self, w: Any) -> tuple[float, Array, Array]:
        """Return value, gradient and Hessian of risk + l2/2·‖w‖². O(n d²)."""
        refuse_chunks(self.X, "second derivatives")
        if self._is_softmax:
            return super().second_order(w)
        w = self.check_point(w)
        value, gradient = self.smooth_value_and_gradient(w)
        rows, groups, weights = self.rows_of_queries, self.groups, self._row_weights
        if not self._is_squared:
            with np.errstate(over="ignore"):
                weights = weights * np.exp(self._ordered(w))
        curvature = weighted_gram(rows, weights)
        if self._is_squared and self.offsets:
            sums = query_sums(groups, np.ones(groups.rows), rows)
            curvature -= weighted_gram(sums, self._weights / groups.sizes)
        return value, gradient, curvature + self.l2 * np.eye(self.dimension)

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression."""
        import cvxpy as cp

        if self._is_softmax:
            return super().risk_model(scores)
        ordered, weights = scores[self._rows], self._row_weights
        if not self._is_squared:
            return self._entropy + weights @ cp.exp(ordered) - (weights * self.targets) @ ordered, []
        centring: list[Any] = [
            np.eye(size) - (1.0 / size if self.offsets else 0.0) for size in self.groups.sizes
        ]
        residuals = sparse.block_diag(centring, format="csr") @ (ordered - self.targets)
        return 0.5 * cp.sum_squares(cp.multiply(np.sqrt(weights), residuals)), []

    def reference_query(self, query: int, scores: Array) -> tuple[float, Array]:
        """Return the weighted divergence of one query from its definition, and its gradient."""
        target, weight = self.targets[self.stretch(query)], self._weights[query]
        if self._is_squared:
            offset = float(np.mean(target - scores)) if self.offsets else 0.0
            residuals = scores + offset - target
            return 0.5 * weight * float(residuals @ residuals), weight * residuals
        # the best offset makes predictions and targets add up to the same
        offset = np.log(target.sum()) - np.logaddexp.reduce(scores) if self.offsets else 0.0
        predicted = np.exp(scores + offset)
        named = target > 0
        logs = float(target[named] @ (np.log(target[named]) - (scores + offset)[named]))
        return weight * (logs + float((predicted - target).sum())), weight * (predicted - target)

    def ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, from the definition, for proofs; shape (n,) in and out."""
        from convexrank.proof import queries

        fits = [
            queries.Fit(rows, queries.normalised_gains(grades, self.gain), len(rows) if self.normalize else 1)
            for rows, grades in self._queries()
        ]
        if self._is_squared:
            return queries.tangent_of_squares(scores, fits, self.offsets)
        return (queries.tangent_of_softmax if self.offsets else queries.tangent_of_exponentials)(scores, fits)

    @cached_property
    def attained(self) -> bool:
        """Whether the risk reaches its infimum: squares do, and I-divergences without a target of zero."""
        return self._is_squared or bool((self.targets > 0).all())

    def is_separating(self, w: Array) -> bool:
        """Whether moving along w lowers the risk for ever, where one look tells."""
        return self._is_softmax and super().is_separating(w)

    def ordering(self) -> tuple[Any, Any] | None:
        """Return the directions that never raise the risk."""
        if self._is_softmax:
            return super().ordering()
        # rows with a target keep their score, the others may fall
        named = np.flatnonzero(self.targets > 0)
        picked = self.rows_of_queries[np.r_[named, np.arange(self.groups.rows)]]
        signs = np.r_[np.ones(len(named)), -np.ones(self.groups.rows)]
        return sparse.diags_array(signs) @ picked, np.zeros((len(signs), 0))

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and rows."""
        from math import log, log2

        from convexrank.problems._plain import exp, queries_of

        f, y, risk = [float(score) for score in scores], self.y.tolist(), 0.0
        for rows in queries_of(self.qid, len(f)):
            if max(y[j] for j in rows) == min(y[j] for j in rows):
                continue
            worth = {j: 2.0 ** y[j] - 1.0 if self.gain == "exp2" else y[j] for j in rows}
            falling = sorted(worth.values(), reverse=True)
            best = sum(gain / log2(2.0 + place) for place, gain in enumerate(falling))
            t = {j: worth[j] / best for j in rows}
            beta, divergence = 0.0, 0.0
            if self.divergence == "squared":
                if self.offsets:  # the best one: residuals add up to 0
                    beta = sum(t[j] - f[j] for j in rows) / len(rows)
                divergence = 0.5 * sum((f[j] + beta - t[j]) ** 2 for j in rows)
            else:
                if self.offsets:  # the best one: predictions add up to the sum of the targets
                    top = max(f[j] for j in rows)
                    beta = log(sum(t.values()) / sum(exp(f[j] - top) for j in rows)) - top
                for j in rows:
                    s = f[j] + beta
                    divergence += (t[j] * (log(t[j]) - s) if t[j] > 0.0 else 0.0) - t[j] + exp(s)
            risk += divergence / len(rows) if self.normalize else divergence
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        X, y, qid = random_queries(rng)
        divergence: Any = ["squared", "generalized_i"][int(rng.integers(2))]
        gain: Any = ["exp2", "linear"][int(rng.integers(2))]
        l2, l1 = float(rng.choice([1e-2, 0.3])), float(rng.choice([0.0, 0.0, 0.01]))
        return cls(X, y, qid, divergence, gain=gain, normalize=bool(rng.random() < 0.5), l2=l2, l1=l1)
