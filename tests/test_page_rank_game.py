"""The PageRank game: its threshold, its certificates, play without regret, and the other player's problem."""

from __future__ import annotations

import dataclasses
import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import convexrank as cr
from convexrank import divergences
from convexrank.divergences.on_simplex import restricted
from convexrank.graphs import transition
from convexrank.problems import PageRankDual, PageRankGame
from convexrank.problems.page_rank_game._payoff import norm_of
from convexrank.solvers import NoRegretPlay
from tests.tolerances import tolerance

NORMS = ("1", "2", "inf")
ORDERS = {"1": 1, "2": 2, "inf": np.inf}
DUAL = {"1": np.inf, "2": 2, "inf": 1}
DIVERGENCES = ("kl", "squared", "bit_entropy")


def four_nodes():
    """Edges 0→1, 0→2, 1→2, 2→0, 3→2, 3→0."""
    return cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])


# The functions of one number behind the divergences, written down again.
ONE_NUMBER = {
    "KL": lambda x: x * np.log(x),
    "SquaredEuclidean": lambda x: 0.5 * x**2,
    "BitEntropy": lambda x: x * np.log(x) + (1 - x) * np.log1p(-x),
    "ItakuraSaito": lambda x: -np.log(x),
    "GeneralizedI": lambda x: x * np.log(x) - x,
}


def dense(game):
    """P, a, π from the definitions."""
    P, one, weights = (
        game.operator.dense(),
        ONE_NUMBER[type(game.divergence).__name__],
        game.divergence.weights,
    )
    n = len(P)

    def phi(column):
        return float(np.sum((1.0 if weights is None else np.array(weights)) * one(column)))

    pi = np.linalg.lstsq(np.vstack([P - np.eye(n), np.ones(n)]), np.append(np.zeros(n), 1.0), rcond=None)[0]
    return P, np.array([phi(column) for column in P.T]), pi


