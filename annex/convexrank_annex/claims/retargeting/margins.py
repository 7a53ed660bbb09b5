"""Chapter 3, continued: margins, and the online bound (sections 3.4.4 to 3.4.6)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from convexrank_annex.claims.claim import Comparison, Verdict, at_most, claim, defined_in, equal
from convexrank_annex.claims.exact import bounded_increments, isotonic, optimum

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 3)


# --- margins --------------------------------------------------------------------------------------------------------


def _shift(theta: Array, margins: Array) -> Array:
    offset = np.r_[0.0, np.cumsum(margins)]
    return isotonic(theta - offset) + offset


@_claim(
    "fixed-margins",
    "section 3.4.5, fixed margins, squared distance",
    "Subtract the cumulated margins, take the isotonic regression, add them back.",
    _shift,
    otherwise=(
        "Take the isotonic regression and add the margins.",
        lambda t, m: isotonic(t) + np.r_[0.0, np.cumsum(m)],
    ),
)
def fixed_margins(method: Callable[[Array, Array], Array]) -> list[Comparison]:
    """Against the quadratic program."""
    theta, margins = np.array([0.5, 0.2, 1.4, 0.9, 1.0]), np.array([0.1, 0.5, 0.2, 0.3])
    exact = bounded_increments(theta, margins, np.full(4, np.inf))
    return [equal("distance", np.abs(method(theta, margins) - exact).max(), 0.0, 1e-5)]


def _alternated(y: Array, reward: Array) -> Array:
    """(3.30), (3.31): both halves in turn."""
    pull = _pull(reward)
    half = np.zeros_like(y)
    other = half
    for _ in range(300):
        other = isotonic(y - half)
        half = isotonic(y - other + pull)
    return other + half


def _pull(reward: Array) -> Array:
    return np.r_[-reward, 0.0] + np.r_[0.0, reward]  # how the rewarded increments pull at the targets


def _gaps_first(y: Array, reward: Array) -> Array:
    """Targets and gaps in turn: the gaps, at their best, keep the targets where they are."""
    r = isotonic(y)
    for _ in range(300):
        r = _shift(y, np.diff(r))
    return r


@_claim(
    "large-margins-alternate",
    "(3.29)-(3.31)",
    "Alternating two isotonic regressions solves the large-margin problem.",
    _alternated,
    otherwise=("So does alternating the targets and the gaps.", _gaps_first),
)
def large_margins_alternate(method: Callable[[Array, Array], Array]) -> list[Comparison]:
    """Against the quadratic program in targets and gaps."""
    return [equal("distance from the solution", _large_margin_error(method), 0.0, 1e-5)]


@_claim(
    "large-margins-one-regression",
    "beside (3.29)-(3.31)",
    "One isotonic regression, of y with the pull of the rewards added, solves it: nothing has to be alternated.",
    lambda y, reward: isotonic(y + _pull(reward)),
    otherwise=("So does the isotonic regression of y.", lambda y, reward: isotonic(y)),
    source="ours",
)
def large_margins_one_regression(method: Callable[[Array, Array], Array]) -> list[Comparison]:
    """Against the quadratic program in targets and gaps."""
    return [equal("distance from the solution", _large_margin_error(method), 0.0, 1e-5)]


def _large_margin_error(method: Callable[[Array, Array], Array]) -> float:
    import cvxpy as cp

    rng, worst = np.random.default_rng(25), 0.0
    for _ in range(3):
        y, reward = rng.normal(size=6), rng.uniform(0.0, 0.5, size=5)
        r, t = cp.Variable(6), cp.Variable(5)
        optimum(cp.Minimize(0.5 * cp.sum_squares(r - y) - reward @ t), [cp.diff(r) >= t, t >= 0])
        worst = max(worst, float(np.abs(method(y, reward) - np.asarray(r.value)).max()))
    return worst


# φ' = x + 2 log(1 + eˣ) is 1-strongly convex with a 3-Lipschitz gradient: both propositions cover it.


def _phi(r: Array) -> tuple[float, Array, Array]:
    """Σφ(r_i), φ' and φ''."""
    from scipy.special import expit, spence

    value = float(np.sum(0.5 * r**2 - 2.0 * spence(1.0 + np.exp(r))))
    return value, r + 2.0 * np.logaddexp(0.0, r), 1.0 + 2.0 * expit(r)


