r"""Bounds of the area left of a false positive rate m, over m, that hold for every sample size.

It is the AUC of the positives and of those negatives that are above the threshold of m. The number N of these in a
sample of K is not seen, but it is binomial with K and m, and given N they are the first N, independent of each other. A
bound from the first n negatives, with error ε(n) for each n, holds for n = N with an error of
:math:`\sum_n P(N = n)\,\varepsilon(n)`. So the worst of these bounds over n is one of the area; ε(n) is larger where n
itself makes the bound worse.

*By pairings.* With as many negatives as positives bounds are those of `pairings`. All n from c to d share a bound: of
the first n, c drawn at random are independent, too, and have no fewer right pairs than the first c, and no more than
the last c of the first d.

*By groups, from below.* With more positives each of the first n negatives has a group of positives of its own. The
share that is above it is a number in [0, 1] with the area as its mean, and groups are independent: capitals are bet
on these numbers, as in `disjoint`.

*By groups, from above.* Negative n + 1 is below the first n, and of what is there independent of them. Of I positives J
are above it: binomial with a chance f. Of these a part d is below one of the first n on average, so that the area is
f (1 − d). Given J, capitals are bet on the shares below in groups of the J positives; they fall in d. Before, a
likelihood ratio of J is a capital against f. If the area is at least t, d is at most 1 − t/f, so that t is refuted
where the product of both capitals, against f and against 1 − t/f, reaches 1/ε(n) for every f: given J, where the ratio
is q, the other one reaches 1/(q ε(n)) with a probability of at most q ε(n), and the mean of q over J is at most 1. A
cell of values of f has the least of the ratios in it, and the largest d.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from convexrank.inference.finite_sample.betting import binomial_range, generator
from convexrank.inference.finite_sample.disjoint import capitals_against, spread_before, values_lower
from convexrank.inference.finite_sample.pairings import lower_end, orders_of, shares_of_orders

Array = np.ndarray

# Positives for each negative left of the limit from which on there are groups, and most of these negatives.
_POSITIVES, _NEGATIVES = 5, 100
# Of pairings and of groups: the share of the error for numbers of negatives that are left out on each side, and how the
# logarithms of errors grow with the number of negatives, in its deviations, for the lower and the upper end.
_TAIL, _TILT = {False: 0.03, True: 0.02}, {False: (-1.0, 0.7), True: (-1.7, 1.2)}
# Most numbers, or ranges of them, that pairings look at.
_RANGES = 30
# Most positives of a group. Comparisons in the groups of a number of negatives, the fewest and the most systems; the
# largest part that is bet.
_ENOUGH = 50
_COMPARED, _FEWEST, _MOST, _BOLDEST = 20_000, 20, 100, 0.995
# From above: the part of the likelihood ratio in the evidence, what is kept of both capitals, cells of f for a root of
# the positives, means d that are looked at, halvings.
_PART, _KEPT, _CELLS, _MEANS, _HALVINGS = 0.55, 0.03, 20, (16, 64), 14
# From above: variance of the groups that is thought at first, and of how many; the least logarithm that is bet for.
_VARIANCE, _BEFORE, _LEAST = 0.04, 3.0, 2.0
# From above: the least of the largest mean d that is looked at, and how many are together.
_LOWEST, _AT_ONCE = 1e-9, 16


def left_lower(hits: Array, totals: Array, share: float, delta: float, upside_down: bool) -> float:
    """Return the lower bound of the area left of a false positive rate, over that rate; or of 1 minus it.

    Parameters
    ----------
    hits, totals : ndarray of int, shape (m,)
        Number of positives, and of all rows, at each distinct score, highest first. Tied rows stand in a random order.
    share : float
        The false positive rate.
    delta : float
        Error of the bound.
    upside_down : bool
        Whether wrong pairs are counted in place of right ones.

    Returns
    -------
    float
        The bound.
    """
    up = orders_of(hits, totals, 1, 1)[0]
    grouped = in_groups(int(up.sum()), int(len(up) - up.sum()), share)
    counts, errors = _errors(
        int(len(up) - up.sum()), share, delta, _TAIL[grouped], _TILT[grouped][int(upside_down)]
    )
    counts, errors = counts[errors < 1.0], errors[errors < 1.0]
    if len(counts) == 0:
        return 1.0
    if grouped and upside_down:
        return 1.0 - _highest(up, counts, errors)
    if counts[0] == 0:
        return 0.0
    return _lowest(up, counts, errors) if grouped else _by_pairings(up, counts, errors, upside_down)


def in_groups(positives: int, negatives: int, share: float) -> bool:
    """Return whether bounds are by groups."""
    return _POSITIVES * negatives * share <= positives and negatives * share <= _NEGATIVES


def _lowest(up: Array, counts: Array, errors: Array) -> float:
    """Return the lower bound by groups, from which rows are positive, lowest score first."""
    positives, negatives = np.flatnonzero(up), np.flatnonzero(~up)[::-1]
    rng, least = generator(up.astype(np.float64)), 1.0
    for n, error in zip(counts.tolist(), errors.tolist(), strict=True):
        if n > len(positives):
            return 0.0
        shares = _shares_above(positives, negatives[:n], rng)
        least = values_lower(shares, -math.log(error), _BOLDEST, least)
    return least


def _shares_above(positives: Array, negatives: Array, rng: np.random.Generator) -> Array:
    """Return the share of each group that is above its negative, for some systems, shape (N, m)."""
    if len(positives) > _ENOUGH * len(negatives):
        positives = rng.choice(positives, _ENOUGH * len(negatives), replace=False)
    number = min(max(_COMPARED // len(positives), _FEWEST), _MOST)
    size = min(len(negatives), len(positives))
    beside = len(positives) // size
    groups = rng.permuted(np.tile(positives, (number, 1)), axis=1)[:, : size * beside]
    first = rng.permuted(np.tile(negatives, (number, 1)), axis=1)[:, :size, None]
    return (groups.reshape(number, size, beside) > first).mean(axis=2)


def _highest(up: Array, counts: Array, errors: Array) -> float:
    """Return the upper bound by groups, from which rows are positive, lowest score first."""
    positives, negatives = np.flatnonzero(up), np.append(np.flatnonzero(~up)[::-1], -1)
    rng, middle = generator(up.astype(np.float64)), negatives[: int(counts[len(counts) // 2])]
    # no bound is below the area that is seen
    most = float(1.0 - np.searchsorted(positives, middle).mean() / len(positives)) if len(middle) else 0.0
    ends = np.linspace(0.0, 1.0, math.ceil(_CELLS * math.sqrt(len(positives))) + 1)
    order = np.argsort(np.abs(counts - counts.mean()), kind="stable")  # those that count most first
    for n, error in zip(counts[order].tolist(), errors[order].tolist(), strict=True):
        target, above = -math.log(error), positives[positives > negatives[n]]
        bold = max(target, _LEAST)
        ratios = _ratios(ends, len(above), len(positives), math.sqrt(2.0 * _PART * bold))
        below = 1.0 - _shares_above(above, negatives[:n], rng) if n and len(above) else np.zeros((1, 1))
        # elsewhere what is kept of the capitals of the groups is enough
        asked = ends[1:][ratios + math.log(_KEPT) < target].max(initial=most)
        for number in _MEANS:  # few means will do for most n
            means = max(1.0 - most / asked, _LOWEST) * np.arange(1, number + 1) / number
            found = means, _capitals(below, means, (1.0 - _PART) * bold)
            if _refuted(most, ends[1:], ratios, *found, target):
                break
        else:
            low, high = most, 1.0
            for _ in range(_HALVINGS):
                half = 0.5 * (low + high)
                low, high = (low, half) if _refuted(half, ends[1:], ratios, *found, target) else (half, high)
            most = high
    return most


def _refuted(area: float, highs: Array, ratios: Array, means: Array, capitals: Array, target: float) -> bool:
    """Return whether both capitals reach the target in every cell of f, of which the upper ends are given."""
    behind = 1.0 - area / highs  # the largest d in each cell; none is negative
    return bool((ratios + capitals[np.searchsorted(means, behind)] >= target)[behind >= 0.0].all())


def _ratios(ends: Array, above: int, positives: int, size: float) -> Array:
    """Return logarithms of capitals against f in each cell: of likelihood ratios for a chance that is a bit smaller."""
    middles = (ends[1:] + ends[:-1]) / 2.0
    odds = middles / (1.0 - middles) * np.exp(-size / np.sqrt(positives * middles * (1.0 - middles)))
    other, least = odds / (1.0 + odds), np.clip(above / positives, ends[:-1], ends[1:])
    logs = xlogy(above, other) - xlogy(above, least)
    logs += xlog1py(positives - above, -other) - xlog1py(positives - above, -least)
    return _mixed(logs)


def _mixed(logarithms: Array) -> Array:
    """Return capitals of which a part is kept and not bet."""
    return np.logaddexp(math.log1p(-_KEPT) + logarithms, math.log(_KEPT))


def _capitals(values: Array, means: Array, target: float) -> Array:
    """Return logarithms of capitals against some means, and as the last what is kept against all that are larger."""
    spread, before = spread_before(values)
    variance = (spread + _BEFORE * _VARIANCE) / (before + _BEFORE)
    bets = np.sqrt(2.0 * target / values.shape[1] / variance)
    groups = [some[:, None, None] for some in np.array_split(means, math.ceil(len(means) / _AT_ONCE))]
    logs = [capitals_against(values, np.minimum(bets, _BOLDEST / some), some) for some in groups]
    return _mixed(np.concatenate([*logs, [-np.inf]]))


def _by_pairings(up: Array, counts: Array, errors: Array, upside_down: bool) -> float:
    """Return the lower bound, from which rows are positive, lowest score first."""
    positives, negatives = np.flatnonzero(up), np.flatnonzero(~up)[::-1]
    step, kept, allowed = math.ceil(len(counts) / _RANGES), [], []
    for place in range(0, len(counts), step):
        least, most = (int(some) for some in counts[place : place + step][[0, -1]])
        first = most - least if upside_down else 0
        kept.append(up[np.sort(np.concatenate([positives, negatives[first : first + least]]))])
        allowed.append(float(errors[place : place + step].min()))
    found = zip(shares_of_orders(kept), allowed, strict=True)
    return min(lower_end(shares[int(upside_down)], error) for shares, error in found)


def _errors(n: int, share: float, delta: float, tail: float, tilt: float) -> tuple[Array, Array]:
    """Return numbers of negatives left of the limit, and errors for each whose mean over all numbers is delta."""
    low, high = binomial_range(n, share, tail * delta)
    counts = np.arange(low, high + 1)
    chance = np.exp(
        gammaln(n + 1.0)
        - gammaln(counts + 1.0)
        - gammaln(n - counts + 1.0)
        + xlogy(counts, share)
        + xlog1py(n - counts, -share)
    )
    far = (counts - n * share) / math.sqrt(max(n * share * (1.0 - share), 1.0))
    weights = np.exp(tilt * far)
    return counts, (1.0 - 2.0 * tail) * delta * weights / float(chance @ weights)
