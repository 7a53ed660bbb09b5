"""The partial area under the ROC curve: pairs with the negatives that are ranked highest."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from convexrank import losses
from convexrank.data import check_probability, check_share, keep
from convexrank.data.fields import recorded
from convexrank.modelling import Groups, Node, mean_of_highest, pair_means
from convexrank.problems.bipartite._base import Bipartite, drawn_rows, random_labels
from convexrank.problems.bipartite._trivial_top import remark_on_few

__all__ = ["PartialAUC"]

Array = np.ndarray


class PartialAUC(Bipartite):
    r"""The mean loss of the pairs with the highest negatives: the partial AUC up to a false positive rate.

    .. math::
        \min_w \; \frac1{\beta K} \sum_{k \in \mathrm{top}(\beta K)} \;
        \frac1{(1-\gamma)I} \sum_{i \in \mathrm{bottom}((1-\gamma)I)} \ell(f_i - f_k)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    over the :math:`\beta K` negatives with the highest scores, :math:`\beta` the largest false positive rate that
    counts, and all positives, :math:`\gamma = 0`; if :math:`\beta K` is no whole number, the last one counts in part.
    Means over positives and over these negatives. With a loss of at least 1 at margins up to 0 it is at least one minus
    the partial AUC, over :math:`\beta`: the share of these pairs in the wrong order, ties included.

    A loss that does not increase is larger for higher negatives, whatever the positive, so that the mean is the largest
    over all choices of :math:`\beta K` negatives, and convex. :math:`\beta = 1` is the mean over all pairs,
    :math:`\beta \le 1/K` is :class:`RmaxPush`. Not smooth for :math:`\beta < 1`. A value costs O(n log n) with hinge
    and squared hinge, and with the logistic loss from 4 million pairs on; O(n) with the exponential loss; O(I·K)
    otherwise.

    Two-way, with ``min_tpr`` = γ, only the :math:`(1-\gamma)I` positives with the lowest scores count, in a mean over
    these: true positive rates from γ on. That mean is the largest over all choices of both sets, hence
    convex, too (:doc:`/formulations/spectral_push`).

    Parameters
    ----------
    X, y, l2, l1, qid, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`; a row of weight 2 is like two rows. With queries the negatives that count are those
        that are highest in each query.
    max_fpr : float
        The share β of the negatives that counts, above 0 and at most 1.
    loss : Loss or str
        A loss object or a name: hinge, logistic, exponential, squared_hinge.
    min_tpr : float or None
        The true positive rate γ from which on the curve counts, between 0 and 1; None for all of it. It takes a loss
        that does not increase.

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
    min_tpr: float | None = None

    def __post_init__(self) -> None:
        keep(self, max_fpr=check_share(self.max_fpr, "max_fpr"), loss=losses.resolve(self.loss))
        if self.min_tpr is not None:
            keep(self, min_tpr=check_probability(self.min_tpr, "min_tpr"))
        super().__post_init__()

    def risk(self, f: Groups) -> Node:
        """Return the risk."""
        lowest = 1.0 - recorded(self.min_tpr or 0.0)
        return mean_of_highest(pair_means(self.loss, f.positive, f.negative, lowest), share=self.max_fpr)

    _remark = remark_on_few  # type: ignore[assignment]

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and pairs."""
        from convexrank.problems._plain import loss_of, shares_of_first, sides_of

        f, risk = [float(score) for score in scores], 0.0
        for positives, negatives, weight in sides_of(self.y, self.qid, self.sample_weight):
            loss, shares = loss_of(self.loss), [1.0 - (self.min_tpr or 0.0), self.max_fpr]
            rising = sorted(positives, key=lambda i: f[i]), sorted(negatives, key=lambda k: -f[k])
            lowest, highest = (
                shares_of_first(share, [weight[j] for j in rows])
                for share, rows in zip(shares, rising, strict=True)
            )
            for i, a in zip(rising[0], lowest, strict=True):
                for k, b in zip(rising[1], highest, strict=True):
                    risk += a * b * loss(f[i] - f[k])
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X = drawn_rows(seed, 24, bounded=True)
        loss = ["exponential", "logistic", "hinge", "squared_hinge"][int(rng.integers(4))]
        max_fpr, l1 = float(rng.choice([0.05, 0.2, 0.5, 0.7, 1.0])), float(rng.choice([0.0, 0.0, 0.02]))
        y, l2 = random_labels(rng, X), float(rng.choice([1e-2, 1e-1]))
        min_tpr = [None, 0.1, 0.5, 0.9][int(rng.integers(4))]
        return cls(X, y, max_fpr, loss, min_tpr, l2=l2, l1=l1)
