"""References for the projections: closed forms, enumerations, cone programs, and a checker of optimality conditions."""

from __future__ import annotations

import itertools

import numpy as np

INF = np.inf


def by_group(project, groups, *arrays):
    """Apply a projection of one group to every group, in a loop."""
    out = np.empty(len(groups))
    for group in set(groups.tolist()):
        rows = np.flatnonzero(groups == group)
        out[rows] = project(*(None if array is None else array[rows] for array in arrays))
    return out


def isotonic_reference(z, order=None, weights=None, increasing=True, bounds=(None, None)):
    """The max-min formula over means of consecutive levels, in a double loop."""
    z = np.asarray(z, dtype=float)
    order = np.arange(len(z)) if order is None else np.asarray(order)
    weights = np.ones(len(z)) if weights is None else np.asarray(weights)
    keys = np.unique(order)
    mass = np.array([weights[order == key].sum() for key in keys])
    level = np.array([(weights * z)[order == key].sum() for key in keys]) / mass
    sign = 1.0 if increasing else -1.0
    fit = np.empty(len(keys))
    for i in range(len(keys)):
        lowest = [
            min(np.average(sign * level[a : b + 1], weights=mass[a : b + 1]) for b in range(i, len(keys)))
            for a in range(i + 1)
        ]
        fit[i] = sign * max(lowest)
    low, high = (-INF if bounds[0] is None else bounds[0], INF if bounds[1] is None else bounds[1])
    return np.clip(fit, low, high)[np.searchsorted(keys, order)]


def increments_reference(z, lower, upper, weights=None, bounds=(None, None)):
    """The best of all points that some set of active bounds determines, by enumeration; None where none is feasible."""
    n = len(z)
    w = np.ones(n) if weights is None else weights
    low, high = np.broadcast_to(lower, n - 1), np.broadcast_to(upper, n - 1)
    floor, ceiling = (-INF if bounds[0] is None else bounds[0], INF if bounds[1] is None else bounds[1])
    best, best_cost = None, INF
    for ties in itertools.product((0, -1, 1), repeat=n - 1):
        steps = np.where(np.equal(ties, -1), low, np.where(np.equal(ties, 1), high, 0.0))
        if not np.isfinite(steps).all():
            continue
        starts = [0, *(i + 1 for i in range(n - 1) if ties[i] == 0), n]
        candidates = []
        for a, b in itertools.pairwise(starts):
            shape = np.concatenate(([0.0], np.cumsum(steps[a : b - 1])))
            levels = [np.average(z[a:b] - shape, weights=w[a:b])]
            levels += [bound - shift for bound in (floor, ceiling) if np.isfinite(bound) for shift in shape]
            candidates.append([level + shape for level in levels])
        for parts in itertools.product(*candidates):
            s = np.concatenate(parts)
            slack = 1e-9
            feasible = (np.diff(s) >= low - slack).all() and (np.diff(s) <= high + slack).all()
            if feasible and (s >= floor - slack).all() and (s <= ceiling + slack).all():
                cost = float(w @ (s - z) ** 2)
                if cost < best_cost:
                    best, best_cost = s, cost
    return best


def violation(z, lower, upper, s, weights=None, bounds=(None, None), close=1e-9):
    """By how much s misses the optimality conditions: feasibility, and forces that balance with the right signs.

    The force on step i is :math:`f_i = f_{i-1} + w_i (s_i - z_i) + g_i` with f ≥ 0 only at an upper bound, f ≤ 0 only
    at a lower one, f = 0 after the last entry, and g of one sign where a bound of the entries is met. The forces that
    are possible form an interval, followed along the chain.
    """
    n = len(z)
    w = np.ones(n) if weights is None else weights
    low, high = np.broadcast_to(lower, n - 1), np.broadcast_to(upper, n - 1)
    floor, ceiling = (-INF if bounds[0] is None else bounds[0], INF if bounds[1] is None else bounds[1])
    size = max(1.0, np.abs(z).max(), np.abs(s).max())
    close = close * size
    steps = np.diff(s)
    worst = max([(low - steps).max(), (steps - high).max()] if n > 1 else [0.0])
    worst = max(worst, (floor - s).max(), (s - ceiling).max(), 0.0)
    least = most = 0.0
    for i in range(n):
        pull = w[i] * (s[i] - z[i])
        least, most = least + pull, most + pull
        most = INF if s[i] >= ceiling - close else most
        least = -INF if s[i] <= floor + close else least
        below = -INF if i < n - 1 and steps[i] <= low[i] + close else 0.0
        above = INF if i < n - 1 and steps[i] >= high[i] - close else 0.0
        if least > above or most < below:
            worst = max(worst, least - above, below - most)
            least = most = above if least > above else below
        least, most = max(least, below), min(most, above)
    return worst / (size * max(1.0, w.max()))


def increments_program(z, lower, upper, weights=None, bounds=(None, None)):
    """Least cost by a cone program; infinite where infeasible."""
    import cvxpy as cp

    n = len(z)
    w = np.ones(n) if weights is None else weights
    low, high = np.broadcast_to(lower, n - 1), np.broadcast_to(upper, n - 1)
    s = cp.Variable(n)
    constraints = [s[i + 1] - s[i] >= low[i] for i in range(n - 1) if np.isfinite(low[i])]
    constraints += [s[i + 1] - s[i] <= high[i] for i in range(n - 1) if np.isfinite(high[i])]
    constraints += [] if bounds[0] is None else [s >= bounds[0]]
    constraints += [] if bounds[1] is None else [s <= bounds[1]]
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(w, cp.square(s - z)))), constraints)
    problem.solve(cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value


def permutahedron_program(z, y):
    """Least squared distance over the Birkhoff polytope: s = Py with P doubly stochastic."""
    import cvxpy as cp

    n = len(z)
    P = cp.Variable((n, n), nonneg=True)
    constraints = [cp.sum(P, axis=0) == 1, cp.sum(P, axis=1) == 1]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(P @ y - z)), constraints)
    problem.solve(cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value


def permutahedron_violation(z, y, s):
    """Over all rearrangements v of y, the largest ⟨z − s, v − s⟩, and what s lacks to be majorised by y."""
    best = max(float((z - s) @ (np.array(v) - s)) for v in itertools.permutations(y))
    top = np.cumsum(np.sort(s)[::-1]) - np.cumsum(np.sort(y)[::-1])
    return max(best, top.max(), abs(top[-1]))


def random_increments(seed, n):
    """A sequence with bounds of every kind: integers with many ties or reals, infinite steps, equal bounds, weights."""
    rng = np.random.default_rng(seed)
    whole = rng.random() < 0.5
    z = rng.integers(-5, 6, n).astype(float) if whole else 3.0 * rng.standard_normal(n)
    weights = rng.integers(1, 4, n).astype(float) if whole else np.exp(2.0 * rng.standard_normal(n))
    centre = rng.integers(-3, 4, n - 1).astype(float) if whole else rng.standard_normal(n - 1)
    reach = rng.integers(0, 4, n - 1).astype(float) if whole else rng.exponential(size=n - 1)
    lower = centre - reach * (rng.random(n - 1) < 0.7)
    upper = centre + reach * (rng.random(n - 1) < 0.7)
    lower[rng.random(n - 1) < 0.15] = -INF
    upper[rng.random(n - 1) < 0.15] = INF
    floor = None if rng.random() < 0.5 else float(rng.integers(-4, 1))
    ceiling = None if rng.random() < 0.5 else float(rng.integers(0, 5))
    return z, lower, upper, None if rng.random() < 0.3 else weights, (floor, ceiling)
