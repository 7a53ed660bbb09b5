"""KL projections: on the sets of all nodes at once, in flat arrays, and on a hull or a box; points of polytopes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
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

    The entries are :math:`e^{\theta_j+\lambda}`, cut to the bounds, with one λ for a row. All rows step together, and
    most steps solve for λ with the entries that are cut at present, which ends as soon as those are the right ones.

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
    second : ndarray, shape (E,)
        The second candidates in these places.
    """

    first: Array
    rows: Array
    columns: Array
    starts: Array
    second: Array

    @classmethod
    def of(cls, first: Array, second: Array) -> Self:
        """Set up from the candidates, both of shape (k, n)."""
        apart = first != second
        rows, columns = np.nonzero(apart)
        counts = apart.sum(axis=1)
        own = counts > 0
        starts = np.cumsum(counts)[own] - counts[own]
        return cls(first, rows, columns, starts, second[apart])

    def nearest(self, theta: Array) -> Array:
        """Project, shape (k, n); θ, shape (E,), is the logarithm of what is projected where candidates differ."""
        points = self.first.copy()
        if not len(self.starts):
            return points
        start, starts = self.first[self.rows, self.columns], self.starts
        direction = self.second - start
        row = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(theta))))

        def mixture(share: Array) -> Array:
            # positive: start + share · direction may cancel to 0
            return (1.0 - share[row]) * start + share[row] * self.second

        def slope(share: Array) -> tuple[Array, Array]:
            mixed = mixture(share)
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
        points[self.rows, self.columns] = mixture(share)
        return points


# Newton steps: a handful, more only where a solution lies at the edge of the simplex.
_STEPS_ON_HULL = 100

# Halvings of a step: more than digits.
_HALVINGS = 60

# A predicted decrease below this is lost in the rounding of the value.
_BELOW_ROUNDING = 1e-13


def nearest_in_hull(candidates: Array, theta: Array) -> Array:
    r"""Minimise :math:`\sum_j p_j\log p_j - \langle p,\theta\rangle` over mixtures of the rows.

    Two candidates: one equation for the share of the second, by Newton's method with bisection. More: Newton's method
    with an active set, which reaches rounding where exponentiated gradient steps are still on their way.

    Parameters
    ----------
    candidates : ndarray, shape (k, n)
        Distributions with positive entries.
    theta : ndarray, shape (n,)
        Logarithms of the distribution that is projected, up to a constant.

    Returns
    -------
    ndarray, shape (n,)
        The nearest mixture.
    """
    if len(candidates) == 1:
        return candidates[0].copy()
    # entries in which the candidates agree need not be looked at one by one: mostly nodes that nobody links to
    apart = np.ptp(candidates, axis=0) > 0.0
    point = candidates[0].copy()
    if not apart.any():
        return point
    own = candidates[:, apart]
    if len(candidates) == 2:
        point[apart] = _between(own[0], own[1], theta[apart])
        return point
    rest = float(point[~apart].sum())
    if rest == 0.0:
        return nearest_by_newton(candidates, theta)
    # all of them together cost as much as one entry of their mass
    cost = float(point[~apart] @ (np.log(point[~apart]) - theta[~apart])) / rest
    lumped = np.column_stack([own, np.full(len(own), rest)])
    point[apart] = nearest_by_newton(lumped, np.append(theta[apart], np.log(rest) - cost))[:-1]
    return point


def nearest_by_newton(candidates: Array, theta: Array) -> Array:
    r"""Do the same by Newton's method, each step one non-negative least squares problem.

    The generalized divergence :math:`\sum_j p_j\log(p_j/q_j) - p_j + q_j` of a multiple of a distribution is least at
    the same distribution whatever the mass is. So the mass is left free, the shares need only be non-negative, and the
    answer is divided by its sum. The quadratic model at p is
    :math:`\tfrac12\|(p' - p + p\log(p/q))/\sqrt p\|^2` but for a constant.
    """
    from scipy.optimize import nnls

    p = candidates.mean(axis=0)
    below_rounding = 0
    for _ in range(_STEPS_ON_HULL):
        # the mass that is best, so that no step need look for it: far off it is beyond the largest float
        p = p / p.sum()
        logarithms = theta - float(p @ (theta - np.log(p)))
        root, at = np.sqrt(p), np.log(p) - logarithms
        move = nnls(candidates.T / root[:, None], root * (1.0 - at))[0] @ candidates - p
        predicted, value, length = float(at @ move), float(p @ at - p.sum()), 1.0
        if abs(predicted) <= _BELOW_ROUNDING * (1.0 + abs(value)):
            # the value cannot tell such steps from rounding; two full ones, and the digits are doubled twice
            below_rounding += 1
            if below_rounding > 2 or (p + move).min() <= 0.0:
                break
            p = p + move
            continue
        for _ in range(_HALVINGS):
            new = p + length * move
            if new.min() > 0.0:
                reached = float(new @ (np.log(new) - logarithms) - new.sum())
                if reached <= value + 0.1 * length * predicted:
                    break
            length *= 0.5
        p = p + length * move
    return p / p.sum()


