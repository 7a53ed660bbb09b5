"""Nodes by name, on the way in and on the way out: what has names gives what the same without names gives."""

from __future__ import annotations

import math

import networkx
import numpy as np
import pandas as pd
import pytest

import convexrank as cr
from convexrank.consensus import CandidateSets, PartialOrders, Polytopes, blend, brew, score_intervals
from convexrank.core.results import Solution
from convexrank.problems import ConsensusRank, LpqRank, PageRank

NAMES = ("dan", "ann", "cat", "bob", "eve")
EDGES = ([0, 0, 1, 2, 3, 3, 4, 1], [1, 2, 2, 0, 2, 0, 1, 4])
KINDS = ["cites", "likes"] * 4
PLAIN = cr.Graph.from_edges(*EDGES)
GRAPH = cr.Graph.from_edges(*EDGES, names=NAMES)


def typed(names=None):
    return cr.LabelledGraph.from_edges(*EDGES, KINDS, names=names)


CHAINS = [[[1, 2]], [[2, 0], [2, 3]], [[0, 1, 4]], [[4]], [[3, 2]]]
SETS = {
    "candidates": lambda names: CandidateSets.from_labelled(typed(names)),
    "polytopes": lambda names: Polytopes.around(GRAPH if names else PLAIN, 0.3),
    "orders": lambda names: PartialOrders(
        [[[names[i] for i in chain] for chain in own] for own in CHAINS] if names else CHAINS, names=names
    ),
}


@pytest.mark.parametrize("kind", SETS)
def test_sets_keep_names_and_bound_the_same_scores(kind):
    plain, named = SETS[kind](None), SETS[kind](NAMES)
    assert (plain.names, named.names) == (None, NAMES)
    weights = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    expected = score_intervals(plain, 0.7, weights)
    assert expected.nodes.tolist() == [0, 1, 2, 3, 4]
    by_name = dict(zip(NAMES, weights.tolist(), strict=True))
    for given in (weights, by_name, pd.Series(by_name)[::-1]):
        found = score_intervals(named, 0.7, given)
        assert found.nodes.tolist() == list(NAMES)
        assert np.array_equal(found.lower, expected.lower)
        assert np.array_equal(found.upper, expected.upper)
    some = score_intervals(named, 0.7, weights, nodes=["eve", "dan"])
    frame = some.to_frame()
    assert (frame.index.tolist(), frame.index.name) == (["eve", "dan"], "node")
    assert frame["lower"].tolist() == expected.lower[[4, 0]].tolist()
    assert frame["upper"].tolist() == expected.upper[[4, 0]].tolist()
    numbers = score_intervals(named, 0.7, weights, nodes=[4, 0])  # no name is an integer
    assert numbers.nodes.tolist() == ["eve", "dan"]
    for i, first in enumerate(NAMES):
        for j, second in enumerate(NAMES):
            wanted = expected.lower[i] >= expected.upper[j]
            assert found.above(first, second) == expected.above(i, j) == wanted


def test_answers_over_sets_come_as_series():
    sets = SETS["candidates"](NAMES)
    problem = ConsensusRank(sets, view="projection")
    ranks = problem.ranks(problem.solve())
    assert sets.series(ranks).to_dict() == dict(zip(NAMES, ranks.tolist(), strict=True))
    published = sets.series(brew(sets).ranks, sort=True)
    assert sorted(published.index) == sorted(NAMES)
    assert published.is_monotonic_decreasing
    assert SETS["candidates"](None).series(ranks).index.tolist() == [0, 1, 2, 3, 4]


def test_constraints_by_name_are_those_by_number():
    A, b = np.array([[0.0, 0.0, 1.0, 0.0, 0.0]]), np.array([0.45])
    lower, upper = 0.6 * (PLAIN.to_scipy().toarray() > 0), 1.0 * (PLAIN.to_scipy().toarray() > 0)
    lower[lower.sum(axis=1) > 1.0] *= 0.5
    plain = Polytopes(lower, upper, {0: (A, b)})
    named = Polytopes(lower, upper, {"dan": (A, b)}, names=NAMES)
    assert np.array_equal(plain.vertices(0), named.vertices(0))
    assert not np.array_equal(Polytopes(lower, upper).vertices(0), named.vertices(0))


