r"""Targets with margins, bounds and rewards: the inner minimisation of margin-equipped retargeting, squared distance.

For predictors :math:`s = \theta + \beta` the nearest targets are one isotonic regression: sort within grades, subtract
the lifts (cumulated margins), pool, clip at the bounds, add the lifts back. Rewards pull at the rows next to a gap
before the pooling. The offset β of a query is the root of an increasing function that is linear by pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from convexrank.backend.deadline import check_time
from convexrank.problems._damped_newton import damped_newton
from convexrank.problems.margin_retargeting._joint_cost import Fit, JointCost, rank_ones

Array = np.ndarray
_ROUNDING = 1e-14
_STEPS = 200

# Values may be infinite, which is far from zero.
_HUGE = 1e300


@dataclass(frozen=True, eq=False)
class SquaredTargets(JointCost):
    """The joint cost for the squared distance, with the best targets."""

    def fit(self, scores: Array) -> Fit:
        """Return the best targets and offsets for scores, query by query: O(n log n)."""
        groups = self.groups
        chain, along = self.deflected(scores)
        pooled, pools = chain.pooled(along - self.lift)
        offsets = self._best_offsets(pooled, scores) if self.offsets else np.zeros(len(groups))
        lowered = pooled + self.share * offsets[groups.query]
        if self._bounded:
            ceiling = self.ceiling[groups.query]
            pools = np.where((lowered < self.low) | (lowered > ceiling), -1, pools)
            lowered = np.minimum(np.maximum(lowered, self.low), ceiling)
        return Fit(chain.scatter(lowered + self.lift), offsets, chain, pools)

    @property
    def _bounded(self) -> bool:
        return bool(np.isfinite([self.low, self.high]).any())

    def _without_rewards(self, r: Array, s: Array) -> tuple[float, Array]:
        """The cost by squares, which are exact where the conjugates cancel, and its gradient in the scores."""
        by_row, residuals = self.query_weights[self.groups.query], s - r
        value, gradient = residuals @ (by_row * residuals), by_row * residuals
        if self.score_reg:
            value += self.score_reg * (s @ (by_row * s))
            gradient += self.score_reg * by_row * s
        if self.target_reg:
            away = r - self.center
            value += self.target_reg * (away @ (by_row * away))
        return 0.5 * float(value), gradient

    def _best_offsets(self, pooled: Array, scores: Array) -> Array:
        """The offset of each query: predictors, with their own weight, must add up to the targets."""
        groups, share, weight = self.groups, self.share, 1.0 + self.score_reg
        fixed = weight * groups.sums(scores) - groups.sums(self.lift)
        slope = weight - share
        if not self._bounded:
            # without bounds and constants the targets move along with the offset, and any will do
            return (groups.sums(pooled) - fixed) / (groups.sizes * slope) if slope else np.zeros(len(groups))
        ceiling = self.ceiling[groups.query]

        def excess(offsets: Array) -> tuple[Array, Array, Array]:
            lowered = pooled + share * offsets[groups.query]
            free = (lowered >= self.low) & (lowered <= ceiling)
            clipped = np.minimum(np.maximum(lowered, self.low), ceiling)
            rise = weight * groups.sizes - share * groups.sums(free.astype(np.float64))
            with np.errstate(over="ignore"):  # bounds near the end of floats
                noise = groups.sums(np.abs(clipped) + np.abs(self.lift)) + np.abs(fixed)
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
        check_time()
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


def fit_weights(cost: JointCost, rows: Array, l2: float, targets: Array, w: Array) -> Array:
    r"""Minimise over weights and offsets with fixed targets: ridge regression, or a generalised linear model.

    .. math:: \min_{w,\beta}\sum_i c_i\bigl[\phi^*(s_i) - \langle r_i, s_i\rangle + \tfrac{C_w}{2}\|s_i\|^2\bigr]
              + \tfrac{\lambda_2}{2}\|w\|^2, \qquad s_i = X_i w + \beta_i .

    Newton's method, O(n d²) per step; squares need one step.

    Parameters
    ----------
    cost : JointCost
        The joint cost.
    rows : ndarray, shape (n, d)
        Features, query by query.
    l2 : float
        Strength.
    targets : ndarray, shape (n,)
        The targets, query by query.
    w : ndarray, shape (d,)
        Where to begin.
    """
    groups, query, weights, reg = cost.groups, cost.groups.query, cost.query_weights, cost.score_reg
    offsets = np.zeros(len(groups))

    def best_offsets(scores: Array) -> Array:
        if cost.simplex:
            return -groups.sums(scores) / groups.sizes
        if cost.quadratic:
            return (groups.sums(targets) / (1.0 + reg) - groups.sums(scores)) / groups.sizes
        return increasing_roots(lambda beta: cost.imbalance(scores + beta[query], targets), offsets)

    def evaluate(w: Array) -> tuple[float, Array, Array]:
        nonlocal offsets
        scores = rows @ w
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if cost.offsets:
                offsets = best_offsets(scores)
            s = scores + offsets[query]
            p = cost.predictions(s)
            values = cost.conjugates(s) + groups.sums(0.5 * reg * s * s - targets * s)
            bends = cost.bends(p) + reg
            hessian = ((weights[query] * bends)[:, None] * rows).T @ rows
            if cost.simplex:
                hessian -= rank_ones(groups, p, rows, weights)
                if cost.offsets and reg:
                    hessian -= reg * rank_ones(groups, np.ones_like(p), rows, weights)
            elif cost.offsets:
                hessian -= rank_ones(groups, bends, rows, weights)
        value = float(weights @ values) + 0.5 * l2 * float(w @ w)
        gradient = rows.T @ (weights[query] * (p - targets + reg * s)) + l2 * w
        return value, gradient, hessian + l2 * np.eye(len(w))

    return damped_newton(evaluate, w)
