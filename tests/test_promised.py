"""Thresholds that keep promises, as estimators: scikit-learn's checks, held-out rows, training rows, figures."""

from __future__ import annotations

import pickle
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from convexrank import PromisedThresholdClassifier, PushRanker, inference, plotting

PROMISES = ("max_fpr", "min_precision", "min_recall")


# so small a confidence that one held-out negative is enough: the checks have few rows
@parametrize_with_checks([PromisedThresholdClassifier(PushRanker(), max_fpr=0.05, confidence=0.04)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    plt.close("all")


def draw(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0.5).astype(int)


@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize(
    "ranker",
    [PushRanker(), LogisticRegression(), LinearRegression(), make_pipeline(StandardScaler(), PushRanker())],
    ids=lambda ranker: type(ranker).__name__,
)
def test_the_threshold_is_that_of_the_held_out_rows(promise, ranker):
    X, y = draw()
    model = PromisedThresholdClassifier(ranker, held_out=0.5, random_state=3, **{promise: 0.7}).fit(X, y)
    assert is_classifier(model)
    classes = None if promise == "min_precision" else y
    fit_X, held_X, fit_y, held_y = train_test_split(X, y, test_size=0.5, random_state=3, stratify=classes)
    other = clone(ranker).fit(fit_X, fit_y)
    scores = getattr(other, "decision_function", other.predict)(held_X)
    found = inference.threshold(held_y, scores, **{promise: 0.7})
    # up to the digits that the classifier rounds
    assert model.threshold_ == pytest.approx(found.threshold, abs=1e-9 * np.abs(scores).max())
    np.testing.assert_array_equal(model.predict(held_X), (scores > found.threshold).astype(int))
    assert model.promise_.rates == found.rates
    # and not that of the rows of the fit
    seen = inference.threshold(
        fit_y, getattr(other, "decision_function", other.predict)(fit_X), **{promise: 0.7}
    )
    assert seen.threshold != pytest.approx(found.threshold)


class Jittered(LinearRegression):
    """Scores of a single row have another last digit, as those of products of another shape may have."""

    def predict(self, X):
        return super().predict(X).round(6) * (1.0 + 4e-16 * (len(X) == 1))


def test_a_last_digit_moves_no_row_over_the_threshold():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, size=(900, 2)) + 1.0
    y = (X.sum(axis=1) + 0.4 * rng.normal(size=900) > 4.5).astype(int)
    model = PromisedThresholdClassifier(Jittered(), min_precision=0.6, held_out=0.5).fit(X, y)
    at = X[np.isclose(model.estimator_.predict(X), model.threshold_)]
    assert len(at) > 0
    assert not model.predict(at).any()
    assert not any(model.predict(row[None])[0] for row in at)
    assert model.estimator_.predict(at[:1])[0] > model.promise_.threshold  # as it is without rounding


def test_labels_frames_and_pickles():
    pandas = pytest.importorskip("pandas")
    X, y = draw()
    plain = PromisedThresholdClassifier(PushRanker(), max_fpr=0.1).fit(X, y)
    frame = pandas.DataFrame(X, columns=["a", "b"])
    named = PromisedThresholdClassifier(PushRanker(), max_fpr=0.1).fit(frame, np.where(y == 1, "yes", "no"))
    assert named.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(named.predict(frame) == "yes", plain.predict(X) == 1)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(plain)).predict(X), plain.predict(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "^no promise is given"),
        ({"max_fpr": 0.1, "min_recall": 0.1}, "^max_fpr and min_recall are given"),
        ({"max_fpr": 0.001}, "negatives, expected at least 2995 for max_fpr=0.001"),
        ({"max_fpr": 0.1, "held_out": 1.5}, "^held_out is 1.5"),
        ({"max_fpr": 0.1, "confidence": 0.0}, "^confidence is 0.0"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        PromisedThresholdClassifier(PushRanker(), **options).fit(*draw())


# --- thresholds of fitted rankers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("promise", PROMISES)
def test_threshold_for_takes_held_out_rows(promise):
    X, y = draw()
    ranker = PushRanker().fit(X[:300], y[:300])
    found = ranker.threshold_for(X[300:], y[300:], **{promise: 0.6}, confidence=0.9)
    expected = inference.threshold(y[300:], ranker.predict(X[300:]), **{promise: 0.6}, confidence=0.9)
    assert found == expected


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_rows_of_the_fit_are_recognised(container):
    X, y = draw()
    for labels in (y, np.where(y == 1, "yes", "no")):
        ranker = PushRanker().fit(container(X[:300]), labels[:300])
        with pytest.warns(UserWarning, match="^X and y are the 300 rows of fit") as caught:
            ranker.threshold_for(container(X[:300]), labels[:300], max_fpr=0.1)
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ranker.threshold_for(container(X[300:]), labels[300:], max_fpr=0.1)


def test_labels_that_the_fit_did_not_see_are_refused():
    X, y = draw()
    ranker = PushRanker().fit(X, y)
    with pytest.raises(ValueError, match=r"^y has the labels \[1, 2\], expected those of the fit, \[0, 1\]"):
        ranker.threshold_for(X, y + 1, max_fpr=0.1)
    with pytest.raises(ValueError, match=r"^y "):
        ranker.threshold_for(X, np.ones(600), max_fpr=0.1)
    with pytest.raises(ValueError, match=r"^scores has 600"):
        ranker.threshold_for(X, y[:300], max_fpr=0.1)


# --- the figure -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("promise", "rate"), [(PROMISES[0], "recall"), (PROMISES[1], "recall"), (PROMISES[2], "share")]
)
def test_the_figure_draws_promises_against_their_yield(promise, rate):
    X, y = draw()
    scores = X[:, 0]
    panel = plotting.promises(y, scores, promise, confidence=[0.8, 0.95])
    assert [line.get_label() for line in panel.lines] == ["confidence 80 %", "confidence 95 %", "these rows"]
    for line, confidence in zip(panel.lines, (0.8, 0.95), strict=False):
        limits, heights = line.get_xydata().T
        assert np.isfinite(heights).any()
        for limit, height in zip(limits[::40], heights[::40], strict=True):
            if np.isnan(height):
                with pytest.raises(ValueError, match=r"rows|negatives|positives"):
                    inference.threshold(y, scores, **{promise: limit}, confidence=confidence)
            else:
                found = inference.threshold(y, scores, **{promise: limit}, confidence=confidence)
                assert height == found.rates[rate]


def test_the_figure_has_the_rates_of_these_rows_where_none_is_near_a_limit():
    """Two scores: all rows, or none, are above a threshold."""
    panel = plotting.promises(np.repeat([0, 1], 40), np.repeat([0.0, 1.0], 40), "min_recall")
    own = panel.lines[-1]
    assert own.get_label() == "these rows"
    assert len(own.get_xydata()) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"promise": "max_recall"}, "^promise is 'max_recall'"),
        ({"confidence": ()}, "^confidence is "),
        ({"confidence": [95]}, "^confidence is 95"),
    ],
)
def test_bad_options_of_the_figure_are_refused(options, message):
    X, y = draw()
    with pytest.raises(ValueError, match=message):
        plotting.promises(y, X[:, 0], **options)