def threshold_by_search(game, order):
    """R* from its formula: divergences one by one, least squares for Poisson's equation, a scalar search for c."""
    P, _, pi = dense(game)
    D = np.array([game.divergence.divergence(column / column.sum(), pi / pi.sum()) for column in P.T])
    v = np.linalg.lstsq(np.eye(len(P)) - P.T, pi @ D - D, rcond=None)[0]
    s = game.divergence.gradient(pi / pi.sum()) + v
    span = float(np.abs(s).max())
    found = minimize_scalar(
        lambda c: np.linalg.norm(s + c, order),
        bounds=(-span, span),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return float(found.fun)


# --- the data of the game -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_values_of_the_columns_are_those_of_dense_columns(seed):
    game = PageRankGame.random(seed)
    n = game.dimension
    weights = np.random.default_rng(seed).random(n) + 0.5
    kinds = (
        divergences.KL(), divergences.SquaredEuclidean(), divergences.BitEntropy(), divergences.ItakuraSaito(),
        divergences.GeneralizedI(), divergences.KL(weights), divergences.SquaredEuclidean(weights),
    )  # fmt: skip
    for divergence in kinds if n > 1 else kinds[:2]:
        other = dataclasses.replace(game, divergence=divergence, epsilon=None)
        assert np.abs(other.recommendations - dense(other)[1]).max() <= tolerance("summation") * n * 10


@pytest.mark.parametrize("divergence", ["kl", "squared", "bit_entropy", "itakura_saito"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_restricted_conjugate_is_the_greatest_value(divergence, weighted):
    """Its point beats all others on the simplex, and its value is the one there: Fenchel and Young."""
    rng = np.random.default_rng(0)
    kind = type(divergences.resolve(divergence))(tuple(rng.random(5) + 0.5) if weighted else None)
    generator = restricted(kind, 5)
    for scale in (0.1, 1.0, 30.0):
        z = scale * rng.normal(size=5)
        w = generator.points(z)
        assert w.min() >= 0
        assert abs(w.sum() - 1) <= tolerance("summation")
        value = z @ w - generator.phi(w)
        assert generator.conjugate(z) == pytest.approx(value, abs=tolerance("summation"))
        assert generator.points(z + 7.0) == pytest.approx(w, abs=tolerance("restricted point"))
        rivals = [*rng.dirichlet(np.full(5, 0.3), size=50), *(w + 1e-3 * (np.eye(5) - w))]
        best = max(z @ v - kind.phi(np.maximum(v, 1e-300) / v.sum()) for v in rivals)
        assert best <= value + tolerance("summation")


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("norm", NORMS)
def test_the_threshold_is_that_of_its_formula(divergence, norm):
    for graph in (four_nodes(), PageRankGame.random(2).graph, PageRankGame.random(7).graph):
        game = PageRankGame(graph, divergence, norm=norm)
        assert game.threshold == pytest.approx(
            threshold_by_search(game, ORDERS[norm]), abs=tolerance("conic")
        )
        assert game.radius == pytest.approx(2 * game.threshold)


@pytest.mark.parametrize("divergence", ["kl", "squared"])
@pytest.mark.parametrize("norm", NORMS)
def test_the_penalty_is_exact_from_the_threshold_on_and_not_before(divergence, norm):
    exact = PageRankGame(four_nodes(), divergence, norm=norm)
    pi = dense(exact)[2]
    for share, far in ((1.01, False), (0.95, True)):
        game = dataclasses.replace(exact, epsilon=1 / (share * exact.threshold), relaxed=True)
        assert game.is_exact is not far
        for solver in (None, "exact"):
            distance = float(np.abs(game.solve(solver).x - pi).sum())
            assert (distance > 1e-4) if far else (distance <= tolerance("conic point")), (share, solver)


@given(st.integers(0, 10**6), st.sampled_from([*DIVERGENCES, "itakura_saito"]))
@settings(max_examples=40, deadline=None)
def test_the_payoff_is_that_of_the_dissertation(seed, divergence):
    """(5.24): distances of the columns from ρ, weighted, less the distance of w, with s the slopes at ρ."""
    rng = np.random.default_rng(seed)
    game = PageRankGame(four_nodes(), divergence, float(rng.uniform(0.1, 0.95)))
    P, kind = game.operator.dense(), game.divergence
    w, rho = rng.dirichlet(np.ones(4), size=2) * 0.99 + 0.0025
    apart = sum(
        share * kind.divergence(column / column.sum(), rho) for share, column in zip(w, P.T, strict=True)
    )
    expected = apart - kind.divergence(w, rho)
    scale = max(1.0, float(np.abs(kind.slopes(rho)).max()))
    assert game.payoff(kind.slopes(rho), w) == pytest.approx(expected, abs=scale * tolerance("summation"))


def test_the_value_is_the_consensus_cost_of_pagerank():
    for divergence in DIVERGENCES:
        game = PageRankGame(four_nodes(), divergence)
        P, _, pi = dense(game)
        cost = sum(
            share * game.divergence.divergence(column, pi) for share, column in zip(pi, P.T, strict=True)
        )
        assert -game.solve().value == pytest.approx(cost, abs=tolerance("summation"))
        assert -game.solve("exact").value == pytest.approx(cost, abs=tolerance("conic"))


# --- certificates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(16))
def test_certificates_are_never_below_the_true_gap(seed):
    game = PageRankGame.random(100 + seed)
    solution = game.solve(tol=1e-10)
    rng = np.random.default_rng(seed)
    for scale in (1e-6, 1e-3, 0.1, 1.0):
        w = game.project_feasible(solution.x * np.exp(scale * rng.normal(size=game.dimension)))
        certificate = game.certificate(w)
        assert certificate.gap >= game.objective(w) - solution.value - tolerance("summation")
        assert certificate.lower_bound <= solution.value + tolerance("summation")


@pytest.mark.parametrize("norm", NORMS)
def test_the_point_alone_proves_it_in_exact_and_relaxed_games(norm):
    """No witness: Poisson's equation at the point finds the multipliers."""
    for share in (0.6, 2.0):
        threshold = PageRankGame(four_nodes(), "kl", norm=norm).threshold
        game = PageRankGame(four_nodes(), "kl", norm=norm, epsilon=1 / (share * threshold), relaxed=True)
        solution = game.solve(tol=1e-12)
        assert game.certificate(solution.x).gap <= 1e-6
        assert game.certificate(solution.x, solution.witness).gap <= 1e-11


@pytest.mark.parametrize("seed", [20439, 20511, 20610, 20973])  # the point alone proves 1e-5 to 1e-3
def test_the_exact_solver_hands_its_multipliers_to_the_certificate(seed):
    game = PageRankGame.random(seed)
    solution = game.solve("exact", tol=1e-9)
    assert solution.status is cr.Status.CONVERGED, solution.message
    assert game.certificate(solution.x).gap > 100 * game.certificate(solution.x, solution.witness).gap


def test_the_gap_bounds_the_residual():
    for seed in range(20):
        game = PageRankGame.random(seed)
        if not game.is_exact or game.radius == game.threshold:
            continue
        w = game.project_feasible(
            game.stationary + 0.05 * np.random.default_rng(seed).normal(size=game.dimension)
        )
        residual = np.linalg.norm(game.operator @ w - w, DUAL[game.norm])
        assert residual <= game.certificate(w).gap / (game.radius - game.threshold) + tolerance("summation")


def test_a_witness_outside_the_ball_proves_no_more_than_one_inside():
    # larger multipliers would prove too much
    game = PageRankGame(four_nodes(), "kl", epsilon=1.0, relaxed=True)
    assert not game.is_exact
    solution = game.solve(tol=1e-12)
    for factor in (1.0, 50.0):  # with the first, PageRank would be the answer
        far = cr.Witness(factor * game.multipliers[None, :], np.ones(1))
        assert game.certificate(solution.x, far).lower_bound <= solution.value + tolerance("summation")


def test_points_outside_the_simplex_are_infinite():
    game = PageRankGame(four_nodes())
    for w in ([0.5, 0.5, 0.5, -0.5], [0.3, 0.3, 0.3, 0.3]):
        assert math.isinf(game.objective(w))
        assert math.isinf(game.certificate(w).gap)


@pytest.mark.parametrize("norm", NORMS)
def test_norms_and_their_duals(norm):
    rng, ball = np.random.default_rng(3), norm_of(norm)
    for _ in range(20):
        r, s = rng.normal(size=(2, 6))
        assert ball.of(r) == pytest.approx(np.linalg.norm(r, ORDERS[norm]))
        assert ball.dual(r) == pytest.approx(np.linalg.norm(r, DUAL[norm]))
        best = ball.duality_map(r)
        assert ball.of(best) <= 1 + tolerance("atoms")
        assert best @ r == pytest.approx(ball.dual(r))
        assert r @ s <= ball.of(r) * ball.dual(s) + tolerance("atoms")
        shifts = s[:, None] - s[None, :]
        assert (
            ball.of(s - ball.centre(s))
            <= min(ball.of(s - c) for c in [*s, s.mean(), *shifts.ravel()]) + 1e-12
        )
    assert not ball.duality_map(np.zeros(6)).any()


# --- the verifier ---------------------------------------------------------------------------------------------------


def changed(method, before=1.0, after=1.0):
    """The method with its last argument, or its answer, scaled."""

    def make(self, *arguments):
        *first, last = arguments
        answer = getattr(PageRankGame, method)(self, *first, before * last)
        return answer if callable(answer) else after * answer

    return {method: make}


def outside(self, w):
    return 5.0 * self.radius / self.ball.of(self.multipliers) * self.multipliers


def wrong_dual(self, bounded=True):
    other = PageRankGame(
        self.graph, self.divergence, 0.99 * self.alpha, 1 / self.radius, self.norm, relaxed=True
    )
    return other.dual(bounded)


PLANTED = {
    "a response 1 % too weak": changed("best_response", after=0.99),
    "a response the wrong way": changed("best_response", after=-1.0),
    "a move outside the ball": {"supporting_move": outside},
    "a reply to something else": changed("maximizer", before=1.01),
    "1 % in the payoff": changed("payoff", after=1.01),
    "1 % in the gradient": changed("payoff_gradient", after=1.01),
    "a segment that is too long": changed("replies", before=1.01),
    "the other side of another game": {"dual": wrong_dual},
    "1 % in the objective": changed("objective", after=1.01),
}


@pytest.mark.parametrize("bug", list(PLANTED))
def test_planted_errors_are_caught(bug):
    twin = dataclass(frozen=True, eq=False)(type("PageRankGame", (PageRankGame,), PLANTED[bug]))
    report = cr.verify(twin, instances=3)
    assert not report.ok, bug


# --- play without regret --------------------------------------------------------------------------------------------


def gaps(game, solver, rounds):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)  # a number of rounds is asked for, no accuracy
        return game.solve(solver, tol=1e-15, max_iter=rounds)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("divergence", ["kl", "squared"])
def test_following_the_leader_is_frank_and_wolfes_method(divergence, norm):
    """The rounds by hand, with dense products; and the gap from its formula."""
    game = PageRankGame(four_nodes(), divergence, norm=norm)
    P, a, _ = dense(game)
    generator, R, s_mean, w_mean = game.generator, game.radius, np.zeros(4), np.zeros(4)
    expected = []
    for t in range(1, 31):
        w = generator.points(a + s_mean - P.T @ s_mean)
        gradient = w - P @ w  # of φ*(a + (I − Pᵀ)s) at the mean
        vertices = {"1": np.vstack([np.eye(4), -np.eye(4)]), "2": -gradient[None] / np.linalg.norm(gradient)}
        corners = np.stack(np.meshgrid(*[[-1.0, 1.0]] * 4), axis=-1).reshape(-1, 4)
        best = min(R * vertices.get(norm, corners), key=lambda s: float(s @ gradient))
        s_mean, w_mean = s_mean + (best - s_mean) / t, w_mean + (w - w_mean) / t
        value = w_mean @ a - game.divergence.phi(w_mean) - R * np.linalg.norm(P @ w_mean - w_mean, DUAL[norm])
        expected.append(generator.conjugate(a + s_mean - P.T @ s_mean) - value)
    solution = gaps(game, NoRegretPlay(averaging="harmonic"), 30)
    assert solution.trace["gap"][1:-1] == pytest.approx(expected[:-1], abs=tolerance("play"))


def test_multiplying_weights_is_following_the_leader_for_the_entropy():
    game = PageRankGame(four_nodes(), "kl", norm="2")
    leader = gaps(game, NoRegretPlay(averaging="harmonic"), 50)
    entropic = gaps(game, NoRegretPlay("entropic", rate=1.0), 50)
    assert entropic.trace["gap"] == pytest.approx(leader.trace["gap"], abs=tolerance("play"))


@pytest.mark.parametrize(
    ("solver", "least", "most"),
    [
        (NoRegretPlay(averaging="harmonic"), -0.95, -0.75),
        (NoRegretPlay(averaging="frank-wolfe"), -1.1, -0.9),
        (NoRegretPlay("entropic"), -0.6, -0.4),
        (NoRegretPlay("gradient"), -1.05, -0.75),
    ],
)
def test_gaps_fall_at_their_rates(solver, least, most):
    for divergence in ("kl", "squared"):
        trace = gaps(PageRankGame(four_nodes(), divergence), solver, 500).trace["gap"][:-1]
        t = np.arange(len(trace))[60:]
        slope = np.polyfit(np.log(t), np.log(trace[60:]), 1)[0]
        assert least <= slope <= most, (divergence, slope)


def test_line_search_is_linear_at_twice_the_threshold():
    solution = gaps(PageRankGame(four_nodes(), "kl"), NoRegretPlay(), 120)
    assert solution.trace["gap"][100] <= 1e-6
    assert np.abs(solution.x - solution.x.sum() * dense(PageRankGame(four_nodes()))[2]).sum() <= 1e-3


def test_the_payoff_of_the_averages_is_on_both_sides_of_the_value():
    """Theorem 12's left inequality is false; within the gap of the value is what holds."""
    game = PageRankGame(four_nodes(), "kl")
    value, below, seen = -game.solve().value, 0, []
    with pytest.warns(cr.ConvergenceWarning):
        game.solve(NoRegretPlay(averaging="harmonic"), max_iter=200, callback=seen.append)
    for state in seen[1:]:
        payoff = game.payoff(state.witness.points[0], state.x)
        below += payoff < value - tolerance("play")
        assert abs(payoff - value) <= state.residual + tolerance("summation")
    assert below > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"learner": "oracle"}, "learner is"),
        ({"averaging": "cubic"}, "averaging is"),
        ({"learner": "gradient", "averaging": "line-search"}, "only the leader"),
        ({"rate": 1.0}, "needs none"),
        ({"learner": "entropic", "rate": -1.0}, "rate is"),
    ],
)
def test_play_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        NoRegretPlay(**arguments)


