"""The push with only the worst negative: R_max with any convex loss."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from convexrank import losses
from convexrank.data import keep
from convexrank.modelling import Groups, Node, loss_of, maximum, mean
from convexrank.problems.bipartite._base import Bipartite, drawn_rows, random_labels
from convexrank.problems.bipartite._trivial_top import limit_problem, trivial_remark
from convexrank.problems.bipartite.p_norm_push import PNormPush

Array = np.ndarray


class RmaxPush(Bipartite):
    r"""The largest mean loss of any negative.

    .. math::
        \min_w \; \max_k \frac1I \sum_{i=1}^I \ell(f_i - f_k)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    A convex upper bound on R_max / I, the share of positives at or below the highest negative. The loss does not
    increase, so the highest negative has the largest mean loss, and the maximum is :math:`\frac1I\sum_i \ell(f_i -
    \max_k f_k)`, O(I + K). Not smooth. With the hinge loss and no l2 it is a linear program. With the exponential loss
    it is the exponential of :class:`TopPush`'s risk.

    Parameters
    ----------
    X, y, l2, l1, qid, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`; the weight of a negative has an effect only if it is zero.
    loss : Loss or str
        A loss object or a name: hinge, logistic, exponential, squared_hinge.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 2 (R_max) and section 9.2.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.RmaxPush([[1.5], [2.0], [1.0], [0.0]], [1, 1, 0, 0], "hinge", l2=0.1)
    >>> problem.solve().status.name
    'CONVERGED'
    """

    loss: Any = "hinge"

    def __post_init__(self) -> None:
        keep(self, loss=losses.resolve(self.loss))
        super().__post_init__()

    def risk(self, f: Groups) -> Node:
        """Return the risk."""
        return mean(loss_of(self.loss, f.positive - maximum(f.negative)))

    _remark = trivial_remark  # type: ignore[assignment]

    def at_limit(self) -> PNormPush:
        r"""Return the problem that decides where the minimum is w = 0: the limit of PNormPush's directions, p → ∞.

        As p grows, the minimiser of :class:`PNormPush` goes to 0 there like v/p, and its direction to that of

        .. math:: \min_v \; \log \tfrac1K \sum_k e^{\langle v, x_k \rangle} - \langle v, \bar x\rangle

        with the mean positive :math:`\bar x`. It has no penalty: l2 and l1 vanish in the limit.

        Returns
        -------
        PNormPush
            With p = 1, one positive row, the mean, and the negatives; its weights score the rows of this problem.
        """
        return limit_problem(self)

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and pairs."""
        from convexrank.problems._plain import loss_of, sides_of

        f, risk = [float(score) for score in scores], 0.0
        for positives, negatives, weight in sides_of(self.y, self.qid, self.sample_weight):
            loss, means = loss_of(self.loss), []
            for k in negatives:
                total = sum(weight[i] * loss(f[i] - f[k]) for i in positives)
                means.append(total / sum(weight[i] for i in positives))
            risk += max(means)
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X = drawn_rows(seed, 60)
        loss = ["exponential", "logistic", "hinge", "squared_hinge"][int(rng.integers(4))]
        l1 = float(rng.choice([0.0, 0.0, 0.02]))
        return cls(X, random_labels(rng, X), loss, l2=float(rng.choice([1e-2, 1e-1])), l1=l1)
