"""The cost of a learned divergence twice more: as a cvxpy expression, and in plain numpy for certificates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray

# The reference alternates two regressions, which contracts by strong / smooth each time.
_ROUNDS = 100_000
# Steps of a search for roots.
_STEPS = 100


def class_model(
    scores: Any, y: Array, strong: float | None, smooth: float | None, bounds: tuple[float, float] | None
) -> tuple[Any, list[Any]]:
    """Return m(θ) as a cvxpy expression of the scores, and constraints; with moduli it has variables of its own.

    With y + e/√k one of them, ⟨sorted y + e/√k, sorted v⟩ + ½‖e‖² + ½‖v‖²/k is the dearest assignment of the costs
    ½(e_i + v_j/√k)² + y_i·v_j, stated by the dual of the assignment problem. All terms are of the size of the cost: k
    times the square of y + e/√k itself would leave digits to be cancelled where the moduli are far apart. An output
    range moves the scores, at the price of its support function.

    Parameters
    ----------
    scores : cvxpy expression, shape (n,)
        The scores θ.
    y : ndarray, shape (n,)
        The targets.
    strong, smooth : float or None
        Moduli s and l of the class.
    bounds : pair of float, optional
        The output range.

    Returns
    -------
    cvxpy expression, list of cvxpy constraints
        Its value is m(θ) once the other variables are minimised over.
    """
    import cvxpy as cp

    n, centre = len(y), y.mean()
    y, price, moved, limits = y - centre, 0.0, scores, []
    if bounds is not None and smooth is not None:  # without smooth a range changes nothing
        up, down = cp.Variable(n, name="up", nonneg=True), cp.Variable(n, name="down", nonneg=True)
        moved = scores - up + down
        for part, bound, sign in ((up, bounds[1] - centre, 1.0), (down, bounds[0] - centre, -1.0)):
            if math.isfinite(bound):
                price += sign * bound * cp.sum(part)
            else:
                limits.append(part == 0)
    linear = price - y @ scores
    if strong is None:
        v, base, envelope = moved, 0.0, 0.0
    else:
        v, base = cp.Variable(n, name="v"), strong
        envelope = cp.sum_squares(moved - v) / (2.0 * base) + 0.5 * base * float(y @ y)
    if smooth is None:
        return cp.dotsort(v, y) + envelope + linear, limits
    k, row, column = smooth - base, np.ones((1, n)), np.ones((n, 1))
    e, a, b = cp.Variable((n, 1), name="e"), cp.Variable((n, 1), name="a"), cp.Variable((1, n), name="b")
    across = cp.reshape(v, (1, n), "C")
    costs = 0.5 * cp.square(e @ row + column @ across / math.sqrt(k)) + y[:, None] @ across
    total = cp.sum(a) + cp.sum(b)
    return total + envelope + linear, [*limits, a @ row + column @ b >= costs]


def power_model(scores: Any, y: Array, strong: float, power: float) -> Any:
    """Return m(θ) of the uniformly convex class as a cvxpy expression: scores moved to v, at the conjugate's price."""
    import cvxpy as cp

    v, dual = cp.Variable(len(y), name="v"), power / (power - 1.0)
    price = strong ** (1.0 - dual) / dual * cp.sum(cp.power(cp.abs(scores - v), dual))
    own = strong / power * float((np.abs(y) ** power).sum())
    return cp.dotsort(v, y) + price + own - y @ scores


