r"""The divergence of the uniformly convex class in ball arithmetic: from below by a p, from above by a v.

With :math:`\Phi(p) = \tfrac s\gamma\sum_i|p_i|^\gamma`, and h the conjugate of :math:`\tfrac s\gamma|x|^\gamma`,

.. math:: \langle\theta, p - y\rangle - \Phi(p) \le m(\theta) - \Phi(y)
          \le \langle y_\uparrow, v_\uparrow\rangle + \sum_i h(\theta_i - v_i) - \langle y,\theta\rangle

for every p that is a mean of permutations of y, and every v.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from flint import fmpq

from convexrank.proof.balls import ZERO, Balls, Tangent, arb, dot, midpoints, power, total
from convexrank.proof.targets.orders import Rationals, rational

Array = np.ndarray

# Shares by which p is moved towards the mean of y, until it is a mean of permutations in rational numbers.
_SHARES = (0.0, *(10.0**-digits for digits in range(15, 4, -1)), 1.0)


def tangent_of_powers(scores: Balls, y: Array, strong: float, exponent: float, link: Array) -> Tangent:
    """Return the tangent of m(θ)/n for the class with φ less s/γ·|x|^γ convex.

    Parameters
    ----------
    scores : list of arb
        Scores θ.
    y : ndarray
        The targets.
    strong, exponent : float
        The modulus s, and γ.
    link : ndarray
        The link at the scores in floats, which is evidence.
    """
    middle, n = midpoints(scores), len(y)
    order = np.lexsort((y, middle))
    targets, ranked = rational(y.tolist()), sorted(rational(y.tolist()))
    p = _mean_of_permutations(rational(list(accumulate(link[order].tolist(), max))), ranked)
    v = middle[order] - strong * np.sign(link[order]) * np.abs(link[order]) ** (exponent - 1.0)
    levels = rational(np.sort(v).tolist())
    moved = [scores[place] for place in order]
    s, high = arb(strong), arb(exponent) / (arb(exponent) - 1)
    own = total(power(abs(arb(target)), exponent) for target in targets) * s / arb(exponent)
    its = total(power(abs(arb(entry)), exponent) for entry in p) * s / arb(exponent)
    gains = own - dot(map(arb, targets), scores)
    line = gains - its + dot(map(arb, p), moved)
    price = total(_to(abs(t - arb(level)), high) for t, level in zip(moved, levels, strict=True))
    ceiling = gains + dot(map(arb, ranked), map(arb, levels)) + price * s ** (1 - high) / high
    slope = [ZERO] * n
    for place, entry in zip(order.tolist(), p, strict=True):
        slope[place] = (arb(entry) - arb(targets[place])) / n
    return Tangent(line.union(ceiling) / n, slope, ZERO.union((ceiling - line).upper()) / n)


def _to(x: arb, exponent: arb) -> arb:
    """Enclose a positive power of what is at least 0."""
    return x**exponent if x > 0 else ZERO.union(x.upper() ** exponent) if x.upper() > 0 else ZERO


def _mean_of_permutations(risen: Rationals, ranked: Rationals) -> Rationals:
    """Numbers near those given, non-decreasing, whose first k never add up to less than those of the targets do."""
    n = len(ranked)
    mean, middle = sum(ranked, fmpq(0)) / n, sum(risen, fmpq(0)) / n
    least = list(accumulate(ranked))
    for share in rational(list(_SHARES)):
        found = [mean + (1 - share) * (entry - middle) for entry in risen]
        if all(one >= other for one, other in zip(accumulate(found), least, strict=True)):
            return found
    return [mean] * n