# --- the other player's problem -------------------------------------------------------------------------------------


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("solver", ["accelerated", "lbfgs"])
def test_the_dual_finds_pagerank_without_knowing_it(divergence, solver):
    for graph in (four_nodes(), PageRankGame.random(2).graph):
        game = PageRankGame(graph, divergence)
        dual = game.dual(bounded=False)
        solution = dual.solve(solver, tol=1e-10)
        assert solution.value == pytest.approx(-game.solve().value, abs=tolerance("play"))
        assert np.abs(dual.ranks(solution) - dense(game)[2]).sum() <= tolerance("two points") * 10


def test_constants_do_not_count():
    dual = PageRankGame(four_nodes(), "kl").dual(bounded=False)
    s = np.array([0.3, -1.0, 0.2, 0.5])
    assert dual.objective(s + 3.0) == pytest.approx(dual.objective(s), abs=tolerance("summation"))
    assert dual.ranks(s + 3.0) == pytest.approx(dual.ranks(s), abs=tolerance("summation"))


def test_the_ball_holds_a_bounded_dual():
    game = PageRankGame(four_nodes(), "kl", epsilon=1.0, relaxed=True)
    solution = game.dual(bounded=True).solve()
    assert game.ball.of(solution.x) <= game.radius * (1 + tolerance("summation"))
    assert math.isinf(
        game.dual().objective(
            2 * game.radius / game.ball.of(np.ones(game.dimension)) * np.ones(game.dimension)
        )
    )
    assert solution.value == pytest.approx(-game.solve().value, abs=tolerance("conic"))


