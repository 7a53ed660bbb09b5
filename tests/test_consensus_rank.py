"""The three views of consensus over sets, against programs, grids and branch and bound; and the published methods."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convexrank as cr
from convexrank.consensus import CandidateSets, Polytopes, blend, brew
from convexrank.consensus.candidates import absorb
from convexrank.problems.consensus.consensus_rank import ConsensusRank
from convexrank.solvers.descent.multi_start import MultiStart
from tests.test_consensus_sets import KINDS, draw, ranks_of
from tests.tolerances import tolerance

VIEWS = ("optimistic", "pessimistic", "projection")


def distance_of(P):
    """Σ_i w_i KL(t_i‖w), in a double loop."""
    w = ranks_of(P)
    return sum(w[i] * P[i, j] * np.log(P[i, j] / w[j]) for i in range(len(P)) for j in range(len(P)))


def two_each(seed, n=4):
    rng = np.random.default_rng(seed)
    return CandidateSets([rng.dirichlet(np.full(n, 0.4), size=2) for _ in range(n)])


# --- all views ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
def test_single_recommendations_give_pagerank(view):
    graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    problem = ConsensusRank(Polytopes.around(graph, 0.0), view=view)
    solution = problem.solve()
    assert solution.converged
    assert np.abs(problem.ranks(solution) - cr.pagerank(graph)).sum() <= tolerance("two solvers")
    assert np.abs(problem.recommendations(solution) - graph.transition().dense().T).max() <= tolerance(
        "atoms"
    )
    if view != "projection":
        expected = distance_of(graph.transition().dense().T)
        assert abs(abs(solution.value) - expected) <= tolerance("atoms")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_view_solves_every_kind_of_set(view, kind):
    problem = ConsensusRank(draw(kind, np.random.default_rng(3)), view=view)
    solution = problem.solve()
    assert solution.converged
    w, P = problem.ranks(solution), problem.recommendations(solution)
    assert np.abs(w - ranks_of(P)).sum() <= tolerance("conic value") * 100
    # the recommendations are in the sets: the nearest one is they themselves
    assert np.abs(ConsensusRank(problem.sets).project_feasible(P) - P).max() <= tolerance("consensus point")


def test_constraints_and_their_corners_are_the_same_sets():
    sets = draw("inequalities", np.random.default_rng(4))
    listed = CandidateSets([sets.vertices(i) for i in range(sets.n)])
    for view in VIEWS:
        one, two = (ConsensusRank(chosen, view=view) for chosen in (sets, listed))
        a, b = one.solve(tol=1e-10), two.solve(tol=1e-10)
        assert np.abs(one.ranks(a) - two.ranks(b)).sum() <= tolerance("two points")


def test_lists_and_labelled_graphs_are_sets():
    graph = cr.LabelledGraph.from_edges([0, 0, 1, 2, 2], [1, 2, 2, 0, 1], list("abaab"))
    problem = ConsensusRank(graph, 0.5)
    again = ConsensusRank([graph.candidates(i) for i in range(3)], 0.5, personalization=[2, 2, 2])
    assert np.abs(problem.ranks(problem.solve()) - again.ranks(again.solve())).sum() <= tolerance("summation")


def test_bad_input_is_refused():
    sets = two_each(0)
    with pytest.raises(
        ValueError, match="view is 'worst', expected one of: optimistic, pessimistic, projection"
    ):
        ConsensusRank(sets, view="worst")
    with pytest.raises(ValueError, match="alpha is 1"):
        ConsensusRank(sets, 1)
    with pytest.raises(ValueError, match="is 0 at node 1"):
        ConsensusRank(sets, personalization=[1, 0, 1, 1])
    with pytest.raises(ValueError, match="corners"):
        ConsensusRank(Polytopes(np.zeros((12, 12)), np.full((12, 12), 0.3)), view="pessimistic")
    with pytest.raises(ValueError, match="only the pessimistic view is convex"):
        ConsensusRank(sets).to_cvxpy()
    with pytest.raises(ValueError, match="has no objective"):
        ConsensusRank(sets, view="projection").objective(np.full(4, 0.25))
    with pytest.raises(ValueError, match=r"expected \(4, 4\), a recommendation in each row"):
        ConsensusRank(sets).objective(np.full(16, 0.25))
    with pytest.raises(ValueError, match="starts is 0"):
        MultiStart(starts=0)


# --- pessimistic ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_no_recommendations_are_farther_from_consensus_than_the_pessimistic_ones(seed):
    sets = two_each(seed, 3 + seed % 2)
    problem = ConsensusRank(sets, view="pessimistic")
    solution = problem.solve()
    absorbed, rng = absorb(sets, 0.85, None), np.random.default_rng(seed)
    corners = [absorbed.candidates[absorbed.owners == i] for i in range(sets.n)]
    choices = [np.array(choice) for choice in product(*corners)]
    choices += [np.array([rng.dirichlet([1, 1]) @ own for own in corners]) for _ in range(100)]
    assert max(map(distance_of, choices)) <= -solution.certificate.lower_bound + tolerance("summation")


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_the_pessimistic_gap_is_never_below_the_error(seed):
    """At random flows, and near the optimum."""
    problem = ConsensusRank.random(2 * seed)
    rng, best = np.random.default_rng(seed), problem.solve(tol=1e-9)
    for scale in (1e-6, 1e-2, 3.0):
        point = problem.project_feasible(best.x * np.exp(scale * rng.normal(size=len(best.x))))
        certificate = problem.certificate(point)
        assert certificate.value == problem.objective(point)
        assert certificate.gap >= certificate.value - best.value - tolerance("summation")
        assert -problem.dual(rng.normal(size=problem.n)) <= best.value + tolerance("summation")


def test_flows_out_of_balance_have_no_value():
    problem = ConsensusRank(two_each(1), view="pessimistic")
    start = problem.start()
    assert np.isfinite(problem.objective(start))
    assert problem.objective(start * 1.1) == np.inf
    assert problem.certificate(start[::-1]).gap == np.inf


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rare", [1e-9, 1e-12])
def test_groups_that_hardly_recommend_each_other_are_in_balance(seed, rare):
    """What goes from one to the other comes back, to all digits, although it is far below the balance of a node."""
    rng, n = np.random.default_rng(seed), 6
    sets = [np.eye(n)[:, (i // 3) * 3 :][:, :3] @ rng.dirichlet(np.full(3, 0.4), 2).T for i in range(n)]
    problem = ConsensusRank([own.T for own in sets], 1.0 - rare, "pessimistic", rng.random(n) + 0.01)
    point = problem.project_feasible(rng.random(problem.shape))
    there = problem.candidates * point[:, None]
    away, back = there[problem.owners < 3, 3:].sum(), there[problem.owners >= 3, :3].sum()
    assert away == pytest.approx(back, rel=tolerance("rank by elimination"))
    certificate, proved = problem.certificate(point), problem.prove(point)
    assert certificate.gap == pytest.approx(proved.gap, rel=tolerance("small problems"))


@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(6))
def test_numbers_beyond_all_digits_are_no_step(seed):
    """Slacks and multipliers overflow where alpha is next to 1 and the teleport leads to one node."""
    rng = np.random.default_rng(seed)
    sets = [rng.permutation(np.eye(4))[: rng.integers(1, 3)] for _ in range(4)]
    problem = ConsensusRank(sets, 1.0 - 2.0**-53, "pessimistic", [1.0, 1e-290, 1e-290, 1e-290])
    solution = problem.solve()
    assert problem.ranks(solution).sum() == pytest.approx(1.0)
    assert solution.gap <= np.log(4) + tolerance("summation")


@pytest.mark.parametrize("seed", range(4))
def test_no_gap_is_wider_than_consensus_of_nodes_can_be(seed):
    """Distances are from 0 to log n, also where alpha is so near 1 that multipliers are all rounding."""
    rng = np.random.default_rng(seed)
    sets = [np.eye(7)[rng.integers(0, 7, 3)] for _ in range(7)]
    problem = ConsensusRank(sets, 1.0 - 1e-9, "pessimistic")
    for flows in (rng.random(problem.shape), rng.random(problem.shape) ** 20):
        point = problem.project_feasible(flows)
        for certificate in (problem.certificate(point), problem.prove(point)):
            assert certificate.gap <= np.log(7) + tolerance("summation")


def test_the_interior_point_method_takes_few_steps_on_a_larger_graph():
    rng, n = np.random.default_rng(0), 60
    problem = ConsensusRank([rng.dirichlet(np.full(n, 0.1), size=3) for _ in range(n)], view="pessimistic")
    solution = problem.solve()
    assert solution.converged
    assert solution.iterations <= 25
    shares = solution.x / problem.ranks(solution)[problem.owners]
    assert ((shares > 0.01) & (shares < 0.99)).any(), "some node mixes"


# --- optimistic -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_the_alternation_never_raises_the_distance(kind):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        problem = ConsensusRank(draw(kind, rng), 0.95)
        x = problem.absorbed.random(rng)
        for _ in range(20):
            new = problem.improve(x)
            assert problem.objective(new) <= problem.objective(x) + tolerance("summation")
            x = new
        assert abs(problem.objective(x) - distance_of(x)) <= tolerance("summation")


@pytest.mark.parametrize("seed", range(4))
def test_what_is_left_to_gain_bounds_the_slope(seed):
    """Difference quotients towards random recommendations: none falls faster than the residual of the point says."""
    sets = two_each(seed)
    problem, rng = ConsensusRank(sets), np.random.default_rng(seed)
    solution, step = problem.solve(tol=1e-12), 1e-4
    assert solution.certificate.kind == "residual"
    for _ in range(20):
        aim = problem.absorbed.random(rng)
        moved = problem.objective(solution.x + step * (aim - solution.x))
        assert moved >= solution.value - tolerance("summation")
    away = problem.absorbed.random(rng)
    assert problem.stationarity(away) > 1e3 * solution.gap


def test_nothing_is_stationary_outside_the_sets():
    problem = ConsensusRank(two_each(2))
    start = problem.start()
    assert np.isfinite(problem.certificate(start).gap)
    for point in (np.full((4, 4), 0.25), 2.0 * start, np.zeros((4, 4)), -start):
        assert problem.certificate(point).gap == np.inf


def test_more_starts_are_never_worse_and_seeds_count():
    problem = ConsensusRank(two_each(3), 0.99)
    values = [problem.solve(MultiStart(starts)).value for starts in (1, 3, 9)]
    assert values == sorted(values, reverse=True)
    twice = [problem.solve(MultiStart(4, seed=7)).x for _ in range(2)]
    assert np.array_equal(*twice)


# --- projection -----------------------------------------------------------------------------------------------------


def test_the_projection_view_is_the_fixed_point_of_5_3():
    """At w the joint minimum of (5.2) over consensus and recommendations, by a conic program, is w."""
    import cvxpy as cp

    problem = ConsensusRank(two_each(5), view="projection")
    w = problem.solve(tol=1e-10).x
    absorbed = problem.absorbed
    r, parts = cp.Variable(4, pos=True), []
    cost = 0.0
    for i in range(4):
        shares = cp.Variable(2, nonneg=True)
        p = absorbed.candidates[absorbed.owners == i].T @ shares
        cost = cost + w[i] * cp.sum(cp.kl_div(p, r))
        parts.append(cp.sum(shares) == 1)
    cp.Problem(cp.Minimize(cost), [*parts, cp.sum(r) == 1]).solve(solver=cp.CLARABEL)
    assert np.abs(r.value - w).sum() <= tolerance("conic point") * 10


def test_the_residual_is_what_its_name_says():
    problem = ConsensusRank(two_each(6), view="projection")
    w = np.array([0.1, 0.2, 0.3, 0.4])
    T = problem.recommendations(w)
    certificate = problem.certificate(w)
    assert certificate.kind == "residual"
    assert abs(certificate.gap - sum(abs(w @ T[:, j] - w[j]) for j in range(4))) <= tolerance("summation")
    assert "no bound" in str(certificate)


def test_overlapping_sets_have_many_fixed_points():
    """Any w that all sets share is one, so two starts may end apart."""
    problem = ConsensusRank(Polytopes(np.zeros((3, 3)), np.ones((3, 3))), view="projection")
    ends = [problem.solve(x0=start) for start in ([0.4, 0.3, 0.3], [0.2, 0.5, 0.3])]
    assert all(end.converged for end in ends)
    assert np.abs(ends[0].x - ends[1].x).sum() > 0.1


# --- the published methods ------------------------------------------------------------------------------------------


def test_brew_is_figure_5_6():
    sets, beta, w = two_each(7), 0.4, np.full(4, 0.25)
    absorbed = absorb(sets, 0.85, None)
    T = absorbed.nearest(np.log(w))
    for _ in range(3):
        rho = np.array([beta * sum(w[i] * T[i, j] for i in range(4)) + (1 - beta) * w[j] for j in range(4)])
        T = absorbed.nearest(np.log(rho))
        d = np.array([sum(T[i, j] * np.log(T[i, j] / rho[j]) for j in range(4)) for i in range(4)])
        w = rho * np.exp(-d)
        w /= w.sum()
    result = brew(sets, beta=beta, max_iter=3)
    assert result.iterations == 3
    assert np.abs(result.ranks - w).max() <= tolerance("summation")
    assert np.abs(result.recommendations - T).max() <= tolerance("summation")


def test_brew_descends_on_5_38_with_the_weights_of_the_penalty_only():
    sets, beta = two_each(7), 0.3

    def cost(result):
        """(5.38) at w and T, with the ρ that is best for them."""
        w, T = result.ranks, result.recommendations
        rho = beta * (w @ T) + (1 - beta) * w
        near = np.sum(w * np.sum(T * np.log(T / rho), axis=1))
        return near + (1 - beta) / beta * np.sum(w * np.log(w / rho))

    falls = {}
    for weights in ("penalty", "published"):
        costs = [cost(brew(sets, beta=beta, weights=weights, max_iter=k)) for k in (*range(1, 12), 400)]
        falls[weights] = max(np.diff(costs))
    assert falls["penalty"] <= tolerance("atoms")
    assert falls["published"] > 1e-3


@pytest.mark.parametrize("weights", ["published", "penalty"])
def test_brew_settles_where_it_is_not_stationary(weights):
    for beta in (0.1, 0.5, 0.9):
        result = brew(two_each(8), beta=beta, weights=weights, max_iter=100_000)
        assert result.change <= 1e-10
        w, T = result.ranks, result.recommendations
        assert abs(result.residual - np.abs(w @ T - w).sum()) <= tolerance("summation")
        assert result.residual > 1e-3, "Proposition 9 promises 0"


@pytest.mark.parametrize("loop", ["single", "double"])
def test_blend_on_single_recommendations_is_the_pagerank_game(loop):
    graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    results = [blend(Polytopes.around(graph, 0.0), loop=loop, rounds=rounds) for rounds in (50, 800)]
    assert results[1].residual < 0.2 * results[0].residual
    assert np.abs(results[1].ranks - cr.pagerank(graph)).sum() < 0.02


def test_blend_reports_its_residual():
    for loop in ("single", "double"):
        result = blend(two_each(9), loop=loop, rounds=100)
        assert abs(result.ranks.sum() - 1.0) <= tolerance("atoms")
        moved = result.ranks @ result.recommendations
        assert abs(result.residual - np.abs(moved - result.ranks).sum()) <= tolerance("summation")
    with pytest.raises(ValueError, match="loop is 'triple'"):
        blend(two_each(9), loop="triple")
    with pytest.raises(ValueError, match="epsilon is 0"):
        blend(two_each(9), epsilon=0)
    with pytest.raises(ValueError, match="beta is 1"):
        brew(two_each(9), beta=1.0)
