r"""Margin-equipped retargeting over balls: with the squared distance, and with other divergences.

*With other divergences* the cost

.. math:: J(r, s) = (1+C_r)\phi(r) - \langle r, s + C_r q\rangle + \tfrac{C_w}2\|s\|^2 + \phi^*(s) + C_r\phi^*(q)

is jointly convex (Lemma 8, shown over balls). Its tangent at targets and predictors that come from floats lies below,
and the least of that tangent over all targets in order, less rewards, is a linear program whose vertices take two
values only. Targets that are moved into the constraints exactly give the bound from above. The risk lies between.

*With the squared distance* targets and offsets are over fractions. At the midpoints of the scores the best targets are
one isotonic regression of what they are near to, rewards included, cut off at the bounds, and the best offset is the
root of a function that is linear by pieces: both are rational. That gives value and gradient there. The gradient is c(1
+ C_w)-Lipschitz, which covers the radius of the scores.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import reduce

import numpy as np

from convexrank.proof.balls import (
    ZERO,
    Balls,
    Tangent,
    arb,
    dot,
    exact,
    fmpq,
    log_sum_exp,
    midpoints,
    placed,
    total,
)
from convexrank.proof.orders import JointRule, Query, Rationals, crossing, middles, pooled, rational

Array = np.ndarray

# Chord steps to the best offset; each gains some digits. The step over which the chord's slope is taken.
_STEPS, _CHORD = 12, 2.0**-20


def tangent_of_joint_costs(scores: Balls, queries: list[Query], rule: JointRule) -> Tangent:
    """Return the tangent of the cost with the best targets and offsets, a sum over queries.

    Raises
    ------
    CertificateError
        When the cost is not shown to be jointly convex.
    """
    rule.check_convex()
    value, slack, parts = ZERO, ZERO, []
    for query in queries:
        some = [scores[row] for row in query.rows.tolist()]
        found = _QueryCost(query, rule).tangent(some)
        value, slack = value + found.value, slack + found.slack
        parts.append((query.rows, found.slope))
    return Tangent(value, placed(len(scores), *parts), slack)


@dataclass(frozen=True)
class _QueryCost:
    query: Query
    rule: JointRule

    def tangent(self, scores: Balls) -> Tangent:
        """Return the tangent of the cost of the query, with its own scores."""
        query, rule = self.query, self.rule
        middle = [arb(score) for score in middles(scores)[0]]
        lowered = self._feasible()
        heights = [query.lifts[rank] for rank in query.ranks]
        targets = [arb(z + lift) for z, lift in zip(lowered, heights, strict=True)]
        offset = self._offset(middle, targets)
        predictors = [score + offset for score in middle]
        # the tangent in targets and in scores, at the midpoints
        slope = [
            (link - r + rule.score_reg * s) / query.divisor
            for link, r, s in zip(self._links(predictors), targets, predictors, strict=True)
        ]
        pull = [
            ((1 + arb(rule.target_reg)) * rule.generator.slope(r) - s - arb(rule.target_reg) * q)
            / query.divisor
            for r, s, q in zip(targets, predictors, exact(query.center), strict=True)
        ]
        at = [arb(z) for z in lowered]
        constant = self._cost(targets, predictors) - dot(pull, at) + self._least(pull, lowered)
        constant -= dot(exact(query.margins), query.rewards)
        steps = [score - near for score, near in zip(scores, middle, strict=True)]
        low = constant + dot(slope, steps)
        high = self._cost(targets, [score + offset for score in scores]) - query.earned(targets)
        return Tangent(low.union(high), slope, high - low)

    # --- targets within the constraints -----------------------------------------------------------------------------

    def _ends(self) -> tuple[fmpq, fmpq]:
        low, high = rational([self.rule.low, self.rule.high])
        return low, high - self.query.lifts[-1]

    def _feasible(self) -> Rationals:
        """The targets given, lowered, and moved to where they are in order, within the bounds, and add up."""
        (low, ceiling), ranks, lifts = self._ends(), self.query.ranks, self.query.lifts
        given = self.query.targets
        near = rational([] if given is None else given.tolist())
        lowered = [r - lifts[rank] for r, rank in zip(near, ranks, strict=True)]
        least = low
        for step in range(len(lifts)):
            own = [place for place, rank in enumerate(ranks) if rank == step]
            for place in own:
                lowered[place] = min(max(lowered[place], least), ceiling)
            least = max(lowered[place] for place in own)
        if not self.rule.simplex:
            return lowered
        lifted = sum((lifts[rank] for rank in ranks), fmpq(0))

        def cut(shift: fmpq) -> Rationals:
            return [min(max(z + shift, low), ceiling) for z in lowered]

        turns = [(low - z, fmpq(1)) for z in lowered] + [(ceiling - z, fmpq(-1)) for z in lowered]
        return cut(crossing(lambda shift: sum(cut(shift), lifted) - 1, fmpq(0), turns))

    # --- the cost ---------------------------------------------------------------------------------------------------

    def _cost(self, targets: Balls, predictors: Balls) -> arb:
        """Enclose the weighted cost without rewards."""
        reg, center = arb(self.rule.target_reg), exact(self.query.center)
        of_targets = (1 + reg) * total(map(self.rule.generator.value, targets))
        mixed = total(r * (s + reg * q) for r, s, q in zip(targets, predictors, center, strict=True))
        sizes = self.rule.score_reg * dot(predictors, predictors) / 2
        conjugates = self._conjugate(predictors) + (
            reg * self._conjugate(center) if self.rule.target_reg else ZERO
        )
        return (of_targets - mixed + sizes + conjugates) / self.query.divisor

    def _conjugate(self, s: Balls) -> arb:
        return log_sum_exp(s)[0] if self.rule.simplex else total(map(self.rule.generator.conjugate, s))

    def _links(self, s: Balls) -> Balls:
        return log_sum_exp(s)[1] if self.rule.simplex else list(map(self.rule.generator.point, s))

    def _offset(self, scores: Balls, targets: Balls) -> arb:
        """Enclose the best offset for these targets: there the slopes in the scores add up to 0."""
        if not self.rule.offsets:
            return ZERO
        if self.rule.simplex:
            return -total(scores) / len(scores)
        reg, whole = arb(self.rule.score_reg), total(targets)

        def excess(offset: arb) -> arb:
            predictors = [score + offset for score in scores]
            return total(self._links(predictors)) + reg * total(predictors) - whole

        offset, step = arb(self.query.offset), arb(_CHORD)
        rise = (excess(offset + step) - excess(offset)) / step
        for _ in range(_STEPS):
            offset = (offset - excess(offset) / rise).mid()
        # it rises by at least this much, so that the root is not farther than the excess over it
        least = len(scores) * (reg + self.rule.generator.flat)
        return offset + arb(0, (abs(excess(offset)) / least).upper())

    # --- the linear program -----------------------------------------------------------------------------------------

    def _least(self, pull: Balls, lowered: Rationals) -> arb:
        """Enclose the least of the pull along lowered targets in order, less rewards; or less, on the simplex."""
        if not self.rule.simplex:
            return self._vertices(pull)
        # any multiplier of the sum gives a lower bound
        multiplier = arb(self._multiplier(midpoints(pull), lowered))
        lifted = sum((self.query.lifts[rank] for rank in self.query.ranks), fmpq(0))
        return self._vertices([entry - multiplier for entry in pull]) + multiplier * arb(1 - lifted)

    def _vertices(self, pull: Balls) -> arb:
        """The linear program over targets between the two ends: its vertices take two values, by an upper set."""
        (low, high), ranks = map(arb, self._ends()), self.query.ranks
        count = len(self.query.lifts)
        sums, mixed = [ZERO] * count, [ZERO] * count
        for rank, entry in zip(ranks, pull, strict=True):
            sums[rank] = sums[rank] + entry
            mixed[rank] = mixed[rank] + (low * entry).min(high * entry)
        whole, below, values = total(sums), ZERO, []
        for step in range(count):
            above = whole - below - sums[step]
            values.append(low * below + mixed[step] + high * above)
            if step:
                values.append(
                    low * below + high * (above + sums[step]) - (high - low) * self.query.rewards[step - 1]
                )
            below = below + sums[step]
        return reduce(arb.min, values)

    def _multiplier(self, pull: Array, lowered: Rationals) -> float:
        """The mean pull at targets that are free, rewards included; else one between those at the ends."""
        ranks, z = np.array(self.query.ranks), np.array([float(arb(entry)) for entry in lowered])
        order = np.lexsort((z, ranks))
        moved = pull.copy()
        for before, after in itertools.pairwise(order.tolist()):
            if ranks[after] != ranks[before]:
                reward = self.query.rewards[int(ranks[after]) - 1]
                moved[after] -= reward
                moved[before] += reward
        low, high = (float(arb(end)) for end in self._ends())
        free = (z > low) & (z < high)
        if free.any():
            return float(moved[free].mean())
        upper = z > 0.5 * (low + high)
        return float(moved[upper].max() if upper.any() else moved.min())


def tangent_of_margins(scores: Balls, queries: list[Query], rule: JointRule) -> Tangent:
    """Return the tangent of the cost with the best targets and offsets, a sum over queries."""
    value, slack, parts = ZERO, ZERO, []
    for query in queries:
        some = [scores[row] for row in query.rows.tolist()]
        centre, radius = middles(some)
        targets, offset = _Targets(query, rule, centre).best()
        weight, reg = fmpq(1, query.divisor), rational([rule.score_reg])[0]
        predictors = [score + offset for score in centre]
        slope = [weight * ((1 + reg) * s - r) for s, r in zip(predictors, targets, strict=True)]
        steps = [score - arb(middle) for score, middle in zip(some, centre, strict=True)]
        size = len(some) * radius * radius * arb(weight) * (1 + arb(rule.score_reg)) / 2
        value += _cost(query, rule, predictors, targets) + dot(map(arb, slope), steps) + ZERO.union(size)
        slack += size
        parts.append((query.rows, list(map(arb, slope))))
    return Tangent(value, placed(len(scores), *parts), slack)


def _cost(query: Query, rule: JointRule, predictors: Rationals, targets: Rationals) -> arb:
    center = rational(query.center.tolist())
    apart = total(arb((s - r) ** 2) for s, r in zip(predictors, targets, strict=True))
    pulled = total(arb((r - q) ** 2) for r, q in zip(targets, center, strict=True))
    sizes = total(arb(s * s) for s in predictors)
    costs = apart + rule.target_reg * pulled + rule.score_reg * sizes
    return costs / (2 * query.divisor) - query.earned(list(map(arb, targets)))


@dataclass(frozen=True)
class _Targets:
    """The inner minimisation of one query.

    Parameters
    ----------
    query : Query
        The query.
    rule : JointRule
        What all queries have in common.
    scores : list of fmpq
        Its scores.
    """

    query: Query
    rule: JointRule
    scores: Rationals

    def best(self) -> tuple[Rationals, fmpq]:
        """Return the best targets, row by row, and the best offset."""
        order, lifts = self._chain()
        low, high = (
            None if math.isinf(end) else rational([end])[0] for end in (self.rule.low, self.rule.high)
        )
        ceiling = None if high is None else high - self.query.lifts[-1]
        levels = pooled(self._pulled(order, lifts))
        offset = self._offset(levels, sum(lifts, fmpq(0)), low, ceiling) if self.rule.offsets else fmpq(0)
        found = [fmpq(0)] * len(order)
        moved = _cut([level + self._share * offset for level in levels], low, ceiling)
        for place, level, lift in zip(order, moved, lifts, strict=True):
            found[place] = level + lift
        return found, offset

    @property
    def _share(self) -> fmpq:
        return 1 / (1 + rational([self.rule.target_reg])[0])

    def _near(self) -> Rationals:
        share, center = self._share, rational(self.query.center.tolist())
        return [share * score + (1 - share) * q for score, q in zip(self.scores, center, strict=True)]

    def _chain(self) -> tuple[list[int], Rationals]:
        """The order in which targets rise, and the lift of each place along it."""
        ranks, near, heights = self.query.ranks, self._near(), self.query.lifts
        order = sorted(range(len(near)), key=lambda place: (ranks[place], near[place]))
        return order, [heights[ranks[place]] for place in order]

    def _pulled(self, order: list[int], lifts: Rationals) -> Rationals:
        """The values that lowered targets approximate, along the chain; rewards pull at the rows next to a gap."""
        ranks, near = self.query.ranks, self._near()
        along = [near[place] - lift for place, lift in zip(order, lifts, strict=True)]
        pulls = [self._share * self.query.divisor * reward for reward in rational(list(self.query.rewards))]
        for place in range(1, len(order)):
            step = ranks[order[place]]
            if step != ranks[order[place - 1]]:
                along[place] += pulls[step - 1]
                along[place - 1] -= pulls[step - 1]
        return along

    def _offset(self, levels: Rationals, lifted: fmpq, low: fmpq | None, ceiling: fmpq | None) -> fmpq:
        """The offset at which predictors, with their own weight, add up to the targets."""
        share, weight, n = self._share, 1 + rational([self.rule.score_reg])[0], len(levels)
        whole = sum(self.scores, fmpq(0))

        def excess(offset: fmpq) -> fmpq:
            moved = _cut([level + share * offset for level in levels], low, ceiling)
            return weight * (whole + n * offset) - sum(moved, fmpq(0)) - lifted

        turns = [] if low is None else [((low - level) / share, -share) for level in levels]
        turns += [] if ceiling is None else [((ceiling - level) / share, share) for level in levels]
        return crossing(excess, weight * n - (share * n if low is None else 0), turns)


def _cut(values: Rationals, low: fmpq | None, high: fmpq | None) -> Rationals:
    values = values if low is None else [max(value, low) for value in values]
    return values if high is None else [min(value, high) for value in values]
