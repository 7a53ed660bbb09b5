"""Chapter 4: which values links take, convexity in them, and uniform convexity (sections 4.1.2 and 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.exact import bounded_increments, optimum, strongly_convex_fit
from convexrank_annex.claims.learned_divergence.gradient import marginal, rearranged

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 4)

_THETA = np.array([-1.2, -0.3, 0.1, 1.4])


@_claim(
    "cost-convex-in-link-values",
    "Theorem 6",
    "M(s, θ), the least cost over φ with (∇φ)⁻¹(θ) = s, is convex in s: strongly convex φ.",
    0.0,
    otherwise=("It is 10-strongly convex.", 10.0),
)
def cost_convex_in_link_values(modulus: float) -> list[Comparison]:
    """Midpoints of random s with increments from 0 to those of θ over the modulus of φ; quadratic programs."""
    rng, least = np.random.default_rng(93), np.inf
    fit = strongly_convex_fit(np.array([0.5, -0.4, 1.1, 0.2]), 1.0)
    for _ in range(2):
        ends = [
            np.r_[0.0, np.cumsum(rng.uniform(0.05, 0.95, 3) * np.diff(_THETA))] + rng.normal() for _ in "ab"
        ]
        middle = fit(_THETA, 0.5 * (ends[0] + ends[1]))
        gap = 0.5 * (fit(_THETA, ends[0]) + fit(_THETA, ends[1])) - middle
        least = min(least, gap - modulus / 8.0 * float(np.sum((ends[0] - ends[1]) ** 2)))
    return [at_least("least gap at a midpoint", least, 0.0, 1e-6)]


@_claim(
    "values-of-links",
    "Lemma 14, (4.15)",
    "For s-strongly convex, l-smooth φ, (∇φ)⁻¹ rises between neighbours by Δθ/l to Δθ/s, and by any such amounts.",
    lambda strong, smooth: (1.0 / smooth, 1.0 / strong),
    otherwise=("It rises by sΔθ to lΔθ.", lambda strong, smooth: (strong, smooth)),
)
def values_of_links(slopes: Callable[[float, float], tuple[float, float]]) -> list[Comparison]:
    """Random ∇φ of pieces with slopes in [0.5, 4], inverted; and ∇φ through random values within the bounds."""
    rng, strong, smooth = np.random.default_rng(94), 0.5, 4.0
    low, high = slopes(strong, smooth)
    outside = missed = -np.inf
    for _ in range(100):
        steps = rng.choice([strong, smooth, 1.0], size=60)
        places = np.linspace(-15.0, 15.0, 61)
        gradient = np.r_[0.0, np.cumsum(0.5 * steps)] - 0.25 * np.sum(steps)
        theta = np.sort(rng.uniform(-3.0, 3.0, size=5))
        rises = np.diff(np.interp(theta, gradient, places)) / np.diff(theta)
        outside = max(outside, low - rises.min(), rises.max() - high)
        back = 1.0 / rng.uniform(low, high, size=4)  # slopes of ∇φ through such values
        missed = max(missed, strong - back.min(), back.max() - smooth)
    return [
        at_most("rise beyond the bounds", outside, 0.0, 1e-9),
        at_most("slope of ∇φ beyond its bounds", missed, 0.0, 1e-9),
    ]


def _sorted_first(theta: Array, y: Array, high: float) -> Array:
    order, s = np.argsort(theta), np.empty(len(y))
    s[order] = bounded_increments(y[order], np.zeros(len(y) - 1), high * np.diff(theta[order]))
    return s


@_claim(
    "projection-by-sorting",
    "Corollary 4, for s-strongly convex φ",
    "The projection of y on S(θ) is that of y, sorted by θ, on bounded increments, put back into place.",
    _sorted_first,
    otherwise=(
        "It is that of y as it stands.",
        lambda theta, y, high: bounded_increments(y, np.zeros(len(y) - 1), high * np.abs(np.diff(theta))),
    ),
)
def projection_by_sorting(method: Callable[[Array, Array, float], Array]) -> list[Comparison]:
    """Against the quadratic program with an inequality for every pair of scores."""
    import cvxpy as cp

    theta, y, s = np.array([0.4, -1.0, 1.3, 0.1, -0.2]), np.array([1.0, 0.5, 1.2, -0.7, 2.0]), cp.Variable(5)
    pairs = [(i, j) for i in range(5) for j in range(5) if theta[i] < theta[j]]
    held = [s[j] >= s[i] for i, j in pairs] + [s[j] - s[i] <= 0.5 * (theta[j] - theta[i]) for i, j in pairs]
    optimum(cp.Minimize(cp.sum_squares(s - y)), held)
    return [equal("distance", np.abs(method(theta, y, 0.5) - np.asarray(s.value)).max(), 0.0, 1e-5)]


# --- uniform convexity ----------------------------------------------------------------------------------------------


def _modulus(phi: Callable[[Array], Array], gap: float) -> float:
    """δ(gap) as section 4.1.2 defines it: the least of (αφ(x) + (1 − α)φ(y) − φ(mix))/(α(1 − α)), |x − y| = gap."""
    shares, x = np.linspace(0.02, 0.98, 49)[:, None], np.linspace(-2.0 * gap, gap, 301)[None, :]
    y = x + gap
    excess = shares * phi(x) + (1 - shares) * phi(y) - phi(shares * x + (1 - shares) * y)
    return float((excess / (shares * (1 - shares))).min())


@_claim(
    "squares-as-uniformly-convex",
    "section 4.1.2, after the definition of the modulus",
    "s-strong convexity is uniform strict convexity with the modulus δ(t) = s·t².",
    1.0,
    corrected=("With δ(t) = ½s·t².", 0.5),
)
def squares_as_uniformly_convex(factor: float) -> list[Comparison]:
    """The modulus of ½s·x² from its definition, on a grid."""
    compared = []
    for strong, gap in ((1.0, 0.5), (3.0, 2.0)):
        found = _modulus(lambda x, strong=strong: 0.5 * strong * x**2, gap)
        compared.append(equal(f"δ({gap:g}) for s = {strong:g}", found, factor * strong * gap**2, 1e-9))
    return compared


_POWER = 4.0


@_claim(
    "slopes-above-the-modulus",
    "(4.6)",
    "δ(‖y − s‖) ≤ ⟨∇φ(y) − ∇φ(s), y − s⟩ for the modulus δ of uniform convexity.",
    1.0,
    otherwise=("So it is for 10 δ.", 10.0),
)
def slopes_above_the_modulus(factor: float) -> list[Comparison]:
    """φ = x⁴/4: pairs at three distances, δ on a grid."""
    compared, x = [], np.linspace(-4.0, 4.0, 401)
    for gap in (0.3, 1.0, 3.0):
        product = (np.sign(x + gap) * np.abs(x + gap) ** 3 - np.sign(x) * np.abs(x) ** 3) * gap
        delta = _modulus(lambda v: np.abs(v) ** _POWER / _POWER, gap)
        compared.append(
            at_least(f"inner product over δ, distance {gap:g}", product.min() / delta, factor, 1e-6)
        )
    return compared


@_claim(
    "links-hoelder-continuous",
    "(4.7)",
    "With δ(t) = s^{γ−1}t^γ the link obeys |(∇φ)⁻¹(w) − (∇φ)⁻¹(v)| ≤ |w − v|^{1/(γ−1)}/s.",
    1.0 / (_POWER - 1.0),
    otherwise=("It is Lipschitz continuous, with the exponent 1.", 1.0),
)
def links_hoelder_continuous(exponent: float) -> list[Comparison]:
    """φ = x⁴/4, whose link is the cube root; s from the modulus at distance 1."""
    strong = _modulus(lambda v: np.abs(v) ** _POWER / _POWER, 1.0) ** (1.0 / (_POWER - 1.0))
    points = np.linspace(-1.0, 1.0, 801) ** 3
    w, v = points[:, None], points[None, :]
    gaps = np.abs(w - v)
    ratios = np.abs(np.cbrt(w) - np.cbrt(v))[gaps > 0] / gaps[gaps > 0] ** exponent
    return [at_most("difference of the links over the bound", ratios.max() * strong, 1.0, 1e-6)]


# --- a rate ---------------------------------------------------------------------------------------------------------


def _falling(steps: int) -> Array:
    """Excess of weighted means of the iterates, all convex φ with ½‖w‖², steps 2/(t + 1) along a subgradient."""
    x = np.array([[1.0, 0.3], [-1.0, 0.2], [0.4, -0.9], [0.1, 1.1]])
    y = np.array([0.9, 1.0, -0.6, 0.4])

    def objective(w: Array) -> float:
        return marginal(x @ w, y) + 0.5 * float(w @ w)

    w, mean, values = np.array([3.0, -2.0]), np.zeros(2), []
    for t in range(1, steps + 1):
        mean = (t - 1.0) / (t + 1.0) * mean + 2.0 / (t + 1.0) * w
        values.append(objective(mean))
        w = w - 2.0 / (t + 1.0) * (x.T @ (rearranged(x @ w, y) - y) + w)
    return np.array(values)  # the least value is 0, at w = 0


@_claim(
    "rate-strongly-convex-regularizer",
    "Table 4.1, second row",
    "For all convex φ and a strongly convex regularizer a first-order method comes down at the rate 1/T.",
    1.0,
    otherwise=("At the rate exp(−λT) of the last row.", np.inf),
)
def rate_strongly_convex_regularizer(power: float) -> list[Comparison]:
    """Steps 2/(t + 1) along subgradients, means weighted by t: the excess after 2000 rounds over its bound from 200."""
    values = _falling(2000)
    decay = 0.1**power if np.isfinite(power) else (values[199] / values[19]) ** 10.0
    return [at_most("excess at 2000 over the bound", values[1999] / (values[199] * decay), 2.0, 1e-3)]


CLAIMS = defined_in(globals())
