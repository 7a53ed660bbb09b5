r"""Targets with margins, bounds and rewards: the inner minimisation of margin-equipped retargeting, squared distance.

For predictors :math:`s = \theta + \beta` the nearest targets are one isotonic regression: sort within grades, subtract
the lifts (cumulated margins), pool, clip at the bounds, add the lifts back. Rewards pull at the rows next to a gap
before the pooling. The offset β of a query is the root of an increasing function that is linear by pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data import QueryGroups
from convexrank.problems.retargeting._grade_blocks import Chain, GradeBlocks

__all__ = ["Fit", "SquaredTargets", "TargetRules", "increasing_roots", "rank_ones"]

Array = np.ndarray

_ROUNDING = 1e-14
_STEPS = 200
# Values may be infinite, which is far from zero.
_HUGE = 1e300


@dataclass(frozen=True, eq=False)
class TargetRules:
    """What targets must satisfy, and what they cost besides their distance.

    Parameters
    ----------
    blocks : GradeBlocks
        The blocks of equal grade.
    heights : ndarray, shape (blocks,)
        Cumulated margins: how far each block must lie above the lowest of its query.
    rewards : ndarray, shape (blocks,)
        Reward for each unit of the gap below a block, over the weight of its query.
    low, high : float
        Bounds of all targets; infinities for none.
    target_reg, score_reg : float
        The constants C_r and C_w of (3.17).
    center : ndarray, shape (n,), or None
        The natural parameters q of (3.17), query by query; None is 0.
    offsets : bool
        Whether each query has an offset of its own.
    """

    blocks: GradeBlocks
    heights: Array
    rewards: Array
    low: float
    high: float
    target_reg: float
    score_reg: float
    center: Array | None
    offsets: bool

    @cached_property
    def lift(self) -> Array:
        """The height of each row's block, along any chain."""
        return self.blocks.of_blocks(self.heights)

    @cached_property
    def ceiling(self) -> Array:
        """What the lowered targets of each query may not exceed: the upper bound less the height of its top block."""
        return self.high - self.heights[self.blocks.offsets_by_query[1:] - 1]

    @cached_property
    def bounded(self) -> bool:
        """Whether there is any bound."""
        return bool(np.isfinite([self.low, self.high]).any())

    @cached_property
    def rewarded(self) -> bool:
        """Whether any gap earns a reward."""
        return bool((self.rewards > 0).any())

    def of_query(self, query: int) -> TargetRules:
        """Return the same for one query alone."""
        blocks, groups = self.blocks, self.blocks.groups
        rows = slice(int(groups.offsets[query]), int(groups.offsets[query + 1]))
        part = slice(int(blocks.offsets_by_query[query]), int(blocks.offsets_by_query[query + 1]))
        alone = GradeBlocks(QueryGroups.from_sizes([rows.stop - rows.start]), blocks.grades[rows])
        center = None if self.center is None else self.center[rows]
        return replace(
            self, blocks=alone, heights=self.heights[part], rewards=self.rewards[part], center=center
        )

    @cached_property
    def shares(self) -> float:
        """The α of Lemma 9: how much of the predictor is left in what the targets are near to."""
        return 1.0 / (1.0 + self.target_reg)


@dataclass(frozen=True, eq=False)
class Fit:
    """The best targets for given scores.

    Parameters
    ----------
    targets : ndarray, shape (n,)
        The targets r, query by query.
    offsets : ndarray, shape (m,)
        The offset β of each query.
    chain : Chain
        The order in which the targets rise.
    pools : ndarray of int, shape (n,)
        Along the chain, the number of the pool whose targets move together; −1 where a bound holds them.
    bends : ndarray, shape (n,)
        Along the chain, φ'' at the targets; 1 for the squared distance.
    """

    targets: Array
    offsets: Array
    chain: Chain
    pools: Array
    bends: Array


