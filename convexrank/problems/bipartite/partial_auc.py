"""The partial area under the ROC curve: pairs with the negatives that are ranked highest."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from convexrank import losses
from convexrank.data import check_share, keep
from convexrank.data.recorded import recorded
from convexrank.modelling import Groups, Node, mean_of_highest, pair_sums
from convexrank.problems.bipartite._base import Bipartite, random_features, random_labels
from convexrank.problems.bipartite._trivial_top import remark_on_few

__all__ = ["PartialAUC"]

Array = np.ndarray


class PartialAUC(Bipartite):
    r"""The mean loss of the pairs with the highest negatives: the partial AUC up to a false positive rate.

    .. math::
        \min_w \; \frac1{\beta K} \sum_{k \in \mathrm{top}(\beta K)} \frac1I \sum_{i=1}^I \ell(f_i - f_k)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    over the :math:`\beta K` negatives with the highest scores, :math:`\beta` the largest false positive rate that
    counts; if :math:`\beta K` is no whole number, the last one counts in part. Means over positives and over these
    negatives. With a loss of at least 1 at margins up to 0 it is at least one minus the partial AUC, over
    :math:`\beta`: the share of these pairs in the wrong order, ties included.

    A loss that does not increase is larger for higher negatives, whatever the positive, so that the mean is the largest
    over all choices of :math:`\beta K` negatives, and convex. :math:`\beta = 1` is the mean over all pairs,
    :math:`\beta \le 1/K` is :class:`RmaxPush`. Not smooth for :math:`\beta < 1`. A value costs O(n log n) with hinge
    and squared hinge, O(n) with the exponential loss, and O(I·K) otherwise.

    Two-way, with the lowest :math:`(1-\gamma)I` positives only, the mean is the largest over all choices of both sets,
    hence convex, too. There is no ``min_tpr``, as sums of pairs have fixed weights of the positives:
    :doc:`/formulations/spectral_push` has the derivation, and solves it from cvxpy.

    Parameters
    ----------
    X, y, l2, l1, qid, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`; a row of weight 2 is like two rows. With queries the negatives that count are those
        that are highest in each query.
    max_fpr : float
        The share β of the negatives that counts, above 0 and at most 1.
    loss : Loss or str
        A loss object or a name: hinge, logistic, exponential, squared_hinge.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`.

    References
    ----------
    H. Narasimhan and S. Agarwal, A structural SVM based approach for optimizing partial AUC, ICML (2013), the interval
    from 0 to β.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[1.5], [2.0], [1.0], [0.0], [0.5]], [1, 1, 0, 0, 0]
    >>> problem = cr.problems.PartialAUC(X, y, 0.5, "squared_hinge", l2=0.1)
    >>> print(round(problem.solve().value, 6), round(problem.solve("exact").value, 6))
    0.125 0.125
    """

    max_fpr: float = 0.05
    loss: Any = "hinge"

    def __post_init__(self) -> None:
        keep(self, max_fpr=check_share(self.max_fpr, "max_fpr"), loss=losses.resolve(self.loss))
        super().__post_init__()

    def risk(self, f: Groups) -> Node:
        """Return the risk."""
        upper, lower = f.positive.axis, f.negative.axis
        shares = 1.0 / upper.sums(recorded(upper.weights))[lower.query]
        return mean_of_highest(pair_sums(self.loss, f.positive, f.negative) * shares, share=self.max_fpr)

    def remark(self, x: Array) -> str:
        """Say so where the minimum is w = 0."""
        return remark_on_few(self, x)

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and pairs."""
        from convexrank.problems._plain import loss_of, sides_of

        f, risk = [float(score) for score in scores], 0.0
        for positives, negatives, weight in sides_of(self.y, self.qid, self.sample_weight):
            loss, size = loss_of(self.loss), sum(weight[i] for i in positives)
            allowed = left = self.max_fpr * sum(weight[k] for k in negatives)
            for k in sorted(negatives, key=lambda k: -f[k]):
                counted = min(weight[k], left)
                risk += counted / allowed * sum(weight[i] / size * loss(f[i] - f[k]) for i in positives)
                left -= counted
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        X = random_features(rng, int(rng.integers(6, 24)), int(rng.integers(1, 5)), bounded=True)
        loss = ["exponential", "logistic", "hinge", "squared_hinge"][int(rng.integers(4))]
        max_fpr, l1 = float(rng.choice([0.05, 0.2, 0.5, 0.7, 1.0])), float(rng.choice([0.0, 0.0, 0.02]))
        return cls(X, random_labels(rng, X), max_fpr, loss, l2=float(rng.choice([1e-2, 1e-1])), l1=l1)
