"""Graphs in: from edges, scipy, networkx and files; products with the transition matrix; bad input."""

from __future__ import annotations

import gzip
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.io import mmwrite

import convexrank as cr
from convexrank.graphs import build, elimination
from tests.tolerances import tolerance

DANGLING = ("teleport", "uniform", "drop")
FEW = settings(max_examples=40)


def dense(source, target, weight, n, loops=True):
    """The adjacency matrix by a plain loop, rows are sources."""
    A = np.zeros((n, n))
    for s, t, w in zip(source, target, weight, strict=True):
        if loops or s != t:
            A[s, t] += w
    return A


@st.composite
def edge_lists(draw):
    n = draw(st.integers(1, 9))
    m = draw(st.integers(0, 30))
    ids = st.lists(st.integers(0, n - 1), min_size=m, max_size=m)
    weights = st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=m, max_size=m)
    return np.array(draw(ids), dtype=int), np.array(draw(ids), dtype=int), draw(weights), n


@pytest.fixture(params=["scipy", "compiled"])
def path(request, monkeypatch):
    """Both ways of assembling a graph; the compiled one in three chunks and on two threads."""
    if request.param == "compiled":
        monkeypatch.setattr(build, "_WORTH_COMPILING", 0)
        monkeypatch.setattr(build, "_WORTH_THREADS", 0)
        monkeypatch.setattr(build, "_CHUNK", 7)
        monkeypatch.setattr(build, "threads_available", lambda: 2)


def check(graph, A):
    n = len(A)
    assert (graph.n, graph.m) == (n, int((A > 0).sum()))
    assert np.array_equal(graph.to_scipy().toarray(), A)
    for i in range(n):
        row = graph.sources[graph.offsets[i] : graph.offsets[i + 1]]
        assert np.array_equal(row, np.flatnonzero(A[:, i] > 0))
    assert (graph.weights is None) == bool(np.isin(A, (0.0, 1.0)).all())
    assert np.array_equal(graph.out_weight, A.sum(axis=1))
    assert np.array_equal(graph.in_weight, A.sum(axis=0))
    assert np.array_equal(graph.dangling, np.flatnonzero(A.sum(axis=1) == 0))
    x = np.arange(1.0, n + 1)
    assert np.allclose(graph.pull(x), A.T @ x, rtol=tolerance("summation"))
    assert np.allclose(graph.push(x), A @ x, rtol=tolerance("summation"))


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_edges_are_sorted_and_added_up(loops, weighted):
    rng = np.random.default_rng(0)
    for _ in range(25):
        n, m = int(rng.integers(1, 12)), int(rng.integers(0, 60))
        source, target = rng.integers(0, n, m), rng.integers(0, n, m)
        weight = rng.choice([0.0, 0.5, 1.0, 3.0], m) if weighted else None
        graph = cr.Graph.from_edges(source, target, weight, n, self_loops=loops)
        check(graph, dense(source, target, np.ones(m) if weight is None else weight, n, loops))


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("weighted", [True, False])
def test_long_rows_are_sorted(weighted):
    rng = np.random.default_rng(1)
    source = rng.permutation(3000)
    weight = source + 0.5 if weighted else None
    graph = cr.Graph.from_edges(source, np.zeros(3000, dtype=int), weight)
    assert np.array_equal(graph.sources, np.arange(3000))
    if weighted:
        assert np.array_equal(graph.weights, np.arange(3000) + 0.5)


@FEW
@given(edge_lists())
def test_other_ways_in_give_the_same_graph(drawn):
    source, target, weight, n = drawn
    A = dense(source, target, weight, n)
    check(cr.Graph.from_scipy(sparse.csr_array(A)), A)
    check(cr.Graph.from_scipy(sparse.coo_matrix((weight, (source, target)), shape=(n, n))), A)
    graph = cr.Graph.from_edges(source, target, weight, n)
    check(graph.reversed(), A.T)
    check(graph.reversed().reversed(), A)


def test_integers_of_any_kind_and_lists():
    A = dense([0, 1, 1], [1, 2, 0], [1, 1, 1], 3)
    for kind in (np.int8, np.uint16, np.int32, np.int64, np.uint64):
        check(cr.Graph.from_edges(np.array([0, 1, 1], kind), np.array([1, 2, 0], kind)), A)
    check(cr.Graph.from_edges([0, 1, 1], (1, 2, 0)), A)
    strided = np.array([[0, 1], [1, 2], [1, 0]])
    check(cr.Graph.from_edges(strided[:, 0], strided[:, 1]), A)


