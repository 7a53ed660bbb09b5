"""Heights of the negatives, the 0-1 push objectives built from them, and the area under the ROC curve or a part."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from convexrank.backend.progress import warn_caller
from convexrank.data import check_at_least, check_flag, check_nonnegative, check_positive, check_vector
from convexrank.metrics.queries import tally


def heights(y: Any, s: Any, theta: float = 0.0) -> np.ndarray:
    r"""Number of positives scored at or below each negative, or above it by at most a margin.

    .. math:: \mathrm{Height}_\theta(k) = \sum_{i=1}^{I} 1[s_i \le s_k + \theta], \qquad k = 1, \dots, K

    Over I positives i and K negatives k. It is a count, from 0 (well placed) to I. A positive tied with
    the negative counts as a misrank. Cost O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.
    theta : float
        The margin, at least 0, in units of the scores; 0 gives the height of the reference.

    Returns
    -------
    ndarray of int, shape (K,)
        One height for each negative, in the order of the negatives in y.

    See Also
    --------
    reverse_heights : Number of negatives at or above each positive.
    r_p : The sum of the powers of the heights.
    r_max : The largest height.

    References
    ----------
    Rudin, The P-Norm Push, Journal of Machine Learning Research 10 (2009), section 2 (Height).

    Examples
    --------
    >>> heights([1, 0, 1, 0], [4, 3, 2, 1])
    array([1, 0])
    >>> heights([1, 0], [5, 5])
    array([1])
    """
    margin = check_nonnegative(theta, "theta")
    counted = tally(y, s)
    if margin == 0.0:
        return counted.positives_at_or_below[counted.level[~counted.is_positive]]
    scores = check_vector(s, len(counted.is_positive), "s")
    with np.errstate(over="ignore"):  # what is beyond floats is above every score
        reached = scores[~counted.is_positive] + margin
    return np.searchsorted(np.sort(scores[counted.is_positive]), reached, side="right")


def reverse_heights(y: Any, s: Any) -> np.ndarray:
    r"""Number of negatives scored at or above each positive.

    .. math:: \mathrm{ReverseHeight}(i) = \sum_{k=1}^{K} 1[s_i \le s_k], \qquad i = 1, \dots, I

    Over I positives i and K negatives k. It is a count, from 0 (well placed) to K. A negative tied with
    the positive counts as a misrank. Its sum over the positives is the sum of the heights over the
    negatives. Cost O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.

    Returns
    -------
    ndarray of int, shape (I,)
        One reverse height for each positive, in the order of the positives in y.

    References
    ----------
    Rudin, The P-Norm Push, Journal of Machine Learning Research 10 (2009), section 7 (Reverse Height).

    Examples
    --------
    >>> reverse_heights([1, 0, 1, 0], [4, 3, 2, 1])
    array([0, 1])
    """
    counted = tally(y, s)
    return counted.negatives_at_or_above[counted.level[counted.is_positive]]


def r_p(y: Any, s: Any, p: float, *, log: bool = False) -> float:
    r"""The 0-1 P-Norm Push objective: the sum of the p-th powers of the heights.

    .. math:: R_{p;1}(s) = \sum_{k=1}^{K} \Bigl( \sum_{i=1}^{I} 1[s_i \le s_k] \Bigr)^p

    Over I positives i and K negatives k; a sum over both, no normalisation. Smaller is better; 0 means
    that every positive is strictly above every negative. A tie counts as a misrank. With p = 1 and no
    ties it is I K (1 - AUC). Cost O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.
    p : float
        Power, greater than 0 and finite; a larger p gives more weight to the top. For the limit see `r_max`.
    log : bool
        Whether to return the natural logarithm, which overflows for no p (-inf when the sum is 0).

    Returns
    -------
    float
        The sum, at least 0, or its logarithm.

    Raises
    ------
    ValueError, TypeError
        As all measures; and when p is not a finite number above 0.

    Warns
    -----
    RuntimeWarning
        When the sum is above the largest float; then inf is returned. Use ``log=True``.

    References
    ----------
    Rudin, The P-Norm Push, Journal of Machine Learning Research 10 (2009), section 2, R_{g,1} with
    g(r) = r^p.

    Examples
    --------
    The first row of Table 1 of the reference:

    >>> r_p([-1, 1, -1, 1, -1, -1, 1, 1], [1, 2, 3, 4, 5, 6, 7, 8], p=4)
    33.0
    """
    power, log = check_positive(p, "p"), check_flag(log, "log")
    counted = tally(y, s)
    here = (counted.negatives > 0) & (counted.positives_at_or_below > 0)
    height = counted.positives_at_or_below[here].astype(np.float64)
    times = counted.negatives[here]
    if log:
        if not here.any():
            return -math.inf
        exponent = power * np.log(height)
        largest = float(exponent.max())
        return largest + math.log(float(np.dot(times, np.exp(exponent - largest))))
    with np.errstate(over="ignore"):
        total = float(np.dot(times, height**power))
    if math.isinf(total):
        warn_caller(
            f"r_p with p = {power} is above the largest float and comes back as inf; use log=True.",
            RuntimeWarning,
        )
    return total


def push_risk(y: Any, s: Any, p: float, theta: float = 0.0) -> float:
    r"""The push risk: the p-norm of the shares of positives that are not above each negative by a margin.

    .. math:: R^\theta_p(s) = \Bigl( \frac1K \sum_{k=1}^{K} \Bigl( \frac1I \sum_{i=1}^{I}
              1[s_i \le s_k + \theta] \Bigr)^p \Bigr)^{1/p}

    The p-th root of a mean over the K negatives of p-th powers of means over the I positives: from 0 to 1, smaller
    is better. It estimates the risk of the population with a margin, the subject of :mod:`convexrank.bounds`.
    With theta = 0 it is :math:`r_p^{1/p} / (I K^{1/p})`, and with p = 1 and no ties 1 - AUC. A tie, and a
    positive above the negative by no more than theta, counts as a misrank. Cost O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.
    p : float
        Power, at least 1 and finite.
    theta : float
        The margin, at least 0, in units of the scores.

    Returns
    -------
    float
        The risk, from 0 to 1.

    Raises
    ------
    ValueError, TypeError
        As all measures; and when p is below 1, or theta is negative.

    See Also
    --------
    r_p : The sum of powers, not normalised.

    References
    ----------
    Rudin, The P-Norm Push, Journal of Machine Learning Research 10 (2009), section 4, the empirical loss
    with a margin.

    Examples
    --------
    >>> y, s = [1, 1, 0, 0], [4, 2, 3, 1]
    >>> push_risk(y, s, p=1), push_risk(y, s, p=1, theta=1)
    (0.25, 0.75)
    """
    power = check_at_least(p, "p", 1.0)
    # sorted, so that the order of the rows does not change a digit
    share = np.sort(heights(y, s, theta)) / int(tally(y, s).is_positive.sum())
    largest = float(share.max())
    if largest == 0.0:
        return 0.0
    return largest * float(np.mean((share / largest) ** power)) ** (1.0 / power)


def r_max(y: Any, s: Any) -> int:
    r"""The largest height: the number of positives at or below the highest negative.

    .. math:: R_{\max}(s) = \max_{k} \sum_{i=1}^{I} 1[s_i \le s_k]

    Over I positives i and K negatives k. It is a count, from 0 (no negative reaches a positive) to I;
    smaller is better. A tie counts as a misrank. Cost O(n log n).

    For every convex, non-negative and non-decreasing price g, Theorem 1 of the reference gives
    :math:`K g(R_{\max}/K) \le R_{g,1} \le K g(R_{\max})`.

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.

    Returns
    -------
    int
        The count, from 0 to I.

    Notes
    -----
    The 2005 report defines :math:`R_{\max}` in the same way (section 2), but in its experiments
    (section 5) the name is used for the number of positives *above* the highest negative, where larger
    is better. That count is `positives_at_top`; the two add up to I.

    References
    ----------
    Rudin, The P-Norm Push, Journal of Machine Learning Research 10 (2009), section 2 and Theorem 1.

    Rudin, Ranking with a P-Norm Push, technical report TR2005-874, New York University (2005).

    Examples
    --------
    >>> r_max([1, 0, 1, 0], [4, 3, 2, 1])
    1
    """
    counted = tally(y, s)
    highest_negative = int(np.argmax(counted.negatives > 0))
    return int(counted.positives_at_or_below[highest_negative])


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
