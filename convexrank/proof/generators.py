"""Generators of divergences over balls: φ of one number, its slope, its conjugate, and moduli."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from convexrank.proof.balls import (
    ONE,
    ZERO,
    arb,
    positive,
    sigmoid,
    softplus,
)

Array = np.ndarray
Function = Callable[[arb], arb]


@dataclass(frozen=True)
class Generator:
    r"""A convex function φ of one number.

    Parameters
    ----------
    value, slope : callable
        The generator φ and its derivative.
    conjugate, point : callable
        The conjugate over the whole domain, and its derivative, the link.
    on_half_line : callable
        The conjugate over the numbers of at least 0 in the domain, or more.
    modulus : callable
        The least second derivative of φ between two numbers.
    flat : arb
        The least second derivative of the conjugate.
    """

    value: Function
    slope: Function
    conjugate: Function
    point: Function
    on_half_line: Function
    modulus: Callable[[arb, arb], arb]
    flat: arb = ZERO


def x_log_x(x: arb) -> arb:
    """Enclose x log x for an x that is known not to be negative; it falls until 1/e, and then rises."""
    if x > 0:
        return x * x.log()
    end = x.upper()
    if not end > 0:
        return ZERO
    bottom = (-ONE).exp()
    return ZERO.union(end * end.log()) if end < bottom else ZERO.union(end * end.log()).union(-bottom)


def squared() -> Generator:
    """Return φ = x²/2."""
    return Generator(
        value=lambda x: x * x / 2,
        slope=lambda x: x,
        conjugate=lambda t: t * t / 2,
        point=lambda t: t,
        on_half_line=lambda t: positive(t) * positive(t) / 2,  # a power of a ball around 0 would be no number
        modulus=lambda low, high: ONE,
        flat=ONE,
    )


def entropy(shift: float = 0.0) -> Generator:
    """Return φ = (x−a) log(x−a) − (x−a), a the shift."""
    a = arb(shift)
    turn = None if not a < 0 else (-a).log()  # below this slope the least number of the half-line is best

    def on_half_line(t: arb) -> arb:
        t = t if turn is None else t.max(turn)
        return t.exp() + a * t

    return Generator(
        value=lambda x: x_log_x(x - a) - (x - a),
        slope=lambda x: (x - a).log(),
        conjugate=lambda t: t.exp() + a * t,
        point=lambda t: a + t.exp(),
        on_half_line=on_half_line,
        modulus=lambda low, high: 1 / (high - a),
    )


def distribution_entropy() -> Generator:
    """Return φ = x log x, as for distributions; its conjugate there is that of a sum, and not of one number."""
    return Generator(
        value=x_log_x,
        slope=lambda x: x.log() + 1,
        conjugate=lambda t: (t - 1).exp(),
        point=lambda t: (t - 1).exp(),
        on_half_line=lambda t: (t - 1).exp(),
        modulus=lambda low, high: 1 / high,
    )


def bit_entropy() -> Generator:
    """Return φ = x log x + (1−x) log(1−x)."""

    def modulus(low: arb, high: arb) -> arb:
        x = (ONE / 2).max(low).min(high)
        return 1 / x + 1 / (1 - x)

    return Generator(
        value=lambda x: x_log_x(x) + x_log_x(1 - x),
        slope=lambda x: (x / (1 - x)).log(),
        conjugate=softplus,
        point=sigmoid,
        on_half_line=softplus,
        modulus=modulus,
    )


def itakura_saito() -> Generator:
    """Return φ = −log x; on the simplex no number is above 1, where the conjugate goes on as a line."""

    def on_half_line(t: arb) -> arb:
        steep = t.min(-ONE)
        return t - steep - 1 - (-steep).log()

    return Generator(
        value=lambda x: -x.log(),
        slope=lambda x: -1 / x,
        conjugate=lambda t: -1 - (-t).log(),
        point=lambda t: -1 / t,
        on_half_line=on_half_line,
        modulus=lambda low, high: 1 / (high * high),
    )
