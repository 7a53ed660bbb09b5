r"""Sums of losses over all pairs of two sides, over balls, by one sort: O(n log n) and not O(n²).

For losses :math:`\sum_m c_m (1-z)_+^m` the sum over the upper rows i with :math:`f_i < 1 + f_k` is a polynomial in
:math:`1 + f_k`, whose coefficients are moments of the scores below it: prefix sums in the order of the scores. Pairs
within rounding of the margin, of which it is not certain on which side they are, are taken one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from convexrank.core.results import CertificateError
from convexrank.proof.balls import ZERO, Balls, Line, above, arb, exact, midpoints

Array = np.ndarray

#: No more pairs than this are taken one by one: more would take minutes.
PAIRS = 2_000_000


@dataclass(frozen=True, eq=False)
class Sides:
    """Upper rows against lower rows.

    Parameters
    ----------
    scores : list of arb
        Scores of all rows.
    function : Function
        The function φ(x) = ℓ(−x) of a loss, with coefficients and a form in balls.
    upper, shares : ndarray
        The upper rows, and their weights a.
    lower : ndarray
        The lower rows.
    """

    scores: Balls
    function: Any
    upper: Array
    shares: Array
    lower: Array

    @cached_property
    def _order(self) -> tuple[Array, Array, Array]:
        """The upper rows by ascending score; for each lower row, how many are surely active, and how many may be."""
        ups, downs = (
            midpoints([self.scores[row] for row in rows.tolist()]) for rows in (self.upper, self.lower)
        )
        radius = max(
            (above(self.scores[row].rad()) for row in (*self.upper.tolist(), *self.lower.tolist())),
            default=0.0,
        )
        size = float(max(np.abs(ups).max(initial=0.0), np.abs(downs).max(initial=0.0)))
        off = 4.0 * radius + 1e-14 * (1.0 + size)
        order = np.argsort(ups, kind="stable")
        sure = np.searchsorted(ups[order], 1.0 + downs - off, "left")
        maybe = np.searchsorted(ups[order], 1.0 + downs + off, "right")
        near = int((maybe - sure).sum())
        if near > PAIRS:
            raise CertificateError(
                f"{near} pairs of rows are within rounding of the margin, and no more than {PAIRS} are taken one by "
                "one over balls; scale the features, or prove on a part of the rows."
            )
        return order, sure, maybe

    @cached_property
    def _sorted(self) -> tuple[Balls, Balls]:
        """Scores and weights of the upper rows in order."""
        order = self._order[0]
        return [self.scores[row] for row in self.upper[order].tolist()], exact(self.shares[order])

    @cached_property
    def _near(self) -> list[tuple[int, int, Line]]:
        """Pairs (place of the upper row in order, number of the lower row) near the margin, with their loss."""
        (_, sure, maybe), (ups, _) = self._order, self._sorted
        return [
            (place, number, self.function.line(self.scores[row] - ups[place]))
            for number, row in enumerate(self.lower.tolist())
            for place in range(int(sure[number]), int(maybe[number]))
        ]

    @cached_property
    def _moments(self) -> list[Balls]:
        """Prefix sums of a f^t in order, t from 0 to the degree."""
        scores, powers = self._sorted
        found = []
        for _ in self.function.coefficients:
            found.append(list(accumulate(powers, initial=ZERO)))
            powers = [power * score for power, score in zip(powers, scores, strict=True)]
        return found

    def sums(self) -> tuple[Balls, Balls]:
        """Return for each lower row the sum of its losses, and how far the minorants chosen lie below it."""
        sure, shares = self._order[1].tolist(), self._sorted[1]
        values, lags = [], [ZERO] * len(self.lower)
        for row, count in zip(self.lower.tolist(), sure, strict=True):
            end, value = 1 + self.scores[row], ZERO
            for degree, factor in enumerate(self.function.coefficients):
                if factor:
                    value += arb(factor) * _shifted(
                        end, [moment[count] for moment in self._moments[: degree + 1]]
                    )
            values.append(value)
        for place, number, (value, _, slack) in self._near:
            values[number] = values[number] + shares[place] * value
            lags[number] = lags[number] + shares[place] * slack
        return values, lags

    def pull(self, marginal: Balls) -> tuple[Balls, Balls]:
        """Return what the sums, with a factor each, pull at: slopes in the upper scores as given, and in the lower."""
        (order, sure, _), (ups, shares) = self._order, self._sorted
        degrees = [
            (degree, factor) for degree, factor in enumerate(self.function.coefficients) if degree and factor
        ]
        most = max((degree for degree, _ in degrees), default=1)
        ends = [1 + self.scores[row] for row in self.lower.tolist()]
        # sums over the lower rows of which an upper row is surely a partner, from the highest place down
        tails = [[ZERO] * (len(ups) + 1) for _ in range(most)]
        lowers = []
        for end, count, push in zip(ends, sure.tolist(), marginal, strict=True):
            down = ZERO
            for degree, factor in degrees:
                moments = [moment[count] for moment in self._moments[:degree]]
                down += arb(factor) * degree * _shifted(end, moments)
            lowers.append(push * down)
            for tail in tails:
                tail[count], push = tail[count] + push, push * end
        tails = [list(accumulate(reversed(tail)))[::-1] for tail in tails]
        uppers = [ZERO] * len(ups)
        for place, (score, share) in enumerate(zip(ups, shares, strict=True)):
            for degree, factor in degrees:
                # the sum of m (1 + f_k − f_i)^(degree−1) over partners k, with −f_i in the place of 1 + f_k
                moments = [tails[power][place + 1] for power in range(degree)]
                turn = _shifted(-score, [(-1) ** power * moment for power, moment in enumerate(moments)])
                uppers[place] = uppers[place] - share * arb(factor) * degree * turn
        for place, number, (_, steep, _) in self._near:
            pull = marginal[number] * steep * shares[place]
            uppers[place] = uppers[place] - pull
            lowers[number] = lowers[number] + pull
        given = [ZERO] * len(ups)
        for place, row in enumerate(order.tolist()):
            given[row] = uppers[place]
        return given, lowers


def _shifted(end: arb, moments: list[arb]) -> arb:
    """Enclose Σ a (x − f)^m from the moments Σ a f^t, t from 0 to m."""
    degree, found = len(moments) - 1, ZERO
    for power, moment in enumerate(moments):  # a power of a ball around 0 would be no number
        found = found * end + math.comb(degree, power) * (-1) ** power * moment
    return found
