"""Sweeps along the strongest links: their answer, their order, and what they do where numbers leave their range."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import convexrank as cr
from convexrank.graphs import compiled_sweeps
from convexrank.problems.graph_ranks._base import random_graph
from convexrank.solvers.fixed_point import sweeps

WEAK = ("inside", "entry", "outside")


def chain(n, seed=0):
    """A path through shuffled nodes, whose error a plain map moves on by one node a step."""
    order = np.random.default_rng(seed).permutation(n)
    return cr.Graph.from_edges(order[:-1], order[1:], n=n)


def test_depths_count_strongest_links():
    """0 → 1 → 2, 3 ↔ 4 → 5, and 6, which gets what everybody gets."""
    graph = cr.Graph.from_edges([0, 1, 3, 4, 4, 0], [1, 2, 4, 3, 5, 5], n=7)
    sent, depth = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), np.empty(7, np.int32)
    compiled_sweeps.depths(graph.offsets, graph.sources, np.empty(0), sent, 0.5, depth)
    assert depth[[0, 1, 2, 6]].tolist() == [0, 1, 2, 0]
    assert sorted(depth[[3, 4]].tolist()) == [0, 1]
    assert depth[5] == depth[4] + 1
    compiled_sweeps.depths(graph.offsets, graph.sources, np.empty(0), sent, 10.0, depth)
    assert not depth.any()


@pytest.mark.parametrize("weak", WEAK)
@pytest.mark.parametrize("memory", [0, 3])
def test_the_answer_is_that_of_the_map(weak, memory):
    """Weights, links to itself, nodes without links."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, least=2)
        problem = cr.problems.LpqRank(graph, float(rng.choice([1.0, 2.0, 8.0, 50.0])), 60.0, 0.85, weak)
        found = problem.solve(cr.solvers.OrderedSweeps(memory), tol=1e-9)
        assert found.converged
        assert problem.distance(found.x, problem.reference()) <= found.gap


def test_chains_take_few_sweeps():
    problem = cr.problems.LpqRank(chain(3_000), 4.0, 4.4, 0.99)
    plain = problem.solve("power", tol=1e-6)
    ordered = problem.solve(tol=1e-6)
    assert problem.distance(plain.x, ordered.x) <= plain.gap + ordered.gap
    assert ordered.iterations < 0.25 * plain.iterations


def test_a_node_that_links_to_itself_solves_its_equation():
    """Alone it contracts by θ a step: that would be hundreds of sweeps."""
    graph = cr.Graph.from_edges(
        [0, 1, 2, 0, 1], [0, 1, 2, 1, 2], np.array([50.0, 50.0, 50.0, 1.0, 1.0]), n=3, self_loops=True
    )
    problem = cr.problems.LpqRank(graph, 4.0, 4.1, 0.9)
    found = problem.solve(cr.solvers.OrderedSweeps(0), tol=1e-8)
    assert found.iterations < 30 < problem.solve("power", tol=1e-8).iterations
    assert problem.distance(found.x, problem.reference()) <= found.gap


def test_sums_out_of_range_leave_the_step_to_the_map(monkeypatch):
    """Every sum counts as lost: the solve is one by the map."""
    problem = cr.problems.LpqRank(chain(50), 4.0, 8.0)
    monkeypatch.setattr(sweeps, "TINY", np.inf)
    found = problem.solve("ordered-sweeps", tol=1e-8)
    assert found.converged
    assert problem.distance(found.x, problem.reference()) <= found.gap


def test_what_the_solver_is_for():
    graph = chain(5)
    assert cr.problems.LpqRank(graph, 4, 5).default_solver == "ordered-sweeps"
    assert cr.problems.LpqRank(graph, np.inf, np.inf, theta=0.5).default_solver == "power"
    with pytest.warns(UserWarning, match="theta"):
        assert cr.problems.LpqRank(graph, 4, 4).default_solver == "power"
    with pytest.raises(ValueError, match="memory is -1"):
        cr.solvers.OrderedSweeps(-1)
    assert dataclasses.is_dataclass(cr.solvers.OrderedSweeps)
