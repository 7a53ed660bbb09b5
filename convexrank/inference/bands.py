"""Simultaneous bands for a whole curve, for every sample size and distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.data import check_probability, check_real, check_vector, shown
from convexrank.inference.finite_sample.betting import dkw_radius, share_lower, share_upper
from convexrank.inference.results import Band
from convexrank.inference.rows import Ranked, read_rows

Array = np.ndarray

# Keeps both ends of a vertical piece of a curve in the band when a rate is rounded.
_ROUNDING = 1e-12


def _read(y: Any, s: Any) -> tuple[Ranked, Array, Array]:
    """Return the order, and the corners of the ROC polygon: false and true positive rates from (0, 0) to (1, 1)."""
    ranked = read_rows(y, s, None, None, by_class=True).ranked(s)
    hits = np.concatenate([[0], ranked.hits.cumsum()])
    rows = np.concatenate([[0], ranked.totals.cumsum()])
    return ranked, (rows - hits) / ranked.number_negative, hits / ranked.number_positive


def _grid(at: Any) -> Array:
    """Return the places at which the band is requested."""
    if at is None:
        return np.linspace(0.0, 1.0, 201)
    x = check_vector(at, None, "at")
    if x.min() < 0.0 or x.max() > 1.0:
        raise ValueError(f"at runs from {x.min():g} to {x.max():g}, expected rates in [0, 1].")
    return x


def _polygon(x: Array, y: Array, at: Array, *, upper: bool) -> Array:
    """Height of an increasing polygon, at its vertical pieces the upper or the lower end; outside 0 and 1."""
    last = np.searchsorted(x, at, side="right") - 1  # the last corner at or before
    first = np.searchsorted(x, at, side="left")  # the first corner at or after
    inside = np.interp(at, x, y)
    exact = (last >= 0) & (first < len(x)) & (last >= first)
    chosen = np.clip(last if upper else first, 0, len(x) - 1)
    found = np.where(exact, y[chosen], inside)
    return np.where(at < 0.0, 0.0, np.where(at >= 1.0, 1.0 if upper else found, found))


def _moved(x: Array, y: Array, at: Array, right: float, up: float) -> tuple[Array, Array]:
    """Ends of the heights at ``at`` of all curves whose points are each near one of the polygon: in x, and in y.

    A point of the true curve at u belongs to a point of the polygon between u − right and u + right, and is at most
    ``up`` above or below it; and the polygon increases.
    """
    right += _ROUNDING
    low = _polygon(x, y, at - right, upper=False) - up
    high = _polygon(x, y, at + right, upper=True) + up
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def roc_band(y: Any, s: Any, at: Any = None, *, level: float = 0.95) -> Band:
    r"""Band that contains the whole ROC curve of the population, with at least the given probability.

    By Dvoretzky, Kiefer and Wolfowitz, with Massart's constant, the true positive rates of all thresholds are within
    :math:`\sqrt{\ln(4/\alpha)/(2I)}` of those of the sample, and the false positive rates within
    :math:`\sqrt{\ln(4/\alpha)/(2K)}`, all at once: each point of the true curve lies in a rectangle about a point of
    the sample's curve. Ties are slanted pieces of both. O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, of which the larger is the positive one, and scores of a ranker that does not depend on
        these rows.
    at : array-like, optional
        False positive rates at which the band is returned; by default 201 rates from 0 to 1. The band is valid for all
        rates at once.
    level : float
        Probability that the band contains the curve, in (0, 1).

    Returns
    -------
    Band
        The curve of the sample, and the lower and upper ends of the band.

    Raises
    ------
    ValueError, TypeError
        When labels, scores, rates or level are not usable.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [900, 400])
    >>> band = roc_band(y, y + random.normal(size=1300), at=[0.1, 0.5])
    >>> band.lower.round(3).tolist(), band.upper.round(3).tolist()
    ([0.218, 0.728], [0.542, 0.944])
    """
    alpha = 1.0 - check_probability(level, "level")
    u = _grid(at)
    ranked, false, true = _read(y, s)
    right = dkw_radius(ranked.number_negative, alpha / 2)
    up = dkw_radius(ranked.number_positive, alpha / 2)
    low, high = _moved(false, true, u, right, up)
    estimate = _polygon(false, true, u, upper=True)
    axes = ("false positive rate", "true positive rate")
    return Band(u, estimate, low, high, 1.0 - alpha, axes, ranked.rows.sizes)


def precision_recall_band(
    y: Any, s: Any, at: Any = None, *, prevalence: float | None = None, level: float = 0.95
) -> Band:
    r"""Band that contains the whole precision–recall curve of the population, with at least the given probability.

    At recall r the precision is :math:`\pi r / (\pi r + (1-\pi) u)`, where u is the false positive rate at which the
    ROC curve reaches r and π the share of positives. The bounds of u come from the band of the ROC curve. If π is not
    known, its bounds come from Clopper and Pearson's interval, with a third of the error probability. If a recall is
    reached at several false positive rates, the estimate is at the smallest. O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        As for `roc_band`; without `prevalence`, the rows are a sample of all rows, not of each class.
    at : array-like, optional
        Recalls at which the band is returned; by default 201 recalls from 0 to 1.
    prevalence : float, optional
        The known share of positives in the population, in (0, 1); required when the classes were sampled separately.
    level : float
        Probability that the band contains the curve, in (0, 1).

    Returns
    -------
    Band
        The curve of the sample, and the lower and upper ends of the band.

    Raises
    ------
    ValueError, TypeError
        When labels, scores, recalls, prevalence or level are not usable.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [900, 400])
    >>> band = precision_recall_band(y, y + random.normal(size=1300), at=[0.3, 0.6])
    >>> band.lower.round(3).tolist(), band.upper.round(3).tolist()
    ([0.441, 0.384], [1.0, 0.713])
    """
    alpha = 1.0 - check_probability(level, "level")
    recall = _grid(at)
    ranked, false, true = _read(y, s)
    if prevalence is None:
        delta, hits = alpha / 3, ranked.number_positive
        n = hits + ranked.number_negative
        shares = float(share_lower(hits, n, delta / 2)), hits / n, float(share_upper(hits, n, delta / 2))
    else:
        delta, known = 0.0, check_real(prevalence, "prevalence")
        if not 0.0 < known < 1.0:
            raise ValueError(f"prevalence is {shown(prevalence)}, expected a share strictly between 0 and 1.")
        shares = known, known, known
    right = dkw_radius(ranked.number_negative, (alpha - delta) / 2)
    up = dkw_radius(ranked.number_positive, (alpha - delta) / 2)
    fewest, most = _moved(true, false, recall, up, right)  # false positive rates against recall
    at_recall = _polygon(true, false, recall, upper=False)
    low, estimate, high = (
        _precision(recall, rates, share)
        for rates, share in zip((most, at_recall, fewest), shares, strict=True)
    )
    axes = ("recall", "precision")
    sizes = ranked.rows.sizes
    return Band(recall, estimate, low, np.where(recall > 0.0, high, 1.0), 1.0 - alpha, axes, sizes)


def _precision(recall: Array, false: Array, share: float) -> Array:
    """Return the precision; at recall 0 without false positives it is 1."""
    found = share * recall
    rows = found + (1.0 - share) * false
    return np.divide(found, rows, out=np.ones_like(rows), where=rows > 0.0)
