"""What is particular to retargeting: its marginals against the joint problem, its halves, its trivial minimum."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from typing import Any

import cvxpy as cp
import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

import convexrank as cr
from convexrank import atoms, divergences
from convexrank.core.capabilities import Shape
from convexrank.problems import Retargeting
from convexrank.problems.queries._base import random_queries
from convexrank.problems.retargeting._grade_blocks import TargetRegression
from tests.tolerances import tolerance

KINDS = {
    "squared": ("squared", {}),
    "squared, no offsets": ("squared", {"offsets": False}),
    "squared, no simplex": ("squared", {"simplex": False}),
    "kl": ("kl", {}),
    "I": ("generalized_i", {}),
    "I, no offsets": ("generalized_i", {"offsets": False}),
    "I, no simplex": ("generalized_i", {"simplex": False}),
    "shifted I": ("shifted_generalized_i", {"simplex": False}),
    "I shifted down": (divergences.GeneralizedI(shift=-0.2), {}),
    "logistic": ("bit_entropy", {}),
    "logistic, no simplex": ("bit_entropy", {"simplex": False, "normalize": False}),
    "Itakura-Saito": ("itakura_saito", {}),
}
EVERY = pytest.mark.parametrize("kind", KINDS)
ORDERS = pytest.mark.parametrize("order", ["hidden", "block"])
CONVEX = [kind for kind in KINDS if KINDS[kind][0] == "squared"]


def draw(kind, seed, order: Any = "hidden", **more):
    """A random instance of a kind, and a point."""
    divergence, options = KINDS[kind]
    rng = np.random.default_rng(seed)
    X, y, qid = random_queries(rng)
    problem = Retargeting(X, y, qid, divergence, order=order, **{"l2": 0.1, **options, **more})
    return problem, 2.0 * rng.normal(size=X.shape[1])


def linear_queries(seed=0, queries=12, noise=0.3):
    """Queries that a linear score ranks well, with three grades."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8 * queries, 3))
    latent = X @ [1.0, -0.7, 0.2] + noise * rng.normal(size=len(X))
    return X, np.digitize(latent, [-0.4, 0.8]).astype(float), np.repeat(np.arange(queries), 8)


def close(a, b, name="summation", nan=False):
    return np.allclose(a, b, rtol=tolerance(name), atol=tolerance(name), equal_nan=nan)


def of_queries(problem, w):
    """The targets of the rows that count, query by query."""
    return problem._split(problem.targets(w))[0]


def inner_optimum(problem, scores, grades):
    """The least cost of one query over targets and offset, from the definition, by a cone program."""
    link, n = problem.link, len(scores)
    r, offset = cp.Variable(n), cp.Variable() if link.adds_up else 0.0
    natural = scores + offset
    phi, inside = link.divergence.cvxpy(r)
    pairs = [(j, k) for j in range(n) for k in range(n) if grades[j] > grades[k]]
    held = [*inside, *(r[j] >= r[k] for j, k in pairs)]
    if problem.order == "block":
        held += [r[j] == r[k] for j in range(n) for k in range(j) if grades[j] == grades[k]]
    if link.simplex:
        held += [cp.sum(r) == 1, r >= 0]
    # on the simplex the term offset times the sum of r is the offset
    cost = phi + link.divergence.conjugate(natural) - scores @ r - offset
    if link.quadratic:
        cost = 0.5 * cp.sum_squares(r - natural)
    model = cp.Problem(cp.Minimize(cost), held)
    model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(np.asarray(model.value)), np.asarray(r.value)


# --- the marginal ---------------------------------------------------------------------------------------------------


@EVERY
@ORDERS
def test_the_marginal_is_the_least_cost_over_targets_and_offsets(kind, order):
    problem, w = draw(kind, 1, order)
    scores, targets = problem._split(problem.X @ w)[0], of_queries(problem, w)
    total = 0.0
    for query in range(len(problem.groups)):
        rows = problem.groups.slices[query]
        value, best = inner_optimum(problem, scores[rows], problem.grades[rows])
        total += value / (rows.stop - rows.start if problem.normalize else 1)
        assert np.abs(targets[rows] - best).max() <= tolerance("conic point")
    assert abs(problem.objective(w) - total - 0.05 * w @ w) <= tolerance("conic") * max(1.0, total)