def power_reference(scores: Array, y: Array, strong: float, power: float) -> tuple[float, Array]:
    """Return m(θ) and its gradient for the uniformly convex class, by pools of halves, all of a width at once."""
    order, ranked = np.lexsort((y, scores)), np.sort(y)
    t, rows = scores[order], np.arange(len(y))

    def link(z: Array) -> Array:
        return np.sign(z) * (np.abs(z) / strong) ** (1.0 / (power - 1.0))

    def off(level: Array, open_: Array, v: Array, left: Array, pair: Array, some: Array) -> Array:
        """Predictions less targets, of the rows that a level would join; 0 where they are rounding."""
        left, some, pair = (part[open_[pair]] for part in (left, some, pair))
        at, mine = level[pair], v[some]
        inside = np.where(left, mine >= at, mine <= at)
        predicted, wanted = link(t[some] - at) * inside, ranked[some] * inside
        found = np.bincount(pair, predicted - wanted, len(level))
        sizes = np.bincount(pair, np.abs(predicted) + np.abs(wanted), len(level))
        return np.where(np.abs(found) <= 16.0 * np.finfo(float).eps * sizes, 0.0, found)

    v, width = t - strong * np.sign(ranked) * np.abs(ranked) ** (power - 1.0), 1
    while width < len(y):
        # rows between the levels at the middle of two halves get one level, at which their predictions sum to targets
        ends, pair, left = rows[width :: 2 * width], rows // (2 * width), rows % (2 * width) < width
        low, high = np.append(v[ends], np.nan), np.append(v[ends - 1], np.nan)
        some = np.flatnonzero(np.where(left, v >= low[pair], v <= high[pair]))
        about = v, left[some], pair[some], some
        level = _roots(lambda level, open_, about=about: off(level, open_, *about), low, high)[pair[some]]
        v[some] = np.where(left[some], np.minimum(v[some], level), np.maximum(v[some], level))
        width *= 2
    slope = np.empty(len(y))
    slope[order] = link(t - v)
    value = strong / power * float((np.abs(y) ** power - np.abs(slope) ** power).sum())
    return value + float(scores @ (slope - y)), slope - y


def _roots(off: Any, low: Array, high: Array) -> Array:
    """The roots of decreasing functions, each between two ends where these are in order, by the Illinois method."""
    open_ = low < high
    below, above = off(low, open_), off(high, open_)
    level = np.where(below <= 0.0, low, high)
    for step in range(_STEPS):
        open_ = (below > 0.0) & (above < 0.0)
        share = np.full(len(low), 0.5) if step % 3 == 2 else below / np.where(open_, below - above, 1.0)
        level = np.where(open_, low + (high - low) * share, level)
        open_ &= (low < level) & (level < high)
        if not open_.any():
            break
        found = off(level, open_)
        up, down = open_ & (found >= 0.0), open_ & (found <= 0.0)
        low, high = np.where(up, level, low), np.where(down, level, high)
        below = np.where(up, found, np.where(down, 0.5 * below, below))
        above = np.where(down, found, np.where(up, 0.5 * above, above))
    return level


def reference_marginal(
    scores: Array, y: Array, strong: float | None, smooth: float | None, bounds: tuple[float, float] | None
) -> tuple[float, Array]:
    """Return m(θ) and a subgradient, s(θ) − y, from the formulas as they stand; arguments as for the model."""
    order = np.lexsort((y, scores))
    centre = y.mean()
    theta, targets = (scores - scores.mean())[order], (y - centre)[order]
    value, slope = _sorted(theta, targets, strong, smooth)
    if bounds is not None and smooth is not None:
        low, high = bounds[0] - centre, bounds[1] - centre
        if low > slope[0] + targets[0] or slope[-1] + targets[-1] > high:
            value, slope = _cut_off(theta, targets, strong, smooth, low, high)
    gradient = np.empty(len(y))
    gradient[order] = slope
    return value, gradient


def _sorted(t: Array, y: Array, s: float | None, smooth: float | None) -> tuple[float, Array]:
    """The same for sorted and centred scores, and targets in their order."""
    ranked = np.sort(y)
    if smooth is None:
        u, v = ranked, t if s is None else _pool(t - s * ranked)
    else:
        u, v = _alternate(t, ranked, s, smooth)
    k = (smooth or math.inf) - (s or 0.0)
    value = float(u @ v) - float(t @ y)
    slope = u if s is None else (t - v) / s
    if math.isfinite(k):
        value += 0.5 * k * float(np.sum((u - ranked) ** 2)) + float(v @ v) / (2.0 * k)
        slope = u + v / k if s is None else slope
    if s is not None:
        value += float(np.sum((t - v) ** 2)) / (2.0 * s) + 0.5 * s * float(y @ y)
    return value, slope - y


def _cut_off(
    t: Array, y: Array, s: float | None, smooth: float, low: float, high: float
) -> tuple[float, Array]:
    """The least of m(θ') plus the price of moving θ to θ', over θ' = θ cut off at two ends."""
    if s is None:
        w = _pool_cut_off(np.sort(y), t / smooth, low, high)
        link = np.clip(w + t / smooth, low, high)
        below, above = w + t / smooth < low, w + t / smooth > high
        bottom = smooth * (low - w[below][-1]) if below.any() else t[0]
        top = smooth * (high - w[above][0]) if above.any() else t[-1]
    else:
        bottom, top = _solve_ends(t, y, s, smooth, low, high)
        below, above = t < bottom, t > top
        link = _sorted(np.clip(t, bottom, top), y, s, smooth)[1] + y
        link = np.where(below, low, np.where(above, high, link))
    value = _sorted(np.clip(t, bottom, top), y, s, smooth)[0]
    if below.any():
        value += float((y - low) @ np.maximum(bottom - t, 0.0))
    if above.any():
        value += float((high - y) @ np.maximum(t - top, 0.0))
    return value, link - y


