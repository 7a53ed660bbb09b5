r"""Chapter 4: the learned divergence (4.1), its marginals m(θ), and the projection that was published as its gradient.

Notation: m(θ) is the least of Σ φ(y_i) + φ*(θ_i) − y_i θ_i over a class of convex φ; s(θ) is φ*' at the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from convexrank_annex.claims.claim import Comparison, Verdict, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.exact import (
    bounded_increments,
    central_differences,
    isotonic,
    learned_divergence,
    loop_integral,
    on_grid,
    strongly_convex_fit,
)

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 4)


# --- the two candidates for the gradient, as the sources give them --------------------------------------------------


def projected(theta: Array, y: Array, strong: float | None = None, smooth: float | None = None) -> Array:
    """Published: project y on the vectors with the slopes that the class allows, (4.14)."""
    order = np.argsort(theta, kind="stable")
    fitted, gaps = np.empty(len(y)), np.diff(theta[order])
    if strong is None and smooth is None:
        fitted[order] = isotonic(y[order])
    else:
        lower = gaps / smooth if smooth else np.zeros_like(gaps)
        fitted[order] = bounded_increments(
            y[order], lower, gaps / strong if strong else np.full_like(gaps, np.inf)
        )
    return fitted


def rearranged(theta: Array, y: Array, strong: float | None = None, smooth: float | None = None) -> Array:
    """Exact: s(θ) from one sort and isotonic regressions."""
    order, ranked = np.argsort(theta, kind="stable"), np.sort(y)
    t, fitted = theta[order], np.empty(len(y))
    if strong is None:
        fitted[order] = ranked if smooth is None else t / smooth + isotonic(ranked - t / smooth)
    elif smooth is None:
        fitted[order] = (t - isotonic(t - strong * ranked)) / strong
    else:
        fitted[order] = (t - _mutual(t, ranked, strong, smooth)[1]) / strong
    return fitted


def marginal(theta: Array, y: Array, strong: float | None = None, smooth: float | None = None) -> float:
    """Exact: m(θ), by the closed forms of the four classes."""
    t, ranked = np.sort(theta), np.sort(y)
    if strong is not None and smooth is not None:
        k = smooth - strong
        u, v = _mutual(t, ranked, strong, smooth)
        smoothing = (v @ v) / (2 * k) + 0.5 * k * np.sum((ranked - u) ** 2)
    else:
        u = ranked if smooth is None else isotonic(ranked - t / smooth)
        v = t if strong is None else isotonic(t - strong * ranked)
        smoothing = (
            0.0 if smooth is None else (t @ t) / (2 * smooth) + 0.5 * smooth * np.sum((ranked - u) ** 2)
        )
    envelope = 0.0 if strong is None else np.sum((t - v) ** 2) / (2 * strong) + 0.5 * strong * (y @ y)
    return float(u @ v + smoothing + envelope - theta @ y)


def _mutual(t: Array, ranked: Array, strong: float, smooth: float) -> tuple[Array, Array]:
    k, v = smooth - strong, t
    for _ in range(200):  # contracts by strong / smooth
        u = isotonic(ranked - v / k)
        v = k / smooth * isotonic(t - strong * u)
    return u, v


def _instances(n: int, count: int) -> list[tuple[Array, Array]]:
    """Scores that no small step ties, and targets."""
    rng = np.random.default_rng(0)
    apart = np.linspace(-2.0, 2.0, n)
    return [(rng.permutation(apart) + 0.2 * rng.random(n), rng.normal(size=n)) for _ in range(count)]


# --- GradMaPr -------------------------------------------------------------------------------------------------------


@_claim(
    "gradmapr-gradient",
    "Corollary 5, (4.13), (4.14)",
    "The projection of y on the vectors with the slopes of the class, less y, is the gradient of m.",
    projected,
    otherwise=(
        "The rearranged y, projected on the permutahedron where φ is strongly convex, gives it.",
        rearranged,
    ),
    documented=Verdict.REFUTED,
)
def gradmapr_gradient(link: Callable[..., Array]) -> list[Comparison]:
    """Integrate round a loop, where a gradient gives 0; compare with differences of an exact model."""
    y, corners = np.array([2.0, 3.0, 1.0]), ([0, 1, 2], [0, 2, 1], [2, 0, 1])
    loop = loop_integral(lambda theta: link(theta, y) - y, corners)
    compared = [equal("integral round a loop", loop, 0.0, 1e-9)]
    for theta, targets in _instances(6, 2):
        least = strongly_convex_fit(targets, 0.7)
        slopes = central_differences(least, theta, 1e-3)
        error = np.abs(link(theta, targets, 0.7) - targets - slopes).max()
        compared.append(equal("distance from central differences", error, 0.0, 1e-5))
    return compared


@_claim(
    "gradmapr-monotone",
    "section 4.2.1, Corollary 3",
    "The published field, which descends a convex function, is monotone.",
    projected,
    otherwise=("The gradient of m is.", rearranged),
    documented=Verdict.REFUTED,
)
def gradmapr_monotone(link: Callable[..., Array]) -> list[Comparison]:
    """The least ⟨F(a) − F(b), a − b⟩ over random pairs of scores."""
    rng, lowest = np.random.default_rng(1), np.inf
    for _ in range(400):
        y, a = rng.normal(size=4), rng.normal(size=4)
        b = a + 0.5 * rng.normal(size=4)
        lowest = min(lowest, float((link(a, y) - link(b, y)) @ (a - b)))
    return [at_least("least inner product of differences", lowest, 0.0, 1e-9)]


@_claim(
    "projection-is-best-link",
    "Theorem 7",
    "Over all vectors s that some φ of the class takes θ to, the cost M(s, θ) is least at the projection of y.",
    projected,
    otherwise=("It is least at the rearrangement.", rearranged),
    documented=Verdict.REFUTED,
)
def projection_is_best_link(link: Callable[..., Array]) -> list[Comparison]:
    """Cost of the exact model with s fixed at the candidate, against the least cost."""
    compared = []
    for theta, y in _instances(5, 2):
        least = strongly_convex_fit(y, 0.7)
        excess = least(theta, link(theta, y, 0.7)) - least(theta)
        compared.append(at_most("cost above the least", excess, 0.0, 1e-5))
    return compared


def _marginal_claim(identifier: str, words: str, strong: float | None, smooth: float | None) -> Any:
    @_claim(
        identifier,
        "beside (4.1), class by class",
        f"{words}: m and its gradient s(θ) − y in closed form, by sorting and isotonic regression.",
        (marginal, rearranged),
        otherwise=("The same with the published projection for s(θ).", (marginal, projected)),
        source="ours",
    )
    def judged(forms: tuple[Callable[..., float], Callable[..., Array]]) -> list[Comparison]:
        """Value and directional slopes, against the linear program over φ on a grid."""
        value, link = forms
        compared, rng = [], np.random.default_rng(2)
        for theta, raw in _instances(5, 2):
            y = on_grid(raw)
            least = learned_divergence(theta, y, strong, smooth)
            compared.append(equal("m", value(theta, y, strong, smooth), least, 5e-3, clearly=5e-2))
            towards = rng.normal(size=5)
            along = [learned_divergence(theta + h * towards, y, strong, smooth) for h in (-0.02, 0.02)]
            slope = float((link(theta, y, strong, smooth) - y) @ towards)
            compared.append(equal("slope of m", slope, (along[1] - along[0]) / 0.04, 0.03, clearly=0.2))
        return compared

    return judged


marginal_convex = _marginal_claim("marginal-convex", "All convex φ", None, None)
marginal_strong = _marginal_claim("marginal-strong", "Strongly convex φ", 1.5, None)
marginal_smooth = _marginal_claim("marginal-smooth", "Smooth φ", None, 2.0)
marginal_both = _marginal_claim("marginal-both", "Strongly convex and smooth φ", 1.5, 3.0)


# --- convexity, smoothness, curvature -------------------------------------------------------------------------------


@_claim(
    "joint-convexity",
    "Theorems 4 and 5",
    "φ(y) + φ*(θ) − yθ is jointly convex in φ and θ.",
    "scores",
    otherwise=("The divergence D_φ(y‖x) is jointly convex in φ and the point x.", "points"),
)
def joint_convexity(second: str) -> list[Comparison]:
    """Midpoints of random pairs of functions on a grid."""
    rng, grid = np.random.default_rng(3), np.linspace(-3.0, 3.0, 601)

    def draw() -> Array:  # a convex function by its slopes
        slope = np.cumsum(rng.exponential(size=601) * (rng.random(601) < 0.02)) - rng.uniform(0.0, 8.0)
        return np.cumsum(slope) * 0.01

    def cost(phi: Array, at: float, y: int) -> float:
        if second == "scores":
            return phi[y] + float(np.max(at * grid - phi)) - grid[y] * at
        x = round((at + 3.0) / 0.01)
        slope = (phi[x + 1] - phi[x - 1]) / 0.02
        return phi[y] - phi[x] - slope * (grid[y] - grid[x])

    worst = np.inf
    for _ in range(300):
        one, two, y = draw(), draw(), int(rng.integers(50, 550))
        a, b = np.round(rng.uniform(-2.5, 2.5, size=2), 1)
        gap = 0.5 * (cost(one, a, y) + cost(two, b, y)) - cost(0.5 * (one + two), 0.5 * (a + b), y)
        worst = min(worst, gap)
    return [at_least("least gap at a midpoint", worst, 0.0, 1e-9)]


@_claim(
    "marginal-smoothness",
    "Lemma 13",
    "When φ is s-strongly convex, the gradient of m has a Lipschitz constant of at least 1/s.",
    at_least,
    corrected=("It has one of at most 1/s: for equal targets it is 0.", at_most),
)
def marginal_smoothness(bound: Callable[..., Comparison]) -> list[Comparison]:
    """The largest ratio of changes seen, for random and for equal targets."""
    strong, compared = 0.5, []
    for kind, draw in (("random", np.random.default_rng(4).normal(size=6)), ("equal", np.ones(6))):
        rng, largest = np.random.default_rng(5), 0.0
        for _ in range(300):
            a, move = rng.normal(size=6), 0.1 * rng.normal(size=6)
            change = rearranged(a + move, draw, strong) - rearranged(a, draw, strong)
            largest = max(largest, float(np.linalg.norm(change) / np.linalg.norm(move)))
        compared.append(
            bound(f"Lipschitz constant seen, {kind} targets", largest, 1 / strong, 0.02, clearly=0.2)
        )
    return compared


@_claim(
    "curvature-prevents-degeneracy",
    "section 4.1.2",
    "A minimum curvature of φ keeps the cost from vanishing where all scores are equal, such as w = 0.",
    1.0,
    otherwise=("So does the class of all convex φ, the first two rows of Table 4.1.", None),
)
def curvature_prevents_degeneracy(strong: float | None) -> list[Comparison]:
    """How much of the cost at w = 0 some other w saves, with targets that a line fits."""
    x = np.linspace(-1.0, 1.0, 6)
    y = on_grid(2.0 * x)
    at_zero = learned_divergence(0.0 * x, y, strong, None)
    best = min(learned_divergence(w * x, y, strong, None) for w in (-2.0, -0.5, 0.5, 2.0))
    return [at_least("cost at w = 0 less the cost of a good w", at_zero - best, 1.0, 1e-6)]


CLAIMS = defined_in(globals())
