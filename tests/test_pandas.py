"""What a pandas user hands in and gets out; the truth is computed from plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import convexrank as cr
from convexrank.data import QueryGroups, check_binary_labels, check_matrix
from convexrank.metrics.spam import order_distance

pd: Any = pytest.importorskip("pandas", reason="pandas is not installed")

SOURCE = ["ann", "ann", "bob", "cat", "dan", "dan"]
TARGET = ["bob", "cat", "cat", "ann", "cat", "ann"]
WEIGHT = [1.0, 2.0, 1.0, 1.0, 3.0, 1.0]
NAMES = ("ann", "bob", "cat", "dan")
INDEX = [10, 11, 9, 3, 2, 5]


def frame() -> Any:
    return pd.DataFrame({"from": SOURCE, "to": TARGET, "links": WEIGHT}, index=INDEX)


def dense(weight: list[float] | None = None) -> np.ndarray:
    matrix = np.zeros((4, 4))
    for k, (a, b) in enumerate(zip(SOURCE, TARGET, strict=True)):
        matrix[NAMES.index(a), NAMES.index(b)] += 1.0 if weight is None else weight[k]
    return matrix


def ranks_of(matrix: np.ndarray, v: np.ndarray, alpha: float = 0.85) -> np.ndarray:
    """PageRank of a dense matrix without dangling nodes, by linear algebra."""
    follow = (matrix / matrix.sum(axis=1, keepdims=True)).T
    return np.linalg.solve(np.eye(4) - alpha * follow, (1.0 - alpha) * v / v.sum())


def named_graph() -> cr.Graph:
    return cr.Graph.from_pandas(frame(), "from", "to", "links")


def adjacency(graph: cr.Graph) -> list[list[float]]:
    return graph.to_scipy().toarray().tolist()


# --- graphs in ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["str", "string", "category", "object"])
def test_columns_of_names_make_a_graph(kind):
    table = frame().astype({"from": kind, "to": kind})
    graph = cr.Graph.from_pandas(table, "from", "to", "links")
    assert graph.names == NAMES
    assert adjacency(graph) == dense(WEIGHT).tolist()
    assert adjacency(cr.Graph.from_pandas(table, "from", "to")) == dense().tolist()


@pytest.mark.parametrize("kind", ["int64", "Int64", "UInt8", "int32", "category", "object"])
def test_columns_of_integers_are_names_too(kind):
    number = dict(zip(NAMES, (7, 42, 5, 100 if kind == "UInt8" else 1000), strict=True))
    table = frame().assign(**{c: frame()[c].map(number).astype(kind) for c in ("from", "to")})
    graph = cr.Graph.from_pandas(table, "from", "to", "links")
    assert graph.names == tuple(sorted(number.values()))
    order = [NAMES.index(name) for name in sorted(NAMES, key=lambda name: number[name])]
    assert adjacency(graph) == dense(WEIGHT)[np.ix_(order, order)].tolist()


@pytest.mark.parametrize("kind", ["int64", "Int64", "int32", "UInt8", "category"])
@pytest.mark.parametrize("weight", ["float64", "Float64", "Int64", "float32"])
def test_series_of_numbers_make_a_graph_whatever_their_index(kind, weight):
    codes, names = pd.factorize(pd.concat([frame()["from"], frame()["to"]]))
    ends = [pd.Series(part, index=INDEX).astype(kind) for part in np.split(codes, 2)]
    graph = cr.Graph.from_edges(ends[0], ends[1], frame()["links"].astype(weight), names=names)
    assert graph.names == tuple(names)
    order = [NAMES.index(name) for name in names]
    assert adjacency(graph) == dense(WEIGHT)[np.ix_(order, order)].tolist()


def test_what_is_missing_in_a_frame_is_named():
    table = frame()
    table.loc[9, "to"] = None
    with pytest.raises(ValueError, match=r"'to'\[2\] is .*drop the 1 edge"):
        cr.Graph.from_pandas(table, "from", "to")
    with pytest.raises(ValueError, match=r"'to'\[2\] is .*drop the 1 edge"):
        cr.Graph.from_pandas(table.astype({"to": "string"}), "from", "to")
    with pytest.raises(ValueError, match="'id' has 1 missing values"):
        cr.Graph.from_pandas({"id": pd.array([1, None], dtype="Int64"), "to": [2, 3]}, "id", "to")
    for kind in ("float64", "Float64", "Int64"):
        table = frame().astype({"links": kind})
        table.loc[9, "links"] = None
        with pytest.raises(ValueError, match="'links' contains NaN"):
            cr.Graph.from_pandas(table, "from", "to", "links")
        with pytest.raises(ValueError, match="weight contains NaN"):
            cr.Graph.from_edges([0] * 6, [1] * 6, table["links"])


def test_wrong_frames_are_refused():
    with pytest.raises(ValueError, match=r"no column 'source', but \['from', 'to', 'links'\]"):
        cr.Graph.from_pandas(frame())
    with pytest.raises(TypeError, match="'links' holds float64 values"):
        cr.Graph.from_pandas(frame(), "links", "to")
    with pytest.raises(TypeError, match="'source' mixes kinds of names"):
        cr.Graph.from_pandas(pd.DataFrame({"source": ["a", 1], "target": ["b", "c"]}))
    with pytest.raises(ValueError, match="two columns of one kind"):
        cr.Graph.from_pandas({"source": ["a", "b"], "target": [1, 2]})
    with pytest.raises(ValueError, match="no rows"):
        cr.Graph.from_pandas(frame().iloc[:0], "from", "to")
    with pytest.raises(ValueError, match="one column of that name"):
        cr.Graph.from_pandas(pd.concat([frame(), frame()], axis=1), "from", "to")
    with pytest.raises(TypeError, match="from_pandas"):
        cr.pagerank(frame())
    with pytest.raises(ValueError, match="names has 'a' twice"):
        cr.Graph.from_edges([0, 1], [1, 2], names=["a", "b", "a"])


def test_types_of_edges_may_be_a_column():
    kinds = pd.Series(list("abab"), index=[3, 1, 0, 2])
    plain = cr.LabelledGraph.from_edges([0, 0, 1, 2], [1, 2, 2, 0], list("abab"), [1.0, 2.0, 3.0, 4.0])
    for given in (kinds, kinds.astype("category"), kinds.astype("string")):
        weight = pd.Series([1.0, 2.0, 3.0, 4.0], index=[9, 8, 7, 6]).astype("Float64")
        graph = cr.LabelledGraph.from_edges([0, 0, 1, 2], [1, 2, 2, 0], given, weight)
        assert graph.labels == ("a", "b")
        for layer, wanted in zip(graph.layers, plain.layers, strict=True):
            assert adjacency(layer) == adjacency(wanted)
    kinds[1] = None
    with pytest.raises(ValueError, match=r"label\[1\] is .*drop the 1 edge"):
        cr.LabelledGraph.from_edges([0, 0, 1, 2], [1, 2, 2, 0], kinds)
    with pytest.raises(ValueError, match="weight has 3 entries, expected 4, one for each edge"):
        cr.LabelledGraph.from_edges([0, 0, 1, 2], [1, 2, 2, 0], list("abab"), [1.0, 2.0, 3.0])


# --- weights of nodes go by their index -----------------------------------------------------------------------------


def test_a_series_with_names_goes_by_names():
    graph, v = named_graph(), np.array([0.1, 0.0, 0.7, 0.2])
    wanted = ranks_of(dense(WEIGHT), v)
    by_name = pd.Series(v, index=NAMES)
    for given in (
        by_name,
        by_name.iloc[::-1],
        by_name.sort_values(),
        by_name.astype("Float64"),
        by_name.drop("bob"),
    ):
        assert np.abs(cr.pagerank(graph, personalization=given) - wanted).max() < 1e-9
    assert np.abs(cr.pagerank(graph, personalization=pd.Series(v)) - wanted).max() < 1e-9  # by position
    two = pd.DataFrame({"even": np.full(4, 0.25), "v": v}, index=NAMES)
    for given in (two, two.iloc[[3, 1, 0, 2]], two.reset_index(drop=True)):
        found = cr.pagerank(graph, personalization=given)
        assert (
            np.abs(found - np.column_stack([ranks_of(dense(WEIGHT), two[c].to_numpy()) for c in two])).max()
            < 1e-9
        )
    good = pd.Series([False, True, True, False], index=NAMES)
    for seeds in (
        good,
        good.iloc[::-1],
        good[good],
        good.astype("boolean"),
        pd.Series(["bob", "cat"]),
        good[good].index,
    ):
        assert graph.seeds(seeds).tolist() == [0.0, 0.5, 0.5, 0.0]
    assert graph.seeds(pd.Series([1, 2], index=[7, 3])).tolist() == [0.0, 0.5, 0.5, 0.0]  # ids


def test_without_names_an_index_has_numbers_of_nodes():
    graph = cr.Graph.from_edges([0, 1, 2], [1, 2, 3])
    assert graph.seeds(pd.Series([1.0, 3.0], index=[3, 0])).tolist() == [0.75, 0.0, 0.0, 0.25]
    assert graph.seeds(pd.Series({0: 1.0, 1: 3.0})).tolist() == [0.25, 0.75, 0.0, 0.0]
    with pytest.raises(ValueError, match="index of seeds has 4, which is not a node"):
        graph.seeds(pd.Series([1.0, 3.0], index=[4, 0]))


def test_an_index_that_could_mean_two_things_is_refused():
    graph = named_graph()
    with pytest.raises(ValueError, match="index of seeds has 'eve', which is not a node"):
        graph.seeds(pd.Series([1.0, 1.0], index=["ann", "eve"]))
    with pytest.raises(ValueError, match="'ann' twice"):
        graph.seeds(pd.Series([1.0, 1.0], index=["ann", "ann"]))
    with pytest.raises(ValueError, match=r"astype\(float\) for weights"):
        graph.seeds(pd.Series(["bob", "bob", "cat"]).value_counts())
    with pytest.raises(ValueError, match="seeds contains NaN"):
        graph.seeds(pd.Series([1.0, None], index=["ann", "bob"]))
    turned = cr.Graph.from_edges([0, 1, 2], [1, 2, 0], names=(2, 0, 1))
    with pytest.raises(ValueError, match="pandas' default"):
        turned.seeds(pd.Series([0.2, 0.3, 0.5]))
    assert turned.seeds({0: 0.2, 1: 0.3, 2: 0.5}).tolist() == [0.5, 0.2, 0.3]
    assert turned.seeds(pd.Series([0.2, 0.3, 0.5]).to_numpy()).tolist() == [0.2, 0.3, 0.5]


# --- results out ----------------------------------------------------------------------------------------------------


def test_ranks_become_a_series_and_come_back():
    graph = named_graph()
    ranks = cr.pagerank(graph)
    series = pd.Series(graph.named(ranks), name="rank")
    assert tuple(series.index) == NAMES
    assert series.tolist() == ranks.tolist()
    assert pd.Series(ranks, index=graph.names).equals(series)
    assert graph.named(series.sort_values()) == graph.named(ranks)
    joined = pd.DataFrame({"age": [1, 2, 3]}, index=["dan", "ann", "bob"]).join(series)
    assert joined["rank"].tolist() == [ranks[3], ranks[0], ranks[1]]
    with pytest.raises(ValueError, match="no row for the node 'ann'"):
        graph.named(series.drop("ann"))


def test_nodes_called_by_pairs_have_an_index_of_two_levels():
    import networkx

    graph = cr.Graph.from_networkx(networkx.grid_2d_graph(2, 2))
    series = pd.Series(graph.named(cr.pagerank(graph)))
    assert series.loc[(1, 0)] == pytest.approx(0.25)
    assert graph.seeds(
        pd.Series([1.0], index=pd.MultiIndex.from_tuples([(1, 0)]))
    ).argmax() == graph.names.index((1, 0))


def test_series_in_different_orders_are_not_paired_by_place():
    rank = pd.Series([0.4, 0.3, 0.2, 0.1], index=NAMES)
    other = pd.Series([0.4, 0.1, 0.3, 0.2], index=NAMES)
    plain = order_distance(rank.to_numpy(), other.to_numpy())
    assert order_distance(rank, other) == plain
    with pytest.raises(ValueError, match=r"second\.reindex\(first\.index\)"):
        order_distance(rank, other.sort_values())
    spam = pd.Series([False, True, False, False], index=NAMES)
    assert cr.metrics.spam_mass(rank, spam) == pytest.approx(0.3)
    assert cr.metrics.spam_mass(rank, pd.Series([1], index=[7])) == pytest.approx(0.3)  # ids
    for measure in (cr.metrics.spam_mass, cr.metrics.spam_met):
        with pytest.raises(ValueError, match="different indexes"):
            measure(rank, spam.iloc[::-1])
    assert (
        cr.combined_rank(rank, other, rank).tolist()
        == cr.combined_rank(*map(list, (rank, other, rank))).tolist()
    )
    with pytest.raises(ValueError, match=r"trust\.reindex\(rank\.index\)"):
        cr.combined_rank(rank, other.sort_values(), rank)


# --- rows with queries: by place, as in scikit-learn ----------------------------------------------------------------

RNG = np.random.default_rng(3)
X = RNG.normal(size=(18, 2))
GRADES = RNG.integers(0, 3, size=18)
QUERIES = np.repeat([4, 2, 9], 6)
ROWS = RNG.permutation(18) + 50


def letor() -> tuple[Any, Any, Any]:
    return pd.DataFrame(X, ROWS, ["a", "b"]), pd.Series(GRADES, ROWS), pd.Series(QUERIES, ROWS)


KINDS = {
    "plain": lambda t, y, q: (t, y, q),
    "nullable": lambda t, y, q: (t.astype("Float64"), y.astype("Int64"), q.astype("Int64")),
    "texts as queries": lambda t, y, q: (t, y, q.map(lambda i: f"query {i}")),
    "categories": lambda t, y, q: (t, y.astype("category"), q.astype("category")),
    "objects": lambda t, y, q: (t.astype(object), y.astype(object), q.astype(object)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_queries_in_frames_give_what_arrays_give(kind):
    table, y, qid = KINDS[kind](*letor())
    scores = pd.Series(X @ [1.0, 2.0], ROWS)
    for measure in (cr.metrics.ndcg, cr.metrics.kendall_tau, cr.metrics.spearman_footrule):
        assert measure(y, scores, qid) == measure(GRADES, scores.to_numpy(), QUERIES)
    for problem in (cr.problems.Retargeting, cr.problems.MarginRetargeting):
        ours, theirs = problem(table, y, qid, l2=0.1), problem(X, GRADES, QUERIES, l2=0.1)
        for point in ([0.0, 0.0], [0.3, -0.2]):
            assert ours.objective(point) == theirs.objective(point)


def test_missing_rows_of_queries_are_refused():
    table, y, qid = letor()
    holes = table.astype("Float64")
    holes.iloc[0, 0] = pd.NA
    with pytest.raises(ValueError, match=r"X contains NaN or infinity \(1 NaN"):
        cr.problems.Retargeting(holes, y, qid, l2=0.1)
    holes = y.astype("Int64")
    holes.iloc[3] = pd.NA
    with pytest.raises(ValueError, match="y contains NaN"):
        cr.problems.Retargeting(table, holes, qid, l2=0.1)
    for kind in ("Int64", "string", "category"):
        holes = qid.astype(kind)
        holes.iloc[3] = None
        with pytest.raises(ValueError, match=r"qid contains NaN|qid\[3\] is"):
            cr.metrics.ndcg(y, y, holes)
    with pytest.raises(ValueError, match="y contains NaN"):
        check_binary_labels(pd.Series([True, None, False], dtype="boolean"))
    with pytest.raises(ValueError, match=r"y\[1\] is"):
        check_binary_labels(pd.Series(["yes", None, "no"], dtype="category"))


def test_the_order_of_categories_says_which_label_is_positive():
    texts = ["high", "low", "low", "high"]
    ordered = pd.Categorical(texts, categories=["low", "high"], ordered=True)
    scores = [3.0, 2.0, 1.0, 4.0]
    for labels in (ordered, pd.Series(ordered, index=[5, 3, 9, 0])):
        assert check_binary_labels(labels).tolist() == [True, False, False, True]
        assert cr.metrics.auc(labels, scores) == 1.0
    assert check_binary_labels(pd.Series(texts)).tolist() == [False, True, True, False]  # the alphabet
    missing = pd.Categorical(["high", None, "low"], categories=["low", "high"], ordered=True)
    with pytest.raises(ValueError, match=r"y\[1\] is"):
        check_binary_labels(missing)


def test_groups_lay_out_series_by_place():
    groups = QueryGroups.from_qid(pd.Series([3, 1, 3, 2], index=[9, 8, 7, 6]))
    series = pd.Series([1, 2, 3, 4], index=[3, 2, 1, 0])
    assert np.asarray(groups.gather(series)).tolist() == [1, 3, 2, 4]
    assert np.asarray(groups.spread(groups.gather(series))).tolist() == [1, 2, 3, 4]
    table = pd.DataFrame({"a": [1, 2, 3, 4], "b": [5, 6, 7, 8]}, index=[3, 2, 1, 0])
    assert np.asarray(groups.gather(table)).tolist() == [[1, 5], [3, 7], [2, 6], [4, 8]]
    assert groups.sums(groups.gather(series)).tolist() == [4, 2, 4]


def test_nullable_columns_make_a_matrix():
    mixed = pd.DataFrame({"a": pd.array([1, 2], dtype="Int8"), "b": [True, False], "c": [0.5, 1.5]})
    assert check_matrix(mixed).tolist() == [[1.0, 1.0, 0.5], [2.0, 0.0, 1.5]]
    dates = mixed.assign(c=pd.Timestamp("2020-01-01"))
    with pytest.raises(TypeError, match="not numbers"):
        check_matrix(dates)


def test_estimators_take_frames():
    table, y, qid = letor()
    ours = cr.RetargetingRanker().fit(table, y, qid=qid)
    theirs = cr.RetargetingRanker().fit(X, GRADES, qid=QUERIES)
    assert ours.coef_.tolist() == theirs.coef_.tolist()
    assert list(vars(ours)["feature_names_in_"]) == ["a", "b"]
    assert ours.score(table, y, qid=qid) == theirs.score(X, GRADES, qid=QUERIES)
    relevant = (y > 0).map({True: "yes", False: "no"})
    push = cr.PushRanker().fit(table, relevant.astype("category"))
    assert push.coef_.tolist() == cr.PushRanker().fit(X, GRADES > 0).coef_.tolist()