def _solve_ends(t: Array, y: Array, s: float, smooth: float, low: float, high: float) -> tuple[float, float]:
    """Return the two ends at which the link just satisfies its bounds, by nested root searches."""
    from scipy import optimize  # slow to import

    brentq: Any = optimize.brentq

    digits = 4.0 * np.finfo(float).eps
    noise = 10.0 * digits * max(1.0, float(np.abs(y).max()))

    def root(distance: Any, outer: float, inner: float) -> float:
        if distance(outer) >= 0.0 or outer == inner:
            return outer
        if distance(inner) <= 0.0:
            return inner
        return float(
            brentq(distance, outer, inner, xtol=digits * abs(outer - inner), rtol=digits, disp=False)
        )

    def over(bound: float, bottom: float, top: float, place: int) -> float:
        """The link at the first or last score less a bound; 0 where rounding decides, which ends a search."""
        found = float(_sorted(np.clip(t, bottom, top), y, s, smooth)[1][place] + y[place]) - bound
        return 0.0 if abs(found) <= noise else found

    def top_for(bottom: float) -> float:
        return root(lambda top: -over(high, bottom, top, -1), float(t[-1]), bottom)

    bottom = root(lambda end: over(low, end, top_for(end), 0), float(t[0]), float(t[-1]))
    return bottom, top_for(bottom)


def _pool_cut_off(ranked: Array, alpha: Array, low: float, high: float) -> Array:
    """The non-decreasing w with clip(w + alpha) summing to the targets block by block, by pooling and bisection."""
    blocks: list[tuple[float, int, int]] = []
    for i in range(len(ranked)):
        start, level = i, _level(ranked[i : i + 1], alpha[i : i + 1], low, high)
        while blocks and blocks[-1][0] >= level:
            start = blocks.pop()[1]
            level = _level(ranked[start : i + 1], alpha[start : i + 1], low, high)
        blocks.append((level, start, i + 1))
    return np.concatenate([np.full(stop - start, level) for level, start, stop in blocks])


def _level(y: Array, alpha: Array, low: float, high: float) -> float:
    """The largest w with clip(w + alpha) summing to at most the sum of y: exact between two breakpoints."""
    level, total = float((y - alpha).mean()), float(y.sum())
    if low <= alpha[0] + level and alpha[-1] + level <= high:
        return level
    breaks = np.sort([bound - a for bound in (low, high) if math.isfinite(bound) for a in alpha])
    reached = [float(np.clip(x + alpha, low, high).sum()) for x in breaks]
    after = int(np.searchsorted(reached, total, "right"))  # the sum exceeds the total from here on
    left = breaks[after - 1] if after else breaks[0] - 1.0
    right = breaks[after] if after < len(breaks) else breaks[-1] + 1.0
    inner = 0.5 * (left + right) + alpha
    free = (low < inner) & (inner < high)
    if not free.any():
        return float(left)
    rest = total - float(np.clip(inner, low, high)[~free].sum()) - float(alpha[free].sum())
    return rest / int(free.sum())


def _pool(values: Array) -> Array:
    from scipy.optimize import isotonic_regression  # slow to import

    return -isotonic_regression(-values, increasing=False).x


def _alternate(t: Array, ranked: Array, s: float | None, smooth: float) -> tuple[Array, Array]:
    """Minimise over u and v in turn."""
    if s is None:
        return _pool(ranked - t / smooth), t
    k, v, last = smooth - s, t, math.inf
    enough = 1e-15 * max(float(np.linalg.norm(t)), s * float(np.linalg.norm(ranked)))
    for _ in range(_ROUNDS):
        u = _pool(ranked - v / k)
        before, v = v, k / smooth * _pool(t - s * u)
        change = float(np.linalg.norm(v - before))
        if not enough < change < last:  # the rounds contract; where they do not, rounding decides
            break
        last = change
    return u, v
