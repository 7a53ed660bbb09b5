"""SpectralPush and PartialAUC: what they are at the ends of their parameters, weights, queries, proofs, wrong input."""

from __future__ import annotations

import math
import pickle
from itertools import combinations, pairwise, product

import numpy as np
import pytest

import convexrank as cr
from convexrank import metrics
from convexrank.data import Spectrum
from convexrank.modelling import Groups, functions, maximum, mean, pair_means, softplus, square
from tests.tolerances import tolerance

# Few random rows have a clean top.
pytestmark = pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
P = cr.problems
SUMS = tolerance("summation")
LOSSES = ("exponential", "logistic", "hinge", "squared_hinge")
LOSS = pytest.mark.parametrize("loss", LOSSES)


def drawn(seed=0, rows=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    y = (X[:, 0] + rng.normal(size=rows) > 0.7).astype(int)
    return X, y, np.array([0.6, -0.2, 0.3])


def close(a, b, name="summation"):
    return abs(a - b) <= tolerance(name) * max(1.0, abs(b))


# --- what they are at the ends ----------------------------------------------------------------------------------------


@LOSS
def test_the_highest_one_is_rmax_push(loss):
    X, y, w = drawn()
    worst = P.RmaxPush(X, y, loss, l2=0.1)
    for problem in (P.SpectralPush(X, y, 1, loss, l2=0.1), P.PartialAUC(X, y, 1e-3, loss, l2=0.1)):
        assert close(problem.objective(w), worst.objective(w))
        assert close(problem.solve().value, worst.solve().value, "two solvers")


@LOSS
def test_all_negatives_are_their_mean_or_all_pairs(loss):
    X, y, w = drawn()
    f, cost = X @ w, cr.losses.resolve(loss)
    whole = np.mean([float(cost(np.array([f[i] - f[y == 0].mean()]))[0]) for i in np.flatnonzero(y)])
    for spectrum in ("uniform", ("top", 1.0), 1.0, ("top", 10**6), 10**6, np.full(7, 1 / 7)):
        assert close(P.SpectralPush(X, y, spectrum, loss).objective(w), whole)
    pairs = P.Push(X, y, 1.0, loss).objective(w) / (y.sum() * (y == 0).sum())
    assert close(P.PartialAUC(X, y, 1.0, loss).objective(w), pairs)
    assert P.SpectralPush(X, y, "uniform", "logistic")._differentiable
    assert not P.SpectralPush(X, y, ("top", 10**6), "logistic")._differentiable  # by its form


@LOSS
def test_the_level_is_below_the_pairs(loss):
    """Jensen's inequality; and a wider share is never worse."""
    X, y, w = drawn()
    values = []
    for share in (0.05, 0.3, 0.7, 1.0):
        push, area = P.SpectralPush(X, y, ("top", share), loss), P.PartialAUC(X, y, share, loss)
        values.append((push.objective(w), area.objective(w)))
        assert values[-1][0] <= values[-1][1] + SUMS
    for before, after in pairwise(values):
        assert after[0] <= before[0] + SUMS
        assert after[1] <= before[1] + SUMS


@pytest.mark.parametrize("max_fpr", [0.1, 0.33, 1.0])
def test_the_risk_bounds_the_partial_auc(max_fpr):
    """A hinge is at least 1 for a pair in the wrong order, and 0 for one in the right order with a margin of 1."""
    X, y, _ = drawn(rows=200)
    X[:, 0] += 2.0 * y
    problem = P.PartialAUC(X, y, max_fpr, "hinge", l2=1e-2)
    w = problem.solve().x
    assert np.abs(w).max() > 0.1
    wrong = 1.0 - metrics.partial_auc(y, X @ w, max_fpr) / max_fpr
    assert problem.definition(X @ w) >= wrong
    # scores whose wrong pairs are tied, at a loss of 1, and whose right pairs have a margin of 2
    scores = np.where(y, 2.0, 0.0)
    scores[np.flatnonzero(y)[:5]] = 0.0
    counted = P.PartialAUC(scores[:, None], y, max_fpr, "hinge").objective(np.ones(1))
    assert counted == pytest.approx(5 / y.sum(), rel=tolerance("summation"))


def test_two_rates_are_the_worst_pairs_of_all_choices():
    """The largest mean over a choice of positives and a choice of negatives, by enumeration; ties as well."""
    _, _, w = drawn()
    rng = np.random.default_rng(5)
    X, y = np.round(2.0 * rng.normal(size=(11, 3))) / 2.0, np.arange(11) < 5
    f = X @ w
    for loss in LOSSES:
        cost = cr.losses.resolve(loss)
        pairs = np.array([[float(cost(np.array([a - b]))[0]) for b in f[~y]] for a in f[y]])
        for positives, negatives in ((2, 3), (1, 1), (5, 2), (3, 6)):
            chosen = product(combinations(range(5), positives), combinations(range(6), negatives))
            worst = max(pairs[np.ix_(some, others)].mean() for some, others in chosen)
            rates = negatives / 6, loss, 1.0 - positives / 5 or None
            assert close(P.PartialAUC(X, y, *rates).objective(w), worst)


@LOSS
def test_two_rates_of_many_rows_take_a_sort_or_products(loss):
    """Kernels and certificates of more pairs than are listed, beside loops over the pairs that count."""
    rng = np.random.default_rng(6)
    f, y = rng.normal(size=1200), np.arange(1200) < 200
    problem = P.PartialAUC(f[:, None], y, 0.1, loss, 0.7, l2=1e-2)
    worst = np.sort(f[:200])[:60, None] - np.sort(f[200:])[-100:]
    mean = cr.losses.resolve(loss)(worst.ravel()).mean()
    assert close(problem.program.value_and_gradient(f)[0], mean)
    assert close(problem._reference_value(f), mean)
    solution = problem.solve()
    assert solution.converged
    assert solution.certificate.kind == "global"


def test_two_rates_say_what_they_have_not():
    X, y, w = drawn()
    problem = P.PartialAUC(X, y, 0.3, "logistic", 0.5, l2=0.1)
    with pytest.raises(TypeError, match="no fixed weights of its upper rows"):
        problem.hessian_product(w, w)
    with pytest.raises(ValueError, match="l1_max is not known"):
        problem.l1_max()
    f = Groups(y, None)
    with pytest.raises(ValueError, match="pair_means takes a loss that does not increase"):
        pair_means(functions.square, f.positive, f.negative, 0.5)
    with pytest.raises(ValueError, match=r"lowest is 0\.0, expected"):
        pair_means(functions.hinge, f.positive, f.negative, 0.0)


# --- rows, queries, proofs --------------------------------------------------------------------------------------------

KINDS = {
    "a share": (P.SpectralPush, {"spectrum": ("top", 0.3), "loss": "logistic"}),
    "a count": (P.SpectralPush, {"spectrum": ("top", 4), "loss": "hinge"}),
    "steps": (P.SpectralPush, {"spectrum": [0.0, 0.2, 0.8], "loss": "squared_hinge"}),
    "pairs": (P.PartialAUC, {"max_fpr": 0.35, "loss": "hinge"}),
    "both rates": (P.PartialAUC, {"max_fpr": 0.35, "loss": "hinge", "min_tpr": 0.55}),
    "smooth pairs": (P.PartialAUC, {"max_fpr": 0.35, "loss": "exponential"}),
}
KIND = pytest.mark.parametrize("kind", KINDS)


def made(kind, *rows, **options):
    cls, arguments = KINDS[kind]
    return cls(*rows, **arguments, **options)


@pytest.mark.parametrize(("kind", "queries"), [(kind, place % 2 == 1) for place, kind in enumerate(KINDS)])
def test_weights_and_queries_are_those_of_the_definition(kind, queries):
    X, y, w = drawn()
    rng = np.random.default_rng(1)
    weights = rng.choice([0.0, 0.5, 1.0, 2.5], size=len(y))
    qid = rng.integers(0, 4, size=len(y)) if queries else None
    problem = made(kind, X, y, l2=0.1, qid=qid, sample_weight=weights)
    for scores in (X @ w, np.round(X @ w), np.zeros(len(y))):
        assert close(problem._reference_value(scores), problem.definition(scores))
        assert close(problem.program.value_and_gradient(scores)[0], problem.definition(scores))
    fast, exact = problem.solve(), problem.solve("exact")
    assert fast.converged
    assert close(fast.value, exact.value, "two solvers")
    assert close(fast.dual.value, -fast.value, "two solvers")
    assert fast.dual.gap <= 100.0 * fast.gap + tolerance("fitted values")


@KIND
def test_rows_of_weight_two_are_two_rows(kind):
    X, y, _ = drawn()
    counts = np.random.default_rng(2).integers(1, 4, size=len(y))
    rows = np.repeat(np.arange(len(y)), counts)
    weighted = made(kind, X, y, l2=0.1, sample_weight=counts).solve(tol=1e-9)
    repeated = made(kind, X[rows], y[rows], l2=0.1).solve(tol=1e-9)
    assert close(weighted.value, repeated.value, "two solvers")
    multipliers = np.bincount(rows, repeated.weights)
    assert np.abs(weighted.weights - multipliers).max() < tolerance("small problems") * 10


@KIND
def test_gaps_are_proved(kind):
    pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")
    X, y, _ = drawn()
    weights = np.random.default_rng(3).choice([0.1, 1.0, 2.5], size=len(y))
    problem = made(kind, X, y, l2=0.1, sample_weight=weights)
    solution = problem.solve()
    proved = solution.prove()
    assert proved.kind == "global"
    assert proved.gap <= 2.0 * solution.gap + tolerance("fitted values")
    assert solution.dual.prove().gap <= 1e-5


def test_duals_where_no_kink_is_near_the_minimiser():
    """The subgradient there proves more than the evidence of a smoothed risk, which the solver stopped with."""
    problem = P.SpectralPush.random(30)
    problem = problem.changed(
        sample_weight=np.random.default_rng(30).choice([0.5, 1.0, 2.0], size=problem.rows)
    )
    solution = problem.solve()
    assert solution.gap < 1e-10 > solution.dual.gap


@KIND
def test_they_pickle_and_take_their_own_parameters(kind):
    X, y, w = drawn()
    problem = made(kind, X, y, l2=0.1)
    again = pickle.loads(pickle.dumps(problem))
    assert again.objective(w) == problem.objective(w) == problem.changed(l2=0.1).objective(w)


def test_many_rows_without_a_sort():
    """A selection: no slower than some reads of the scores."""
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=2000), np.arange(2000) < 100
    problem = P.SpectralPush(scores[:, None], y, ("top", 0.01), "hinge")
    highest = np.sort(scores[100:])[-19:]
    level = highest.mean()
    assert close(problem.objective([1.0]), np.maximum(0.0, 1.0 - scores[:100] + level).mean())