@EVERY
@ORDERS
@pytest.mark.parametrize("seed", range(2))
def test_oracle_and_reference_agree_and_the_gradient_is_exact(kind, order, seed):
    problem, w = draw(kind, seed, order)
    value, slope = problem.risk_and_subgradient(w)
    other, other_slope = problem._reference_risk(w)
    assert close(value, other)
    assert close(slope, other_slope)
    gradient = problem.gradient(w)
    for j, e in enumerate(1e-5 * np.eye(len(w))):
        difference = (problem.objective(w + e) - problem.objective(w - e)) / 2e-5
        assert abs(gradient[j] - difference) <= tolerance("central difference") * max(1.0, abs(difference))


def test_a_divergence_of_your_own():
    mine = divergences.FromGenerator(lambda x: x * x - atoms.log(x), lower=0.0)
    X, y, qid = random_queries(np.random.default_rng(0))
    problem = Retargeting(X, y, qid, mine, l2=0.1)
    w = np.random.default_rng(0).normal(size=X.shape[1])
    assert close(problem.objective(w), problem._reference_minorant(w).risk + 0.05 * w @ w)
    assert close(problem.groups.sums(of_queries(problem, w)), 1.0)


@pytest.mark.parametrize("kind", ["squared", "kl", "logistic"])
def test_the_objective_as_a_jax_function(kind):
    problem, w = draw(kind, 2)
    with jax.enable_x64(True):
        value, slope = jax.value_and_grad(problem.jax_objective())(w)
    assert close(value, problem.objective(w))
    assert close(slope, problem.gradient(w))


@given(st.integers(0, 10_000), st.sampled_from(["hidden", "block"]))
def test_the_i_divergence_of_distributions_is_kl(seed, order):
    one, w = draw("kl", seed, order)
    other, _ = draw("I", seed, order)
    assert close(one.objective(w), other.objective(w))


@given(st.integers(0, 10_000))
def test_a_shift_of_the_i_divergence_changes_nothing(seed):
    """The domain moves and the link with it: shifted targets are no safer from the trivial minimum."""
    one, w = draw("I, no simplex", seed)
    other, _ = draw("shifted I", seed)
    assert close(one.objective(w), other.objective(w))
    assert close(of_queries(one, w) + 1.0, of_queries(other, w))


@given(st.integers(0, 10_000), st.sampled_from([kind for kind in KINDS if "no offsets" not in kind]))
def test_an_offset_of_a_query_changes_nothing_where_there_are_offsets(seed, kind):
    problem, w = draw(kind, seed)
    if not problem.link.offsets:
        return
    shifts = np.random.default_rng(seed).normal(size=len(np.unique(problem.qid)))
    scores = problem.X @ w
    moved = scores + shifts[np.unique(problem.qid, return_inverse=True)[1]]
    value, slope = problem._risk_and_score_gradient(scores)
    other, other_slope = problem._risk_and_score_gradient(moved)
    assert close(value, other)
    assert close(slope, other_slope)


@EVERY
def test_scores_in_order_cost_nothing_off_the_simplex(kind):
    problem, _ = draw(kind, 2)
    if problem.link.simplex:
        return
    scores = problem.y + 0.01 * np.arange(len(problem.y))
    value, slope = problem._risk_and_score_gradient(scores)
    assert value <= tolerance("summation")
    assert np.abs(slope).max() <= tolerance("summation")


