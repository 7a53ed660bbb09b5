"""networkx's PageRank through this package: networkx's own tests, and what tol promises."""

from __future__ import annotations

import os
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

from convexrank import networkx_backend

# networkx's tests with this backend, but those of its own function for scipy; the argument is added to each rank
_THEIR_TESTS = """
import sys
import pytest
from convexrank import networkx_backend
right, wrong = networkx_backend.pagerank, float(sys.argv[1])
networkx_backend.pagerank = lambda *given, **named: {k: v + wrong for k, v in right(*given, **named).items()}
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--pyargs",
                      "networkx.algorithms.link_analysis.tests.test_pagerank", "-k", "not Scipy"]))
"""


def their_tests(folder, wrong):
    """The end of the report of networkx's tests, and whether they pass."""
    run = subprocess.run(
        [sys.executable, "-c", _THEIR_TESTS, str(wrong)],
        cwd=folder,
        env={**os.environ, "NETWORKX_TEST_BACKEND": "convexrank", "NETWORKX_FALLBACK_TO_NX": "True"},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout[-2000:] + run.stderr[-2000:]


def test_the_tests_of_networkx_pass_and_notice_a_wrong_rank(tmp_path):
    status, told = their_tests(tmp_path, 0.0)
    assert status == 0, told
    status, told = their_tests(tmp_path, 1e-3)
    assert status == 1, told
    assert "[pagerank]" in told


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiDiGraph])
@pytest.mark.parametrize("weight", ["weight", None])
def test_tol_bounds_the_true_error(kind, weight):
    rng = np.random.default_rng(0)
    graph = kind()
    graph.add_nodes_from("abcdefgh")
    graph.add_weighted_edges_from((*rng.choice([*"abcdef"], 2), float(rng.integers(1, 4))) for _ in range(12))
    options = {
        "personalization": {"a": 1, "h": 2},
        "dangling": {"b": 1, "c": 3, "nobody": 5},
        "weight": weight,
    }
    links = nx.to_numpy_array(graph, weight=weight)  # adds up parallel edges
    v, to = (
        np.array([options[key].get(name, 0.0) for name in graph]) for key in ("personalization", "dangling")
    )
    links[links.sum(axis=1) == 0] = to
    moves = 0.85 * links.T / links.sum(axis=1) + 0.15 * np.outer(v / v.sum(), np.ones(8))
    expected = np.linalg.solve(np.vstack([moves - np.eye(8), np.ones(8)])[1:], np.eye(8)[-1])
    for tol in (1e-3, 1e-12):
        found = nx.pagerank(graph.copy(), backend="convexrank", tol=tol, **options)
        assert list(found) == list(graph)
        assert np.abs(np.array([*found.values()]) - expected).sum() <= tol + 1e-14


def test_what_networkx_refuses_is_refused_alike():
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 0)])
    for ours in (None, "convexrank"):
        with pytest.raises(nx.PowerIterationFailedConvergence):
            nx.pagerank(graph.copy(), max_iter=0, backend=ours)
        with pytest.raises(ZeroDivisionError):
            nx.pagerank(graph.copy(), personalization={0: 0}, backend=ours)
        assert nx.pagerank(nx.Graph(), backend=ours) == {}
    with pytest.raises(nx.PowerIterationFailedConvergence):
        nx.pagerank(graph.copy(), tol=1e-30, backend="convexrank")
    for name in ("dangling", "nstart"):  # networkx returns nan
        with pytest.raises(ZeroDivisionError, match="0 everywhere"):
            nx.pagerank(graph.copy(), backend="convexrank", **{name: {0: 0}})
    with pytest.raises(NotImplementedError, match="convexrank"):
        nx.hits(graph.copy(), backend="convexrank")


def test_networkx_starts_without_this_package():
    program = (
        "import sys, networkx; print([m for m in ('numpy', 'scipy', 'convexrank.core') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
    assert networkx_backend.information()["backend_name"] in nx.utils.backends.backends
