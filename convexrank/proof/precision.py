"""Bits are doubled until the radius of a bound is small relative to the bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from convexrank.core.results import Certificate, CertificateError
from convexrank.proof.balls import ZERO, above, arb, at_precision, below

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