def test_certified_tops_are_names():
    for plain, named in (
        (PageRank(PLAIN), PageRank(GRAPH)),
        (LpqRank(PLAIN, 4, 4.8), LpqRank(GRAPH, 4, 4.8)),
    ):
        solution = named.solve()
        top = named.certified_top(solution, 3)
        order = np.argsort(-plain.reference())[:3]
        assert plain.certified_top(solution, 3).tolist() == order.tolist()
        assert top.tolist() == [NAMES[i] for i in order]
        assert GRAPH.numbers(top).tolist() == order.tolist()


@pytest.mark.parametrize("seed", range(12))
def test_intervals_of_ranks_hold_the_ranks_at_any_point(seed):
    """At points near the rank and far from it, off the simplex too; near to it they are narrow."""
    rng = np.random.default_rng(seed)
    for problem in (PageRank.random(2 * seed + 1), LpqRank.random(seed), PageRank(GRAPH, dangling="drop")):
        if problem.dimension > problem.graph.n:
            with pytest.raises(ValueError, match="expected one"):
                problem.score_intervals(problem.start())
            continue
        truth = problem.reference()
        for size in (1e-6, 1e-2, 1.0):
            x = truth * np.exp(size * rng.normal(size=len(truth))) * (1.0 + size * rng.random())
            bounds = problem.score_intervals(x)
            assert (bounds.lower <= truth + 1e-12).all()
            assert (truth - 1e-12 <= bounds.upper).all()
            assert 0.0 <= bounds.lower.min()
            assert bounds.upper.max() <= 1.0
        exact = problem.score_intervals(problem.solve(tol=1e-10))
        assert (exact.upper - exact.lower).max() <= 2.1e-10  # twice the tolerance: a distance either way


def test_half_the_distance_is_reached():
    """Two nodes that differ by as much as the L1 norm allows: no smaller half-width would do."""
    problem = PageRank(cr.Graph.from_edges([0, 1], [1, 0]), alpha=0.0)
    bounds = problem.score_intervals([0.4, 0.6])
    assert np.allclose(bounds.upper - 0.1, [0.4, 0.6], rtol=0.0, atol=1e-12)
    assert np.allclose(bounds.lower + 0.1, [0.4, 0.6], rtol=0.0, atol=1e-12)


def test_ranks_are_series_under_the_names():
    ranks = cr.pagerank(GRAPH)
    series = GRAPH.series(ranks, sort=True)
    assert series.index.tolist() == [NAMES[i] for i in np.argsort(-ranks, kind="stable")]
    assert (series.name, series.index.name) == ("rank", "node")
    solution = PageRank(GRAPH).solve()
    assert GRAPH.series(solution).tolist() == list(GRAPH.named(solution).values()) == solution.x.tolist()
    assert GRAPH.series(series).tolist() == ranks.tolist()  # back in the order of the nodes
    assert PLAIN.series(ranks, name="mine").index.tolist() == [0, 1, 2, 3, 4]
    tied = PLAIN.series(np.zeros(5), sort=True)
    assert tied.index.tolist() == [0, 1, 2, 3, 4]
    pairs = cr.Graph.from_edges([0, 1], [1, 0], names=[("a", 1), ("b", 2)])
    assert pairs.series([0.25, 0.75]).loc[("b", 2)] == 0.75
    assert pairs.seeds([("b", 2)]).tolist() == [0.0, 1.0]
    assert pairs.numbers([("b", 2), ("a", 1)]).tolist() == [1, 0]


