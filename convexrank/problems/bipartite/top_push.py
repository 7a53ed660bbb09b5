"""The limit p = ∞ of the P-Norm Push."""

from __future__ import annotations

from typing import Self

import numpy as np

from convexrank.modelling import Groups, Node, log_mean_exp, maximum
from convexrank.problems.bipartite._base import Bipartite, drawn_rows, random_labels
from convexrank.problems.bipartite._trivial_top import limit_problem, trivial_remark
from convexrank.problems.bipartite.p_norm_push import PNormPush

Array = np.ndarray


class TopPush(Bipartite):
    r"""The push at the very top: the limit p = ∞ of :class:`PNormPush`, a smoothed R_max.

    .. math::
        \min_w \; \log\tfrac1I\sum_{i=1}^I e^{-f_i} + \max_k f_k
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    equal to :math:`\log \max_k \frac1I \sum_i e^{-(f_i-f_k)}`: only the highest negative counts. Convex, not smooth;
    the mean is over positives. Ties for the highest negative share the subgradient.

    When no direction puts the mean of the positives above every negative, w = 0 with value 0 is optimal. This is a
    limitation of the method, not of the solver, and a solve warns. Use a large finite p, or :meth:`at_limit`.

    Parameters
    ----------
    X, y, l2, l1, qid, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`; the weight of a negative has an effect only if it is zero.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 2 (R_max) and 9.2.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.TopPush([[1.0], [2.0], [0.5], [0.0]], [1, 1, 0, 0], l2=0.5)
    >>> round(problem.solve().value, 6), round(problem.solve(solver="exact").value, 6)
    (-0.682733, -0.682733)
    """

    def risk(self, f: Groups) -> Node:
        """Return the risk."""
        return log_mean_exp(-f.positive) + maximum(f.negative)

    _remark = trivial_remark  # type: ignore[assignment]

    def at_limit(self) -> PNormPush:
        r"""Return the problem of the limit of PNormPush's directions, p → ∞, when the minimum is w = 0.

        Then, as p grows, the minimiser of :class:`PNormPush` tends to 0 like v/p, and its direction to that of

        .. math:: \min_v \; \log \tfrac1K \sum_k e^{\langle v, x_k \rangle} - \langle v, \bar x\rangle

        with the mean positive :math:`\bar x`. It has no penalty: l2 and l1 vanish in the limit.

        Returns
        -------
        PNormPush
            A problem with p = 1, the mean of the positives as the only positive row, and the negatives. Its weights are
            for the features of this problem.
        """
        return limit_problem(self)

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more: log max over k of the mean of e^-(f_i - f_k)."""
        from convexrank.problems._plain import log_mean, sides_of

        f, risk = [float(score) for score in scores], 0.0
        for positives, negatives, weight in sides_of(self.y, self.qid, self.sample_weight):
            # their logarithms: a sum of exponentials leaves the range of floats
            risk += max(log_mean([(weight[i], f[k] - f[i]) for i in positives]) for k in negatives)
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X = drawn_rows(seed, 60)
        l1 = float(rng.choice([0.0, 0.0, 0.02]))
        return cls(X, random_labels(rng, X), l2=float(rng.choice([1e-3, 1e-1])), l1=l1)
