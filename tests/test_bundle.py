"""The bundle method on wide sparse data: memory linear in the number of unknowns, and the same answers."""

from __future__ import annotations

import pickle
import tracemalloc

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer

import convexrank as cr
from convexrank.core.minorants import model_minimum
from convexrank.regularizers import L1Ball, L2Ball, Penalty
from convexrank.solvers.descent import bundle
from convexrank.solvers.descent.bundle import Span
from tests.tolerances import tolerance


def wide(name, d, n=500, **options):
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, d), density=0.002, rng=rng, format="csr", data_sampler=rng.standard_normal)
    if name == "TopPush":
        return cr.problems.TopPush(X, rng.random(n) < 0.3, **options)
    return cr.problems.RankSVM(X, rng.integers(0, 3, size=n), np.arange(n) // 25, **options)


@pytest.mark.parametrize(
    ("name", "d", "l1"),
    [("TopPush", 6_000, 0.0), ("TopPush", 60_000, 0.0), ("RankSVM", 60_000, 0.0), ("TopPush", 2_000, 1e-3)],
)
def test_memory_is_linear_in_the_unknowns(name, d, l1):
    """A square of d numbers would be 29 GB."""
    problem = wide(name, d, l2=0.1, l1=l1)
    problem.risk_and_subgradient(problem.start())  # compiled before the measurement
    steps = 4
    state = (solver := bundle.Bundle()).init(problem, problem.start())
    tracemalloc.start()
    for _ in range(steps):
        state = solver.step(problem, state)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    tangents = 1 + len(solver.shares) * steps
    assert peak < 8 * d * 16 * tangents + 10_000_000
    assert state.value < problem.objective(problem.start())


@pytest.mark.parametrize(
    ("kind", "l2"), [("TopPush", 1e-2), ("TopPush", 1.0), ("RankSVM", 1.0), ("ball", 1e-2), ("ball", 1.0)]
)
def test_in_the_span_of_the_slopes_the_answer_is_the_same(kind, l2, monkeypatch):
    """More unknowns than rows; once with coordinates, once without."""
    if kind == "ball":
        rng = np.random.default_rng(1)
        X = rng.normal(size=(20, 60))
        problem = cr.problems.ConvexRisk(
            X, rng.normal(size=20), "hinge", l2_ball=0.1, l2=l2 if l2 < 1 else 0.0
        )
    else:
        problem = wide(kind, 300, n=40, l2=l2)
    plain = problem.solve("bundle") if problem.dimension <= bundle._WIDE else None
    monkeypatch.setattr(bundle, "_WIDE", 10)
    inside = problem.solve("bundle", x0=np.full(problem.dimension, 1e-3))
    monkeypatch.setattr(bundle, "_WIDE", 10**6)
    outside = plain or problem.solve("bundle")
    assert inside.converged
    assert outside.converged
    assert inside.value == pytest.approx(outside.value, abs=inside.gap + outside.gap + 1e-15)
    again = pickle.loads(pickle.dumps(inside))
    assert np.array_equal(again.witness.points, inside.witness.points)
    assert problem.certificate(inside.x, again.witness).gap == inside.gap


def test_coordinates_keep_lengths_and_come_back():
    rng = np.random.default_rng(0)
    span, vectors = Span(50), rng.normal(size=(12, 50)) * 10.0 ** rng.uniform(-8, 8, size=(12, 1))
    vectors[7] = 1e3 * vectors[2] - vectors[3]  # nothing new
    found = [span.coordinates(vector) for vector in vectors]
    assert span.width == 11
    for vector, place in zip(vectors, found, strict=True):
        assert np.linalg.norm(place) == pytest.approx(np.linalg.norm(vector), rel=tolerance("summation"))
        assert np.allclose(
            span.leave(place), vector, rtol=0, atol=tolerance("summation") * np.abs(vector).max()
        )
    assert span.coordinates(np.zeros(50)).tolist() == [0.0] * 11


@pytest.mark.parametrize("trust", [0.2, np.inf])
@pytest.mark.parametrize(
    "penalty",
    [
        Penalty(l2=0.1),
        Penalty(l2=0.1, l1=0.2),
        Penalty(l2=0.01, ball=L2Ball(1.0)),
        Penalty(l1=0.1, l2=0.3, ball=L1Ball(0.7)),
        Penalty(l1=0.1, nonnegative=np.array([True, False, True, False])),
        Penalty(),
    ],
    ids=["l2", "both", "ball", "l1-ball", "signs", "none"],
)
def test_the_model_is_lowest_where_cvxpy_says(penalty, trust):
    """The highest of seven random linear functions and each kind of penalty."""
    rng = np.random.default_rng(2)
    for _ in range(5):
        slopes, heights = rng.normal(size=(7, 4)), rng.normal(size=7)
        centre = 0.9 * penalty.prox(0.3 * rng.normal(size=4), 0.0)
        radius = np.inf if penalty.bounded else 5.0
        weights, point = model_minimum(
            heights, slopes, penalty, centre, scale=2.0, radius=radius, trust=trust
        )
        step = cp.Variable(4)
        term, limits = penalty.cvxpy(centre + step)
        limits += [cp.norm2(step) <= trust] if np.isfinite(trust) else []
        limits += [cp.norm2(centre + step) <= radius] if np.isfinite(radius) else []
        lowest = cp.Problem(cp.Minimize(cp.max(heights + slopes @ step) + term), limits).solve(
            solver="CLARABEL"
        )
        value = (heights + slopes @ (point - centre)).max() + penalty.value(penalty.prox(point, 0.0))
        assert abs(value - lowest) <= tolerance("conic")
        assert abs(weights.sum() - 1.0) <= tolerance("conic")
        assert weights.min() >= 0.0
        if not np.isfinite(trust):
            proved = weights @ (heights - slopes @ centre) - penalty.conjugate(-weights @ slopes, radius)[0]
            assert abs(value - proved) <= tolerance("conic")


@pytest.mark.parametrize("strong", [None, 0.5])
@pytest.mark.parametrize("d", [3, 300])
def test_tangents_that_are_all_flat_end_at_once(d, strong):
    """More unknowns than have coordinates of their own: the span of slopes that are 0 has none."""
    X = np.random.default_rng(0).normal(size=(40, d))
    problem = cr.problems.LearnedDivergence(X, np.ones(40), strong, l2=0.1)
    solution = problem.solve("bundle")
    assert solution.converged
    assert not solution.x.any()


@pytest.mark.filterwarnings("ignore::convexrank.core.results.ConvergenceWarning")  # no gap is so small
def test_a_path_that_does_not_end_is_gone_on_from():
    """From its lowest point, and with its evidence: alone, the method is far from both after as many steps."""
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    problem = cr.problems.ConvexRisk(X, 1 - y, "hinge", l1=1e-6)
    found, alone = (
        problem.solve(bundle.Bundle(newton=newton), tol=1e-15, max_iter=12) for newton in (True, False)
    )
    assert found.status is alone.status is cr.Status.MAX_ITER
    assert 2.0 * found.value < alone.value
    assert found.gap < 0.01 * alone.gap


@pytest.mark.parametrize(
    ("name", "seed", "l2", "l1"),
    [
        ("RankSVM", 842595, 1e-6, 0.1),
        ("RankSVM", 306520, 1e-8, 1e-3),
        ("PartialAUC", 241902, 1e-8, 0.1),
        ("SpectralPush", 429022, 1e-6, 0.0),
    ],
)
def test_a_weak_l2_takes_few_steps(name, seed, l2, l1):
    """The first tangents are from points far away, and what rounding costs them was all that was missing for long."""
    problem = getattr(cr.problems, name).random(seed).changed(l2=l2, l1=l1)
    solution = problem.solve("bundle")
    assert solution.status is cr.Status.CONVERGED
    assert solution.iterations <= 30
    assert abs(solution.value - problem.solve("exact").value) <= tolerance("two solvers")


def test_tangents_that_repeat_are_kept_once_between_their_points():
    slopes = [np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([1.0, 1e-16]), np.array([0.0, 1.0])]
    points = [np.array([2.0, 0.0]), np.array([1e9, 0.0]), np.array([4.0, 0.0]), np.array([1.0, 1.0])]
    cuts = [bundle._Cut(point, 0.5, slope) for point, slope in zip(points, slopes, strict=True)]
    first, second = bundle._joined(tuple(cuts[:2]), cuts[2:], 2)
    assert first.point.tolist() == [3.0, 0.0]
    assert second.point.tolist() == [1.0, 1.0]
