"""Margin-equipped retargeting once more, from the definition: what certificates and tests rest on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from convexrank.divergences import Divergence, SquaredEuclidean
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
    divergence, groups, query = cost.divergence, cost.groups, cost.groups.query
    c, r, s, q = cost.query_weights[query], fit.targets, scores + fit.offsets[query], cost.center
    cr, cw = cost.target_reg, cost.score_reg
    costs = groups.sums((1.0 + cr) * phi_of(divergence, r) - r * (s + cr * q) + 0.5 * cw * s * s)
    costs += _conjugates(cost, s) + cr * _conjugates(cost, q)
    slope = c * (_links(cost, s) - r + cw * s)
    tangent = c * ((1.0 + cr) * divergence._slope(r) - s - cr * q)
    pull = fit.chain.scatter(-fit.chain.pulled(cost.rewards))
    value = float(cost.query_weights @ costs + pull @ r)
    lowered, low, high = r - fit.chain.scatter(cost.lift), np.full(len(groups), cost.low), cost.ceiling
    if divergence.total is not None:  # targets keep their sum: a constant in the tangent changes nothing
        tangent = tangent - _multipliers(cost, fit, tangent + pull, lowered)[query]
    far = _FAR * np.maximum(1.0, groups.maxima(np.abs(lowered)))
    low = np.where(np.isfinite(low), low, groups.minima(lowered) - far)
    high = np.where(np.isfinite(high), high, groups.maxima(lowered) + far)
    falls = groups.sums((tangent + pull) * lowered) - _least_along(cost, tangent, low, high)
    # the best offset makes the slopes add up to nothing
    moves = np.abs(groups.sums(slope)) * _FAR * np.maximum(1.0, np.abs(fit.offsets)) if cost.offsets else 0.0
    return value, slope, float((np.maximum(falls, 0.0) + moves).sum())


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
    before = sums.cumsum() - sums
    below = before - before[firsts][own]
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
    """Return the weighted cost of one query with the targets of :func:`plain_targets`, and its slope in the scores."""
    divergence, part, c = cost.divergence, cost.groups.slices[query], float(cost.query_weights[query])
    r, offset = plain_targets(cost, query, scores)
    s, cw, grades = scores + offset, cost.score_reg, cost.blocks.grades[part]
    value = _pair(divergence, r, s) + 0.5 * cw * float(s @ s)
    if cost.target_reg:
        value += cost.target_reg * _pair(divergence, r, cost.center[part])
    earned, own = 0.0, np.unique(grades)
    if cost.reward is not None:
        gaps = [r[grades == b].min() - r[grades == a].max() for a, b in itertools.pairwise(own)]
        earned = float(steps_of(cost.reward, grades, cost.levels, own) @ np.array(gaps))
    return c * value - earned, c * (_link(divergence, s) - r + cw * s)


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


def _pair(divergence: Divergence, r: Array, s: Array) -> float:
    """The divergence of targets from the link of s, by the Fenchel-Young gap."""
    if isinstance(divergence, SquaredEuclidean):  # where the gap cancels
        return 0.5 * float((r - s) @ (r - s))
    phi = float(np.sum(phi_of(divergence, r)))
    if divergence.total is not None:
        return phi + float(np.logaddexp.reduce(s)) - float(r @ s)
    return phi + float(np.sum(conjugate_of(divergence, s))) - float(r @ s)


def _link(divergence: Divergence, s: Array) -> Array:
    if divergence.total is not None:
        return np.exp(s - np.logaddexp.reduce(s))
    return divergence._point(s)


def plain_targets(cost: JointCost, query: int, scores: Array) -> tuple[Array, float]:
    """Return the best targets and the best offset of one query.

    By scipy's isotonic regression for squares; else pool by pool, each level by root search.

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

    divergence, part, cw, share = cost.divergence, cost.groups.slices[query], cost.score_reg, cost.share
    grades = cost.blocks.grades[part]
    own, rank = np.unique(grades, return_inverse=True)
    margins = steps_of(cost.margin, grades, cost.levels, own)
    rewards = steps_of(cost.reward, grades, cost.levels, own)
    near = share * scores + (1.0 - share) * cost.center[part]
    order = np.lexsort((near, rank))
    lift = np.concatenate(([0.0], np.cumsum(margins)))[rank[order]]
    eta = near[order]
    for step in np.flatnonzero(rewards).tolist():
        reward = rewards[step]
        first = int(np.flatnonzero(rank[order] == step + 1)[0])
        eta[first] += share * reward / cost.query_weights[query]
        eta[first - 1] -= share * reward / cost.query_weights[query]
    low, ceiling = cost.low, cost.high - lift[-1]
    pooled = isotonic_regression(eta - lift).x if cost.quadratic else eta

    def targets(shift: float) -> Array:
        found = np.empty(len(scores))
        levels = pooled + shift if cost.quadratic else _pooled_levels(divergence, eta + shift, lift)
        found[order] = np.clip(levels, low, ceiling) + lift
        return found

    def excess(offset: float) -> float:
        s = scores + offset
        return float((_link(divergence, s) + cw * s - targets(share * offset)).sum())

    if cost.simplex:
        offset = -float(scores.mean()) if cost.offsets else 0.0
        return targets(_root(lambda shift: float(targets(shift).sum()) - 1.0)), offset
    if not cost.offsets:
        offset = 0.0
    elif cost.quadratic and not (cost.target_reg or cw or math.isfinite(ceiling - low)):
        # with one bound only, all targets far enough inside move along with the offset
        offset = min(0.0, ceiling - pooled.max()) if ceiling < np.inf else max(0.0, low - pooled.min())
    else:
        offset = _root(excess)
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

    groups, divergence, (n, d), m = cost.groups, cost.divergence, rows.shape, len(cost.groups)
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
        scores, value = rows @ w, 0.5 * l2 * float(w @ w) - float(reward @ x)
        slope, towards = np.empty(n), np.empty(n)
        cr, cw = cost.target_reg, cost.score_reg
        for query in range(m):
            part, c = cost.groups.slices[query], float(cost.query_weights[query])
            q, s = cost.center[part], scores[part] + offsets[query]
            value += c * (_pair(divergence, r[part], s) + cr * _pair(divergence, r[part], q))
            value += 0.5 * c * cw * float(s @ s)
            slope[part] = c * (_link(divergence, s) - r[part] + cw * s)
            towards[part] = c * ((1.0 + cr) * divergence._slope(r[part]) - s - cr * q)
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
