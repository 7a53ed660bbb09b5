"""PatMat: the threshold by hand, its promise, limits of its scale, weights and queries, closed forms, wrong input."""

from __future__ import annotations

import numpy as np
import pytest

import convexrank as cr
from convexrank import losses
from convexrank.modelling import log_mean_exp, mean, softplus, threshold
from convexrank.problems import PatMat, RmaxPush
from tests.tolerances import tolerance

SUMS = tolerance("summation")
SURROGATES = ("squared_hinge", "exponential", "logistic")


@pytest.fixture
def data():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(50, 3)), rng.random(50) < 0.3
    return X, y, rng.normal(size=3)


def close(a, b, tol=SUMS):
    return np.abs(np.asarray(a) - b).max() <= tol * max(1.0, np.abs(b).max())


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("over", ["negatives", "all"])
@pytest.mark.parametrize("tau", [0.02, 0.3])
def test_the_mean_at_the_threshold_is_tau_and_few_rows_are_above(data, surrogate, over, tau):
    X, y, w = data
    problem = PatMat(X, y, tau, surrogate=surrogate, beta=2.0, over=over)
    (t,) = problem.threshold(w)
    rows = (X @ w)[~y] if over == "negatives" else X @ w
    psi = losses.resolve(surrogate)
    assert close(psi(2.0 * (t - rows)).mean(), tau)
    at_zero = float(psi(np.zeros(1))[0])
    assert (rows >= t).mean() <= tau / at_zero
    assert close(problem.objective(w), (np.maximum(0.0, 1.0 - (X @ w)[y] + t) ** 2).mean())


def test_the_exponentials_threshold_has_a_closed_form(data):
    X, y, w = data
    for beta in (0.5, 3.0, 1e3):
        (t,) = PatMat(X, y, 0.1, surrogate="exponential", beta=beta).threshold(w)
        f = beta * (X @ w)[~y]
        assert close(t, (f.max() + np.log(np.exp(f - f.max()).mean()) - np.log(0.1)) / beta)


def test_with_a_large_scale_it_is_the_push_against_the_highest_negative(data):
    X, y, w = data
    problem = PatMat(X, y, 0.1, "hinge", beta=1e7)
    assert close(problem.objective(w), RmaxPush(X, y, "hinge").objective(w), 1e-5)


def test_scores_of_any_size(data):
    X, y, w = data
    (t,) = PatMat(X, y, 0.1).threshold(w)
    (far,) = PatMat(np.c_[X, np.ones(len(y))], y, 0.1).threshold(np.r_[w, 1e6])
    assert close(far - 1e6, t, 1e-9)
    (steep,) = PatMat(X, y, 0.1, beta=1e-6).threshold(1e6 * w)
    assert close(steep, 1e6 * t, 1e-9)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_a_threshold_far_above_scores_of_0_is_found_by_certificates_as_well(data, surrogate):
    """Of two negatives and a small tau it is above the scores by much more than the scale: the search had no end."""
    X, y, _ = data
    few = np.r_[np.flatnonzero(y), np.flatnonzero(~y)[:2]]
    problem = PatMat(X[few], y[few], 1e-3, surrogate=surrogate, l2=1.0)
    assert problem.solve().status is cr.Status.CONVERGED
    assert problem.certificate(np.zeros(X.shape[1])).gap < problem.objective(np.zeros(X.shape[1]))


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_weights_are_repeated_rows_and_queries_are_added_up(data, surrogate):
    X, y, w = data
    weight = np.random.default_rng(0).integers(0, 3, size=len(y))
    weight[[np.argmax(y), np.argmin(y)]] = 2
    rows = np.repeat(np.arange(len(y)), weight)
    for over in ("negatives", "all"):
        options = {"surrogate": surrogate, "over": over}
        weighted = PatMat(X, y, 0.2, sample_weight=weight, **options).objective(w)
        assert close(weighted, PatMat(X[rows], y[rows], 0.2, **options).objective(w))
        qid = np.arange(len(y)) % 3
        parts = [PatMat(X[qid == q], y[qid == q], 0.2, **options) for q in range(3)]
        whole = PatMat(X, y, 0.2, qid=qid, **options)
        assert close(whole.objective(w), sum(part.objective(w) for part in parts))
        assert close(whole.threshold(w), np.concatenate([part.threshold(w) for part in parts]))


def test_gradient_by_differences(data):
    X, y, w = data
    step = tolerance("difference_step")
    for surrogate in SURROGATES:
        problem = PatMat(X, y, 0.2, "logistic", surrogate, 1.5, l2=0.1)
        slope = problem.value_and_gradient(w)[1]
        for k, unit in enumerate(np.eye(3)):
            ends = [problem.objective(w + side * step * unit) for side in (1.0, -1.0)]
            assert close((ends[0] - ends[1]) / (2.0 * step), slope[k], tolerance("central difference"))


@pytest.mark.parametrize(("over", "status"), [("negatives", "SEPARABLE"), ("all", "CONVERGED")])
@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")
def test_a_threshold_of_all_rows_follows_the_positives(over, status):
    problem = PatMat([[2.0], [1.5], [0.0]], [1, 1, 0], 0.3, "exponential", over=over)
    assert problem.solve().status.name == status


def test_a_threshold_in_a_risk_of_ones_own(data):
    X, y, w = data

    class Mine(cr.Formulation):
        def risk(self, f):
            return mean(softplus(threshold(f.negative, losses.Exponential(), 0.2) - f.positive))

    class ByHand(cr.Formulation):
        def risk(self, f):
            return mean(softplus(log_mean_exp(f.negative) - np.log(0.2) - f.positive))

    assert close(Mine(X, y).objective(w), ByHand(X, y).objective(w))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tau": 0.0}, "tau"),
        ({"tau": 1.0}, "tau"),
        ({"tau": 5}, "0.05 for 5 %"),
        ({"beta": 0.0}, "beta"),
        ({"beta": np.inf}, "beta"),
        ({"over": "positives"}, "over"),
        ({"surrogate": "hinge"}, "smooth loss"),
        ({"loss": "absolute"}, "loss"),
    ],
)
def test_wrong_arguments_are_refused(data, arguments, message):
    X, y, _ = data
    with pytest.raises((ValueError, TypeError), match=message):
        PatMat(X, y, **arguments)


def test_ties_everywhere_say_that_nothing_is_gained():
    with pytest.warns(cr.ConvergenceWarning, match="trivial minimum"):
        solution = PatMat(np.zeros((4, 1)), [1, 1, 0, 0], 0.25, l2=1.0).solve()
    assert solution.status is cr.Status.CONVERGED
    assert close(solution.value, 1.5**2)  # t with (1 − t)² = 1/4
