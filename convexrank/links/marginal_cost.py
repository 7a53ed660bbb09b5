r"""The cost of a learned divergence as a function of the scores alone: sorting and isotonic regression.

For scores θ and targets y, both of length n, the *marginal* is

.. math:: m(\theta) = \min_{\varphi}\; \sum_i \varphi(y_i) + \varphi^*(\theta_i) - y_i\theta_i ,

the least Fenchel-Young divergence over a class of convex functions φ of one variable. Write
:math:`\langle a^\uparrow, b^\uparrow\rangle` for the inner product of two sorted vectors. Then

* all convex φ: the pair (φ, φ*) is a dual pair of optimal transport, hence
  :math:`m = \langle y^\uparrow,\theta^\uparrow\rangle - \langle y,\theta\rangle`;
* s-strongly convex φ: φ* is a Moreau envelope, hence
  :math:`m = \min_v \langle y^\uparrow, v^\uparrow\rangle + \tfrac1{2s}\|\theta-v\|^2 + \tfrac s2\|y\|^2
  - \langle y,\theta\rangle`, whose v is an isotonic regression;
* l-smooth φ: the same with the roles of y and θ exchanged and s = 1/l;
* both, with k = l − s: :math:`m = \min_{u,v} \langle u^\uparrow,v^\uparrow\rangle + \tfrac1{2k}\|v\|^2
  + \tfrac k2\|y-u\|^2 + \tfrac1{2s}\|\theta-v\|^2 + \tfrac s2\|y\|^2 - \langle y,\theta\rangle`, two isotonic
  regressions that feed each other.

The derivative is :math:`\nabla m(\theta) = s(\theta) - y`, with s(θ) the values of (φ*)' at the scores. Every m is
unchanged when a constant is added to all scores or to all targets; both are centred first, which keeps digits.

A uniformly convex class has all φ for which :math:`\varphi - \tfrac s\gamma|x|^\gamma` is convex, γ ≥ 2; γ = 2 is
strong convexity. Write :math:`\varphi = \psi + \tfrac s\gamma|x|^\gamma`. The best convex ψ costs a sorted
inner product, and its conjugate is moved from θ to v at the price :math:`h(\theta - v)`, h the conjugate of
:math:`\tfrac s\gamma|x|^\gamma`:

.. math:: m(\theta) = \Phi(y) - \langle y,\theta\rangle
          + \min_v\, \langle y^\uparrow, v^\uparrow\rangle + \sum_i h(\theta_i-v_i)
          = \Phi(y) - \langle y, \theta\rangle + \max_{p\in P(y)}\, \langle\theta, p\rangle - \Phi(p),
          \qquad \Phi(p) = \tfrac s\gamma\sum_i|p_i|^\gamma,

P(y) the convex hull of the permutations of y. The derivative is p − y, with :math:`p_i = h'(\theta_i - v_i)`, and v is
found by pooling adjacent violators, with the root of an increasing function in place of a mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

__all__ = ["expected_targets", "marginal", "mutual_regressions", "projected_targets"]

Array = np.ndarray

# Relative change at which two regressions that feed each other have settled.
_SETTLED = 1e-15
_ROUNDS = 100_000
# A solve on the blocks costs as much as several rounds.
_SOLVE_EVERY = 5


def _isotonic(values: Array, weights: Array | None = None) -> Array:
    """The nearest non-decreasing vector, without a check: NaN must come through here and not raise."""
    from convexrank.projections.chains import pool_chains  # slow to import

    return pool_chains(values, np.ones(1) if weights is None else weights, np.array([0, len(values)]))[0]


def marginal(
    scores: Array, targets: Array, ranked: Array, strong: float | None = None, smooth: float | None = None
) -> tuple[float, Array]:
    r"""Return m(θ) and one subgradient, for scores sorted in non-decreasing order.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        The scores θ, non-decreasing.
    targets : ndarray, shape (n,)
        The targets y in the same order of rows.
    ranked : ndarray, shape (n,)
        The targets in non-decreasing order.
    strong, smooth : float, optional
        Moduli s and l of the class, s < l; None for no such condition.

    Returns
    -------
    float, ndarray of shape (n,)
        The value, and s(θ) − y.
    """
    centre = ranked.mean()
    theta, y, ranked = scores - scores.mean(), targets - centre, ranked - centre
    if smooth is None:
        expected = expected_targets(theta, ranked, strong)
        # ⟨θ, p⟩ - s/2‖p‖² + s/2‖y‖² - ⟨θ, y⟩ without the cancellation
        half = 0.0 if strong is None else 0.5 * strong
        return float((theta - half * (expected + y)) @ (expected - y)), expected - y
    if strong is None:
        u, v, base = _isotonic(ranked - theta / smooth), theta, 0.0
        expected = u + theta / smooth
    else:
        u, v = mutual_regressions(theta, ranked, strong, smooth)
        base, expected = strong, (theta - v) / strong
    k = smooth - base
    value = 0.5 * k * float((ranked - u) @ (ranked - u)) + float(v @ u) + 0.5 / k * float(v @ v)
    value += 0.5 * base * float(expected @ expected + y @ y) - float(theta @ y)
    return value, expected - y


def expected_targets(
    scores: Array, targets: Array, strong: float | None = None, smooth: float | None = None
) -> Array:
    """Return s(θ), the slope of the best φ* at each score, for scores and targets both in non-decreasing order.

    The moduli are as :func:`marginal` takes them. O(n), with both moduli O(n) per round, and few rounds.
    """
    if strong is None and smooth is None:
        return targets
    if smooth is None:
        return (scores - _isotonic(scores - strong * targets)) / strong
    if strong is None:
        return scores / smooth + _isotonic(targets - scores / smooth)
    _, v = mutual_regressions(scores, targets, strong, smooth)
    return (scores - v) / strong


def mutual_regressions(scores: Array, targets: Array, strong: float, smooth: float) -> tuple[Array, Array]:
    r"""Return the minimising u and v, both non-decreasing, of the class with both moduli.

    Alternating the two regressions contracts by the factor s/l. Every few rounds the linear equations on the blocks
    found so far are solved; the answer is taken when it is closer to a fixed point than a round would come, and
    once the blocks are right it is exact.

    Parameters
    ----------
    scores, targets : ndarray, shape (n,)
        Both sorted.
    strong, smooth : float
        Moduli s < l.

    Returns
    -------
    ndarray of shape (n,), ndarray of shape (n,)
        The minimisers u and v.
    """
    k, share = smooth - strong, strong / smooth

    def regress(v: Array) -> tuple[Array, Array]:
        u = _isotonic(targets - v / k)
        return u, (1.0 - share) * _isotonic(scores - strong * u)

    v = (1.0 - share) * scores - strong * (1.0 - share) * targets
    u, after = regress(v)
    change = float(np.linalg.norm(after - v))
    enough = _SETTLED * max(float(np.linalg.norm(scores)), strong * float(np.linalg.norm(targets)))
    for number in range(1, _ROUNDS):
        if change <= enough:
            break
        new = math.inf
        if number % _SOLVE_EVERY == 0:
            solved = _on_blocks(scores, targets, u, after, strong, smooth)
            u_solved, after_solved = regress(solved)
            new = float(np.linalg.norm(after_solved - solved))
        if new <= share * change:
            v, u, after = solved, u_solved, after_solved
        else:
            v = after
            u, after = regress(v)
            new = float(np.linalg.norm(after - v))
        if not new < change:  # rounding decides
            break
        change = new
    return u, after


def _on_blocks(scores: Array, targets: Array, u: Array, v: Array, strong: float, smooth: float) -> Array:
    r"""Return v, solved for exactly with u and v constant on their present blocks.

    The equations are :math:`k|A|u_A + \sum_B |A\cap B|v_B = k\sum_A y` and
    :math:`(\tfrac1k+\tfrac1s)|B|v_B + \sum_A |A\cap B|u_A = \tfrac1s\sum_B\theta`, for blocks A of u and B of v, all of
    them intervals.
    """
    n, k = len(scores), smooth - strong
    fresh_u, fresh_v = np.ones(n, bool), np.ones(n, bool)
    np.not_equal(u[1:], u[:-1], out=fresh_u[1:])
    np.not_equal(v[1:], v[:-1], out=fresh_v[1:])
    starts_u, starts_v = np.flatnonzero(fresh_u), np.flatnonzero(fresh_v)
    # in units of v in which both diagonals are alike
    unit = k / math.sqrt(smooth / strong)
    starts = np.flatnonzero(fresh_u | fresh_v)
    blocks_u, blocks_v = np.cumsum(fresh_u)[starts] - 1, np.cumsum(fresh_v)[starts] - 1
    sizes = np.r_[np.diff(np.r_[starts_u, n]), np.diff(np.r_[starts_v, n])]
    right = np.r_[
        np.add.reduceat(targets, starts_u), np.add.reduceat(scores, starts_v) * (unit / (strong * k))
    ]
    overlaps = np.diff(np.r_[starts, n]) * (unit / k)
    answer = solve_overlaps(
        np.r_[starts_u, starts_v],
        sizes.astype(np.float64),
        right,
        blocks_u,
        len(starts_u) + blocks_v,
        overlaps,
    )
    return np.repeat(answer[len(starts_u) :] * unit, sizes[len(starts_u) :])


def projected_targets(
    scores: Array,
    targets: Array,
    strong: float | None = None,
    smooth: float | None = None,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Array:
    """Return the projection of the targets on the slopes a class allows, (4.14), for scores in non-decreasing order.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        Non-decreasing.
    targets : ndarray, shape (n,)
        In the same order of rows.
    strong, smooth : float, optional
        Moduli s and l of the class, s < l; None for no such condition.
    bounds : pair of float, optional
        Bounds of the values; an infinity means no bound.

    Returns
    -------
    ndarray, shape (n,)
        The nearest s with slopes between 1/l (or 0) and 1/s (or infinity), equal where scores are equal. O(n)
        without s and bounds, O(n log n) with them.

    Raises
    ------
    ValueError
        Where slopes of at least 1/l leave the bounds.
    """
    # without an upper bound: one isotonic regression, of the means over equal scores
    if strong is None and not np.isfinite(bounds).any():
        floor = np.zeros_like(scores) if smooth is None else scores / smooth
        starts = np.flatnonzero(np.diff(scores, prepend=-np.inf) > 0)
        counts = np.diff(np.r_[starts, len(scores)])
        means = np.add.reduceat(targets - floor, starts) / counts
        return floor + np.repeat(_isotonic(means, counts.astype(np.float64)), counts)
    from convexrank.projections import bounded_increments

    gaps = np.diff(scores)
    lower = 0.0 if smooth is None else gaps / smooth
    upper = np.where(gaps > 0.0, np.inf, 0.0) if strong is None else gaps / strong
    return bounded_increments(targets, lower, upper, bounds=bounds)


def solve_overlaps(
    starts: Array, diagonal: Array, right: Array, first: Array, second: Array, overlaps: Array
) -> Array:
    r"""Solve :math:`d_a x_a + \sum_b o_{ab} x_b = r_a`, b over the intervals of the other partition that overlap a.

    An interval inside one of the other partition is eliminated at once. Those that are left form chains, in which
    each overlaps the one before and the one after it only: tridiagonal equations.

    Parameters
    ----------
    starts : ndarray, shape (m,)
        First place of each interval, those of one partition after those of the other.
    diagonal, right : ndarray, shape (m,)
        The numbers d and r; the matrix is positive definite.
    first, second : ndarray, shape (e,)
        The pairs of intervals that overlap, from left to right.
    overlaps : ndarray, shape (e,)
        The :math:`o_{ab}` of each pair.

    Returns
    -------
    ndarray, shape (m,)
        The solution x. O(m log m) for the sort of a chain.
    """
    from scipy.linalg import solveh_banded  # slow to import

    diagonal, right, m = diagonal.copy(), right.copy(), len(diagonal)
    edges, eliminated = (first, second, overlaps), []
    for leaf, stem in ((0, 1), (1, 0)):
        inside = np.bincount(edges[leaf], minlength=m)[edges[leaf]] == 1
        gone = edges[leaf][inside], edges[stem][inside], edges[2][inside]
        ratio = gone[2] / diagonal[gone[0]]
        diagonal -= np.bincount(gone[1], ratio * gone[2], m)
        right -= np.bincount(gone[1], ratio * right[gone[0]], m)
        edges = tuple(part[~inside] for part in edges)
        eliminated.append(gone)
    x = right / diagonal
    chain = np.unique(np.r_[edges[0], edges[1]])
    if len(chain):
        chain = chain[np.argsort(starts[chain], kind="stable")]
        place = np.empty(m, np.int64)
        place[chain] = np.arange(len(chain))
        bands = np.zeros((2, len(chain)))
        bands[1] = diagonal[chain]
        bands[0, np.maximum(place[edges[0]], place[edges[1]])] = edges[2]
        x[chain] = solveh_banded(bands, right[chain], check_finite=False)
    for leaf, stem, overlap in reversed(eliminated):
        x[leaf] = (right[leaf] - overlap * x[stem]) / diagonal[leaf]
    return x


# Steps of a search between two levels, and the share of a sum's terms that is rounding.
_HALVES, _ROUNDED = 100, 2.2e-16


def power_marginal(scores: Array, targets: Array, strong: float, power: float) -> tuple[float, Array]:
    """Return m(θ) and its gradient p − y; O(n log n) times the steps of a search for a root.

    Parameters
    ----------
    scores, targets : ndarray, shape (n,)
        The scores θ and the targets y of each row.
    strong, power : float
        Modulus s and exponent γ of the class.
    """
    order = np.lexsort((targets, scores))
    theta, ranked = scores[order], np.sort(targets)
    v = _pooled()(theta, ranked, theta - _slope(ranked, strong, power), strong, 1.0 / (power - 1.0))
    fitted = np.empty_like(theta)
    fitted[order] = np.sign(theta - v) * np.abs((theta - v) / strong) ** (1.0 / (power - 1.0))
    # p below its limits by rounding is a lower bound of the maximum, whose slope is 0 there
    own, its = (strong / power * np.abs(x) ** power for x in (targets, fitted))
    return max(float((own - its).sum() + scores @ (fitted - targets)), 0.0), fitted - targets


def _slope(x: Array, strong: float, power: float) -> Array:
    """The derivative of s/γ·|x|^γ."""
    return strong * np.sign(x) * np.abs(x) ** (power - 1.0)


@lru_cache(maxsize=1)
def _pooled() -> Callable[..., Array]:
    """Compile on first use: isotonic halves are joined at one level, a root, by twos."""
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def excess(
        theta: Array, ranked: Array, v: Array, middle: int, strong: float, root: float, level: float
    ) -> tuple[int, int, float, float]:  # pragma: no cover
        """Return where the rows begin and end that a level would join, their predictions less targets, and sizes."""
        first, last, found, size = middle, middle, 0.0, 0.0
        while first > 0 and v[first - 1] >= level:
            first -= 1
        while last < len(v) and v[last] <= level:
            last += 1
        for k in range(first, last):
            rest = (theta[k] - level) / strong
            part = abs(rest) ** root
            found += (part if rest > 0.0 else -part) - ranked[k]
            size += part + abs(ranked[k])
        return first, last, found, size

    @compiled()
    def join(
        theta: Array, ranked: Array, v: Array, middle: int, strong: float, root: float
    ) -> None:  # pragma: no cover
        """Make v non-decreasing, whose halves are."""
        low, high = v[middle], v[middle - 1]
        below = excess(theta, ranked, v, middle, strong, root, low)[2]
        above = excess(theta, ranked, v, middle, strong, root, high)[2]
        level = low if below <= 0.0 else high
        # regula falsi, every third time the middle: the sum is steep where a prediction is 0
        for step in range(_HALVES):
            if below <= 0.0 or above >= 0.0:
                break
            halve = step % 3 == 2
            level = 0.5 * (low + high) if halve else low + (high - low) * below / (below - above)
            if not low < level < high:
                break
            _, _, found, size = excess(theta, ranked, v, middle, strong, root, level)
            if abs(found) <= _ROUNDED * size:
                break
            if found > 0.0:
                low, below, above = level, found, above if halve else 0.5 * above
            else:
                high, above, below = level, found, below if halve else 0.5 * below
        first, last, _, _ = excess(theta, ranked, v, middle, strong, root, level)
        v[first:last] = level

    @compiled()
    def pooled(
        theta: Array, ranked: Array, single: Array, strong: float, root: float
    ) -> Array:  # pragma: no cover
        """Return the non-decreasing v at which the predictions of each pool add up to what its targets do."""
        n, v, width = len(theta), single.copy(), 1
        while width < n:
            for start in range(0, n - width, 2 * width):
                if v[start + width - 1] >= v[start + width]:
                    two = slice(start, min(start + 2 * width, n))
                    join(theta[two], ranked[two], v[two], width, strong, root)
            width *= 2
        return v

    return pooled
