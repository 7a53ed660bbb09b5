"""Margin-equipped retargeting stated again: from its formula in plain loops, and as a joint model in cvxpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from convexrank.backend.design import picks
from convexrank.divergences import KL, SquaredEuclidean
from convexrank.problems._plain import Generator, exp, generator_of, queries_of, rising_means, root
from convexrank.problems.margin_retargeting._joint_cost import JointCost

# Targets stay so far inside the ends of a domain.
_INSIDE = 1e-12

# A sum of targets less predictions that is relatively smaller is rounding.
_ROUNDING = 1e-14


def plain_risk(problem: Any, scores: Any) -> float:
    """Return the risk of a MarginRetargeting at the scores of all rows, minimised over targets and offsets.

    Along the order of a query, grade by grade and by score within a grade, the best targets are z + lift, where lift
    is the sum of the margins below and z rises: a regression in pools, each at the root of its slopes. Of the best
    offset, and of the constant that makes the targets of KL add up to 1, one equation a query is solved.
    """
    f, y, risk = [float(score) for score in scores], problem.y.tolist(), 0.0
    q = [0.0] * len(f) if problem.center is None else problem.center.tolist()
    levels, divergence = sorted(set(y)), problem.divergence
    reg, score_reg = problem.target_reg, problem.score_reg
    g, kl = generator_of(divergence), isinstance(divergence, KL)
    ends = (-math.inf, math.inf) if problem.bound is None else problem.bound
    low, high = max(ends[0], g.low + _INSIDE), min(ends[1], g.high - _INSIDE)
    share = 1.0 / (1.0 + reg)
    for rows in queries_of(problem.qid, len(f)):
        own = sorted({y[j] for j in rows})
        if len(own) == 1:
            continue
        above = [sum(y[j] >= grade for j in rows) for grade in own[1:]]
        steps = list(zip(own[1:], above, strict=True))
        margins = [_size(problem.margin, grade, count, levels) for grade, count in steps]
        rewards = [_size(problem.reward, grade, count, levels) for grade, count in steps]
        c = 1.0 / len(rows) if problem.normalize else 1.0
        chain = sorted(rows, key=lambda j: (y[j], f[j] + reg * q[j]))
        step = [own.index(y[j]) for j in chain]  # the number of margins below
        lift = [sum(margins[:number]) for number in step]
        pull = [share * (f[j] + reg * q[j]) for j in chain]
        # for the least target of a grade less the largest one below
        for number, reward in enumerate(rewards):
            first = step.index(number + 1)
            pull[first] += share * reward / c
            pull[first - 1] -= share * reward / c

        def targets(shift: float, pull: list[float] = pull, lift: list[float] = lift) -> list[float]:
            top = high - lift[-1]
            if isinstance(divergence, SquaredEuclidean):
                pooled = rising_means([p - up for p, up in zip(pull, lift, strict=True)])
                pooled = [min(max(z + shift, low), top) for z in pooled]
            else:
                pooled = _rising_levels([p + shift for p in pull], lift, g, low, top)
            return [z + up for z, up in zip(pooled, lift, strict=True)]

        if kl:
            # the shortest s; D does not see it
            beta = -sum(f[j] for j in rows) / len(rows) if problem.offsets else 0.0
            r = targets(root(lambda level, targets=targets: sum(targets(level)) - 1.0, 0.0))
        else:

            def excess(beta: float, chain: list[int] = chain, targets: Callable[..., Any] = targets) -> float:
                terms = [g.link(f[j] + beta) + score_reg * (f[j] + beta) for j in chain]
                terms += [-target for target in targets(share * beta)]
                found = sum(terms)
                size = sum(map(abs, terms))
                return found if not abs(found) <= _ROUNDING * size else 0.0

            beta = root(excess, 0.0) if problem.offsets else 0.0
            r = targets(share * beta)
        s = [f[j] + beta for j in chain]
        cost = _between(r, s, g, divergence) + reg * _between(r, [q[j] for j in chain], g, divergence)
        risk += c * (cost + 0.5 * score_reg * math.fsum(score * score for score in s))
        for number, reward in enumerate(rewards):
            first = step.index(number + 1)
            risk -= reward * (r[first] - r[first - 1])
    return risk


def _size(given: Any, grade: float, above: int, levels: list[float]) -> float:
    """The size of the step up to a grade: one number, one for each grade but the lowest, or a function of ranks."""
    if callable(given):
        return float(np.max(np.asarray(given(np.array([above])))))
    return given[levels.index(grade) - 1] if isinstance(given, tuple) else given or 0.0


def _between(r: list[float], s: list[float], g: Generator, divergence: Any) -> float:
    """The divergence of targets from the predictions of natural parameters s."""
    if isinstance(divergence, SquaredEuclidean):
        return 0.5 * math.fsum((target - score) ** 2 for target, score in zip(r, s, strict=True))
    pairing = math.fsum(g.phi(target) - target * score for target, score in zip(r, s, strict=True))
    if isinstance(divergence, KL):
        top = max(s)
        return pairing + top + math.log(sum(exp(score - top) for score in s))
    return pairing + math.fsum(g.conjugate(score) for score in s)


def _rising_levels(
    pull: list[float], lift: list[float], g: Generator, low: float, high: float
) -> list[float]:
    """Minimise the sum of φ(z + lift) − pull·z over rising z from low to high, by pools of neighbours."""
    pools: list[tuple[int, float]] = []
    for place in range(len(pull)):
        first = place
        while True:
            part = range(first, place + 1)

            def slope(z: float, part: range = part) -> float:
                return sum(g.slope(z + lift[k]) - pull[k] for k in part)

            level = root(slope, g.link(pull[place]) - lift[place], low, high)
            if not pools or pools[-1][1] <= level:
                break
            first = pools.pop()[0]
        pools.append((first, level))
    bounds = [first for first, _ in pools[1:]] + [len(pull)]
    return [level for (first, level), end in zip(pools, bounds, strict=True) for _ in range(first, end)]


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
        predictors = scores + picks(groups.query, len(groups)) @ offsets
    floors, tops = cp.Variable(count, name="floors"), cp.Variable(count, name="tops")
    block = np.empty(n, dtype=np.int64)
    block[blocks.order] = np.repeat(np.arange(count), blocks.sizes)
    targets.value, floors.value, tops.value = levels[block], levels, levels
    place = picks(block, count)
    steps = np.flatnonzero(blocks.above)
    gaps = floors[steps] - tops[steps - 1]
    limits += [targets >= place @ floors, targets <= place @ tops, gaps >= cost.margins[steps]]
    if cost.quadratic:
        limits += [targets >= cost.low] if cost.low > -np.inf else []
        limits += [targets <= cost.high] if cost.high < np.inf else []
        return _squares(cost, targets, predictors) - cost.rewards[steps] @ gaps, limits
    if cost.divergence.total is not None:
        limits.append(picks(groups.query, len(groups)).T @ targets == cost.divergence.total)
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