@pytest.mark.parametrize(
    ("kind", "weighted", "queries"),
    [
        (kind, *((False, 1), (True, 3))[place % 2])
        for place, kind in enumerate(kind for kind in KINDS if kind not in ("steps", "both rates"))
    ],
)
def test_the_largest_l1_that_matters(kind, weighted, queries):
    X, y, _ = drawn()
    X = X + 2.0 * y[:, None]
    given = {"qid": np.arange(len(y)) % queries}
    if weighted:
        given["sample_weight"] = np.random.default_rng(4).choice([0.5, 1.0, 2.5], size=len(y))
    largest = made(kind, X, y, **given).l1_max()
    beyond, below = (made(kind, X, y, **given, l1=c * largest) for c in (1.001, 0.9))
    at_zero = beyond.objective(np.zeros(3))
    assert beyond.solve("exact").value >= at_zero - tolerance("two solvers")
    assert below.solve("exact").value < at_zero - 100.0 * tolerance("two solvers")


@pytest.mark.parametrize("cls", [P.SpectralPush, P.PartialAUC])
def test_a_trivial_minimum_warns_and_more_negatives_mend_it(cls):
    """A negative above all positives: the highest one alone leaves w = 0."""
    x, y = np.array([[1.0], [0.6], [2.0], [-1.0], [-1.2], [-0.4]]), [1, 1, 0, 0, 0, 0]
    few, many = (("top", 1), "uniform") if cls is P.SpectralPush else (0.25, 1.0)
    with pytest.warns(cr.ConvergenceWarning, match="trivial minimum w = 0"):
        assert not np.round(cls(x, y, few, "hinge", l2=1e-3).solve().x, 6).any()
    assert cls(x, y, many, "hinge", l2=1e-3).solve().x > 0.1


