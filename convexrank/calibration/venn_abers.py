"""Venn–Abers predictors: isotonic regression with the new row in it, once with each label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from convexrank.calibration.rows import Levels, read_levels
from convexrank.data import check_vector

Array = np.ndarray


def venn_abers(y: Any, scores: Any, at: Any) -> Array:
    r"""Two probabilities of the positive class at each new score, one of which is calibrated.

    The new row is added to the held-out rows, once as a negative, once as a positive, and :math:`p_0 < p_1` are the
    values of isotonic regression at it. For every distribution of exchangeable rows, :math:`p_y` with the new row's
    own label y is calibrated, :math:`P(y = 1 \mid p_y) = p_y`, also where the true probability falls with the score.
    How far the two are apart says how much one label counts. The probability :math:`p_1 / (1 - p_0 + p_1)` has the
    least logarithmic regret.

    Parameters
    ----------
    y, scores : array-like, shape (n,)
        As for :func:`calibrate`.
    at : array-like, shape (m,)
        Scores of new rows.

    Returns
    -------
    ndarray, shape (m, 2)
        The two probabilities, p₀ first.

    Raises
    ------
    ValueError, TypeError
        When labels or scores are not usable, or a class is missing.

    Notes
    -----
    O(n log n), and for each distinct new score the number of values of isotonic regression beside it that change.

    References
    ----------
    V. Vovk, I. Petej, V. Fedorova, Large-scale probabilistic predictors with and without guarantees of validity,
    arXiv:1511.00213, section 2.

    Examples
    --------
    >>> venn_abers([0, 0, 1, 0, 1, 1], [1, 2, 3, 4, 5, 6], [3.5, 6.0]).round(3)
    array([[0.333, 0.667],
           [0.667, 1.   ]])
    """
    levels, new = read_levels(y, scores), check_vector(at, None, "at")
    distinct, place = np.unique(new, return_inverse=True)
    slots = np.searchsorted(levels.scores, distinct)
    ends = slots + np.isin(distinct, levels.scores)  # a tied row joins its level
    slope = _slopes(levels)
    found = [[slope(i, j, label) for label in (0.0, 1.0)] for i, j in zip(slots, ends, strict=True)]
    return np.array(found)[place]


def _slopes(levels: Levels) -> Callable[[int, int, float], float]:
    """Return isotonic regression at a row with a label, after so many levels and before the others.

    Isotonic regression is the slope of the lower hull of cumulative sums. The new row moves all points behind it alike,
    so that the hull of those before it and the hull of those behind stay, and a line below both joins them.
    """
    from convexrank.calibration.hulls import hull_loops

    neighbours, slope_between = hull_loops()
    rows, hits = (np.append(0.0, np.cumsum(part)) for part in (levels.rows, levels.hits))
    before, after = np.empty((2, len(rows)), dtype=np.int64)
    neighbours(rows, hits, 0, len(rows), 1, before)
    neighbours(rows, hits, len(rows) - 1, -1, -1, after)
    return lambda i, j, label: slope_between(rows, hits, before, after, i, j, label)
