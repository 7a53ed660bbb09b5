"""Trust and distrust against plain loops, and the ranks of one line."""

from __future__ import annotations

import numpy as np
import pytest

import convexrank as cr
from convexrank.problems import TrustPropagation
from tests.tolerances import tolerance


def by_loops(graph, seeds, gamma, p, q, steps=800):
    """From the seeds, edge by edge."""
    sources, targets, weights = graph.edges()
    out, r = graph.out_weight, (1 - gamma) * seeds
    for _ in range(steps):
        sums = np.zeros(graph.n)
        for s, t, w in zip(sources, targets, weights, strict=True):
            sums[t] += (w * r[s] / out[s]) ** p
        r = gamma * sums ** (1 / q) + (1 - gamma) * seeds
    return r


@pytest.mark.parametrize("seed", range(15))
def test_reference_is_the_definition(seed):
    problem = TrustPropagation.random(seed)
    sides = [(problem.graph, problem.trusted), (problem.graph.reversed(), problem.distrusted)]
    for (graph, seeds), found in zip(sides, problem.parts(problem.reference()), strict=False):
        expected = by_loops(graph, seeds, problem.gamma, problem.p, problem.q)
        assert np.abs(found - expected).max() <= tolerance("summation")


def test_certificates_are_never_below_the_true_error():
    for seed in range(60):
        problem = TrustPropagation.random(10_000 + seed)
        truth = problem.reference()
        seen = []
        solution = problem.solve(callback=lambda state, seen=seen: seen.append(state.x))
        assert solution.converged, seed
        for x in (seen[0], seen[len(seen) // 2], seen[-1]):
            assert problem.distance(x, truth) <= problem.certificate(x).gap, seed
        assert np.array_equal(solution.x > 0, truth > 0), seed


def test_a_cycle_that_nobody_trusts_keeps_no_trust():
    """For p < q a cycle would feed itself; started from anything, it must come out as zero."""
    graph = cr.Graph.from_edges([0, 2, 3], [1, 3, 2])
    problem = TrustPropagation(graph, [0], p=1, q=2)
    junk = np.full(4, 0.3)
    assert problem.certificate(junk).gap == np.inf
    solution = problem.solve(x0=junk)
    assert (solution.x[2:] == 0).all()
    assert problem.distance(solution.x, problem.reference()) <= solution.gap <= 1e-8


def test_linear_trust_is_page_rank_without_return():
    rng = np.random.default_rng(0)
    graph = cr.Graph.from_edges(rng.integers(0, 40, 100), rng.integers(0, 40, 100), rng.random(100), 40)
    problem = TrustPropagation(graph, [3, 5], [7], 0.8)
    trust, distrust = problem.parts(problem.solve(tol=1e-12))
    assert np.abs(trust - cr.trust_rank(graph, [3, 5], 0.8, tol=1e-12)).sum() <= 2e-12
    assert np.abs(distrust - cr.antitrust_rank(graph, [7], 0.8, tol=1e-12)).sum() <= 2e-12


def test_combined_rank_is_its_formula():
    rng = np.random.default_rng(1)
    rank, trust, distrust = rng.random((3, 6))
    trust[0] = distrust[0] = 0.0
    expected = [r * (t + 0.05) / (t + d + 0.1) for r, t, d in zip(rank, trust, distrust, strict=True)]
    found = cr.combined_rank(rank, trust, distrust, kappa=0.1)
    assert np.allclose(found, np.array(expected) / sum(expected))
    assert np.allclose(
        cr.combined_rank(rank, trust, distrust), cr.combined_rank(rank, trust, distrust, kappa=1 / 6)
    )


def test_one_line_takes_networkx_and_scipy():
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    other = networkx.DiGraph([("a", "b"), ("b", "c"), ("c", "a"), ("a", "c")])
    graph = cr.Graph.from_networkx(other)
    assert np.array_equal(cr.pagerank(other), cr.pagerank(graph))
    assert np.array_equal(cr.pagerank(networkx.to_scipy_sparse_array(other)), cr.pagerank(graph))
    assert np.array_equal(cr.lpq_rank(other), cr.lpq_rank(graph))
    assert np.array_equal(cr.trust_rank(other, ["b"]), cr.trust_rank(graph, [1]))
    theirs = networkx.pagerank(other, tol=1e-14, max_iter=500)
    assert graph.named(cr.pagerank(graph)) == pytest.approx(theirs, abs=1e-9)


def test_points_farther_from_their_image_than_any_float_have_no_bound():
    graph = cr.Graph.from_edges([0, 1], [1, 0])
    problem = TrustPropagation(graph, [1e-300, 1.0], gamma=0.0, p=1, q=2)
    for scale in (1e10, 1e-308):
        assert problem.certificate([scale, 1.0]).gap == (
            np.inf if scale > 1.0 else pytest.approx(2 * np.log(1e8))
        )


def test_a_large_power_of_a_small_error_is_no_zero():
    """(1e-8)^40 is 0 in floating point: the norm is taken of numbers relative to the largest."""
    problem = TrustPropagation(cr.Graph.from_edges([0, 1, 3, 4], [1, 2, 2, 3]), [0], gamma=0.5, p=40, q=40)
    truth = problem.reference()
    x = truth * (1.0 + 1e-8)
    away = problem.distance(x, truth)
    assert away >= np.abs(x - truth).max() > 0.0
    assert away <= problem.certificate(x).gap <= 3.0 * away


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"graph": [[1]]}, TypeError, "convexrank.Graph"),
        ({"trusted": []}, ValueError, "trusted has shape"),
        ({"trusted": None}, ValueError, "trusted has shape"),
        ({"distrusted": [4]}, ValueError, r"distrusted\[0\] is 4"),
        ({"gamma": 1.0}, ValueError, "gamma is 1.0"),
        ({"p": 0.5}, ValueError, "p is 0.5"),
        ({"q": float("inf")}, ValueError, "q is inf"),
        ({"p": 3.0, "q": 2.0}, ValueError, "expected p <= q"),
    ],
)
def test_bad_input_is_refused(changes, error, words):
    graph = cr.Graph.from_edges([0, 1], [1, 2])
    with pytest.raises(error, match=words):
        TrustPropagation(**{"graph": graph, "trusted": [0], **changes})


def test_bad_points_and_ranks_are_refused():
    problem = TrustPropagation(cr.Graph.from_edges([0, 1], [1, 2]), [0])
    with pytest.raises(ValueError, match=r"x0\[1\] is -1"):
        problem.solve(x0=[1.0, -1.0, 0.0])
    with pytest.raises(ValueError, match="no objective"):
        problem.objective(problem.start())
    with pytest.raises(ValueError, match="trust is -1"):
        cr.combined_rank([1.0, 1.0], [1.0, -1.0], [0.0, 0.0])
    with pytest.raises(ValueError, match="zero everywhere"):
        cr.combined_rank([0.0, 0.0], [1.0, 1.0], [0.0, 0.0])
    with pytest.raises(ValueError, match="kappa is 0"):
        cr.combined_rank([1.0], [1.0], [0.0], kappa=0.0)
