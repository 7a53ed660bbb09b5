"""Domains: intervals that say which entry of a vector left them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.data import check_real, check_real_array, shown

Array = np.ndarray


@dataclass(frozen=True)
class Interval:
    """An interval of numbers, each end in it or not.

    Parameters
    ----------
    lower, upper : float
        The ends; infinite for no bound.
    closed : pair of bool
        Whether each end belongs to the interval.

    Examples
    --------
    >>> from convexrank.divergences import Interval
    >>> str(Interval(0.0, closed=(True, False)))
    '[0, inf)'
    >>> Interval(0.0, 1.0).contains([0.0, 0.5]).tolist()
    [False, True]
    """

    lower: float = -math.inf
    upper: float = math.inf
    closed: tuple[bool, bool] = (False, False)

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            if math.isnan(check_real(getattr(self, name), name)):
                raise ValueError(f"{name} is NaN, expected a number, or an infinity for no end.")
        ends = self.closed if isinstance(self.closed, tuple) else ()
        if len(ends) != 2 or not all(isinstance(end, bool | np.bool_) for end in ends):
            raise TypeError(f"closed is {shown(self.closed)}, expected a pair of True or False.")

    @property
    def interior(self) -> Interval:
        """The same interval without its ends."""
        return Interval(self.lower, self.upper)

    def contains(self, x: Array) -> Array:
        """Return for each entry whether it is in the interval."""
        x = check_real_array(x, "x")
        above = x >= self.lower if self.closed[0] else x > self.lower
        below = x <= self.upper if self.closed[1] else x < self.upper
        return above & below

    def check(self, x: Array, name: str, what: str) -> None:
        """Raise a ValueError that names the first entry outside, if there is one.

        Parameters
        ----------
        x : ndarray
            The entries.
        name : str
            Name of the vector in the message.
        what : str
            Description of the interval in the message.
        """
        outside = ~self.contains(x)
        if outside.any():
            place = int(np.argmax(outside))
            count = int(outside.sum())
            others = "" if count == 1 else f" ({count} entries are)"
            raise ValueError(
                f"{name}[{place}] is {x[place]:.6g}, outside {what}, {self}{others}; expected entries in it. Shift or "
                "rescale the values, or take a divergence with another domain."
            )

    def __str__(self) -> str:
        left, right = "[" if self.closed[0] else "(", "]" if self.closed[1] else ")"
        return f"{left}{self.lower:g}, {self.upper:g}{right}"


#: All numbers.
EVERYWHERE = Interval()


def read_bound(values: Any, name: str) -> Array:
    """Return a bound, or one for each entry, as an array; infinities stand for none.

    Raises
    ------
    ValueError, TypeError
        For NaN, and for anything but numbers.
    """
    if isinstance(values, str | bytes):
        raise TypeError(f"{name} is {shown(values)}, expected a number, or an infinity for no bound.")
    with np.errstate(over="ignore"):  # what does not fit is infinite: no bound
        array = np.asarray(check_real_array(values, name), dtype=np.float64)
    if np.isnan(array).any():
        raise ValueError(f"{name} has NaN entries, expected numbers; pass an infinity for no bound.")
    return array
