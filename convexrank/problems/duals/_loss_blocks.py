"""Conjugates of sums of losses: over pairs of rows, and over positives against a level of the negatives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.problems.duals._losses import LossConjugate

__all__ = ["MODEL", "Pairs", "refuse_many_pairs"]

Array = np.ndarray

# Pairs with a multiplier each, or a term of an exact model.
_MOST_PAIRS = 5_000_000
# What has something for each pair, and what may be taken in its place.
_DUAL, MODEL = ("the dual has a multiplier", ""), ("the exact model has a term", "a fast solver, ")
# A factor that keeps a multiplier in its range when it is divided by its weight.
_INSIDE = 1.0 - 1e-14


def refuse_many_pairs(count: int, asked: tuple[str, str] = _DUAL) -> None:
    """Refuse a dual or an exact model that would not fit into memory."""
    if count > _MOST_PAIRS:
        what, other = asked
        raise ValueError(
            f"{what} for each of {count} pairs, expected at most {_MOST_PAIRS}; take fewer rows, {other}or a risk that "
            "is no sum over pairs, such as a PNormPush."
        )


def _perspective(conjugate: LossConjugate, v: Array, weights: Array) -> float:
    return float(weights @ conjugate.value(v / weights))


def _outside(v: Array, most: Array) -> float:
    return max(-float(v.min(initial=0.0)), float((v - most).max(initial=0.0)), 0.0)


def _perspective_of_balls(conjugate: LossConjugate, parts: list[Any], weights: Array) -> Any:
    from convexrank.proof.balls import around, total

    wide = [around(weight, len(weights)) for weight in weights.tolist()]
    return total(c * conjugate.ball(part / c) for part, c in zip(parts, wide, strict=True))


def _clipped(conjugate: LossConjugate, v: Array, weights: Array) -> list[Any]:
    """Parts from 0 to what the conjugate allows, inside by more than the rounding of the weights."""
    from convexrank.proof.balls import exact

    most = conjugate.most * (1.0 - 2.0 * (len(weights) + 64.0) * 2.0**-52)
    return exact(np.clip(v, 0.0, most * weights))


@dataclass(frozen=True, eq=False)
class Pairs:
    r"""The risk :math:`\sum_r c_r\ell(f_{i_r} - f_{k_r})`: v has a multiplier q for each pair, :math:`c\,\psi^*(q/c)`.

    Parameters
    ----------
    conjugate : LossConjugate
        The conjugate ψ*.
    upper, lower : ndarray of int, shape (m,)
        The rows i and k of each pair.
    weights : ndarray, shape (m,)
        The weights c, greater than 0.
    """

    conjugate: LossConjugate
    upper: Array
    lower: Array
    weights: Array

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.upper)

    @property
    def modulus(self) -> float:
        """The modulus of ψ*, divided by the largest weight."""
        return self.conjugate.modulus / float(self.weights.max())

    @property
    def entries(self) -> tuple[Array, Array, Array]:
        """Two entries for each pair."""
        places, ones = np.arange(self.size), np.ones(self.size)
        return np.r_[self.lower, self.upper], np.r_[places, places], np.r_[ones, -ones]

    @property
    def rest(self) -> Array:
        """No pair has a multiplier."""
        return np.zeros(self.size)

    def value(self, v: Array) -> float:
        """Return the sum of the conjugates."""
        return _perspective(self.conjugate, np.clip(v, 0.0, self.conjugate.most * self.weights), self.weights)

    def violation(self, v: Array) -> float:
        """Return how far a multiplier is out of its range."""
        return _outside(v, self.conjugate.most * self.weights)

    def near(self, x: Array) -> Array:
        """Return x clipped."""
        return np.clip(x, 0.0, _INSIDE * self.conjugate.most * self.weights)

    def at(self, scores: Array, width: float) -> Array:
        """Return minus the slope of each pair's loss."""
        return self.weights * self.conjugate.slope(scores[self.upper] - scores[self.lower], width)

    def model(self, v: Any) -> tuple[Any, list[Any]]:
        """Return the sum of the conjugates, and the ranges."""
        import cvxpy as cp

        limits = [v >= 0]
        if math.isfinite(self.conjugate.most):
            limits.append(v <= self.conjugate.most * self.weights)
        return self.weights @ self.conjugate.model(cp.multiply(1.0 / self.weights, v)), limits

    def exactly(self, v: Array) -> list[Any]:
        """Return v clipped."""
        return _clipped(self.conjugate, v, self.weights)

    def ball_value(self, parts: list[Any]) -> Any:
        """Return the sum of the conjugates."""
        return _perspective_of_balls(self.conjugate, parts, self.weights)
