"""Chapter 3: means, cones of sorted vectors, and coordinate descent (Lemmas 3 and 4, Theorem 2, appendix A.1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.exact import optimum

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 3)

# Values of x with their chances, and generalized I-divergence.
_VALUES, _CHANCES = np.array([0.2, 0.9, 1.5, 4.0]), np.array([0.3, 0.2, 0.4, 0.1])


def _divergence(x: Array | float, y: Array | float) -> Array:
    return np.asarray(x * np.log(np.divide(x, y)) - x + y)


def _arithmetic(x: Array, chances: Array) -> float:
    return float(chances @ x)


def _generalized(x: Array, chances: Array) -> float:
    return float(np.exp(chances @ np.log(x)))  # (∇φ)⁻¹ of the mean of ∇φ


@_claim(
    "divergence-about-the-mean",
    "Theorem 15, (A.7)",
    "E D(x‖s) = E D(x‖μ) + D(μ‖s), μ the mean.",
    _arithmetic,
    otherwise=("So it is with the generalized mean in place of μ.", _generalized),
)
def divergence_about_the_mean(centre: Callable[[Array, Array], float]) -> list[Comparison]:
    """Four values, three s."""
    mean, worst = centre(_VALUES, _CHANCES), 0.0
    for s in (0.1, 1.0, 7.0):
        left = float(_CHANCES @ _divergence(_VALUES, s))
        worst = max(
            worst, abs(left - float(_CHANCES @ _divergence(_VALUES, mean)) - float(_divergence(mean, s)))
        )
    return [equal("largest difference", worst, 0.0, 1e-9)]


def _excess(centre: float, first: bool) -> float:
    """The expected divergence at a centre, above the least on a fine grid."""
    grid = np.linspace(0.2, 4.0, 38001)
    pairs = _divergence(_VALUES[:, None], grid) if first else _divergence(grid, _VALUES[:, None])
    own = _divergence(_VALUES, centre) if first else _divergence(centre, _VALUES)
    return float(_CHANCES @ own - (_CHANCES @ pairs).min())


@_claim(
    "mean-is-best-right",
    "Corollary 7",
    "The mean minimises E D(x‖y) over y.",
    _arithmetic,
    otherwise=("The generalized mean does.", _generalized),
)
def mean_is_best_right(centre: Callable[[Array, Array], float]) -> list[Comparison]:
    """Against a grid of 38 001 points."""
    return [at_most("cost above the least", _excess(centre(_VALUES, _CHANCES), True), 0.0, 1e-7)]


@_claim(
    "generalized-mean-is-best-left",
    "Corollary 8",
    "The generalized mean (∇φ)⁻¹(E∇φ(x)) minimises E D(y‖x) over y.",
    _generalized,
    otherwise=("The mean does.", _arithmetic),
)
def generalized_mean_is_best_left(centre: Callable[[Array, Array], float]) -> list[Comparison]:
    """Against a grid of 38 001 points."""
    return [at_most("cost above the least", _excess(centre(_VALUES, _CHANCES), False), 0.0, 1e-7)]


@_claim(
    "spread-of-a-partition",
    "Corollary 9",
    "The least E D(x‖μ) is at least the sum of those of two parts of the values (argmin is printed for min).",
    lambda share: 1.0,
    corrected=("Of their sum weighted by the chances of the parts.", lambda share: share),
)
def spread_of_a_partition(weight: Callable[[float], float]) -> list[Comparison]:
    """Every partition of four values in two parts; the least is at the mean."""

    def spread(part: Array) -> tuple[float, float]:
        chances = _CHANCES[part] / _CHANCES[part].sum()
        mean = float(chances @ _VALUES[part])
        return float(_CHANCES[part].sum()), float(chances @ _divergence(_VALUES[part], mean))

    whole, worst = spread(np.arange(4))[1], -np.inf
    for code in range(1, 15):
        inside = np.array([(code >> i) & 1 for i in range(4)], bool)
        parts = [spread(np.flatnonzero(side)) for side in (inside, ~inside)]
        worst = max(worst, sum(weight(share) * value for share, value in parts) - whole)
    return [at_most("sum over the parts above the whole", worst, 0.0, 1e-9)]


# --- sorted vectors as images of cones ------------------------------------------------------------------------------


def _triangular(v: Array) -> Array:
    """Row i is i − 1 zeros, then v from its i-th entry on."""
    return np.triu(np.tile(v, (len(v), 1)))


@_claim(
    "sorted-vectors",
    "Lemma 3",
    "Descending vectors are the images Ux of x that are non-negative but for the last entry.",
    1,
    otherwise=("Of x that are all non-negative.", 0),
)
def sorted_vectors(free: int) -> list[Comparison]:
    """Random descending vectors solved for x, and random x; v random and positive."""
    rng, least, rise = np.random.default_rng(91), np.inf, -np.inf
    for _ in range(50):
        v = rng.uniform(0.2, 2.0, size=5)
        x = np.linalg.solve(_triangular(v), np.sort(rng.normal(size=5))[::-1])
        least = min(least, float(x[: 5 - free].min()))
        x = np.abs(rng.normal(size=5))
        x[5 - free :] *= -1.0
        rise = max(rise, float(np.diff(_triangular(v) @ x).max()))
    return [
        at_least("least entry that may not be negative", least, 0.0, 1e-9),
        at_most("rise", rise, 0.0, 1e-9),
    ]


@_claim(
    "sorted-distributions",
    "Lemma 4",
    "Descending distributions are the images Tx of the simplex, T made of v = (1, 1/2, …, 1/d).",
    lambda d: 1.0 / np.arange(1.0, d + 1.0),
    otherwise=("So they are for T made of ones.", np.ones),
)
def sorted_distributions(vector: Callable[[int], Array]) -> list[Comparison]:
    """Random descending distributions solved for x, which has to be a distribution; random x."""
    rng, T, worst, sums = np.random.default_rng(92), _triangular(vector(5)), 0.0, 0.0
    for _ in range(50):
        x = np.linalg.solve(T, np.sort(rng.dirichlet(np.ones(5)))[::-1])
        worst = max(worst, -float(x.min()), abs(float(x.sum()) - 1.0))
        sums = max(sums, abs(float((T @ rng.dirichlet(np.ones(5))).sum()) - 1.0))
    return [equal("x off the simplex", worst, 0.0, 1e-9), equal("sum of Tx less 1", sums, 0.0, 1e-9)]


# --- coordinate descent ---------------------------------------------------------------------------------------------


@_claim(
    "blocks-in-turn",
    "Theorem 2",
    "Where every block has a unique minimum, limits of minimising a differentiable function in turn are stationary.",
    0.0,
    otherwise=("So they are for functions with kinks.", 1.0),
)
def blocks_in_turn(kink: float) -> list[Comparison]:
    """(x − 2y)² + (x + y − 2)², over 10, plus |x − y| or nothing, from (0, 0), against a conic program."""
    import cvxpy as cp
    from scipy.optimize import minimize_scalar

    def cost(x: float, y: float) -> float:
        return 0.1 * (x - 2.0 * y) ** 2 + 0.1 * (x + y - 2.0) ** 2 + kink * abs(x - y)

    def least(along: Callable[[float], float]) -> float:
        answer: Any = minimize_scalar(along, bounds=(-5, 5), method="bounded", options={"xatol": 1e-12})
        return float(answer.x)

    x = y = 0.0
    for _ in range(60):
        x = least(lambda v, y=y: cost(v, y))
        y = least(lambda v, x=x: cost(x, v))
    z = cp.Variable(2)
    best = 0.1 * cp.square(z[0] - 2 * z[1]) + 0.1 * cp.square(z[0] + z[1] - 2) + kink * cp.abs(z[0] - z[1])
    return [at_most("value at the limit above the least", cost(x, y) - optimum(cp.Minimize(best)), 0.0, 1e-7)]


CLAIMS = defined_in(globals())
