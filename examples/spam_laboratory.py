"""Graph, ranks and farms of the spam laboratory, for the gallery page and its test."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import real_data

import convexrank as cr

Array = np.ndarray
Rank = Callable[[cr.Graph], Array]

# A farm: its kind, the number of helpers, and the number of legitimate pages that were brought to link to it.
FARMS = {
    "star": ("star", 50, 3),
    "funnel": ("funnel", 50, 3),
    "clique of 51": ("clique", 50, 3),
    "clique of 11": ("clique", 10, 3),
    "ring": ("ring", 50, 3),
    "alliance": ("alliance", 50, 3),
    "two pages": ("pairs", 1, 3),
    "two pages alone": ("pairs", 1, 0),
}


def stanford() -> cr.Graph:
    """Return the pages of cs.stanford.edu, 9 914 of them; FileNotFoundError where the file is not there."""
    from scipy.io import loadmat

    return cr.Graph.from_scipy(loadmat(real_data.find("graphs", "cs-stanford.mat"))["A"], self_loops=False)


def hosts(n: int = 3000, seed: int = 0) -> cr.Graph:
    """Draw a web of n pages on n/30 hosts: links mostly within a host, popular front pages, a third without links."""
    rng = np.random.default_rng(seed)
    host = np.sort(rng.integers(0, n // 30, n))
    first, size = np.searchsorted(host, host), np.bincount(host, minlength=n // 30)[host]
    links = rng.poisson(6.0 * rng.lognormal(0.0, 0.8, n)) * (rng.random(n) > 1 / 3)
    source = np.repeat(np.arange(n), links)
    near = first[source] + (size[source] * rng.random(len(source)) ** 2).astype(int)
    far = first[(n * rng.random(len(source)) ** 3).astype(int)]
    target = np.where(rng.random(len(source)) < 0.8, near, far)
    keys = np.unique((source * n + target)[source != target])
    return cr.Graph.from_edges(keys // n, keys % n, n=n)


def web() -> tuple[str, cr.Graph]:
    """Return the real graph where its file is present, else a random graph, and its description."""
    try:
        return "cs.stanford.edu", stanford()
    except FileNotFoundError:
        return "a drawn web", hosts()


def norm(p: float, **options: object) -> Rank:
    """Return the L_{p,q} rank with p/q = 1/1.2."""

    def rank(graph: cr.Graph) -> Array:
        theta = {"theta": 1 / 1.2} if np.isinf(p) else {}
        problem = cr.problems.LpqRank(graph, p, 1.2 * p, **theta, **options)
        return problem.solve(tol=1e-11).x  # pages of a farm may differ by 1e-9

    return rank


def good_pages(graph: cr.Graph, count: int = 100, seed: int = 0) -> Array:
    """Draw seeds among the tenth of the pages that lead to most others, as inverse PageRank has it."""
    leading = np.argsort(-cr.pagerank(graph.reversed()), kind="stable")[: max(graph.n // 10, count)]
    return np.sort(np.random.default_rng(seed).choice(leading, count, replace=False))


def unlabelled(good: Array) -> dict[str, Rank]:
    """Return ranks that know of no spam; TrustRank knows some good pages."""
    return {
        "PageRank": cr.pagerank,
        "L₂": norm(2.0),
        "L₄": norm(4.0),
        "L∞": norm(np.inf),
        "L₄, outside": norm(4.0, weak_links="outside"),
        "L₄, floor 10": norm(4.0, outdegree_floor=10.0),
        "TrustRank": lambda graph: cr.trust_rank(graph, good),
    }


def labelled(spam: Array, share: float = 0.1, seed: int = 0) -> dict[str, Rank]:
    """Return ranks that know a share of the good pages and of the spam: TrustRank, and bases scaled by trust."""
    rng = np.random.default_rng(seed)
    kinds = [np.flatnonzero(~spam), np.flatnonzero(spam)]
    good, bad = (rng.choice(pages, max(1, int(share * len(pages))), replace=False) for pages in kinds)

    def scaled(base: Rank) -> Rank:
        def rank(graph: cr.Graph) -> Array:
            return cr.combined_rank(base(graph), cr.trust_rank(graph, good), cr.antitrust_rank(graph, bad))

        return rank

    return {
        "TrustRank": lambda graph: cr.trust_rank(graph, good),
        "PageRank, scaled by trust": scaled(cr.pagerank),
        "L₄, scaled by trust": scaled(norm(4.0)),
        "L₄, floor 10, scaled by trust": scaled(norm(4.0, outdegree_floor=10.0)),
    }


def position(scores: Array, page: int) -> int:
    """Return the place of a page, 1 the top; pages of the same score, up to a solve's tolerance, share the middle."""
    tied = np.abs(scores - scores[page]) <= 1e-10 * scores[page]
    return int(((scores > scores[page]) & ~tied).sum() + (tied.sum() + 1) // 2)


def positions(graph: cr.Graph, compared: dict[str, Rank], seed: int = 0) -> Array:
    """Return the place of the target of each farm (rows) in each rank (columns)."""
    found = np.empty((len(FARMS), len(compared)), dtype=int)
    for i, (kind, helpers, hijacked) in enumerate(FARMS.values()):
        farm = cr.graphs.inject_farm(graph, kind, helpers, hijacked=hijacked, seed=seed)
        found[i] = [position(rank(farm.graph), farm.target) for rank in compared.values()]
    return found


def spammed(graph: cr.Graph, farms: int = 12, seed: int = 0) -> tuple[cr.Graph, Array]:
    """Return the graph with many farms of all kinds in it, and which pages are theirs."""
    rng, spam = np.random.default_rng(seed), np.zeros(graph.n, dtype=bool)
    for k in range(farms):
        kind = ("star", "funnel", "clique", "ring", "alliance", "pairs")[k % 6]
        farm = cr.graphs.inject_farm(
            graph, kind, int(rng.integers(20, 60)), hijacked=3, seed=int(rng.integers(2**31))
        )
        graph, spam = farm.graph, np.append(spam, farm.spam[graph.n :])
    return graph, spam
