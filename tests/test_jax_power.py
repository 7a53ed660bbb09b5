"""PageRank in JAX: its layout of the edges, and its answers against the walk itself."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.export import export

import convexrank as cr
from convexrank.problems import PageRank
from convexrank.solvers import JaxPower
from convexrank.solvers.fixed_point._mesh import OnMesh, columns_of, default_mesh, in_planes, walk_over
from tests.graph_files import real_graph
from tests.tolerances import tolerance


def graph_of_twelve(seed, weighted):
    """Graphs of one shape, so that little is compiled; dangling and isolated nodes, self-loops, full rows."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(0, 60))
    source, target = rng.integers(0, 12, m), rng.integers(0, 12, m)
    if seed % 3 == 0:  # nobody links out of the last half
        source = source // 2
    if seed % 3 == 1:  # everything into one node
        target = np.where(rng.random(m) < 0.7, 3, target)
    weight = 10.0 ** rng.uniform(-2, 2, m) if weighted else None
    return cr.Graph.from_edges(source, target, weight, 12)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_edge_lies_in_one_column_of_its_node(weighted):
    rng = np.random.default_rng(0)
    for lengths in (rng.integers(0, 30, 9), np.full(4, 8), np.array([0, 1, 7, 9, 16, 17]), np.zeros(3, int)):
        n = max(len(lengths), 40)
        target = np.repeat(np.arange(len(lengths)), lengths)
        source = np.concatenate([rng.choice(n, k, replace=False) for k in lengths]).astype(int)
        weight = rng.random(len(source)) + 0.5 if weighted else None
        graph = cr.Graph.from_edges(source, target, weight, n)
        own, width = np.diff(graph.offsets), columns_of(np.diff(graph.offsets)).sum() + 3
        planes, weights, rows = in_planes(own, graph.sources, graph.weights, n, width)
        found = {}
        for c in range(planes.shape[1]):
            for k in range(planes.shape[0]):
                if planes[k, c] < n:
                    edge = (int(planes[k, c]), int(rows[c]))
                    assert edge not in found
                    found[edge] = 1.0 if weights is None else weights[k, c]
                elif weights is not None:
                    assert weights[k, c] == 0.0
        sources, targets, values = graph.edges()
        assert found == {(int(s), int(t)): v for s, t, v in zip(sources, targets, values, strict=True)}
        assert (np.diff(rows) >= 0).all()


@pytest.mark.parametrize("mode", ["teleport", "uniform", "drop"])
@pytest.mark.parametrize("weighted", [False, True])
def test_answers_and_certificates(mode, weighted):
    for seed in range(6):
        graph = graph_of_twelve(seed, weighted)
        v = np.random.default_rng(seed).random(12) ** 4
        for personal in (None, v):
            problem = PageRank(graph, 0.9, personal, mode)
            truth = problem.reference()
            seen = []
            solution = problem.solve(JaxPower(4), tol=1e-11, callback=seen.append)
            assert solution.converged
            assert np.abs(solution.x - truth).sum() <= solution.gap <= 1e-11
            for state in seen[1:]:
                assert np.abs(state.x - truth).sum() <= state.residual + tolerance("atoms")


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_step_is_so_many_applications_of_the_map(rounds):
    problem = PageRank(graph_of_twelve(1, True), 0.8, np.random.default_rng(0).random(12), "uniform")
    x = problem.start()
    for _ in range(rounds):
        x = problem.apply_map(x)
    with pytest.warns(cr.ConvergenceWarning, match="MAX_ITER"):
        found = problem.solve(JaxPower(rounds), max_iter=1)
    assert np.abs(found.x - x).sum() <= tolerance("atoms")


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loop_translates_for_a_gpu(weighted):
    """For CUDA, which needs no such device: one program, and nothing in it waits for the host."""
    problem = PageRank(graph_of_twelve(1, weighted))
    device = OnMesh.prepare(problem, problem.start(), default_mesh())
    with jax.enable_x64(True):
        program = export(jax.jit(walk_over(device.mesh)), platforms=["cuda"])(
            device.edges, device.nodes, (), device.pad(problem.start()), 10
        )
    assert program.platforms == ("cuda",)
    assert program.out_avals[0].dtype == np.float64
    assert "custom_call" not in program.mlir_module()


def test_batches_and_a_real_graph():
    graph = real_graph("harvard500")
    v = np.random.default_rng(0).random((graph.n, 3)) ** 8
    for mode in ("teleport", "drop"):
        together = PageRank(graph, 0.85, v, mode).solve("jax-power", tol=1e-12)
        other = PageRank(graph, 0.85, v, mode).solve(tol=1e-12)
        assert np.abs(together.x - other.x).sum(axis=0).max() <= 2e-12


def test_the_users_precision_stays_and_is_not_used():
    before = jax.config.jax_enable_x64
    with jax.default_device(jax.devices("cpu")[0]), jax.enable_x64(False):
        solution = PageRank(graph_of_twelve(2, False)).solve("jax-power", tol=1e-12)
    assert solution.gap <= 1e-12
    assert solution.x.dtype == np.float64
    assert jax.config.jax_enable_x64 == before


def test_a_tolerance_below_rounding_ends():
    with pytest.warns(cr.ConvergenceWarning, match="FAILED"):
        solution = PageRank(graph_of_twelve(2, False)).solve("jax-power", tol=1e-30)
    assert solution.gap < 1e-12


def test_bad_rounds_are_refused():
    with pytest.raises(ValueError, match="rounds is 0"):
        JaxPower(0)
