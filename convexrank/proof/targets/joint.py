r"""Margin-equipped retargeting with other divergences, over balls.

The cost

.. math:: J(r, s) = (1+C_r)\phi(r) - \langle r, s + C_r q\rangle + \tfrac{C_w}2\|s\|^2 + \phi^*(s) + C_r\phi^*(q)

is jointly convex (Lemma 8, shown over balls). Its tangent at targets and predictors that come from floats lies below,
and the least of that tangent over all targets in order, less rewards, is a linear program whose vertices take two
values only. Targets that are moved into the constraints exactly give the bound from above. The risk lies between.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from flint import fmpq

from convexrank.proof.balls import (
    ZERO,
    Balls,
    Tangent,
    arb,
    dot,
    exact,
    log_sum_exp,
    midpoints,
    placed,
    total,
)
from convexrank.proof.targets.orders import Rationals, crossing, middles, rational
from convexrank.proof.targets.rules import JointRule, Query

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
        found = values[0]
        for value in values[1:]:
            found = found.min(value)
        return found

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
