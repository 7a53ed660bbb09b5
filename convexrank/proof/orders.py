r"""Generators and orders in ball arithmetic.

Generators of divergences over balls: φ of one number, its slope, its conjugate, and moduli.

Targets over balls: risks that are distances to vectors in a given order, and constraints on targets.

Risks that are distances to vectors in a given order, over balls.

Isotonic regressions are made over exact rational numbers, at the midpoints of the scores: then nothing depends on how
ties and near ties fall. They do not spread: in the largest entry the answer moves no more than the scores, so that the
radius of the scores, or twice that, encloses the answer for the scores themselves.

The constraints on targets in margin-equipped retargeting, in all and per query: read, not computed.

The divergence of the uniformly convex class in ball arithmetic: from below by a p, from above by a v.

With :math:`\Phi(p) = \tfrac s\gamma\sum_i|p_i|^\gamma`, and h the conjugate of :math:`\tfrac s\gamma|x|^\gamma`,

.. math:: \langle\theta, p - y\rangle - \Phi(p) \le m(\theta) - \Phi(y)
          \le \langle y_\uparrow, v_\uparrow\rangle + \sum_i h(\theta_i - v_i) - \langle y,\theta\rangle

for every p that is a mean of permutations of y, and every v.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from convexrank.core.results import CertificateError
from convexrank.proof.balls import (
    ONE,
    ZERO,
    Balls,
    Tangent,
    arb,
    dot,
    fmpq,
    greatest,
    midpoints,
    placed,
    positive,
    power,
    sigmoid,
    softplus,
    total,
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


Rationals = list[fmpq]


def rational(values: Sequence[float]) -> Rationals:
    """Return floats as the fractions that they are."""
    return [arb(value).fmpq() for value in values]


def middles(balls: Sequence[arb]) -> tuple[Rationals, arb]:
    """Return the midpoints, and the largest radius."""
    return [ball.mid().fmpq() for ball in balls], greatest([ZERO, *(ball.rad() for ball in balls)])


def spread(values: Rationals, radius: arb) -> Balls:
    """Return balls of a radius around fractions."""
    off = arb(0, radius.upper())
    return [arb(value) + off for value in values]


def pooled(values: Rationals, counts: Sequence[int] | None = None) -> Rationals:
    """Return the nearest non-decreasing vector: pool neighbours whose means are out of order."""
    pools: list[tuple[fmpq, int, int]] = []
    for place, value in enumerate(values):
        count = 1 if counts is None else counts[place]
        pool = value * count, count, 1
        while pools and pools[-1][0] * pool[1] >= pool[0] * pools[-1][1]:
            before = pools.pop()
            pool = before[0] + pool[0], before[1] + pool[1], before[2] + pool[2]
        pools.append(pool)
    return [whole / count for whole, count, length in pools for _ in range(length)]


def crossing(function: Callable[[fmpq], fmpq], slope: fmpq, turns: Sequence[tuple[fmpq, fmpq]]) -> fmpq:
    """Return a root of a function that does not fall and is linear between turns.

    Parameters
    ----------
    function : callable
        The function; it is called once.
    slope : fmpq
        The slope before the first turn.
    turns : sequence of pairs of fmpq
        Where the slope changes, and by how much.
    """
    places = sorted(turns)
    place = places[0][0] if places else fmpq(0)
    here = function(place)
    for number, (turn, change) in enumerate(places):
        ahead = here + slope * (turn - place)
        if ahead > 0 or (ahead == 0 and number):
            break
        place, here, slope = turn, ahead, slope + change
    return place - here / slope if slope != 0 else place


# --- targets in the order of grades -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Blocks:
    """One query: what its targets must satisfy, and what its squared distance to them is multiplied by.

    Parameters
    ----------
    rows : ndarray of int
        Row numbers.
    grades : ndarray
        Their grades.
    divisor : int
        Divisor of the cost of the query.
    tied : bool
        Whether rows of one grade have one target.
    simplex : bool
        Whether the targets are at least 0 and add up to 1.
    centred : bool
        Whether the scores are moved, all alike, to where they add up to 1 too.
    """

    rows: Array
    grades: Array
    divisor: int
    tied: bool = False
    simplex: bool = False
    centred: bool = False


def tangent_of_distances(scores: Balls, queries: list[Blocks]) -> Tangent:
    """Return the tangent of Σ c/2 ‖s − r‖² with the nearest targets r that each query allows."""
    value, parts = ZERO, []
    for query in queries:
        some = [scores[row] for row in query.rows.tolist()]
        if query.centred:
            shift = (1 - total(some)) / len(some)
            some = [score + shift for score in some]
        centre, radius = middles(some)
        targets = spread(_targets(query, centre), 2 * radius)
        rests = [score - target for score, target in zip(some, targets, strict=True)]
        value += dot(rests, rests) / (2 * query.divisor)
        parts.append((query.rows, [rest / query.divisor for rest in rests]))
    return Tangent(value, placed(len(scores), *parts))


def _targets(query: Blocks, scores: Rationals) -> Rationals:
    levels, rank = np.unique(query.grades, return_inverse=True)
    rank = rank.ravel().tolist()
    if query.tied:
        counts = np.bincount(rank).tolist()
        sums = [fmpq(0)] * len(levels)
        for grade, score in zip(rank, scores, strict=True):
            sums[grade] += score
        means = pooled([whole / count for whole, count in zip(sums, counts, strict=True)], counts)
        found = [means[grade] for grade in rank]
    else:
        order = sorted(range(len(scores)), key=lambda place: (rank[place], scores[place]))
        found = [fmpq(0)] * len(scores)
        for place, level in zip(order, pooled([scores[place] for place in order]), strict=True):
            found[place] = level
    return _on_simplex(found) if query.simplex else found


def _on_simplex(values: Rationals) -> Rationals:
    """The nearest vector that is at least 0 and adds up to 1: lower all alike, and cut off."""
    running, threshold = fmpq(0), fmpq(0)
    for count, value in enumerate(sorted(values, reverse=True), 1):
        running += value
        if value * count > running - 1:
            threshold = (running - 1) / count
    return [max(value - threshold, fmpq(0)) for value in values]


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
    p = mean_of_permutations(rational(list(accumulate(link[order].tolist(), max))), ranked)
    v = middle[order] - strong * np.sign(link[order]) * np.abs(link[order]) ** (exponent - 1.0)
    levels = rational(np.sort(v).tolist())
    moved = [scores[place] for place in order]
    s, high = arb(strong), arb(exponent) / (arb(exponent) - 1)
    own = total(power(abs(arb(target)), exponent) for target in targets) * s / arb(exponent)
    its = total(power(abs(arb(entry)), exponent) for entry in p) * s / arb(exponent)
    gains = own - dot(map(arb, targets), scores)
    line = gains - its + dot(map(arb, p), moved)
    price = total(power(abs(t - arb(level)), high) for t, level in zip(moved, levels, strict=True))
    ceiling = gains + dot(map(arb, ranked), map(arb, levels)) + price * s ** (1 - high) / high
    slope = [ZERO] * n
    for place, entry in zip(order.tolist(), p, strict=True):
        slope[place] = (arb(entry) - arb(targets[place])) / n
    return Tangent(line.union(ceiling) / n, slope, ZERO.union((ceiling - line).upper()) / n)


def mean_of_permutations(risen: Rationals, ranked: Rationals) -> Rationals:
    """Return numbers near those given, non-decreasing, whose first k add up to no less than those of the targets do."""
    n = len(ranked)
    mean, middle = sum(ranked, fmpq(0)) / n, sum(risen, fmpq(0)) / n
    least = list(accumulate(ranked))
    for share in rational(list(_SHARES)):
        found = [mean + (1 - share) * (entry - middle) for entry in risen]
        if all(one >= other for one, other in zip(accumulate(found), least, strict=True)):
            return found
    return [mean] * n
