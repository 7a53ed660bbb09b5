"""Margin-equipped monotone retargeting: regression on the nearest targets that keep the grades apart."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.core.results import Certificate, Solution, Witness
from convexrank.data import check_nonnegative, check_vector, keep, keep_checked
from convexrank.divergences import SquaredEuclidean
from convexrank.problems.margin_retargeting._base import MarginScores, rewards_grow
from convexrank.problems.margin_retargeting._definition import joint_model
from convexrank.problems.margin_retargeting._joint_cost import (
    bounds_within,
    check_bound,
    check_divergence,
    check_room,
    check_sizes,
    joint_constant,
    joint_product,
    random_options,
)
from convexrank.problems.margin_retargeting._reference import evidence, joint_minimum, plain_cost, steps_of
from convexrank.problems.margin_retargeting._targets import BregmanTargets, SquaredTargets, fit_weights
from convexrank.problems.queries._base import drawn_queries
from convexrank.problems.retargeting._grade_blocks import GradeBlocks
from convexrank.solvers.row_faces import Blocks

Array = np.ndarray

_TRIVIAL = "trivial: equal targets and w = 0 are optimal whatever the data; pass margin or reward"


@dataclass(frozen=True, eq=False)
class MarginRetargeting(MarginScores):
    r"""Margin-equipped monotone retargeting (MEMR): regression on optimised targets that keep grades apart.

    .. math::
        \min_{w,\,r,\,\beta} \; \sum_{i=1}^{m} c_i \Bigl[D_\phi\bigl(r_i \| \nabla\phi^*(s_i)\bigr)
        + C_r\, D_\phi\bigl(r_i \| \nabla\phi^*(q_i)\bigr) + \tfrac{C_w}{2}\|s_i\|^2\Bigr]
        - \sum_{i,g} \rho_{ig}\, \gamma_{ig} + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1,
        \qquad s_i = X_i w + \beta_i

    subject to, for each query i and each of its grades g but the lowest,

    .. math::
        \gamma_{ig} = \min_{j : y_{ij} = g} r_{ij} - \max_{j : y_{ij} = g'} r_{ij} \;\ge\; t_{ig}, \qquad
        b_0 \le r_{ij} \le b_1,

    where g' is the next lower grade of the query: the targets of a grade are above those of the next lower grade by at
    least the margin t. The objective is a sum over the m queries that have two rows of different grades; the others
    contribute nothing. :math:`c_i` is one over the number of rows of the query with ``normalize``, else 1; rewards are
    not divided, as in (3.23). The order within a grade is free.

    For the squared distance D is :math:`\tfrac12\|r_i - s_i\|^2`, and the constants may be 0. Other divergences need
    :math:`s(1 + C_r)(C_w + 1/L) \ge 1` (Lemma 8), where s is the modulus of φ on the bounds and L the Lipschitz
    constant of its slopes on its domain; then the cost is jointly convex, too. With KL the targets of a query add up
    to 1, so that s is 2 or more.

    The minimum over targets and offsets is a convex function of w with a continuous gradient. It takes a sort and an
    isotonic regression of each query, O(n log n) in all; for divergences other than the squared distance, some Newton
    steps of that cost. The solvers minimise this function. The exact model of the squared distance has targets and
    offsets as variables, and is conic. For other divergences cvxpy's rules do not show joint convexity: the model
    consists of smooth functions and is passed to a nonlinear solver (``to_cvxpy().nonlinear``); by Lemma 8 every local
    minimum is the minimum.

    With ``margin=None`` and no reward, w = 0 with equal targets is the minimiser for all data: then ``trivial_minimum``
    is True, and solutions have a remark.

    Parameters
    ----------
    X, y, qid, l2, l1, dtype : as for :class:`RankSVM`
        The data, the strengths and the precision.
    divergence : Divergence or str
        The distance: "squared", "generalized_i", "shifted_generalized_i", "bit_entropy", "kl", or an object without
        weights whose slopes take all values. Targets stay 1e-12 inside the ends of the domain.
    margin : float, sequence of float, callable, or None
        The margins t, at least 0: one number for all steps, 1 by default; a number for the step to each grade of y
        except the lowest, ascending; or a function of the rank, ``margin(k)`` for an array k of integers, where a step
        has k documents of the query above it. With a decreasing function the top has more weight. None means 0.
    reward : float, sequence of float, callable, or None
        The rewards ρ per unit of a gap, in the same three forms: the large-margin forms (3.23) and (3.24).
    bound : float, pair of float or None, or None
        Bounds of all targets: (lower, upper), where None omits a bound; a number is an upper bound. I-divergences need
        an upper bound.
    target_reg : float
        The constant :math:`C_r` of (3.17), which pulls the targets to ``center``.
    score_reg : float, optional
        The constant :math:`C_w` of (3.17); by default the least that Lemma 8 allows.
    center : array, shape (n,), or None
        The natural parameters q of (3.17), a number for each row; None means 0, the minimum of φ.
    offsets : bool
        Whether each query has its own offset β, without a penalty; otherwise β = 0. The option has an effect only
        with two bounds or with ``target_reg`` or ``score_reg``.
    normalize : bool
        Whether to divide the loss of each query by its number of rows.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, no query has two different grades, margins or rewards are
        negative or of another number than the steps, the margins of a query add up to more than the bounds allow, the
        constants violate Lemma 8, the divergence has weights or bounded slopes, or a number is out of range. Also when
        rewards are unbounded, so that there is no minimiser: no l2, no two bounds, ``target_reg`` and ``score_reg`` are
        0 (for divergences other than the squared distance: no more than Lemma 8 requires), and some w lets rewarded
        gaps grow at no cost, which a linear program decides.

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
    margin: Any = 1.0
    reward: Any = None
    bound: Any = None
    target_reg: float = 0.0
    score_reg: float | None = field(default=None, kw_only=True)
    center: Any = field(default=None, kw_only=True)
    offsets: bool = field(default=True, kw_only=True)
    normalize: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        keep(self, divergence=check_divergence(self.divergence), bound=check_bound(self.bound))
        keep_checked(self, check_sizes, "margin", "reward")
        keep_checked(self, check_nonnegative, "target_reg", "score_reg")
        if self.center is not None:
            keep(self, center=check_vector(self.center, self.X.shape[0], "center"))
        low, high = bounds_within(self.divergence, self.bound)
        constant = joint_constant(self.divergence, low, high, self.target_reg, self.score_reg)
        keep(self, score_reg=constant)
        check_room(self.rules)
        self._check_rewards()

    def _check_rewards(self) -> None:
        """Refuse rewards that nothing holds."""
        rules = self.rules
        if not rules.rewarded or self.l2 > 0 or math.isfinite(rules.high - rules.low):
            return
        held = joint_product(self.divergence, rules.low, rules.high, self.target_reg, rules.score_reg)
        if held <= 1.0 + 1e-12 and rewards_grow(rules, self.rows_of_queries, self.l1):
            raise ValueError(
                "reward has no minimiser on these data: along some w all rewarded gaps grow for ever, at no cost; pass "
                "l2 > 0, target_reg > 0, score_reg > 0, or bound=(lower, upper)."
            )

    # --- the targets ------------------------------------------------------------------------------------------------

    @cached_property
    def quadratic(self) -> bool:
        """Whether the divergence is the squared distance."""
        return isinstance(self.divergence, SquaredEuclidean)

    @cached_property
    def rules(self) -> SquaredTargets | BregmanTargets:
        """Constraints and costs of targets, with the minimisation over targets and offsets."""
        low, high = bounds_within(self.divergence, self.bound)
        kind, groups = SquaredTargets if self.quadratic else BregmanTargets, self.groups
        return kind(
            GradeBlocks(groups, self.grades),
            self.levels,
            1.0 / groups.sizes if self.normalize else np.ones(len(groups)),
            self.divergence,
            self.margin,
            self.reward,
            low,
            high,
            self.target_reg,
            float(self.score_reg or 0.0),
            np.zeros(groups.rows) if self.center is None else self.center[self._rows],
            self.offsets,
        )

    # --- the risk, three times --------------------------------------------------------------------------------------

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """Capabilities of LinearScores, Blocks and FiniteSum; without the squared distance Referenced, not Exact."""
        offered = super().capabilities
        if not self._held.in_memory:
            return offered
        offered |= {"Blocks"} if self.l1 == 0 else set()
        if math.isfinite(self.rules.largest_bend):
            offered |= {"FiniteSum"}
        if not self.quadratic:
            offered |= {"Referenced"}
        return offered if self.quadratic or self.divergence.has_model else offered - {"Exact"}

    @property
    def _model_is_nonlinear(self) -> bool:
        """Off the quadratic: Lemma 8 shows that the joint cost is convex, cvxpy's rules do not."""
        return not self.quadratic

    _attained = True  # quadratic by pieces and bounded below

    @cached_property
    def _risk_infimum(self) -> float:
        """Zero, less the largest reward that is possible within the bounds."""
        span = self.rules.high - self.rules.low
        return -float(self.rewards.sum()) * span if self.rules.rewarded else 0.0

    def _risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the joint cost as a cvxpy expression, with targets and offsets as variables of its own.

        Off the quadratic no rule of cvxpy's shows that the cost is convex; it is smooth, and a nonlinear solver takes
        it.

        Raises
        ------
        ValueError
            When the conjugate of a function of the caller's own has no closed form.
        """
        return joint_model(self.rules, scores[self._rows])

    def reference_query(self, query: int, scores: Array) -> tuple[float, Array]:
        """Return the weighted cost of one query with its best targets, and its gradient, from the definition."""
        return plain_cost(self.rules, query, scores)

    def _reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores; off the quadratic the targets are evidence."""
        if self.quadratic:
            return super()._reference_scores(scores)
        value, slope, _ = self._evidence(self._split(scores)[0])
        return value, self._join((slope,))

    def _evidence(self, scores: Array) -> tuple[float, Array, float]:
        return evidence(self.rules, self.fit(scores), scores)

    def _ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, from the definition, for proofs; shape (n,) in and out."""
        from convexrank.proof.balls import midpoints
        from convexrank.proof.margins import tangent_of_joint_costs, tangent_of_margins
        from convexrank.proof.orders import JointRule, Query

        rules = self.rules
        bounds = (rules.low, rules.high, rules.target_reg, rules.score_reg)
        rule = JointRule(self.divergence.in_balls(), *bounds, rules.offsets, rules.simplex)
        # off the quadratic the targets in floats are evidence
        fit = None if self.quadratic else self.fit(self._split(midpoints(scores))[0])
        queries = []
        for number, (rows, grades) in enumerate(self._queries()):
            margins, rewards = (steps_of(given, grades, self.levels) for given in (self.margin, self.reward))
            part, divisor = self.groups.slices[number], len(rows) if self.normalize else 1
            query = Query(rows, grades, divisor, margins.tolist(), rewards.tolist(), rules.center[part])
            if fit is not None:
                query = replace(query, targets=fit.targets[part], offset=float(fit.offsets[number]))
            queries.append(query)
        return (tangent_of_margins if self.quadratic else tangent_of_joint_costs)(scores, queries, rule)

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound value − optimum at x; off the quadratic with what better targets might gain at x added."""
        found = super().certificate(x, witness)
        if self.quadratic:
            return found
        left = self._evidence(self._ordered(self.check_point(x, "x")))[2]
        return replace(found, gap=found.gap + left, lower_bound=found.lower_bound - left)

    def reference(self) -> Array:
        """Return the joint minimiser by sequential quadratic programming, for small data; see ``distance``."""
        return joint_minimum(self.rules, self._dense_rows, self.l2)

    def distance(self, a: Array, b: Array) -> float:
        """Return the Euclidean distance."""
        return float(np.linalg.norm(np.asarray(a) - np.asarray(b)))

    # --- in blocks --------------------------------------------------------------------------------------------------

    def _blocks(self) -> Blocks:
        return Blocks(2, self.dimension + self.groups.rows, self._minimized)

    def _minimized(self, block: int, x: Array) -> Array:
        """Return the joint point (w, targets) with the targets at their best (block 0), or w (block 1)."""
        w, targets = x[: self.dimension], x[self.dimension :]
        if block == 0:
            return np.concatenate((w, self.fit(self._ordered(w)).targets))
        return np.concatenate((fit_weights(self.rules, self._dense_rows, self.l2, targets, w), targets))

    # --- what is particular -----------------------------------------------------------------------------------------

    def _remark(self, solution: Solution) -> str:
        """Return a remark if the minimum is trivial."""
        return _TRIVIAL if self.trivial_minimum else ""

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, by another minimisation over targets and offsets."""
        from convexrank.problems.margin_retargeting._definition import plain_risk

        return plain_risk(self, scores)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X, y, qid = drawn_queries(seed)
        return cls(X, y, qid, **random_options(rng, y))
