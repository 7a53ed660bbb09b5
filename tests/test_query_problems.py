"""What is particular to the problems over queries: groups, closed forms, identities with other formulations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse
from scipy.optimize import minimize_scalar

import convexrank as cr
from convexrank import metrics
from convexrank.core.capabilities import Shape
from convexrank.data import QueryGroups
from convexrank.divergences import KL, GeneralizedI, SquaredEuclidean
from convexrank.problems._linear_scores import LinearScores
from convexrank.problems.queries._base import random_queries
from convexrank.problems.queries.list_net import ListNet
from convexrank.problems.queries.ndcg_regression import NDCGRegression
from convexrank.problems.queries.rank_cosine import RankCosine
from convexrank.problems.queries.rank_svm import RankSVM
from tests.formulas import second_order_by_jax
from tests.query_references import queries
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")
KINDS = {
    "ListNet, softmax": (ListNet, {}),
    "ListNet, gains": (ListNet, {"target": "exp2", "normalize": True}),
    "squares": (NDCGRegression, {}),
    "squares without offsets": (NDCGRegression, {"offsets": False, "normalize": False}),
    "I-divergence": (NDCGRegression, {"divergence": "generalized_i"}),
    "I-divergence without offsets": (NDCGRegression, {"divergence": "generalized_i", "offsets": False}),
    "hinge": (RankSVM, {}),
    "squared hinge": (RankSVM, {"loss": "squared_hinge", "normalize": False}),
    "cosine": (RankCosine, {}),
    "correlation": (RankCosine, {"center": True, "gain": "linear"}),
}
EVERY = pytest.mark.parametrize("name", KINDS)
CONVEX = pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name][0] is not RankCosine])
DRAWN = pytest.mark.parametrize("seed", range(2))


def make(name, X, y, qid, **more):
    cls, options = KINDS[name]
    return cls(X, y, qid, **{**options, **more})


def draw(name, seed, **more):
    """A random instance of a kind, and a point."""
    rng = np.random.default_rng(seed)
    X, y, qid = random_queries(rng)
    return make(name, X, y, qid, **{"l2": 0.1, **more}), rng.normal(size=X.shape[1])


def close(a, b):
    return np.allclose(a, b, rtol=SUMMATION, atol=SUMMATION)


# --- three statements of each risk --------------------------------------------------------------------------------


@EVERY
@DRAWN
def test_fast_oracle_compiled_oracle_and_reference_agree(name, seed):
    problem, w = draw(name, seed)
    scores = problem.scores(w)
    value, slope = problem._risk_and_score_gradient(scores)
    # RankSVM's hinge may have another subgradient where a margin is met exactly, which random scores are not
    for other, other_slope in (
        LinearScores._risk_and_score_gradient(problem, scores),
        problem._reference_scores(scores),
        super(type(problem), problem)._reference_scores(scores),
    ):
        assert close(value, other)
        assert close(slope, other_slope)


@CONVEX
@DRAWN
def test_hessian_is_that_of_the_compiled_oracle(name, seed):
    problem, w = draw(name, seed)
    if problem._differentiable:
        for found, expected in zip(problem.second_order(w), second_order_by_jax(problem, w), strict=True):
            assert close(found, expected)
        twin = make(name, sparse.csr_array(problem.X), problem.y, problem.qid, l2=0.1)
        assert close(twin.hessian(w), problem.hessian(w))


@CONVEX
def test_fast_equals_exact_for_every_kind(name):
    report = cr.verify([draw(name, seed)[0] for seed in range(3)])
    assert report.ok, str(report)
    assert report.compared == 3


@EVERY
def test_gradient_of_every_kind_by_finite_differences(name):
    problem, w = draw(name, 3)
    if not problem._differentiable:
        return
    gradient = problem.gradient(w)
    for j, e in enumerate(1e-5 * np.eye(len(w))):
        difference = (problem.objective(w + e) - problem.objective(w - e)) / 2e-5
        assert abs(gradient[j] - difference) <= tolerance("central difference") * max(1.0, abs(difference))


# --- groups -------------------------------------------------------------------------------------------------------


@EVERY
@DRAWN
def test_the_order_of_rows_and_the_names_of_queries_do_not_matter(name, seed):
    problem, w = draw(name, seed)
    order = np.random.default_rng(seed).permutation(len(problem.y))
    words = np.array([f"query {number}" for number in problem.qid])
    twin = make(name, problem.X[order], problem.y[order], words[order], l2=0.1)
    assert close(twin.objective(w), problem.objective(w))
    assert close(twin._reference_minorant(w).slope, problem._reference_minorant(w).slope)
    grouped = make(name, problem.X, problem.y, QueryGroups.from_qid(problem.qid), l2=0.1)
    assert grouped.objective(w) == problem.objective(w)
    assert close(twin.solve().value, problem.solve().value)


@EVERY
def test_queries_with_one_row_or_one_grade_contribute_nothing(name):
    problem, w = draw(name, 1)
    rng = np.random.default_rng(0)
    X = np.vstack([problem.X, 100.0 * rng.normal(size=(6, problem.dimension))])
    y = np.r_[problem.y, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    names = np.array([f"{number}" for number in problem.qid])
    qid = np.r_[names, ["single", "relevant", "relevant", "relevant", "irrelevant", "irrelevant"]]
    more = make(name, X, y, qid, l2=0.1)
    assert more.idle_queries == problem.idle_queries + 3
    assert close(more.objective(w), problem.objective(w))
    gradient = more._risk_and_score_gradient(more.scores(w))[1]
    assert np.isfinite(gradient).all()
    assert not gradient[-6:].any()


@EVERY
def test_without_ids_all_rows_are_one_query(name):
    problem, w = draw(name, 2)
    rows = np.random.default_rng(0).permutation(len(problem.y))
    X, y = problem.X[rows], problem.y[rows]
    assert make(name, X, y, None).objective(w) == make(name, X, y, np.full(len(y), 7)).objective(w)


@EVERY
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y": [1.0, 1.0, 1.0, 1.0]}, "none of the 2 queries has two rows of different grades"),
        ({"y": [1.0, math.nan, 0.0, 1.0]}, "y contains NaN"),
        ({"y": [1.0, 0.0, 0.0]}, "y has 3 entries, expected 4"),
        ({"qid": [1, 1, 2]}, "qid has 3 entries, expected 4"),
        ({"qid": [1.0, 1.0, 2.0, math.nan]}, "qid contains NaN"),
        ({"qid": [[1], [1], [2], [2]]}, "qid has shape"),
        ({"qid": [1, 2, 3, 4]}, "none of the 4 queries"),
        ({"l2": -1.0}, "l2 is -1"),
        ({"X": [[1.0], [math.nan], [0.0], [0.0]]}, "NaN"),
    ],
)
def test_bad_input_is_refused(name, changes, words):
    good = {"X": [[1.0], [2.0], [0.5], [0.0]], "y": [1.0, 0.0, 0.0, 1.0], "qid": [1, 1, 2, 2]}
    make(name, **good)
    with pytest.raises((ValueError, TypeError), match=words):
        make(name, **{**good, **changes})


@pytest.mark.parametrize("name", ["ListNet, gains", "squares", "I-divergence", "cosine"])
def test_grades_without_gains_are_refused(name):
    for grades, words in (
        ([-1.0, 1.0], "negative grade -1"),
        ([0.0, 2000.0], "not finite; pass gain|not finite"),
    ):
        with pytest.raises(ValueError, match=words):
            make(name, [[1.0], [0.0]], grades, None)


@pytest.mark.parametrize(
    ("cls", "options", "words"),
    [
        (ListNet, {"target": "squared"}, "exp2, linear, softmax"),
        (NDCGRegression, {"divergence": "kl"}, "generalized_i, squared"),
        (NDCGRegression, {"gain": "none"}, "exp2, linear"),
        (RankSVM, {"loss": "logistic"}, "CrucialPairs takes any loss"),
        (RankCosine, {"l1": 0.1}, "l1 is 0.1, expected 0"),
        (RankCosine, {"smoothing": 0.0}, "smoothing is 0"),
    ],
)
def test_bad_options_are_refused(cls, options, words):
    with pytest.raises(ValueError, match=words):
        cls([[1.0], [0.0]], [1.0, 0.0], **options)


@EVERY
def test_a_column_of_zeros_and_far_scores_do_no_harm(name):
    problem, w = draw(name, 4)
    X = np.column_stack([problem.X, np.zeros(len(problem.y))])
    solution = make(name, X, problem.y, problem.qid, l2=0.1).solve()
    assert solution.converged
    assert abs(solution.x[-1]) <= tolerance("single precision")
    if "without offsets" not in name:  # e to the power of the score is then a prediction
        far = problem.objective(1e5 * w)
        assert np.isfinite(far)
        assert np.isfinite(problem._reference_minorant(1e5 * w).slope).all()


@EVERY
def test_features_too_small_to_matter_do_no_harm(name):
    problem, _ = draw(name, 4)
    solution = make(name, 1e-160 * problem.X, problem.y, problem.qid, l2=0.1).solve()
    assert solution.converged
    assert np.abs(solution.x).max() <= tolerance("summation")


# --- closed forms and identities ----------------------------------------------------------------------------------


@given(data=queries(most=3, largest=6))
@settings(max_examples=40)
def test_targets_are_shares_of_ndcg(data):
    """Targets over the discounts of any order add up to the NDCG of that order."""
    y, s, qid = data
    s = s + np.random.default_rng(0).permutation(len(y)) / 100.0  # no ties
    if not any(len(set(y[qid == name].tolist())) > 1 for name in qid):
        return
    problem = NDCGRegression(np.ones((len(y), 1)), y, qid)
    groups = problem.groups
    for query, name in enumerate(groups.ids):
        scores = s[qid == name]
        rank = np.argsort(np.argsort(-scores)) + 1
        found = problem.targets[problem.groups.slices[query]] @ (1.0 / np.log2(1.0 + rank))
        assert close(found, metrics.ndcg(y[qid == name], scores))


@DRAWN
@pytest.mark.parametrize("divergence", ["squared", "generalized_i"])
def test_offsets_are_the_best_ones(seed, divergence):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(6, 2)), np.array([2.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    w = rng.normal(size=2)
    with_offset = NDCGRegression(X, y, divergence=divergence).objective(w)
    column = np.column_stack([X, np.ones(6)])
    without = NDCGRegression(column, y, divergence=divergence, offsets=False)
    best = minimize_scalar(lambda offset: without.objective(np.r_[w, offset]))
    assert abs(with_offset - best.fun) <= tolerance("two solvers") * max(1.0, best.fun)


@DRAWN
def test_the_i_divergence_with_offsets_is_a_weighted_list_net(seed):
    problem, w = draw("I-divergence", seed, normalize=False)
    total = 0.0
    for query in range(len(problem.groups)):
        rows = problem._by_query[0][problem.groups.slices[query]]
        weight = problem.targets[problem.groups.slices[query]].sum()
        total += weight * ListNet(problem.X[rows], problem.y[rows], target="exp2").objective(w)
    assert close(problem.objective(w), total + 0.05 * w @ w)


@DRAWN
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_rank_svm_is_crucial_pairs_of_every_query(seed, loss):
    problem, w = draw("hinge", seed, loss=loss, normalize=False)
    pairs = [
        (i, j)
        for i, j in itertools.permutations(range(len(problem.y)), 2)
        if problem.qid[i] == problem.qid[j] and problem.y[i] > problem.y[j]
    ]
    twin = cr.problems.CrucialPairs(problem.X, pairs, loss=loss, l2=0.1)
    assert close(problem.objective(w), twin.objective(w))
    assert problem.pair_counts.sum() == len(pairs)
    assert abs(problem.solve().value - twin.solve().value) <= tolerance("two solvers")


@DRAWN
def test_rank_svm_of_one_list_is_the_convex_risk(seed):
    problem, w = draw("squared hinge", seed)
    X, y, n = problem.X, problem.y, len(problem.y)
    one = RankSVM(X, y, None, "squared_hinge", normalize=False)
    risk = cr.problems.ConvexRisk(X, y, "squared_hinge")
    assert close(one.objective(w), risk.objective(w) * n * (n - 1) / 2)


def test_list_net_fits_what_can_be_fitted():
    """With a weight for each row the scores are free: the softmax of the answer is the target."""
    y = np.array([2.0, 0.0, 1.0, 1.0, 0.0])
    qid = np.array([1, 1, 1, 2, 2])
    solution = ListNet(np.eye(5), y, qid, l2=1e-9).solve()
    for name in (1, 2):
        rows = qid == name
        shares = np.exp(solution.x[rows]) / np.exp(solution.x[rows]).sum()
        expected = np.exp(y[rows]) / np.exp(y[rows]).sum()
        assert np.abs(shares - expected).max() <= tolerance("conic point")


@pytest.mark.parametrize("name", ["ListNet, gains", "I-divergence", "I-divergence without offsets"])
def test_targets_of_zero_may_leave_no_minimiser(name):
    """A row without a target may fall for ever: the infimum is not reached, and the solve says so."""
    X, y = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), np.array([1.0, 0.0, 1.0, 0.0])
    if "without" in name:
        X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    problem = make(name, X, y, [1, 1, 2, 2])
    with pytest.warns(cr.ConvergenceWarning, match="SEPARABLE"):
        assert problem.solve().status is cr.Status.SEPARABLE
    assert make(name, X, y, [1, 1, 2, 2], l2=0.1).solve().converged


@pytest.mark.parametrize(
    "name", ["ListNet, softmax", "squares", "squares without offsets", "hinge", "squared hinge"]
)
def test_without_a_penalty_a_minimiser_exists(name):
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(12, 2)), np.tile([2.0, 1.0, 0.0], 4), np.repeat([1, 2, 3, 4], 3)
    assert make(name, X, y, qid).solve().converged


def test_divergences_may_be_objects():
    X, y = [[1.0], [2.0], [0.5]], [2, 1, 0]
    for name, divergence in (("squared", SquaredEuclidean()), ("generalized_i", GeneralizedI())):
        problem = NDCGRegression(X, y, None, divergence)
        assert problem.divergence == name
        assert problem.objective([0.3]) == NDCGRegression(X, y, None, name).objective([0.3])
    for divergence in (
        GeneralizedI(shift=1.0),
        SquaredEuclidean(weights=[1.0, 2.0, 1.0]),
        KL(),
        SquaredEuclidean,
    ):
        with pytest.raises(ValueError, match=r"expected one of: generalized_i, squared"):
            NDCGRegression(X, y, None, divergence)


def test_a_point_that_meets_every_hinge_exactly_is_proved_optimal():
    """There all of the first subgradient is zero; the evidence lies around the point."""
    problem = RankSVM([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [1, 0, 1, 0], [1, 1, 2, 2], l2=0.1)
    assert not problem._reference_minorant(np.ones(2)).slope.any()
    assert problem.certificate(np.ones(2)).gap <= tolerance("certificate found anew")
    assert problem.certificate(np.array([1.1, 1.0])).gap >= 0.05 * (1.1**2 - 1.0) - SUMMATION
    assert problem.solve("exact").converged


# --- RankCosine ---------------------------------------------------------------------------------------------------


def cosine_by_hand(problem, w):
    """The plain formula, query after query."""
    total = 0.5 * problem.l2 * float(w @ w)
    for name in set(problem.qid.tolist()):
        rows = problem.qid == name
        worth = 2.0 ** problem.y[rows] - 1.0 if problem.gain == "exp2" else problem.y[rows]
        scores = problem.X[rows] @ w
        if len(set(worth.tolist())) == 1:
            continue
        if problem.center:
            worth, scores = worth - worth.mean(), scores - scores.mean()
        length = math.sqrt(sum(s * s for s in scores) + len(scores) * problem.smoothing**2)
        total += 0.5 * (1.0 - float(worth @ scores) / (math.sqrt(sum(g * g for g in worth)) * length))
    return total


@pytest.mark.parametrize("seed", range(8))
def test_rank_cosine_is_its_formula(seed):
    problem = RankCosine.random(seed)
    w = np.random.default_rng(seed).normal(size=problem.dimension)
    assert close(problem.objective(w), cosine_by_hand(problem, w))
    assert close(problem.certificate(w).value, cosine_by_hand(problem, w))


def test_rank_cosine_of_one_query_is_the_correlation():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 2)), rng.integers(0, 4, 8).astype(float)
    w = np.array([0.7, -0.2])
    problem = RankCosine(X, y, center=True, gain="linear", smoothing=1e-9)
    assert abs(problem.objective(w) - (1 - np.corrcoef(X @ w, y)[0, 1]) / 2) <= SUMMATION
    assert abs(problem.objective(w) - problem.objective(50.0 * w)) <= SUMMATION


def test_rank_cosine_takes_grades_whose_squared_gains_overflow():
    problem = RankCosine([[1.0, 0.0], [0.0, 1.0], [0.3, 0.3]], [900, 899, 0], l2=0.1)
    smaller = RankCosine(problem.X, [40, 39, 0], l2=0.1)
    w = np.array([0.7, -0.2])
    assert close(problem.certificate(w).value, problem.objective(w))
    assert close(problem.objective(w), smaller.objective(w))
    assert np.isfinite(problem.certificate(w).gap)


def test_rank_cosine_is_not_convex_and_nothing_says_it_is():
    single = RankCosine([[1.0], [0.0]], [1.0, 0.0], l2=1e-4)
    left, middle, right = (single.objective([v]) for v in (-3.0, -1.0, 1.0))
    assert middle > (left + right) / 2
    assert not {"Exact", "Convex"} & single.capabilities
    assert single.face(Shape).strong_convexity == 0.0
    with pytest.raises(ValueError, match="no exact model"):
        single.to_cvxpy()
    with pytest.raises(ValueError, match="exact"):
        single.solve("exact")
    report = cr.verify(RankCosine, instances=2)
    assert not report.ok
    assert report.compared == 0
    assert "no exact model" in report.skipped[0]
    assert "RankCosine" not in cr.problems.REGISTRY


@pytest.mark.parametrize("seed", range(6))
def test_rank_cosine_ends_where_the_gradient_vanishes(seed):
    problem = RankCosine.random(seed)
    solution = problem.solve()
    assert solution.converged
    assert solution.certificate.kind == "residual"
    assert np.linalg.norm(problem.gradient(solution.x)) <= 1e-8 * max(1.0, solution.value)
    assert problem.objective(solution.x) <= problem.objective(np.zeros(problem.dimension)) + SUMMATION
