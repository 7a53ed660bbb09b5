"""Conjugates of sums of losses: over pairs of rows, and over positives against a level of the negatives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.problems._smoothed_reference import reference_highest
from convexrank.problems.bipartite._boosting_oracle import log_sum_exp_gradient
from convexrank.problems.duals._blocks import scaled_to
from convexrank.problems.duals._losses import LossConjugate, entropies

__all__ = ["MODEL", "AgainstLevel", "Pairs", "refuse_many_pairs"]

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


@dataclass(frozen=True, eq=False)
class AgainstLevel:
    r"""The risk :math:`\sum_i a_i\ell(f_i - L)`, L the log-sum-exp or the maximum of the negatives' scores.

    v is (q, γ): multipliers q of the positives, γ ≥ 0 of the negatives, of the same sum Q. G is
    :math:`\sum_i a_i\psi^*(q_i/a_i)`, and with a log-sum-exp :math:`\sum_k\gamma_k\log(\gamma_k/(b_kQ))` besides.

    Parameters
    ----------
    conjugate : LossConjugate
        The conjugate ψ*.
    positives, negatives : ndarray of int
        Their rows.
    weights : ndarray
        The weights a of the positives.
    log_weights : ndarray or None
        The logarithms of b; None for a maximum.
    narrower : float
        The width of the maximum, divided by the width of a hinge.
    """

    conjugate: LossConjugate
    positives: Array
    negatives: Array
    weights: Array
    log_weights: Array | None
    narrower: float = 1.0

    modulus = 0.0

    @property
    def size(self) -> int:
        """Number of positives and negatives."""
        return len(self.positives) + len(self.negatives)

    @property
    def entries(self) -> tuple[Array, Array, Array]:
        """Minus q, and γ."""
        signs = np.r_[-np.ones(len(self.positives)), np.ones(len(self.negatives))]
        return np.r_[self.positives, self.negatives], np.arange(self.size), signs

    @property
    def rest(self) -> Array:
        """No row has a multiplier."""
        return np.zeros(self.size)

    def _sides(self, v: Array) -> tuple[Array, Array]:
        return v[: len(self.positives)], v[len(self.positives) :]

    def value(self, v: Array) -> float:
        """Return the conjugates of the losses, and the divergence of the level's shares."""
        q, level = self._sides(np.maximum(v, 0.0))
        value = _perspective(self.conjugate, np.minimum(q, self.conjugate.most * self.weights), self.weights)
        if self.log_weights is None:
            return value
        return value + float((entropies(level) - level * self.log_weights).sum() - entropies(level.sum()))

    def violation(self, v: Array) -> float:
        """Return how far v is out of its ranges, and the two sums are apart."""
        q, level = self._sides(v)
        ranges = max(_outside(q, self.conjugate.most * self.weights), -float(level.min()), 0.0)
        return max(ranges, abs(float(q.sum() - level.sum())))

    def near(self, x: Array) -> Array:
        """Return x clipped, and the negatives' part scaled to the positives' sum."""
        q, level = self._sides(np.clip(x, 0.0, None))
        q = np.minimum(q, _INSIDE * self.conjugate.most * self.weights)
        return np.r_[q, scaled_to(level, float(q.sum()))]

    def at(self, scores: Array, width: float) -> Array:
        """Return the multipliers of the losses, shared by the softmax or by what is near the highest."""
        positive, negative = scores[self.positives], scores[self.negatives]
        if self.log_weights is not None:
            level, shares = log_sum_exp_gradient(self.log_weights + negative)
        elif width > 0.0:
            shares = reference_highest(negative, width)
            level = float(shares @ negative) - 0.5 * width * float(shares @ shares)
        else:
            level, shares = float(negative.max()), scaled_to((negative == negative.max()) * 1.0, 1.0)
        q = self.weights * self.conjugate.slope(positive - level, min(width / self.narrower, 1.0))
        return np.r_[q, q.sum() * shares]

    def model(self, v: Any) -> tuple[Any, list[Any]]:
        """Return the conjugates and the divergence, and the constraints."""
        import cvxpy as cp

        q, level = v[: len(self.positives)], v[len(self.positives) :]
        limits = [v >= 0, cp.sum(q) == cp.sum(level)]
        if math.isfinite(self.conjugate.most):
            limits.append(q <= self.conjugate.most * self.weights)
        value = self.weights @ self.conjugate.model(cp.multiply(1.0 / self.weights, q))
        if self.log_weights is not None:
            whole = cp.sum(level) * np.ones(len(self.negatives))
            value += cp.sum(cp.rel_entr(level, whole)) - self.log_weights @ level
        return value, limits

    def exactly(self, v: Array) -> list[Any]:
        """Return v clipped, with equal sums."""
        from convexrank.proof.balls import exact, total

        q, level = self._sides(v)
        pulls = _clipped(self.conjugate, q, self.weights)
        shares, whole = exact(scaled_to(np.maximum(level, 0.0), 1.0)), total(pulls)
        factor = whole / total(shares)
        return [*pulls, *(factor * share for share in shares)]

    def ball_value(self, parts: list[Any]) -> Any:
        """Return the conjugates and the divergence."""
        from convexrank.proof.balls import around, total

        pulls, level = parts[: len(self.positives)], parts[len(self.positives) :]
        value = _perspective_of_balls(self.conjugate, pulls, self.weights)
        if self.log_weights is None or (whole := total(pulls)).is_zero():
            return value
        logs = [around(log, self.size) for log in self.log_weights.tolist()]
        return value + total(
            part * ((part / whole).log() - log)
            for part, log in zip(level, logs, strict=True)
            if not part.is_zero()
        )