def test_the_callers_arrays_stay_as_they_are_and_the_graphs_are_read_only():
    source, target, weight = np.array([2, 0, 1]), np.array([1, 1, 0]), np.array([3.0, 1.0, 2.0])
    copies = source.copy(), target.copy(), weight.copy()
    graph = cr.Graph.from_edges(source, target, weight)
    for mine, before in zip((source, target, weight), copies, strict=True):
        assert np.array_equal(mine, before)
        assert mine.flags.writeable
    for values in (graph.offsets, graph.sources, graph.weights):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1


def test_networkx_graphs_of_every_kind():
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    rng = np.random.default_rng(2)
    for kind in (networkx.DiGraph, networkx.Graph, networkx.MultiDiGraph, networkx.MultiGraph):
        original = kind()
        original.add_nodes_from("dcba")
        for _ in range(8):
            u, v = rng.choice(list("abcd"), 2)
            original.add_edge(str(u), str(v), weight=float(rng.integers(1, 4)))
        graph = cr.Graph.from_networkx(original)
        assert graph.names == tuple("dcba")
        assert np.array_equal(graph.to_scipy().toarray(), networkx.to_numpy_array(original))
        plain = cr.Graph.from_networkx(original, weight=None, self_loops=False)
        expected = networkx.to_numpy_array(original, weight=None)
        assert np.array_equal(plain.to_scipy().toarray(), expected - np.diag(np.diag(expected)))
    assert graph.named(np.arange(4.0)) == {"d": 0.0, "c": 1.0, "b": 2.0, "a": 3.0}


@pytest.mark.parametrize("packed", [False, True])
def test_files(tmp_path, packed):
    def write(name, text):
        file = tmp_path / (name + ".gz" * packed)
        file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        return file

    A = dense([0, 1, 1], [1, 2, 0], [1, 1, 1], 3)
    check(cr.Graph.read(write("a.txt", "# from to\n0\t1\n1 2\n\n1 0\n")), A)
    check(
        cr.Graph.read(write("b.csv", "from,to,w\n0,1,1\n1,2,1\n1,0,2\n"), delimiter=",", skip_rows=1),
        A + dense([1], [0], [1], 3),
    )
    check(cr.Graph.read(write("c.csv", "0,1,8\n1,2,9\n1,0,2\n"), delimiter=",", weighted=False), A)
    check(cr.Graph.read(write("d.txt", "% comment\n0 1 0.5\n"), n=3), dense([0], [1], [0.5], 3))
    named = cr.Graph.read(write("e.txt", "# names\nb.org a.org\n# more\nc.org b.org\n"))
    assert named.names == ("a.org", "b.org", "c.org")
    check(named, dense([1, 2], [0, 1], [1, 1], 3))
    sparse_ids = write("g.txt", "7 30\n30 12\n")
    assert cr.Graph.read(sparse_ids).n == 31
    compact = cr.Graph.read(sparse_ids, named=True)
    assert compact.names == ("12", "30", "7")
    check(compact, dense([2, 1], [1, 0], [1, 1], 3))
    text = "%%MatrixMarket matrix coordinate pattern general\n3 3 3\n1 2\n2 3\n2 1\n"
    check(cr.Graph.read(write("f.mtx", text)), A)


def test_matrix_market_round_trip(tmp_path):
    A = dense([0, 1, 1], [1, 2, 0], [0.25, 1, 3], 3)
    mmwrite(tmp_path / "a.mtx", sparse.coo_matrix(A))
    check(cr.Graph.read(tmp_path / "a.mtx"), A)


def test_bad_files_are_refused(tmp_path):
    for name, reader in (("a.mat", "loadmat"), ("a.gml.gz", "read_gml")):
        with pytest.raises(ValueError, match=reader):
            cr.Graph.read(tmp_path / name)
    for text, words in (
        ("0 1\n0 x\n", "row|line"),
        ("# nothing\n", "no edges"),
        ("0\n", "1 column"),
        ("0 1 a\n", "line 1: the weight is 'a'"),
    ):
        file = tmp_path / "bad.txt"
        file.write_text(text)
        with pytest.raises(ValueError, match=words):
            cr.Graph.read(file)


