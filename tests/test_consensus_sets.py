"""Sets of recommendations: what is accepted, their corners, projections on them, and intervals of scores."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

import convexrank as cr
from convexrank.consensus import (
    CandidateSets,
    PartialOrders,
    Polytopes,
    extreme_scores,
    intervals,
    score_intervals,
)
from convexrank.consensus.candidates import absorb
from convexrank.consensus.extreme_scores import choices_of, extremes
from tests.tolerances import tolerance

SEEDS = st.integers(0, 10_000)
KINDS = ("candidates", "boxes", "inequalities", "chain", "orders")


def draw(kind, rng, n=4):
    """Sets of each kind with few corners."""
    if kind == "candidates":
        return CandidateSets([rng.dirichlet(np.full(n, 0.4), size=int(rng.integers(1, 5))) for _ in range(n)])
    if kind == "chain":
        return PartialOrders([[rng.permutation(n)[: int(rng.integers(1, n + 1))].tolist()] for _ in range(n)])
    if kind == "orders":
        pairs = [[rng.permutation(n)[:2].tolist(), rng.permutation(n)[:2].tolist()] for _ in range(n)]
        return PartialOrders(pairs, targets=[range(n)] * n)
    centre = rng.dirichlet(np.ones(n), size=n)
    boxes = centre * rng.uniform(0.2, 0.9), np.minimum(1.0, centre * rng.uniform(1.1, 3.0))
    if kind == "boxes":
        return Polytopes(*boxes)
    rows = {i: (A := rng.normal(size=(2, n)), A @ centre[i] + 0.05) for i in range(0, n, 2)}
    return Polytopes(*boxes, rows)


def ranks_of(P):
    """The stationary distribution of recommendations in the rows, by least squares."""
    n = len(P)
    return np.linalg.lstsq(np.vstack([P.T - np.eye(n), np.ones(n)]), np.r_[np.zeros(n), 1.0], rcond=None)[0]


# --- what is accepted -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: CandidateSets([]), ValueError, "candidates is empty"),
        (lambda: CandidateSets([[[1, 0]], []]), ValueError, "node 1 has no candidate"),
        (lambda: CandidateSets([[[1, 0]], np.zeros((0, 2))]), ValueError, "node 1 has no candidate"),
        (
            lambda: CandidateSets([[[1, 0]], [[0.5, 0.6]]]),
            ValueError,
            "row 0 of candidates.1. adds up to 1.1",
        ),
        (
            lambda: CandidateSets([[[1, 0], [0, 0]], [[1, 0]]]),
            ValueError,
            "row 1 of candidates.0. adds up to 0",
        ),
        (
            lambda: CandidateSets([[[1, 0]], [[-0.5, 1.5]]]),
            ValueError,
            "candidates.1. has the negative entry -0.5 for node 0",
        ),
        (lambda: CandidateSets([[[1, 0]], [[np.nan, 1]]]), ValueError, "candidates.1. contains NaN"),
        (
            lambda: CandidateSets([[[1, 0]], [[1, 0, 0]]]),
            ValueError,
            r"candidates.1. has shape \(1, 3\), expected \(k, 2\)",
        ),
        (lambda: CandidateSets([[["a", "b"]], [[1, 0]]]), ValueError, "text"),
        (lambda: Polytopes([[0, 1]], [[1, 1]]), ValueError, r"lower has shape \(1, 2\)"),
        (
            lambda: Polytopes(np.full((2, 2), 0.6), np.ones((2, 2))),
            ValueError,
            "node 0 .* lower bounds add up to 1.2",
        ),
        (
            lambda: Polytopes([[0, 0], [0, 0]], [[1, 0], [0, 0]]),
            ValueError,
            "node 1 .* upper bounds add up to 0",
        ),
        (
            lambda: Polytopes([[0, 0.5], [0, 0]], [[1, 0.2], [1, 1]]),
            ValueError,
            "node 0 .* bounds for node 1",
        ),
        (
            lambda: Polytopes(np.zeros((2, 2)), np.ones((2, 2)), {1: ([[1, 1]], [0.5])}),
            ValueError,
            "node 1 .* exclude",
        ),
        (
            lambda: Polytopes(np.zeros((2, 2)), np.ones((2, 2)), {2: ([[1, 1]], [1])}),
            ValueError,
            "has the node 2",
        ),
        (
            lambda: Polytopes(np.zeros((2, 2)), np.ones((2, 2)), {0: ([[1]], [1])}),
            ValueError,
            r"A of node 0 has shape",
        ),
        (
            lambda: Polytopes(np.zeros((2, 2)), np.ones((2, 2)), {0: [[1, 1]]}),
            TypeError,
            "inequalities.0. is .*expected a pair",
        ),
        (
            lambda: Polytopes(np.zeros((2, 2)), np.ones((2, 2)), [None]),
            ValueError,
            "inequalities has 1 entries",
        ),
        (
            lambda: Polytopes.around(cr.Graph.from_edges([0], [1]), 0.1, dangling="error"),
            ValueError,
            "node 1 has no outgoing edge.*Polytopes.around",
        ),
        (lambda: Polytopes.around(cr.Graph.from_edges([0], [1], n=10**5), 0.1), ValueError, "149 GiB"),
        (lambda: Polytopes(*[sparse.csr_array((10**5, 10**5))] * 2), ValueError, "at most 20000"),
        (lambda: Polytopes.around([[0, 1]], 0.1), TypeError, "graph is a list"),
        (lambda: PartialOrders([[[0, 1]], []]), ValueError, "node 1 has nothing in chains and in targets"),
        (lambda: PartialOrders([[[0, 2]], [[0, 1]]]), ValueError, "chains.0. has the node 2"),
        (lambda: PartialOrders([[[0, 0]], [[0, 1]]]), ValueError, "chains.0. has the node 0 twice"),
        (lambda: PartialOrders([[[0.5, 1]], [[0, 1]]]), TypeError, "integer"),
        (lambda: PartialOrders([[[0, 1]], [[0, 1]]], targets=[[0], None]), ValueError, "none of its targets"),
        (lambda: PartialOrders([[[0, 1]]], n=2), ValueError, "chains has 1 entries"),
        (lambda: score_intervals("sets"), TypeError, "sets is a str"),
        (lambda: score_intervals([[[1.0]]], alpha=1.0), ValueError, "alpha is 1.0"),
        (lambda: score_intervals([[[1, 0]], [[0, 1]]], personalization=[1, 0]), ValueError, "is 0 at node 1"),
        (lambda: score_intervals([[[1, 0]], [[0, 1]]], nodes=[2]), ValueError, "has the node 2"),
    ],
)
def test_bad_input_is_refused_and_the_node_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_labelled_graphs_give_a_candidate_a_type():
    graph = cr.LabelledGraph.from_edges([0, 0, 0, 1], [1, 2, 1, 0], ["cites", "cites", "likes", "likes"])
    with pytest.raises(ValueError, match=r"node 2 has no edge out of it \(1 such nodes\)"):
        CandidateSets.from_labelled(graph, dangling="error")
    sets = CandidateSets.from_labelled(graph)
    assert sets.vertices(0).tolist() == [[0.0, 0.5, 0.5], [0.0, 1.0, 0.0]]
    assert np.allclose(sets.vertices(2), 1.0 / 3.0, atol=tolerance("atoms"))
    with pytest.raises(TypeError, match="LabelledGraph"):
        CandidateSets.from_labelled(cr.Graph.from_edges([0], [1]))


def test_too_many_corners_are_refused_with_a_way_out():
    with pytest.raises(ValueError, match=r"set of node 0 .* list its candidates"):
        Polytopes(np.zeros((12, 12)), np.full((12, 12), 0.3)).vertices(0)


# --- corners --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_corners_are_feasible_and_reach_every_linear_extreme(kind):
    rng = np.random.default_rng(5)
    sets = draw(kind, rng)
    for node in range(sets.n):
        vertices, system = sets.vertices(node), sets.system(node)
        assert np.abs(vertices.sum(axis=1) - 1.0).max() <= tolerance("atoms")
        if system is None:
            continue
        A, b, lower, upper = system
        assert (vertices @ A.T <= b + tolerance("separation")).all()
        assert (vertices >= lower - tolerance("atoms")).all()
        assert (vertices <= upper + tolerance("atoms")).all()
        for _ in range(10):
            cost = rng.normal(size=sets.n)
            truth = linprog(cost, A, b, np.ones((1, sets.n)), [1.0], np.column_stack([lower, upper])).fun
            assert abs((vertices @ cost).min() - truth) <= tolerance("separation")


def test_corners_of_a_chain_by_hand_are_those_of_its_constraints():
    from convexrank.consensus.projections import corners

    sets = PartialOrders([[[2, 0, 3]], [[1]], [[0]], [[0]]])
    by_hand = sets.vertices(0)
    found = corners(*sets.system(0), "0")
    assert sorted(map(tuple, by_hand.round(9))) == sorted(map(tuple, found.round(9)))


# --- projections ----------------------------------------------------------------------------------------------------


def excess(p, theta, corners):
    """How far p is from the optimality condition ⟨∇φ(p) − θ, c − p⟩ ≥ 0 for every corner c."""
    slopes = np.log(p) - theta
    return float(slopes @ p - (corners @ slopes).min())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("uniform", [True, False])
@settings(max_examples=30)
@given(seed=SEEDS)
def test_projections_satisfy_the_optimality_condition(kind, uniform, seed):
    rng = np.random.default_rng(seed)
    sets = draw(kind, rng)
    absorbed = absorb(
        sets, float(rng.choice([0.0, 0.5, 0.95])), None if uniform else rng.random(sets.n) + 0.1
    )
    theta = float(rng.choice([0.1, 3.0])) * rng.normal(size=sets.n)
    P = absorbed.nearest(theta)
    for node, p in enumerate(P):
        corners = absorbed.candidates[absorbed.owners == node]
        assert abs(excess(p, theta, corners)) <= tolerance("consensus projection")
        assert abs(p.sum() - 1.0) <= tolerance("atoms")


@pytest.mark.parametrize("kind", KINDS)
def test_projections_of_extremes(kind):
    """Logarithms a thousand apart, and a teleport that hardly reaches a node."""
    rng = np.random.default_rng(6)
    sets = draw(kind, rng)
    for v in (None, [1.0, 1e-9, 1.0, 1e-6]):
        absorbed, theta = absorb(sets, 0.9, v), 1e3 * rng.normal(size=4)
        for node, p in enumerate(absorbed.nearest(theta)):
            corners = absorbed.candidates[absorbed.owners == node]
            assert abs(excess(p, theta, corners)) <= 1e3 * tolerance("consensus projection")


def test_nodes_that_no_candidate_reaches_cost_nothing_but_count():
    """Three candidates that differ in three entries of eight only."""
    rng = np.random.default_rng(7)
    rows = np.zeros((3, 8))
    rows[:, 2:5] = rng.dirichlet(np.full(3, 0.5), size=3)
    absorbed = absorb([rows] * 8, 0.7, rng.random(8) + 0.1)
    for _ in range(5):
        theta = 2.0 * rng.normal(size=8)
        p = absorbed.nearest(theta)[0]
        assert abs(excess(p, theta, absorbed.candidates[:3])) <= tolerance("consensus projection")
        assert np.allclose(p[5:], 0.3 * absorbed.teleport[5:], rtol=tolerance("atoms"))


def test_a_wrong_projection_is_noticed():
    rng = np.random.default_rng(1)
    absorbed = absorb(draw("candidates", rng), 0.85, None)
    corners = next(own for i in range(4) if len(own := absorbed.candidates[absorbed.owners == i]) > 2)
    theta = rng.normal(size=4)
    assert excess(corners.mean(axis=0), theta, corners) > 1e3 * tolerance("consensus projection")


@pytest.mark.parametrize("least", [1e-15, 1e-18, 1e-100, 1e-300])
@pytest.mark.parametrize("more", [0, 1])
def test_projections_where_the_teleport_is_less_than_rounding_of_the_candidates(least, more):
    """Of two candidates by shares, and of two with an entry that differs, and of three."""
    rows = np.eye(3)[[0, 1, 2][: 2 + more]]
    absorbed = absorb([rows, rows[::-1], rows], 0.85, [1.0, least, 1.0])
    rng = np.random.default_rng(0)
    for theta in 3.0 * rng.normal(size=(10, 3)):
        for point in (absorbed.nearest(theta)[0], absorbed.sets.nearest(0, theta, 0.85, absorbed.teleport)):
            assert point.min() > 0.0
            corners = absorbed.candidates[absorbed.owners == 0]
            assert excess(point, theta, corners) <= tolerance("consensus projection")


def test_personalizations_of_every_scale():
    """Sums beyond the largest float are scaled, and weights whose shares are lost are refused by name."""
    sets = CandidateSets([[[1, 0], [0, 1]], [[0.5, 0.5]]], names=["ann", "bob"])
    even = score_intervals(sets, 0.5)
    for weight in (1.7e308, 1.0, 5e-324):
        bounds = score_intervals(sets, 0.5, [weight, weight])
        assert np.array_equal(bounds.lower, even.lower)
        assert np.array_equal(bounds.upper, even.upper)
    for alpha, weights in ((0.5, [1e-300, 1e300]), (1.0 - 2.0**-53, [1e-300, 1.0])):
        with pytest.raises(
            ValueError, match="personalization is 1e-300 at node 'ann', expected weights with"
        ):
            score_intervals(sets, alpha, weights)


# --- intervals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_intervals_hold_all_scores_and_are_attained_at_corners(kind, seed):
    rng = np.random.default_rng(seed)
    sets, v = draw(kind, rng), rng.random(4) + 0.1
    bounds = score_intervals(sets, 0.85, v)
    absorbed = absorb(sets, 0.85, v)
    corners = [absorbed.candidates[absorbed.owners == i] for i in range(4)]
    scores = np.array([ranks_of(np.array(choice)) for choice in product(*corners)])
    assert np.abs(bounds.lower - scores.min(axis=0)).max() <= tolerance("linear program")
    assert np.abs(bounds.upper - scores.max(axis=0)).max() <= tolerance("linear program")
    for _ in range(200):
        P = np.array([rng.dirichlet(np.ones(len(own))) @ own for own in corners])
        w = ranks_of(P)
        assert (w >= bounds.lower - tolerance("linear program")).all()
        assert (w <= bounds.upper + tolerance("linear program")).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.85, 0.99])
def test_sweeps_find_what_linear_programs_find_and_bound_it_from_outside(kind, alpha):
    rng = np.random.default_rng(7)
    absorbed = absorb(draw(kind, rng), alpha, rng.random(4) + 0.1)
    nodes = np.arange(4)
    swept = intervals._by_sweeps(absorbed, choices_of(absorbed), nodes, False)
    solved = intervals._by_programs(absorbed, nodes, False)
    assert np.abs(swept - solved).max() <= tolerance("linear program")
    for sign, side in ((-1.0, 0), (1.0, 1)):
        for places, low, high in extremes(choices_of(absorbed), alpha, absorbed.teleport, nodes, sign):
            assert (low <= high).all()
            assert (high - low <= 2.0 * extreme_scores._CLOSE).all()
            assert np.array_equal((high if side else low), swept[places, side])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("close", [0.3, 0.03, 1e-3, 1e-6])
def test_sweeps_that_end_early_bound_the_ends_all_the_same(kind, close, monkeypatch):
    monkeypatch.setattr(extreme_scores, "_CLOSE", close)
    rng, least = np.random.default_rng(3), tolerance("linear program")
    absorbed, nodes, apart = absorb(draw(kind, rng), 0.9, rng.random(4) + 0.1), np.arange(4), 0.0
    solved = intervals._by_programs(absorbed, nodes, False)
    for sign, side in ((-1.0, 0), (1.0, 1)):
        for places, low, high in extremes(choices_of(absorbed), 0.9, absorbed.teleport, nodes, sign):
            truth = solved[places, side]
            assert (low <= truth + least).all()
            assert (truth <= high + least).all()
            assert (high - low <= close + least).all()
            apart = max(apart, float((high - low).max()))
    assert apart > 0.01 * close, "they ended early"


def test_walks_that_hardly_mix_take_more_sweeps_and_end():
    """Two cycles that are joined by nothing but the teleport: the second eigenvalue is 1."""
    candidates = [[[0, 1, 0, 0]], [[1, 0, 0, 0], [0.9, 0.1, 0, 0]], [[0, 0, 0, 1]], [[0, 0, 1, 0]]]
    absorbed = absorb(candidates, 0.99, None)
    nodes = np.arange(4)
    swept = intervals._by_sweeps(absorbed, choices_of(absorbed), nodes, False)
    assert np.abs(swept - intervals._by_programs(absorbed, nodes, False)).max() <= tolerance("linear program")


def test_sets_with_too_many_corners_go_to_linear_programs(monkeypatch):
    sets = PartialOrders([[[1, 2], [3, 2]], [[2, 0]], [[0, 1]], [[0, 1]]])
    bounds = score_intervals(sets, verbose=True)
    monkeypatch.setattr("convexrank.consensus.polytopes.FEW_SYSTEMS", 0)
    assert choices_of(absorb(sets, 0.85, None)) is None
    again = score_intervals(sets)
    assert np.abs(again.lower - bounds.lower).max() <= tolerance("linear program")
    assert np.abs(again.upper - bounds.upper).max() <= tolerance("linear program")


def test_intervals_of_single_recommendations_are_pagerank():
    graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    bounds = score_intervals(Polytopes.around(graph, 0.0), nodes=[2, 0])
    assert bounds.nodes.tolist() == [2, 0]
    truth = cr.pagerank(graph)[[2, 0]]
    assert np.abs(np.r_[bounds.lower - truth, bounds.upper - truth]).max() <= tolerance("linear program")
    assert bounds.above(2, 0)
    assert not bounds.above(0, 2)


def test_wider_boxes_have_wider_intervals():
    graph = cr.Graph.from_edges([0, 0, 1, 1, 2, 2], [1, 2, 2, 0, 0, 1], [1, 2, 3, 1, 1, 1])
    narrow, wide = (score_intervals(Polytopes.around(graph, r)) for r in (0.1, 0.3))
    assert (wide.lower < narrow.lower).all()
    assert (wide.upper > narrow.upper).all()


def test_a_node_that_does_not_exist_is_named():
    two = np.full((2, 2), 0.5)
    for sets in (CandidateSets(list(two[:, None])), Polytopes(0.0 * two, 2.0 * two)):
        for node in (2, -1):
            with pytest.raises(ValueError, match=f"node is {node}, expected"):
                sets.vertices(node)
