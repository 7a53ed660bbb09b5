"""Bregman's algorithm: the conic solver's point, its certificate, the printed table's defect, errors."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from convexrank import divergences
from convexrank.divergences import bregman
from tests.tolerances import tolerance

N = 4
WEIGHTS = (0.5, 1.0, 2.0, 1.5)
DIVERGENCES = {
    "squared": divergences.SquaredEuclidean(),
    "squared weighted": divergences.SquaredEuclidean(weights=WEIGHTS),
    "I": divergences.GeneralizedI(),
    "I weighted": divergences.GeneralizedI(weights=WEIGHTS),
    "bit weighted": divergences.BitEntropy(weights=WEIGHTS),
    "itakura saito": divergences.ItakuraSaito(),
    "kl": divergences.KL(),
    "kl weighted": divergences.KL(weights=WEIGHTS),
}
EVERY = pytest.mark.parametrize("name", list(DIVERGENCES))


def instance(divergence, seed, m=3):
    """A point, rows, and a feasible point inside the domain that makes one of them tight."""
    rng = np.random.default_rng(seed)
    y, inside = rng.uniform(0.1, 0.9, (2, N))
    if divergence.total:
        y, inside = y / y.sum(), inside / inside.sum()
    A = np.linalg.qr(rng.normal(size=(N, N)))[0][:m] + 0.2 * rng.normal(size=(m, N))
    return y, A, A @ inside + np.linspace(0.0, 0.1, m), inside


def conic(divergence, y, constraints):
    x = cp.Variable(len(y))
    distance, domain = divergence.cvxpy(x, y)
    problem = cp.Problem(cp.Minimize(distance), domain + constraints(x))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return x.value


# One row is tight or none; all three are, of most divergences in the one and of both KL in the other.
@EVERY
@pytest.mark.parametrize("seed", [0, 51, 72])
def test_sequential_and_parallel_find_the_conic_point(name, seed):
    divergence = DIVERGENCES[name]
    y, A, b, _ = instance(divergence, seed)
    expected = conic(divergence, y, lambda x: [A @ x <= b])
    for update in ("sequential", "parallel"):
        found = bregman(divergence, y, A, b, update=update)
        assert np.abs(found.x - expected).max() < tolerance("conic point")
        assert (found.multipliers >= 0).all()
        assert found.violation <= tolerance("projection")
        assert found.gap <= tolerance("projection")


@EVERY
def test_equalities(name):
    divergence = DIVERGENCES[name]
    y, A, b, inside = instance(divergence, 5, m=3)
    C, d = A[:1], A[:1] @ inside
    found = bregman(divergence, y, A[1:], b[1:], equalities=(C, d))
    expected = conic(divergence, y, lambda x: [A[1:] @ x <= b[1:], C @ x == d])
    assert np.abs(found.x - expected).max() < tolerance("conic point")
    alone = bregman(divergence, y, equalities=(C, d))
    assert np.abs(alone.x - divergences.project_hyperplane(divergence, y, C[0], d[0])).max() < tolerance(
        "projection"
    )


@EVERY
@settings(max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_optimality_conditions(name, seed):
    divergence = DIVERGENCES[name]
    y, A, b, inside = instance(divergence, seed)
    found = bregman(divergence, y, A, b, tol=1e-8, max_iter=100_000)
    slopes = divergence.slopes(y) - A.T @ found.multipliers
    assert np.allclose(divergence.points(slopes), found.x, rtol=tolerance("summation"))
    # the bound holds for every feasible point, this one included
    assert found.bound <= divergence.divergence(inside, y) + tolerance("projection")
    assert found.value <= divergence.divergence(inside, y) + tolerance("two solvers")
    assert abs(found.multipliers @ (A @ found.x - b)) <= tolerance("two solvers")


def test_the_bound_is_a_bound_all_along():
    divergence = DIVERGENCES["I"]
    y, A, b, _ = instance(divergence, 1)
    optimum = bregman(divergence, y, A, b).value
    with pytest.raises(RuntimeError, match="stopped after 2 sweeps with violation"):
        bregman(divergence, y, A, b, tol=1e-12, max_iter=2)
    loose = bregman(divergence, y, A, b, tol=1e-2)
    assert loose.bound <= optimum + tolerance("projection")


def test_a_monotone_chain_is_the_closed_form():
    y = np.array([0.1, 0.5, 0.15, 0.25])
    A = np.eye(N)[:-1] - np.eye(N)[1:]
    for name, divergence in DIVERGENCES.items():
        found = bregman(divergence, y, sparse.csr_array(A), np.zeros(N - 1))
        closed = divergences.project_monotone(divergence, y)
        assert np.abs(found.x - closed).max() < tolerance("two solvers"), name


def test_the_point_itself_when_it_is_feasible():
    found = bregman("squared", [1.0, 2.0], [[1.0, 1.0]], [5.0])
    assert (found.iterations, found.value, found.x.tolist()) == (0, 0.0, [1.0, 2.0])


def test_the_printed_table_misses_the_minimiser():
    """Feasible, but farther away than need be; and the certificate says so."""
    y, A, b = np.array([1.0, 1.0]), np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([0.5, 0.2])
    best = bregman("squared", y, A, b)
    printed = bregman("squared", y, A, b, corrected=False)
    exact = conic(divergences.SquaredEuclidean(), y, lambda x: [A @ x <= b])
    assert np.abs(best.x - exact).max() < tolerance("conic point")
    assert printed.violation <= tolerance("projection")
    assert printed.value > best.value + 0.01
    assert printed.gap > 0.01


def test_averaging_is_needed():
    """The sum of all moves, in place of their mean, overshoots: three copies of one row."""
    y, A = np.array([2.0, 2.0]), np.ones((3, 2))
    found = bregman("squared", y, A, np.full(3, 2.0), update="parallel")
    assert np.abs(found.x - 1.0).max() < tolerance("projection")


BAD = {
    "infeasible": ({"A": [[1.0, 1.0]], "b": [-1.0]}, "infeasible: no point of the domain"),
    "edge": ({"A": [[1.0, 1.0]], "b": [0.0]}, "infeasible inside the domain"),
    "contradiction": ({"A": [[1.0, 0.0], [-1.0, 0.0]], "b": [1.0, -2.0]}, "infeasible"),
    "nothing": ({}, "no constraints"),
    "b missing": ({"A": [[1.0, 1.0]]}, "come together"),
    "columns": ({"A": [[1.0]], "b": [1.0]}, "expected 2"),
    "zero row": ({"A": [[1.0, 1.0], [0.0, 0.0]], "b": [1.0, 1.0]}, "row 1 .* is zero"),
    "update": ({"A": [[1.0, 1.0]], "b": [1.0], "update": "random"}, "parallel, sequential"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_input_is_refused(name):
    arguments, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        bregman("generalized_i", [1.0, 2.0], **arguments)


def test_the_starting_point_has_to_be_inside():
    with pytest.raises(ValueError, match=r"y\[1\] is -2"):
        bregman("generalized_i", [1.0, -2.0], [[1.0, 1.0]], [1.0])
    with pytest.raises(TypeError, match="pair"):
        bregman("generalized_i", [1.0, 2.0], equalities=3)


def test_order_of_the_rows_does_not_matter():
    divergence = DIVERGENCES["I"]
    y, A, b, _ = instance(divergence, 2)
    points = [
        bregman(divergence, y, A[list(rows)], b[list(rows)]).x for rows in itertools.permutations(range(3))
    ]
    assert max(np.abs(point - points[0]).max() for point in points) < tolerance("two solvers")
