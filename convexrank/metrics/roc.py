"""Area under the whole ROC curve, or under its left end."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.data import check_flag, check_positive
from convexrank.metrics.queries import tally


def auc(y: Any, s: Any) -> float:
    r"""Area under the ROC curve: the share of positive-negative pairs in the right order.

    .. math:: \mathrm{AUC}(s) = \frac{1}{I K} \sum_{i=1}^{I} \sum_{k=1}^{K}
              \bigl( 1[s_i > s_k] + \tfrac12 1[s_i = s_k] \bigr)

    Over I positives i and K negatives k; a mean over the I K pairs, from 0 to 1, larger is better. A tie
    counts one half, so AUC(s) + AUC(-s) = 1. The pairs are counted in integers. Cost O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.

    Returns
    -------
    float
        The share, from 0 to 1.

    References
    ----------
    Clémençon, Lugosi and Vayatis, Ranking and empirical minimization of U-statistics (2006), section 2,
    example 1, and appendix 2.

    Examples
    --------
    >>> auc([1, 0, 1, 0], [4, 3, 2, 1])
    0.75
    >>> auc([1, 0], [5, 5])
    0.5
    """
    counted = tally(y, s)
    above = counted.positives.cumsum() - counted.positives
    twice = int(np.dot(counted.negatives, 2 * above + counted.positives))
    return twice / (2 * int(counted.positives.sum()) * int(counted.negatives.sum()))


def partial_auc(y: Any, s: Any, max_fpr: float, standardize: bool = False) -> float:
    r"""Area under the ROC curve to the left of a false positive rate.

    .. math:: A(s) = \int_0^{m} \mathrm{TPR}(u)\, du, \qquad m = \mathrm{max\_fpr}

    TPR(u) is the true positive rate at the false positive rate u. The curve is the polygon through one
    point for each distinct score, so a tie is a straight, slanted piece: it counts one half in the full
    area. The area is not divided by m: A lies between 0 and m, a random ranking has m²/2, a perfect
    ranking m. ``standardize=True`` returns McClish's version,

    .. math:: \tfrac12 \Bigl( 1 + \frac{A - m^2/2}{m - m^2/2} \Bigr),

    which is 1/2 for a random and 1 for a perfect ranking, and equals scikit-learn's
    ``roc_auc_score(max_fpr=m)`` for m < 1. With m = 1 both are the AUC. Cost O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.
    max_fpr : float
        The false positive rate m at which the area ends, greater than 0 and at most 1.
    standardize : bool
        Whether to rescale the area as McClish does; by default it is not rescaled.

    Returns
    -------
    float
        The area, from 0 to max_fpr, or its standardised version, at most 1.

    Raises
    ------
    ValueError, TypeError
        As all measures; and when max_fpr is not in (0, 1].

    References
    ----------
    McClish, Analyzing a portion of the ROC curve, Medical Decision Making 9 (1989).

    Examples
    --------
    >>> partial_auc([1, 0, 1, 0], [4, 3, 2, 1], max_fpr=0.5)
    0.25
    >>> partial_auc([1, 1, 0, 0], [4, 3, 2, 1], max_fpr=0.5, standardize=True)
    1.0
    """
    limit, standardize = check_positive(max_fpr, "max_fpr"), check_flag(standardize, "standardize")
    if limit > 1:
        raise ValueError(f"max_fpr is {max_fpr}, expected a rate in (0, 1]; pass 0.05 for 5 %.")
    counted = tally(y, s)
    # Rates are kept as counts up to the last line: the polygon's corners are then exact.
    wide, high = counted.negatives, counted.positives
    left, bottom = wide.cumsum() - wide, high.cumsum() - high
    inside = np.clip(limit * wide.sum() - left, 0, wide)
    share = np.divide(inside, wide, out=np.zeros(len(wide)), where=wide > 0)
    area = float(np.dot(inside, bottom + share * high / 2)) / (int(wide.sum()) * int(high.sum()))
    if not standardize:
        return area
    chance = limit * limit / 2
    return (1 + (area - chance) / (limit - chance)) / 2
