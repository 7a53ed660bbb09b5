r"""Sharp bounds of an AUC that hold for every sample size: Clopper and Pearson's over all pairings.

Pair each of the m rows of the smaller class with a row of its own of the other class. The number of pairs in the right
order is binomial: m independent pairs, each right with probability A, the AUC. So Clopper and Pearson's lower bound
with error ρδ is above A with probability at most ρδ. This holds for each of the pairings, and by Markov's inequality
it is above A for a share ρ of them with probability at most δ. The lower bound of the AUC is therefore one that a
share ρ of all pairings reaches: no pairing is drawn, and the width follows the variance of the AUC (DeLong's), which
that of a single pairing does not.

Let t(a) be the least number of right pairs that has probability at most ρδ under an AUC of a, and at most m. The value
a is refuted where the share q of the pairings with t(a) right pairs or more has

.. math:: P\bigl(\mathrm{Bin}(m, a) \ge t(a)\bigr) \le \delta\, q .

The number of right pairs of a random pairing has a generating function that is a hit polynomial of a Ferrers board: its
identity of Goldman, Joichi and White gives the distribution row by row, as a chain that moves by 0 or 1. All zeros of
such a polynomial are real (Haglund, Ono and Wagner, 1999), so that the number is a sum of independent indicators: with
many rows the normal distribution is within 0.56 / σ of it (Shevtsova, 2010), which is taken off the share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import betaincinv, ndtr

from convexrank.inference.finite_sample.betting import generator

Array = np.ndarray

# Share ρ of the pairings. For normal numbers the width is least from .01 to .1, as the classes are, and flat there.
_SHARE = 0.02
# Most rows of the smaller class for which the chain is followed, and the probability that it may lose.
_MOST, _LOST = 20_000, 1e-20
# Steps of the chain after which the rest is left out, and how many chains are followed together.
_TRIMMED, _TOGETHER = 16, 64
# Random orders of tied rows over which the shares are averaged, for the list and for the list upside down.
_ORDERS = 4
_BERRY_ESSEEN = 0.56


def auc_bounds(hits: Array, totals: Array, alpha: float) -> tuple[float, float]:
    """Return bounds of the AUC, each with an error of alpha / 2.

    Parameters
    ----------
    hits, totals : ndarray of int, shape (m,)
        Number of positives, and of all rows, at each distinct score, highest first.
    alpha : float
        Error of both bounds together.

    Returns
    -------
    tuple of float
        The lower and the upper bound.
    """
    shares = shares_of_pairings([(hits, totals)])[0]
    return lower_end(shares[0], alpha / 2), 1.0 - lower_end(shares[1], alpha / 2)


def shares_of_pairings(lists: Sequence[tuple[Array, Array]]) -> list[Array]:
    """Return for each list the shares of its pairings with 0, 1, … or more right pairs, and with so many wrong pairs.

    A list is given by its hits and totals. Tied rows stand in random orders, over which the shares are averaged. With
    very many rows they are lower bounds.
    """
    orders: list[Array] = []
    ends = []
    for hits, totals in lists:
        tied = bool(((hits > 0) & (hits < totals)).any())
        for turn in (1, -1) if tied else (1,):
            orders += orders_of(hits[::turn], totals[::turn], turn, _ORDERS if tied else 1)
        ends.append(len(orders))
    found = shares_of_orders(orders)
    return [np.mean(found[start:end], axis=0) for start, end in zip([0, *ends], ends, strict=False)]


def orders_of(hits: Array, totals: Array, turn: int, number: int) -> list[Array]:
    """Return which rows are positive, lowest score first; tied rows in random orders, which leave the AUC as it is."""
    level = np.repeat(np.arange(len(totals)), totals)
    label = np.arange(len(level)) - np.repeat(totals.cumsum() - totals, totals) < np.repeat(hits, totals)
    if len(totals) == len(level):
        return [label[::-turn]]
    rng = generator(np.stack([hits, totals]))
    return [label[np.lexsort((rng.random(len(level)), level))][::-turn] for _ in range(number)]


def shares_of_orders(orders: Sequence[Array]) -> list[Array]:
    """Return the shares for some orders of rows, lowest score first, of which it is said which rows are positive."""
    boards = [_board(up) for up in orders]
    few = [number for number, (below, _) in enumerate(boards) if len(below) <= _MOST]
    chances = dict(zip(few, _right_pairs([boards[number] for number in few]), strict=True))
    return [
        np.array([part[::-1].cumsum()[::-1] for part in (chances[number], chances[number][::-1])])
        if number in chances
        else _normal_shares(*board)
        for number, board in enumerate(boards)
    ]


def _board(up: Array) -> tuple[Array, int]:
    """Return for each row of the smaller class how many of the other class are below it, and how many there are."""
    positives = int(up.sum())
    size = max(positives, len(up) - positives)
    # turned around, the negatives above a positive become positives above a negative
    order = up if positives <= len(up) - positives else ~up[::-1]
    return (np.arange(len(order)) - order.cumsum() + 1)[order], size


def _right_pairs(boards: Sequence[tuple[Array, int]]) -> list[Array]:
    """Return the distributions of the numbers of right pairs, from how many of ``size`` others are below each row."""
    longest = sorted(range(len(boards)), key=lambda number: -len(boards[number][0]))
    found: dict[int, Array] = {}
    for start in range(0, len(boards), _TOGETHER):
        some = longest[start : start + _TOGETHER]
        found.update(zip(some, _chains([boards[number] for number in some]), strict=True))
    return [found[number] for number in range(len(boards))]


def _chains(boards: Sequence[tuple[Array, int]]) -> list[Array]:
    """Follow the chains of some boards together, of which the first has most rows.

    The wrong pairs J, and those of as many rows without a right one that the classes have the same size D, are a chain:
    for each c = b − i + 1 of the rows i = 1, 2, … with b others below, in increasing order, J stays with probability
    (c + J) / D, where D counts the rows so far, else it grows by 1. The order in which the c are taken is free: with
    those near 1/2 first all probabilities are in [0, 1]. Only the part of the distribution that matters is kept.
    """
    pairs = [len(below) for below, _ in boards]
    extra = np.array([size - len(below) for below, size in boards], dtype=np.float64)[:, None]
    stays, sizes = np.zeros((pairs[0], len(boards), 1)), extra + np.arange(1.0, pairs[0] + 1.0)[:, None, None]
    for number, (below, size) in enumerate(boards):
        steps = np.sort(below) - np.arange(size - len(below), size)
        stays[: len(below), number, 0] = (
            steps[np.argsort(np.abs(2 * steps - 1), kind="stable")] + extra[number]
        )
    chance, first, numbers = np.ones((len(boards), 1)), np.zeros((len(boards), 1)), np.arange(pairs[0] + 1.0)
    found: list[Array] = []
    for rows in range(len(boards), 0, -1):
        done, until = pairs[rows] if rows < len(pairs) else 0, pairs[rows - 1]
        for step, (here, size) in enumerate(
            zip(stays[done:until, :rows], sizes[done:until, :rows], strict=True)
        ):
            stay = numbers[: chance.shape[1]] + (here + first)
            stay *= chance
            stay /= size
            moved = np.empty((rows, chance.shape[1] + 1))
            moved[:, :-1] = stay
            moved[:, -1] = 0.0
            moved[:, 1:] += np.subtract(chance, stay, out=stay)
            chance, first = _trimmed(moved, first) if step % _TRIMMED == 0 else (moved, first)
        found.append(_whole(chance[-1], int(first[-1, 0]), until))  # the shortest of those that are left
        chance, first = chance[:-1], first[:-1]
    return found[::-1]


def _trimmed(chance: Array, first: Array) -> tuple[Array, Array]:
    """Leave out what does not matter, on both sides, and what rounding made negative."""
    large = chance > _LOST
    starts = large.argmax(axis=1)
    widths = chance.shape[1] - large[:, ::-1].argmax(axis=1) - starts
    kept = np.zeros((len(chance), int(widths.max())))
    for row, start, width in zip(range(len(chance)), starts.tolist(), widths.tolist(), strict=True):
        kept[row, :width] = chance[row, start : start + width]
    return np.maximum(kept, 0.0, out=kept), first + starts[:, None]


def _whole(chance: Array, first: int, pairs: int) -> Array:
    """Return the distribution of the right pairs, from a part of that of the wrong ones."""
    found = np.zeros(pairs + 1)
    part = chance[: pairs + 1 - first]
    found[first : first + len(part)] = part
    return np.maximum(found, 0.0)[::-1]


def _normal_shares(below: Array, size: int) -> Array:
    """Return lower bounds of the shares for many rows, from mean and variance of the number of right pairs."""
    pairs = len(below)
    above = pairs - np.searchsorted(np.sort(below), np.arange(size), side="right")  # for each other row
    right = float(below.sum())
    mean = right / size
    # squares of the matrix of right pairs, which is doubly centred
    square = right - float(below @ below) / size - float(above @ above) / size + mean**2
    deviation = math.sqrt(max(square, 0.0) / (size - 1))
    counts = np.arange(pairs + 1)
    if deviation == 0.0:
        return np.array([counts <= round(mean), counts <= pairs - round(mean)], dtype=np.float64)
    return np.array(
        [
            np.clip(1.0 - ndtr((counts - 1 - one) / deviation) - _BERRY_ESSEEN / deviation, 0.0, 1.0)
            for one in (mean, pairs - mean)
        ]
    )


def lower_end(shares: Array, delta: float) -> float:
    """Return the lower bound: the least value that is not refuted."""
    pairs = len(shares) - 1
    few = np.flatnonzero(shares[1:] < _SHARE)
    t = min(int(few[0]) + 1, pairs) if len(few) else pairs

    def ends(count: int, error: float) -> float:
        return float(betaincinv(count, pairs - count + 1, error)) if count and error > 0.0 else 0.0

    return max(ends(t - 1, _SHARE * delta), ends(t, float(shares[t]) * delta))
