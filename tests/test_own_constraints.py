"""Constraints of the caller's own on the weights: against cvxpy by hand, bounds from below, and refusals in words."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import convexrank as cr
from convexrank.core.loop import scale_of
from convexrank.solvers.own import Multipliers, UnderConstraints
from tests.tolerances import tolerance

problems = cr.problems


def rows(seed=0, n=40, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] - X[:, 1] + rng.normal(size=n) > 0


X, Y = rows()
CONSTRAINTS = {
    "signs": lambda w: [w >= 0],
    "ball and sum": lambda w: [cp.norm(w) <= 0.7, cp.sum(w) == 0.5, w[1] >= -0.1],
    "matrix": lambda w: [cp.reshape(w, (2, 2), order="F") <= np.array([[0.3, 0.1], [0.2, 0.4]]), w <= 100],
    "kinks": lambda w: [cp.norm1(w) <= 0.4, cp.sum_largest(w, 2) <= cp.sum(w)],  # at the minimum, with zeros
    "logarithm": lambda w: [cp.log(w[0]) >= np.log(0.4)],
}
PROBLEMS = {
    "smooth": problems.PNormPush(X, Y, p=4, l2=0.1),
    "l1": problems.PNormPush(X, Y, p=2, l1=0.05),
    "both": problems.IRPush(X, Y, l1=0.05, l2=0.1),
    "maximum": problems.TopPush(X, Y, l2=0.1),
    "hinge": problems.RmaxPush(X, Y, "hinge", l2=0.1),
    "unpenalised": problems.PNormPush(X, Y, p=2),
    "ball": problems.ConvexRisk(X, Y, l2_ball=0.8),
}


def by_hand(problem, constraints):
    """The minimum under the constraints, from the problem's model and cvxpy alone."""
    model = problem.to_cvxpy()
    w = model.variables["w"]
    made = cp.Problem(model.problem.objective, [*model.problem.constraints, *constraints(w)])
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # "inaccurate" where 1e-10 is out of reach, as the tolerance says
        return made.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)


@pytest.mark.parametrize(
    ("problem", "constraints"),
    [
        pytest.param(PROBLEMS[name], CONSTRAINTS[other], id=f"{name}, {other}")
        for place, name in enumerate(PROBLEMS)
        for turn, other in enumerate(CONSTRAINTS)
        if (place + turn) % 5 < 3
    ],
)
def test_the_minimum_is_that_of_cvxpy_by_hand(problem, constraints):
    solution, expected = problem.solve("exact", constraints=constraints), by_hand(problem, constraints)
    assert solution.converged
    assert abs(solution.value - expected) <= tolerance("constrained exact") * scale_of(expected)
    assert solution.value == problem.objective(solution.x)
    certificate = solution.certificate
    assert certificate.kind == "constrained"
    assert not certificate.proved
    assert certificate.lower_bound <= expected + tolerance("constrained exact") * scale_of(expected)
    assert certificate.value - certificate.lower_bound <= certificate.gap * (1.0 + 1e-12) + tolerance(
        "pieces"
    )
    w = cp.Variable(problem.dimension)
    w.value = solution.x
    assert max(float(np.max(part.violation())) for part in constraints(w)) <= solution.gap <= 1e-8
    assert "under the constraints" in solution.message
    assert "violated by at most" in solution.message


@pytest.mark.parametrize("problem", [PROBLEMS["smooth"], PROBLEMS["hinge"], PROBLEMS["both"]])
def test_a_grid_finds_nothing_lower(problem):
    X, y = rows(1, 30, 2)
    small = replace(problem, X=X, y=y)
    solution = small.solve(constraints=lambda w: [w[0] + w[1] <= 0.2, w[1] >= -0.5])
    assert solution.solver == "exact"  # the only one that takes constraints, and so the default
    steps = np.linspace(-1.5, 1.5, 61)
    inside = [(a, b) for a in steps for b in steps if a + b <= 0.2 and b >= -0.5]
    assert solution.value - solution.gap <= min(small.objective(np.array(point)) for point in inside)
    assert solution.value > small.solve().value + 1e-4  # they bind


@pytest.mark.parametrize(("name", "sizes", "draws"), [("signs", (4,), 20), ("ball and sum", (1, 1, 1), 1)])
def test_bounds_hold_for_any_multipliers_and_any_point(name, sizes, draws):
    """Also where a solver is wrong: no planted multiplier gives a bound above the minimum."""
    problem, constraints = PROBLEMS["smooth"], CONSTRAINTS[name]
    least, under = by_hand(problem, constraints), UnderConstraints(problem, constraints)
    rng = np.random.default_rng(0)
    best = problem.solve("exact", constraints=constraints)
    for scale in (0.1, 10.0):
        for _ in range(draws):
            values = [rng.normal(size=size, scale=scale) for size in sizes]
            point = best.x + rng.normal(size=4, scale=scale)
            found = under.certificate(point, Multipliers(values, 4))
            assert found.lower_bound <= least + tolerance("constrained exact")
            assert found.gap >= under.violation(point)
    wrong = [-value for value in best.witness.values]  # planted: all signs turned
    assert under.certificate(best.x, Multipliers(wrong, 4)).gap > 1e-3
    assert under.certificate(best.x).gap > 1e-3


