"""Rankers with calibrated probabilities, as estimators: scikit-learn's checks, held-out rows and queries."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from convexrank import BandCalibratedClassifier, PushRanker, RetargetingRanker, calibration
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")
# Scores are rounded to 40 binary digits before they are compared.
ROUNDED = 1e-9


# drawn by row, not by class: the check of one feature has ten rows, of which the five held out are of one class
FEW = {
    "check_fit2d_1feature": "its held-out rows are of one class, which is refused; one feature is tested below"
}


@parametrize_with_checks(
    [BandCalibratedClassifier(PushRanker(), held_out=0.5)], expected_failed_checks=lambda _: FEW
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def draw(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0.5).astype(int)


@pytest.mark.parametrize(
    "ranker",
    [PushRanker(), LogisticRegression(), make_pipeline(StandardScaler(), PushRanker())],
    ids=lambda ranker: type(ranker).__name__,
)
def test_probabilities_are_those_of_the_held_out_rows(ranker):
    X, y = draw()
    new = draw(50, 1)[0]
    labels = np.where(y == 1, "yes", "no")
    model = BandCalibratedClassifier(ranker, level=0.8, held_out=0.5, random_state=3).fit(X, labels)
    assert is_classifier(model)
    fit_X, held_X, fit_y, held_y = train_test_split(X, y, test_size=0.5, random_state=3)
    other = clone(ranker).fit(fit_X, fit_y)
    truth = calibration.calibrate(held_y, other.decision_function(held_X), level=0.8)
    assert model.calibration_.sizes == truth.sizes
    scores = other.decision_function(new)
    proba = model.predict_proba(new)
    np.testing.assert_allclose(proba[:, 1], truth.predict(scores), atol=ROUNDED / np.diff(truth.scores).min())
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=SUMMATION)
    np.testing.assert_allclose(model.predict_interval(new), truth.interval(scores), rtol=SUMMATION)
    np.testing.assert_array_equal(model.predict(new) == "yes", proba[:, 1] > 0.5)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_interval(new), model.predict_interval(new))


def test_whole_queries_are_held_out_and_count_once():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(900, 2)), np.repeat([f"q{number}" for number in range(90)], 10)
    y = (X[:, 0] + 0.5 * rng.normal(size=900) > 0.5).astype(int)
    order = rng.permutation(900)
    model = BandCalibratedClassifier(RetargetingRanker(), held_out=0.5).fit(X[order], y[order], qid[order])
    assert sum(model.calibration_.sizes.values()) == 45
    seen = [set(), set()]

    class Spy(RetargetingRanker):
        def fit(self, X, y, qid=None):
            seen[0] |= set(map(tuple, X))
            return super().fit(X, y, qid)

    BandCalibratedClassifier(Spy(), held_out=0.5).fit(X[order], y[order], qid[order])
    fitted = np.array([tuple(row) in seen[0] for row in X]).reshape(90, 10)
    assert (fitted.all(axis=1) | ~fitted.any(axis=1)).all()
    assert fitted.all(axis=1).sum() == 45
    intervals = model.predict_interval(X)
    assert (intervals[:, 0] <= intervals[:, 1]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 95}, "^level is 95"),
        ({"held_out": 0.0}, "^held_out is 0.0"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        BandCalibratedClassifier(PushRanker(), **options).fit(*draw())


def test_bad_rows_are_refused():
    X, y = draw(100)
    with pytest.raises(ValueError, match=r"^qid has 99"):
        BandCalibratedClassifier(RetargetingRanker()).fit(X, y, np.arange(99))
    with pytest.raises(TypeError, match=r"^estimator is "):
        BandCalibratedClassifier(PushRanker).fit(X, y)
    with pytest.raises(ValueError, match=r"^y "):
        BandCalibratedClassifier(PushRanker()).fit(X, np.ones(100))
    X, rare = np.append(np.ones((1, 2)), np.zeros((99, 2)), axis=0), np.append(1, np.zeros(99))
    with pytest.raises(ValueError, match=r"^y: the 30 held-out rows are all of class 0"):
        BandCalibratedClassifier(PushRanker()).fit(X, rare)


def test_one_feature_is_enough():
    X, y = draw()
    assert BandCalibratedClassifier(PushRanker()).fit(X[:, :1], y).predict_interval(X[:, :1]).shape == (
        600,
        2,
    )


def test_scores_beyond_floats_are_at_the_ends():
    X, y = draw()
    model = BandCalibratedClassifier(PushRanker(), held_out=0.5).fit(X, y)
    far = np.array([[-1.0, 0.0], [1.0, 0.0]])
    model.estimator_.coef_ = np.array([np.inf, 1.0])
    ends = model.calibration_.interval([-np.finfo(float).max, np.finfo(float).max])
    np.testing.assert_array_equal(model.predict_interval(far), ends)
