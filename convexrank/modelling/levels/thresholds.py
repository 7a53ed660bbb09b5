r"""The threshold t of each query at which a mean of a function of the scores above it is τ: a smooth quantile.

.. math:: t(x) = \min\Bigl\{t : \sum_k c_k\,\psi(b\,(x_k - t)) \le \tau\Bigr\}, \qquad \textstyle\sum_k c_k = 1.

The sublevel set is convex in (x, t), so that t is convex; it rises with every entry. With Λ the multiplier of the
constraint, :math:`t(x) = \max_{v,\Lambda} \langle v, x\rangle - \Lambda\tau - \Lambda\sum_k c_k\psi^*(v_k/(\Lambda c_k
b))` over v of sum 1: its best v is the gradient, by the implicit function theorem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data.recorded import plain
from convexrank.modelling.expressions import Axis, OfOne, rows_of
from convexrank.modelling.functions import Function

Array = np.ndarray

# Steps of Newton's method from below, which at least halve what is missing of a square.
_STEPS = 200
_CLOSE = 4.0 * float(np.finfo(np.float64).eps)
# Keeps a chosen multiplier in its range when it is rounded.
_ABOVE = 1.0 + 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class Threshold(OfOne):
    """For each query the least t at which the weighted mean of ψ(b(x − t)) is at most τ."""

    exact_weights: Array
    function: Function
    scale: float
    target: float
    axis: ClassVar[Axis | None] = None
    mean: ClassVar[bool] = True

    @cached_property
    def over(self) -> Axis:
        """The rows that are compared."""
        return rows_of(self.x)

    @cached_property
    def shares(self) -> Array:
        """The shares of the rows of the weight of their query."""
        weights = plain(self.exact_weights)
        return weights / self.over.spread(self.over.sums(weights))

    @cached_property
    def widest(self) -> Array:
        """Largest distance of t below the largest entry, if that is of the lightest row."""
        return np.array([self._inverse(self.target / share) for share in -self.over.highest(-self.shares)])

    @cached_property
    def least(self) -> float:
        """Least distance of t below the largest entry: as where all entries are equal."""
        return self._inverse(self.target)

    def _inverse(self, value: float) -> float:
        """Return z/b with ψ(z) = value, by bisection."""
        low, high, psi = -1.0, 1.0, self.function.plain
        while psi(low) > value:
            low *= 2.0
        while psi(high) < value:
            high *= 2.0
        while low < (middle := 0.5 * (low + high)) < high:
            low, high = (middle, high) if psi(middle) < value else (low, middle)
        return high / self.scale

    def __str__(self) -> str:
        return f"threshold({self.function.name}, {self.x}, {self.target:g})"


def values_and_parts(node: Threshold, x: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    """Return t, and its gradient, the multiplier Λ and the arguments of ψ: Newton's method from below."""
    axis, b = node.over, node.scale
    t = axis.highest(x) - node.widest
    for _ in range(_STEPS):
        value, slope = node.function.slopes(b * (x - axis.spread(t)))
        fall = b * axis.sums(node.shares * slope)
        step = np.maximum(axis.sums(node.shares * value) - node.target, 0.0) / fall
        t = t + step
        if (step <= _CLOSE * np.maximum(np.abs(t), 1.0 / b)).all():
            break
    z = b * (x - axis.spread(t))
    pulls = node.shares * node.function.slopes(z)[1]
    whole = axis.sums(pulls)
    return t, (pulls / axis.spread(whole), 1.0 / (b * whole), z)


def bend_of_threshold(node: Threshold, memory: Any) -> tuple[Array, Array]:
    """Return d with the Hessian diag(d) − dgᵀ − gdᵀ + (Σd) ggᵀ of t in a query, and Σd; g is the gradient."""
    bend = node.function.bend
    if bend is None:
        raise TypeError(f"{node.function.name} has no second derivatives.")
    _, multiplier, z = memory
    d = node.over.spread(multiplier * node.scale**2) * node.shares * bend(z)
    return d, node.over.sums(d)


def curved(node: Threshold, memory: Any, u: Array, dx: Array) -> Array:
    """Return the Hessian weighed by u, times dx."""
    (g, *_), axis, (d, whole) = memory, node.over, bend_of_threshold(node, memory)
    along, across = axis.sums(g * dx), axis.sums(d * dx)
    found = d * (dx - axis.spread(along)) - g * axis.spread(across - whole * along)
    return axis.spread(u) * found


def dual_of_threshold(node: Threshold, m: Any, u: Any, v: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return u n*(v/u) in a language: v has the multipliers of the rows, and then Λ of each query."""
    n, perspective = len(node.shares), node.function.perspective
    own, multiplier = v[:n], v[n:]
    if perspective is None:
        raise TypeError(f"{node.function.name} has no conjugate.")
    each = m.times(m.shares(node), m.spread(multiplier, node.over))
    slopes = own / m.number(node.scale)
    m.at_least_zero(v)
    m.zero(m.sums(own, node.over) - u, u)
    m.in_range(node.function, slopes, each)
    return m.total(perspective(m, slopes, each)) + m.number(node.target) * m.total(multiplier), (own,)


def shares_of_threshold(node: Threshold, m: Any, v: Array, u: Any) -> Any:
    """Return multipliers of sum u that are near v, and Λ that fit them, chosen in floats."""
    axis, n, size = node.over, len(node.shares), np.abs(np.asarray(u, dtype=np.float64))
    parts = np.maximum(v[:n], 0.0)
    parts = np.where(axis.spread(axis.sums(parts)) > 0.0, parts, node.shares)
    shares = parts / axis.spread(axis.sums(parts))
    rate = np.divide(v[n:], size, out=np.zeros_like(size), where=size > 0.0)
    steepest = axis.highest(shares / node.shares) / node.scale
    most = node.function.most
    # Λ of 0 has slopes that are infinite; where slopes are bounded Λ is at least what they need
    least = steepest / most * _ABOVE if math.isfinite(most) else 1e-3 * steepest
    rate, parts = m.exact(np.maximum(rate, least)), m.exact(parts)
    return np.append(parts / axis.spread(axis.sums(parts)) * m.spread(u, axis), rate * u)
