r"""The cost of a learned divergence in a uniformly convex class, as a function of the scores.

The class has all φ for which :math:`\varphi - \tfrac s\gamma|x|^\gamma` is convex, γ ≥ 2; γ = 2 is strong convexity.
Write :math:`\varphi = \psi + \tfrac s\gamma|x|^\gamma`. The best convex ψ costs a sorted inner product, and its
conjugate is moved from θ to v at the price :math:`h(\theta - v)`, h the conjugate of
:math:`\tfrac s\gamma|x|^\gamma`:

.. math:: m(\theta) = \Phi(y) - \langle y,\theta\rangle
          + \min_v\, \langle y^\uparrow, v^\uparrow\rangle + \sum_i h(\theta_i-v_i)
          = \Phi(y) - \langle y, \theta\rangle + \max_{p\in P(y)}\, \langle\theta, p\rangle - \Phi(p),
          \qquad \Phi(p) = \tfrac s\gamma\sum_i|p_i|^\gamma,

P(y) the convex hull of the permutations of y. The derivative is p − y, with :math:`p_i = h'(\theta_i - v_i)`, and v is
found by pooling adjacent violators, with the root of an increasing function in place of a mean.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

Array = np.ndarray

# Halvings of an interval between the levels of two pools.
_HALVES = 100


def power_marginal(scores: Array, targets: Array, strong: float, power: float) -> tuple[float, Array]:
    """Return m(θ) and its gradient p − y; O(n log n) and a search for a root per pool.

    Parameters
    ----------
    scores, targets : ndarray, shape (n,)
        The scores θ and the targets y of each row.
    strong, power : float
        Modulus s and exponent γ of the class.
    """
    order = np.lexsort((targets, scores))
    theta, ranked = scores[order], np.sort(targets)
    v = _pooled()(theta, ranked, theta - _slope(ranked, strong, power), strong, 1.0 / (power - 1.0))
    fitted = np.empty_like(theta)
    fitted[order] = np.sign(theta - v) * np.abs((theta - v) / strong) ** (1.0 / (power - 1.0))
    # p below its limits by rounding is a lower bound of the maximum, whose slope is 0 there
    own, its = (strong / power * np.abs(x) ** power for x in (targets, fitted))
    return max(float((own - its).sum() + scores @ (fitted - targets)), 0.0), fitted - targets


def _slope(x: Array, strong: float, power: float) -> Array:
    """The derivative of s/γ·|x|^γ."""
    return strong * np.sign(x) * np.abs(x) ** (power - 1.0)


@lru_cache(maxsize=1)
def _pooled() -> Callable[..., Array]:
    """Compile on first use: pool adjacent violators, with a root found by halving."""
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def excess(
        theta: Array, strong: float, root: float, level: float, total: float
    ) -> float:  # pragma: no cover
        """Return the sum of the predictions of a pool at a level, less the total."""
        found = -total
        for k in range(len(theta)):
            rest = (theta[k] - level) / strong
            found += rest**root if rest > 0.0 else -((-rest) ** root)
        return found

    @compiled()
    def pooled(
        theta: Array, ranked: Array, single: Array, strong: float, root: float
    ) -> Array:  # pragma: no cover
        """Return the non-decreasing v at which the predictions of each pool add up to what its targets do."""
        n = len(theta)
        starts, levels = np.empty(n, dtype=np.int64), np.empty(n)
        pools = 0
        for i in range(n):
            start, level = i, single[i]
            while pools > 0 and levels[pools - 1] >= level:
                pools -= 1
                start = starts[pools]
                low, high = level, levels[pools]
                total = 0.0
                for k in range(start, i + 1):
                    total += ranked[k]
                below = excess(theta[start : i + 1], strong, root, low, total)
                above = excess(theta[start : i + 1], strong, root, high, total)
                level = low if below <= 0.0 else high
                # regula falsi, every third time the middle: the sum is steep where a prediction is 0
                for step in range(_HALVES):
                    if below <= 0.0 or above >= 0.0:
                        break
                    middle = step % 3 == 2
                    level = 0.5 * (low + high) if middle else low + (high - low) * below / (below - above)
                    if not low < level < high:
                        break
                    found = excess(theta[start : i + 1], strong, root, level, total)
                    if found > 0.0:
                        low, below, above = level, found, above if middle else 0.5 * above
                    elif found < 0.0:
                        high, above, below = level, found, below if middle else 0.5 * below
                    else:
                        break
            starts[pools], levels[pools] = start, level
            pools += 1
        v = np.empty(n)
        for pool in range(pools):
            v[starts[pool] : starts[pool + 1] if pool + 1 < pools else n] = levels[pool]
        return v

    return pooled
