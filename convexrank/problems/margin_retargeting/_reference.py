"""Margin-equipped retargeting once more, from the definition: what certificates and tests rest on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from convexrank.modelling.kernels.plain import Runs
from convexrank.problems.margin_retargeting._joint_cost import Fit, JointCost, conjugate_of, phi_of
from convexrank.problems.retargeting._grade_blocks import Sizes

Array = np.ndarray

# How far targets without bounds, and offsets, are followed when it is asked what could be gained.
_FAR = 10.0


def evidence(cost: JointCost, fit: Fit, scores: Array) -> tuple[float, Array, float]:
    """Return the cost of the targets found for these scores, its slope in the scores, and a bound on its excess.

    The cost of all targets that satisfy the constraints is at least the optimum. The cost is convex, so the cost minus
    its largest decrease along a tangent is a lower bound.

    Parameters
    ----------
    cost : JointCost
        The joint cost.
    fit : Fit
        The targets and offsets that were found.
    scores : ndarray, shape (n,)
        Scores of the rows that count, query by query.
    """
    groups, query, r = cost.groups, cost.groups.query, fit.targets
    costs, slope, tangent = _without_rewards(cost, r, scores + fit.offsets[query])
    pull = fit.chain.scatter(-fit.chain.pulled(cost.rewards))
    value = costs + float(pull @ r)
    lowered, low, high = r - fit.chain.scatter(cost.lift), np.full(len(groups), cost.low), cost.ceiling
    if cost.simplex:  # targets keep their sum: a constant in the tangent changes nothing
        tangent = tangent - _multipliers(cost, fit, tangent + pull, lowered)[query]
    far = _FAR * np.maximum(1.0, groups.maxima(np.abs(lowered)))
    low = np.where(np.isfinite(low), low, groups.minima(lowered) - far)
    high = np.where(np.isfinite(high), high, groups.maxima(lowered) + far)
    falls = groups.sums((tangent + pull) * lowered) - _least_along(cost, tangent, low, high)
    # the best offset makes the slopes add up to nothing
    moves = np.abs(groups.sums(slope)) * _FAR * np.maximum(1.0, np.abs(fit.offsets)) if cost.offsets else 0.0
    return value, slope, float((np.maximum(falls, 0.0) + moves).sum())


def _without_rewards(cost: JointCost, r: Array, s: Array) -> tuple[float, Array, Array]:
    """Return the cost of targets r and parameters s, without rewards, and its slopes in s and in r."""
    divergence, groups, q = cost.divergence, cost.groups, cost.center
    c, cr, cw = cost.query_weights[groups.query], cost.target_reg, cost.score_reg
    costs = groups.sums((1.0 + cr) * phi_of(divergence, r) - r * (s + cr * q) + 0.5 * cw * s * s)
    costs += _conjugates(cost, s) + cr * _conjugates(cost, q)
    slope = c * (_links(cost, s) - r + cw * s)
    return float(cost.query_weights @ costs), slope, c * ((1.0 + cr) * divergence._slope(r) - s - cr * q)


def _multipliers(cost: JointCost, fit: Fit, tangent: Array, lowered: Array) -> Array:
    """The constant of each query: the mean slope of free targets, else one between those held at the bounds."""
    groups = cost.groups
    free = fit.chain.scatter((fit.pools >= 0).astype(np.float64))
    count = groups.sums(free)
    upper = lowered > 0.5 * (cost.low + cost.ceiling)[groups.query]
    between = np.maximum(groups.maxima(np.where(upper, tangent, -np.inf)), groups.minima(tangent))
    return np.where(count > 0, groups.sums(free * tangent) / np.maximum(count, 1.0), between)


def _least_along(cost: JointCost, tangent: Array, low: Array, high: Array) -> Array:
    """The least of ⟨tangent, z⟩ less rewards over z in order between two ends, for each query.

    A linear program over differences: its vertices take the two values only. They change from low to high between two
    grades, which earns the reward of that gap, or within one grade, which earns none.
    """
    blocks = cost.blocks
    along, own = tangent[blocks.order], blocks.queries
    starts, firsts = blocks.offsets[:-1], blocks.offsets_by_query[:-1]
    sums = np.add.reduceat(along, starts)
    ends = np.minimum(blocks.of_blocks(low[own]) * along, blocks.of_blocks(high[own]) * along)
    mixed = np.add.reduceat(ends, starts)
    begins = np.zeros(len(sums), dtype=bool)
    begins[firsts] = True
    below = Runs(begins).sums(sums) - sums
    totals = np.add.reduceat(sums, firsts)
    change = low[own] * below + high[own] * (totals[own] - below) - cost.rewards * (high - low)[own]
    within = low[own] * below + mixed + high[own] * (totals[own] - below - sums)
    return np.minimum(low * totals, np.minimum.reduceat(np.minimum(change, within), firsts))


def _conjugates(cost: JointCost, s: Array) -> Array:
    groups = cost.groups
    if not cost.simplex:
        return groups.sums(conjugate_of(cost.divergence, s))
    return np.log(groups.sums(np.exp(s - groups.maxima(s)[groups.query]))) + groups.maxima(s)


def _links(cost: JointCost, s: Array) -> Array:
    if not cost.simplex:
        return cost.divergence._point(s)
    return np.exp(s - _conjugates(cost, s)[cost.groups.query])


def plain_cost(cost: JointCost, query: int, scores: Array) -> tuple[float, Array]:
    """Return the weighted cost of one query for the squared distance, and its slope in the scores."""
    part, c, cw = cost.groups.slices[query], float(cost.query_weights[query]), cost.score_reg
    grades = cost.blocks.grades[part]
    r, offset = plain_targets(cost, query, scores)
    s, off = scores + offset, r - cost.center[part]
    value = 0.5 * float((r - s) @ (r - s) + cost.target_reg * off @ off + cw * s @ s)
    earned, own = 0.0, np.unique(grades)
    if cost.reward is not None:
        gaps = [r[grades == b].min() - r[grades == a].max() for a, b in itertools.pairwise(own)]
        earned = float(steps_of(cost.reward, grades, cost.levels, own) @ np.array(gaps))
    return c * value - earned, c * (s - r + cw * s)


def steps_of(given: Sizes, grades: Array, levels: Array, own: Array | None = None) -> Array:
    """The margins or rewards of the steps of one query, lowest first, from what the caller wrote.

    Parameters
    ----------
    given : number, tuple, callable or None
        What the caller wrote.
    grades : ndarray
        The grades of the query's rows.
    levels : ndarray
        All grades, ascending.
    own : ndarray, optional
        Those of the query, ascending, if they are known.
    """
    found: list[float] = []
    for upper in (np.unique(grades) if own is None else own)[1:].tolist():
        if callable(given):
            found.append(float(np.max(given(np.array([(grades >= upper).sum()])))))
        elif isinstance(given, tuple):
            found.append(given[levels.tolist().index(upper) - 1])
        else:
            found.append(given or 0.0)
    return np.array(found)


def plain_targets(cost: JointCost, query: int, scores: Array) -> tuple[Array, float]:
    """Return the best targets and the best offset of one query for the squared distance: an isotonic regression.

    Parameters
    ----------
    cost : JointCost
        The joint cost.
    query : int
        Which query.
    scores : ndarray, shape (rows of the query,)
        Scores.
    """
    from scipy.optimize import isotonic_regression

    part, cw, share = cost.groups.slices[query], cost.score_reg, cost.share
    grades = cost.blocks.grades[part]
    own, rank = np.unique(grades, return_inverse=True)
    margins = steps_of(cost.margin, grades, cost.levels, own)
    rewards = steps_of(cost.reward, grades, cost.levels, own)
    near = share * scores + (1.0 - share) * cost.center[part]
    order = np.lexsort((near, rank))
    lift = np.concatenate(([0.0], np.cumsum(margins)))[rank[order]]
    eta = near[order]
    for step in np.flatnonzero(rewards).tolist():
        reward = share * rewards[step] / cost.query_weights[query]
        first = int(np.flatnonzero(rank[order] == step + 1)[0])
        eta[first] += reward
        eta[first - 1] -= reward
    low, ceiling = cost.low, cost.high - lift[-1]
    pooled = isotonic_regression(eta - lift).x

    def targets(shift: float) -> Array:
        found = np.empty(len(scores))
        found[order] = np.clip(pooled + shift, low, ceiling) + lift
        return found

    if not cost.offsets:
        offset = 0.0
    elif not (cost.target_reg or cw or math.isfinite(ceiling - low)):
        # with one bound only, all targets far enough inside move along with the offset
        offset = min(0.0, ceiling - pooled.max()) if ceiling < np.inf else max(0.0, low - pooled.min())
    else:
        offset = _root(lambda beta: float(((1.0 + cw) * (scores + beta) - targets(share * beta)).sum()))
    return targets(share * offset), offset


def _root(rising: Callable[[float], float]) -> float:
    """The root of a function that rises from below 0 to above it."""
    from scipy.optimize import brentq

    end = 1.0
    while not rising(-end) <= 0.0 <= rising(end):
        end *= 2.0
    return float(brentq(rising, -end, end, xtol=1e-15, rtol=1e-15, maxiter=5000))  # type: ignore[arg-type]


def joint_minimum(cost: JointCost, rows: Array, l2: float) -> Array:
    """Return the w of the joint minimum over weights, targets and offsets, by sequential quadratic programming.

    Constraints pair by pair, for small data only; good to about 1e-6. The cost is jointly convex, but no rule of
    cvxpy's shows it: -⟨r, s⟩ is convex only together with the rest.

    Parameters
    ----------
    cost : JointCost
        The joint cost.
    rows : ndarray, shape (n, d)
        Features, query by query.
    l2 : float
        Strength.
    """
    import scipy.optimize

    groups, (n, d), m = cost.groups, rows.shape, len(cost.groups)
    steps, limits, least = int(cost.blocks.above.sum()), [], []
    size, gap = d + n + m + steps, d + n + m
    reward = np.zeros(size)
    for query in range(m):
        places = np.arange(n)[cost.groups.slices[query]]
        grades = cost.blocks.grades[places]
        margins, rewards = (steps_of(given, grades, cost.levels) for given in (cost.margin, cost.reward))
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
    constraints = [scipy.optimize.LinearConstraint(np.array(limits), np.array(least), most)]  # type: ignore[arg-type]
    if cost.simplex:
        sums = np.zeros((m, size))
        sums[groups.query, d + np.arange(n)] = 1.0
        constraints.append(scipy.optimize.LinearConstraint(sums, np.ones(m), np.ones(m)))  # type: ignore[arg-type]
    free = np.full(size - d - n, np.inf)
    box = scipy.optimize.Bounds(
        np.r_[np.full(d, -np.inf), np.full(n, cost.low), -free],  # type: ignore[arg-type]
        np.r_[np.full(d, np.inf), np.full(n, cost.high), free],  # type: ignore[arg-type]
    )

    def evaluate(x: Array) -> tuple[float, Array]:
        w, r, offsets = x[:d], x[d : d + n], x[d + n : d + n + m] if cost.offsets else np.zeros(m)
        costs, slope, towards = _without_rewards(cost, r, rows @ w + offsets[groups.query])
        value = costs + 0.5 * l2 * float(w @ w) - float(reward @ x)
        of_offsets = groups.sums(slope) if cost.offsets else np.zeros(m)
        return value, np.r_[rows.T @ slope + l2 * w, towards, of_offsets, np.zeros(steps)] - reward

    start = np.zeros(size)
    fit = cost.fit(np.zeros(n))
    start[d : d + n], start[d + n : d + n + m] = fit.targets, fit.offsets
    start[d + n + m :] = fit.chain.gaps(fit.targets)[cost.blocks.above]
    options = {"ftol": 1e-15, "maxiter": 2000}
    found = scipy.optimize.minimize(
        evaluate, start, jac=True, method="SLSQP", bounds=box, constraints=constraints, options=options
    )
    return found.x[:d]