@dataclass(frozen=True, eq=False)
class SquaredTargets:
    """The best targets and what they cost, for the squared distance.

    Parameters
    ----------
    rules : TargetRules
        Margins, rewards, bounds, constants.
    """

    rules: TargetRules

    @property
    def largest_bend(self) -> float:
        """The largest second derivative of the conjugate of φ."""
        return 1.0

    def fit(self, scores: Array) -> Fit:
        """Return the best targets and offsets for scores, query by query: O(n log n)."""
        rules = self.rules
        groups, share = rules.blocks.groups, rules.shares
        near = share * scores
        if rules.center is not None:
            near = near + (1.0 - share) * rules.center
        chain = rules.blocks.chain(near)
        along = chain.gather(near) - rules.lift
        if rules.rewarded:
            along = along + share * chain.pulled(rules.rewards)
        pooled, pools = chain.pooled(along)
        offsets = _offsets(rules, pooled, scores) if rules.offsets else np.zeros(len(groups))
        lowered = pooled + share * offsets[groups.query]
        if rules.bounded:
            ceiling = rules.ceiling[groups.query]
            pools = np.where((lowered < rules.low) | (lowered > ceiling), -1, pools)
            lowered = np.minimum(np.maximum(lowered, rules.low), ceiling)
        return Fit(chain.scatter(lowered + rules.lift), offsets, chain, pools, np.ones(1))

    def cost(self, fit: Fit, scores: Array, weights: Array) -> tuple[float, Array]:
        """Return the cost without rewards, and its gradient in the scores; weights are those of queries."""
        rules, query = self.rules, self.rules.blocks.groups.query
        by_row, predictors = weights[query], scores + fit.offsets[query]
        rests = predictors - fit.targets
        value, gradient = rests @ (by_row * rests), by_row * rests
        if rules.score_reg:
            value += rules.score_reg * (predictors @ (by_row * predictors))
            gradient += rules.score_reg * by_row * predictors
        if rules.target_reg:
            away = fit.targets if rules.center is None else fit.targets - rules.center
            value += rules.target_reg * (away @ (by_row * away))
        return 0.5 * float(value), gradient

    def second_order(self, fit: Fit, scores: Array, rows: Array, weights: Array) -> Array:
        """Return the generalised Hessian of the cost in w, shape (d, d).

        (3.20) with the constraints taken in: targets of one pool move together, by the mean; those at a bound do not
        move. An offset takes away the mean of what does not move along.
        """
        rules, pools = self.rules, fit.pools
        groups, share = rules.blocks.groups, rules.shares
        along = rows[fit.chain.order]
        ends = (pools[1:] != pools[:-1]) | (groups.query[1:] != groups.query[:-1])
        starts = np.concatenate(([0], np.flatnonzero(ends) + 1))
        sums = np.add.reduceat(along, starts, axis=0)
        free = pools[starts] >= 0
        scale = share * weights[groups.query[starts]] * free / np.diff(starts, append=groups.rows)
        hessian = (1.0 + rules.score_reg) * (weights[groups.query][:, None] * rows).T @ rows
        hessian -= (scale[:, None] * sums).T @ sums
        moves = (1.0 + rules.score_reg) - share * (pools >= 0)
        return hessian - rank_ones(groups, moves, along, weights) if rules.offsets else hessian


def rank_ones(groups: QueryGroups, vectors: Array, rows: Array, weights: Array) -> Array:
    """Sum over queries of c (Xᵀv)(Xᵀv)ᵀ / Σv, without those where v adds up to nothing."""
    totals, means = groups.sums(vectors), groups.sums(vectors[:, None] * rows)
    scale = np.where(totals > 0, weights / np.where(totals > 0, totals, 1.0), 0.0)
    return (scale[:, None] * means).T @ means


def _offsets(rules: TargetRules, pooled: Array, scores: Array) -> Array:
    """The offset of each query: predictors, with their own weight, must add up to the targets."""
    groups, share, weight = rules.blocks.groups, rules.shares, 1.0 + rules.score_reg
    fixed = weight * groups.sums(scores) - groups.sums(rules.lift)
    slope = weight - share
    if not rules.bounded:
        # without bounds and constants the targets move along with the offset, and any will do
        return (groups.sums(pooled) - fixed) / (groups.sizes * slope) if slope else np.zeros(len(groups))
    ceiling = rules.ceiling[groups.query]

    def excess(offsets: Array) -> tuple[Array, Array, Array]:
        lowered = pooled + share * offsets[groups.query]
        free = (lowered >= rules.low) & (lowered <= ceiling)
        clipped = np.minimum(np.maximum(lowered, rules.low), ceiling)
        rise = weight * groups.sizes - share * groups.sums(free.astype(np.float64))
        noise = groups.sums(np.abs(clipped) + np.abs(rules.lift)) + np.abs(fixed)
        return fixed + weight * groups.sizes * offsets - groups.sums(clipped), rise, noise

    return increasing_roots(excess, np.zeros(len(groups)))


def increasing_roots(
    evaluate: Callable[[Array], tuple[Array, Array, Array]], start: Array, rounding: float = _ROUNDING
) -> Array:
    """Find a root of each of many non-decreasing functions, by Newton's method inside brackets.

    Parameters
    ----------
    evaluate : callable
        Takes one number for each function; returns the values, the slopes, and the size of what the values are a
        difference of: values are zero up to the rounding of that.
    start : ndarray, shape (m,)
        Where to begin; returned where it is a root.
    rounding : float
        How small a value is zero, as a share of that size.

    Returns
    -------
    ndarray, shape (m,)
        The roots.
    """
    x = start.astype(np.float64, copy=True)
    low, high = np.full_like(x, -np.inf), np.full_like(x, np.inf)
    reach, last = np.ones_like(x), np.full_like(x, np.inf)
    for step in range(_STEPS):
        values, slopes, sizes = evaluate(x)
        open_ = np.abs(values) > rounding * np.minimum(sizes, _HUGE)
        low = np.where(open_ & (values < 0), np.maximum(low, x), low)
        high = np.where(open_ & (values > 0), np.minimum(high, x), high)
        if not open_.any():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = x - values / slopes
            middle = 0.5 * (low + high)
        inside = (slopes > 0) & (moved > low) & (moved < high) & (np.abs(moved - x) < 1e3 * reach)
        # where three steps did not bring the value down to a hundredth, the bracket is halved, or widened
        slow = (step % 3 == 2) & ~(np.abs(values) <= 0.01 * last)
        fallback = np.where(np.isfinite(middle), middle, x - np.sign(values) * reach)
        following = np.where(inside & ~slow, moved, fallback)
        stuck = np.isfinite(middle) & ((middle <= low) | (middle >= high))
        reach = np.where(np.isfinite(middle), reach, 2.0 * reach)
        last = np.abs(values) if step % 3 == 2 else last
        x = np.where(open_ & ~stuck, following, x)
        if not (open_ & ~stuck).any():
            break
    return x