@EVERY
def test_rows_in_any_order_and_idle_queries(kind):
    problem, w = draw(kind, 3)
    rng = np.random.default_rng(3)
    X = np.vstack((problem.X, rng.normal(size=(3, len(w)))))
    y, names = (
        np.append(problem.y, [1.0, 2.0, 2.0]),
        [f"q{name}" for name in problem.qid] + ["one", "even", "even"],
    )
    order = rng.permutation(len(y))
    twin = dataclasses.replace(problem, X=X[order], y=y[order], qid=np.array(names)[order])
    assert twin.idle_queries == problem.idle_queries + 2
    assert close(twin.objective(w), problem.objective(w))
    assert close(twin.gradient(w), problem.gradient(w))
    assert np.isnan(twin.targets(w)).sum() == len(y) - twin.groups.rows
    assert close(twin.targets(w)[np.argsort(order)], np.append(problem.targets(w), [np.nan] * 3), nan=True)
    as_sparse = dataclasses.replace(problem, X=sparse.csr_array(problem.X))
    assert close(as_sparse.gradient(w), problem.gradient(w))
    assert close(as_sparse.start(), problem.start(), "fixed points")


# --- convexity ------------------------------------------------------------------------------------------------------


def least_curvature(divergence, **options):
    """The least of ⟨change of gradient, move⟩/‖move‖² over 4000 pairs of scores of three rows: a query each."""
    rng, grades, queries = np.random.default_rng(5), [0.0, 1.0, 1.0], 4000
    X = np.zeros((3 * queries, 1))
    problem = Retargeting(X, grades * queries, np.repeat(np.arange(queries), 3), divergence, **options)
    a = rng.uniform(0.0, 3.0, size=(queries, 1)) * rng.normal(size=(queries, 3))
    move = rng.normal(size=a.shape)
    slopes = [problem._risk_and_score_gradient(at.ravel())[1].reshape(a.shape) for at in (a, a + move)]
    return float(((slopes[1] - slopes[0]) * move).sum(axis=1).min())


@EVERY
def test_convex_for_the_squared_distance_alone(kind):
    divergence, options = KINDS[kind]
    problem, _ = draw(kind, 0)
    least = least_curvature(divergence, **options)
    assert problem._convex == (kind in CONVEX)
    if problem._convex:
        assert least >= -tolerance("summation")
        assert "Exact" in problem.capabilities
    else:
        assert least < -1e-3, "no counterexample: is it convex after all?"
        assert "Exact" not in problem.capabilities
        assert problem.face(Shape).strong_convexity == 0.0
        with pytest.raises(ValueError, match="not convex"):
            problem.to_cvxpy()
        assert problem.certificate(np.zeros(problem.dimension)).kind == "residual"


@pytest.mark.parametrize("kind", CONVEX)
@ORDERS
def test_fast_equals_exact_where_it_is_convex(kind, order):
    report = cr.verify([draw(kind, seed, order)[0] for seed in range(2)])
    assert report.ok, str(report)
    assert report.compared == 2


def test_the_verifier_notices_pooling_in_the_wrong_order():
    @dataclasses.dataclass(frozen=True, eq=False)
    class Reversed(Retargeting):
        def pooled(self, scores):
            return -super().pooled(-scores)

    problem, _ = draw("squared", 1)
    assert cr.verify(problem).ok
    assert not cr.verify(Reversed(problem.X, problem.y, problem.qid, l2=0.1)).ok


def test_what_is_not_convex_is_skipped_and_said():
    report = cr.verify([draw("kl", 0)[0], draw("squared", 0)[0]])
    assert report.compared == 1
    assert "no exact model" in report.skipped[0]


# --- the two halves -------------------------------------------------------------------------------------------------


@EVERY
def test_regression_on_targets_is_exact(kind):
    """The second half against a general minimiser of the joint cost with targets and, if there are, offsets."""
    X, y, qid = linear_queries(queries=3)
    divergence, options = KINDS[kind]
    problem = Retargeting(X, y, qid, divergence, l2=0.1, **options)
    targets, link = of_queries(problem, problem.start() + 0.1), problem.link
    fitted = problem._minimized(1, np.concatenate((np.zeros(3), targets)))
    assert np.array_equal(fitted[3:], targets)

    def cost(unknown):
        scores = problem._split(X @ unknown[:3])[0]
        if link.simplex and link.offsets:
            scores = link.natural(scores, problem.groups)
        elif link.offsets:
            scores = scores + unknown[3:][problem.groups.query]
        return problem.row_weights @ link.mismatch(targets, scores) + 0.05 * unknown[:3] @ unknown[:3]

    start = np.zeros(3 + (len(problem.groups) if link.offsets and not link.simplex else 0))
    general = minimize(cost, start, method="BFGS", options={"gtol": 1e-7})
    assert np.abs(fitted[:3] - general.x[:3]).max() <= tolerance("two solvers") ** 0.5


