"""The updates of chapter 6, and what they are compared with. Matrices have one column a page that links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from convexrank_annex.claims.consensus.graph import stationary

__all__ = [
    "ALPHA",
    "hilbert",
    "inside",
    "links_of",
    "literal",
    "norm",
    "outside",
    "pagerank",
    "random_links",
    "rank_of",
    "shares",
]

Array = np.ndarray
ALPHA = 0.85


def links_of(n: int, arrows: Sequence[tuple[int, int]]) -> Array:
    """Return the matrix of links: entry (target, source) is 1."""
    links = np.zeros((n, n))
    for source, target in arrows:
        links[target, source] = 1.0
    return links


def shares(links: Array, floor: float = 1.0) -> Array:
    """Return the links over the out-degrees, which count as at least ``floor``."""
    return links / np.maximum(links.sum(axis=0), floor)


def pagerank(links: Array) -> Array:
    """Return PageRank, from linear equations; pages without links have them everywhere."""
    n, out = len(links), links.sum(axis=0)
    spread = np.where(out > 0, shares(links), 1.0 / n)
    return stationary(ALPHA * spread + (1 - ALPHA) / n)


def norm(entries: Array, p: float) -> Array:
    """Return the p-norm of every row, p = ∞ included."""
    top = entries.max(axis=1, keepdims=True)
    scaled = entries / np.where(top > 0, top, 1.0)
    return top[:, 0] * (1.0 if np.isinf(p) else np.sum(scaled**p, axis=1) ** (1 / p))


def inside(links: Array, r: Array, p: float, theta: float, floor: float = 1.0) -> Array:
    """(6.1) with a weak link from every page, inside the norm; pages without links have them everywhere."""
    n = len(links)
    share = np.where(links.sum(axis=0) > 0, shares(links, floor), 1.0 / n)
    return norm((ALPHA * share + (1 - ALPHA) / n) * r, p) ** theta


def outside(links: Array, r: Array, p: float, theta: float) -> Array:
    """The footnote: weak links outside the norm."""
    n = len(links)
    share = np.where(links.sum(axis=0) > 0, shares(links), 1.0 / n)
    return ALPHA * norm(share * r, p) ** theta + (1 - ALPHA) / n * r.sum() ** theta


def literal(links: Array, r: Array, p: float, theta: float) -> Array:
    """(6.1) as printed: the weak part is added to every entry of a page that links here."""
    n = len(links)
    entries = np.where(links > 0, ALPHA * shares(links) * r + (1 - ALPHA) / n * r.sum(), 0.0)
    return norm(entries, p) ** theta


def rank_of(update: Callable[[Array], Array], start: Array, rounds: int = 400) -> Array:
    """Iterate and normalise, until nothing changes any more."""
    r = start / start.sum()
    for _ in range(rounds):
        last, r = r, update(r)
        r = r / r.sum()
        if np.array_equal(r, last):
            break
    return r


def hilbert(a: Array, b: Array) -> float:
    """Return Hilbert's distance of two positive vectors."""
    return float(np.ptp(np.log(a) - np.log(b)))


def random_links(rng: np.random.Generator, n: int = 8) -> Array:
    """Return a strongly connected random graph."""
    return np.maximum((rng.random((n, n)) < 0.3).astype(float), np.roll(np.eye(n), 1, axis=0))