@FEW
@given(edge_lists(), st.sampled_from(DANGLING), st.booleans())
def test_transition_is_its_dense_matrix(drawn, mode, personal):
    source, target, weight, n = drawn
    A = dense(source, target, weight, n)
    v = np.arange(1.0, n + 1) / np.arange(1.0, n + 1).sum() if personal else np.full(n, 1.0 / n)
    T = np.zeros((n, n))
    for j in range(n):
        total = A[j].sum()
        for i in range(n):
            lost = {"teleport": v[i], "uniform": 1.0 / n, "drop": 0.0}[mode]
            T[i, j] = A[j, i] / total if total > 0 else lost
    P = 0.7 * T + 0.3 * v[:, None]
    graph = cr.Graph.from_edges(source, target, weight, n)
    operator = graph.transition(0.7, v if personal else None, mode)
    rng = np.random.default_rng(0)
    w, s, W = rng.normal(size=n), rng.normal(size=n), rng.normal(size=(n, 3))
    close = {"rtol": tolerance("summation"), "atol": tolerance("summation")}
    assert np.allclose(operator.dense(), P, **close)
    assert np.allclose(operator @ w, P @ w, **close)
    assert np.allclose(operator @ W, P @ W, **close)
    assert np.allclose(operator.T @ s, P.T @ s, **close)
    assert operator.T.T is operator
    if mode != "drop":
        assert np.allclose(operator.T @ np.ones(n), 1.0, **close)


def test_labelled_graphs_have_a_candidate_a_type_and_node():
    rng = np.random.default_rng(3)
    source, target = rng.integers(0, 5, 30), rng.integers(0, 6, 30)
    label, weight = rng.choice(["x", "y", "z"], 30), rng.integers(1, 4, 30).astype(float)
    graph = cr.LabelledGraph.from_edges(source, target, label, weight)
    assert graph.labels == ("x", "y", "z")
    assert graph.n == 6
    for node in range(6):
        expected = []
        for kind in "xyz":
            row = dense(source[label == kind], target[label == kind], weight[label == kind], 6)[node]
            if row.sum() > 0:
                expected.append(row / row.sum())
        assert np.allclose(graph.candidates(node), np.array(expected).reshape(-1, 6))
    assert graph.candidates(5).shape == (0, 6)
    check(graph.merged(), dense(source, target, weight, 6))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"source": [0, -1], "target": [1, 1]}, ValueError, r"source\[1\] is -1"),
        ({"source": [0], "target": [3], "n": 3}, ValueError, r"target\[0\] is 3, expected node ids below n = 3"),
        ({"source": [0, 1], "target": [1]}, ValueError, "2 entries and target 1"),
        ({"source": [0.5], "target": [1]}, TypeError, "integer node ids"),
        ({"source": ["a"], "target": ["b"]}, TypeError, "integer node ids"),
        ({"source": [[0]], "target": [1]}, ValueError, "one dimension"),
        ({"source": [], "target": []}, ValueError, "empty"),
        ({"source": [0], "target": [1], "n": 0}, ValueError, "n is 0"),
        ({"source": [0], "target": [1], "weight": [-1.0]}, ValueError, r"weight\[0\] is -1"),
        ({"source": [0], "target": [1], "weight": [float("nan")]}, ValueError, "NaN"),
        ({"source": [0], "target": [1], "weight": [1.0, 2.0]}, ValueError, "2 entries"),
        ({"source": [2**31], "target": [1]}, ValueError, "at most"),
        ({"source": [0], "target": [1], "names": ["a"]}, ValueError, "names has 1"),
    ],
)  # fmt: skip
def test_bad_edges_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        cr.Graph.from_edges(**arguments)


def test_other_bad_input_is_refused():
    graph = cr.Graph.from_edges([0, 1], [1, 0], names=["a", "b"])
    with pytest.raises(TypeError, match="scipy sparse"):
        cr.Graph.from_scipy(np.eye(2))
    with pytest.raises(TypeError, match="networkx graph"):
        cr.Graph.from_networkx([1])
    assert cr.Graph.from_edges([0], [1]).seeds({1: 3.0}).tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match="has no names"):
        cr.Graph.from_edges([0], [1]).seeds({"a": 3.0})
    with pytest.raises(ValueError, match=r"seeds\[0\] is 5"):
        cr.Graph.from_edges([0], [1]).seeds({5: 3.0})
    with pytest.raises(ValueError, match="square"):
        cr.Graph.from_scipy(sparse.csr_array(np.ones((2, 3))))
    for alpha in (1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="alpha is"):
            graph.transition(alpha)
    with pytest.raises(ValueError, match="dangling is 'away'"):
        graph.transition(dangling="away")
    with pytest.raises(ValueError, match="label has shape"):
        cr.LabelledGraph.from_edges([0], [1], ["a", "b"])
    with pytest.raises(ValueError, match="same nodes"):
        cr.LabelledGraph(("a", "b"), (graph, cr.Graph.from_edges([0], [2])))


