"""The two scores at which an increasing link meets the ends of a range: one root within the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

__all__ = ["nested_roots"]

Array = np.ndarray

# Differences of the link below this share of its size are rounding.
_NOISE = 1e-14
# The precision to which a root is determined.
_LAST_DIGITS = 4.0 * np.finfo(float).eps


def nested_roots(
    link: Callable[[float, float], Array], first: float, last: float, low: float, high: float
) -> tuple[float, float]:
    """Return the two scores at which to clip scores so that their link stays inside a range.

    Parameters
    ----------
    link : callable
        Takes the two scores at which to cut off, and returns the values of the link, non-decreasing. Its least value
        rises with the lower end, its largest falls with the upper one.
    first, last : float
        The least and the largest score.
    low, high : float
        The range; infinities are no bounds.

    Returns
    -------
    float, float
        The lower and the upper end; ``first`` or ``last`` where the link keeps its bound by itself.
    """

    def excess(bound: float, bottom: float, top: float, place: int) -> float:
        """The link at one end less a bound; 0 where rounding decides, which ends a search."""
        values = link(bottom, top)
        found = float(values[place]) - bound
        return 0.0 if abs(found) <= _NOISE * float(np.abs(values).max()) else found

    @cache
    def top_of(bottom: float) -> float:
        return _root(lambda top: -excess(high, bottom, top, -1), last, bottom)

    bottom = _root(lambda end: excess(low, end, top_of(end), 0), first, last)
    return bottom, top_of(bottom)


def _root(rising: Callable[[float], float], outer: float, inner: float) -> float:
    """Where a continuous function that rises from the outer to the inner end is 0; an end where it has no zero."""
    from scipy import optimize  # slow to import

    brentq: Any = optimize.brentq

    if outer == inner or rising(outer) >= 0.0:
        return outer
    if rising(inner) <= 0.0:
        return inner
    gap = abs(outer - inner)
    return float(brentq(rising, outer, inner, xtol=_LAST_DIGITS * gap, rtol=_LAST_DIGITS, disp=False))