@EVERY
@ORDERS
def test_the_alternation_descends_to_a_stationary_point(kind, order):
    X, y, qid = linear_queries(queries=4)
    divergence, options = KINDS[kind]
    problem = Retargeting(X, y, qid, divergence, order=order, l2=0.5, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)  # where it leads to the trivial minimum
        alternated, direct = problem.solve("alternating", tol=1e-5), problem.solve("lbfgs", tol=1e-7)
    for solution in (alternated, direct):
        assert solution.converged, solution.message
        assert problem._convex or np.linalg.norm(problem.gradient(solution.x)) <= 1e-5
    falls = np.diff(alternated.trace["objective"])
    assert (falls <= tolerance("summation")).all()
    assert len(falls) >= 1
    if problem._convex:
        assert abs(alternated.value - direct.value) <= 1e-5


@EVERY
@ORDERS
def test_one_pass_minimises_over_the_targets_first(kind, order):
    """Targets in order, at their best: the joint cost at them is the marginal."""
    problem, w = draw(kind, 4, order)
    joint = problem._minimized(0, np.concatenate((w, np.zeros(problem.groups.rows))))
    targets, blocks = joint[len(w) :], problem.blocks
    along = targets[blocks.order]
    lowest = np.minimum.reduceat(along, blocks.offsets[:-1])
    highest = np.maximum.reduceat(along, blocks.offsets[:-1])
    assert (lowest[1:][blocks.above[1:]] >= highest[:-1][blocks.above[1:]] - 1e-12).all()
    if order == "block":
        assert close(lowest, highest)
    if problem.link.simplex:
        assert close(problem.groups.sums(targets), 1.0)
        assert targets.min() >= 0


def test_the_start_ranks_better_than_nothing():
    X, y, qid = linear_queries()
    for kind in KINDS:
        divergence, options = KINDS[kind]
        problem = Retargeting(X, y, qid, divergence, l2=1e-3, **options)
        assert cr.metrics.kendall_tau(y, X @ problem.start(), qid) > 0.5, kind


# --- the trivial minimum ------------------------------------------------------------------------------------------


@EVERY
def test_nothing_costs_nothing_where_it_is_void(kind):
    problem, _ = draw(kind, 5)
    zero = np.zeros(problem.dimension)
    assert problem.zero_is_optimal == (problem.objective(zero) <= tolerance("summation"))
    if problem.zero_is_optimal:
        assert np.linalg.norm(problem.gradient(zero)) <= tolerance("summation")
        assert problem.is_collapsed(zero)


@pytest.mark.parametrize("kind", ["kl", "logistic", "I, no simplex"])
def test_the_trivial_minimum_is_reported(kind):
    X, y, qid = linear_queries()
    divergence, options = KINDS[kind]
    strong = Retargeting(X, y, qid, divergence, l2=10.0, **options)
    with pytest.warns(cr.ConvergenceWarning, match="trivial minimum"):
        solution = strong.solve()
    assert solution.converged
    assert "trivial minimum" in solution.message
    assert strong.is_collapsed(solution)
    with pytest.warns(cr.ConvergenceWarning, match="trivial minimum"):
        stuck = strong.solve("alternating", x0=np.zeros(3))
    assert stuck.iterations == 0


@pytest.mark.parametrize(("spread", "collapsed"), [(1e-15, True), (1e-10, False), (1e-6, False)])
def test_squares_have_no_scale_so_even_means_even_to_rounding(spread, collapsed):
    problem = Retargeting([[0.0], [1.0], [0.5]], [0, 1, 1], None, "squared", simplex=False, l2=1.0)
    assert problem.is_collapsed([spread]) == collapsed


