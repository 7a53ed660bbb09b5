r"""The constraints on targets in margin-equipped retargeting, in all and per query: read, not computed.

The divergence of the uniformly convex class in ball arithmetic: from below by a p, from above by a v.

With :math:`\Phi(p) = \tfrac s\gamma\sum_i|p_i|^\gamma`, and h the conjugate of :math:`\tfrac s\gamma|x|^\gamma`,

.. math:: \langle\theta, p - y\rangle - \Phi(p) \le m(\theta) - \Phi(y)
          \le \langle y_\uparrow, v_\uparrow\rangle + \sum_i h(\theta_i - v_i) - \langle y,\theta\rangle

for every p that is a mean of permutations of y, and every v.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from flint import fmpq

from convexrank.core.results import CertificateError
from convexrank.proof.balls import ZERO, Balls, Tangent, arb, dot, greatest, midpoints, power, total
from convexrank.proof.generators import Generator
from convexrank.proof.targets.orders import Rationals, rational

Array = np.ndarray


@dataclass(frozen=True)
class JointRule:
    """The rules that all queries share.

    Parameters
    ----------
    generator : Generator
        The function φ of one number.
    low, high : float
        Bounds of all targets; infinities for none.
    target_reg, score_reg : float
        The constants C_r and C_w.
    offsets : bool
        Whether each query has an offset.
    simplex : bool
        Whether the targets of a query add up to 1.
    """

    generator: Generator
    low: float
    high: float
    target_reg: float
    score_reg: float
    offsets: bool
    simplex: bool

    def check_convex(self) -> None:
        """Refuse constants for which Lemma 8 is not shown over balls, as they leave the cost convex up to rounding."""
        modulus = self.generator.modulus(arb(self.low), arb(self.high))
        if self.simplex:  # Σ v²/r ≥ 2‖v‖² for r that add up to 1 and v that add up to 0
            modulus = modulus.max(arb(2))
        shown = modulus * (1 + arb(self.target_reg)) * (self.score_reg + self.generator.flat) >= 1
        if not shown:
            raise CertificateError(
                "target_reg and score_reg make the cost jointly convex up to rounding only (Lemma 8), so that nothing "
                "is proved about it; pass a score_reg a little larger, or None."
            )


@dataclass(frozen=True)
class Query:
    """One query.

    Parameters
    ----------
    rows : ndarray of int
        Row numbers.
    grades : ndarray
        Their grades.
    divisor : int
        Divisor of the cost of the query; rewards are not.
    margins, rewards : sequence of float
        Of the steps up to each grade but the lowest, ascending.
    center : ndarray
        The natural parameters q.
    targets : ndarray or None
        About the best targets: evidence off the quadratic.
    offset : float
        About the best offset.
    """

    rows: Array
    grades: Array
    divisor: int
    margins: Sequence[float]
    rewards: Sequence[float]
    center: Array
    targets: Array | None = None
    offset: float = 0.0

    @property
    def ranks(self) -> list[int]:
        """The grades as numbers from 0 on."""
        return np.unique(self.grades, return_inverse=True)[1].ravel().tolist()

    @property
    def lifts(self) -> Rationals:
        """Cumulated margins of each grade."""
        return list(accumulate(rational(self.margins), initial=fmpq(0)))

    def earned(self, targets: Balls) -> arb:
        """Enclose what the gaps of targets earn."""
        grades: list[Balls] = [[] for _ in self.lifts]
        for rank, target in zip(self.ranks, targets, strict=True):
            grades[rank].append(target)
        gaps = [-greatest([-r for r in above]) - greatest(below) for below, above in pairwise(grades)]
        return dot(gaps, self.rewards)


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
