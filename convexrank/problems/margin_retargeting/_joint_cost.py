"""The joint cost of targets, offsets and scores: what all parts of margin-equipped retargeting work on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.interruption import MANY, check_time
from convexrank.data import QueryGroups
from convexrank.divergences import Divergence, SquaredEuclidean
from convexrank.problems.retargeting._grade_blocks import Chain, GradeBlocks, Sizes, step_sizes

Array = np.ndarray


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
    """

    targets: Array
    offsets: Array
    chain: Chain
    pools: Array

    def pool_masses(self, bends: Array) -> tuple[Array, Array, Array]:
        """Return where pools start along the chain, their lengths, and their masses: infinite where a bound holds them.

        Parameters
        ----------
        bends : ndarray, shape (n,)
            Along the chain, φ'' at the targets.
        """
        query, pools = self.chain.blocks.groups.query, self.pools
        ends = (pools[1:] != pools[:-1]) | (query[1:] != query[:-1])
        starts = np.concatenate(([0], np.flatnonzero(ends) + 1))
        masses = np.where(pools[starts] >= 0, np.add.reduceat(bends, starts), np.inf)
        return starts, np.diff(starts, append=len(pools)), masses


@dataclass(frozen=True, eq=False)
class JointCost:
    """The constraints on targets, and the joint cost of targets, offsets and scores; rows query by query.

    Parameters
    ----------
    blocks : GradeBlocks
        The blocks of equal grade.
    levels : ndarray
        All grades of the data, ascending.
    query_weights : ndarray, shape (m,)
        The weight of each query.
    divergence : Divergence
        Separable without weights, with slopes of all sizes; or KL.
    margin, reward : None, float, tuple of float, or callable
        Of the steps between grades, as the caller states them.
    low, high : float
        Bounds of all targets; infinities for none.
    target_reg, score_reg : float
        The constants C_r and C_w of (3.17).
    center : ndarray, shape (n,)
        The natural parameters q of (3.17).
    offsets : bool
        Whether each query has an offset of its own.
    """

    blocks: GradeBlocks
    levels: Array
    query_weights: Array
    divergence: Divergence
    margin: Sizes
    reward: Sizes
    low: float
    high: float
    target_reg: float
    score_reg: float
    center: Array
    offsets: bool

    @cached_property
    def groups(self) -> QueryGroups:
        """The queries."""
        return self.blocks.groups

    @cached_property
    def quadratic(self) -> bool:
        """Whether the divergence is the squared distance."""
        return isinstance(self.divergence, SquaredEuclidean)

    @cached_property
    def simplex(self) -> bool:
        """Whether the targets of a query add up to 1."""
        return self.divergence.total is not None

    # --- what targets must satisfy ------------------------------------------------------------------------------------

    @cached_property
    def margins(self) -> Array:
        """The margin below each block; 0 below the lowest of a query."""
        return step_sizes(self.margin, self.blocks, self.levels, "margin")

    @cached_property
    def rewards(self) -> Array:
        """The reward for each unit of the gap below each block; 0 below the lowest of a query."""
        return step_sizes(self.reward, self.blocks, self.levels, "reward")

    @cached_property
    def rewarded(self) -> bool:
        """Whether any gap earns a reward."""
        return bool((self.rewards > 0).any())

    @cached_property
    def heights(self) -> Array:
        """Cumulated margins: how far each block must lie above the lowest of its query."""
        return self.blocks.lifted(self.margins)

    @cached_property
    def lift(self) -> Array:
        """The height of each row's block, along any chain."""
        return self.blocks.of_blocks(self.heights)

    @cached_property
    def ceiling(self) -> Array:
        """The upper bound on the lowered targets of each query: the bound less the height of its top block."""
        return self.high - self.heights[self.blocks.offsets_by_query[1:] - 1]

    def of_query(self, query: int) -> JointCost:
        """Return the same for one query alone."""
        rows = self.groups.slices[query]
        part = slice(*self.blocks.offsets_by_query[query : query + 2].tolist())
        groups = QueryGroups.from_sizes([rows.stop - rows.start])
        alone = replace(
            self,
            blocks=GradeBlocks(groups, self.blocks.grades[rows]),
            query_weights=self.query_weights[query : query + 1],
            center=self.center[rows],
        )
        # a function of the rank is asked once, for all queries
        alone.__dict__.update(margins=self.margins[part], rewards=self.rewards[part])
        return alone

    # --- what they cost -----------------------------------------------------------------------------------------------

    @cached_property
    def share(self) -> float:
        """The α of Lemma 9: the weight of the predictor in the parameters that the targets approximate."""
        return 1.0 / (1.0 + self.target_reg)

    @cached_property
    def largest_bend(self) -> float:
        """The largest second derivative of the conjugate of φ; infinite where φ is flat somewhere in its domain."""
        strong = self.divergence.strong_convexity()
        return 1.0 / strong if strong > 0 else math.inf

    def deflected(self, scores: Array) -> tuple[Chain, Array]:
        """Return the chain of the best targets, and along it the parameters that they are near to, with rewards."""
        near = self.share * scores + (1.0 - self.share) * self.center
        chain = self.blocks.chain(near)
        along = chain.gather(near)
        if self.rewarded:
            along += self.share * chain.pulled(self.rewards / self.query_weights[self.blocks.queries])
        return chain, along

    def fit(self, scores: Array) -> Fit:
        """Return the best targets and offsets for scores."""
        raise NotImplementedError

    def predictions(self, predictors: Array) -> Array:
        """Return the predictions, the link of the predictors."""
        if not self.simplex:
            return self.divergence._point(predictors)
        groups = self.groups
        masses = np.exp(predictors - groups.maxima(predictors)[groups.query])
        return masses / groups.sums(masses)[groups.query]

    def bends(self, predictions: Array) -> Array:
        """Return the slope of the link at each prediction: the second derivative of the conjugate of φ."""
        return predictions if self.simplex else 1.0 / self.divergence._curvature(predictions)

    def conjugates(self, predictors: Array) -> Array:
        """Return the conjugate of φ of the predictors of each query."""
        groups = self.groups
        if not self.simplex:
            return groups.sums(conjugate_of(self.divergence, predictors))
        tops = groups.maxima(predictors)
        return tops + np.log(groups.sums(np.exp(predictors - tops[groups.query])))

    def imbalance(self, predictors: Array, targets: Array) -> tuple[Array, Array, Array]:
        """Return the excess of predictions and regularisation over targets, its slope in the offset, and its size.

        There is one entry for each query, for a separable divergence. At the best offset the excess is 0.
        """
        sums, reg, p = self.groups.sums, self.score_reg, self.predictions(predictors)
        sizes = sums(np.abs(p) + reg * np.abs(predictors) + np.abs(targets))
        return sums(p + reg * predictors - targets), sums(self.bends(p) + reg), sizes

    def evaluate(self, fit: Fit, scores: Array) -> tuple[float, Array]:
        """Return the cost and its gradient in the scores.

        Parameters
        ----------
        fit : Fit
            The best targets.
        scores : ndarray, shape (n,)
            Scores, query by query.
        """
        value, gradient = self._without_rewards(fit.targets, scores + fit.offsets[self.groups.query])
        return value - float(self.rewards @ fit.chain.gaps(fit.targets)) if self.rewarded else value, gradient

    def _without_rewards(self, r: Array, s: Array) -> tuple[float, Array]:
        sums, reg = self.groups.sums, self.score_reg
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.conjugates(s) + sums((1.0 + self.target_reg) * phi_of(self.divergence, r) - r * s)
            if self.target_reg:
                values += self.target_reg * (self.conjugates(self.center) - sums(r * self.center))
            values += 0.5 * reg * sums(s * s)
            gradient = self.query_weights[self.groups.query] * (self.predictions(s) - r + reg * s)
            return float(self.query_weights @ values), gradient

    def second_order(self, fit: Fit, scores: Array, rows: Array) -> Array:
        """Return the generalised Hessian of the cost in w, shape (d, d): (3.20) under the constraints.

        Targets of one pool move together, and targets at a bound do not move. An offset removes the mean of the parts
        that do not move along.

        Parameters
        ----------
        fit : Fit
            The best targets.
        scores : ndarray, shape (n,)
            Scores, query by query.
        rows : ndarray, shape (n, d)
            Features, query by query.
        """
        chain, groups, weights, reg = fit.chain, self.groups, self.query_weights, self.score_reg
        along, p = rows[chain.order], chain.gather(self.predictions(scores + fit.offsets[groups.query]))
        if len(rows) >= MANY:
            check_time()
        with np.errstate(divide="ignore"):
            bends, curvature = self.bends(p) + reg, self.divergence._curvature(chain.gather(fit.targets))
        if len(rows) >= MANY:
            check_time()
        hessian = ((weights[groups.query] * bends)[:, None] * along).T @ along
        if len(rows) >= MANY:
            check_time()
        starts, sizes, masses = fit.pool_masses((1.0 + self.target_reg) * curvature)
        sums = np.add.reduceat(along, starts, axis=0)
        if len(rows) >= MANY:
            check_time()
        hessian -= ((weights[groups.query[starts]] / masses)[:, None] * sums).T @ sums
        moves = np.repeat(sizes / masses, sizes)  # what a common shift of the predictors does to each target
        if not self.simplex:
            return hessian - rank_ones(groups, bends - moves, along, weights) if self.offsets else hessian
        # on the simplex predictions and targets keep their sums, and an offset takes the mean of the scores out
        hessian += rank_ones(groups, moves, along, weights)
        hessian -= rank_ones(groups, p, along, weights)
        if self.offsets and reg:
            hessian -= reg * rank_ones(groups, np.ones_like(p), along, weights)
        return hessian


def rank_ones(groups: QueryGroups, vectors: Array, rows: Array, weights: Array) -> Array:
    """Sum over queries of c (Xᵀv)(Xᵀv)ᵀ / Σv, without those where v adds up to nothing."""
    if len(rows) >= MANY:
        check_time()
    totals, means = groups.sums(vectors), groups.sums(vectors[:, None] * rows)
    scale = np.where(totals > 0, weights / np.where(totals > 0, totals, 1.0), 0.0)
    return (scale[:, None] * means).T @ means
