"""Input from outside that is wrong, odd or unusual: never a wrong graph, always a sentence about what to do."""

from __future__ import annotations

import gzip
import itertools
import math

import networkx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.data.files import is_packed
from convexrank.graphs import edge_lists
from convexrank.problems import PageRank
from convexrank.problems.graph_ranks import trust_propagation
from tests.tolerances import tolerance

CYCLE = cr.Graph.from_edges([0, 1, 2], [1, 2, 0])


def read(folder, text, **options):
    file = folder / "edges.txt"
    file.write_text(text, encoding="utf-8")
    return cr.Graph.read(file, **options)


def links(graph):
    """The edges by name."""
    source, target, _ = graph.edges()
    names = graph.names or range(graph.n)
    return sorted((names[a], names[b]) for a, b in zip(source.tolist(), target.tolist(), strict=True))


# --- files ----------------------------------------------------------------------------------------------------------


def read_with(monkeypatch, file, long, **options):
    """What reading a file ends in, for files that are long from this number of bytes on."""
    monkeypatch.setattr(edge_lists, "LONG", long)
    try:
        graph = cr.Graph.read(file, **options)
    except ValueError as error:
        return str(error)
    return graph.names, [part.tolist() for part in graph.edges()]


# fields of lines that two readers could understand in two ways
_FIELDS = [
    "ann",
    "bob",
    " ann",
    "bob ",
    "007",
    "7",
    "1e3",
    "NA",
    "nan",
    "é",
    "a b",
    "2.5",
    "1_0",
    "inf",
    "-1",
    "",
    " ",
]


@pytest.mark.parametrize(
    "options", [{}, {"weighted": True}, {"weighted": False}, {"skip_rows": 2}, {"named": True}]
)
@pytest.mark.parametrize("delimiter", [",", "\t", " ", ";"])
def test_long_lists_are_read_as_short_ones(tmp_path, monkeypatch, options, delimiter):
    """Half of them are compressed by gzip, whatever their name says."""
    file, rng, fast, read_long = (
        tmp_path / "edges.csv",
        np.random.default_rng(0),
        [0, 0],
        edge_lists.read_long,
    )

    def noticed(*given):
        made = read_long(*given)
        fast[is_packed(given[0])] += made is not None
        return made

    monkeypatch.setattr("convexrank.graphs.edge_lists.read_long", noticed)
    for trial in range(50):
        usual = ["ann", "bob", "cat", "dan"]
        fields = usual if trial % 3 else _FIELDS
        columns = 2 + int(rng.integers(2))
        lines = [
            delimiter.join([*rng.choice(fields, 2), *([f"{rng.random()}"] if columns == 3 else [])])
            for _ in range(12)
        ]
        odd = [
            lines[0] + delimiter,
            "",
            "   ",
            "# no",
            'a"b' + delimiter + "c",
            delimiter.join("abcd"),
            "ann",
        ]
        if trial % 4 == 0:
            lines.insert(int(rng.integers(12)), odd[trial % len(odd)])
        content = ("\r\n" if trial % 5 == 0 else "\n").join(lines).encode()
        file.write_bytes(gzip.compress(content) if trial % 2 else content)
        options = {**options, "delimiter": delimiter}
        assert read_with(monkeypatch, file, 0, **options) == read_with(monkeypatch, file, 10**9, **options)
    assert min(fast) > 5


@pytest.mark.parametrize("long", [0, 10**9])
def test_a_weight_with_an_underscore_is_no_number(tmp_path, monkeypatch, long):
    file = tmp_path / "edges.csv"
    file.write_text("a,b,1_0\nb,c,2\n")
    assert "line 1: the weight is '1_0'" in read_with(monkeypatch, file, long, weighted=True)


