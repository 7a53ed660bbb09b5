"""Chapter 6: one rank, and how fast it is reached. θ = p/q."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_most, claim, defined_in, equal
from convexrank_annex.claims.trust.updates import (
    hilbert,
    inside,
    links_of,
    norm,
    random_links,
    rank_of,
    shares,
)

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 6)


# --- uniqueness and rates -------------------------------------------------------------------------------------------


def _spread(update: Callable[[Array], Array], n: int, rounds: int) -> float:
    """Largest distance between the limits from starts at every page."""
    limits = [rank_of(update, 1e-3 + np.eye(n)[i], rounds) for i in range(n)]
    return max(float(np.abs(a - limits[0]).sum()) for a in limits)


@_claim(
    "unique-eigenvector",
    "Lemma 25, Theorem 13",
    "An increasing irreducible map that is super-homogeneous of a degree below 1, U(cx) ≥ c^d U(x), has one rank.",
    2.0,
    corrected=("It has when it is sub-homogeneous, U(cx) ≤ c^d U(x).", 0.5),
)
def unique_eigenvector(power: float) -> list[Comparison]:
    """x ↦ x^power + Σx^power/50: with power 2 it is super-homogeneous of degree ½, as c² ≥ √c."""

    def update(r: Array) -> Array:
        return r**power + np.sum(r**power) / 50.0

    return [equal("distance of the limits from four starts", _spread(update, 4, 300), 0.0, 1e-9)]


@_claim(
    "unique-rank",
    "Corollary 6, Theorem 14",
    "For p < q there is one rank, and every start comes to it.",
    0.8,
    otherwise=("For p = 3q there is.", 3.0),
)
def unique_rank(theta: float) -> list[Comparison]:
    """Starts at every page of random graphs, p = 3."""
    rng, worst = np.random.default_rng(55), 0.0
    for _ in range(3):
        links = random_links(rng)
        worst = max(worst, _spread(lambda r, links=links: inside(links, r, 3.0, theta), 8, 300))
    return [equal("distance of the limits", worst, 0.0, 1e-9)]


@_claim(
    "matching-exponents-converge",
    "Theorem 14, degree 1; section 6.2, item 2",
    "With p = q, p finite, every start comes to one rank.",
    2.0,
    otherwise=("Also with p = q = ∞.", np.inf),
)
def matching_exponents_converge(p: float) -> list[Comparison]:
    """Starts at every page of two pages that link to each other and to a third, and it back."""
    links = links_of(3, ((0, 1), (1, 0), (2, 0)))
    return [equal("distance of the limits", _spread(lambda r: inside(links, r, p, 1.0), 3, 5001), 0.0, 1e-7)]


@_claim(
    "contraction",
    "beside section 6.2, which leaves the rate open",
    "For any graph, p (also ∞) and α, the update contracts Hilbert's metric by θ = p/q.",
    lambda theta: theta,
    otherwise=("It contracts it by θ².", lambda theta: theta**2),
    source="ours",
)
def contraction(factor: Callable[[float], float]) -> list[Comparison]:
    """Random graphs and pairs of ranks; sparse matrices without weak links come nearest to the bound."""
    rng, worst = np.random.default_rng(56), -np.inf
    for _ in range(300):
        links, theta, p = (
            random_links(rng),
            float(rng.uniform(0.5, 0.95)),
            float(rng.choice([1.0, 3.0, np.inf])),
        )
        a, b = np.exp(rng.normal(size=(2, 8)))
        images = [norm(shares(links) * r, p) ** theta for r in (a, b)]
        worst = max(worst, hilbert(*images) - factor(theta) * hilbert(a, b))
    return [at_most("distance after, beyond the bound", worst, 0.0, 1e-9)]


@_claim(
    "hilbert-certificate",
    "beside section 6.2, which leaves the rate open",
    "The distance from the rank is at most θ/(1 − θ) times the last step, in Hilbert's metric.",
    lambda theta: theta / (1 - theta),
    otherwise=("It is at most 0.1 times the last step.", lambda theta: 0.1),
    source="ours",
)
def hilbert_certificate(factor: Callable[[float], float]) -> list[Comparison]:
    """Early rounds on random graphs, p = 4, q = 4.8."""
    rng, worst, theta = np.random.default_rng(57), -np.inf, 4 / 4.8
    for _ in range(10):
        links, r = random_links(rng), np.exp(rng.normal(size=8))
        limit = rank_of(lambda v, links=links: inside(links, v, 4.0, theta), np.ones(8), 400)
        for _ in range(6):
            before, r = r, inside(links, r, 4.0, theta)
            worst = max(worst, hilbert(r, limit) - factor(theta) * hilbert(r, before))
    return [at_most("distance beyond the bound", worst, 0.0, 1e-9)]


@_claim(
    "hilbert-to-sum",
    "beside section 6.2, which leaves the rate open",
    "Two distributions at Hilbert distance d differ by at most 2 tanh(d/4) in the sum of absolute values.",
    4.0,
    otherwise=("By at most 2 tanh(d/8).", 8.0),
    source="ours",
)
def hilbert_to_sum(divisor: float) -> list[Comparison]:
    """Random pairs, those of two pages among them, where the bound is met."""
    rng, worst = np.random.default_rng(58), -np.inf
    for n in (2, 2, 3, 5) * 50:
        a, b = rng.dirichlet(np.ones(n), size=2)
        worst = max(worst, float(np.abs(a - b).sum()) - 2 * float(np.tanh(hilbert(a, b) / divisor)))
    return [at_most("difference beyond the bound", worst, 0.0, 1e-9)]


CLAIMS = defined_in(globals())
