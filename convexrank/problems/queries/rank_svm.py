"""RankSVM: the hinge loss over the pairs of each query."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Self, cast

import numpy as np
from scipy import sparse

from convexrank import losses
from convexrank.backend.cached import cached_property
from convexrank.core.score_model import Curvature, ScoreModel
from convexrank.data import keep
from convexrank.data.fields import recorded
from convexrank.modelling import pair_sums, total
from convexrank.modelling.expressions import Node, PairSums
from convexrank.modelling.groups import Groups
from convexrank.problems.queries._base import GradedQueries, drawn_queries

Array = np.ndarray


class RankSVM(GradedQueries):
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

    def risk(self, f: Groups) -> Node:
        """The losses of the pairs of each query."""
        sums = cast(PairSums, pair_sums(self.loss, f.rows, f.rows, f.grades))
        return total(sums) / recorded(sums.pair_counts) if self.normalize else total(sums)

    @property
    def pair_counts(self) -> Array:
        """The number of pairs of each query."""
        return self._atom[1].pair_counts

    @property
    def pairs(self) -> tuple[Array, Array]:
        """Places of the upper and of the lower row of every pair."""
        return self._atom[1].pairs

    # --- second derivatives in O(n log n), which the layer counts pair by pair ----------------------------------------

    _pairwise_curvature = False  # type: ignore[assignment]

    @property
    def _has_curvature(self) -> bool:
        """Whether the loss has second derivatives."""
        return self._differentiable

    @cached_property
    def _atom(self) -> tuple[int, Any]:
        """The sum over pairs, and its place in the program."""
        return next((k, node) for k, node in enumerate(self.program.nodes) if isinstance(node, PairSums))

    def _score_model(self, scores: Array) -> ScoreModel:
        r"""Return the risk to second order in the scores, roughly: the pairs of each row are counted, not listed.

        With :math:`b_i, a_i` the violating partners below and above a row and T their sum over a query, rows i and j
        are taken to have :math:`(b_i a_j + a_i b_j) / T` pairs, which keeps all counts. It is exact where all pairs of
        two grades violate the margin, as at the start.
        """
        value, slope = self._risk_and_score_gradient(scores)
        if not self._differentiable:
            return ScoreModel(value, slope)
        (rows, starts), (k, node) = self._by_query, self._atom
        kernel = self.program.up(np.asarray(scores, dtype=np.float64))[1][k][0]
        weights = np.broadcast_to(self.program.constant_adjoints[k], rows.shape)
        upper = kernel.sums(weights, (2,), to_lower=False)[0]
        lower = weights * kernel.sums(node.weights, (2,), to_lower=True)[0]
        totals, diagonal = node.axis.sums(lower), np.zeros(self.rows)
        diagonal[rows] = lower + upper
        rates = 0.5 / np.where(totals > 0.0, totals, np.inf)
        shape = (self.rows, len(totals))
        columns = [
            sparse.csc_array((part, rows, starts), shape=shape) for part in (lower + upper, lower - upper)
        ]
        shares = sparse.csc_array(sparse.hstack(columns, format="csc"))
        return ScoreModel(
            value, slope, Curvature(diagonal, shares, np.concatenate([rates, -rates]), exact=False)
        )

    # ------------------------------------------------------------------------------------------------------------------

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
        rng, X, y, qid = drawn_queries(seed)
        loss = ["hinge", "squared_hinge"][int(rng.integers(2))]
        l2, l1 = float(rng.choice([1e-2, 0.3])), float(rng.choice([0.0, 0.0, 0.05]))
        return cls(X, y, qid, loss, normalize=bool(rng.random() < 0.5), l2=l2, l1=l1)