def _link(z: Array) -> Array:
    """(φ')⁻¹, by Newton's method."""
    r = np.zeros_like(z)
    for _ in range(30):
        _, slope, curvature = _phi(r)
        r = r - (slope - z) / curvature
    return r


_THETA, _MARGINS = np.array([0.3, 2.5, -1.0, 0.9]), np.array([0.5, 2.0, 1.5])


def _nearest(theta: Array, margins: Array) -> Array:
    """Minimise Σφ(r_i) − ⟨θ, r⟩ over the first target and the excesses over the margins."""
    from scipy.optimize import minimize

    sums, offset = np.tri(len(theta)), np.r_[0.0, np.cumsum(margins)]

    def cost(z: Array) -> tuple[float, Array]:
        value, slope, _ = _phi(sums @ z + offset)
        return value - float(theta @ (sums @ z + offset)), sums.T @ (slope - theta)

    bounds = [(None, None), *[(0.0, None)] * len(margins)]
    answer = minimize(
        cost,
        np.zeros(len(theta)),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    return sums @ answer.x + offset


def _by_squares(scales: Array) -> Callable[[], list[Array]]:
    """Propositions 2 and 3: the link of the squared-distance solution, with margins times a constant."""
    return lambda: [_link(_shift(_THETA, scale * _MARGINS)) for scale in scales]


def _newton() -> list[Array]:
    """Each step one weighted projection on the same margins."""
    r = np.r_[0.0, np.cumsum(_MARGINS)]
    for _ in range(15):
        _, slope, curvature = _phi(r)
        r = bounded_increments(r - (slope - _THETA) / curvature, _MARGINS, np.full(3, np.inf), curvature)
    return [r]


def _margin_claim(identifier: str, location: str, words: str, scales: Array) -> Any:
    @_claim(
        identifier,
        location,
        words,
        _by_squares(scales),
        otherwise=("Newton's method does, each step a weighted projection on the margins.", _newton),
        documented=Verdict.REFUTED,
    )
    def judged(method: Callable[[], list[Array]]) -> list[Comparison]:
        """φ' = x + 2 log(1 + eˣ), against descent on its divergence; the least distance over the constants."""
        exact = _nearest(_THETA, _MARGINS)
        least = min(float(np.abs(found - exact).max()) for found in method())
        return [equal("distance of the targets", least, 0.0, 1e-4)]

    return judged


margins_by_squares = _margin_claim(
    "margins-by-squares",
    "Proposition 2",
    "With margins, too, (∇φ)⁻¹ of the squared-distance solution gives the targets for strongly convex φ.",
    np.array([1.0]),
)
margins_by_scaled_squares = _margin_claim(
    "margins-by-scaled-squares",
    "Proposition 3",
    "For φ with Lipschitz gradients it does with margins multiplied by a constant.",
    np.r_[1.0 / 3.0, np.linspace(0.0, 4.0, 101)],
)


# --- online ---------------------------------------------------------------------------------------------------------


@_claim(
    "online-regret",
    "Theorem 3, section 3.4.6",
    "Steps 1/(σt) have a regret of O(L²/σ · log T), L the Lipschitz constant of the gradients.",
    lambda curvature, steepest: curvature,
    corrected=("L has to be the largest gradient met.", lambda curvature, steepest: steepest),
)
def online_regret(constant: Callable[[float, float], float]) -> list[Comparison]:
    """Rounds ½(w − u)², curvature 1: the regret over L² log T with u = ±100, in units of that with u = ±1."""
    signs, ratios = np.random.default_rng(26).choice([-1.0, 1.0], size=400), []
    for scale in (1.0, 100.0):
        w, centres, points = 0.0, scale * signs, np.empty(400)
        for t, centre in enumerate(centres):
            points[t] = w
            w -= (w - centre) / (t + 1)
        regret = 0.5 * float(np.sum((points - centres) ** 2) - np.sum((centres.mean() - centres) ** 2))
        ratios.append(regret / (constant(1.0, float(np.abs(points - centres).max())) ** 2 * np.log(400.0)))
    return [at_most("growth of the constant with the targets", ratios[1] / ratios[0], 1.0, 1e-6)]


CLAIMS = defined_in(globals())
