"""How wrong is a PageRank vector of another package?"""

from __future__ import annotations

import numpy as np
import pytest

import convexrank as cr

networkx = pytest.importorskip("networkx")


def exact(links, alpha=0.85):
    """PageRank by a dense solve; nodes without links jump anywhere."""
    n = len(links)
    out = links.sum(axis=1, keepdims=True)
    steps = np.where(out > 0, links / np.maximum(out, 1), 1.0 / n)
    return np.linalg.solve(np.eye(n) - alpha * steps.T, np.full(n, (1 - alpha) / n))


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-12])
def test_the_bound_holds_and_is_not_far_above_the_error(tol):
    graph = networkx.gnp_random_graph(60, 0.05, seed=3, directed=True)
    truth = exact(networkx.to_numpy_array(graph))
    found = networkx.pagerank(graph, tol=tol, max_iter=500)
    error = np.abs(np.array([found[node] for node in graph]) - truth).sum()
    certificate = cr.check_ranks(found, graph)
    assert error <= certificate.gap
    assert certificate.gap <= 20.0 * error + 1e-13
    wrong = dict(found)
    wrong[0] += 0.01  # a planted error
    assert cr.check_ranks(wrong, graph).gap >= 0.01 - error


def _igraph(edges):
    igraph = pytest.importorskip("igraph", reason="igraph is not installed")
    return igraph.Graph(40, edges, directed=True).pagerank()


def _rustworkx(edges):
    rustworkx = pytest.importorskip("rustworkx", reason="rustworkx is not installed")
    graph = rustworkx.PyDiGraph()
    graph.add_nodes_from(range(40))
    graph.add_edges_from_no_data(edges)
    return dict(rustworkx.pagerank(graph, tol=1e-12))


@pytest.mark.parametrize(("ranks_of", "gap"), [(_igraph, 1e-10), (_rustworkx, 1e-8)])
def test_vectors_of_other_packages(ranks_of, gap):
    graph = networkx.gnp_random_graph(40, 0.1, seed=1, directed=True)
    ranks = ranks_of(list(graph.edges))
    certificate = cr.check_ranks(ranks, graph)
    assert certificate.gap < gap
    found = np.array([ranks[node] for node in range(40)])
    assert np.abs(found - exact(networkx.to_numpy_array(graph))).sum() <= certificate.gap


class _Elsewhere:
    """A frame that is not in pandas, as one of cudf is not: it has columns, and becomes one of pandas."""

    def __init__(self, frame):
        self.columns, self.to_pandas = frame.columns, lambda: frame


@pytest.mark.parametrize("library", ["pandas", "cudf"])
def test_data_frames_as_cugraph_returns_them(library):
    pandas = pytest.importorskip("pandas")
    graph = networkx.gnp_random_graph(40, 0.1, seed=1, directed=True)
    ranks = networkx.pagerank(graph, tol=1e-12, max_iter=500)
    order = np.random.default_rng(0).permutation(40)
    frame = pandas.DataFrame({"pagerank": [ranks[node] for node in order], "vertex": order})
    given = _Elsewhere(frame) if library == "cudf" else frame
    assert cr.check_ranks(given, graph).gap == cr.check_ranks(ranks, graph).gap < 1e-10
    named = networkx.relabel_nodes(graph, str)
    assert cr.check_ranks(frame.assign(vertex=[str(node) for node in order]), named).gap < 1e-10
    assert (
        cr.check_ranks(frame.assign(vertex=order[::-1]), graph).gap > 0.1
    )  # a planted error: other nodes' ranks


def test_data_frames_of_other_forms_are_refused():
    pandas = pytest.importorskip("pandas")
    graph = networkx.DiGraph([(0, 1), (1, 0)])
    for columns, message in (
        ({"vertex": [0, 0], "pagerank": [0.5, 0.5]}, "vertex 0 twice"),
        ({"vertex": [0, 7], "pagerank": [0.5, 0.5]}, "there is none for 1"),
        ({"node": [0, 1], "pagerank": [0.5, 0.5]}, "expected 'vertex' and one of ranks"),
        ({"vertex": [0, 1], "hubs": [0.5, 0.5], "authorities": [0.5, 0.5]}, "expected 'vertex'"),
        ({"vertex": [0, 1], "pagerank": [0.5, np.nan]}, "ranks"),
    ):
        with pytest.raises(ValueError, match=message):
            cr.check_ranks(pandas.DataFrame(columns), graph)


def test_names_and_refusals():
    graph = networkx.DiGraph([("a", "b"), ("b", "a"), ("c", "a")])
    ranks = networkx.pagerank(graph, tol=1e-12, max_iter=1000)
    pandas = pytest.importorskip("pandas")
    shuffled = pandas.Series(ranks)[["c", "a", "b"]]
    assert cr.check_ranks(shuffled, graph).gap == cr.check_ranks(ranks, graph).gap < 1e-10
    assert (
        cr.check_ranks(networkx.pagerank(graph, alpha=0.5, tol=1e-12, max_iter=1000), graph, 0.5).gap < 1e-10
    )
    with pytest.raises(ValueError, match="there is none for 'c'"):
        cr.check_ranks({"a": 0.5, "b": 0.5}, graph)
    with pytest.raises(ValueError, match="ranks"):
        cr.check_ranks([0.5, 0.5], graph)
    with pytest.raises(ValueError, match="ranks"):
        cr.check_ranks([np.nan, 0.5, 0.5], graph)