def test_a_long_list_that_cannot_be_unpacked_is_refused_with_the_line(tmp_path, monkeypatch):
    file, whole = (
        tmp_path / "edges.csv.gz",
        gzip.compress("".join(f"a{k},b\n" for k in range(5_000)).encode()),
    )
    for content in (whole[:-1], whole[: len(whole) // 2], whole[:-6] + b"\0" + whole[-5:]):
        file.write_bytes(content)
        said = read_with(monkeypatch, file, 0)
        assert said == read_with(monkeypatch, file, 10**9)
        assert "the file starts like a gzip file but cannot be unpacked" in said


@pytest.mark.parametrize("line", ["7,9", "7,9,2.5"])
@pytest.mark.parametrize("sign", ["", "# two\n", "% two\n"])
def test_a_list_of_numbers_is_read_by_numpy_and_not_line_by_line(tmp_path, monkeypatch, line, sign):
    """Compressed or not: two lines are looked at. Numpy is told of the sign of comments that it takes longer for."""
    looked, told, text_lines, loadtxt = [], [], edge_lists.text_lines, np.loadtxt

    def noticed(path):
        for one in text_lines(path):
            looked.append(one)
            yield one

    def loaded(lines, **options):
        told.append(options["comments"])
        return loadtxt(lines, **options)

    monkeypatch.setattr(edge_lists, "text_lines", noticed)
    monkeypatch.setattr(np, "loadtxt", loaded)
    for file in (tmp_path / "edges.csv", tmp_path / "edges.csv.gz"):
        content = (sign + f"{line}\n" * 1_000).encode()
        file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
        assert links(cr.Graph.read(file, n=10)) == [(7, 9)]
        assert set(told) == {("#", "%") if "%" in sign else "#"}
    assert 0 < len(looked) <= 2 * (2 + len(sign.splitlines()))


def test_a_separator_at_the_end_of_a_line_is_no_column(tmp_path, monkeypatch):
    file = tmp_path / "edges.tsv"
    for text in ("ann\tbob\t\nann\tcat\t1\n", "ann\tbob\t\nann\tcat\n"):
        file.write_text(text)
        assert read_with(monkeypatch, file, 0) == read_with(monkeypatch, file, 10**9)


def test_names_may_hold_the_signs_of_comments(tmp_path):
    text = "# from to\n  % more\na.org/x%20y a.org/#top\na.org/#top b.org/x%20y\n"
    wanted = [("a.org/#top", "b.org/x%20y"), ("a.org/x%20y", "a.org/#top")]
    assert links(read(tmp_path, text)) == wanted
    weighted = read(tmp_path, "a#b c%d 2.5\nc%d a#b 1\n")
    assert links(weighted) == [("a#b", "c%d"), ("c%d", "a#b")]
    assert sorted(weighted.weights.tolist()) == [1.0, 2.5]


def test_comments_after_numbers_are_no_weights(tmp_path):
    graph = read(tmp_path, "0 1 # first\n1 0 % second\n")
    assert links(graph) == [(0, 1), (1, 0)]
    assert graph.weights is None


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    assert links(read(tmp_path, "\ufeff0 1\n1 0\n")) == [(0, 1), (1, 0)]
    assert read(tmp_path, "\ufeffann bob\nbob ann\n").names == ("ann", "bob")


def test_spaces_round_names_are_no_part_of_them(tmp_path):
    assert links(read(tmp_path, "ann , bob\nbob, ann\n", delimiter=",")) == [("ann", "bob"), ("bob", "ann")]


def test_negative_numbers_are_no_names(tmp_path):
    with pytest.raises(ValueError, match="line 1: the node is -1, expected node ids of at least 0"):
        read(tmp_path, "0 -1\n")
    assert read(tmp_path, "0 -1\n", named=True).names == ("-1", "0")


def test_a_header_is_no_edge(tmp_path):
    text = "source,target\n0,1\n1,0\n"
    with pytest.raises(ValueError, match="'source' and 'target', and the next one numbers; pass skip_rows=1"):
        read(tmp_path, text, delimiter=",")
    assert links(read(tmp_path, text, delimiter=",", skip_rows=1)) == [(0, 1), (1, 0)]
    assert read(tmp_path, text, delimiter=",", named=True).n == 4
    with pytest.raises(ValueError, match="named=True where ends are names"):
        read(tmp_path, "0 1\nann bob\n")


def test_a_header_of_names_is_no_edge(tmp_path):
    """Nothing but the words tells it from an edge."""
    for heading in ("source,target", "From,To", "src,dst,weight"):
        text = f"{heading}\nann,bob{',2' if 'weight' in heading else ''}\n"
        with pytest.raises(ValueError, match="the first line reads like a header"):
            read(tmp_path, text, delimiter=",")
        assert links(read(tmp_path, text, delimiter=",", skip_rows=1)) == [("ann", "bob")]
    assert read(tmp_path, "source target\ntarget sink\n", named=True).n == 3


def test_an_end_without_a_name_is_no_node(tmp_path):
    with pytest.raises(ValueError, match="line 2: an end of the edge is empty"):
        read(tmp_path, "ann,bob,1\nbob,,2\n", delimiter=",")
    with pytest.raises(ValueError, match="line 1: an end of the edge is empty"):
        read(tmp_path, "ann, \n", delimiter=",")


def test_the_name_of_a_file_says_what_separates_its_columns(tmp_path):
    for ending, between in (("csv", ","), ("tsv", "\t"), ("CSV", ",")):
        file = tmp_path / f"edges.{ending}"
        file.write_text(f"New York{between}Rome\n Rome {between} New York\n")
        assert links(cr.Graph.read(file)) == [("New York", "Rome"), ("Rome", "New York")]
    file.write_text("ann bob\n")
    assert links(cr.Graph.read(file, delimiter=" ")) == [("ann", "bob")]
    file.write_text('"Smith, Ann",Bob\nBob, "Smith, ""A."""\n')
    assert links(cr.Graph.read(file)) == [("Bob", 'Smith, "A."'), ("Smith, Ann", "Bob")]


def test_quoted_names_that_cannot_be_split_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"line 2 cannot be split into columns .field larger"):
        read(tmp_path, f'ann,bob\n"{"x" * 200_000}",bob\n', delimiter=",")
    with pytest.raises(ValueError, match="line 1 cannot be split into columns"):
        read(tmp_path, '"ann"::bob\n', delimiter="::")


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        ("4 3\n0 1\n1 2\n2 3\n", True),  # nodes from 0
        ("4 3\n1 2\n2 3\n4 1\n", True),  # nodes from 1
        ("9 3\n0 1\n1 2\n2 3\n", False),
        ("4 2\n0 1\n1 2\n2 3\n", False),
        ("1 0\n", False),
    ],
)
def test_counts_in_front_of_few_edges_are_told(tmp_path, text, warns):
    if warns:
        with pytest.warns(
            UserWarning, match=r"line 1: 4 3 is read as an edge, but may be the numbers of nodes"
        ):
            graph = read(tmp_path, text)
        assert (4, 3) in links(graph)
        assert read(tmp_path, text, skip_rows=1).m == 3
        assert (4, 3) in links(read(tmp_path, text, n=5))
    else:
        assert read(tmp_path, text).m == text.count("\n")


