"""Conformal intervals, and names that changed."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import convexrank as cr
from convexrank.estimators.held_out import conformal_place


@pytest.fixture(scope="module")
def fitted():
    dose = cr.data.load_dose_response()
    return cr.SingleIndexRegressor().fit(dose.X[:200], dose.y[:200]), dose


def test_the_interval_is_the_prediction_and_an_error(fitted):
    model, dose = fitted
    X, y = dose.X[200:239], dose.y[200:239]
    errors = sorted(abs(y - model.predict(X)))
    ends = model.conformal_interval(dose.X[400:], X, y, level=0.8)
    predicted = model.predict(dose.X[400:])
    assert np.array_equal(
        ends, np.stack([predicted - errors[31], predicted + errors[31]], axis=-1)
    )  # 40 · 0.8 = 32
    assert np.isinf(model.conformal_interval(dose.X[400:], X[:3], y[:3], level=0.9)).all()


def test_places_are_exact_for_decimal_levels():
    rounded = 0
    for count in range(1, 120):
        for part in range(1, 100):
            wanted = math.ceil((count + 1) * Fraction(part, 100))
            assert conformal_place(count, part / 100) == wanted
            rounded += math.ceil((count + 1) * (part / 100)) != wanted
    assert rounded, "floats would do"


def test_new_responses_are_held_as_often_as_promised(fitted):
    """Over all splits of the other rows the mean coverage lies between level and level + 1/(m + 1)."""
    model, dose = fitted
    rng = np.random.default_rng(0)
    errors = np.abs(dose.y[200:] - model.predict(dose.X[200:]))
    level, m, held = 0.7, 19, []
    for _ in range(4000):
        chosen = rng.permutation(400)[: m + 1]
        reach = np.sort(errors[chosen[:m]])[conformal_place(m, level) - 1]
        held.append(errors[chosen[m]] <= reach)
    spread = math.sqrt(level * (1 - level) / len(held))
    assert level - 4 * spread <= np.mean(held) <= level + 1 / (m + 1) + 4 * spread


def test_the_rows_of_the_fit_are_recognised(fitted):
    model, dose = fitted
    with pytest.warns(
        UserWarning, match="are the 200 rows of fit, expected rows that fit did not see"
    ) as caught:
        model.conformal_interval(dose.X[400:], dose.X[:200].tolist(), dose.y[:200])
    assert caught[0].filename == __file__


def test_bad_arguments_are_named(fitted):
    model, dose = fitted
    for level in (0.0, 1.0, 90):
        with pytest.raises(ValueError, match="level"):
            model.conformal_interval(dose.X, dose.X, dose.y, level=level)
    with pytest.raises(ValueError, match="y_calibration"):
        model.conformal_interval(dose.X, dose.X, dose.y[:-1])


def test_the_old_name_warns_the_caller(fitted):
    model, dose = fitted
    with pytest.warns(FutureWarning, match="write link_interval") as caught:
        old = model.predict_interval(dose.X)
    assert caught[0].filename == __file__
    assert np.array_equal(old, model.link_interval(dose.X))
