"""XE-NDCG: the cross-entropy between shifted gains and the softmax of the scores."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from convexrank.data import check_fraction, keep
from convexrank.data.fields import recorded
from convexrank.modelling.groups import Groups
from convexrank.problems.queries._base import TopProbabilities, drawn_queries, exact_gains

Array = np.ndarray


class XENDCG(TopProbabilities):
    r"""XE-NDCG: the cross-entropy of the softmax of the scores, for gains less a constant.

    .. math::
        \min_w \; \sum_{i=1}^{m} c_i \,\mathrm{KL}\bigl(\phi_i \,\big\|\, \mathrm{softmax}(X_i w)\bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad
        \phi_{ij} = \frac{2^{y_{ij}} - \gamma}{\sum_k (2^{y_{ik}} - \gamma)}

    A sum over the m queries that have two rows of different grades; the others contribute nothing. The value is a
    divergence, at least 0: the cross-entropy :math:`-\sum_j\phi_{ij}\log\mathrm{softmax}(X_iw)_j` of the paper less the
    entropy of :math:`\phi_i`, which is constant; :meth:`cross_entropy` adds it. The weight :math:`c_i` is 1, or one
    over the number of rows with ``normalize=True``; the paper takes the mean over queries. Convex for every γ. A value
    costs O(n).

    The paper has a γ in [0, 1] for each document, and implementations draw them anew in every round. Here γ is one
    number, by default the mean of the uniform law. With γ = 1 this is :class:`ListNet` with ``target="exp2"``, for
    which :math:`-\log \mathrm{NDCG}` is at most the cross-entropy of the query.

    Parameters
    ----------
    X, qid, l2, l1, dtype : as for :class:`RankSVM`
        The data, the strengths and the precision.
    y : array, shape (n,)
        Grades of at least 0; rows with larger grades should rank higher.
    gamma : float
        The number γ between 0 and 1 that is taken from each gain: the smaller, the more rows of grade 0 count.
    normalize : bool
        Whether to divide the loss of each query by its number of rows.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, no query has two different grades, grades are negative,
        or a number is out of range.

    References
    ----------
    S. Bruch, An alternative cross entropy loss for learning-to-rank, The Web Conference (2021), arXiv:1911.09798.

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.9]]
    >>> problem = cr.problems.XENDCG(X, [2, 0, 1, 1], qid=[5, 5, 5, 9], l2=0.1)
    >>> problem.distributions.round(4).tolist(), problem.solve().status.name
    ([0.6364, 0.0909, 0.2727], 'CONVERGED')
    """

    gamma: float = 0.5

    def __post_init__(self) -> None:
        keep(self, gamma=check_fraction(self.gamma, "gamma"))
        super().__post_init__()

    def _worth(self, f: Groups) -> Any:
        return exact_gains(recorded(f.grades), "exp2") + (1.0 - recorded(self.gamma))

    def cross_entropy(self, w: Any) -> float:
        r"""Return :math:`-\sum_i c_i \sum_j \phi_{ij} \log \mathrm{softmax}(X_i w)_j`, the loss as it is printed."""
        phi, axis = self.distributions, self._groups.rows.axis
        entropies = -axis.sums(phi * np.log(phi + (phi == 0.0)))
        risk = self._reference_value(self.scores(self.check_point(w)))
        return float(risk + self.query_weights @ entropies)

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and rows."""
        from convexrank.problems._plain import softmax_divergence

        return softmax_divergence(self, scores, lambda y: [2.0**grade - self.gamma for grade in y])

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X, y, qid = drawn_queries(seed)
        gamma = float(rng.choice([0.0, 0.5, rng.random(), 1.0]))
        l2, l1 = float(rng.choice([1e-2, 0.3])), float(rng.choice([0.0, 0.0, 0.05]))
        return cls(X, y, qid=qid, gamma=gamma, normalize=bool(rng.random() < 0.5), l2=l2, l1=l1)
