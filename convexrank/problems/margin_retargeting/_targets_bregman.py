r"""Targets with margins for other divergences than the squared distance: proximal Newton, all queries at once.

With the deflected parameters :math:`\eta = \alpha s + (1-\alpha) q` (Lemma 9) the best targets minimise
:math:`\sum_j \varphi(r_j) - \eta_j r_j` along the chain. Each step minimises the second-order model, which is one
weighted isotonic regression of lowered targets, clipped at the bounds; a line search in each query keeps targets in the
domain.
Offsets, and the multiplier of the sum on the simplex, are roots of increasing functions, one a query.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convexrank.divergences import Divergence
from convexrank.problems.margin_retargeting._targets_squared import (
    Fit,
    TargetRules,
    increasing_roots,
    rank_ones,
)
from convexrank.problems.retargeting._grade_blocks import Chain

__all__ = ["BregmanTargets", "conjugate_of", "phi_of"]

Array = np.ndarray

_STEPS = 200
# After a step with a squared Newton decrement below this, a row, what is left is rounding.
_DECREMENT = 1e-20
# Below this the cost cannot tell a decrease from rounding.
_NEAR = 1e-12
_HALVINGS = 40
# How much of the way to the end of the domain a step may take.
_INSIDE = 0.99
_ROUNDING = 1e-13


def phi_of(divergence: Divergence, x: Array) -> Array:
    """Return φ of each entry, up to a constant for separable ones: the divergence from where φ is least.

    numpy all the way. The constant cancels against that of :func:`conjugate_of`; on the simplex it is the right one.
    """
    where = divergence._point(np.zeros(1))
    return divergence._between(x, where) - (float(where[0]) if divergence.total is not None else 0.0)


def conjugate_of(divergence: Divergence, theta: Array) -> Array:
    """Return the conjugate of φ for each entry, from the point where it is attained."""
    x = divergence._point(theta)
    return np.where(np.isfinite(x), theta * x - phi_of(divergence, x), np.inf)


@dataclass(frozen=True, eq=False)
class BregmanTargets:
    """The best targets and what they cost, for a separable divergence or KL.

    Parameters
    ----------
    rules : TargetRules
        Margins, rewards, bounds (inside the domain), constants.
    divergence : Divergence
        Separable without weights, with slopes of all sizes; or KL.
    """

    rules: TargetRules
    divergence: Divergence

    @property
    def simplex(self) -> bool:
        """Whether the targets of a query add up to 1."""
        return self.divergence.total is not None

    @property
    def largest_bend(self) -> float:
        """The largest second derivative of the conjugate of φ; infinite where φ is flat somewhere in its domain."""
        strong = self.divergence.strong_convexity()
        return 1.0 / strong if strong > 0 else math.inf

    def fit(self, scores: Array) -> Fit:
        """Return the best targets and offsets for scores, query by query."""
        rules = self.rules
        groups, share = rules.blocks.groups, rules.shares
        near = share * scores if rules.center is None else share * scores + (1.0 - share) * rules.center
        chain = rules.blocks.chain(near)
        eta, query = chain.gather(near), groups.query
        if rules.rewarded:
            eta = eta + share * chain.pulled(rules.rewards)
        search = _Search(self, chain)
        offsets = np.zeros(len(groups))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if self.simplex:
                if rules.offsets:
                    offsets = -groups.sums(scores) / groups.sizes
                total = lambda shift: search.total(eta + shift[query])  # noqa: E731
                shift = increasing_roots(total, _log_masses(chain, eta), _ROUNDING)
                search.solve(eta + shift[query])
            elif rules.offsets:
                along = chain.gather(scores)
                excess = lambda beta: search.excess(eta + share * beta[query], along + beta[query])  # noqa: E731
                offsets = increasing_roots(excess, np.zeros(len(groups)), _ROUNDING)
                search.solve(eta + share * offsets[query])
            else:
                search.solve(eta)
        return Fit(
            chain.scatter(search.targets), offsets, chain, search.pools, self.curvature(search.targets)
        )

    def curvature(self, targets: Array) -> Array:
        """Return φ'' of targets."""
        return self.divergence._curvature(targets)

    def predictions(self, predictors: Array) -> Array:
        """Return the predictions, the link of the predictors, laid out query by query."""
        if not self.simplex:
            return self.divergence._point(predictors)
        groups = self.rules.blocks.groups
        masses = np.exp(predictors - groups.maxima(predictors)[groups.query])
        return masses / groups.sums(masses)[groups.query]

    def conjugates(self, predictors: Array) -> Array:
        """Return the conjugate of φ of the predictors of each query."""
        groups = self.rules.blocks.groups
        if not self.simplex:
            return groups.sums(conjugate_of(self.divergence, predictors))
        tops = groups.maxima(predictors)
        return tops + np.log(groups.sums(np.exp(predictors - tops[groups.query])))

    def cost(self, fit: Fit, scores: Array, weights: Array) -> tuple[float, Array]:
        """Return the cost without rewards, and its gradient in the scores.

        Parameters
        ----------
        fit : Fit
            The best targets.
        scores : ndarray, shape (n,)
            Scores, query by query.
        weights : ndarray, shape (m,)
            The weight of each query.
        """
        rules = self.rules
        groups, r = rules.blocks.groups, fit.targets
        s = scores + fit.offsets[groups.query]
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.conjugates(s) + groups.sums(
                (1.0 + rules.target_reg) * phi_of(self.divergence, r) - r * s
            )
            if rules.target_reg:
                center = np.zeros_like(r) if rules.center is None else rules.center
                values += rules.target_reg * (self.conjugates(center) - groups.sums(r * center))
            values += 0.5 * rules.score_reg * groups.sums(s * s)
            gradient = weights[groups.query] * (self.predictions(s) - r + rules.score_reg * s)
            return float(weights @ values), gradient

    def second_order(self, fit: Fit, scores: Array, rows: Array, weights: Array) -> Array:
        """Return the generalised Hessian of the cost in w, shape (d, d): (3.20) with the constraints taken in.

        Parameters
        ----------
        fit : Fit
            The best targets.
        scores : ndarray, shape (n,)
            Scores, query by query.
        rows : ndarray, shape (n, d)
            Features, query by query.
        weights : ndarray, shape (m,)
            The weight of each query.
        """
        rules, chain = self.rules, fit.chain
        groups = rules.blocks.groups
        s = chain.gather(scores + fit.offsets[groups.query])
        along, c = rows[chain.order], weights[groups.query]
        p = chain.gather(self.predictions(scores + fit.offsets[groups.query]))
        with np.errstate(divide="ignore"):
            bends = (p if self.simplex else 1.0 / self.curvature(self.divergence._point(s))) + rules.score_reg
        hessian = ((c * bends)[:, None] * along).T @ along
        starts, sizes, masses = _pools(fit, 1.0 + rules.target_reg)
        sums = np.add.reduceat(along, starts, axis=0)
        hessian -= ((weights[groups.query[starts]] / masses)[:, None] * sums).T @ sums
        moves = np.repeat(sizes / masses, sizes)  # what a common shift of the predictors does to each target
        if not self.simplex:
            return hessian - rank_ones(groups, bends - moves, along, weights) if rules.offsets else hessian
        # on the simplex predictions and targets keep their sums, and an offset takes the mean of the scores out
        hessian += rank_ones(groups, moves, along, weights)
        hessian -= rank_ones(groups, p, along, weights)
        if rules.offsets and rules.score_reg:
            hessian -= rules.score_reg * rank_ones(groups, np.ones_like(p), along, weights)
        return hessian


def _log_masses(chain: Chain, eta: Array) -> Array:
    """The shift that makes the targets add up to 1 where nothing is pooled or held."""
    groups = chain.blocks.groups
    tops = groups.maxima(eta)
    return 1.0 - tops - np.log(groups.sums(np.exp(eta - tops[groups.query])))


def _pools(fit: Fit, scale: float) -> tuple[Array, Array, Array]:
    """Where pools start along the chain, how long they are, and their masses; infinite where a bound holds them."""
    query, pools = fit.chain.blocks.groups.query, fit.pools
    ends = (pools[1:] != pools[:-1]) | (query[1:] != query[:-1])
    starts = np.concatenate(([0], np.flatnonzero(ends) + 1))
    masses = scale * np.add.reduceat(fit.bends, starts)
    return starts, np.diff(starts, append=len(pools)), np.where(pools[starts] >= 0, masses, np.inf)


class _Search:
    """Targets along a chain, kept from one solve to the next, which is near."""

    def __init__(self, cost: BregmanTargets, chain: Chain) -> None:
        self.cost, self.chain, self.rules = cost, chain, cost.rules
        self.groups = cost.rules.blocks.groups
        self.ceiling = self.rules.ceiling[self.groups.query]
        self.targets = np.empty(0)
        self.pools = np.empty(0, np.int32)

    def total(self, eta: Array) -> tuple[Array, Array, Array]:
        """The sum of the targets less 1, its slope in a shift of η, and the size of its terms."""
        self.solve(eta)
        sums = self.groups.sums(self.targets)
        return sums - 1.0, self._response(), sums + 1.0

    def excess(self, eta: Array, predictors: Array) -> tuple[Array, Array, Array]:
        """What predictions and regularisation exceed the targets by, its slope in the offset, and its size."""
        self.solve(eta)
        divergence, reg = self.cost.divergence, self.rules.score_reg
        p = divergence._point(predictors)
        terms = p + reg * predictors - self.targets
        sizes = self.groups.sums(np.abs(p) + reg * np.abs(predictors) + np.abs(self.targets))
        rise = self.groups.sums(1.0 / divergence._curvature(p)) + reg * self.groups.sizes
        return self.groups.sums(terms), rise - self.rules.shares * self._response(), sizes

    def _response(self) -> Array:
        """The slope of the sum of the targets in a shift of η."""
        fit = Fit(self.targets, np.empty(0), self.chain, self.pools, self.cost.curvature(self.targets))
        _, sizes, masses = _pools(fit, 1.0)
        return self.groups.sums(np.repeat(sizes / masses, sizes))

    def solve(self, eta: Array) -> None:
        """Find the best targets for these parameters, by damped proximal Newton."""
        rules, divergence, sums = self.rules, self.cost.divergence, self.groups.sums
        r = self.targets if len(self.targets) else self._start(eta)
        for _ in range(_STEPS):
            bends, slopes = divergence._curvature(r), divergence._slope(r) - eta
            pooled, pools = self.chain.pooled(r - slopes / bends - rules.lift, bends)
            lowered = np.minimum(np.maximum(pooled, rules.low), self.ceiling)
            step = lowered + rules.lift - r
            self.pools = np.where((pooled < rules.low) | (pooled > self.ceiling), -1, pools)
            decrement = sums(bends * step * step)
            lengths = self._lengths(eta, r, step, sums(slopes * step), decrement <= _NEAR)
            r = r + lengths[self.groups.query] * step
            if (decrement <= _DECREMENT * self.groups.sizes).all():
                break
        self.targets = r

    def _start(self, eta: Array) -> Array:
        """Targets without margins, moved to the nearest that keep them, a little inside the bounds."""
        rules = self.rules
        guess = self.cost.divergence._point(np.clip(self.chain.pooled(eta)[0], -30.0, 30.0))
        lowered = self.chain.pooled(guess - rules.lift)[0]
        span = np.where(np.isfinite(self.ceiling - rules.low), self.ceiling - rules.low, 1.0)
        inside = np.maximum(lowered, rules.low + 1e-3 * span)
        return np.minimum(inside, self.ceiling - 1e-3 * span) + rules.lift

    def _lengths(self, eta: Array, r: Array, step: Array, slopes: Array, skip: Array) -> Array:
        """A length for each query: inside the domain, and with a sufficient decrease."""
        domain, query, sums = self.cost.divergence.domain, self.groups.query, self.groups.sums
        divergence = self.cost.divergence
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
