r"""Targets with margins, bounds and rewards: the inner minimum, for the squared distance and for other divergences.

Targets with margins, bounds and rewards: the inner minimisation of margin-equipped retargeting, squared distance.

For predictors :math:`s = \theta + \beta` the nearest targets are one isotonic regression: sort within grades, subtract
the lifts (cumulated margins), pool, clip at the bounds, add the lifts back. Rewards pull at the rows next to a gap
before the pooling. The offset β of a query is the root of an increasing function that is linear by pieces.

Targets with margins for other divergences than the squared distance: proximal Newton, all queries at once.

With the deflected parameters :math:`\eta = \alpha s + (1-\alpha) q` (Lemma 9) the best targets minimise
:math:`\sum_j \varphi(r_j) - \eta_j r_j` along the chain. Each step minimises the second-order model, which is one
weighted isotonic regression of lowered targets, clipped at the bounds; a line search in each query keeps targets in the
domain.
Offsets, and the multiplier of the sum on the simplex, are roots of increasing functions, one per query.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.backend.interruption import MANY, check_time
from convexrank.data import QueryGroups
from convexrank.problems.margin_retargeting._joint_cost import Fit, JointCost, phi_of
from convexrank.problems.retargeting._grade_blocks import Chain, damped_newton
from convexrank.problems.retargeting._link import increasing_roots

Array = np.ndarray


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


def _rank_ones(groups: QueryGroups, vectors: Array, rows: Array, weights: Array) -> Array:
    """Sum over queries of c (Xᵀv)(Xᵀv)ᵀ / Σv, without those where v adds up to nothing."""
    if len(rows) >= MANY:
        check_time()
    totals, means = groups.sums(vectors), groups.sums(vectors[:, None] * rows)
    scale = np.where(totals > 0, weights / np.where(totals > 0, totals, 1.0), 0.0)
    return (scale[:, None] * means).T @ means


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
                hessian -= _rank_ones(groups, p, rows, weights)
                if cost.offsets and reg:
                    hessian -= reg * _rank_ones(groups, np.ones_like(p), rows, weights)
            elif cost.offsets:
                hessian -= _rank_ones(groups, bends, rows, weights)
        value = float(weights @ values) + 0.5 * l2 * float(w @ w)
        gradient = rows.T @ (weights[query] * (p - targets + reg * s)) + l2 * w
        return value, gradient, hessian + l2 * np.eye(len(w))

    return damped_newton(evaluate, w)


# After a step whose squared Newton decrement per row is below this, only rounding is left.
_DECREMENT = 1e-20
# Below this the cost cannot tell a decrease from rounding.
_NEAR = 1e-12
_HALVINGS = 40
# How much of the way to the end of the domain a step may take.
_INSIDE = 0.99
_ROUNDING_OF_STEPS = 1e-13
_STEPS = 200


@dataclass(frozen=True, eq=False)
class BregmanTargets(JointCost):
    """The joint cost for a separable divergence or KL, with the best targets."""

    def fit(self, scores: Array) -> Fit:
        """Return the best targets and offsets for scores, query by query."""
        groups, share = self.groups, self.share
        query, offsets = groups.query, np.zeros(len(groups))
        chain, eta = self.deflected(scores)
        search = _Search(self, chain)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if self.simplex:
                if self.offsets:
                    offsets = -groups.sums(scores) / groups.sizes
                total = lambda shift: search.total(eta + shift[query])  # noqa: E731
                eta = eta + increasing_roots(total, _log_masses(groups, eta), _ROUNDING_OF_STEPS)[query]
            elif self.offsets:
                along = chain.gather(scores)
                excess = lambda beta: search.excess(eta + share * beta[query], along + beta[query])  # noqa: E731
                offsets = increasing_roots(excess, offsets, _ROUNDING_OF_STEPS)
                eta = eta + share * offsets[query]
            search.solve(eta)
        return Fit(chain.scatter(search.targets), offsets, chain, search.pools)


def _log_masses(groups: QueryGroups, eta: Array) -> Array:
    """The shift that makes the targets add up to 1 where nothing is pooled or at a bound."""
    tops = groups.maxima(eta)
    return 1.0 - tops - np.log(groups.sums(np.exp(eta - tops[groups.query])))


class _Search:
    """Targets along a chain, kept from one solve to the next, which is near."""

    def __init__(self, cost: JointCost, chain: Chain) -> None:
        self.cost, self.chain, self.groups = cost, chain, cost.groups
        self.ceiling = cost.ceiling[self.groups.query]
        self.targets = np.empty(0)
        self.pools = np.empty(0, np.int32)

    def total(self, eta: Array) -> tuple[Array, Array, Array]:
        """The sum of the targets less 1, its slope in a shift of η, and the size of its terms."""
        self.solve(eta)
        sums = self.groups.sums(self.targets)
        return sums - 1.0, self._response(), sums + 1.0

    def excess(self, eta: Array, predictors: Array) -> tuple[Array, Array, Array]:
        """The excess of predictions and regularisation over the targets, its slope in the offset, and its size."""
        self.solve(eta)
        excess, rise, sizes = self.cost.imbalance(predictors, self.targets)
        return excess, rise - self.cost.share * self._response(), sizes

    def _response(self) -> Array:
        """The slope of the sum of the targets in a shift of η."""
        fit = Fit(self.targets, np.empty(0), self.chain, self.pools)
        _, sizes, masses = fit.pool_masses(self.cost.divergence._curvature(self.targets))
        return self.groups.sums(np.repeat(sizes / masses, sizes))

    def solve(self, eta: Array) -> None:
        """Find the best targets for these parameters, by damped proximal Newton."""
        cost, divergence, sums = self.cost, self.cost.divergence, self.groups.sums
        r = self.targets if len(self.targets) else self._start(eta)
        for _ in range(_STEPS):
            check_time()
            bends, slopes = divergence._curvature(r), divergence._slope(r) - eta
            pooled, pools = self.chain.pooled(r - slopes / bends - cost.lift, bends)
            lowered = np.minimum(np.maximum(pooled, cost.low), self.ceiling)
            step = lowered + cost.lift - r
            self.pools = np.where((pooled < cost.low) | (pooled > self.ceiling), -1, pools)
            decrement = sums(bends * step * step)
            lengths = self._lengths(eta, r, step, sums(slopes * step), decrement <= _NEAR)
            r = r + lengths[self.groups.query] * step
            if (decrement <= _DECREMENT * self.groups.sizes).all():
                break
        self.targets = r

    def _start(self, eta: Array) -> Array:
        """Targets without margins, moved to the nearest that keep them, a little inside the bounds."""
        cost = self.cost
        guess = cost.divergence._point(np.clip(self.chain.pooled(eta)[0], -30.0, 30.0))
        lowered = self.chain.pooled(guess - cost.lift)[0]
        span = np.where(np.isfinite(self.ceiling - cost.low), self.ceiling - cost.low, 1.0)
        inside = np.maximum(lowered, cost.low + 1e-3 * span)
        return np.minimum(inside, self.ceiling - 1e-3 * span) + cost.lift

    def _lengths(self, eta: Array, r: Array, step: Array, slopes: Array, skip: Array) -> Array:
        """A length for each query: inside the domain, and with a sufficient decrease."""
        divergence, query, sums = self.cost.divergence, self.groups.query, self.groups.sums
        domain = divergence.domain
        room = np.where(step < 0, (r - domain.lower) / -step, (domain.upper - r) / step)
        lengths = np.minimum(1.0, _INSIDE * self.groups.minima(np.where(step == 0, np.inf, room)))
        before = sums(phi_of(divergence, r) - eta * r)
        for _ in range(_HALVINGS):
            trial = r + lengths[query] * step
            after = sums(phi_of(divergence, trial) - eta * trial)
            short = ~skip & ~(after <= before + 1e-4 * lengths * slopes + 1e-15 * np.abs(before))
            if not short.any():
                break
            lengths = np.where(short, 0.5 * lengths, lengths)
        return lengths