@pytest.mark.parametrize("text", ["0 1\n1 2 # last\n2 0\n", "% two\n0 1\n1 2 % last\n2 0\n"])
def test_a_bar_changes_nothing_but_what_is_seen(tmp_path, capsys, text):
    quiet = read(tmp_path, text)
    assert capsys.readouterr().err == ""
    shown = read(tmp_path, text, verbose=True)
    assert links(shown) == links(quiet) == [(0, 1), (1, 2), (2, 0)]
    assert "reading edges.txt" in capsys.readouterr().err
    packed = tmp_path / "edges.txt.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert links(cr.Graph.read(packed, verbose=True)) == links(quiet)
    assert links(read(tmp_path, "ann bob\nbob ann\n", verbose=True)) == [("ann", "bob"), ("bob", "ann")]


# --- matrices and graphs of others ----------------------------------------------------------------------------------


def test_what_others_hold_is_refused_in_words():
    with pytest.raises(ValueError, match="weight is complex"):
        cr.Graph.from_scipy(sparse.csr_array([[0, 1j], [1, 0]]))
    with pytest.raises(ValueError, match="the graph is empty"):
        cr.Graph.from_scipy(sparse.csr_array((0, 0)))
    with pytest.raises(ValueError, match="graph has no nodes"):
        cr.pagerank(networkx.DiGraph())
    with pytest.raises(ValueError, match="attribute 'kind' of an edge is no number"):
        cr.Graph.from_networkx(networkx.DiGraph([(0, 1, {"kind": "cites"})]), weight="kind")
    for other in (None, [[0, 1], [1, 0]], np.eye(2), {0: [1]}):
        with pytest.raises(TypeError, match=r"graph is a .*, expected a Graph, a networkx graph or a scipy"):
            cr.pagerank(other)
    with pytest.raises(TypeError, match="names has an entry that cannot be looked up"):
        cr.Graph.from_edges([0], [1], names=[[1], [2]])


