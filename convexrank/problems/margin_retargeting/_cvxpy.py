"""Margin-equipped retargeting stated twice more: the joint model in cvxpy, and one query in plain numpy and scipy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from convexrank.problems.margin_retargeting.margin_retargeting import MarginRetargeting

__all__ = ["CallbackRisk", "joint_model", "reference_fit", "steps_of_query"]

Array = np.ndarray


@dataclass(frozen=True)
class CallbackRisk:
    """The risk of a problem as a function that JAX can differentiate, by a callback.

    Parameters
    ----------
    problem : MarginRetargeting
        The problem.
    """

    problem: MarginRetargeting

    def __call__(self, data: Any, scores: Any) -> Any:
        """Return the risk of scores laid out query by query."""
        import jax

        from convexrank.backend.host_callback import call_on_host

        shapes = jax.ShapeDtypeStruct((), scores.dtype), jax.ShapeDtypeStruct(scores.shape, scores.dtype)

        def on_host(theta: Any) -> Any:
            return call_on_host(self._on_host, shapes, theta, vmap_method="sequential")

        risk = jax.custom_vjp(lambda theta: on_host(theta)[0])
        risk.defvjp(on_host, lambda gradient, change: (change * gradient,))
        return risk(scores)

    def _on_host(self, theta: Array) -> tuple[Array, Array]:
        value, gradient = self.problem.query_oracle(np.asarray(theta, dtype=np.float64))
        return np.asarray(value, theta.dtype), gradient.astype(theta.dtype)


def steps_of_query(problem: MarginRetargeting, query: int) -> tuple[Array, Array]:
    """The margins and the rewards of the steps of one query, lowest first, from what the caller wrote."""
    grades, levels = problem.grades[problem.stretch(query)], problem.levels.tolist()
    found = []
    specified: tuple[Any, Any] = (problem.margin, problem.reward)
    for given in specified:
        sizes: list[float] = []
        for upper in np.unique(grades)[1:].tolist():
            if callable(given):
                at_step: Any = given(np.array([(grades >= upper).sum()]))
                sizes.append(float(np.max(at_step)))
            elif isinstance(given, tuple):
                sizes.append(given[levels.index(upper) - 1])
            else:
                sizes.append(given or 0.0)
        found.append(np.array(sizes))
    return found[0], found[1]


def joint_model(problem: MarginRetargeting, scores: Any) -> tuple[Any, list[Any]]:
    """Return the cost in targets, offsets and scores, and the constraints, for cvxpy.

    Each block of equal grade lies between two levels of its own, so that the number of constraints is linear. Variables
    have values that satisfy all constraints at w = 0: nonlinear solvers start there.
    """
    import cvxpy as cp

    blocks, groups, rules = problem.blocks, problem.groups, problem.rules
    n, count = groups.rows, len(blocks.sizes)
    levels = _start(problem)
    limits: list[Any] = []
    # bounds of the variable, unlike constraints, hold at every point that a nonlinear solver looks at
    ends = None if problem.quadratic else [rules.low, rules.high]
    targets, predictors = cp.Variable(n, name="targets", bounds=ends), scores
    if rules.offsets:
        offsets = cp.Variable(len(groups), name="offsets")
        offsets.value = np.zeros(len(groups))
        predictors = scores + sparse.csr_array((np.ones(n), (np.arange(n), groups.query))) @ offsets
    floors, tops = cp.Variable(count, name="floors"), cp.Variable(count, name="tops")
    block = np.empty(n, dtype=np.int64)
    block[blocks.order] = np.repeat(np.arange(count), blocks.sizes)
    targets.value, floors.value, tops.value = levels[block], levels, levels
    place = sparse.csr_array((np.ones(n), (np.arange(n), block)))
    steps = np.flatnonzero(blocks.above)
    gaps = floors[steps] - tops[steps - 1]
    limits += [targets >= place @ floors, targets <= place @ tops, gaps >= problem.margins[steps]]
    if problem.quadratic:
        limits += [targets >= rules.low] if rules.low > -np.inf else []
        limits += [targets <= rules.high] if rules.high < np.inf else []
        return _squares(problem, targets, predictors) - problem.rewards[steps] @ gaps, limits
    if problem.divergence.total is not None:
        of_query = sparse.csr_array((np.ones(n), (groups.query, np.arange(n))))
        limits.append(of_query @ targets == problem.divergence.total)
    return _divergences(problem, targets, predictors) - problem.rewards[steps] @ gaps, limits


def _start(problem: MarginRetargeting) -> Array:
    """A level for each block that leaves all margins and bounds, and the sum where there is one."""
    rules, blocks = problem.rules, problem.blocks
    total = problem.divergence.total
    if total is not None:
        lowest = (total - blocks.groups.sums(rules.lift)) / blocks.groups.sizes
    else:
        high = np.minimum(rules.ceiling, max(rules.low, 0.0) + 1.0)
        lowest = 0.5 * (high + np.maximum(rules.low, high - 2.0))
    return rules.heights + lowest[blocks.queries]


def _squares(problem: MarginRetargeting, targets: Any, predictors: Any) -> Any:
    """The cost of targets and predictors, for the squared distance."""
    import cvxpy as cp

    rules, root = problem.rules, np.sqrt(problem.query_weights[problem.groups.query])
    cost = cp.sum_squares(cp.multiply(root, targets - predictors))
    if rules.score_reg:
        cost += rules.score_reg * cp.sum_squares(cp.multiply(root, predictors))
    if rules.target_reg:
        center = np.zeros(len(root)) if rules.center is None else rules.center
        cost += rules.target_reg * cp.sum_squares(cp.multiply(root, targets - center))
    return 0.5 * cost


def _divergences(problem: MarginRetargeting, targets: Any, predictors: Any) -> Any:
    """The same for other divergences, by the Fenchel-Young gap: φ(r) + φ*(s) - ⟨r, s⟩, and with q for s."""
    import cvxpy as cp

    rules, divergence, groups = problem.rules, problem.divergence, problem.groups
    c = problem.query_weights[groups.query]
    q = np.zeros(groups.rows) if rules.center is None else rules.center
    cost = cp.sum(cp.multiply((1.0 + rules.target_reg) * c, divergence._phi(targets)))
    cost += _conjugates(problem, predictors) + rules.target_reg * _conjugates(problem, q)
    cost -= cp.sum(cp.multiply(cp.multiply(c, targets), predictors))
    cost -= rules.target_reg * (c * q) @ targets
    if rules.score_reg:
        cost += 0.5 * rules.score_reg * cp.sum_squares(cp.multiply(np.sqrt(c), predictors))
    return cost


def _conjugates(problem: MarginRetargeting, s: Any) -> Any:
    """The conjugates of φ at s, each query with its weight, added up."""
    groups, weights = problem.groups, problem.query_weights
    if problem.divergence.total is None:
        return weights[groups.query] @ problem.divergence._conjugate(s)
    parts = (slice(*ends) for ends in pairwise(groups.offsets.tolist()))
    return sum(
        weight * problem.divergence.conjugate(s[part]) for weight, part in zip(weights, parts, strict=True)
    )


def reference_fit(problem: MarginRetargeting, query: int, scores: Array) -> tuple[float, Array]:
    """Return the weighted cost of one query and its gradient in the scores; scipy's regression and root search."""
    from scipy.optimize import brentq, isotonic_regression

    rules, weight = problem.rules, problem.query_weights[query]
    grades = problem.grades[problem.stretch(query)]
    center = np.zeros(len(scores)) if rules.center is None else rules.center[problem.stretch(query)]
    margins, rewards = steps_of_query(problem, query)
    rank = np.searchsorted(np.unique(grades), grades)
    share = 1.0 / (1.0 + rules.target_reg)
    near = share * scores + (1.0 - share) * center
    order = np.lexsort((near, rank))
    lift = np.concatenate(([0.0], np.cumsum(margins)))[rank]
    pulled = near[order] - lift[order]
    for step, reward in enumerate(rewards):
        first = int(np.flatnonzero(rank[order] == step + 1)[0])
        pulled[first] += share * reward / weight
        pulled[first - 1] -= share * reward / weight
    pooled = np.empty(len(scores))
    pooled[order] = isotonic_regression(pulled).x
    ceiling = rules.high - margins.sum()

    def targets(offset: float) -> Array:
        return np.minimum(np.maximum(pooled + share * offset, rules.low), ceiling) + lift

    def excess(offset: float) -> float:
        return float(((1.0 + rules.score_reg) * (scores + offset) - targets(offset)).sum())

    offset = 0.0
    if rules.offsets and not (rules.target_reg or rules.score_reg) and not np.isfinite(ceiling - rules.low):
        # nothing but one bound: far enough inside, everything moves along
        offset = min(0.0, ceiling - pooled.max()) if ceiling < np.inf else max(0.0, rules.low - pooled.min())
    elif rules.offsets and excess(0.0) != 0.0:
        reach = 1.0
        while excess(-reach) > 0 or excess(reach) < 0:
            reach *= 4.0
        offset = float(brentq(excess, -reach, reach, xtol=1e-14, maxiter=5000))  # type: ignore[arg-type]
    r, s = targets(offset), scores + offset
    cost = (r - s) @ (r - s) + rules.target_reg * (r - center) @ (r - center) + rules.score_reg * s @ s
    gaps = [r[rank == step + 1].min() - r[rank == step].max() for step in range(len(rewards))]
    value = 0.5 * weight * float(cost) - float(rewards @ np.array(gaps))
    return value, weight * (s - r + rules.score_reg * s)