def test_a_useful_local_minimum_is_not_reported():
    """Far out the tops of the queries alone count: where they are right, the cost falls again."""
    X, y, qid = linear_queries()
    problem = Retargeting(X, y, qid, "kl", l2=1e-4)
    start = problem.start()
    solution = problem.solve(x0=10.0 * start / np.linalg.norm(start))
    assert solution.converged
    assert solution.value > problem.objective(np.zeros(3)), "w = 0 is the global minimum all the same"
    assert "trivial" not in solution.message
    assert cr.metrics.kendall_tau(y, X @ solution.x, qid) > 0.5


def test_squares_with_offsets_always_say_where_they_go():
    X, y, qid = linear_queries(queries=4)
    problem = Retargeting(X, y, qid, l2=0.01)
    with pytest.warns(cr.ConvergenceWarning, match="w = 0, whatever the data"):
        done = problem.solve("exact")
    assert done.value <= tolerance("two solvers")
    with pytest.warns(cr.ConvergenceWarning, match="MAX_ITER.*w = 0, whatever the data"):
        stopped = problem.solve("alternating", max_iter=2)
    assert stopped.status is cr.Status.MAX_ITER
    assert not problem.is_collapsed(stopped)


# --- bad input ------------------------------------------------------------------------------------------------------

X4, Y4 = [[1.0], [0.0], [0.5], [0.2]], [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"divergence": "cosine"}, ValueError, "divergence"),
        ({"divergence": 3}, TypeError, "divergence"),
        ({"divergence": divergences.SquaredEuclidean([1.0, 2.0])}, ValueError, "weights"),
        ({"divergence": "shifted_generalized_i"}, ValueError, "leave the domain .* 4 rows"),
        ({"divergence": "itakura_saito", "simplex": False}, ValueError, "leave the slopes"),
        ({"divergence": "itakura_saito", "offsets": False}, ValueError, "leave the slopes"),
        ({"divergence": "generalized_i", "simplex": False, "offsets": True}, ValueError, "void"),
        ({"divergence": "kl", "l1": 0.1}, ValueError, "l1 is 0.1"),
        ({"order": "total"}, ValueError, "order"),
        ({"qid": [1, 1, 1]}, ValueError, "qid"),
        ({"y": [1, np.nan, 0, 0]}, ValueError, "y"),
        ({"y": [1, 1, 1, 1]}, ValueError, "nothing to rank"),
    ],
)
def test_bad_input_is_refused(options, error, words):
    arguments = {"y": Y4, "qid": None, **options}
    with pytest.raises(error, match=words):
        Retargeting(X4, **arguments)


def test_a_column_of_zeros_stays_without_weight():
    X, y, qid = linear_queries(queries=4)
    problem = Retargeting(np.hstack((X, np.zeros((len(X), 1)))), y, qid, "kl", offsets=False, l2=0.0)
    assert problem.start()[3] == 0.0
    assert problem.gradient(np.ones(4))[3] == 0.0


def test_a_solved_problem_can_be_pickled():
    X, y, qid = linear_queries(queries=4)
    for divergence in ("squared", "kl"):
        problem = Retargeting(X, y, qid, divergence, offsets=False, l2=0.01)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solution = problem.solve("alternating", max_iter=20)
            again = pickle.loads(pickle.dumps(problem)).solve("alternating", max_iter=20)
        assert np.array_equal(again.x, solution.x)


@pytest.mark.parametrize("divergence", ["kl", "generalized_i", "bit_entropy"])
def test_the_start_with_many_unknowns_makes_no_matrix_of_them(divergence, monkeypatch):
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(500, 320)), rng.integers(0, 3, size=500), np.repeat(np.arange(25), 20)
    problem = cr.problems.Retargeting(X, y, qid, divergence, l2=1e-2)
    fitted, exact = [], TargetRegression.fit
    monkeypatch.setattr(TargetRegression, "near", lambda self, targets: exact(self, targets, np.zeros(320)))
    fitted.append(problem.start())
    monkeypatch.undo()
    monkeypatch.setattr(TargetRegression, "fit", None)
    fitted.append(problem.start())
    assert np.abs(fitted[1] - fitted[0]).max() <= 0.05 * np.abs(fitted[0]).max()
