"""KL projections on the sets of all nodes at once: the same equations as one at a time, in flat arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

Array = np.ndarray
#: From θ, of shape (n,) or one row for each node, to the projections, shape (n, n).
Projector = Callable[[Array], Array]

# More steps than digits: every third one halves an interval.
_STEPS = 300
# A root is found when it moves by this, relatively.
_STILL = 4.0 * float(np.finfo(np.float64).eps)
# Bounds that add up to 1 within this leave one point.
_ALONE = 1e-13


def at(theta: Array, rows: Array, columns: Array) -> Array:
    """Return the entries of θ in E places, whether there is one θ, shape (n,), or one for each row, (n, n)."""
    return theta[columns] if theta.ndim == 1 else theta[rows, columns]


def _next(now: Array, guess: Array, first: Array, last: Array, step: int) -> Array:
    """The guess where it lies between the bounds, else their middle; where nothing is left to gain, the same again."""
    middle = 0.5 * (first + last)
    still = np.abs(guess - now) <= _STILL * np.abs(now)
    exhausted = ~((first < middle) & (middle < last))
    usable = (guess > first) & (guess < last) & (step % 3 != 2)
    return np.where(still | exhausted, now, np.where(usable, guess, middle))


@dataclass(frozen=True, eq=False)
class Boxes:
    r"""Boxes within the simplex, one in each row: minimise Σp log p − ⟨p, θ⟩ with low ≤ p ≤ high and Σp = 1.

    As :func:`~convexrank.consensus.projections.hull.nearest_in_box`, but all rows step together, and most steps solve
    for λ with
    the entries that are cut at present, which ends as soon as those are the right ones.

    Parameters
    ----------
    points : ndarray, shape (k, n)
        The entries that are fixed; whole rows where bounds leave one point.
    rows, columns : ndarray of int, shape (E,)
        Places of the free entries, by row.
    starts : ndarray of int, shape (r,)
        Where each of the r rows with free entries begins among these.
    low, high : ndarray, shape (E,)
        Their bounds.
    mass : ndarray, shape (r,)
        The sum of each of these rows' free entries.
    """

    points: Array
    rows: Array
    columns: Array
    starts: Array
    low: Array
    high: Array
    mass: Array

    @classmethod
    def between(cls, low: Array, high: Array) -> Self:
        """Set up from bounds with positive entries, both of shape (k, n)."""
        points, free = low.copy(), high > low
        for bound in (high, low):
            total = bound.sum(axis=1)
            alone = np.abs(total - 1.0) <= _ALONE  # one point, which rounding may have moved
            points[alone] = bound[alone] / total[alone, None]
            free[alone] = False
        rows, columns = np.nonzero(free)
        counts = free.sum(axis=1)
        own = counts > 0
        starts = np.cumsum(counts)[own] - counts[own]
        mass = 1.0 - np.where(free, 0.0, points).sum(axis=1)[own]
        return cls(points, rows, columns, starts, low[free], high[free], mass)

    def nearest(self, theta: Array) -> Array:
        """Project, shape (k, n); θ, shape (E,), is the logarithm of what is projected in the free places."""
        points = self.points.copy()
        if len(self.starts):
            points[self.rows, self.columns] = self._entries(theta)
        return points / points.sum(axis=1, keepdims=True)

    def _entries(self, theta: Array) -> Array:
        floors, ceilings, starts, mass = np.log(self.low), np.log(self.high), self.starts, self.mass
        row = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(theta))))
        first = np.minimum.reduceat(floors - theta, starts)
        last = np.maximum.reduceat(ceilings - theta, starts)
        shift = 0.5 * (first + last)
        for step in range(_STEPS):
            moved = theta + shift[row]
            inside = (moved > floors) & (moved < ceilings)
            values = np.exp(np.clip(moved, floors, ceilings))
            total, loose = np.add.reduceat(values, starts), np.add.reduceat(values * inside, starts)
            short = total < mass
            first, last = np.where(short, shift, first), np.where(short, last, shift)
            with np.errstate(divide="ignore", invalid="ignore"):
                guess = shift + np.log((mass - (total - loose)) / loose)
            new = _next(shift, guess, first, last, step)
            if (new == shift).all():
                break
            shift = new
        moved = theta + shift[row]
        inside = (moved > floors) & (moved < ceilings)
        point = np.where(
            moved <= floors, self.low, np.where(inside, np.exp(np.clip(moved, floors, ceilings)), self.high)
        )
        loose = np.add.reduceat(point * inside, starts)
        rest = np.maximum(mass - np.add.reduceat(np.where(inside, 0.0, point), starts), 0.0)
        scale = np.where(loose > 0.0, rest / np.where(loose > 0.0, loose, 1.0), 1.0)
        return np.clip(np.where(inside, point * scale[row], point), self.low, self.high)


@dataclass(frozen=True, eq=False)
class Pairs:
    r"""Mixtures of two candidates, one pair in each row: the share of the second solves one equation.

    Parameters
    ----------
    first : ndarray, shape (k, n)
        The first candidates, with positive entries.
    rows, columns : ndarray of int, shape (E,)
        Places where the candidates of a row differ, by row.
    starts : ndarray of int, shape (r,)
        Where each of the r rows with such places begins among these.
    direction : ndarray, shape (E,)
        Second candidate less first.
    """

    first: Array
    rows: Array
    columns: Array
    starts: Array
    direction: Array

    @classmethod
    def of(cls, first: Array, second: Array) -> Self:
        """Set up from the candidates, both of shape (k, n)."""
        apart = first != second
        rows, columns = np.nonzero(apart)
        counts = apart.sum(axis=1)
        own = counts > 0
        starts = np.cumsum(counts)[own] - counts[own]
        return cls(first, rows, columns, starts, (second - first)[apart])

    def nearest(self, theta: Array) -> Array:
        """Project, shape (k, n); θ, shape (E,), is the logarithm of what is projected where candidates differ."""
        points = self.first.copy()
        if not len(self.starts):
            return points
        start, direction, starts = self.first[self.rows, self.columns], self.direction, self.starts
        row = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(theta))))

        def slope(share: Array) -> tuple[Array, Array]:
            mixed = start + share[row] * direction
            first = np.add.reduceat(direction * (np.log(mixed) - theta), starts)
            return first, np.add.reduceat(direction * direction / mixed, starts)

        low, high = np.zeros(len(starts)), np.ones(len(starts))
        at_first, at_second = slope(low)[0] >= 0.0, slope(high)[0] <= 0.0
        share = np.where(at_first, 0.0, np.where(at_second, 1.0, 0.5))
        ends = at_first | at_second
        for step in range(_STEPS):
            first, second = slope(share)
            low, high = np.where(first < 0.0, share, low), np.where(first < 0.0, high, share)
            guess = share - first / second
            new = np.where(ends, share, _next(share, guess, low, high, step))
            if (new == share).all():
                break
            share = new
        points[self.rows, self.columns] = start + share[row] * direction
        return points
