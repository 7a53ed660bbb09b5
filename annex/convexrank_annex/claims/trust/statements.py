"""Chapter 6: lemmas on eigenvectors, steps of proofs, and remarks. θ = p/q."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, at_most, claim, defined_in, equal
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


@_claim(
    "irreducible-eigenvector",
    "Lemma 26",
    "A positive increasing map that is homogeneous of degree 1 and irreducible has one eigenvector, up to scale.",
    True,
    otherwise=("One that is not irreducible has, too.", False),
)
def irreducible_eigenvector(connected: bool) -> list[Comparison]:
    """x + ‖·‖₃ of the flows, which has the eigenvectors of the norm, from every page of a graph, or of two halves."""
    links = random_links(np.random.default_rng(63))
    if not connected:
        links[:4, 4:] = links[4:, :4] = 0.0
        links = np.maximum(links, np.kron(np.eye(2), np.roll(np.eye(4), 1, axis=0)))
    share = shares(links)
    limits = [rank_of(lambda r: r + norm(share * r, 3.0), np.eye(8)[i], 3000) for i in range(8)]
    worst = max(float(np.abs(limit - limits[0]).sum()) for limit in limits)
    return [equal("distance of the limits", worst, 0.0, 1e-9)]


@_claim(
    "scaling-keeps-eigenvectors",
    "Lemma 27",
    "Dividing a homogeneous map by its sum keeps its eigenvectors, scaled to sum to 1.",
    lambda x: x,
    otherwise=("Dividing any increasing map by its sum does.", lambda x: x + x**2),
)
def scaling_keeps_eigenvectors(after: Callable[[Array], Array]) -> list[Comparison]:
    """An eigenvector of the update at p = 4, q = 4.8, followed by a map of the entries, on a random graph."""
    links = random_links(np.random.default_rng(64))
    u = np.ones(8)
    for _ in range(2000):
        u = after(inside(links, u, 4.0, 4 / 4.8))
        u = u / max(1.0, u.max())  # an eigenvector, if of another value
    value = float((after(inside(links, u, 4.0, 4 / 4.8)) / u).mean())
    u_hat = u / u.sum()
    image = after(inside(links, u_hat, 4.0, 4 / 4.8))
    residual = np.abs(after(inside(links, u, 4.0, 4 / 4.8)) / value - u).max()
    return [
        at_most("distance of u from an eigenvector", residual, 0.0, 1e-9),
        equal("distance of the scaled image", np.abs(image / image.sum() - u_hat).sum(), 0.0, 1e-9),
    ]


@_claim(
    "ratios-add-up",
    "Theorem 14, proof",
    "With r(x, y) = min x_i/y_i over max x_i/y_i, r(x, y) + r(y, z) ≥ r(x, z).",
    lambda x, y: float(np.exp(-hilbert(x, y))),
    corrected=("−log r(x, y), Hilbert's metric, satisfies that triangle inequality.", hilbert),
)
def ratios_add_up(distance: Callable[[Array, Array], float]) -> list[Comparison]:
    """Random triples, x = z among them."""
    rng, least = np.random.default_rng(65), np.inf
    for k in range(200):
        x, y, z = np.exp(2.0 * rng.normal(size=(3, 4)))
        z = x if k % 4 == 0 else z
        least = min(least, distance(x, y) + distance(y, z) - distance(x, z))
    return [at_least("least r(x, y) + r(y, z) − r(x, z)", least, 0.0, 1e-9)]


def _on_segments(rng: np.random.Generator) -> tuple[Array, Array]:
    x, y = rng.random((2, 5))
    return x, y


def _on_rays(rng: np.random.Generator) -> tuple[Array, Array]:
    x = rng.random(5)
    return x, rng.uniform(0.0, 3.0) * x


@_claim(
    "concave-as-a-whole",
    "section 6.2, before (6.1)",
    "For q > p the update of a page is concave as a whole, and so returns diminish.",
    _on_segments,
    corrected=("It is concave when all flows grow in proportion.", _on_rays),
)
def concave_as_a_whole(pair: Callable[[np.random.Generator], tuple[Array, Array]]) -> list[Comparison]:
    """Value at the mean less the mean of the values, p = 4, q = 4.8."""
    rng, least = np.random.default_rng(66), np.inf
    for _ in range(300):
        flows = np.array(pair(rng))
        at_mean = norm(flows.mean(axis=0, keepdims=True), 4.0)[0] ** (4 / 4.8)
        least = min(least, at_mean - float((norm(flows, 4.0) ** (4 / 4.8)).mean()))
    return [at_least("least value at the mean beyond the mean", least, 0.0, 1e-12)]


@_claim(
    "maximum-ignores-poor-links",
    "section 6.2, item 2",
    "At p = ∞ links from pages whose flow is lower than the best one leave the update of a page as it is.",
    np.inf,
    otherwise=("At p = 4 they do.", 4.0),
)
def maximum_ignores_poor_links(p: float) -> list[Comparison]:
    """Random flows, and a thousand more of at most the largest."""
    rng = np.random.default_rng(67)
    flows = rng.random((20, 6))
    more = np.hstack([flows, rng.random((20, 1000)) * flows.max(axis=1, keepdims=True)])
    return [equal("largest change", np.abs(norm(more, p) - norm(flows, p)).max(), 0.0, 1e-12)]


@_claim(
    "weak-links-outside",
    "Figure 6.1, footnote",
    "With the weak links outside the norm every start comes to one rank for p < q, too.",
    0.15,
    otherwise=("It does without weak links.", 0.0),
)
def weak_links_outside(weight: float) -> list[Comparison]:
    """Starts at single pages of two rings that do not know each other, with chords, p = 3, q = 3.75."""
    rings = links_of(8, [(i, i // 4 * 4 + (i + 1) % 4) for i in range(8)] + [(0, 2), (5, 7), (6, 4)])
    share = shares(rings)

    def update(r: Array) -> Array:
        return (1 - weight) * norm(share * r, 3.0) ** 0.8 + weight / 8 * r.sum() ** 0.8

    limits = [rank_of(update, np.eye(8)[i], 500) for i in range(8)]
    return [
        equal("distance of the limits", max(float(np.abs(a - limits[0]).sum()) for a in limits), 0.0, 1e-9)
    ]


@_claim(
    "iterations-drop-with-q",
    "Figure 6.6, top",
    "With p held, fewer iterations are needed the larger q is.",
    (4.2, 4.8, 6.0, 8.0, 16.0),
    otherwise=("The smaller q is.", (16.0, 8.0, 6.0, 4.8, 4.2)),
)
def iterations_drop_with_q(exponents: Sequence[float]) -> list[Comparison]:
    """Rounds until the rank of random graphs changes by less than 1e-6, p = 4, from the uniform start."""
    rng, needed = np.random.default_rng(69), np.zeros((5, len(exponents)))
    for row in needed:
        links = random_links(rng)
        for column, q in enumerate(exponents):
            r, change = np.full(8, 1 / 8), np.inf
            while change >= 1e-6:
                new = inside(links, r, 4.0, 4.0 / q)
                r, change = new / new.sum(), float(np.abs(new / new.sum() - r).sum())
                row[column] += 1
    return [
        at_most("largest growth from one q to the next", np.diff(needed, axis=1).max(), 0.0, 0.1, clearly=1)
    ]


@_claim(
    "malice-does-not-spread",
    "section 6.3; section 6.4.2",
    "Distrust that flows against the links does not reach a page because a spam page links to it.",
    np.transpose,
    otherwise=("Distrust that flows along the links does not, either.", lambda links: links),
)
def malice_does_not_spread(orient: Callable[[Array], Array]) -> list[Comparison]:
    """Distrust of page 0 from a bad page 5, before and after 5 links to it; γ = 0.85."""
    links = links_of(6, ((0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)))
    spiteful = links.copy()
    spiteful[0, 5] = 1.0

    def distrust(links: Array) -> float:
        share = shares(orient(links))
        return float(np.linalg.solve(np.eye(6) - 0.85 * share, 0.15 * np.eye(6)[5])[0])

    return [equal("distrust gained", distrust(spiteful) - distrust(links), 0.0, 1e-12)]


CLAIMS = defined_in(globals())
