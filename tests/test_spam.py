"""Measures of spam against plain loops, link farms, and the small graphs of the figures."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convexrank as cr
from convexrank import metrics
from convexrank.graphs.farms import FARMS
from tests.example_modules import load
from tests.tolerances import tolerance


@st.composite
def marked_ranks(draw):
    """A few pages, with ties, and which are spam."""
    n = draw(st.integers(1, 6))
    rank = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n, max_size=n))
    return np.array(rank), np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))


def mean_over_orders(rank, spam):
    """Spam among the k first, over every order of the pages that respects the scores."""
    n, curves = len(rank), []
    for order in itertools.permutations(range(n)):
        if all(rank[i] >= rank[j] for i, j in itertools.pairwise(order)):
            curves.append([sum(spam[i] for i in order[:k]) for k in range(1, n + 1)])
    return np.mean(curves, axis=0)


def footrule(first, second, chosen):
    """Sum of the differences of places, tied pages at their mean place."""

    def place(scores, i):
        above = sum(scores[j] > scores[i] for j in chosen)
        tied = sum(scores[j] == scores[i] for j in chosen)
        return above + (tied + 1) / 2

    return sum(abs(place(first, i) - place(second, i)) for i in chosen)


@given(marked_ranks())
def test_spam_met_is_the_mean_over_orders(drawn):
    rank, spam = drawn
    assert np.allclose(
        metrics.spam_met(rank, spam), mean_over_orders(rank, spam), rtol=0, atol=tolerance("summation")
    )


@given(marked_ranks())
def test_spam_mass_is_a_share(drawn):
    rank, spam = drawn
    if not rank.any():
        with pytest.raises(ValueError, match="zero everywhere"):
            metrics.spam_mass(rank, spam)
        return
    expected = sum(r for r, s in zip(rank, spam, strict=True) if s) / sum(rank)
    assert metrics.spam_mass(rank, spam) == pytest.approx(expected, abs=tolerance("summation"))
    assert metrics.spam_mass(rank, np.flatnonzero(spam)) == metrics.spam_mass(rank, spam)
    assert metrics.spam_mass(rank, spam) + metrics.spam_mass(rank, ~spam) == pytest.approx(1.0)


def test_spam_mass_of_huge_and_tiny_ranks():
    assert metrics.spam_mass([1e308, 1e308, 1e308, 1e308], [0]) == pytest.approx(0.25)
    assert metrics.spam_mass([1e-310, 3e-310], [True, False]) == pytest.approx(0.25)


@given(marked_ranks(), st.data())
def test_order_distance_is_the_footrule(drawn, data):
    first, chosen = drawn
    second = np.array(data.draw(st.permutations(list(range(len(first))))), dtype=float)
    pages = np.flatnonzero(chosen) if chosen.any() else np.arange(len(first))
    expected, m = footrule(first, second, pages), len(pages)
    among = chosen if chosen.any() else None
    for scale, divisor in (("largest", max(m**2 // 2, 1)), ("square", m**2)):
        found = metrics.order_distance(first, second, among, scale)
        assert found == pytest.approx(expected / divisor, abs=tolerance("summation"))
        assert found == metrics.order_distance(second, first, pages, scale)


def test_order_distance_is_the_footrule_by_query():
    first, second = np.random.default_rng(0).random((2, 30))
    expected = metrics.spearman_footrule(first, second, normalized=True)
    assert metrics.order_distance(first, second) == pytest.approx(expected, abs=tolerance("summation"))
    assert metrics.order_distance(first, -first) == 1.0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: metrics.spam_mass([1.0, -1.0], [0]), ValueError, r"rank\[1\] is -1"),
        (lambda: metrics.spam_mass([1.0, math.nan], [0]), ValueError, "NaN"),
        (lambda: metrics.spam_mass([1.0, 2.0], [True]), TypeError, "expected 2 booleans"),
        (lambda: metrics.spam_mass([1.0, 2.0], [0.0, 1.0]), TypeError, "integer ids"),
        (lambda: metrics.spam_mass([1.0, 2.0, 3.0], [0, 1, 1]), ValueError, "names a page twice"),
        (lambda: metrics.spam_met([1.0, 2.0], [2]), ValueError, r"spam\[0\] is 2"),
        (lambda: metrics.spam_met([1.0, 2.0], [-1]), ValueError, r"spam\[0\] is -1"),
        (lambda: metrics.order_distance([1.0, 2.0], [1.0]), ValueError, "1 entries"),
        (lambda: metrics.order_distance([1.0, 2.0], [1.0, 2.0], [False, False]), ValueError, "no page"),
        (lambda: metrics.order_distance([1.0], [1.0], scale="n"), ValueError, "scale is 'n'"),
    ],
)
def test_bad_input_to_the_measures_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_nothing_marked_is_no_spam():
    assert metrics.spam_mass([1.0, 2.0], []) == 0.0
    assert metrics.spam_met([1.0, 2.0], []).tolist() == [0.0, 0.0]


# --- the figures ----------------------------------------------------------------------------------------------------


def dense_rank(graph, p, weak, theta, rounds=4000):
    """The map with a dense matrix, 200 lines of the package away."""
    A = graph.to_scipy().toarray()
    shares, n = (A / A.sum(axis=1, keepdims=True)).T, len(A)
    r = np.full(n, 1.0 / n)
    for _ in range(rounds):
        if weak == "inside":
            entries = (0.85 * shares + 0.15 / n) * r
            r = (entries.max(axis=1) if np.isinf(p) else (entries**p).sum(axis=1) ** (1 / p)) ** theta
        else:
            entries = shares * r
            norm = entries.max(axis=1) if np.isinf(p) else (entries**p).sum(axis=1) ** (1 / p)
            r = 0.85 * norm**theta + 0.15 / n
        r = r / r.sum()
    return r


def test_equal_inflows():
    """Pages 1 and 2 get the same by links of 1 and 1/2, and of three times 1/2."""
    graph = cr.graphs.equal_inflows()
    assert (graph.n, graph.m, graph.names) == (7, 19, tuple("1234567"))
    plain, norm = cr.pagerank(graph), dense_rank(graph, 2.0, "inside", 1.0)
    assert np.abs(plain - dense_rank(graph, 1.0, "inside", 1.0)).sum() <= tolerance("summation") * 10
    assert plain[0] == pytest.approx(plain[1], abs=tolerance("summation"))
    assert plain[:2].round(4).tolist() == [0.1826, 0.1826]
    assert norm[:2].round(4).tolist() == [0.2094, 0.1655]
    near = cr.lpq_rank(graph, 2.0, 2.0 / 0.9999)
    assert np.abs(near - norm).max() < 1e-4


def test_small_farm():
    graph = cr.graphs.small_farm()
    assert (graph.n, graph.m, graph.names) == (9, 15, tuple("123456789"))
    plain, norm = cr.pagerank(graph), dense_rank(graph, math.inf, "outside", 1.0)
    assert int(np.argmax(plain)) == 5
    assert round(float(plain[5]), 4) == 0.2132
    assert norm[5] < norm[:5].min()
    problem = cr.problems.LpqRank(graph, math.inf, math.inf, weak_links="outside", theta=0.9999)
    assert np.abs(problem.solve().x - norm).max() < 1e-3


# --- farms ----------------------------------------------------------------------------------------------------------


def expected_links(kind, pages):
    """Links of a farm by their description; the target is first."""
    target, *helpers = pages
    if kind == "star":
        return {(h, target) for h in helpers} | {(target, h) for h in helpers}
    if kind == "funnel":
        return {(h, target) for h in helpers}
    if kind == "clique":
        return set(itertools.permutations(pages, 2))
    if kind == "ring":
        return {(pages[i], pages[(i + 1) % len(pages)]) for i in range(len(pages))} if helpers else set()
    if kind == "pairs":
        couples = [(pages[i], pages[i + 1]) for i in range(0, len(pages) - 1, 2)]
        return set(couples) | {(b, a) for a, b in couples}
    links = {(target, helpers[0]), (helpers[0], target)} if helpers else set()
    return links | {(h, pages[i % 2]) for i, h in enumerate(helpers[1:])}


@pytest.mark.parametrize("kind", FARMS)
@pytest.mark.parametrize("existing", [None, 4])
def test_farms_link_as_described(kind, existing):
    web = cr.graphs.equal_inflows()
    before = {(int(s), int(t)) for s, t in zip(*web.edges()[:2], strict=True)}
    for helpers in range(6):
        farm = cr.graphs.inject_farm(web, kind, helpers, target=existing)
        new = list(range(web.n, farm.graph.n))
        pages = new if existing is None else [existing, *new]
        assert len(pages) == helpers + 1
        links = {(int(s), int(t)) for s, t in zip(*farm.graph.edges()[:2], strict=True)}
        assert links - before == expected_links(kind, pages)
        assert before <= links
        assert farm.target == pages[0]
        assert np.flatnonzero(farm.spam).tolist() == sorted(pages)
        assert farm.graph.weights is None
        assert farm.graph.names[: web.n] == web.names


def test_hijacked_pages_are_drawn_by_the_seed():
    rng = np.random.default_rng(0)
    web = cr.Graph.from_edges(rng.integers(0, 40, 100), rng.integers(0, 40, 100), rng.random(100) + 0.5, 40)
    one, again, other = (cr.graphs.inject_farm(web, "funnel", 3, hijacked=5, seed=s) for s in (1, 1, 2))
    assert np.array_equal(one.graph.sources, again.graph.sources)
    assert not np.array_equal(one.graph.sources, other.graph.sources)
    into = one.graph.sources[one.graph.offsets[one.target] : one.graph.offsets[one.target + 1]]
    assert len(set(into.tolist())) == 8
    assert (into < 40).sum() == 5
    weight = one.graph.weights[one.graph.offsets[one.target] : one.graph.offsets[one.target + 1]]
    assert (weight == 1.0).all()
    lifted = cr.graphs.inject_farm(web, "funnel", 0, target=3, hijacked=39)
    assert lifted.graph.n == 40
    assert lifted.graph.offsets[4] - lifted.graph.offsets[3] >= 39
    assert (web.n, web.m) == (40, web.m)


def test_gain_of_a_farm_is_measured_by_size():
    web = cr.graphs.small_farm()
    sizes = [0, 3, 9]
    found = cr.graphs.farm_gain(web, cr.pagerank, sizes, "star", target=0)
    for k, helpers in enumerate(sizes):
        rank = cr.pagerank(cr.graphs.inject_farm(web, "star", helpers, target=0).graph)
        assert found.share[k] == pytest.approx(rank[0])
        assert found.gain[k] == pytest.approx(rank[0] / cr.pagerank(web)[0])
        assert found.position[k] == 1 + sum(r > rank[0] for r in rank)
    assert found.helpers.tolist() == sizes
    assert (np.diff(found.share) > 0).all()


def test_two_pages_beat_norms_and_a_floor_mends_it():
    """What mathematics proves and the documentation says: the mutual pair leads for p > 1."""
    rng = np.random.default_rng(0)
    web = cr.Graph.from_edges(np.repeat(np.arange(300), 10), rng.integers(0, 300, 3000))

    def floored(graph):
        return cr.problems.LpqRank(graph, 4, 4.8, outdegree_floor=10).solve().x

    position = {
        name: int(cr.graphs.farm_gain(web, rank, [1], "pairs").position[0])
        for name, rank in (("plain", cr.pagerank), ("norm", cr.lpq_rank), ("floored", floored))
    }
    assert position["norm"] == 1
    assert position["plain"] > 20
    assert position["floored"] > 20


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"kind": "wheel"}, ValueError, "kind is 'wheel'"),
        ({"helpers": -1}, ValueError, "helpers is -1"),
        ({"helpers": 2.5}, TypeError, "helpers is 2.5"),
        ({"target": 7}, ValueError, r"target has the node 7, expected ids in 0\.\.6"),
        ({"hijacked": 8}, ValueError, "hijacked is 8"),
        ({"hijacked": 7, "target": 0}, ValueError, "hijacked is 7"),
    ],
)
def test_bad_farms_are_refused(changes, error, words):
    with pytest.raises(error, match=words):
        cr.graphs.inject_farm(cr.graphs.equal_inflows(), **changes)


def test_bad_ranks_of_farms_are_refused():
    web = cr.graphs.equal_inflows()
    with pytest.raises(ValueError, match="negative values"):
        cr.graphs.farm_gain(web, lambda graph: np.zeros(graph.n), [1])
    with pytest.raises(ValueError, match="entries"):
        cr.graphs.farm_gain(web, lambda graph: np.ones(3), [1])


# --- the laboratory -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def laboratory():
    load("real_data")
    return load("spam_laboratory")


@pytest.mark.parametrize("graph", ["drawn", "real"])
def test_the_laboratory_finds_what_its_page_says(laboratory, graph):
    if graph == "real":
        try:
            web = laboratory.stanford()
        except FileNotFoundError as reason:
            pytest.skip(str(reason))
    else:
        web = laboratory.hosts()
    ranks = laboratory.unlabelled(laboratory.good_pages(web))
    wanted = {name: ranks[name] for name in ("PageRank", "L₄", "L₄, floor 10", "TrustRank")}
    places = laboratory.positions(web, wanted)
    place = {
        farm: dict(zip(wanted, row, strict=True)) for farm, row in zip(laboratory.FARMS, places, strict=True)
    }
    for farm in ("star", "funnel", "clique of 51"):
        assert place[farm]["L₄"] > 2 * place[farm]["PageRank"]
    for farm in ("ring", "alliance", "two pages", "two pages alone"):
        assert place[farm]["L₄"] <= 0.5 * place[farm]["PageRank"]
        assert place[farm]["L₄, floor 10"] > place[farm]["PageRank"]
    assert place["clique of 11"]["L₄, floor 10"] == 1
    assert min(row["TrustRank"] for row in place.values()) > 100


def test_a_closed_farm_grows_as_the_page_says():
    """The Perron root of the entrywise power of a farm's matrix: d^(1/p − 1), for a star of d² helpers too."""
    for p in (1.0, 2.0, 4.0):
        for kind, helpers, d in (
            ("pairs", 1, 1.0),
            ("ring", 6, 1.0),
            ("clique", 10, 10.0),
            ("star", 49, 7.0),
        ):
            alone = cr.Graph.from_edges([], [], n=1)
            graph = cr.graphs.inject_farm(alone, kind, helpers, target=0).graph
            A = graph.to_scipy().toarray()
            matrix = (A / A.sum(axis=1, keepdims=True)).T ** p
            root = np.abs(np.linalg.eigvals(matrix)).max() ** (1 / p)
            assert root == pytest.approx(d ** (1 / p - 1), rel=tolerance("summation"))
