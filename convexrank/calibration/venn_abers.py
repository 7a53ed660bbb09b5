"""Venn–Abers predictors: isotonic regression with the new row in it, once with each label."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.calibration.rows import Levels, read_levels
from convexrank.data import check_vector
from convexrank.projections import isotonic

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
    O(n log n), and O(n) for each distinct new score: a check for some scores, not for millions.

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
    return np.array([[_with(levels, score, label) for label in (0.0, 1.0)] for score in distinct])[place]


def _with(levels: Levels, score: float, label: float) -> float:
    """Return the isotonic regression at a new row."""
    slot = int(np.searchsorted(levels.scores, score))
    tied = slot < len(levels.scores) and levels.scores[slot] == score
    rows, hits = (part.copy() if tied else np.insert(part, slot, 0.0) for part in (levels.rows, levels.hits))
    rows[slot] += 1.0
    hits[slot] += label
    return float(isotonic(hits / rows, weights=rows, bounds=(0.0, 1.0))[slot])
