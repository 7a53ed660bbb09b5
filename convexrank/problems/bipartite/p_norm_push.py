"""The P-Norm Push in closed form."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from convexrank.data import check_positive, keep_checked
from convexrank.modelling import Groups, Node, log_mean_exp
from convexrank.problems.bipartite._base import Bipartite, drawn_rows, random_labels

Array = np.ndarray


class PNormPush(Bipartite):
    r"""The P-Norm Push: rank positives above negatives, with a push of strength p at the top of the list.

    .. math::
        \min_w \; \frac1p \log\Bigl[\frac1K \sum_{k=1}^K \Bigl(\frac1I \sum_{i=1}^I e^{-(f_i-f_k)}\Bigr)^p\Bigr]
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    The paper minimises :math:`R_{p,\exp} = \sum_k (\sum_i e^{-(f_i-f_k)})^p` (:meth:`paper_value`). Its logarithm,
    divided by p and normalised by means over positives (i) and negatives (k), has the same minimisers when
    unregularised, is finite for every p, and is jointly convex, because the exponential loss factorises:

    .. math:: \log\tfrac1I\sum_i e^{-f_i} + \tfrac1p\log\tfrac1K\sum_k e^{p f_k}

    so a value costs O(I + K), not O(I·K). As p grows it tends to :class:`TopPush`; p = 1 is RankBoost's objective. It
    is convex for every p > 0; the paper requires p ≥ 1. A tie has the loss e^0 = 1, like a misranked pair in the 0-1
    count. Without l2 and l1, separable data have no minimiser: status SEPARABLE. With l1 alone the logarithm may tend
    to minus infinity on separable data: status UNBOUNDED.

    Parameters
    ----------
    X : array, sparse array or JAX array, shape (n, d)
        The features, one row per example; no intercept, which would cancel in every pair.
    y : array, shape (n,)
        Two classes: {0, 1}, {−1, +1}, booleans, or two strings; the larger is the positive class.
    p : float
        The power p of the push, greater than 0 and finite.
    l2, l1 : float
        Strengths :math:`\lambda_2, \lambda_1` of the penalties.
    qid : array of int or str, shape (n,), QueryGroups, or None
        The query of each row: the risk is the sum over queries, each with its own positives and negatives. One that
        lacks a class contributes nothing. None is one query.
    sample_weight : array, shape (n,), optional
        Weights of rows; the means become weighted means.
    dtype : {"float64", "float32"}
        Precision of the data.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, y does not have two classes, or a number is out of
        range.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), sections 2 and 5; C. Rudin, Ranking with a P-Norm Push, COLT (2006).

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.4], [0.2, 0.1], [0.4, 0.9]])
    >>> problem = cr.problems.PNormPush(X, [1, 1, 1, 0, 0], p=4, l2=0.01)
    >>> solution = problem.solve()
    >>> solution
    Solution: CONVERGED (newton, 3 steps, 0.0015 s), value -0.094394, gap 5e-17 certified (global)
    """

    p: float

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "p", infinite=True)
        if math.isinf(self.p):
            raise ValueError(f"p is {self.p}, expected a finite number; problems.TopPush is the limit p = ∞.")
        super().__post_init__()

    def risk(self, f: Groups) -> Node:
        """Return the risk: the pairs factorise, and a power of an exponential is one of its exponent."""
        return log_mean_exp(-f.positive) + log_mean_exp(self.p * f.negative) / self.p

    def log_paper_value(self, w: Any) -> float:
        r"""Return :math:`\log R_{p,\exp}`, which never overflows; row weights count as repeated rows."""
        risk = self._reference_value(self.scores(self.check_point(w)))
        counts = self.p * np.log(self._positive_weights.sum()) + np.log(self._negative_weights.sum())
        return float(self.p * risk + counts)

    def paper_value(self, w: Any) -> float:
        r"""Return the paper's :math:`R_{p,\exp} = \sum_k(\sum_i e^{-(f_i-f_k)})^p`; infinity beyond 1.8e308.

        References
        ----------
        2009 paper, section 5 (where :math:`R_{p,\exp}` is introduced).
        """
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_paper_value(w)))

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and pairs."""
        from convexrank.problems._plain import log_norm, sides_of

        f, risk = [float(score) for score in scores], 0.0
        for positives, negatives, weight in sides_of(self.y, self.qid, self.sample_weight):
            risk += log_norm(f, negatives, positives, weight, self.p)
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X = drawn_rows(seed, 60)
        p = float(rng.choice([0.5, 1.0, 2.0, 4.0, 16.0, 64.0]))
        l1 = float(rng.choice([0.0, 0.0, 0.02]))
        return cls(X, random_labels(rng, X), p=p, l2=float(rng.choice([1e-3, 1e-1])), l1=l1)
