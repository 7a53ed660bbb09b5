"""Theorem 8, as printed and corrected, against minimisers that are solved for again."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import convexrank as cr
from convexrank.bounds import perturbation
from convexrank.links.marginal_cost import expected_targets
from convexrank.problems import KernelLearnedDivergence, LearnedDivergence
from tests.tolerances import tolerance

SEEDS = range(24)
# The counterexample of the docstring: the change is orthogonal to the feature.
X, Y, MOVED = [[-1.0], [0.0], [1.0]], [-1.0, 0.0, 1.0], [-2 / 3, -2 / 3, 4 / 3]


def draw(seed):
    """A problem and other targets: changes small and large, in every direction and orthogonal to the features."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 9)), int(rng.integers(1, 4))
    features = rng.normal(size=(n, d)) + rng.choice([0.0, 3.0])
    y = rng.normal(size=n) if seed % 3 else rng.integers(-2, 3, size=n).astype(float)
    strong = float(rng.choice([0.1, 1.0, 5.0]))
    smooth = [None, strong * float(rng.choice([1.2, 3.0, 30.0]))][seed % 2]
    problem = LearnedDivergence(features, y, strong, smooth, l2=float(rng.choice([1e-2, 0.1, 1.0])))
    change = float(rng.choice([0.01, 0.3, 3.0])) * rng.normal(size=n)
    if seed % 4 == 0:
        change -= features @ np.linalg.lstsq(features, change, rcond=None)[0]
    return problem, y + change


def distance(problem, targets, solver=None, metric=None):
    moved = replace(problem, y=targets)
    change = moved.solve(solver, tol=1e-10).x - problem.solve(solver, tol=1e-10).x
    return math.sqrt(float(np.sum(change**2 * (1.0 if metric is None else metric))))


def slack(problem):
    """What two solves, each certified to 1e-10, may be off by."""
    return 2.0 * math.sqrt(2.0 * 1e-10 / problem.l2)


def exceeded(bound):
    """Seeds whose minimiser moves further than a bound allows."""
    found = []
    for seed in SEEDS:
        problem, targets = draw(seed)
        allowed = bound(cr.perturbation_bound(problem, targets, solution=problem.solve(tol=1e-10)))
        if distance(problem, targets) > allowed + slack(problem):
            found.append(seed)
    return found


def test_the_bounds_are_never_exceeded():
    assert not exceeded(lambda bound: bound.corrected)
    assert not exceeded(lambda bound: bound.at_solution)


def test_the_printed_bound_is_exceeded():
    assert exceeded(lambda bound: bound.published)


def test_a_bound_without_its_factor_is_caught(monkeypatch):
    """Planted bug: one tenth of the norm of the features."""
    monkeypatch.setattr(
        perturbation, "centred_square_norm", lambda X: (0.01 * np.linalg.norm(X, 2) ** 2, 0.0)
    )
    assert exceeded(lambda bound: bound.corrected)


def test_the_sharper_bound_is_sharper_and_nearly_met():
    ratios = []
    for seed in SEEDS:
        problem, targets = draw(seed)
        bound = cr.perturbation_bound(problem, targets, solution=problem.solve(tol=1e-10))
        assert bound.at_solution <= bound.corrected + slack(problem)
        ratios.append(distance(problem, targets) / bound.at_solution)
    assert max(ratios) > 0.8


def test_the_counterexample_in_closed_form():
    """On [0, 1] and beyond 2/3 the two slopes are (2w − 2)/3 and (w/2 − 1)/3, so w = 10/11 and 10/7 at l2 = 1/15."""
    problem = LearnedDivergence(X, Y, 1.0, l2=1 / 15)
    for solver in (None, "exact"):
        assert distance(problem, np.array(MOVED), solver) == pytest.approx(
            40 / 77, abs=tolerance("conic point")
        )
    bound = cr.perturbation_bound(problem, MOVED)
    assert bound.published == pytest.approx(0.0, abs=tolerance("fixed point"))
    assert bound.corrected >= 40 / 77
    assert math.isnan(bound.at_solution)
    # the same two numbers are fixed points of the published field
    for targets, w in ((Y, 10 / 11), (MOVED, 10 / 7)):
        field = LearnedDivergence(X, targets, 1.0, l2=1 / 15, oracle="projection").field([w])
        assert np.allclose(field, 0.0, rtol=0, atol=tolerance("projection"))


def test_the_printed_bound_holds_when_the_link_is_known():
    """Least squares: the link is the identity, s(θ) = θ."""
    for seed in SEEDS:
        problem, targets = draw(seed)
        gram = problem.X.T @ problem.X / problem.rows + problem.l2 * np.eye(problem.dimension)
        moved = np.linalg.solve(gram, problem.X.T @ (targets - problem.y) / problem.rows)
        assert np.linalg.norm(moved) <= cr.perturbation_bound(problem, targets).published * (
            1 + tolerance("fixed point")
        )


