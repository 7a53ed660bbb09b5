"""Chapter 6: what the update of L_{p,q} rank is. θ = p/q."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, Verdict, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.consensus.graph import stationary
from convexrank_annex.claims.trust.updates import (
    ALPHA,
    inside,
    literal,
    norm,
    pagerank,
    random_links,
    rank_of,
    shares,
)

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 6)


# --- what the update is ---------------------------------------------------------------------------------------------


@_claim(
    "few-good-links",
    "Lemma 24",
    "For convex f, Σ f(x_k) is at least its value with all entries replaced by their mean.",
    lambda x: x**3,
    otherwise=("For concave f it is.", np.sqrt),
)
def few_good_links(f: Callable[[Array], Array]) -> list[Comparison]:
    """Random non-negative entries."""
    x = np.random.default_rng(50).random((200, 5))
    gap = f(x).sum(axis=1) - 5 * f(x.mean(axis=1))
    return [at_least("least difference", gap.min(), 0.0, 1e-12)]


@_claim(
    "logarithm-as-limit",
    "Proposition 10",
    "k·x^(1/k) tends to log x as k grows.",
    lambda x, k: k * x ** (1 / k),
    corrected=("k·(x^(1/k) − 1) does.", lambda x, k: k * np.expm1(np.log(x) / k)),
)
def logarithm_as_limit(form: Callable[[Array, float], Array]) -> list[Comparison]:
    """Largest distance from the logarithm on [0.1, 10] at k = 10⁷."""
    x = np.linspace(0.1, 10.0, 100)
    return [equal("distance at k = 1e7", np.abs(form(x, 1e7) - np.log(x)).max(), 0.0, 1e-5)]


@_claim(
    "pagerank-at-one",
    "(6.1); section 6.2, item 1",
    "At p = q = 1 the update is PageRank's.",
    literal,
    corrected=("It is when every page has a weak link, and an entry of its own, inside the norm.", inside),
)
def pagerank_at_one(update: Callable[..., Array]) -> list[Comparison]:
    """Limits on random graphs, against linear equations."""
    rng, worst = np.random.default_rng(51), 0.0
    for _ in range(5):
        links = random_links(rng)
        rank = rank_of(lambda r, links=links: update(links, r, 1.0, 1.0), np.ones(8))
        worst = max(worst, float(np.abs(rank - pagerank(links)).sum()))
    return [equal("distance from PageRank", worst, 0.0, 1e-9)]


@_claim(
    "scaling-of-neighbours",
    "section 6.2, item 4",
    "When the ranks of the pages that link here are scaled by β, the rank is scaled by β^(q/p).",
    lambda p, q: q / p,
    corrected=("It is scaled by β^(p/q).", lambda p, q: p / q),
)
def scaling_of_neighbours(exponent: Callable[[float, float], float]) -> list[Comparison]:
    """One update, p = 2, q = 3, β = 1.7."""
    rng = np.random.default_rng(52)
    links, r = random_links(rng), rng.random(8)
    ratio = inside(links, 1.7 * r, 2.0, 2.0 / 3.0) / inside(links, r, 2.0, 2.0 / 3.0)
    return [equal("scale of the ranks", ratio.max(), 1.7 ** exponent(2.0, 3.0), 1e-9)]


@_claim(
    "increment-of-neighbours",
    "section 6.2, item 3",
    "With p = q, when flows grow by q_j, a rank grows by at most ‖q‖_p.",
    1.0,
    otherwise=("It grows by at most half of that.", 0.5),
)
def increment_of_neighbours(factor: float) -> list[Comparison]:
    """Random flows and increments, p = 3."""
    rng = np.random.default_rng(53)
    flows, more = rng.random((2, 200, 5))
    excess = norm(flows + more, 3.0) - norm(flows, 3.0) - factor * norm(more, 3.0)
    return [at_most("growth beyond the bound", excess.max(), 0.0, 1e-12)]


def _powered(links: Array, p: float, entrywise: bool) -> Array:
    """PageRank, or the Perron vector of the entrywise power of its matrix; then the p-th root."""
    matrix = ALPHA * shares(links) + (1 - ALPHA) / len(links)
    if entrywise:
        values, vectors = np.linalg.eig(matrix**p)
        perron = np.abs(np.real(vectors[:, np.argmax(np.real(values))]))
    else:
        perron = stationary(matrix)
    root = perron ** (1 / p)
    return root / root.sum()


@_claim(
    "norm-rank-transforms-pagerank",
    "section 6.2, on NORM()",
    "With p = q the rank is the p-th root of PageRank, taken after that has converged.",
    False,
    otherwise=(
        "It is the p-th root of the Perron vector of the matrix with every entry to the power p.",
        True,
    ),
    documented=Verdict.REFUTED,
)
def norm_rank_transforms_pagerank(entrywise: bool) -> list[Comparison]:
    """Limit of the update at p = q = 2 on a random graph."""
    links = random_links(np.random.default_rng(54))
    rank = rank_of(lambda r: inside(links, r, 2.0, 1.0), np.ones(8), 3000)
    return [equal("distance of the ranks", np.abs(rank - _powered(links, 2.0, entrywise)).sum(), 0.0, 1e-8)]


CLAIMS = defined_in(globals())