# --- wrong input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spectrum", "error", "words"),
    [
        ("highest", ValueError, '"uniform"'),
        (("top",), ValueError, '"top", share'),
        (("bottom", 3), ValueError, '"top", share'),
        (("top", 0), ValueError, "at least 1"),
        (("top", 1.5), ValueError, "above 0 and at most 1"),
        (("top", -0.1), ValueError, "above 0 and at most 1"),
        (("top", "3"), TypeError, "real number"),
        (0, ValueError, "spectrum is 0, expected an integer of at least 1"),
        (1.5, ValueError, "spectrum is 1.5, expected a number above 0 and at most 1; pass 0.015"),
        (True, ValueError, "spectrum has shape"),
        ([0.7, 0.3], ValueError, "do not decrease"),
        ([0.3, 0.3], ValueError, "adds up to 0.6, expected 1"),
        ([[0.5, 0.5]], ValueError, "one number for each part"),
        (None, ValueError, 'spectrum has shape .*"uniform"'),
    ],
)
def test_wrong_spectra_are_refused(spectrum, error, words):
    X, y, _ = drawn()
    with pytest.raises(error, match=words):
        P.SpectralPush(X, y, spectrum)


@pytest.mark.parametrize(
    ("ends", "heights"),
    [
        ((), ()),
        ((1.0,), (1.0, 0.5)),
        ((1.0, 0.5), (1.1, 0.2)),
        ((0.5, 1.0), (0.5, 1.5)),
        ((0.5, 1.0), (2.5, -0.5)),
        ((0.5,), (3.0,)),
        ((2.0,), (0.5,)),
        ((math.nan,), (1.0,)),
        (tuple(k / 201 for k in range(1, 202)), tuple(2 - k / 201 for k in range(201))),
    ],
)
def test_steps_that_are_no_falling_density_are_refused(ends, heights):
    with pytest.raises(ValueError, match="heights that fall"):
        Spectrum(ends, heights)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, np.nan, np.inf])