def test_one_line_gives_what_networkx_gives():
    club = networkx.DiGraph([("ann", "bob"), ("bob", "cat"), ("cat", "ann"), ("dan", "ann")])
    ours, theirs = cr.pagerank(club, named=True), networkx.pagerank(club, tol=1e-12, max_iter=1000)
    assert list(ours) == list(theirs)
    assert all(math.isclose(ours[node], theirs[node], abs_tol=1e-9) for node in club)
    for rank in (
        cr.lpq_rank,
        lambda g, **o: cr.trust_rank(g, ["ann"], **o),
        lambda g, **o: cr.antitrust_rank(g, ["ann"], **o),
    ):
        assert list(rank(club, named=True).values()) == rank(club).tolist()
    with pytest.raises(ValueError, match="named is True for 2 ranks at once"):
        cr.pagerank(GRAPH, personalization=np.ones((5, 2)), named=True)


def test_typed_edges_of_a_frame_have_names():
    frame = pd.DataFrame(
        {"from": [NAMES[i] for i in EDGES[0]], "to": [NAMES[i] for i in EDGES[1]], "kind": KINDS}
    )
    graph = cr.LabelledGraph.from_pandas(frame, "kind", "from", "to")
    assert graph.names == tuple(sorted(NAMES))
    assert graph.merged().names == graph.names
    place = [graph.names.index(name) for name in NAMES]
    for number, name in enumerate(NAMES):
        assert np.array_equal(graph.candidates(name)[:, place], typed().candidates(number))
    with pytest.raises(
        ValueError, match=r"node has 'bobb', which is not a node of the graph \(did you mean 'bob'"
    ):
        graph.candidates("bobb")
    with pytest.raises(ValueError, match="frame has no column 'sort'"):
        cr.LabelledGraph.from_pandas(frame, "sort", "from", "to")


def test_spam_is_marked_by_name():
    ranks = cr.pagerank(GRAPH)
    series, other = GRAPH.series(ranks), GRAPH.series(cr.lpq_rank(GRAPH))
    numbers, names = [1, 4], ["ann", "eve"]
    assert cr.metrics.spam_mass(series, names) == cr.metrics.spam_mass(ranks, numbers)
    assert np.array_equal(cr.metrics.spam_met(series, names), cr.metrics.spam_met(ranks, numbers))
    distance = cr.metrics.order_distance(series, other, among=names)
    assert distance == cr.metrics.order_distance(ranks, other.to_numpy(), among=numbers)
    with pytest.raises(TypeError, match=r"names of pages need a Series of ranks"):
        cr.metrics.spam_mass(ranks, names)
    with pytest.raises(ValueError, match="spam has 'anne', which is not a node of the graph"):
        cr.metrics.spam_mass(series, ["anne"])