def test_seeds_are_distributions():
    graph = cr.Graph.from_edges([0, 1], [1, 2], names=["a", "b", "c"])
    half = [0.5, 0.0, 0.5]
    for nodes in (
        [0, 2],
        [2, 0, 0, 2],
        ["a", "c"],
        [True, False, True],
        [1.0, 0.0, 1.0],
        np.array([4.0, 0.0, 4.0]),
        {"a": 2, "c": 2.0},
    ):
        assert graph.seeds(nodes).tolist() == half
    for nodes, words in (
        ([], "at least one node"),
        ([3], r"seeds\[0\] is 3"),
        ([-1], r"seeds\[0\] is -1"),
        (["d"], "'d'"),
        ([0.0, 0.0, 0.0], "zero everywhere"),
        ([1.0, -1.0, 0.0], r"seeds\[1\] is -1"),
        ([1.0, 0.0], "2 entries"),
        ([float("nan"), 0.0, 1.0], "NaN"),
        (0, "at least one node"),
        ({}, "is empty"),
        ({"d": 1.0}, "'d'"),
        ({"a": -1.0, "b": 1.0}, r"seeds\[0\] is -1"),
        ({"a": float("nan")}, "NaN"),
    ):
        with pytest.raises(ValueError, match=words):
            graph.seeds(nodes)


@FEW
@given(edge_lists(), st.booleans())
def test_a_reordered_graph_is_the_same_one(drawn, named):
    source, target, weight, n = drawn
    names = [f"page {i}" for i in range(n)] if named else None
    graph = cr.Graph.from_edges(source, target, weight, n, names=names)
    held, order = graph.reordered()
    check(held, dense(source, target, weight, n)[np.ix_(order, order)])
    assert (np.diff(held.out_weight) <= 0.0).all()
    known = names or range(n)
    assert held.names == tuple(known[node] for node in order)
    seed = known[n // 2]
    problem = cr.problems.PageRank(held, personalization=[seed])
    x = np.empty(n)
    x[order] = problem.solve(tol=1e-12).x
    truth = cr.problems.PageRank(graph, personalization=[seed]).reference()
    assert np.abs(x - truth).sum() <= 2e-12
    assert held.named(x[order]) == graph.named(x)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_over_rows_of_every_short_length_are_exact(weighted):
    """Rows of 0 to 9 edges, summed up four at a time; whole numbers have no rounding."""
    source = np.concatenate([np.arange(length) for length in range(10)])
    target = np.repeat(np.arange(10), np.arange(10))
    weights = np.arange(1.0, len(source) + 1.0) if weighted else np.ones(len(source))
    graph = cr.Graph.from_edges(source, target, weights if weighted else None, n=10, self_loops=True)
    x = np.arange(1.0, 11.0) ** 3
    expected = [sum(weights[e] * x[source[e]] for e in np.flatnonzero(target == node)) for node in range(10)]
    assert graph.pull(x).tolist() == expected


@pytest.mark.parametrize("rare", [0.1, 1e-9, 1e-15])
@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_elimination_has_all_digits_where_some_nodes_hardly_lead_to_others(n, rare, monkeypatch):
    """Against exact fractions: moves between two halves are rare, and these alone tell the share of each half."""
    monkeypatch.setattr(elimination, "_PANEL", 5)
    rng = np.random.default_rng(n)
    halves = np.arange(n) % 2 == np.arange(n)[:, None] % 2
    P = rng.dirichlet(np.full(n, 0.3), n) * np.where(halves, 1.0, rare) + 1e-3 * rare
    P /= P.sum(axis=1, keepdims=True)
    rewards = rng.normal(size=n)
    off = [[Fraction(move) for move in row] for row in P.tolist()]
    # (I − P)h + c = rewards with h = 0 at the first node: c takes its place; the same matrix tells the shares
    rows = [[(sum(row) if i == j else 0) - row[j] for j in range(n)] for i, row in enumerate(off)]
    for row in rows:
        row[0] = Fraction(1)
    shares = solved_exactly([list(column) for column in zip(*rows, strict=True)], [1] + [0] * (n - 1))
    h = solved_exactly(rows, [Fraction(reward) for reward in rewards.tolist()])
    found = elimination.Elimination.of(P)
    np.testing.assert_allclose(found.stationary(), shares, rtol=tolerance("rank by elimination"))
    ours, expected = found.poisson(rewards), np.append(0.0, h[1:])
    assert np.abs(ours - ours[0] - expected).max() <= tolerance("summation") * np.abs(expected).max()


def solved_exactly(rows, right):
    """By Gauss's method in fractions."""
    rows = [[*row, value] for row, value in zip(rows, right, strict=True)]
    for k in range(len(rows)):
        pivot = next(i for i in range(k, len(rows)) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [entry / rows[k][k] for entry in rows[k]]
        for i in set(range(len(rows))) - {k}:
            rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [float(row[-1]) for row in rows]
