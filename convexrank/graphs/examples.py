"""The small graphs in figures of the sources."""

from __future__ import annotations

from convexrank.graphs.graph import Graph


def _drawn(n: int, links: list[tuple[int, int]]) -> Graph:
    """A graph whose nodes are called "1" to "n"."""
    sources, targets = zip(*links, strict=True)
    names = [str(i + 1) for i in range(n)]
    return Graph.from_edges([i - 1 for i in sources], [i - 1 for i in targets], n=n, names=names)


def equal_inflows() -> Graph:
    """Seven pages, two of which have the same total inflow, from few good links or from many poor ones: Figure 6.2.

    Pages 1, 2 and 3 link to each of 4 to 7; 4 links to 1; 5 to 1 and 2; 6 and 7 to 2 and 3. With PageRank pages 1 and 2
    are tied; with a norm with p > 1 page 1 is above page 2.

    Returns
    -------
    Graph
        Its nodes are called "1" to "7".

    References
    ----------
    Dissertation on learning to rank, figure 6.2.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.graphs.equal_inflows()
    >>> cr.pagerank(graph)[:2].round(4).tolist(), cr.lpq_rank(graph, 2, 2.02)[:2].round(4).tolist()
    ([0.1826, 0.1826], [0.2089, 0.1654])
    """
    links = [(i, j) for i in (1, 2, 3) for j in (4, 5, 6, 7)]
    return _drawn(7, [*links, (4, 1), (5, 1), (5, 2), (6, 2), (6, 3), (7, 2), (7, 3)])


def small_farm() -> Graph:
    """Five legitimate pages, and page 6 with three helpers that link to it: Figure 6.3.

    Page 1 links to 2, 3, 4 and 5; these form a ring 2, 3, 4, 5; 5 links to 1. Page 6 and each of 7, 8, 9 link to each
    other. PageRank puts page 6 first; the L_∞ rank with weak links "outside" puts it below 1 to 5. The drawing in the
    source does not determine all links; those here agree with its text.

    Returns
    -------
    Graph
        Its nodes are called "1" to "9".

    References
    ----------
    Dissertation on learning to rank, figure 6.3.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.graphs.small_farm()
    >>> ranks = graph.named(cr.pagerank(graph))
    >>> max(ranks, key=ranks.get)
    '6'
    """
    links = [(1, 2), (1, 3), (1, 4), (1, 5), (2, 3), (3, 4), (4, 5), (5, 2), (5, 1)]
    return _drawn(9, [*links, (7, 6), (8, 6), (9, 6), (6, 7), (6, 8), (6, 9)])
