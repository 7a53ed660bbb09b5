r"""Targets with margins for other divergences than the squared distance: proximal Newton, all queries at once.

With the deflected parameters :math:`\eta = \alpha s + (1-\alpha) q` (Lemma 9) the best targets minimise
:math:`\sum_j \varphi(r_j) - \eta_j r_j` along the chain. Each step minimises the second-order model, which is one
weighted isotonic regression of lowered targets, clipped at the bounds; a line search in each query keeps targets in the
domain.
Offsets, and the multiplier of the sum on the simplex, are roots of increasing functions, one per query.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.backend.deadline import check_time
from convexrank.data import QueryGroups
from convexrank.problems.margin_retargeting._joint_cost import Fit, JointCost, phi_of
from convexrank.problems.margin_retargeting._targets_squared import increasing_roots
from convexrank.problems.retargeting._grade_blocks import Chain

Array = np.ndarray

_STEPS = 200
# After a step whose squared Newton decrement per row is below this, only rounding is left.
_DECREMENT = 1e-20
# Below this the cost cannot tell a decrease from rounding.
_NEAR = 1e-12
_HALVINGS = 40
# How much of the way to the end of the domain a step may take.
_INSIDE = 0.99
_ROUNDING = 1e-13


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
                eta = eta + increasing_roots(total, _log_masses(groups, eta), _ROUNDING)[query]
            elif self.offsets:
                along = chain.gather(scores)
                excess = lambda beta: search.excess(eta + share * beta[query], along + beta[query])  # noqa: E731
                offsets = increasing_roots(excess, offsets, _ROUNDING)
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
