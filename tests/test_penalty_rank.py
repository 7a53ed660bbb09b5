"""The penalty method's limit: a rank of its own, with several local minima."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

import convexrank as cr
from convexrank.problems import PenaltyRank
from convexrank.solvers import MultiStart
from tests.tolerances import tolerance


def four_nodes():
    """Edges 0→1, 0→2, 1→2, 2→0, 3→2, 3→0."""
    return cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])


def two_communities(sizes=(4, 5)):
    """Everybody links everybody of the own community."""
    first, second = range(sizes[0]), range(sizes[0], sum(sizes))
    edges = [(i, j) for members in (first, second) for i in members for j in members if i != j]
    return cr.Graph.from_edges(*np.array(edges).T)


def by_loops(problem, rho):
    P = problem.operator.dense()
    n = len(P)
    total = 0.0
    for i in range(n):
        total += rho[i] * sum(P[j, i] * math.log(P[j, i] / rho[j]) for j in range(n))
    return total


def shares(v):
    return np.exp(v - v.max()) / np.exp(v - v.max()).sum()


@pytest.mark.parametrize("seed", range(8))
def test_the_objective_is_its_double_loop(seed):
    problem = PenaltyRank.random(seed)
    rng = np.random.default_rng(seed)
    for rho in (problem.start(), problem._random_start(rng), rng.dirichlet(np.ones(problem.dimension))):
        assert problem.objective(rho) == pytest.approx(by_loops(problem, rho), abs=tolerance("summation"))


@pytest.mark.parametrize("seed", range(8))
def test_the_residual_is_minus_the_slope_in_logarithms(seed):
    problem = PenaltyRank.random(seed)
    v = np.random.default_rng(seed).normal(size=problem.dimension)
    step = tolerance("difference_step")
    for place in range(problem.dimension):
        ahead, behind = v.copy(), v.copy()
        ahead[place] += step
        behind[place] -= step
        slope = (problem.objective(shares(ahead)) - problem.objective(shares(behind))) / (2 * step)
        assert -problem.residual(shares(v))[place] == pytest.approx(
            slope, abs=tolerance("finite differences")
        )


def test_nothing_on_a_grid_is_lower_and_pagerank_is_not_the_answer():
    problem = PenaltyRank(four_nodes())
    solution, ranks = problem.solve(), cr.pagerank(four_nodes())
    steps = 20
    bars = np.array([*combinations(range(1, steps), 3)], dtype=float)
    grid = np.diff(np.c_[np.zeros(len(bars)), bars, np.full(len(bars), steps)], axis=1) / steps
    least = min(grid, key=lambda rho: by_loops(problem, rho) if rho.min() > 0 else math.inf)
    assert solution.value <= by_loops(problem, least)
    assert np.abs(solution.x - least).sum() <= 4 / 30
    assert solution.value < by_loops(problem, ranks) - 1e-3
    assert solution.x.argmax() != ranks.argmax()


@pytest.mark.parametrize("seed", range(5))
def test_many_starts_by_another_method_find_nothing_lower(seed):
    problem = PenaltyRank.random(100 + seed)
    solution = problem.solve()
    assert solution.converged
    assert solution.certificate.kind == "residual"
    assert solution.gap <= 1e-8
    assert solution.value <= problem.objective(problem.reference()) + tolerance("conic")


@pytest.mark.parametrize("seed", [7021, 7028])
def test_a_minimum_near_a_corner_is_found(seed):
    """Nearly all rank is on one node; random starts end elsewhere, and the answer of another method is the measure."""
    problem = PenaltyRank.random(seed)
    solution = problem.solve()
    assert solution.x.max() > 0.9
    assert solution.value <= problem.objective(problem.reference()) + tolerance("conic")
    assert "a stationary point, no proof of a minimum" in solution.message


@pytest.mark.parametrize("seed", range(4))
def test_corners_are_those_of_nodes_that_keep_their_rank(seed):
    problem = PenaltyRank.random(seed)
    staying = np.diag(problem.operator.dense())
    assert np.allclose(problem.operator.diagonal(), staying, rtol=tolerance("atoms"))
    nodes = [int(start.argmax()) for start in problem._fixed_starts()]
    assert sorted(nodes) == sorted(set(nodes))
    assert np.allclose(staying[nodes], np.sort(staying)[::-1][: len(nodes)], rtol=tolerance("atoms"))
    for start in problem._fixed_starts():
        assert start.sum() == pytest.approx(1.0)
        assert start.min() > 0


def test_one_start_is_the_callers_alone(monkeypatch):
    monkeypatch.setattr(PenaltyRank, "_fixed_starts", lambda self: pytest.fail("asked for more"))
    assert PenaltyRank.random(0).solve(MultiStart(starts=1)).converged


def test_two_communities_have_a_minimum_each():
    problem = PenaltyRank(two_communities())
    minima = []
    for members in (range(4), range(4, 9)):
        w = np.full(9, 0.01)
        w[list(members)] = 1.0
        w /= w.sum()
        for _ in range(1500):
            w = problem.alternate(w, 0.05)
        solution = problem.solve(MultiStart(starts=1), x0=w)
        assert solution.x[list(members)].sum() > 0.9
        assert solution.gap <= 1e-8
        minima.append(solution.value)
    assert abs(minima[0] - minima[1]) > 1e-3
    ranks = cr.pagerank(problem.graph)
    assert problem.objective(ranks) > 1.5 * max(minima)
    assert problem.solve().value == pytest.approx(min(minima), abs=tolerance("summation"))


def test_the_seed_decides():
    problem = PenaltyRank(two_communities((3, 3)))  # the two minima tie
    one, again = (problem.solve(MultiStart(starts=3, seed=5)) for _ in range(2))
    assert np.array_equal(one.x, again.x)


# --- the published method -------------------------------------------------------------------------------------------


def penalised(problem, w, rho, c):
    P = problem.operator.dense()
    apart = np.sum(P * np.log(P / rho[:, None]), axis=0)
    return float(w @ apart + c * np.sum(w * np.log(w / rho)))


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_a_round_minimises_over_each_block(beta):
    problem, rng, c = PenaltyRank.random(1), np.random.default_rng(0), (1 - beta) / beta
    w = rng.dirichlet(np.ones(problem.dimension))
    rho = beta * problem.operator.dense() @ w + (1 - beta) * w
    after = problem.alternate(w, beta)
    for _ in range(50):
        towards = rng.dirichlet(np.ones(problem.dimension))
        for step in (1e-3, 0.3):
            assert penalised(problem, w, rho, c) <= penalised(problem, w, rho + step * (towards - rho), c)
            assert penalised(problem, after, rho, c) <= penalised(
                problem, after + step * (towards - after), rho, c
            )


def test_its_limit_is_a_stationary_point_and_not_pagerank():
    problem = PenaltyRank(four_nodes())
    limits = []
    for beta in (0.02, 0.01):
        w = problem.start()
        for _ in range(round(40 / beta)):
            w = problem.alternate(w, beta)
        limits.append(w)
    limit = 2 * limits[1] - limits[0]  # β → 0: the error is linear in β
    assert problem.stationarity(limit) <= 1e-4
    assert np.abs(limit - problem.solve().x).sum() <= 1e-3
    assert np.abs(limit - cr.pagerank(four_nodes())).sum() > 0.05


# --- input, size ----------------------------------------------------------------------------------------------------


def test_points_that_are_no_distributions():
    problem = PenaltyRank(four_nodes())
    for rho in ([0.5, 0.5, 0.0, 0.0], [0.3, 0.3, 0.3, 0.3]):
        assert math.isinf(problem.objective(rho))
        assert math.isinf(problem.certificate(rho).gap)
    with pytest.raises(ValueError, match="expected positive shares"):
        problem.disagreements([0.5, 0.5, 0.0, 0.0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"graph": "four"}, TypeError, "expected a convexrank.Graph"),
        ({"alpha": 1.0}, ValueError, "alpha is 1.0"),
        ({"personalization": [0]}, ValueError, "personalization of node 1 is 0"),
        ({"dangling": "drop"}, ValueError, "dangling is"),
    ],
)
def test_bad_input_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        PenaltyRank(**{"graph": four_nodes(), **arguments})
    with pytest.raises(ValueError, match="beta is 1"):
        PenaltyRank(four_nodes()).alternate(np.full(4, 0.25), 1.0)


def test_a_larger_graph():
    rng = np.random.default_rng(0)
    n, m = 3000, 15_000
    graph = cr.Graph.from_edges(rng.integers(0, n, m), (n * rng.random(m) ** 3).astype(int), n=n)
    problem = PenaltyRank(graph)
    start = problem.start()
    better = problem.improve(start)
    assert problem.objective(better) < problem.objective(start)
    assert problem.stationarity(better) < 0.5 * problem.stationarity(start)
