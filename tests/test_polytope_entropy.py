"""The recipe for divergences on polytopes: against its definition as a cone program, and in the PageRank game."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest

import convexrank as cr
from convexrank import divergences
from convexrank.divergences import PolytopeEntropy
from convexrank.problems import PageRankGame
from convexrank.solvers import NoRegretPlay
from tests.tolerances import tolerance


def draw(seed, n=4, extra=3):
    """The simplex blown up, and more points; its hull has all distributions in it."""
    rng = np.random.default_rng(seed)
    wide = np.eye(n) + 0.4 * (np.eye(n) - 1 / n)
    more = 0.4 * rng.normal(size=(extra, n)) + 1 / n
    return PolytopeEntropy(np.vstack([wide, more - (more.sum(axis=1, keepdims=True) - 1) / n])), rng


def by_cone_program(polytope, x):
    corners = np.array(polytope.vertices)
    weights = cp.Variable(len(corners))
    model = cp.Problem(
        cp.Minimize(-cp.sum(cp.entr(weights))), [corners.T @ weights == x, cp.sum(weights) == 1]
    )
    model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(model.value)


@pytest.mark.parametrize("seed", range(4))
def test_a_value_is_the_least_over_mixtures(seed):
    polytope, rng = draw(seed)
    corners = np.array(polytope.vertices)
    for concentration in (1.0, 20.0):
        x = rng.dirichlet(np.full(len(corners), concentration)) @ corners
        assert polytope.phi(x) == pytest.approx(by_cone_program(polytope, x), abs=tolerance("conic"))


@pytest.mark.parametrize("seed", range(4))
def test_slopes_and_points_invert_each_other(seed):
    polytope, rng = draw(seed)
    z = 2.0 * rng.normal(size=4)
    x = polytope.points(z)
    assert polytope.points(polytope.slopes(x)) == pytest.approx(x, abs=tolerance("projection"))
    assert polytope.conjugate(z) == pytest.approx(z @ x - polytope.phi(x), abs=tolerance("summation"))
    step, direction = 1e-5, np.array([1.0, -2.0, 0.5, 0.5])
    slope = (polytope.phi(x + step * direction) - polytope.phi(x - step * direction)) / (2 * step)
    assert polytope.slopes(x) @ direction == pytest.approx(slope, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_the_modulus_is_one(seed):
    """Midpoints lie below by at least an eighth of the modulus times the squared distance."""
    polytope, rng = draw(seed)
    corners = np.array(polytope.vertices)
    for _ in range(30):
        x, y = rng.dirichlet(np.full(len(corners), 0.5), size=2) @ corners
        gain = 0.5 * (polytope.phi(x) + polytope.phi(y)) - polytope.phi(0.5 * (x + y))
        assert gain >= polytope.modulus / 8 * float((x - y) @ (x - y)) - tolerance("summation")


def test_the_modulus_is_met_half_way_between_two_vertices():
    polytope, step = PolytopeEntropy(np.eye(2)), 0.01 * np.array([1.0, -1.0])
    gain = 0.5 * (polytope.phi(0.5 + step) + polytope.phi(0.5 - step)) - polytope.phi(np.full(2, 0.5))
    assert 8 * gain / float((2 * step) @ (2 * step)) == pytest.approx(polytope.modulus, rel=1e-3)


def test_corners_edges_and_the_outside():
    polytope = PolytopeEntropy(np.eye(3))
    assert polytope.phi(np.array([1.0, 0.0, 0.0])) == pytest.approx(0.0, abs=tolerance("summation"))
    assert polytope.phi(np.array([0.5, 0.5, 0.0])) == pytest.approx(-np.log(2.0), abs=tolerance("summation"))
    for outside in ([1.2, -0.2, 0.0], [0.4, 0.4, 0.4]):
        assert math.isinf(polytope.phi(np.array(outside)))
        assert not polytope.contains(np.array(outside))
        assert polytope.contains(polytope.project_feasible(np.array(outside)))
    inside = np.array([0.2, 0.3, 0.5])
    assert polytope.project_feasible(inside) == pytest.approx(inside, abs=tolerance("summation"))


def test_one_vertex_and_repeated_ones():
    assert PolytopeEntropy([[0.5, 0.5]]).phi(np.array([0.5, 0.5])) == 0.0
    twice = PolytopeEntropy(np.vstack([np.eye(2), np.eye(2)]))
    x = np.array([0.3, 0.7])
    expected = divergences.KL().phi(x) - np.log(2.0)
    assert twice.phi(x) == pytest.approx(expected, abs=tolerance("summation"))


def test_unit_vectors_give_the_game_of_kl():
    graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    kl, unit = (PageRankGame(graph, one) for one in ("kl", PolytopeEntropy(np.eye(4))))
    assert unit.threshold == pytest.approx(kl.threshold, abs=tolerance("play"))
    relaxed = [
        PageRankGame(graph, one, epsilon=2 / kl.threshold, relaxed=True)
        for one in (kl.divergence, unit.divergence)
    ]
    one, other = (game.solve(tol=1e-10) for game in relaxed)
    assert other.value == pytest.approx(one.value, abs=tolerance("play"))
    assert other.x == pytest.approx(one.x, abs=tolerance("two points"))


@pytest.mark.parametrize("norm", ["1", "2", "inf"])
def test_games_on_polytopes(norm):
    polytope, _ = draw(0)
    graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    game = PageRankGame(graph, polytope, norm=norm)
    assert np.abs(game.solve().x - cr.pagerank(graph)).sum() <= tolerance("conic")
    relaxed = PageRankGame(graph, polytope, epsilon=2 / game.threshold, norm=norm, relaxed=True)
    for problem in (game, relaxed, relaxed.dual()):
        report = cr.verify(problem)
        assert report.ok, str(report)
    played = game.solve(NoRegretPlay(), tol=1e-5)
    assert played.converged
    for learner in ("entropic", "gradient"):
        with pytest.raises(ValueError, match=f"{learner} learner needs the simplex"):
            game.solve(NoRegretPlay(learner))


@pytest.mark.parametrize(
    ("vertices", "message"),
    [
        ([], "has shape"),
        ([0.5, 0.5], "has shape"),
        ([[math.nan, 1.0]], "not finite"),
        ([[0.5, 0.5], [0.5, 0.6]], r"vertices\[1\] sums to 1.1"),
    ],
)
def test_bad_vertices_are_refused(vertices, message):
    with pytest.raises(ValueError, match=message):
        PolytopeEntropy(vertices)


def test_a_polytope_has_to_fit_the_graph():
    graph = cr.Graph.from_edges([0, 1, 2], [1, 2, 0])
    with pytest.raises(ValueError, match="4 entries, expected 3"):
        PageRankGame(graph, PolytopeEntropy(np.eye(4)))
    small = PolytopeEntropy(0.1 * np.eye(3) + 0.3)
    with pytest.raises(ValueError, match="node 0 lie outside the polytope"):
        PageRankGame(graph, small)
