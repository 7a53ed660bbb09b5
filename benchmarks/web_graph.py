"""A web-like graph: hosts of all sizes, links mostly within a host, popular front pages, and closed hosts."""

from __future__ import annotations

from typing import Any

__all__ = ["kronecker_graph", "web_graph"]

# Links of a Kronecker graph that are drawn at once; a graph of as many is what it was when all were drawn at once.
_AT_ONCE = 1 << 24


def web_graph(n: int = 400_000, m: int = 13_000_000, seed: int = 0) -> tuple[Any, Any]:
    """Draw about m distinct links among n pages; the same seed gives the same graph.

    Pages of a host are neighbours, as in a crawl sorted by address. A page's links lead to its own host with
    probability 0.85, to its front more than to its depths; the others lead to front pages of hosts by their popularity.
    A third of the hosts have no link to another one, so that a surfer who gets there stays until he starts afresh: rank
    settles at the rate α, as on the web. One page in eight has no links.

    Returns
    -------
    tuple of ndarray of int32
        Sources and targets, by source.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    sizes = np.minimum(np.ceil(3.0 * rng.pareto(1.1, size=n // 20) + 1.0), n // 50).astype(np.int64)
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), n) + 1]
    sizes[-1] -= sizes.sum() - n
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    host = np.repeat(np.arange(len(sizes)), sizes)
    closed = rng.random(len(sizes)) < 1 / 3
    # a page of a small host has few others to link to
    activity = rng.lognormal(0.0, 1.0, n) * (rng.random(n) > 1 / 8) * np.minimum(1.0, sizes[host] / 60.0)
    popularity = np.cumsum(rng.pareto(1.2, len(sizes)) + 0.01)
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < m:
        draws = rng.poisson(activity * (1.7 * (m - len(keys)) / activity.sum()))
        source = np.repeat(np.arange(n), draws)
        inside = closed[host[source]] | (rng.random(len(source)) < 0.85)
        chosen = np.searchsorted(popularity, rng.random(len(source)) * popularity[-1])
        chosen = np.where(inside, host[source], np.minimum(chosen, len(sizes) - 1))
        depth = rng.random(len(source)) ** np.where(inside, 1.5, 4.0)
        target = starts[chosen] + (sizes[chosen] * depth).astype(np.int64)
        keys = np.unique(np.concatenate([keys, (source * n + target)[source != target]]))
    keys = keys[np.sort(rng.choice(len(keys), m, replace=False))]
    return (keys // n).astype(np.int32), (keys % n).astype(np.int32)


def kronecker_graph(scale: int, links: int = 16, seed: int = 0) -> tuple[Any, Any]:
    """Draw links of a Kronecker graph with 2^scale nodes in random order, as in Graph500: .57, .19, .19, .05.

    Returns
    -------
    tuple of ndarray of int32
        Sources and targets, some of them drawn more than once; no node links to itself.
    """
    import numpy as np

    rng, count = np.random.default_rng(seed), links << scale
    source, target = np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.int32)
    for first in range(0, count, _AT_ONCE):
        block = slice(first, min(first + _AT_ONCE, count))
        for bit in range(scale):
            low = rng.random(block.stop - first, dtype=np.float32) >= 0.76
            right = rng.random(block.stop - first, dtype=np.float32) > np.where(
                low, np.float32(0.19 / 0.24), np.float32(0.57 / 0.76)
            )
            source[block] |= low.astype(np.int32) << bit
            target[block] |= right.astype(np.int32) << bit
    order = rng.permutation(1 << scale).astype(np.int32)
    kept = source != target
    return order[source[kept]], order[target[kept]]