def test_wrong_rates_are_refused(rate):
    X, y, _ = drawn()
    with pytest.raises(ValueError, match="max_fpr is"):
        P.PartialAUC(X, y, rate)
    with pytest.raises(ValueError, match="min_tpr is"):
        P.PartialAUC(X, y, 0.5, min_tpr=rate)


def test_a_kink_of_a_function_that_may_fall_has_no_l1_max_by_shares():
    """Tied entries of the highest with slopes of both signs share them in no way that rows alone tell."""
    X, y = np.array([[0.0], [0.0], [1.0], [1.0], [-1.0]]), [1, 1, 0, 0, 0]
    c = np.array([1.0, 1.0, -1.0])

    class Squares(cr.Formulation):
        def risk(self, f):
            return maximum(square(f.negative + c)) + mean(softplus(-f.positive))

    with pytest.raises(ValueError, match="l1_max is not known"):
        Squares(X, y).l1_max()

    # a loss that does not fall has it, whatever the constants
    class Rising(cr.Formulation):
        def risk(self, f):
            return maximum(softplus(f.negative + 0.0 * c)) + mean(softplus(-f.positive))

    most = Rising(X, y).l1_max()
    assert np.abs(Rising(X, y, l1=1.001 * most).solve().x).max() <= tolerance("conic value")
