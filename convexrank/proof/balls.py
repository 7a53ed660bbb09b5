"""Vectors of balls: sums, log-sum-exps, maxima, and conversion to floats, rounded outward."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from convexrank.core.results import Certificate, CertificateError

try:
    from flint import arb, ctx
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


def power(x: arb, exponent: float) -> arb:
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
    last = math.inf
    for bits in _BITS:
        with at_precision(bits):
            found = evaluate()
            if not math.isfinite(above(found.gap)) and bits < _BITS[-1]:
                continue  # exponentials of scores that are not known to 1
            # of a value that is not known at all the midpoint is as large as the radius, and is no size
            size = max(1.0, below(abs(found.value)))
            enough = max(_SHARE * abs(float(found.gap)), _NOTHING * size)
            # how many times too large the radii are
            excess = max(above(found.gap.rad()) / enough, above(found.value.rad()) / (_LAST_BIT * size))
            certificate = _certificate(name, found, remark)
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
