r"""Base of the problems that regress on targets, and minimise over the targets; and whether there is a minimiser.

Does a reward without a penalty have a minimiser? A linear program decides.

The joint cost of weights, targets and offsets is convex. Where the product of Lemma 8 exceeds 1 it grows like a square
in targets and predictors together, so a linear reward cannot outgrow it. Where it is 1 the squares vanish along the
directions in which targets move with their scores, and along no others: there gaps may earn for ever. For the squared
distance the cost is quadratic by pieces on a polyhedron, so what is bounded below has a minimiser (Frank and Wolfe,
1956): **a minimiser exists if and only if** no direction v of the weights satisfies

.. math:: \gamma_{ig}(v) \ge 0, \qquad \sum_{i,g}\rho_{ig}\,\gamma_{ig}(v) > \lambda_1\|v\|_1, \qquad
          \gamma_{ig}(v) = \min_{j : y_{ij} = g} X_{ij}v - \max_{j : y_{ij} = g'} X_{ij}v,

and, with one bound and no offset that follows it, no score moves towards the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.design import Design, dense, held_as, in_units, picks, weighted_gram
from convexrank.backend.interruption import MANY, check_time
from convexrank.core.score_model import Curvature, SampledCurvature, ScoreModel
from convexrank.core.separability import units_of_features
from convexrank.modelling.smoothing.programs import Smoothed
from convexrank.problems.margin_retargeting._joint_cost import Fit, JointCost
from convexrank.problems.out_of_memory._queries import drawn
from convexrank.problems.out_of_memory._streams import refuse_chunks
from convexrank.problems.queries._base import QueryScores, query_sums
from convexrank.problems.retargeting._grade_blocks import GradeBlocks
from convexrank.solvers.row_faces import FiniteSum, Smoothable

Array = np.ndarray

# A linear program meets its constraints to about 1e-7: what is earned below this is no evidence.
_EVIDENCE = 1e-6
# Entries of a design that are built for it.
_LARGEST = 10_000_000


def rewards_grow(cost: JointCost, rows: Any, l1: float) -> bool:
    """Return whether gaps earn more than l1 costs along some direction in which targets move with their scores.

    Parameters
    ----------
    cost : JointCost
        The joint cost, with at most one finite bound.
    rows : array or sparse array, shape (n, d)
        Features, query by query.
    l1 : float
        Strength.

    Raises
    ------
    ValueError
        When the rows are a design that is too large to be built for this.
    """
    from scipy.optimize import linprog  # slow to import, and rarely needed

    blocks, steps = cost.blocks, np.flatnonzero(cost.blocks.above)
    n, count = rows.shape[0], len(blocks.sizes)
    rows = rows if held_as(rows).built else _built(rows)
    unit = units_of_features(rows)
    scores = in_units(sparse.csr_array(rows), unit)
    block = np.empty(n, dtype=np.int64)
    block[blocks.order] = np.repeat(np.arange(count), blocks.sizes)
    place = picks(block, count)
    up, down = picks(steps, count), picks(steps - 1, count)
    # unknowns: positive and negative parts of the weights, floors and tops of the blocks
    below = [
        [-scores, scores, place, None],
        [scores, -scores, None, -place],
        [None, None, -up, down],
    ]
    if not cost.offsets:
        below += [[-scores, scores, None, None]] if math.isfinite(cost.low) else []
        below += [[scores, -scores, None, None]] if math.isfinite(cost.high) else []
    system = sparse.csr_array(sparse.block_array(below))
    rewards = cost.rewards[steps] / cost.rewards.max()
    price = l1 / cost.rewards.max() * np.concatenate((unit, unit))
    objective = np.concatenate((price, -(up.T @ rewards), down.T @ rewards))
    bounds = [(0.0, 1.0)] * (2 * len(unit)) + [(None, None)] * (2 * count)
    answer = linprog(
        objective, A_ub=system, b_ub=np.zeros(len(system.indptr) - 1), bounds=bounds, method="highs"
    )
    return answer.x is not None and -float(answer.fun) > _EVIDENCE


def _built(design: Design) -> sparse.csr_array:
    n, d = design.shape
    if n * d > _LARGEST:
        raise ValueError(
            f"X is a design of {n} rows and {d} columns, and whether a reward without l2 has a minimiser is decided "
            "over all of them, built; give l2 > 0, or no reward."
        )
    return sparse.csr_array(design.columns(np.arange(d)))


# Rows with so many entries are tall; queries that give the Hessian have so many rows a column, or one in so many, where
# all are at least so many times as many.
_TALL, _ROWS_PER_COLUMN, _SHARE, _WORTH = 1_000_000, 30, 16, 3

# A gradient of this size is rounding.
_ZERO = 1e-12


@dataclass(frozen=True, eq=False)
class MarginScores(QueryScores):
    """Base of margin-equipped retargeting: a subclass states the constraints and the cost of the targets."""

    _takes_chunks = True

    @property
    def _has_curvature(self) -> bool:  # type: ignore[override]
        """Whether the risk has second derivatives."""
        return self._differentiable

    @property
    def _has_smoothing(self) -> bool:  # type: ignore[override]
        """Whether the risk is its own smooth function, whatever the width: beside l1, for Newton's method."""
        return self._has_curvature and self.l1 > 0.0

    def _smoothable(self) -> Smoothable:
        return Smoothable(lambda: 1.0, 1.0, self._own_smooth)

    def _own_smooth(self, w: Array, width: float) -> Smoothed:
        """Return the risk at w, without the penalty, as what is smooth already."""
        value, slope = self.risk_and_subgradient(w)

        def matrix() -> Array:
            return self.second_order(w)[2] - self.l2 * np.eye(self.dimension)

        def along(direction: Array) -> Callable[[float], tuple[float, float]]:
            def there(step: float) -> tuple[float, float]:
                risk, gradient = self.risk_and_subgradient(w + step * direction)
                return risk, float(gradient @ direction)

            return there

        return Smoothed(
            risk=value,
            value=value,
            offset=value - float(slope @ w),
            slope=slope,
            drift=lambda: np.zeros_like(slope),
            product=lambda: matrix().__matmul__,
            diagonal=lambda: matrix().diagonal(),
            matrix=matrix,
            along=along,
        )

    @property
    def rules(self) -> JointCost:
        """The constraints and the cost of the targets, with the minimisation over targets and offsets."""
        raise NotImplementedError

    @property
    def blocks(self) -> GradeBlocks:
        """The blocks of equal grade of the queries that count."""
        return self.rules.blocks

    @property
    def query_weights(self) -> Array:
        """One over the number of rows, or one."""
        return self.rules.query_weights

    @property
    def margins(self) -> Array:
        """The margin below each block of :attr:`blocks`; 0 below the lowest of a query."""
        return self.rules.margins

    @property
    def rewards(self) -> Array:
        """The reward for each unit of the gap below each block; 0 below the lowest of a query."""
        return self.rules.rewards

    def fit(self, scores: Array) -> Fit:
        """Return the best targets and offsets for scores of the rows that count, query by query."""
        return self.rules.fit(scores)

    def targets(self, w: Any) -> Array:
        """Return the best targets for the scores Xw, shape (n,); NaN for rows of idle queries."""
        found = np.full(self.X.shape[0], np.nan)
        found[self._rows] = self.fit(self._ordered(self.check_point(w))).targets
        return found

    @property
    def trivial_minimum(self) -> bool:
        """Whether w = 0 is optimal whatever the data: the gradient vanishes at scores of zero."""
        return bool(np.abs(self.query_oracle(np.zeros(self.groups.rows))[1]).max() <= _ZERO)

    def query_oracle(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, all queries at once."""
        return self.rules.evaluate(self.fit(scores), scores)

    def _score_model(self, scores: Array) -> ScoreModel:
        """Return the risk to second order in the scores; pools of targets and offsets take products away."""
        ordered = self._split(np.asarray(scores, dtype=np.float64))[0]
        fit = self.fit(ordered)
        value, slope = self.rules.evaluate(fit, ordered)
        found = score_curvature(self.rules, fit, ordered)
        shares = sparse.csc_array(picks(self._rows, self.rows).T @ found.shares)
        return ScoreModel(
            value, self._join((slope,)), Curvature(self._join((found.diagonal,)), shares, found.rates)
        )

    def second_order(self, w: Any) -> tuple[float, Array, Array]:
        """Return value, gradient and generalised Hessian of risk + l2/2·‖w‖². O(n d² + n log n).

        This is (3.20) under the constraints: pooled targets move together, and targets at a bound do not move.
        """
        refuse_chunks(self.X, "second derivatives")
        w = self.check_point(w)
        rows, scores = self._dense_rows, self._ordered(w)
        fit = self.fit(scores)
        if len(rows) >= MANY:
            check_time()
        value, slope = self.rules.evaluate(fit, scores)
        if len(rows) >= MANY:
            check_time()
        found = score_curvature(self.rules, fit, scores)
        if len(rows) >= MANY:
            check_time()
        hessian = weighted_gram(rows, found.diagonal)
        if len(rows) >= MANY:
            check_time()
        sums = found.shares.T @ rows
        hessian -= (sums.T * found.rates) @ sums
        hessian.flat[:: self.dimension + 1] += self.l2
        return value + 0.5 * self.l2 * float(w @ w), rows.T @ slope + self.l2 * w, hessian

    def hessian(self, w: Any) -> Array:
        """Return the Hessian of risk + l2/2·‖w‖², shape (d, d). O(n d²)."""
        return self.second_order(w)[2]

    def _sampled_curvature(self, w: Array) -> SampledCurvature | None:
        """Return the Hessian at w from some of the queries; None for few rows, or rows that are not in memory."""
        rows, columns = self.X.shape
        wanted = max(_ROWS_PER_COLUMN * columns, rows // _SHARE)
        count = max(1, round(len(self.groups) * wanted / self.groups.rows))
        tall = isinstance(self.X, np.ndarray) and self.X.size >= _TALL and _WORTH * count <= len(self.groups)
        some = drawn(self, count) if tall and "TwiceDifferentiable" in self.capabilities else None
        return None if some is None else SampledCurvature(some.second_order(w)[2])

    # --- one query at a time ----------------------------------------------------------------------------------------

    def _finite_sum(self) -> FiniteSum:
        return FiniteSum(self.l2, self._term_constants, self._term_gradient, self._term_gradients)

    def _term_constants(self) -> Array:
        """A Lipschitz constant of the gradient of what each query contributes, in w."""
        squares = [_square_norm(rows) for rows, _ in self._terms]
        return (self.rules.largest_bend + self.rules.score_reg) * self.query_weights * np.array(squares)

    def _term_gradient(self, term: int, w: Array) -> Array:
        """Return the gradient in w of what one query contributes, shape (d,)."""
        rows, cost = self._terms[term]
        scores = np.asarray(rows @ w, dtype=np.float64)
        return rows.T @ cost.evaluate(cost.fit(scores), scores)[1]

    def _term_gradients(self, w: Array) -> Array:
        """Return the gradients of all queries, shape (m, d)."""
        slopes, groups = self.query_oracle(self._ordered(w))[1], self.groups
        return dense(query_sums(groups, slopes, self.rows_of_queries))

    @cached_property
    def _terms(self) -> list[tuple[Any, JointCost]]:
        """Features and cost of each query alone."""
        return [
            (self.rows_of_queries[part], self.rules.of_query(q)) for q, part in enumerate(self.groups.slices)
        ]


def _square_norm(rows: Any) -> float:
    """The square of the spectral norm, from the smaller one of the two Gram matrices."""
    gram = rows @ rows.T if rows.shape[0] <= rows.shape[1] else rows.T @ rows
    return max(float(np.linalg.eigvalsh(dense(gram))[-1]), 0.0)


def score_curvature(cost: JointCost, fit: Fit, scores: Array) -> Curvature:
    """Return the generalised Hessian of the cost in the scores, query by query: (3.20) with the constraints taken in.

    Targets of one pool move together, and targets at a bound do not move: a pool takes one product away. So does an
    offset, the mean of the parts that do not move along; on the simplex predictions and targets keep their sums, and an
    offset takes the mean of the scores out. A pool of one row is part of the diagonal.
    """
    chain, groups, weights, reg = fit.chain, cost.groups, cost.query_weights, cost.score_reg
    p = chain.gather(cost.predictions(scores + fit.offsets[groups.query]))
    with np.errstate(divide="ignore"):
        bends, curved = cost.bends(p) + reg, cost.divergence._curvature(chain.gather(fit.targets))
    starts, sizes, masses = fit.pool_masses((1.0 + cost.target_reg) * curved)
    along = weights[groups.query]
    diagonal, taken = along * bends, along[starts] / masses
    alone = sizes == 1
    diagonal[starts[alone]] -= taken[alone]
    rows, ends = chain.order[np.repeat(~alone, sizes)], np.append(0, np.cumsum(sizes[~alone]))
    shares = [sparse.csc_array((np.ones(len(rows)), rows, ends), shape=(groups.rows, len(ends) - 1))]
    rates = [taken[~alone]]

    def take(vectors: Array, sign: float) -> None:
        """Take c·vvᵀ/Σv of each query away, or add it."""
        totals = groups.sums(vectors)
        with np.errstate(divide="ignore", invalid="ignore"):
            rates.append(np.where(totals > 0.0, sign * weights / totals, 0.0))
        shape = (groups.rows, len(groups))
        shares.append(sparse.csc_array((vectors, chain.order, groups.offsets), shape=shape))

    moves = np.repeat(sizes / masses, sizes)  # what a common shift of the predictors does to each target
    if cost.simplex:
        take(moves, -1.0)
        take(p, 1.0)
        if cost.offsets and reg:
            take(np.ones_like(p), reg)
    elif cost.offsets:
        take(bends - moves, 1.0)
    of_rows = np.empty(groups.rows)
    of_rows[chain.order] = diagonal
    return Curvature(of_rows, sparse.csc_array(sparse.hstack(shares, format="csc")), np.concatenate(rates))