@pytest.mark.parametrize("size", [1e308, 1e277, 1e-310])  # at 1e277 a score of 1e-32 loses digits
def test_weights_of_extreme_size_are_refused_where_shares_are_taken(size):
    graph = cr.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0], [size, size, size, 1.0])
    for rank in (cr.pagerank, cr.lpq_rank, lambda g: cr.trust_rank(g, [0])):
        with pytest.raises(ValueError, match=r"out of node 0 add up to .*bring all weights to a size near 1"):
            rank(graph)
    small = cr.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0], [1e-300, 1e-300, 1e-300, 1.0])
    plain = cr.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0])
    assert np.abs(cr.pagerank(small) - cr.pagerank(plain)).sum() <= 2e-10  # the errors of both, as certified


def test_weights_beyond_float32_are_refused_for_several_ranks_by_sweeps():
    graph = cr.Graph.from_edges([0, 3, 4, 1, 0], [4, 2, 3, 2, 3], [1.0, 1.0, 1e-100, 1e100, 1.0])
    several = cr.problems.PageRank(graph, 0.5, np.eye(5))
    with pytest.raises(ValueError, match=r"out of node 1 add up to 1e\+100, .*float32.* solver='power'"):
        several.solve()
    each = [cr.problems.PageRank(graph, 0.5, column).solve(tol=1e-10).x for column in np.eye(5)]
    assert np.abs(several.solve("power", tol=1e-10).x.T - each).sum(axis=1).max() <= 2e-10


# --- seeds ----------------------------------------------------------------------------------------------------------


def test_seeds_may_be_a_set_and_weights_huge():
    assert CYCLE.seeds({0, 2}).tolist() == [0.5, 0.0, 0.5]
    assert CYCLE.seeds([1e308, 1e308, 0.0]).tolist() == [0.5, 0.5, 0.0]
    with pytest.raises(ValueError, match="at least one node"):
        CYCLE.seeds(set())


def test_integers_are_names_where_nodes_are_called_by_integers():
    """As in networkx, whose nodes keep the order in which they came."""
    club = networkx.DiGraph([(7, 2), (2, 0), (0, 1), (1, 7), (1, 2)])
    graph = cr.Graph.from_networkx(club)
    assert graph.names == (7, 2, 0, 1)
    for seeds in ([2, 1], np.array([2, 1]), {2, 1}, {2: 1.0, 1: 1.0}, (node for node in (2, 1))):
        assert graph.named(graph.seeds(seeds)) == {7: 0.0, 2: 0.5, 0: 0.0, 1: 0.5}
    with pytest.raises(ValueError, match="seeds has 3, which is not a node of the graph"):
        graph.seeds([3])
    ranks = graph.named(cr.pagerank(club, personalization=[2]))
    theirs = networkx.pagerank(club, personalization={2: 1}, tol=1e-12)
    assert max(abs(ranks[node] - theirs[node]) for node in club) < 1e-9
    texts = cr.Graph.from_edges([0, 1], [1, 0], names=("ann", "bob"))
    assert texts.seeds([1]).tolist() == [0.0, 1.0]


