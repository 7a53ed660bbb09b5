"""The push against a weighted mean of the sorted negatives: from all of them to the highest one."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from convexrank import losses
from convexrank.data import check_spectrum, keep
from convexrank.modelling import Groups, Node, loss_of, mean, spectral_sum
from convexrank.problems.bipartite._base import Bipartite, drawn_rows, random_labels
from convexrank.problems.bipartite._trivial_top import remark_on_few

__all__ = ["SpectralPush"]

Array = np.ndarray


class SpectralPush(Bipartite):
    r"""The mean loss of the positives against a weighted mean of the sorted negatives.

    .. math::
        \min_w \; \frac1I \sum_{i=1}^I \ell\Bigl(f_i - \sum_{k=1}^K \sigma_k f_{[k]}\Bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    with the scores of the negatives sorted, :math:`f_{[1]} \le \dots \le f_{[K]}`, and weights
    :math:`0 \le \sigma_1 \le \dots \le \sigma_K` that add up to 1: the higher a negative is ranked, the more it counts.
    The mean is over positives. ``("top", 0.05)`` is the mean of the 5 % of the negatives that are ranked highest (their
    conditional value at risk), ``("top", 100)`` that of the highest hundred (TopPushK); ``"uniform"`` is that of all.
    ``("top", 1)`` is :class:`RmaxPush`, if no row has a weight below 1.

    Convex, because the sum is the largest that any order of the weights gives, and the loss does not increase. O(I + K)
    for a mean of the highest; an array costs that for each rise of its numbers. Not smooth, but for the mean of all.
    Negatives that tie share their weights.

    Parameters
    ----------
    X, y, l2, l1, qid, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`. A negative of weight 2 is like two of them: the last one that counts may count in
        part. With queries the sorting is within each.
    spectrum : array, tuple, number or str
        The weights σ: ``("top", share)`` with a float, ``("top", count)`` with an integer (all negatives where there
        are fewer), the share or the count alone, ``"uniform"``, or an array. Its m numbers are the weights of m equal
        parts of the negatives, from the lowest scores to the highest: with K numbers those of single negatives.
    loss : Loss or str
        A loss object or a name: hinge, logistic, exponential, squared_hinge.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`; when the numbers of a spectrum decrease, are below 0, or do not add up to 1.

    References
    ----------
    L. Adam, V. Mácha, V. Šmídl and T. Pevný, General framework for binary classification on top samples, arXiv (2020),
    TopPushK. C. Acerbi, Spectral measures of risk, Journal of Banking and Finance 26 (2002), the sum.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[1.5], [2.0], [1.0], [0.0], [0.5]], [1, 1, 0, 0, 0]
    >>> problem = cr.problems.SpectralPush(X, y, ("top", 0.5), "logistic", l2=0.1)
    >>> print(round(problem.solve().value, 6), round(problem.solve("exact").value, 6))
    0.347749 0.347749
    """

    spectrum: Any = ("top", 0.05)
    loss: Any = "hinge"

    def __post_init__(self) -> None:
        keep(self, spectrum=check_spectrum(self.spectrum), loss=losses.resolve(self.loss))
        super().__post_init__()

    def risk(self, f: Groups) -> Node:
        """Return the risk."""
        return mean(loss_of(self.loss, f.positive - spectral_sum(f.negative, self.spectrum)))

    _remark = remark_on_few  # type: ignore[assignment]

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and rows."""
        from convexrank.problems._plain import loss_of, shares_by_rank, sides_of

        f, risk = [float(score) for score in scores], 0.0
        for positives, negatives, weight in sides_of(self.y, self.qid, self.sample_weight):
            loss, falling = loss_of(self.loss), sorted(negatives, key=lambda k: -f[k])
            shares = shares_by_rank(self.spectrum, [weight[k] for k in falling])
            level = sum(share * f[k] for share, k in zip(shares, falling, strict=True))
            total = sum(weight[i] * loss(f[i] - level) for i in positives)
            risk += total / sum(weight[i] for i in positives)
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X = drawn_rows(seed, 60)
        loss = ["exponential", "logistic", "hinge", "squared_hinge"][int(rng.integers(4))]
        steps = np.sort(rng.integers(1, 5, size=4))
        spectra = ["uniform", ("top", 0.3), ("top", 1), ("top", int(rng.integers(2, 6))), steps / steps.sum()]
        spectrum, l1 = spectra[int(rng.integers(5))], float(rng.choice([0.0, 0.0, 0.02]))
        return cls(X, random_labels(rng, X), spectrum, loss, l2=float(rng.choice([1e-2, 1e-1])), l1=l1)