@given(st.integers(0, 10**6), st.sampled_from([None, 1.5, 10.0]))
def test_the_link_is_nonexpansive_in_the_targets(seed, smooth):
    """What the factor 2 rests on: at fixed scores the fitted values move no further than the targets."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    scores, y = np.sort(rng.normal(size=n) * rng.choice([0.1, 1.0, 10.0])), rng.normal(size=n)
    other = y + rng.normal(size=n) * rng.choice([0.01, 1.0])
    one, two = (expected_targets(scores, np.sort(targets), 1.0, smooth) for targets in (y, other))
    assert np.linalg.norm(one - two) <= np.linalg.norm(y - other) + tolerance("summation")


def test_the_factor_two_is_met_at_fixed_scores():
    """Scores far apart and in reverse: the fitted values move against the targets."""
    y, other = np.array([1.0, 0.0]), np.array([1.2, -0.2])
    residuals = [expected_targets(np.array([0.0, 9.0]), np.sort(t), 1.0) - t for t in (y, other)]
    assert np.linalg.norm(residuals[1] - residuals[0]) == pytest.approx(2.0 * np.linalg.norm(other - y))


@pytest.mark.parametrize("seed", range(6))
def test_other_metrics(seed):
    problem, targets = draw(seed)
    metric = np.random.default_rng(seed).uniform(0.1, 4.0, size=problem.dimension)
    bound = cr.perturbation_bound(problem, targets, solution=problem.solve(tol=1e-10), metric=metric)
    moved = distance(problem, targets, metric=metric)
    assert moved <= bound.at_solution + 2.0 * slack(problem)
    assert moved <= bound.corrected + 2.0 * slack(problem)
    pull = problem.X.T @ (targets - problem.y)
    expected = math.sqrt(sum(p * p / k for p, k in zip(pull, metric, strict=True))) * max(metric)
    assert bound.published == pytest.approx(expected / (problem.rows * problem.l2))


@pytest.mark.parametrize("seed", range(6))
def test_kernels(seed):
    """With K = XXᵀ the bounds are those of the features; with another kernel they hold in its feature space."""
    problem, targets = draw(seed)
    K = problem.X @ problem.X.T
    twin = KernelLearnedDivergence(K, problem.y, problem.strong, problem.smooth, l2=problem.l2)
    ours, theirs = (cr.perturbation_bound(made, targets) for made in (twin, problem))
    assert ours.corrected == pytest.approx(theirs.corrected, rel=tolerance("two solvers"))
    assert ours.published == pytest.approx(
        theirs.published, rel=tolerance("two solvers"), abs=tolerance("two solvers")
    )
    gauss = replace(twin, K=np.exp(-np.abs(problem.X[:, :1] - problem.X[:, 0])))
    one, two = gauss.solve(tol=1e-10), replace(gauss, y=targets).solve(tol=1e-10)
    moved = math.sqrt((two.x - one.x) @ gauss.K @ (two.x - one.x))
    bound = cr.perturbation_bound(gauss, targets, solution=one)
    assert moved <= min(bound.corrected, bound.at_solution) + slack(problem)


def test_what_does_not_change_the_problem_does_not_move_the_bound():
    problem, targets = draw(1)
    bound = cr.perturbation_bound(problem, targets)
    for twin, other in (
        (replace(problem, X=sparse.csr_matrix(problem.X)), targets),
        (replace(problem, X=problem.X + 2.0), targets),
        (problem, targets + 7.0),
    ):
        assert cr.perturbation_bound(twin, other).corrected == pytest.approx(
            bound.corrected, rel=tolerance("fitted values")
        )
    assert cr.perturbation_bound(problem, problem.y).corrected == 0.0


@pytest.mark.parametrize(
    ("changes", "arguments", "error", "words"),
    [
        ({"l2": 0.0}, {}, ValueError, "l2 = 0"),
        ({"oracle": "projection"}, {}, ValueError, "fixed points minimise nothing"),
        ({}, {"targets": [1.0]}, ValueError, "targets has 1 entries"),
        ({}, {"metric": [0.0]}, ValueError, r"metric\[0\] is 0"),
        ({}, {"metric": [1.0, 1.0]}, ValueError, "metric has 2 entries"),
        ({}, {"solution": [1.0, 2.0]}, ValueError, "solution has 2 entries"),
        ({}, {"problem": "mine"}, TypeError, "problem is of type str"),
        (
            {},
            {"problem": KernelLearnedDivergence(np.eye(3), Y, 1.0, l2=1.0), "metric": [1.0]},
            ValueError,
            "metric is for",
        ),
    ],
)
def test_bad_input_is_refused(changes, arguments, error, words):
    problem = replace(LearnedDivergence(X, Y, 1.0, l2=0.1), **changes)
    with pytest.raises(error, match=words):
        cr.perturbation_bound(**{"problem": problem, "targets": MOVED, **arguments})


@pytest.mark.parametrize(("length", "scale"), [(1.0, 1e-200), (1e140, 1e140)])
def test_lengths_far_out_are_neither_zero_nor_a_warning(length, scale):
    rows, targets = np.multiply(length, X), np.multiply(scale, Y)
    bound = cr.perturbation_bound(LearnedDivergence(rows, targets, 1.0, l2=scale), -targets)
    wanted = cr.perturbation_bound(LearnedDivergence(X, Y, 1.0, l2=1.0), np.negative(Y))
    assert bound.corrected / length == pytest.approx(wanted.corrected)
    assert bound.published / length == pytest.approx(wanted.published)


def test_with_an_output_range_fitted_values_may_move_further_than_targets():
    """Two targets near the lower end and a least slope: one fitted value stays there, the other moves for both."""
    problem = LearnedDivergence([[-1.0], [1.0]], [0.1, 0.1], 0.5, 2.0, l2=0.1, output_range=(0.0, 9.0))
    other = replace(problem, y=[0.2, 0.2])
    w = np.array([1.0])
    assert np.allclose(problem.expected(w), [0.0, 0.2], rtol=0, atol=tolerance("two solvers"))
    assert np.allclose(other.expected(w), [0.0, 0.4], rtol=0, atol=tolerance("two solvers"))
    solution = problem.solve()
    bound = cr.perturbation_bound(problem, [0.4, 0.1], solution=solution)
    assert bound.corrected == math.inf
    assert distance(problem, np.array([0.4, 0.1])) <= bound.at_solution + slack(problem)
    unaffected = replace(problem, smooth=None)
    assert math.isfinite(cr.perturbation_bound(unaffected, [0.2, 0.2]).corrected)