def test_trust_without_propagation_is_the_seeds():
    for p, q in ((1.0, 1.0), (2.0, 4.0)):
        solution = cr.problems.TrustPropagation(CYCLE, [0], [1], gamma=0.0, p=p, q=q).solve()
        assert solution.status.name == "CONVERGED"
        assert solution.x.tolist() == [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("rounds", [0, 1, 64])
def test_what_seeds_reach(rounds, monkeypatch):
    monkeypatch.setattr(trust_propagation, "_ROUNDS_OF_REACH", rounds)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, m = int(rng.integers(1, 9)), int(rng.integers(0, 12))
        ends = rng.integers(0, n, (2, m))
        start = rng.random(n) < 0.3
        wanted = set(np.flatnonzero(start).tolist())
        for _, a, b in itertools.product(range(n), *map(range, (n, n))):
            if a in wanted and ((ends[0] == a) & (ends[1] == b)).any():
                wanted.add(b)
        found = trust_propagation.reached_from(cr.Graph.from_edges(*ends, n=n), start)
        assert set(np.flatnonzero(found).tolist()) == wanted


def test_trust_runs_down_a_long_path():
    """A round over all edges for each step of it would take minutes."""
    n = 20_000
    path = cr.Graph.from_edges(np.arange(n - 1), np.arange(1, n))
    problem = cr.problems.TrustPropagation(path, [0], gamma=0.5, p=2.0, q=4.0)
    solution = problem.solve()
    # along a path r = gamma * sqrt(r of the one before); far down gamma squared
    wanted = [0.5]
    for _ in range(60):
        wanted.append(0.5 * wanted[-1] ** 0.5)
    assert np.abs(np.log(solution.x[:61] / wanted)).max() <= solution.gap
    assert abs(np.log(solution.x[-1] / 0.25)) <= solution.gap


# --- edges of several types -----------------------------------------------------------------------------------------


def test_types_of_edges_are_checked():
    make = cr.LabelledGraph.from_edges
    with pytest.raises(TypeError, match="label mixes kinds"):
        make([0, 1], [1, 0], np.array(["a", 1], dtype=object))
    with pytest.raises(ValueError, match="label contains NaN"):
        make([0, 1], [1, 0], [1.0, np.nan])
    with pytest.raises(ValueError, match="no edges, and so no types"):
        make([], [], [], n=3)
    graph = make([0], [1], ["a"])
    for node, words in ((2, r"expected one in 0\.\.1"), (-1, "at least 0")):
        with pytest.raises(ValueError, match=words):
            graph.candidates(node)


# --- low-level parts: compiled loops do not look how long an array is -----------------------------------------------


def test_vectors_of_another_length_are_refused():
    operator = CYCLE.transition()
    for length in (2, 4):
        values = np.ones(length)
        for product in (CYCLE.pull, CYCLE.push, operator.__matmul__, operator.transposed_product):
            with pytest.raises(ValueError, match=rf"has shape \({length},\), expected \(3,\)"):
                product(values)
    columns = np.random.default_rng(0).random((3, 2))
    for side, matrix in ((operator, operator.dense()), (operator.T, operator.dense().T)):
        assert np.abs(side @ columns - matrix @ columns).max() <= tolerance("atoms")


@pytest.mark.parametrize(
    ("offsets", "sources", "weights", "words"),
    [
        ([0, 1], [1], None, r"sources are not all in 0\.\.0"),
        ([0, 1], [-1], None, r"sources are not all in 0\.\.0"),
        ([0, 2], [0], None, "offsets do not rise from 0 to 1"),
        ([0, 2, 1], [0], None, "offsets do not rise"),
        ([1, 1], [0], None, "offsets do not rise"),
        ([0], [], None, "offsets do not rise"),
        ([0, 1], [0], [1.0, 2.0], r"weights has shape \(2,\), expected \(1,\)"),
    ],
)
def test_arrays_that_are_no_graph_are_refused(offsets, sources, weights, words):
    with pytest.raises(ValueError, match=words):
        cr.Graph(offsets, sources, weights)


def test_graphs_may_be_made_of_lists():
    assert cr.Graph([0, 1, 2], [1, 0]).to_scipy().toarray().tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_a_second_farm_has_names_of_its_own():
    web = cr.Graph.from_edges([0, 1], [1, 0], names=("ann", "farm 2"))
    once = cr.graphs.inject_farm(web, helpers=1).graph
    assert once.names == ("ann", "farm 2", "farm 1", "farm 3")
    assert len(set(cr.graphs.inject_farm(once, helpers=3).graph.names or ())) == 8
    with pytest.raises(TypeError, match="graph is a list"):
        cr.graphs.inject_farm([(0, 1)])  # type: ignore[arg-type]


def test_ids_that_are_no_ids_are_refused_with_a_way_out():
    with pytest.raises(ValueError, match="source could not be read as an array"):
        cr.Graph.from_edges([[0], [1, 2]], [0, 1])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="drop the edges without one"):
        cr.Graph.from_edges([0.0, float("nan")], [0, 1])
    with pytest.raises(TypeError, match="convert to integers"):
        cr.Graph.from_edges([0.0, 1.0], [0, 1])
    with pytest.raises(TypeError, match="from_pandas number named nodes"):
        cr.Graph.from_edges(["a", "b"], [0, 1])