def test_a_farm_may_lift_a_page_by_name():
    farm = cr.graphs.inject_farm(GRAPH, "star", helpers=3, target="bob")
    assert farm.target == NAMES.index("bob")
    gains = cr.graphs.farm_gain(GRAPH, cr.pagerank, [2, 5], target="bob")
    assert gains.to_frame()["share"].tolist() == gains.share.tolist()
    assert gains.to_frame().index.tolist() == [2, 5]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: GRAPH.numbers(["anna"]), ValueError, r"nodes has 'anna', .* \(did you mean 'ann'"),
        (lambda: GRAPH.numbers("ann"), TypeError, r"expected a list of nodes; pass \['ann'\]"),
        (lambda: GRAPH.numbers(["ann", "ann"]), ValueError, "nodes has the node 'ann' twice"),
        (lambda: GRAPH.numbers([5]), ValueError, r"nodes has the node 5, expected ids in 0\.\.4"),
        (lambda: GRAPH.numbers([[1]]), ValueError, r"nodes has shape \(1, 1\)"),
        (lambda: GRAPH.numbers([True, False]), TypeError, "nodes holds bool values"),
        (lambda: GRAPH.series([[1.0], [2.0, 3.0]]), ValueError, "values"),
        (lambda: GRAPH.numbers([object]), ValueError, "nodes has <class 'object'>.*expected names such as 'dan'"),
        (lambda: PLAIN.numbers(["ann"]), TypeError, "expected integer node ids"),
        (lambda: score_intervals(SETS["orders"](NAMES), nodes=["bo"]), ValueError, "nodes has 'bo'"),
        (lambda: score_intervals(SETS["orders"](NAMES), 0.5, {"ann": 1.0}), ValueError, "0 at node 'dan'"),
        (lambda: score_intervals(GRAPH), TypeError, r"sets is a Graph.*Polytopes\.around"),
        (lambda: CandidateSets([[1.0]], names=["a", "b"]), ValueError, "names has 2 entries, expected 1"),
        (lambda: CandidateSets([[], [1, 0]], names=["ann", "bob"]), ValueError, "node 'ann' has no candidate"),
        (lambda: PartialOrders([[["b"]], [["c"]]], names=["a", "b"]), ValueError, r"chains\[1\] has 'c'"),
        (lambda: Polytopes([[0, 0.7], [0.5, 0]], [[1, 1], [0.2, 1]], names="ab"), TypeError, "names is 'ab'"),
        (
            lambda: Polytopes([[0, 0.7], [0.5, 0]], [[1, 1], [0.2, 1]], names=["a", "b"]),
            ValueError,
            "node 'b' can recommend nothing: its bounds for node 'a'",
        ),
        (
            lambda: Polytopes.around(cr.Graph.from_edges([0], [1], names=["a", "b"]), 0.1, dangling="error"),
            ValueError,
            "node 'b' has no outgoing edge",
        ),
        (
            lambda: cr.problems.PageRankGame(GRAPH, "kl", personalization=["eve"]),
            ValueError,
            "the rank is 0 at 1 node, such as 'bob'",
        ),
        (lambda: cr.problems.PenaltyRank(GRAPH, personalization=["eve"]), ValueError, "node 'dan' is 0"),
    ],
)  # fmt: skip
def test_messages_call_nodes_by_name(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_integers_as_names_are_names():
    graph = cr.Graph.from_edges(*EDGES, names=[7, 2, 0, 1, 3])
    assert graph.numbers([7, 0]).tolist() == [0, 2]
    sets = Polytopes.around(graph, 0.2)
    found = score_intervals(sets, nodes=np.array([7, 0]))
    assert found.nodes.tolist() == [7, 0]
    assert np.array_equal(found.lower, score_intervals(Polytopes.around(PLAIN, 0.2), nodes=[0, 2]).lower)
    with pytest.raises(ValueError, match="nodes has 4, which is not a node"):
        graph.numbers([4])


BARS = {
    "BreW": lambda **options: brew(SETS["candidates"](None), **options).ranks,
    "BLeND": lambda **options: blend(SETS["candidates"](None), rounds=20, **options).ranks,
    "farms": lambda **options: cr.graphs.farm_gain(PLAIN, cr.pagerank, [1, 2], **options).share,
    "comparisons": lambda **options: [len(cr.verify(PageRank, instances=2, **options).comparisons)],
    "rows": lambda **options: cr.leave_one_out(apart(), **options).distances,
}


def apart():
    return cr.problems.IRPush([[3.0], [2.0], [1.0], [0.0]], [1, 1, 0, 0], l2=0.5).solve()


@pytest.mark.parametrize("what", BARS)
def test_long_work_shows_a_bar_where_it_is_asked_for(what, capsys):
    quiet = BARS[what]()
    assert capsys.readouterr().err == ""
    assert np.array_equal(BARS[what](verbose=True), quiet)
    assert what in capsys.readouterr().err
    with pytest.raises(TypeError, match="verbose is 'yes'"):
        BARS[what](verbose="yes")


def test_bars_are_silent_unless_asked_for(capsys):
    sets = SETS["orders"](NAMES)
    quiet = score_intervals(sets)
    assert capsys.readouterr().err == ""
    shown = score_intervals(sets, verbose=True)
    told = capsys.readouterr().err
    assert "corners" in told
    assert "ends" in told
    assert np.array_equal(quiet.lower, shown.lower)
    solution = LpqRank(GRAPH, 4, 4.8).solve(verbose=True)
    assert isinstance(solution, Solution)
    assert "LpqRank" in capsys.readouterr().err
