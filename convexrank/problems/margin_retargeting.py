"""Margin-equipped monotone retargeting: regress on the nearest targets that keep the grades apart."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse

from convexrank.data import check_nonnegative, check_vector
from convexrank.problem import Solution
from convexrank.problems.linear import RiskData
from convexrank.problems.margin_models import CallbackRisk, joint_model, reference_fit
from convexrank.problems.margin_options import check_bound, check_sizes, random_options, squared_only
from convexrank.problems.margin_targets import Fit, TargetRules, moved_along, nearest_squared
from convexrank.problems.queries import QueryScores, random_queries
from convexrank.problems.targets import GradeBlocks, step_sizes

__all__ = ["MarginRetargeting"]

Array = np.ndarray

# Cumulated margins may exceed what the bounds leave by the rounding of their sum.
_ROUNDING = 1e-12
_WORTHLESS = "worthless: constant targets and w = 0 are optimal whatever the data; pass margin or reward"


@dataclass(frozen=True, eq=False)
class MarginRetargeting(QueryScores):
    r"""Margin-equipped monotone retargeting (MEMR): regress on targets of one's own choice that keep grades apart.

    .. math::
        \min_{w,\,r,\,\beta} \; \sum_{i=1}^{m} c_i \Bigl[\tfrac12\|r_i - s_i\|^2
        + \tfrac{C_r}{2}\|r_i - q_i\|^2 + \tfrac{C_w}{2}\|s_i\|^2\Bigr]
        - \sum_{i,g} \rho_{ig}\, \gamma_{ig} + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1,
        \qquad s_i = X_i w + \beta_i

    subject to, for each query i and each of its grades g but the lowest,

    .. math::
        \gamma_{ig} = \min_{j : y_{ij} = g} r_{ij} - \max_{j : y_{ij} = g'} r_{ij} \;\ge\; t_{ig}, \qquad
        b_0 \le r_{ij} \le b_1,

    where g' is the next lower grade of the query: every document of a grade lies the margin t above all documents of
    the next lower one. A sum over the m queries that have two rows of different grades; the others contribute nothing.
    :math:`c_i` is one over the number of rows of the query with ``normalize``, else 1; rewards are not divided, as in
    (3.23). The order within a grade is free.

    Jointly convex. With the best targets and offsets put in, what is left is a convex function of w with a Lipschitz
    continuous gradient: a sort and an isotonic regression of each query, O(n log n) for all together. That function is
    what the solvers minimise; the exact model keeps targets and offsets as variables.

    Without margin and reward, w = 0 with constant targets costs nothing and is the minimiser whatever the data:
    ``worthless`` is then True, and solutions say so.

    Parameters
    ----------
    X : array, sparse array or JAX array, shape (n, d)
        One row a document; no intercept.
    y : array, shape (n,)
        Grades; larger should rank higher.
    qid : array of int or str, shape (n,), QueryGroups, or None
        The query of each row, in any order; None is one query.
    divergence : Divergence or str
        The distance: ``"squared"``.
    margin : float, sequence of float, callable, or None
        The margins t, at least 0: one for all steps; one for the step up to each grade of y but the lowest, ascending;
        or a function of the rank, ``margin(k)`` for an array k of integers: a step with k documents of the query above
        it. Decreasing functions are heavier at the top. None is 0.
    reward : float, sequence of float, callable, or None
        The rewards ρ for each unit of a gap, in the same three forms: the large-margin forms (3.23) and (3.24).
    bound : float, pair of float or None, or None
        Bounds of all targets: (lower, upper), where None is no bound; a number is an upper one.
    target_reg : float
        The constant :math:`C_r` of (3.17): pulls the targets to ``center``.
    score_reg : float
        The constant :math:`C_w` of (3.17).
    center : array, shape (n,), or None
        The q of (3.17), a number for each row; None is 0.
    offsets : bool
        Whether each query has an offset β of its own, without a penalty of its own; else β = 0. Makes a difference only
        with two bounds or with ``target_reg`` or ``score_reg``.
    normalize : bool
        Divide by the number of rows of each query.
    l2, l1 : float
        Strengths.
    dtype : {"float64", "float32"}
        Precision of the data.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, no query has two different grades, margins or rewards
        are negative or of another number than the steps, the margins of a query add up to more than the bounds leave,
        a number is out of range, or rewards have nothing to hold them: no l2, and no two bounds.

    References
    ----------
    S. Acharyya, dissertation (2013), chapter 3: (3.4), (3.17), margins (3.21), (3.22), rewards (3.23), (3.24).

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.9]]
    >>> problem = cr.problems.MarginRetargeting(X, [2, 0, 1, 1], [5, 5, 5, 9], "squared", margin=1.0, l2=0.1)
    >>> solution = problem.solve()
    >>> solution.status.name, problem.idle_queries
    ('CONVERGED', 1)
    >>> problem.targets(solution).round(3).tolist()
    [1.0, -1.0, 0.0, nan]
    """

    divergence: Any = "squared"
    margin: Any = None
    reward: Any = None
    bound: Any = None
    target_reg: float = 0.0
    score_reg: float = field(default=0.0, kw_only=True)
    center: Any = field(default=None, kw_only=True)
    offsets: bool = field(default=True, kw_only=True)
    normalize: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "divergence", squared_only(self.divergence))
        for name in ("margin", "reward"):
            object.__setattr__(self, name, check_sizes(getattr(self, name), name))
        for name in ("target_reg", "score_reg"):
            object.__setattr__(self, name, check_nonnegative(getattr(self, name), name))
        if self.center is not None:
            object.__setattr__(self, "center", check_vector(self.center, self.X.shape[0], "center"))
        object.__setattr__(self, "bound", check_bound(self.bound))
        self._check_margins()
        if self.rules.rewarded and not (self.l2 > 0 or math.isfinite(self.rules.high - self.rules.low)):
            raise ValueError(
                "reward without l2 has no minimiser in general: gaps may grow for ever; pass l2 > 0, or "
                "bound=(lower, upper)."
            )

    def _check_margins(self) -> None:
        rules = self.rules
        short = np.flatnonzero(
            rules.ceiling < rules.low - _ROUNDING * max(1.0, abs(rules.high), abs(rules.low))
        )
        if len(short):
            query = int(short[0])
            needed = rules.high - float(rules.ceiling[query])
            raise ValueError(
                f"infeasible: the margins of query {self.groups.ids[query]} add up to {needed:g}, the bounds "
                f"({rules.low:g}, {rules.high:g}) leave {rules.high - rules.low:g}; lower margin, or widen bound."
            )

    # --- the targets ------------------------------------------------------------------------------------------------

    @cached_property
    def blocks(self) -> GradeBlocks:
        """The blocks of equal grade of the queries that count."""
        return GradeBlocks(self.groups, self.grades)

    @cached_property
    def query_weights(self) -> Array:
        """One over the number of rows, or one."""
        return 1.0 / self.groups.sizes if self.normalize else np.ones(len(self.groups))

    @cached_property
    def _row_weights(self) -> Array:
        return self.query_weights[self.groups.query]

    @cached_property
    def margins(self) -> Array:
        """The margin below each block of :attr:`blocks`; 0 below the lowest of a query."""
        return step_sizes(self.margin, self.blocks, np.unique(self.y), "margin")

    @cached_property
    def rewards(self) -> Array:
        """The reward for each unit of the gap below each block; 0 below the lowest of a query."""
        return step_sizes(self.reward, self.blocks, np.unique(self.y), "reward")

    @cached_property
    def rules(self) -> TargetRules:
        """What the targets must satisfy."""
        low, high = self.bound if self.bound is not None else (-math.inf, math.inf)
        return TargetRules(
            self.blocks,
            self.blocks.lifted(self.margins),
            self.rewards / self.query_weights[self.blocks.queries],
            low,
            high,
            self.target_reg,
            self.score_reg,
            None if self.center is None else self.center[self._rows],
            self.offsets,
        )

    @property
    def worthless(self) -> bool:
        """Whether constant targets and w = 0 cost nothing, and are optimal whatever the data."""
        return not self.rules.rewarded and self.query_oracle(np.zeros(self.groups.rows))[0] <= 0.0

    def fit(self, scores: Array) -> Fit:
        """Return the best targets and offsets for scores of the rows that count, query by query."""
        return nearest_squared(self.rules, scores)

    def targets(self, w: Any) -> Array:
        """Return the best targets for the scores Xw, shape (n,); NaN for rows of idle queries."""
        found = np.full(self.X.shape[0], np.nan)
        found[self._rows] = self.fit(self._ordered(self.check_point(w))).targets
        return found

    def offsets_at(self, w: Any) -> Array:
        """Return the best offset of each query that counts, shape (m,), in the order of ``groups.ids``."""
        return self.fit(self._ordered(self.check_point(w))).offsets

    def _ordered(self, w: Array) -> Array:
        return self.split(np.asarray(self.scores(w), dtype=np.float64))[0]

    # --- the risk, three times --------------------------------------------------------------------------------------

    @property
    def attained(self) -> bool:
        """Yes: a convex function that is quadratic by pieces and bounded below has a minimiser."""
        return True

    @cached_property
    def risk_infimum(self) -> float:
        """Zero, less what rewards can earn within the bounds."""
        span = self.rules.high - self.rules.low
        return -float(self.rewards.sum()) * span if self.rules.rewarded else 0.0

    @cached_property
    def risk(self) -> RiskData:
        """The risk as a JAX function of the scores, by a callback to the same kernel."""
        return RiskData(CallbackRisk(self), (), (self.groups.rows,))

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the joint cost as a cvxpy expression, with targets and offsets as variables of its own."""
        return joint_model(self, scores[self._rows])

    def query_oracle(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, all queries at once."""
        return self._evaluated(scores)[:2]

    def _evaluated(self, scores: Array) -> tuple[float, Array, Fit]:
        rules, weights, fit = self.rules, self._row_weights, self.fit(scores)
        predictors = scores + fit.offsets[self.groups.query]
        rests = predictors - fit.targets
        value = rests @ (weights * rests)
        gradient = weights * rests
        if rules.score_reg:
            value += rules.score_reg * (predictors @ (weights * predictors))
            gradient += rules.score_reg * weights * predictors
        if rules.target_reg:
            away = fit.targets if rules.center is None else fit.targets - rules.center
            value += rules.target_reg * (away @ (weights * away))
        value *= 0.5
        if rules.rewarded:
            value -= self.rewards @ fit.chain.gaps(fit.targets)
        return float(value), gradient, fit

    def second_order(self, w: Any) -> tuple[float, Array, Array]:
        """Return value, gradient and generalised Hessian of risk + l2/2·‖w‖². O(n d² + n log n).

        (3.20) with the constraints taken in: targets that are pooled move together, and those at a bound do not move.
        """
        w = self.check_point(w)
        value, slope, fit = self._evaluated(self._ordered(w))
        value, gradient = value + 0.5 * self.l2 * float(w @ w), self._dense_rows.T @ slope + self.l2 * w
        lost = moved_along(self.rules, fit, self._dense_rows, self.query_weights)
        curvature = (1.0 + self.score_reg) * self._spread - lost
        return value, gradient, curvature + self.l2 * np.eye(self.dimension)

    @cached_property
    def _spread(self) -> Array:
        rows = self._dense_rows
        return (self._row_weights[:, None] * rows).T @ rows

    @cached_property
    def _dense_rows(self) -> Array:
        rows = self.rows_of_queries
        return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)

    def reference_query(self, query: int, scores: Array) -> tuple[float, Array]:
        """Return the weighted cost of one query with its best targets, and its gradient, from the definition."""
        return reference_fit(self, query, scores)

    # --- what is particular -----------------------------------------------------------------------------------------

    def solve(self, solver: Any = None, **options: Any) -> Solution:
        """Solve; see :meth:`convexrank.problem.Problem.solve`. The message says when the minimum is worthless."""
        solution = super().solve(solver, **options)
        if not self.worthless:
            return solution
        return replace(solution, message=f"{solution.message}; {_WORTHLESS}")

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        X, y, qid = random_queries(rng)
        return cls(X, y, qid, "squared", **random_options(rng, y))
