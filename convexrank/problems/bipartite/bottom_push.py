"""Pushes that concentrate on the bottom of the list, or on both ends."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from convexrank.data import check_nonnegative, check_positive, keep_checked
from convexrank.modelling import Groups, Node, log_mean_exp
from convexrank.problems.bipartite._base import Bipartite, drawn_rows, random_labels

Array = np.ndarray


class BottomPush(Bipartite):
    r"""Pull the worst positives up from the bottom of the list: the P-Norm Push with the roles exchanged.

    .. math::
        \min_w \; \frac1p \log\Bigl[\frac1I \sum_{i=1}^I \Bigl(\frac1K \sum_{k=1}^K e^{-(f_i-f_k)}\Bigr)^p\Bigr]
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    Means over positives (i) and negatives (k); convex for p > 0. It factorises like :class:`PNormPush`:
    :math:`\frac1p\log\frac1I\sum_i e^{-pf_i} + \log\frac1K\sum_k e^{f_k}`, O(I + K) per value. Its risk equals that of
    ``PNormPush(-X, 1 - y, p)``.

    Parameters
    ----------
    X, y, l2, l1, qid, sample_weight, dtype : as for :class:`PNormPush`
        The data, the strengths, weights of rows and precision.
    p : float
        The strength of the pull, greater than 0.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 7, "Concentrating on the Bottom".

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.BottomPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=2, l2=0.1)
    >>> problem.solve().status.name
    'CONVERGED'
    """

    p: float

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "p")
        super().__post_init__()

    def risk(self, f: Groups) -> Node:
        """Return the risk."""
        return log_mean_exp(-self.p * f.positive) / self.p + log_mean_exp(f.negative)

    def paper_value(self, w: Any) -> float:
        r"""Return the paper's :math:`R^{Bottom}_{p,\exp} = \sum_i(\sum_k e^{-(f_i-f_k)})^p` (section 7)."""
        risk = self._reference_value(self.scores(self.check_point(w)))
        counts = self.p * np.log(self._negative_weights.sum()) + np.log(self._positive_weights.sum())
        with np.errstate(over="ignore"):
            return float(np.exp(self.p * risk + counts))

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and pairs."""
        from convexrank.problems._plain import log_norm, sides_of

        below, risk = [-float(score) for score in scores], 0.0
        for positives, negatives, weight in sides_of(self.y, self.qid, self.sample_weight):
            risk += log_norm(below, positives, negatives, weight, self.p)
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X = drawn_rows(seed, 60)
        p = float(rng.choice([1.0, 2.0, 8.0, 64.0]))
        l1 = float(rng.choice([0.0, 0.0, 0.02]))
        return cls(X, random_labels(rng, X), p=p, l2=float(rng.choice([1e-3, 1e-1])), l1=l1)


class TopBottomPush(Bipartite):
    r"""Push at the top and pull at the bottom at once: :class:`PNormPush` plus a multiple of :class:`BottomPush`.

    .. math::
        \min_w \; \frac1p \log\frac1K \sum_k \Bigl(\frac1I \sum_i e^{-(f_i-f_k)}\Bigr)^p
        + \beta\,\frac1p \log\frac1I \sum_i \Bigl(\frac1K \sum_k e^{-(f_i-f_k)}\Bigr)^p
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1

    The paper adds the two objectives themselves; here their normalised logarithms are added, so that β weighs two
    quantities of the same size and nothing overflows. The minimisers differ from those of the paper's sum, by a
    reweighting that depends on the data. Convex for p > 0, O(I + K) per value.

    Parameters
    ----------
    X, y, l2, l1, qid, sample_weight, dtype : as for :class:`PNormPush`
        The data, the strengths, weights of rows and precision.
    p : float
        The power of both terms, greater than 0.
    bottom_weight : float
        The factor β, at least 0.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 7, "Concentrating on the Bottom", last sentence.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.TopBottomPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], 2, 0.5, l2=0.1)
    >>> problem.solve().status.name
    'CONVERGED'
    """

    p: float
    bottom_weight: float = 1.0

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "p")
        keep_checked(self, check_nonnegative, "bottom_weight")
        super().__post_init__()

    def risk(self, f: Groups) -> Node:
        """Return the risk."""
        push = log_mean_exp(-f.positive) + log_mean_exp(self.p * f.negative) / self.p
        if not self.bottom_weight:
            return push
        return push + self.bottom_weight * (
            log_mean_exp(-self.p * f.positive) / self.p + log_mean_exp(f.negative)
        )

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and pairs."""
        from convexrank.problems._plain import log_norm, sides_of

        f, risk = [float(score) for score in scores], 0.0
        below = [-score for score in f]
        for positives, negatives, weight in sides_of(self.y, self.qid, self.sample_weight):
            risk += log_norm(f, negatives, positives, weight, self.p)
            risk += self.bottom_weight * log_norm(below, positives, negatives, weight, self.p)
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X = drawn_rows(seed, 60)
        p, weight = float(rng.choice([1.0, 2.0, 8.0, 64.0])), float(rng.choice([0.0, 0.3, 3.0]))
        l1 = float(rng.choice([0.0, 0.0, 0.02]))
        return cls(X, random_labels(rng, X), p, weight, l2=float(rng.choice([1e-3, 1e-1])), l1=l1)
