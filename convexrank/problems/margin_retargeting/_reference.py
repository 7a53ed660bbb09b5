"""Margin-equipped retargeting with other divergences, once more: what certificates and tests rest on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from convexrank.problems.margin_retargeting._cvxpy import steps_of_query
from convexrank.problems.margin_retargeting._targets_bregman import conjugate_of, phi_of

if TYPE_CHECKING:
    from convexrank.divergences import Divergence
    from convexrank.problems.margin_retargeting._targets_squared import Fit
    from convexrank.problems.margin_retargeting.margin_retargeting import MarginRetargeting

__all__ = ["evidence", "joint_minimum", "plain_cost"]

Array = np.ndarray

# How far targets without bounds, and offsets, are followed when it is asked what could be gained.
_FAR = 10.0


def evidence(problem: MarginRetargeting, scores: Array) -> tuple[float, Array, float]:
    """Return what the targets found for these scores cost, the slope in the scores, and what is left to gain.

    However they were found, targets that satisfy the constraints cost at least the optimum. Their cost is convex, so
    less its largest fall along a tangent it is a lower bound.

    Parameters
    ----------
    problem : MarginRetargeting
        The problem.
    scores : ndarray, shape (n,)
        Scores of the rows that count, query by query.
    """
    divergence, groups, rules = problem.divergence, problem.groups, problem.rules
    fit, query = problem.fit(scores), groups.query
    c, r, s = problem.query_weights[query], fit.targets, scores + fit.offsets[query]
    q = np.zeros_like(r) if rules.center is None else rules.center
    cr, cw = rules.target_reg, rules.score_reg
    phi, conjugates = phi_of(divergence, r), [_conjugates(problem, values) for values in (s, q)]
    costs = (
        groups.sums((1.0 + cr) * phi - r * (s + cr * q) + 0.5 * cw * s * s)
        + conjugates[0]
        + cr * conjugates[1]
    )
    slope = c * (_links(problem, s) - r + cw * s)
    tangent = c * ((1.0 + cr) * divergence._slope(r) - s - cr * q)
    pull = fit.chain.scatter(-fit.chain.pulled(problem.rewards))
    value = float(problem.query_weights @ costs + pull @ r)
    lift = np.empty_like(r)
    lift[fit.chain.order] = rules.lift
    lowered, low, high = r - lift, np.full(len(groups), rules.low), rules.ceiling
    if divergence.total is not None:  # targets keep their sum: a constant in the tangent changes nothing
        tangent = tangent - _multipliers(problem, fit, tangent + pull, lowered)[query]
    far = _FAR * np.maximum(1.0, groups.maxima(np.abs(lowered)))
    low = np.where(np.isfinite(low), low, groups.minima(lowered) - far)
    high = np.where(np.isfinite(high), high, groups.maxima(lowered) + far)
    falls = groups.sums((tangent + pull) * lowered) - _least_along(problem, tangent, low, high)
    # the best offset makes the slopes add up to nothing
    moves = np.abs(groups.sums(slope)) * _FAR * np.maximum(1.0, np.abs(fit.offsets)) if rules.offsets else 0.0
    return value, slope, float((np.maximum(falls, 0.0) + moves).sum())


def _multipliers(problem: MarginRetargeting, fit: Fit, tangent: Array, lowered: Array) -> Array:
    """The constant of each query: the mean slope of free targets, else one between those held at the bounds."""
    groups, rules = problem.groups, problem.rules
    free = fit.chain.scatter((fit.pools >= 0).astype(np.float64))
    count = groups.sums(free)
    upper = lowered > 0.5 * (rules.low + rules.ceiling)[groups.query]
    between = np.maximum(groups.maxima(np.where(upper, tangent, -np.inf)), groups.minima(tangent))
    return np.where(count > 0, groups.sums(free * tangent) / np.maximum(count, 1.0), between)


def _least_along(problem: MarginRetargeting, tangent: Array, low: Array, high: Array) -> Array:
    """The least of ⟨tangent, z⟩ less rewards over z in order between two ends, for each query.

    A linear program over differences: its vertices take the two values only. They change from low to high between two
    grades, which earns the reward of that gap, or within one grade, which earns none.
    """
    blocks = problem.blocks
    along, own = tangent[blocks.order], blocks.queries
    starts, firsts = blocks.offsets[:-1], blocks.offsets_by_query[:-1]
    sums = np.add.reduceat(along, starts)
    ends = np.minimum(blocks.of_blocks(low[own]) * along, blocks.of_blocks(high[own]) * along)
    mixed = np.add.reduceat(ends, starts)
    before = sums.cumsum() - sums
    below = before - before[firsts][own]
    totals = np.add.reduceat(sums, firsts)
    change = low[own] * below + high[own] * (totals[own] - below) - problem.rewards * (high - low)[own]
    within = low[own] * below + mixed + high[own] * (totals[own] - below - sums)
    return np.minimum(low * totals, np.minimum.reduceat(np.minimum(change, within), firsts))


def _conjugates(problem: MarginRetargeting, s: Array) -> Array:
    groups = problem.groups
    if problem.divergence.total is None:
        return groups.sums(conjugate_of(problem.divergence, s))
    return np.log(groups.sums(np.exp(s - groups.maxima(s)[groups.query]))) + groups.maxima(s)


def _links(problem: MarginRetargeting, s: Array) -> Array:
    if problem.divergence.total is None:
        return problem.divergence._point(s)
    return np.exp(s - _conjugates(problem, s)[problem.groups.query])


def plain_cost(problem: MarginRetargeting, query: int, scores: Array) -> tuple[float, Array]:
    """Return the weighted cost of one query with the targets of :func:`plain_targets`, and its slope in the scores."""
    divergence, c = problem.divergence, float(problem.query_weights[query])
    r, offset = plain_targets(problem, query, scores)
    s, q, cw = scores + offset, _center(problem, query, len(scores)), problem.rules.score_reg
    cost = _pair(divergence, r, s) + problem.target_reg * _pair(divergence, r, q) + 0.5 * cw * float(s @ s)
    grades = problem.grades[problem.stretch(query)]
    levels, (_, rewards) = np.unique(grades), steps_of_query(problem, query)
    gaps = [r[grades == b].min() - r[grades == a].max() for a, b in itertools.pairwise(levels)]
    return c * cost - float(rewards @ np.array(gaps)), c * (_link(divergence, s) - r + cw * s)


def _center(problem: MarginRetargeting, query: int, length: int) -> Array:
    center = problem.rules.center
    return np.zeros(length) if center is None else center[problem.stretch(query)]


def _pair(divergence: Divergence, r: Array, s: Array) -> float:
    """The divergence of targets from the link of s, by the Fenchel-Young gap."""
    phi = float(np.sum(phi_of(divergence, r)))
    if divergence.total is not None:
        return phi + float(np.logaddexp.reduce(s)) - float(r @ s)
    return phi + float(np.sum(conjugate_of(divergence, s))) - float(r @ s)


def _link(divergence: Divergence, s: Array) -> Array:
    if divergence.total is not None:
        return np.exp(s - np.logaddexp.reduce(s))
    return divergence._point(s)


def plain_targets(problem: MarginRetargeting, query: int, scores: Array) -> tuple[Array, float]:
    """Return the best targets and the best offset of one query: pool by pool, each level by root search.

    Parameters
    ----------
    problem : MarginRetargeting
        The problem.
    query : int
        Which query.
    scores : ndarray, shape (rows of the query,)
        Scores.
    """
    divergence, cr, cw = problem.divergence, problem.target_reg, problem.rules.score_reg
    grades = problem.grades[problem.stretch(query)]
    q, share, c = _center(problem, query, len(scores)), 1.0 / (1.0 + cr), problem.query_weights[query]
    margins, rewards = steps_of_query(problem, query)
    rank = np.searchsorted(np.unique(grades), grades)
    near = share * scores + (1.0 - share) * q
    order = np.lexsort((near, rank))
    lift = np.concatenate(([0.0], np.cumsum(margins)))[rank[order]]
    eta = near[order]
    for step, reward in enumerate(rewards):
        first = int(np.flatnonzero(rank[order] == step + 1)[0])
        eta[first] += share * reward / c
        eta[first - 1] -= share * reward / c
    ceiling = problem.rules.high - lift[-1]

    def targets(shift: float) -> Array:
        found = np.empty(len(scores))
        levels = _pooled_levels(divergence, eta + shift, lift)
        found[order] = np.clip(levels, problem.rules.low, ceiling) + lift
        return found

    offset = 0.0
    if divergence.total is not None:
        if problem.offsets:
            offset = -float(scores.mean())
        return targets(_root(lambda shift: float(targets(shift).sum()) - 1.0)), offset
    if problem.offsets:
        offset = _root(
            lambda beta: float(
                (_link(divergence, scores + beta) + cw * (scores + beta) - targets(share * beta)).sum()
            )
        )
    return targets(share * offset), offset


def _pooled_levels(divergence: Divergence, eta: Array, lift: Array) -> Array:
    """Minimise Σ φ(z_j + lift_j) − η_j z_j over non-decreasing z: pool neighbours whose levels are out of order."""
    pools: list[tuple[int, int, float]] = []
    for place in range(len(eta)):
        pools.append((place, place + 1, _level(divergence, eta[place : place + 1], lift[place : place + 1])))
        while len(pools) > 1 and pools[-2][2] > pools[-1][2]:
            (start, _, _), (_, end, _) = pools[-2:]
            pools[-2:] = [(start, end, _level(divergence, eta[start:end], lift[start:end]))]
    return np.concatenate([np.full(end - start, level) for start, end, level in pools])


def _level(divergence: Divergence, eta: Array, lift: Array) -> float:
    """The z at which the slopes of a pool add up to its parameters."""
    if (lift == lift[0]).all():
        return float(divergence._point(np.array([eta.mean()]))[0]) - float(lift[0])
    domain = divergence.domain
    low, high = domain.lower - float(lift.min()), domain.upper - float(lift.max())
    if high <= low:
        return low if eta.mean() < 0 else high
    return _root(lambda z: float((divergence._slope(z + lift) - eta).sum()), low, high)


def _root(evaluate: Callable[[float], float], low: float = -math.inf, high: float = math.inf) -> float:
    """The root of an increasing function between the ends, or the end that is nearest."""
    from scipy.optimize import brentq

    middle = 0.5 * (low + high) if math.isfinite(high - low) else (low + 1.0 if math.isfinite(low) else 0.0)
    ends = []
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for side, end in ((-1.0, low), (1.0, high)):
            for k in range(1, 60):
                near = end + (middle - end) * 0.5**k if math.isfinite(end) else middle + side * 2.0 ** (k - 1)
                if side * evaluate(near) >= 0:
                    break
            ends.append(near)
        if not evaluate(ends[0]) <= 0 <= evaluate(ends[1]):
            return ends[0] if evaluate(ends[0]) > 0 else ends[1]
        return float(brentq(evaluate, *ends, xtol=1e-15, rtol=1e-15, maxiter=5000))  # type: ignore[arg-type]


def joint_minimum(problem: MarginRetargeting) -> Array:
    """Return the w of the joint minimum over weights, targets and offsets, by sequential quadratic programming.

    Constraints pair by pair, for small data only; good to about 1e-6. The cost is jointly convex, but no rule of
    cvxpy's shows it: -⟨r, s⟩ is convex only together with the rest.

    Parameters
    ----------
    problem : MarginRetargeting
        The problem, without l1.
    """
    import scipy.optimize

    groups, rules, d = problem.groups, problem.rules, problem.dimension
    n, m, rows = groups.rows, len(groups), np.asarray(problem._dense_rows)
    steps, limits, least = int(problem.blocks.above.sum()), [], []
    size, gap = d + n + m + steps, d + n + m
    reward = np.zeros(size)
    for query in range(m):
        places = np.arange(groups.offsets[query], groups.offsets[query + 1])
        grades, (margins, rewards) = problem.grades[places], steps_of_query(problem, query)
        levels = np.unique(grades)
        for step in range(len(margins)):
            for above in places[grades == levels[step + 1]]:
                for below in places[grades == levels[step]]:
                    limits.append(np.zeros(size))
                    limits[-1][[d + above, d + below, gap]] = 1.0, -1.0, -1.0
                    least.append(0.0)
            limits.append(np.eye(size)[gap])
            least.append(margins[step])
            reward[gap] = rewards[step]
            gap += 1
    most = np.full(len(least), np.inf)
    held = [scipy.optimize.LinearConstraint(np.array(limits), np.array(least), most)]  # type: ignore[arg-type]
    if problem.divergence.total is not None:
        sums = np.zeros((m, size))
        sums[groups.query, d + np.arange(n)] = 1.0
        held.append(scipy.optimize.LinearConstraint(sums, np.ones(m), np.ones(m)))  # type: ignore[arg-type]
    free = np.full(size - d - n, np.inf)
    box = scipy.optimize.Bounds(
        np.r_[np.full(d, -np.inf), np.full(n, rules.low), -free],  # type: ignore[arg-type]
        np.r_[np.full(d, np.inf), np.full(n, rules.high), free],  # type: ignore[arg-type]
    )

    def cost(x: Array) -> tuple[float, Array]:
        w, r, offsets = x[:d], x[d : d + n], x[d + n : d + n + m] if problem.offsets else np.zeros(m)
        scores, value = rows @ w, 0.5 * problem.l2 * float(w @ w) - float(reward @ x)
        slope, towards = np.empty(n), np.empty(n)
        cr, cw = problem.target_reg, rules.score_reg
        for query in range(m):
            part, c = problem.stretch(query), float(problem.query_weights[query])
            q, s = _center(problem, query, part.stop - part.start), scores[part] + offsets[query]
            value += c * (_pair(problem.divergence, r[part], s) + cr * _pair(problem.divergence, r[part], q))
            value += 0.5 * c * cw * float(s @ s)
            slope[part] = c * (_link(problem.divergence, s) - r[part] + cw * s)
            towards[part] = c * ((1.0 + cr) * problem.divergence._slope(r[part]) - s - cr * q)
        of_offsets = groups.sums(slope) if problem.offsets else np.zeros(m)
        gradient = np.r_[rows.T @ slope + problem.l2 * w, towards, of_offsets, np.zeros(steps)] - reward
        return value, gradient

    start = np.zeros(size)
    fit = problem.fit(np.zeros(n))
    start[d : d + n], start[d + n : d + n + m] = fit.targets, fit.offsets
    start[d + n + m :] = fit.chain.gaps(fit.targets)[problem.blocks.above]
    options = {"ftol": 1e-15, "maxiter": 2000}
    found = scipy.optimize.minimize(
        cost, start, jac=True, method="SLSQP", bounds=box, constraints=held, options=options
    )
    return found.x[:d]
