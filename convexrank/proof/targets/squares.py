r"""Margin-equipped retargeting with the squared distance, over balls: targets and offsets over fractions.

At the midpoints of the scores the best targets are one isotonic regression of what they are near to, rewards included,
cut off at the bounds, and the best offset is the root of a function that is linear by pieces: both are rational. That
gives value and gradient there. The gradient is c(1 + C_w)-Lipschitz, which covers the radius of the scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import fmpq

from convexrank.proof.balls import ZERO, Balls, Tangent, arb, dot, placed, total
from convexrank.proof.targets.orders import Rationals, crossing, middles, pooled, rational
from convexrank.proof.targets.rules import JointRule, Query

Array = np.ndarray


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
