r"""Conjugates of the losses of score differences: ψ(x) = ℓ(−x) has :math:`\psi^*(p) = \sup_x px - \psi(x)`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank import losses

__all__ = ["LOGISTIC", "LossConjugate", "entropies", "loss_conjugate"]

Array = np.ndarray


def entropies(p: Array) -> Array:
    """Return p log p for each p of at least 0, and 0 at 0."""
    return p * np.log(np.where(p > 0.0, p, 1.0))


def _slope_of_exponential(z: Array, width: float) -> Array:
    with np.errstate(over="ignore"):
        return np.exp(-z)


def _slope_of_hinge(z: Array, width: float) -> Array:
    return np.clip((1.0 - z) / width, 0.0, 1.0) if width > 0.0 else (z < 1.0).astype(np.float64)


def _slope_of_squared_hinge(z: Array, width: float) -> Array:
    return 2.0 * np.maximum(1.0 - z, 0.0)


@dataclass(frozen=True)
class LossConjugate:
    r"""The conjugate ψ* of one loss, on :math:`0 \le p \le` ``most``.

    Parameters
    ----------
    most : float
        The largest p where ψ* is finite.
    modulus : float
        What the second derivative of ψ* is at least.
    value, model, ball : callable
        The conjugate ψ* of an array, of a cvxpy expression, of one ball.
    slope : callable
        The p of a margin z, :math:`-\ell'(z)`; where there is a kink, some p that is right within a width.
    """

    most: float
    modulus: float
    value: Callable[[Array], Array]
    model: Callable[[Any], Any]
    ball: Callable[[Any], Any]
    slope: Callable[[Array, float], Array]


def _entropy_model(p: Any) -> Any:
    import cvxpy as cp

    return -cp.entr(p)


def _entropy_ball(p: Any) -> Any:
    from convexrank.proof.balls import ZERO

    return ZERO if p.is_zero() else p * p.log()


def _square_model(p: Any) -> Any:
    import cvxpy as cp

    return 0.25 * cp.square(p) - p


def _logistic(base: float) -> LossConjugate:
    scale = 1.0 if base == math.e else 1.0 / math.log(base)

    def value(p: Array) -> Array:
        share = np.clip(p / scale, 0.0, 1.0)
        return scale * (entropies(share) + entropies(1.0 - share))

    def model(p: Any) -> Any:
        return scale * (_entropy_model(p / scale) + _entropy_model(1.0 - p / scale))

    def ball(p: Any) -> Any:
        from convexrank.proof.balls import ONE, arb

        exact = ONE if base == math.e else 1 / arb(base).log()
        share = p / exact
        return exact * (_entropy_ball(share) + _entropy_ball(1 - share))

    def slope(z: Array, width: float) -> Array:
        return scale * np.exp(-np.logaddexp(0.0, z))

    return LossConjugate(scale, 4.0 / scale, value, model, ball, slope)


#: That of the logistic loss with the natural logarithm.
LOGISTIC = _logistic(math.e)


def loss_conjugate(loss: Any) -> LossConjugate | None:
    """Return the conjugate of a loss of this package; None of a loss of the caller's own.

    Parameters
    ----------
    loss : Loss
        The loss.
    """
    if isinstance(loss, losses.Exponential):
        return LossConjugate(
            math.inf,
            0.0,
            lambda p: entropies(p) - p,
            lambda p: _entropy_model(p) - p,
            lambda p: _entropy_ball(p) - p,
            _slope_of_exponential,
        )
    if isinstance(loss, losses.Logistic):
        return _logistic(loss.base)
    if isinstance(loss, losses.Hinge):
        return LossConjugate(1.0, 0.0, lambda p: -p, lambda p: -p, lambda p: -p, _slope_of_hinge)
    if isinstance(loss, losses.SquaredHinge):
        return LossConjugate(
            math.inf,
            0.5,
            lambda p: 0.25 * p * p - p,
            _square_model,
            lambda p: p * p / 4 - p,
            _slope_of_squared_hinge,
        )
    return None
