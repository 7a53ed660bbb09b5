"""OnlineMEMR: scikit-learn's checks, the steps by hand, regret against the best fixed weights, and its bound."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import convexrank as cr
from convexrank import OnlineMEMR
from convexrank.problems.margin_retargeting.margin_retargeting import MarginRetargeting
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")


@parametrize_with_checks([OnlineMEMR()])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's own warnings about skipped checks
        check(estimator)


def stream(rounds, contrary=True, seed=0):
    """Queries of six documents; contrary: their order follows the signal or its reverse, by lot."""
    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(6 * rounds, 3)), np.repeat(np.arange(rounds), 6)
    signs = np.repeat(rng.choice([-1.0, 1.0], size=rounds), 6) if contrary else 1.0
    noisy = signs * (X @ [2.0, -1.0, 0.5]) + 0.5 * rng.normal(size=len(X))
    y = np.clip(np.round(noisy), 0, 2)
    y[::6], y[1::6] = 0.0, 1.0  # so that each query is a round
    return X, y, qid


def close(a, b, name="summation"):
    return np.allclose(a, b, rtol=tolerance(name), atol=tolerance(name))


def test_rounds_by_hand():
    X, y, qid = stream(12)
    sigma, radius, w, losses = 0.3, 2.0, np.zeros(3), []
    for t in range(1, 13):
        rows = qid == t - 1
        problem = MarginRetargeting(X[rows], y[rows], None, "squared", 1.0, l2=sigma)
        losses.append(problem.objective(w))
        w = w - problem.gradient(w) / (sigma * t)
        w *= min(1.0, radius / np.linalg.norm(w))
    at_once = OnlineMEMR(sigma, radius=radius).fit(X, y, qid)
    one_by_one = OnlineMEMR(sigma, radius=radius)
    for query in range(12):
        one_by_one.partial_fit(X[qid == query], y[qid == query])
    for learner in (at_once, one_by_one, OnlineMEMR(sigma, radius=radius).fit(sparse.csr_array(X), y, qid)):
        assert close(learner.coef_, w)
        assert close(learner.losses_, losses)
        assert learner.rounds_ == 12
    assert close(at_once.predict(X), X @ w)


@pytest.mark.parametrize("contrary", [True, False])
@pytest.mark.parametrize(
    ("sigma", "options"),
    [
        (0.05, {}),
        (0.5, {}),
        (0.5, {"reward": 0.1}),
        (0.5, {"divergence": "bit_entropy", "margin": 0.2, "target_reg": 1.0}),
        (0.5, {"margin": lambda rank: 1.0 / rank, "radius": 3.0}),
    ],
)
def test_regret_is_within_the_bound(sigma, options, contrary):
    X, y, qid = stream(40, contrary)
    learner = OnlineMEMR(sigma, **options).fit(X, y, qid)
    best = learner._problem(X, y, qid, 40 * sigma).solve()
    assert close(learner.regret(X, y, qid), learner.losses_.sum() - best.value)
    assert np.linalg.norm(best.x) <= learner._reach
    assert 0.0 <= learner.regret(X, y, qid) <= learner.regret_bound_
    expected = learner.steepest_**2 / (2.0 * sigma) * (1.0 + math.log(40))
    assert learner.regret_bound_ == pytest.approx(expected)


@pytest.fixture(scope="module")
def learned():
    """A long stream, and what learns from it."""
    X, y, qid = stream(640)
    return X, y, qid, OnlineMEMR(1.0).fit(X, y, qid)


def test_regret_grows_with_the_logarithm(learned):
    """Where the right weights keep changing it grows, and by no more each time the rounds are four times as many."""
    X, y, qid, learner = learned
    regrets = [learner.regret(X, y, qid, rounds=count) for count in (40, 160, 640)]
    first, second = np.diff(regrets)
    assert 0.0 < second <= 1.5 * first  # a square root would double it


def test_a_planted_step_is_noticed(learned, monkeypatch):
    """With steps 1/(σ√t) in place of 1/(σt) the regret outgrows the logarithm."""
    X, y, qid, learner = learned
    right = learner.regret(X, y, qid)

    def slow(self, w, problem):
        rounds = len(getattr(self, "_planted", []))
        self._planted = [*getattr(self, "_planted", []), 0]
        return self.coef_ + (w - self.coef_) * math.sqrt(rounds + 1)

    monkeypatch.setattr(OnlineMEMR, "_within", slow)
    learner = OnlineMEMR(1.0)
    for query in range(640):
        learner.partial_fit(X[qid == query], y[qid == query])
    assert learner.regret(X, y, qid) > 3.0 * right


def test_without_the_ball_the_first_steps_explode():
    """Why the ball is there: a small σ makes the first steps 1/(σt) far too long."""
    X, y, qid = stream(40)
    free = OnlineMEMR(1e-3, radius=1e12).fit(X, y, qid)
    held = OnlineMEMR(1e-3).fit(X, y, qid)
    assert free.steepest_ > 1e3 * held.steepest_


def test_queries_that_ask_nothing_are_no_rounds():
    X, y, qid = stream(5)
    extra = np.vstack([X, np.ones((3, 3))]), np.r_[y, 1.0, 2.0, 2.0], np.r_[qid, 7, 8, 8]
    learner, plain = OnlineMEMR().fit(*extra), OnlineMEMR().fit(X, y, qid)
    assert learner.rounds_ == 5
    assert close(learner.coef_, plain.coef_)
    assert close(learner.regret(*extra), plain.regret(X, y, qid))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"sigma": 0.0}, ValueError, "sigma is 0.0"),
        ({"radius": -1.0}, ValueError, "radius is -1.0"),
        ({"margin": [0.5, 1.0]}, TypeError, "grades of rounds to come"),
        ({"divergence": "generalized_i"}, ValueError, "not strongly convex"),
        ({"margin": -1.0}, ValueError, "margin is -1.0"),
    ],
)
def test_bad_parameters_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        OnlineMEMR(**options).fit(*stream(3))


def test_regret_asks_for_the_rounds_played():
    X, y, qid = stream(6)
    learner = cr.OnlineMEMR().fit(X, y, qid)
    for rounds, rows in ((7, slice(None)), (6, qid < 4)):
        with pytest.raises(ValueError, match="6 were played"):
            learner.regret(X[rows], y[rows], qid[rows], rounds=rounds)


def test_before_the_first_round():
    X, y, _ = stream(1)
    learner = cr.OnlineMEMR().fit(X, np.ones(len(y)))
    assert (learner.rounds_, learner.regret_bound_) == (0, 0.0)
    with pytest.raises(ValueError, match="no round was played"):
        learner.regret(X, y)
    for call in (lambda: cr.OnlineMEMR().regret_bound_, lambda: cr.OnlineMEMR().regret(X, y)):
        with pytest.raises(NotFittedError):
            call()