# --- input, size ----------------------------------------------------------------------------------------------------


def test_a_radius_below_the_threshold_is_said():
    with pytest.warns(UserWarning, match="relaxation, not PageRank"):
        PageRankGame(four_nodes(), "kl", epsilon=5.0)
    assert not PageRankGame(four_nodes(), "kl", epsilon=5.0, relaxed=True).is_exact
    assert PageRankGame(four_nodes(), "kl", epsilon=0.1).is_exact


def test_a_rank_of_zero_has_no_exact_penalty_for_steep_generators():
    graph = four_nodes()
    with pytest.raises(ValueError, match="the rank is 0 at 1 node, such as"):
        PageRankGame(graph, "kl", personalization=[0])
    relaxed = PageRankGame(graph, "kl", personalization=[0], epsilon=0.2, relaxed=True)
    assert math.isinf(relaxed.threshold)
    assert relaxed.solve().converged
    with pytest.raises(ValueError, match="rank 0"):
        relaxed.dual(bounded=False)
    squared = PageRankGame(graph, "squared", personalization=[0]).solve()
    assert np.abs(squared.x - cr.pagerank(graph, personalization=[0])).sum() <= tolerance("conic")
    with pytest.raises(ValueError, match="infinite at the recommendations"):
        PageRankGame(graph, "itakura_saito", personalization=[0], epsilon=0.2)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"graph": [[0, 1], [1, 0]]}, TypeError, "expected a convexrank.Graph"),
        ({"alpha": 1.0}, ValueError, "alpha is 1.0"),
        ({"alpha": math.nan}, ValueError, "alpha"),
        ({"norm": "3"}, ValueError, "norm is '3'"),
        ({"epsilon": 0.0}, ValueError, "epsilon is"),
        ({"divergence": "cosine"}, ValueError, "divergence is"),
        (
            {"divergence": "shifted_generalized_i"},
            ValueError,
            "expected one with the numbers between 0 and 1",
        ),
        ({"divergence": divergences.KL((1.0, 2.0))}, ValueError, "2 weights, expected 4"),
        ({"dangling": "drop"}, ValueError, "dangling is"),
        ({"personalization": [-1.0, 1.0, 1.0, 1.0]}, ValueError, "personalization"),
    ],
)
def test_bad_input_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        PageRankGame(**{"graph": four_nodes(), **arguments})
    with pytest.raises(TypeError, match="expected a PageRankGame"):
        PageRankDual(four_nodes())


