"""Margin-equipped retargeting stated once more: the joint model in cvxpy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.problems.margin_retargeting._joint_cost import JointCost

Array = np.ndarray


def joint_model(cost: JointCost, scores: Any) -> tuple[Any, list[Any]]:
    """Return the cost in targets, offsets and scores, and the constraints, for cvxpy.

    Each block of equal grade lies between two levels of its own, so that the number of constraints is linear. Variables
    have values that satisfy all constraints at w = 0: nonlinear solvers start there.
    """
    import cvxpy as cp

    blocks, groups = cost.blocks, cost.groups
    n, count = groups.rows, len(blocks.sizes)
    levels = _start(cost)
    limits: list[Any] = []
    # bounds of the variable, unlike constraints, hold at every point that a nonlinear solver looks at
    ends = None if cost.quadratic else [cost.low, cost.high]
    targets, predictors = cp.Variable(n, name="targets", bounds=ends), scores
    if cost.offsets:
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
    limits += [targets >= place @ floors, targets <= place @ tops, gaps >= cost.margins[steps]]
    if cost.quadratic:
        limits += [targets >= cost.low] if cost.low > -np.inf else []
        limits += [targets <= cost.high] if cost.high < np.inf else []
        return _squares(cost, targets, predictors) - cost.rewards[steps] @ gaps, limits
    if cost.divergence.total is not None:
        of_query = sparse.csr_array((np.ones(n), (groups.query, np.arange(n))))
        limits.append(of_query @ targets == cost.divergence.total)
    return _divergences(cost, targets, predictors) - cost.rewards[steps] @ gaps, limits


def _start(cost: JointCost) -> Array:
    """Return a level for each block, with all margins and bounds satisfied, and the sum if there is one."""
    blocks, total = cost.blocks, cost.divergence.total
    if total is not None:
        lowest = (total - blocks.groups.sums(cost.lift)) / blocks.groups.sizes
    else:
        high = np.minimum(cost.ceiling, max(cost.low, 0.0) + 1.0)
        lowest = 0.5 * (high + np.maximum(cost.low, high - 2.0))
    return cost.heights + lowest[blocks.queries]


def _squares(cost: JointCost, targets: Any, predictors: Any) -> Any:
    """The cost of targets and predictors, for the squared distance."""
    import cvxpy as cp

    root = np.sqrt(cost.query_weights[cost.groups.query])
    total = cp.sum_squares(cp.multiply(root, targets - predictors))
    if cost.score_reg:
        total += cost.score_reg * cp.sum_squares(cp.multiply(root, predictors))
    if cost.target_reg:
        total += cost.target_reg * cp.sum_squares(cp.multiply(root, targets - cost.center))
    return 0.5 * total


def _divergences(cost: JointCost, targets: Any, predictors: Any) -> Any:
    """The same for other divergences, by the Fenchel-Young gap: φ(r) + φ*(s) - ⟨r, s⟩, and with q for s."""
    import cvxpy as cp

    c, q, cr = cost.query_weights[cost.groups.query], cost.center, cost.target_reg
    total = cp.sum(cp.multiply((1.0 + cr) * c, cost.divergence._phi(targets)))
    total += _conjugates(cost, predictors) + cr * _conjugates(cost, q)
    total -= cp.sum(cp.multiply(cp.multiply(c, targets), predictors)) + cr * (c * q) @ targets
    if cost.score_reg:
        total += 0.5 * cost.score_reg * cp.sum_squares(cp.multiply(np.sqrt(c), predictors))
    return total


def _conjugates(cost: JointCost, s: Any) -> Any:
    """The conjugates of φ at s, each query with its weight, added up."""
    groups, weights = cost.groups, cost.query_weights
    if cost.divergence.total is None:
        return weights[groups.query] @ cost.divergence._conjugate(s)
    parts = (slice(*ends) for ends in pairwise(groups.offsets.tolist()))
    return sum(
        weight * cost.divergence.conjugate(s[part]) for weight, part in zip(weights, parts, strict=True)
    )
