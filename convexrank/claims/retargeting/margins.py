"""Chapter 3, continued: margins, and the online bound (sections 3.4.4 to 3.4.6)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from convexrank.claims.claim import Comparison, Verdict, at_most, claim, defined_in, equal
from convexrank.claims.exact import bounded_increments, isotonic, optimum
from convexrank.claims.retargeting.targets import LINKS, nearest_targets

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
    "(3.29)-(3.31)",
    "One isotonic regression, of y with the pull of the rewards added, solves it: nothing has to be alternated.",
    lambda y, reward: isotonic(y + _pull(reward)),
    otherwise=("So does the isotonic regression of y.", lambda y, reward: isotonic(y)),
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


def _by_squares(scale: float) -> Callable[[Array, Array], Array]:
    """Propositions 2 and 3: the link of the squared-distance solution, with margins times ``scale``."""
    return lambda theta, margins: LINKS["generalized I"](_shift(theta, scale * margins))


def _newton(theta: Array, margins: Array) -> Array:
    """Each step one weighted projection on the same margins."""
    r = 1.0 + np.r_[0.0, np.cumsum(margins)]
    for _ in range(25):
        weights = 1.0 / r  # φ'' of r log r − r
        r = bounded_increments(
            r - (np.log(r) - theta) / weights, margins, np.full(len(margins), np.inf), weights
        )
    return r


def _margin_claim(identifier: str, location: str, words: str, scale: float) -> Any:
    @_claim(
        identifier,
        location,
        words,
        _by_squares(scale),
        otherwise=("Newton's method does, each step a weighted projection on the margins.", _newton),
        documented=Verdict.REFUTED,
    )
    def judged(method: Callable[[Array, Array], Array]) -> list[Comparison]:
        """Against the conic program for the generalized I-divergence."""
        theta, margins = np.array([0.3, 0.5, 0.2, 0.9]), np.array([0.4, 0.3, 0.5])
        exact = nearest_targets(theta, "generalized I", lambda r: [r[1:] - r[:-1] >= margins])
        return [equal("distance of the targets", np.abs(method(theta, margins) - exact).max(), 0.0, 1e-4)]

    return judged


margins_by_squares = _margin_claim(
    "margins-by-squares",
    "Proposition 2",
    "With margins, too, the link of the squared-distance solution gives the targets for strongly convex φ.",
    1.0,
)
margins_by_scaled_squares = _margin_claim(
    "margins-by-scaled-squares",
    "Proposition 3",
    "For φ with Lipschitz gradients it does with margins multiplied by a constant.",
    0.5,
)


# --- online ---------------------------------------------------------------------------------------------------------


@_claim(
    "online-regret",
    "Theorem 3, section 3.4.6",
    "Steps 1/(σt) have a regret of at most (L²/2σ)(1 + log T), L the Lipschitz constant of the gradients.",
    lambda curvature, steepest: curvature,
    corrected=("L has to be the largest gradient met.", lambda curvature, steepest: steepest),
)
def online_regret(constant: Callable[[float, float], float]) -> list[Comparison]:
    """Regret over that bound on the rounds ½(w − u)², u = ±10 at random: σ = 1, curvature 1."""
    rng, w, rounds = np.random.default_rng(26), 0.0, 400
    centres, points = rng.choice([-10.0, 10.0], size=rounds), np.empty(rounds)
    for t, centre in enumerate(centres):
        points[t] = w
        w -= (w - centre) / (t + 1)
    regret = 0.5 * float(np.sum((points - centres) ** 2) - np.sum((centres.mean() - centres) ** 2))
    bound = constant(1.0, float(np.abs(points - centres).max())) ** 2 / 2.0 * (1.0 + np.log(rounds))
    return [at_most("regret over the bound", regret / bound, 1.0, 1e-6, clearly=0.1)]


CLAIMS = defined_in(globals())