def test_norms_may_be_numbers():
    assert PageRankGame(four_nodes(), norm=2).norm == "2"
    assert PageRankGame(four_nodes(), norm=np.inf).norm == "inf"


@pytest.mark.parametrize("n", [1, 2])
def test_the_smallest_graphs(n):
    for graph in (cr.Graph.from_edges([], [], n=n), cr.Graph.from_edges([0], [n - 1], n=n)):
        for divergence in DIVERGENCES:
            game = PageRankGame(graph, divergence)
            assert np.abs(game.solve().x - cr.pagerank(graph)).sum() <= tolerance("conic")


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_a_hundred_thousand_edges(divergence):
    rng = np.random.default_rng(0)
    n, m = 10_000, 100_000
    graph = cr.Graph.from_edges(rng.integers(0, n, m), (n * rng.random(m) ** 3).astype(int), n=n)
    game = PageRankGame(graph, divergence)
    solution = game.solve(tol=1e-9)
    assert solution.converged
    assert np.abs(solution.x - cr.pagerank(graph)).sum() <= tolerance("conic")
    column = game.operator @ np.eye(1, n, 5)[0]
    assert game.recommendations[5] == pytest.approx(game.divergence.phi(column / column.sum()), abs=1e-9)
    played = gaps(game, NoRegretPlay(), 5)
    assert played.gap >= played.value - solution.value > 0