def test_a_point_outside_is_not_accepted():
    problem = PROBLEMS["smooth"]
    under = UnderConstraints(problem, lambda w: [w[0] <= 0.05])
    free = problem.solve()  # the minimum without the constraint is lower, and violates it
    found = under.certificate(free.x)
    assert found.gap == under.violation(free.x) == free.x[0] - 0.05 > 0.1


def test_infeasible_constraints_are_named_so():
    with pytest.warns(cr.ConvergenceWarning, match="INFEASIBLE: no point satisfies"):
        solution = PROBLEMS["smooth"].solve("exact", constraints=lambda w: [w[0] >= 1, w[0] <= 0])
    assert solution.status is cr.Status.INFEASIBLE
    assert np.isnan(solution.x).all()
    assert solution.gap == np.inf


def test_separable_rows_have_a_minimum_within_a_ball():
    X = np.array([[2.0], [1.0], [0.0], [-1.0]])
    problem = problems.PNormPush(X, [1, 1, 0, 0], p=2)
    solution = problem.solve("exact", constraints=lambda w: [cp.norm(w) <= 2])
    assert solution.converged
    assert abs(solution.x[0] - 2.0) <= tolerance("constrained exact")


def test_a_parameter_is_read_at_each_solve():
    most = cp.Parameter(value=0.1)
    solver = cr.solvers.ExactSolver("CLARABEL", constraints=lambda w: [w[0] <= most])
    found = []
    for value in (0.1, 0.05):
        most.value = value
        found.append(PROBLEMS["smooth"].solve(solver).x[0])
    assert np.allclose(found, [0.1, 0.05], atol=tolerance("constrained exact"))


def test_there_is_no_proof_and_no_dual(tmp_path):
    solution = PROBLEMS["smooth"].solve("exact", constraints=CONSTRAINTS["signs"])
    assert solution.problem == "PNormPush"
    assert "constrained" in repr(solution)
    with pytest.raises(cr.CertificateError, match="constraints of your own"):
        solution.prove()
    with pytest.raises(cr.CertificateError, match="constraints of your own"):
        solution.export(tmp_path / "proof")
    with pytest.raises(ValueError, match="no dual is known here"):
        _ = solution.dual
    solution.save(tmp_path / "solution.npz")
    again = cr.Solution.load(tmp_path / "solution.npz")
    assert again == solution
    assert again.certificate == solution.certificate


other = cp.Variable(name="other")
unset = cp.Parameter(name="unset")
BAD = {
    "no function": ([1], TypeError, "expected a function"),
    "a class": (int, TypeError, "constraints is <class 'int'>, expected a function"),
    "one constraint": (lambda w: w[0] >= 0, TypeError, "expected a list"),
    "none": (lambda w: None, TypeError, "returned None, expected a list"),
    "a truth value": (lambda w: [True], TypeError, r"constraints\(w\)\[0\] is True, of type bool"),
    "a cone": (lambda w: [cp.SOC(1.0, w)], TypeError, r"cp.norm\(w\) <= 1"),
    "not convex": (lambda w: [w[0] >= 0, cp.norm(w) >= 1], ValueError, "not convex by cvxpy's rules"),
    "others only": (lambda w: [other >= 0], ValueError, "other variables than the weights: other"),
    "others too": (lambda w: [w[0] <= other], ValueError, "other variables than the weights: other"),
    "constants": (lambda w: [cp.Constant(1.0) >= 0], ValueError, "does not depend on the weights"),
    "no value": (lambda w: [w[0] <= unset], ValueError, "parameters without a value: unset"),
}


@pytest.mark.parametrize(("constraints", "kind", "words"), BAD.values(), ids=BAD)
def test_what_is_no_list_of_constraints_is_refused(constraints, kind, words):
    with pytest.raises(kind, match=words):
        PROBLEMS["smooth"].solve("exact", constraints=constraints)


def test_other_solvers_and_other_problems_refuse_constraints():
    signs = CONSTRAINTS["signs"]
    with pytest.raises(ValueError, match=re.escape("solver newton is a method for the problem without them")):
        PROBLEMS["smooth"].solve("newton", constraints=signs)
    with pytest.raises(ValueError, match="given twice"):
        PROBLEMS["smooth"].solve(cr.solvers.ExactSolver(constraints=signs), constraints=signs)
    with pytest.raises(ValueError, match="not a convex problem with linear scores"):
        problems.RateConstrained.random(0).solve("exact", constraints=signs)
    with pytest.raises(ValueError, match="solver exact runs in numpy"):
        PROBLEMS["smooth"].solve(constraints=signs, device="cpu")
