"""Objectives for gradient boosting: against the formulations, differences, and fits by the packages themselves."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import convexrank as cr
from convexrank import objectives
from convexrank.modelling import mean, softplus
from convexrank.problems import REGISTRY
from tests.tolerances import tolerance

DECLARED = [name for name, cls in REGISTRY.items() if issubclass(cls, cr.Formulation)]


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n) > 0.8).astype(int)


@pytest.mark.parametrize("name", DECLARED)
def test_gradients_are_those_of_the_risk_by_differences(name):
    drawn = REGISTRY[name].random(3)
    options = set(inspect.signature(REGISTRY[name]).parameters) - {
        "X",
        "y",
        "qid",
        "sample_weight",
        "l1",
        "l2",
    }
    fields = {key: getattr(drawn, key) for key in options}
    group, order = None, np.arange(drawn.rows)
    if drawn.qid is not None:
        group, order = np.unique(drawn.qid, return_counts=True)[1], np.argsort(drawn.qid, kind="stable")
    y, rng, step = np.asarray(drawn.y)[order], np.random.default_rng(0), 1e-5
    scores, direction = rng.normal(size=(2, drawn.rows))
    gradient, curvature = objectives.Objective(REGISTRY[name], fields)(scores, y, None, group)
    assert (curvature > 0.0).all()
    queries = {} if group is None else {"qid": np.repeat(np.arange(len(group)), group)}
    alone = REGISTRY[name](np.eye(drawn.rows), y, **fields, **queries, l2=1.0)
    ends = [alone._reference_scores(scores + s * direction)[0] for s in (step, -step)]
    slope = drawn.rows * (ends[0] - ends[1]) / (2.0 * step)
    assert gradient @ direction == pytest.approx(slope, abs=drawn.rows * tolerance("central difference"))


def test_the_curvature_is_above_second_differences():
    _, y = rows(60)
    objective = objectives.Objective(cr.problems.PNormPush, {"p": 4})
    rng, step = np.random.default_rng(0), 1e-4
    scores = rng.normal(size=60)
    _, curvature = objective(scores, y)
    for _ in range(20):
        direction = rng.normal(size=60)
        ends = [objective(scores + s * direction, y)[0] @ direction for s in (step, -step)]
        assert (ends[0] - ends[1]) / (2.0 * step) <= curvature @ direction**2 * (
            1.0 + tolerance("finite differences")
        )


def test_weights_and_groups_are_those_of_the_formulation():
    _, y = rows(40)
    scores, weights = (
        np.random.default_rng(0).normal(size=40),
        np.random.default_rng(1).choice([1.0, 2.0], 40),
    )
    objective = objectives.Objective(cr.problems.PNormPush, {"p": 2})
    repeated = np.repeat(np.arange(40), weights.astype(int))
    gradient, _ = objective(scores, y, weights)
    alone, _ = objective(scores[repeated], y[repeated])
    summed = np.bincount(repeated, alone) * 40 / len(repeated)
    assert np.allclose(gradient, summed, atol=tolerance("summation"))
    with pytest.raises(ValueError, match="group adds up to 30, expected the number of rows, 40"):
        objective(scores, y, None, [10, 20])


class Own(cr.Formulation):
    """The mean of a loss, of one's own."""

    def risk(self, f):
        return mean(softplus(-f.positive)) + mean(softplus(f.negative))


def test_lightgbm_is_driven_by_any_declared_formulation():
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is in the extra of the documentation")
    X, y = rows()
    for formulation, parameters in (
        (cr.problems.PNormPush, {"p": 4}),
        (cr.problems.PartialAUC, {"max_fpr": 0.2, "loss": "logistic"}),
        (Own, {}),
    ):
        push = objectives.lightgbm(formulation, **parameters)
        options = {"objective": push, "num_leaves": 7, "verbose": -1, "learning_rate": 0.1, "num_threads": 1}
        found = lightgbm.train(options, lightgbm.Dataset(X, y), 40)
        risk = formulation(np.zeros((len(y), 1)), y, **parameters, l2=1.0)._risk_and_score_gradient
        assert risk(found.predict(X))[0] < risk(np.zeros(len(y)))[0]
        assert cr.metrics.auc(y, found.predict(X)) > 0.95
        # trees see products of features, of which linear scores know nothing
        assert cr.metrics.auc(y, found.predict(X)) > cr.metrics.auc(y, cr.PushRanker(4).fit(X, y).predict(X))


def test_lightgbm_passes_groups_and_weights():
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is in the extra of the documentation")
    X, y = rows()
    group, weights = np.full(30, 10), np.random.default_rng(0).choice([1.0, 2.0], 300)
    seen = []

    def spy(predictions, dataset):
        made = objectives.lightgbm(cr.problems.ConvexRisk, cost="logistic")(predictions, dataset)
        alone = objectives.Objective(cr.problems.ConvexRisk, {"cost": "logistic"})(
            predictions, y, weights, group
        )
        seen.append(all(np.array_equal(one, other) for one, other in zip(made, alone, strict=True)))
        return made

    data = lightgbm.Dataset(X, y, weight=weights, group=group)
    found = lightgbm.train({"objective": spy, "verbose": -1, "num_threads": 1}, data, 20)
    assert seen == [True] * 20
    right = [
        cr.metrics.auc(y[q : q + 10], found.predict(X)[q : q + 10])
        for q in range(0, 300, 10)
        if 0 < y[q : q + 10].sum() < 10
    ]
    assert np.mean(right) > 0.9


def test_xgboost_is_driven_by_any_declared_formulation():
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    X, y = rows()
    push = objectives.xgboost(cr.problems.PNormPush, p=4)
    found = xgboost.train(
        {"base_score": 0.0, "max_depth": 3, "nthread": 1}, xgboost.DMatrix(X, y), 40, obj=push
    )
    assert cr.metrics.auc(y, found.predict(xgboost.DMatrix(X))) > 0.95
    matrix = xgboost.DMatrix(X, y, weight=np.arange(1.0, 31.0))
    matrix.set_group(np.full(30, 10))
    scores = np.random.default_rng(0).normal(size=300)
    made = objectives.xgboost(cr.problems.ConvexRisk, cost="logistic")(scores, matrix)
    weights = np.repeat(np.arange(1.0, 31.0), 10)
    alone = objectives.Objective(cr.problems.ConvexRisk, {"cost": "logistic"})(
        scores, y, weights, np.full(30, 10)
    )
    assert all(np.array_equal(one, other) for one, other in zip(made, alone, strict=True))


def test_catboost_is_driven_by_a_formulation_of_one_list():
    catboost = pytest.importorskip("catboost", reason="CatBoost is not installed")
    X, y = rows()
    push = objectives.catboost(cr.problems.PNormPush, p=2)
    options = {"loss_function": push, "eval_metric": "AUC", "iterations": 150, "depth": 3, "thread_count": 1}
    model = catboost.CatBoost({**options, "verbose": False, "allow_writing_files": False})
    # CatBoost would rather compile the method
    with pytest.warns(UserWarning, match="calc_ders_range"):
        found = model.fit(X, y)
    assert cr.metrics.auc(y, found.predict(X)) > 0.95


@pytest.mark.parametrize("formulation", [cr.problems.PageRank, cr.problems.LearnedDivergence, "PNormPush", 3])
def test_what_declares_no_risk_is_refused(formulation):
    for made in (objectives.lightgbm, objectives.xgboost, objectives.catboost):
        with pytest.raises(TypeError, match="expected a class that declares its risk"):
            made(formulation)
