r"""Heights that are raised so far that an exponential moment of their error is at most 1, whatever the true height is.

A binomial R with I and h is seen, and :math:`f(h) = E \exp(s\,(1 - \omega(R) / h^p))` is to be at most 1 for every h
in (0, 1]. ω is increasing: the p-th power of R/I moved towards 1, by the least κ that will do.

*Few positives.* Between two heights nothing is taken on trust. With the logit θ of h and :math:`c(\theta) = h^{-p} =
(1 + e^{-\theta})^p` it is :math:`\ln f = s + G(\theta, c) - A(\theta)`, where

.. math:: G(\theta, c) = \ln \sum_r \binom Ir e^{r\theta - s\,\omega(r)\,c}, \qquad A(\theta) = I \ln(1 + e^\theta) .

G is convex in both together, as the logarithm of a sum of exponentials, and falls in c; c and A are convex. Let m be
the middle of the cell from θ₀ to θ₁, and c' the lower of the tangents of c at both ends there. The two lines from
(θ₀, c₀) to (m, c') to (θ₁, c₁) are below c, so that G on them is above G on the curve, and it is below the chord of
its values at their ends. A is above its tangent at m. So ln f is in the whole cell at most the largest of

.. math:: s + G(m, c') - A(m), \qquad \ln f(\theta_i) + A(\theta_i) - A(m) - A'(m)\,(\theta_i - m) .

Both exceed f by the square of the width of a cell. Below the first height ω(0) ≥ hᵖ, and f is at most 1. From the last
height h₁ on f is at most :math:`E_{h_1} \exp(s\,(1 - \omega(R)))`, as R grows with h and ω with R.

*Many positives.* By Bernoulli's inequality :math:`\omega / h^p \ge 1 + p\,(\omega^{1/p} / h - 1)`, which is linear in
R. The expectation with it is, with v = 1/h and :math:`a = s p (1 - \kappa) / I`, the exponential of

.. math:: I \ln\Bigl(1 - \frac{1 - e^{-av}}v\Bigr) - s p \kappa v + s p .

:math:`(1 - e^{-av}) / v` is a mean of :math:`a e^{-avx}` over x from 0 to 1, convex in v, so that all of it is concave:
its derivative finds the maximum.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln

Array = np.ndarray

# The logarithm that the expectation is allowed, for which an error is to be made less.
ALLOWED = 0.01
# Most positives for which the expectation is a sum over R; ends of the cells, and one minus the last height.
_SUMMED, _ENDS, _LAST = 500, 400, 1e-5
# Halvings of κ, and of the interval in which the maximum is.
_HALVINGS, _HALVED = 12, 60
# What an expectation is at least taken to be, before its logarithm.
_LEAST = 1e-300
# The largest 1/h that is looked at: the maximum is far below.
_FARTHEST = 1e12


@lru_cache(maxsize=64)
def raised(positives: int, p: float, s: float) -> Array:
    """Return ω(0), …, ω(I), with which ln f is at most ``ALLOWED`` at every height.

    Parameters
    ----------
    positives : int
        Number I of the positives.
    p : float
        The power, at least 1.
    s : float
        The factor of the error.

    Returns
    -------
    ndarray, shape (I + 1,)
        The p-th powers.
    """
    few = positives <= _SUMMED
    # that ω(0) is at least hᵖ up to the first height; ω = 1 will do for every s
    low = high = 3.0 * _first(positives)

    def enough(part: float) -> bool:
        if few:
            most = logarithms_within(moved(positives, part) ** p, p, s, *_grid(positives)).max()
        else:
            most = _concave_maximum(positives, s * p, part)
        return bool(most <= ALLOWED)

    while high < 1.0 and not enough(high):
        low, high = high, min(2.0 * high, 1.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return moved(positives, high) ** p


def moved(positives: int, part: float) -> Array:
    """Return the shares 0, 1/I, …, 1 after they were moved towards 1."""
    shares = np.arange(positives + 1.0) / positives
    parts = part * ((shares + 0.1) / 1.1) ** 0.3 if positives <= _SUMMED and part < 1.0 else part
    return 1.0 - (1.0 - parts) * (1.0 - shares)


def logarithms_within(omega: Array, p: float, s: float, logits: Array, chances: Array) -> Array:
    """Return bounds of ln f in the cells between some heights, and from the last one on.

    Parameters
    ----------
    omega : ndarray, shape (I + 1,)
        The values ω(0), …, ω(I), increasing.
    p, s : float
        The power, and the factor of the error.
    logits : ndarray, shape (2N − 1,)
        Logits of the ends of the cells, and of their middles between these.
    chances : ndarray, shape (2N − 1, I + 1)
        The binomial chances there.

    Returns
    -------
    ndarray, shape (N,)
        The bounds.
    """
    positives, ends, middles = len(omega) - 1, logits[::2], logits[1::2]
    powers = np.exp(p * np.logaddexp(0.0, -logits))
    slopes = -p * powers / (1.0 + np.exp(logits))
    half = np.diff(ends) / 2.0
    lowest = np.minimum(powers[:-2:2] + slopes[:-2:2] * half, powers[2::2] - slopes[2::2] * half)
    powers[1::2] = lowest  # where that is far below c, as of a very large p, nothing is proved
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.einsum("kr,kr->k", chances, np.exp(-s * omega * powers[:, None]))
        values = s + np.log(np.maximum(means, _LEAST))
    totals = positives * np.logaddexp(0.0, logits)
    tangent = positives / (1.0 + np.exp(-middles)) * half
    at_left = values[:-2:2] + totals[:-2:2] - totals[1::2] + tangent
    at_right = values[2::2] + totals[2::2] - totals[1::2] - tangent
    beyond = s + math.log(float(chances[-1] @ np.exp(-s * omega)))
    return np.append(np.maximum(np.maximum(at_left, at_right), values[1::2]), beyond)


def _concave_maximum(positives: int, bet: float, part: float) -> float:
    """Return the maximum over v ≥ 1, with s p as ``bet`` and κ as ``part``."""
    a = bet * (1.0 - part) / positives

    def inside(v: float) -> float:
        return math.expm1(-a * v) / v

    def falls(v: float) -> bool:
        slope = -(a * math.exp(-a * v) + inside(v)) / v
        return positives * slope / (1.0 + inside(v)) <= bet * part

    low, high = 1.0, _FARTHEST
    for _ in range(_HALVED):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if falls(middle) else (middle, high)
    return positives * math.log1p(inside(low)) - bet * part * low + bet


def _first(positives: int) -> float:
    """Return the first height of the grid."""
    return 0.1 / positives


@lru_cache(maxsize=4)
def _grid(positives: int) -> tuple[Array, Array]:
    """Return logits of the ends of the cells, with their middles, and the binomial chances there."""
    first = _first(positives)
    logits = np.linspace(math.log(first / (1.0 - first)), -math.log(_LAST), 2 * _ENDS - 1)
    return logits, binomial_chances(positives, logits)


def binomial_chances(positives: int, logits: Array) -> Array:
    """Return the chances of R = 0, …, I at some logits."""
    r = np.arange(positives + 1.0)
    ways = math.lgamma(positives + 1) - gammaln(r + 1) - gammaln(positives - r + 1)
    return np.exp(ways + r * logits[:, None] - positives * np.logaddexp(0.0, logits)[:, None])