def test_personalizations_in_columns_of_any_make():
    """Lists, sparse matrices and data frames, whose rows go by their index."""
    graph = cr.Graph.from_edges([0, 1, 2, 0], [1, 2, 0, 2], names=("ann", "bob", "cat"))
    weights = np.array([[1.0, 0.0], [2.0, 3.0], [1.0, 0.0]])
    wanted = [cr.pagerank(graph, personalization=column) for column in weights.T]
    frame = pd.DataFrame(weights[::-1], index=["cat", "bob", "ann"])
    for given in (weights.tolist(), list(weights), sparse.csr_array(weights), frame, pd.DataFrame(weights)):
        for found in (cr.pagerank(graph, personalization=given), PageRank(graph, 0.85, given).solve().x):
            assert np.abs(found.T - wanted).sum(axis=1).max() <= 2e-8


def test_topics_have_a_rank_each():
    """A dictionary of nodes, or of weights, for each topic; a dictionary of numbers stays one personalization."""
    graph = cr.Graph.from_edges([0, 1, 2, 0], [1, 2, 0, 2], names=("ann", "bob", "cat"))
    topics = {"sport": ["ann", "bob"], "news": {"cat": 2.0, "ann": 1.0}, 3: {"bob"}}
    found = cr.pagerank(graph, personalization=topics)
    assert list(found) == list(topics)
    for topic, nodes in topics.items():
        alone = cr.pagerank(graph, personalization=nodes)
        assert np.abs(found[topic] - alone).sum() <= 2e-8
    named = cr.pagerank(graph, personalization=topics, named=True)
    assert named["news"] == graph.named(found["news"])
    with pytest.raises(ValueError, match=r"personalization\['sport'\].*'dan'"):
        cr.pagerank(graph, personalization={"sport": ["dan"]})
    with pytest.raises(ValueError, match=r"personalization\['sport'\]"):
        cr.pagerank(graph, personalization={"sport": []})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([[0.0, 1.0], [2.0]], "could not be read as an array"),
        ([["a"]] * 3, "expected numbers"),
        ([[1.0j]] * 3, "is complex"),
        (sparse.csr_array((3, 2)), "zero everywhere"),
        (np.ones((3, 0)), r"has shape \(3, 0\), expected \(3, k\)"),
        (sparse.csr_array(np.ones((2, 2))), r"has shape \(2, 2\), expected \(3, k\)"),
        ([[math.nan]] * 3, "NaN"),
    ],
)
def test_columns_that_are_no_distributions_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        cr.pagerank(CYCLE, personalization=given)


@pytest.mark.parametrize("given", [[1, 0, 0], [1, 1, 1], np.array([2, 1, 1])])
@pytest.mark.parametrize("option", ["personalization", "dangling"])
def test_integers_that_look_like_weights_are_not_read_as_ids(option, given):
    graph = cr.Graph.from_edges([0, 0, 1], [1, 2, 0])
    with pytest.raises(ValueError, match=f"{option} has an integer for each of the 3 nodes, which are ids"):
        cr.problems.PageRank(graph, **{option: given})
    found = cr.problems.PageRank(graph, **{option: np.asarray(given, dtype=float)}).solve().x
    once = np.flatnonzero(given)
    weights = {int(node): given[node] for node in once}
    assert np.abs(found - cr.problems.PageRank(graph, **{option: weights}).solve().x).sum() <= 1e-7
    assert cr.problems.PageRank(graph, **{option: [2, 0, 1]}).operators
