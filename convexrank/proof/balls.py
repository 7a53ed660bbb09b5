r"""Vectors of balls: sums, log-sum-exps, maxima, sums over all pairs, and conversion to floats, rounded outward.

Sums of losses over all pairs of two sides, over balls, by one sort: O(n log n) and not O(n²).

For losses :math:`\sum_m c_m (1-z)_+^m` the sum over the upper rows i with :math:`f_i < 1 + f_k` is a polynomial in
:math:`1 + f_k`, whose coefficients are moments of the scores below it: prefix sums in the order of the scores. Pairs
within rounding of the margin, of which it is not certain on which side they are, are taken one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from convexrank.core.results import Certificate, CertificateError

try:
    from flint import arb, ctx
    from flint import arb_mat as arb_mat
    from flint import fmpq as fmpq
except ImportError as error:  # an extra: the package does without
    raise ImportError("a proof needs ball arithmetic: pip install 'convexrank[proof]'.") from error
Array = np.ndarray
Balls = list[arb]

#: Of a convex function at one number: its value, the slope of an affine minorant, and how far that lies below there.
Line = tuple[arb, arb, arb]
ZERO, ONE = arb(0), arb(1)
at_precision = ctx.workprec


@dataclass(frozen=True)
class Tangent:
    r"""An affine minorant of a convex risk, from one point θ of its scores.

    For some numbers R(θ) in ``value``, u in ``slope`` and s in ``slack``

    .. math:: R(\theta') \ge R(\theta) - s + \langle u, \theta'-\theta\rangle \quad\text{for all } \theta'.

    Parameters
    ----------
    value : arb
        A ball that contains R(θ).
    slope : list of arb, shape (n,)
        Balls that contain the entries of u, the slope with respect to the scores of all rows.
    slack : arb
        The difference between the risk and the minorant at θ itself: 0 for a gradient. For a risk with kinks any choice
        of its active pieces, such as a choice in floats, gives a minorant, with this loss.
    """

    value: arb
    slope: Balls
    slack: arb = ZERO


def exact(values: Iterable[float] | Array) -> Balls:
    """Return floats as the rational numbers that they are."""
    return [arb(value) for value in (values.tolist() if isinstance(values, np.ndarray) else values)]


def around(value: float, terms: int) -> arb:
    """Enclose a constant computed in floats from a number of terms, each with a rounding of a few units."""
    return arb(value, (terms + 32.0) * 2.0**-52 * (1.0 + abs(value)))


def midpoints(balls: Sequence[arb]) -> Array:
    """Return the nearest floats: what choices are made by that need not be right."""
    return np.array([float(ball) for ball in balls])


def total(balls: Iterable[arb]) -> arb:
    """Return the sum."""
    return sum(balls, ZERO)


def dot(a: Iterable[Any], b: Iterable[Any]) -> arb:
    """Return the sum of products."""
    return sum(map(mul, a, b), ZERO)


def above(ball: arb) -> float:
    """Return a float that no number of the ball exceeds."""
    end = ball.upper()
    value = float(end)
    while not math.isnan(value) and value < math.inf and not arb(value) >= end:
        value = math.nextafter(value, math.inf)
    return math.inf if math.isnan(value) else value


def below(ball: arb) -> float:
    """Return a float that no number of the ball falls below."""
    return 0.0 - above(-ball)


def positive(x: arb) -> arb:
    """Enclose max(x, 0)."""
    return x.max(ZERO)


def greatest(balls: Iterable[arb]) -> arb:
    """Enclose the largest of some numbers."""
    return reduce(arb.max, balls)


def log_sum_exp(exponents: Balls, weights: Array | None = None) -> tuple[arb, Balls]:
    """Enclose log Σ a eˣ and the shares a eˣ / Σ a eˣ. Exponents of balls have no end: nothing is shifted."""
    terms = [x.exp() for x in exponents]
    if weights is not None and (weights != 1.0).any():
        terms = [term * weight for term, weight in zip(terms, weights.tolist(), strict=True)]
    whole = total(terms)
    inverse = 1 / whole
    return whole.log(), [term * inverse for term in terms]


def softplus(x: arb) -> arb:
    """Enclose log(1 + eˣ)."""
    return x.exp().log1p()


def sigmoid(x: arb) -> arb:
    """Enclose 1/(1 + e⁻ˣ), the slope of softplus."""
    return 1 / (1 + (-x).exp())


def power(x: arb, exponent: Any) -> arb:
    """Enclose x to some power, at least 0, for an x that is known not to be negative."""
    if x > 0:
        return x**exponent
    if exponent == 0:
        return ONE
    return ZERO.union(x.upper() ** exponent) if x.upper() > 0 else ZERO


def root(x: arb) -> arb:
    """Enclose the square root of what is known not to be negative."""
    return x.sqrt() if x >= 0 else ZERO.union(x.upper().sqrt()) if x.upper() > 0 else ZERO


def placed(length: int, *parts: tuple[Array, Sequence[arb]]) -> Balls:
    """Return a vector with the entries of each part added at its places."""
    vector = [ZERO] * length
    for places, entries in parts:
        for place, entry in zip(places.tolist(), entries, strict=True):
            vector[place] = vector[place] + entry
    return vector


# Bits of a midpoint. More are taken until the radius of the gap is below this share of it, or the gap is nothing, and
# the value is known to its last bit, which the checking program compares.
_BITS = (64, 128, 256, 512, 1024, 2048)
_SHARE = 0.01
_NOTHING = 1e-25
_LAST_BIT = 2.0**-55


@dataclass(frozen=True)
class Bounds:
    """The value at a point, and value − optimum.

    Parameters
    ----------
    value : arb
        Encloses the value.
    gap : arb
        Its upper end is above value − optimum.
    least : arb
        Its lower end is below value − optimum: 0 at a feasible point.
    """

    value: arb
    gap: arb
    least: arb = ZERO


def refined(name: str, evaluate: Callable[[], Bounds], remark: str = "") -> Certificate:
    """Return a proved certificate of kind "global".

    Parameters
    ----------
    name : str
        The formulation, for messages.
    evaluate : callable
        Returns the bounds at the precision that is set when it is called.
    remark : str
        What the certificate says of the model it is about.

    Raises
    ------
    CertificateError
        When the bound is infinite, or contradicts itself.
    """
    last, gap = math.inf, None
    for bits in _BITS:
        with at_precision(bits):
            found = evaluate()
            # where a tangent is taken at a kink, digits decide on its side, and every bound holds
            gap = found.gap if gap is None else min(gap, found.gap, key=above)
            if not math.isfinite(above(found.gap)) and bits < _BITS[-1]:
                continue  # exponentials of scores that are not known to 1
            # of a value that is not known at all the midpoint is as large as the radius, and is no size
            size = max(1.0, below(abs(found.value)))
            enough = max(_SHARE * abs(float(found.gap)), _NOTHING * size)
            # how many times too large the radii are
            excess = max(above(found.gap.rad()) / enough, above(found.value.rad()) / (_LAST_BIT * size))
            certificate = _certificate(name, replace(found, gap=gap), remark)
        # more bits do not help where a part is made in floats
        if excess <= 1.0 or (math.isfinite(last) and excess > 0.5 * last):
            break
        last = excess
    return certificate


def _certificate(name: str, found: Bounds, remark: str) -> Certificate:
    gap, least = above(found.gap), below(found.least)
    if not math.isfinite(gap):
        raise CertificateError(f"{name}: the bound is infinite at this point; a solution has a better one.")
    if gap < least:
        raise CertificateError(f"{name}: a lower bound above the value; its ball form is wrong.")
    return Certificate(
        gap=max(gap, 0.0),  # outside its constraints by rounding a point may be below the optimum
        value=float(found.value),
        lower_bound=below(found.value - found.gap),
        least=least,
        proved=True,
        remark=remark,
    )


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