@pytest.mark.parametrize("seed", [20081, 20094])
def test_the_reference_of_the_dual_is_accepted(seed):
    """Found by the verifier: multipliers that a conic solver finds are good, though the reply to them is not PageRank.

    The payoff of PageRank is a lower bound whatever the multipliers are.
    """
    assert PageRankDual.random(seed).solve("exact").converged


@pytest.mark.parametrize("alpha", [0.5, 1.0 - 1e-4, 1.0 - 2.0**-53])
def test_stationary_distributions_of_few_nodes_have_all_digits(alpha):
    """Of nodes that hardly anybody reaches, too, and none of those that nobody reaches; against exact fractions."""
    v = [1.0, 1e-200, 0.0, 0.0]
    walk = cr.Graph.from_edges([0, 1, 2, 2], [1, 2, 0, 3], n=4).transition(alpha, [1e-200, 0.0, 0.0, 1.0])
    apart = cr.Graph.from_edges([0, 1], [0, 1], n=4, self_loops=True).transition(alpha, v)
    turn = cr.Graph.from_edges([0, 1], [1, 0], n=4).transition(alpha, v)  # steps go to and fro
    for operator in (walk, apart, turn):
        a, back, n = Fraction(alpha), [Fraction(share) for share in operator.personalization.tolist()], 4
        out = operator.graph.to_scipy().toarray()
        rows = [[Fraction(int(i == j)) for j in range(n)] + [(1 - a) * back[i]] for i in range(n)]
        for j, i in product(range(n), range(n)):
            rows[i][j] -= a * (Fraction(out[j, i]) / int(out[j].sum()) if out[j].any() else back[i])
        for k in range(n):  # diagonally dominant by columns: no pivot is 0
            rows[k] = [entry / rows[k][k] for entry in rows[k]]
            for i in set(range(n)) - {k}:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
        for ours, row in zip(transition.stationary(operator), rows, strict=True):
            assert ours == pytest.approx(float(row[n]), rel=tolerance("rank by elimination"), abs=0.0)


@pytest.mark.parametrize("seed", range(12))
def test_few_nodes_are_eliminated_and_many_walked_over_their_links(seed, monkeypatch):
    """And some are eliminated after steps that took as long."""
    game = PageRankGame.random(seed)
    right, found = game.recommendations, []
    for few, some, links in (
        (game.graph.n, 0, 1.0),
        (0, 0, 1.0),
        (0, game.graph.n, 1e-9),
        (0, game.graph.n, 1e9),
    ):
        monkeypatch.setattr(transition, "_FEW", few)
        monkeypatch.setattr(transition, "_SOME", some)
        monkeypatch.setattr(transition, "_LINKS", links)
        s = transition.solve_poisson(game.operator, right)
        assert np.ptp(game.pull_back(s) - right) <= tolerance("summation") * np.ptp(right)
        found.append((transition.stationary(game.operator), s))
    for others in zip(*found, strict=True):
        for other in others[1:]:
            assert np.abs(others[0] - other).max() <= tolerance("summation") * np.abs(other).max()


def test_a_walk_that_takes_too_long_is_left_for_elimination():
    """A cycle of 90 nodes, where α is so near 1 that the series has 10¹⁷ terms."""
    graph = cr.Graph.from_edges(np.arange(90), (np.arange(90) + 1) % 90, n=90)
    operator = graph.transition(1.0 - 1e-15, np.arange(1.0, 91.0))
    np.testing.assert_allclose(transition.stationary(operator), 1.0 / 90.0, rtol=tolerance("summation"))
    right = np.sin(np.arange(90.0))
    s = transition.solve_poisson(operator, right)
    left = s - operator.transposed_product(s) - right
    assert np.ptp(left) <= tolerance("summation")