def _between(start: Array, end: Array, theta: Array) -> Array:
    """The best point (1 − t)·start + t·end with 0 ≤ t ≤ 1."""
    direction = end - start

    def slope(t: float) -> tuple[float, float]:
        point = (1.0 - t) * start + t * end
        return float(direction @ (np.log(point) - theta)), float(direction @ (direction / point))

    if slope(0.0)[0] >= 0.0:
        return start.copy()
    if slope(1.0)[0] <= 0.0:
        return end.copy()
    low, high, t = 0.0, 1.0, 0.5
    for _ in range(_BISECTIONS):
        first, second = slope(t)
        low, high = (t, high) if first < 0.0 else (low, t)
        guess = t - first / second if second > 0.0 else math.nan
        new = guess if low < guess < high else 0.5 * (low + high)
        if new == t or high - low <= 1e-16:
            break
        t = new
    return (1.0 - t) * start + t * end


# Halvings of an interval: more than digits.
_BISECTIONS = 100

# Sets of active constraints that are tried: a second's work.
_MOST = 200_000

# A corner satisfies the constraints, and two corners are the same, within this.
_ROUNDING = 1e-9


def count_systems(A: Array, lower: Array, upper: Array) -> int:
    """Return how many sets of active constraints there are to try."""
    free = int((upper > lower).sum())
    return math.comb(len(A) + 2 * free, free - 1) if free > 1 else 1


def corners(A: Array, b: Array, lower: Array, upper: Array, node: str) -> Array:
    """Return the extreme points of {t : At ≤ b, lower ≤ t ≤ upper, Σt = 1}, by trying all sets of active constraints.

    Parameters
    ----------
    A, b : ndarray, shapes (m, n) and (m,)
        Inequalities.
    lower, upper : ndarray, shape (n,)
        Bounds.
    node : str
        Whose set it is, for messages.

    Returns
    -------
    ndarray, shape (k, n)
        The corners, in lexicographic order.

    Raises
    ------
    ValueError
        When there are too many sets of constraints to try.
    """
    free = np.flatnonzero(upper > lower)
    fixed = np.where(upper > lower, 0.0, lower)
    if len(free) <= 1:
        point = fixed.copy()
        point[free] = 1.0 - fixed.sum()
        return point[None, :]
    k, eye = len(free), np.eye(len(free))
    rows = np.vstack([A[:, free], eye, -eye])
    right = np.concatenate([b - A @ fixed, upper[free], -lower[free]])
    if (count := count_systems(A, lower, upper)) > _MOST:
        raise ValueError(
            f"the set of node {node} has up to {count} corners to look for, more than {_MOST}; list its candidates in "
            'CandidateSets, bound more of its entries by 0, or take view="optimistic" or "projection".'
        )
    active = np.array(list(combinations(range(len(rows)), k - 1)))
    systems = np.concatenate([rows[active], np.ones((len(active), 1, k))], axis=1)
    sides = np.concatenate([right[active], np.full((len(active), 1), 1.0 - fixed.sum())], axis=1)
    regular = np.abs(np.linalg.det(systems)) > _ROUNDING
    points = np.linalg.solve(systems[regular], sides[regular][..., None])[..., 0]
    points = points[(points @ rows.T <= right + _ROUNDING).all(axis=1)]
    first = np.unique(np.round(points, 9) + 0.0, axis=0, return_index=True)[1]
    found = np.tile(fixed, (len(first), 1))
    found[:, free] = np.clip(points[first], lower[free], upper[free])
    return found / found.sum(axis=1, keepdims=True)
