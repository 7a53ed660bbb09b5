"""ListMLE: the likelihood of the order of grades under Plackett and Luce's model."""

from __future__ import annotations

from dataclasses import field
from typing import Self

import numpy as np

from convexrank.data.fields import recorded
from convexrank.modelling import cumulative_log_sum_exp, total
from convexrank.modelling.expressions import Node
from convexrank.modelling.groups import Groups
from convexrank.problems.queries._base import GradedQueries, drawn_queries

Array = np.ndarray


class ListMLE(GradedQueries):
    r"""ListMLE: the likelihood of the order of the grades, picked from the top.

    .. math::
        \min_w \; \sum_{i=1}^{m} c_i \sum_{j:\,y_{ij} > \min y_i}
        \Bigl(\log \sum_{k:\,y_{ik} \le y_{ij}} e^{s_{ik}} - s_{ij}\Bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad s_i = X_i w

    A sum over the m queries that have two rows of different grades; the others contribute nothing. Plackett and Luce's
    model picks the documents of a query one after another, each with a probability proportional to :math:`e^s` among
    those that are left; a term is minus the logarithm of such a probability. The weight :math:`c_i` is 1, or one over
    the number of rows with ``normalize=True``.

    Ties are taken as in Breslow's likelihood: each document is picked among all of its own grade and below. Those of
    the lowest grade come last in any case, and have no term. Without ties this is the likelihood of the whole order.
    Convex, since each term is a log-sum-exp less a score. A value costs O(n log n).

    Parameters
    ----------
    X, qid, l2, l1, dtype : as for :class:`RankSVM`
        The data, the strengths and the precision.
    y : array, shape (n,)
        Grades, or any numbers; rows with larger ones should rank higher. Only their order counts.
    normalize : bool
        Whether to divide the loss of each query by its number of rows.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, no query has two different grades, or a number is out of
        range.

    References
    ----------
    F. Xia, T.-Y. Liu, J. Wang, W. Zhang, H. Li, Listwise approach to learning to rank: theory and algorithm, ICML
    (2008), section 4.2; N. Breslow, Covariance analysis of censored survival data, Biometrics 30 (1974), ties.

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.9]]
    >>> problem = cr.problems.ListMLE(X, [2, 0, 1, 1], qid=[5, 5, 5, 9], l2=0.1)
    >>> print(round(problem.solve().value, 6), round(problem.solve("exact").value, 6))
    0.652048 0.652048
    """

    normalize: bool = field(default=False, kw_only=True)

    def risk(self, f: Groups) -> Node:
        """Return the risk."""
        axis = f.rows.axis
        counts = f.grades > -axis.spread(axis.highest(-f.grades))
        lengths = total(cumulative_log_sum_exp(f.rows, f.grades) - f.rows, counts * 1.0)
        return lengths / recorded(axis.sizes) if self.normalize else lengths

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and rows."""
        from math import exp, log

        from convexrank.problems._plain import queries_of

        f, y, risk = [float(score) for score in scores], self.y.tolist(), 0.0
        for rows in queries_of(self.qid, len(f)):
            lowest, paid = min(y[j] for j in rows), 0.0
            for j in rows:
                left = [f[k] for k in rows if y[k] <= y[j]]
                top = max(left)
                if y[j] > lowest:
                    paid += top + log(sum(exp(score - top) for score in left)) - f[j]
            risk += paid / len(rows) if self.normalize else paid
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X, y, qid = drawn_queries(seed)
        if rng.random() < 0.3:  # hardly any ties
            y = np.round(y + rng.normal(size=len(y)), 1)
        l2, l1 = float(rng.choice([1e-2, 0.3])), float(rng.choice([0.0, 0.0, 0.05]))
        return cls(X, y, qid, normalize=bool(rng.random() < 0.5), l2=l2, l1=l1)
