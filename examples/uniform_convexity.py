r"""The uniformly convex class of the dissertation's section 4.1, (4.6) and (4.7), in one dimension.

For γ ≥ 2 the class has all φ for which :math:`\varphi - \tfrac{c}{\gamma}|x|^\gamma` is convex; γ = 2 is strong
convexity. The marginal cost of scores θ for targets y,

.. math:: m(\theta) = \min_{\varphi} \sum_i \varphi(y_i) + \varphi^*(\theta_i) - y_i\theta_i
          = \Phi(y) - \langle y, \theta\rangle + \max_{s\in P(y)} \langle\theta, s\rangle - \Phi(s),
          \qquad \Phi(s) = \tfrac{c}{\gamma}\sum_i|s_i|^\gamma,

has the gradient s(θ) − y, where P(y) is the convex hull of the permutations of y. (Write φ = ψ + c|x|^γ/γ: the best
convex ψ costs the support function of P(y), by sorting; the rest is Fenchel's duality.) The maximiser s(θ) comes from
pooling adjacent violators, with a root in place of a mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class UniformlyConvex:
    """The marginal cost for targets y in the class of γ and c."""

    y: Array
    gamma: float
    c: float = 1.0

    def fitted(self, theta: Array) -> Array:
        """Return s(θ), the predictions."""
        order = np.argsort(-theta, kind="stable")
        scores, targets = theta[order], -np.sort(-self.y)
        blocks: list[tuple[int, int, float]] = []  # from, to, level; levels must fall
        for i in range(len(scores)):
            start, level = i, self._level(scores[i : i + 1], targets[i])
            while blocks and blocks[-1][2] <= level:
                start = blocks.pop()[0]
                level = self._level(scores[start : i + 1], targets[start : i + 1].sum())
            blocks.append((start, i + 1, level))
        found = np.empty_like(scores)
        for start, end, level in blocks:
            found[order[start:end]] = self._slope_inverse(scores[start:end] - level)
        return found

    def _slope_inverse(self, z: Array) -> Array:
        return np.sign(z) * np.abs(z / self.c) ** (1 / (self.gamma - 1))

    def _level(self, scores: Array, total: float) -> float:
        """The ν at which the predictions of a block add up to what its targets do."""
        mean = total / len(scores)
        offset = self.c * np.sign(mean) * abs(mean) ** (self.gamma - 1)
        low, high = float(scores.min() - offset), float(scores.max() - offset)
        if high - low < 1e-13:
            return low
        return float(brentq(lambda nu: self._slope_inverse(scores - nu).sum() - total, low, high, xtol=1e-14))

    def cost(self, theta: Array) -> tuple[float, Array]:
        """Return m(θ) and its gradient."""
        s = self.fitted(theta)
        own, fitted = (self.c / self.gamma * (np.abs(x) ** self.gamma).sum() for x in (self.y, s))
        return float(own - fitted + theta @ (s - self.y)), s - self.y

    def bound(self, distance: Array) -> Array:
        r"""Return what (4.7) says of ‖s − s'‖_γ at a distance ‖θ − θ'‖ in the dual norm, γ' = γ/(γ − 1).

        |x|^γ/γ has ⟨∇φ(x) − ∇φ(x'), x − x'⟩ ≥ 2^{2−γ} |x − x'|^γ, so :math:`s^{\gamma-1} = c\,2^{2-\gamma}` in (4.6).
        """
        return (distance * 2 ** (self.gamma - 2) / self.c) ** (1 / (self.gamma - 1))


def accelerated(
    cost: Callable[[Array], tuple[float, Array]], start: Array, steps: int, accuracy: float = 1e-9
) -> Array:
    """Return the values of Nesterov's universal fast gradient method, which needs neither exponent nor constant.

    Yu. Nesterov, Universal gradient methods for convex optimization problems, Mathematical Programming 152 (2015).
    """
    x, z, weight, constant, values = start, start, 0.0, 1.0, []
    for _ in range(steps):
        constant /= 2
        while True:
            step = (1 + np.sqrt(1 + 4 * constant * weight)) / (2 * constant)
            tau = step / (weight + step)
            at = tau * z + (1 - tau) * x
            value, slope = cost(at)
            ahead = z - step * slope
            following = tau * ahead + (1 - tau) * x
            move = following - at
            reached = cost(following)[0]
            if reached <= value + slope @ move + constant / 2 * move @ move + accuracy * tau / 2:
                break
            constant *= 2
        x, z, weight = following, ahead, weight + step
        values.append(reached)
    return np.array(values)
