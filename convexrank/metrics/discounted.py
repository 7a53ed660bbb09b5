"""Sums over the positives of a discount of their rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.metrics.tally import tally


def _positives_and_ranks(y: Any, s: Any) -> tuple[np.ndarray, np.ndarray]:
    """Number of positives at each distinct score, and the rank they share: all rows at or above it."""
    counted = tally(y, s)
    return counted.positives, (counted.positives + counted.negatives).cumsum()


def dcg(y: Any, s: Any) -> float:
    r"""Discounted cumulative gain as the P-Norm Push paper defines it.

    .. math:: \mathrm{DCG}(s) = \sum_{i=1}^{I} \frac{1}{\ln(1 + \mathrm{Rank}(i))}, \qquad
              \mathrm{Rank}(i) = \sum_{k=1}^{K} 1[s_i \le s_k] + \sum_{j=1}^{I} 1[s_i \le s_j]

    Over I positives i, j and K negatives k: a sum over the positives, with no gain, no cut-off, no
    division by the best value, and the natural logarithm. Larger is better. Rank(i) counts every row at
    or above i, including i itself: the best rank is 1, and all rows in a tie have the worst rank of the
    tie. Other definitions take the logarithm to base 2, weight by a gain, or average over ties. Cost
    O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.

    Returns
    -------
    float
        The sum, above 0.

    References
    ----------
    Rudin, The P-Norm Push, Journal of Machine Learning Research 10 (2009), section 7 (Rank, DCG).

    Examples
    --------
    >>> import math
    >>> value = dcg([1, 0, 1, 0], [4, 3, 2, 1])
    >>> round(value, 6), round(1 / math.log(2) + 1 / math.log(4), 6)
    (2.164043, 2.164043)
    """
    positives, rank = _positives_and_ranks(y, s)
    return float(np.dot(positives, 1 / np.log1p(rank)))


def average_reciprocal_rank(y: Any, s: Any) -> float:
    r"""Sum over the positives of one over their rank, AveR in the P-Norm Push paper.

    .. math:: \mathrm{AveR}(s) = \sum_{i=1}^{I} \frac{1}{\mathrm{Rank}(i)}

    With Rank(i) as in :func:`dcg`, ties included. The paper calls it an average, but its formula is a sum, and its
    tables contain sums (values above 1); divide by I for the mean. It lies between I/n and the harmonic
    number 1 + 1/2 + ... + 1/I; larger is better. Cost O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.

    Returns
    -------
    float
        The sum, above 0.

    References
    ----------
    Rudin, The P-Norm Push, Journal of Machine Learning Research 10 (2009), section 7 (Rank, AveR).

    Examples
    --------
    >>> average_reciprocal_rank([1, 0, 0, 1], [4, 3, 2, 1])
    1.25
    """
    positives, rank = _positives_and_ranks(y, s)
    return float(np.dot(positives, 1 / rank))
