"""The IR Push: a convex relative of discounted cumulative gain."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from convexrank.modelling import Groups, Node, log_sum_exp, mean, softplus
from convexrank.problems.bipartite._base import Bipartite, drawn_rows, random_labels

Array = np.ndarray


class IRPush(Bipartite):
    r"""The IR Push: a discounted count of the negatives above each positive.

    .. math::
        \min_w \; \frac1I \sum_{i=1}^I \log\Bigl(1 + \sum_{k=1}^K e^{f_k-f_i}\Bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    A mean over positives of a sum over negatives (the paper has the sum over positives: :meth:`paper_value`). The
    discount log(1 + z) is concave, but log(1 + e^a) is convex, so the whole is convex. Since
    :math:`\sum_k e^{f_k-f_i} = e^{\operatorname{lse}(f_k)-f_i}`, a value costs O(I + K). Without l2 and l1,
    separable data have no minimiser: status SEPARABLE.

    Parameters
    ----------
    X, y, l2, l1, qid, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`; with weights of rows, a weighted mean over positives and a weighted sum over
        negatives.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 7, equation (2).

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.IRPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], l2=0.1)
    >>> problem.solve().status.name
    'CONVERGED'
    """

    def risk(self, f: Groups) -> Node:
        """Return the risk."""
        return mean(softplus(log_sum_exp(f.negative) - f.positive))

    def paper_value(self, w: Any) -> float:
        r"""Return the paper's :math:`R_{g_{IR},\exp} = \sum_i \ln(1+\sum_k e^{-(f_i-f_k)})`, equation (2)."""
        risk = self._reference_value(self.scores(self.check_point(w)))
        return float(risk * self._positive_weights.sum())

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and pairs."""
        from math import exp, log

        from convexrank.problems._plain import sides_of

        f, risk = [float(score) for score in scores], 0.0
        for positives, negatives, weight in sides_of(self.y, self.qid, self.sample_weight):
            whole = sum(weight[i] for i in positives)
            for i in positives:
                # the 1 is e^0; all terms over the largest one: e^(f_k - f_i) leaves the range of floats
                top = max(0.0, max(f[k] - f[i] for k in negatives))
                total = exp(-top) + sum(weight[k] * exp(f[k] - f[i] - top) for k in negatives)
                risk += weight[i] / whole * (top + log(total))
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X = drawn_rows(seed, 60)
        l1 = float(rng.choice([0.0, 0.0, 0.02]))
        return cls(X, random_labels(rng, X), l2=float(rng.choice([1e-3, 1e-1])), l1=l1)
