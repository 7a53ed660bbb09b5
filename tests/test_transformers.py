"""ThresholdFeatures and LeafFeatures: scikit-learn's checks, plain loops, rankers behind them, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import convexrank as cr
from convexrank import LeafFeatures, PushRanker, ThresholdFeatures
from tests.tolerances import tolerance

FOREST = RandomForestRegressor(n_estimators=3, max_depth=2, random_state=0)


@parametrize_with_checks([ThresholdFeatures(bins=4), LeafFeatures(FOREST)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0).astype(int)


@pytest.mark.parametrize(
    "transformer",
    [
        ThresholdFeatures(bins=2),
        LeafFeatures(DecisionTreeClassifier(max_depth=2, random_state=0)),
        cr.QueryScaler(),
        cr.TableEncoder(),
    ],
    ids=lambda transformer: type(transformer).__name__,
)
def test_frames_out_have_the_names_and_the_index_of_frames_in(transformer):
    X, y = rows()
    table = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(60) + 100)
    plain = transformer.fit(table, y).transform(table)
    framed = clone(transformer).set_output(transform="pandas")
    if sparse.issparse(plain):
        with pytest.raises(ValueError, match="sparse"):
            framed.fit(table, y).transform(table)
        framed.set_params(sparse_output=False)
    found = framed.fit(table, y).transform(table)
    assert list(found.columns) == list(framed.get_feature_names_out())
    assert list(found.index) == list(table.index)
    np.testing.assert_array_equal(found.to_numpy(), plain.toarray() if sparse.issparse(plain) else plain)


def test_thresholds_are_those_of_the_fitted_rows():
    """By a loop: in a pipeline other rows were once held against thresholds of their own."""
    X, _ = rows()
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    made = ThresholdFeatures(bins=5).fit(table)
    other = table.iloc[:4] + 0.3
    found = made.transform(other).toarray()
    names = made.get_feature_names_out()
    assert found.shape == (4, len(names))
    for j, name in enumerate(names):
        column, threshold = name.split(" > ")
        exact = next(t for t in np.sort(X[:, "abc".index(column)]) if f"{t:.6g}" == f"{float(threshold):.6g}")
        assert found[:, j].tolist() == (other[column] > exact).astype(float).tolist()
    other.iloc[0, 1] = np.nan
    with pytest.raises(ValueError, match="column b has NaN in row 0, but none in the rows"):
        made.transform(other)


@pytest.mark.parametrize("kind", [cr.features.Thresholds, cr.features.Products])
@pytest.mark.parametrize("bins", [2, 5, 100])
def test_a_row_that_weighs_k_is_k_rows(kind, bins):
    rng = np.random.default_rng(bins)
    X = np.column_stack([rng.normal(size=40), rng.integers(0, 4, 40), rng.normal(size=40)])
    counts = rng.integers(0, 4, 40)
    weighted = kind(X, bins, sample_weight=counts)
    repeated = kind(X[np.repeat(np.arange(40), counts)], bins)
    plain = kind(X, bins)
    cuts = [[column.cuts.tolist() for column in design.levels] for design in (weighted, repeated, plain)]
    assert cuts[0] == cuts[1] != cuts[2]
    assert weighted.shape[0] == 40


@pytest.mark.parametrize("unit", [0.1, 1e-100, 1e100])
def test_the_unit_of_weights_does_not_move_thresholds(unit):
    for rows in range(8, 60):  # quantiles that sums of weights reach exactly, among others
        X = np.arange(float(rows))[:, None]
        made = [cr.features.Thresholds(X, 5, sample_weight=np.full(rows, weight)) for weight in (1.0, unit)]
        assert np.array_equal(made[0].levels[0].cuts, made[1].levels[0].cuts)


def test_a_weighted_fit_chooses_weighted_thresholds():
    rng = np.random.default_rng(0)
    X, counts = rng.normal(size=(50, 2)), rng.integers(0, 3, 50)
    labels = (X[:, 0] + rng.normal(size=50) > 0).astype(int)
    rows = np.repeat(np.arange(50), counts)
    options = {"bins": 4, "l1": 0.01, "l2": 0.01, "tol": 1e-12}
    for features in ("thresholds", "products"):
        ranker = PushRanker(features=features, **options)
        weighted = clone(ranker).fit(X, labels, sample_weight=counts)
        repeated = clone(ranker).fit(X[rows], labels[rows])
        found, expected = weighted.decision_function(X), repeated.decision_function(X)
        assert np.allclose(found - found[0], expected - expected[0], atol=tolerance("two points"))
        made = [
            ThresholdFeatures(4).fit(*given).get_feature_names_out().tolist()
            for given in ((X, labels, counts), (X[rows],))
        ]
        assert made[0] == made[1]


def test_a_pipeline_is_the_ranker_with_thresholds():
    X, y = rows()
    options = {"l1": 0.02, "l2": 0.01, "tol": 1e-12}
    piped = make_pipeline(ThresholdFeatures(bins=6), PushRanker(**options)).fit(X[:40], y[:40])
    whole = PushRanker(features="thresholds", bins=6, **options).fit(X[:40], y[:40])
    assert piped[-1].solution_.value == pytest.approx(whole.solution_.value, abs=tolerance("conic"))
    assert piped.decision_function(X[40:]) == pytest.approx(
        whole.decision_function(X[40:]), abs=tolerance("two points")
    )


@pytest.mark.parametrize(
    "ensemble", [FOREST, GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0)]
)
def test_leaves_are_columns(ensemble):
    X, y = rows()
    made = LeafFeatures(ensemble).fit(X[:40], y[:40])
    found, names = made.transform(X[40:]).toarray(), made.get_feature_names_out().tolist()
    leaves = made.ensemble_.apply(X[40:]).reshape(20, -1)
    expected = np.zeros_like(found)
    for row, fallen in enumerate(leaves):
        for tree, leaf in enumerate(fallen):
            if (name := f"tree {tree}, leaf {leaf:g}") in names:
                expected[row, names.index(name)] = 1.0
    assert np.array_equal(found, expected)
    assert expected.sum() > 0
    assert not hasattr(ensemble, "estimators_")  # a copy was fitted


def test_leaves_of_lightgbm():
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    X, y = rows(200)
    trees = lightgbm.LGBMClassifier(n_estimators=4, num_leaves=4, verbose=-1, n_jobs=1)
    made = LeafFeatures(trees).fit(X, y)
    assert (made.transform(X).sum(axis=1) == 4).all()


def test_bad_input_is_refused_by_name():
    X, y = rows()
    with pytest.raises(TypeError, match=r"ensemble is LinearRegression\(\), expected trees with apply"):
        LeafFeatures(LinearRegression()).fit(X, y)
    with pytest.raises(TypeError, match="ensemble is 3, expected trees"):
        LeafFeatures(3).fit(X, y)
    with pytest.raises(ValueError, match="bins"):
        ThresholdFeatures(bins=0).fit(X)
    with pytest.raises(ValueError, match="every feature is constant"):
        ThresholdFeatures().fit(np.ones((4, 2)))
