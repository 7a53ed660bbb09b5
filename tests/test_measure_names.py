"""Names of measures: one table, which means the same in searches, tables and comparisons."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_val_score
from sklearn.tree import DecisionTreeClassifier

import convexrank as cr
from convexrank import PushRanker, PushRankerCV, RetargetingRankerCV, inference, metrics
from convexrank.metrics import tables
from tests.tolerances import tolerance

# Every name, with the call that it stands for.
MEANT = {
    "auc": metrics.auc,
    "average_reciprocal_rank": metrics.average_reciprocal_rank,
    "dcg": metrics.dcg,
    "MAP": metrics.mean_average_precision,
    "MRR": metrics.mean_reciprocal_rank,
    "ndcg": metrics.ndcg,
    "NDCG@3": lambda y, s: metrics.ndcg(y, s, k=3),
    "partial_auc@0.2": lambda y, s: metrics.partial_auc(y, s, 0.2),
    "positives_at_top": metrics.positives_at_top,
    "precision@5": lambda y, s: metrics.precision_at(y, s, 5),
    "precision_at@0.07": lambda y, s: metrics.precision_at(y, s, 0.07),
    "precision@1.0": lambda y, s: metrics.precision_at(y, s, 1.0),
    "recall@5": lambda y, s: metrics.recall_at(y, s, 5),
    "recall_at_precision@0.75": lambda y, s: metrics.recall_at_precision(y, s, 0.75),
}


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (2 * X[:, 0] + rng.normal(size=n) > 1.0).astype(int)


@pytest.mark.parametrize("name", MEANT)
def test_a_name_is_the_call_that_it_says(name):
    X, y = rows()
    s = np.round(X[:, 0], 1)
    assert metrics.named(name)(y, s) == MEANT[name](y, s)
    assert pickle.loads(pickle.dumps(metrics.named(name.upper())))(y, s) == MEANT[name](y, s)


def test_every_measure_of_the_table_is_tried_above_and_larger_is_better():
    tried = {tables.parsed(name)[0] for name in MEANT}
    assert tried == set(tables._NAMES)
    y, s = np.repeat([0, 1], 10), np.arange(20.0)
    for name in MEANT:
        assert metrics.named(name)(y, s) > metrics.named(name)(y, -s) or name == "precision@1.0"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("accuracy", "the name of a measure is 'accuracy', expected one of"),
        ("precision", "'precision' has no number for k, expected one behind @"),
        ("precision@", "'precision@' has '' behind @, expected a number"),
        ("precision@many", "'precision@many' has 'many' behind @"),
        ("auc@5", "'auc@5' has a number, but auc takes none"),
        (5, "the name of a measure is 5"),
        (None, "the name of a measure is None"),
    ],
)
def test_other_names_are_refused(name, message):
    for reader in (metrics.named, metrics.scorer):
        with pytest.raises(ValueError, match=message):
            reader(name)


def test_a_scorer_judges_models_of_every_kind_by_their_scores():
    X, y = rows(200)
    judge = pickle.loads(pickle.dumps(metrics.scorer("precision@0.1")))
    for model, scores in (
        (PushRanker(), lambda fitted: fitted.predict(X)),
        (LogisticRegression(), lambda fitted: fitted.decision_function(X)),
        (DecisionTreeClassifier(max_depth=2), lambda fitted: fitted.predict_proba(X)[:, 1]),
        (Ridge(), lambda fitted: fitted.predict(X)),
    ):
        fitted = model.fit(X, y)
        expected = metrics.precision_at(y, scores(fitted), 0.1)
        assert judge(fitted, X, y) == expected
        assert expected not in (0, metrics.precision_at(y, -scores(fitted), 0.1))


def test_a_scorer_is_given_the_queries_of_a_search():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(72, 4)), np.arange(72) // 8
    y = np.clip(np.round(X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=72)), 0, 2)
    with config_context(enable_metadata_routing=True):
        ranker = cr.RetargetingRanker().set_fit_request(qid=True)
        judge = metrics.scorer("ndcg@3").set_score_request(qid=True)
        search = GridSearchCV(ranker, {"alpha": [0.1]}, scoring=judge, cv=GroupKFold(3))
        found = search.fit(X, y, qid=qid, groups=qid).cv_results_
    expected = []
    for train, test in GroupKFold(3).split(X, y, qid):
        fitted = cr.RetargetingRanker(alpha=0.1).fit(X[train], y[train], qid[train])
        expected.append(metrics.ndcg(y[test], fitted.predict(X[test]), k=3, qid=qid[test]))
    assert [found[f"split{k}_test_score"][0] for k in range(3)] == expected


def test_a_measure_of_one_list_is_refused_where_queries_are_judged():
    with pytest.raises(
        ValueError, match="'auc' is a measure of one list, expected one by query: map, mrr, ndcg"
    ):
        metrics.named("auc", by_query=True)
    X, y = rows()
    with pytest.raises(ValueError, match=r"'partial_auc@0\.1' is a measure of one list"):
        RetargetingRankerCV(values=[0.1], scoring="partial_auc@0.1").fit(X, y, np.arange(60) // 6)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("max_fpr", "precision@0.3"),
        ("max_fpr", "partial_auc@0.2"),
        ("l2", "recall_at_precision@0.5"),
        ("l2", "AUC"),
    ],
)
def test_a_search_chooses_on_the_named_measure(name, path):
    X, y = rows(120)
    values = {"max_fpr": [0.8, 0.4], "l2": [0.3, 0.01]}[path]
    folds, options = StratifiedKFold(2), {"objective": "partial_auc", "max_fpr": 0.5, "loss": "squared_hinge"}
    options["tol"] = 1e-10
    model = PushRankerCV(path=path, values=values, cv=folds, scoring=name, standardize=False, **options).fit(
        X, y
    )
    expected = [
        cross_val_score(
            PushRanker(**options | {path: value}), X, y, cv=folds, scoring=make_scorer(metrics.named(name))
        )
        for value in values
    ]
    assert model.scores_ == pytest.approx(np.array(expected).T, abs=tolerance("cross-validation"))
    assert model.path_.values.tolist() == values
    assert model.best_value_ == values[int(np.argmax(model.scores_.mean(axis=0)))]
    alone = PushRanker(**options | {path: model.best_value_}).fit(X, y)
    assert model.coef_ == pytest.approx(alone.coef_, abs=tolerance("small problems"))


@pytest.mark.parametrize(("objective", "path"), [("pat_mat", "tau"), ("spectral_push", "spectrum")])
def test_a_search_chooses_a_share(objective, path):
    X, y = rows(120)
    options = {
        "objective": objective,
        "path": path,
        "values": [0.1, 0.3],
        "scoring": "recall@0.2",
        "loss": "logistic",
    }
    model = PushRankerCV(**options, cv=3, tol=1e-8, standardize=False).fit(X, y)
    assert model.path_.values.tolist() == [0.3, 0.1]
    alone = PushRanker(objective=objective, loss="logistic", **{path: model.best_value_}).fit(X, y)
    assert model.coef_ == pytest.approx(alone.coef_, abs=tolerance("small problems"))


def test_a_search_chooses_a_number_of_rows():
    X, y = rows(120)
    options = {"objective": "spectral_push", "path": "spectrum", "values": [4, 20], "scoring": "precision@5"}
    model = PushRankerCV(**options, cv=3, tol=1e-8, standardize=False).fit(X, y)
    assert model.path_.values.tolist() == [20, 4]
    assert isinstance(model.best_value_, int)
    alone = PushRanker(objective="spectral_push", spectrum=model.best_value_).fit(X, y)
    assert model.coef_ == pytest.approx(alone.coef_, abs=tolerance("small problems"))


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_a_search_chooses_the_power_of_any_loss(loss):
    X, y = rows(120)
    options = {"loss": loss, "path": "p", "values": [2, 1], "scoring": "precision@5"}
    model = PushRankerCV(**options, cv=3, tol=1e-8, standardize=False).fit(X, y)
    assert model.path_.values.tolist() == [1, 2]
    alone = PushRanker(loss=loss, p=model.best_value_).fit(X, y)
    assert model.coef_ == pytest.approx(alone.coef_, abs=tolerance("small problems"))
    with pytest.raises(ValueError, match="Push has no parameter p"):
        PushRankerCV(price="identity", loss=loss, path="p", values=[1, 2], cv=3).fit(X, y)


def test_named_measures_by_query():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(72, 4)), np.arange(72) // 8
    y = np.clip(np.round(X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=72)), 0, 2)
    options = {"values": [0.3, 0.01], "cv": 3, "tol": 1e-8}
    found, default, own = (
        RetargetingRankerCV(scoring=given, **options).fit(X, y, qid).scores_
        for given in ("ndcg", None, lambda y, s, qid: metrics.precision_at(y, s, 2, qid))
    )
    assert np.array_equal(found, default)
    assert np.array_equal(own, RetargetingRankerCV(scoring="precision@2", **options).fit(X, y, qid).scores_)


def test_a_search_refuses_bad_names_and_values():
    X, y = rows()
    for options, message in (
        ({"scoring": "precision"}, "'precision' has no number for k"),
        ({"scoring": "precision@40", "cv": 3}, "fold 0 of cv: k is 40 but y has 20 rows"),
        ({"path": "max_fpr", "objective": "partial_auc"}, "max_fpr is 'auto', expected values"),
        ({"path": "max_fpr", "objective": "partial_auc", "values": [0.0, 0.1]}, "max_fpr is 0.0"),
        ({"path": "max_fpr", "objective": "partial_auc", "values": [1.5, 0.1]}, "max_fpr is 1.5"),
        (
            {"path": "spectrum", "objective": "spectral_push", "values": [5, 0.1]},
            "spectrum is 5.0.* 0.05 for 5 %",
        ),
        ({"path": "p", "objective": "partial_auc", "values": [1, 2]}, "PartialAUC has no parameter p"),
        ({"path": "max_fpr", "values": [0.1]}, "Push has no parameter max_fpr"),
    ):
        with pytest.raises(ValueError, match=message):
            PushRankerCV(**options).fit(X, y)
    with pytest.raises(
        TypeError, match="scoring is 5, expected a function of y and scores, the name of a measure"
    ):
        PushRankerCV(scoring=5).fit(X, y)


def test_a_table_takes_names():
    X, y = rows()
    qid, scores = np.arange(60) // 10, {"a": X[:, 0], "b": X[:, 1]}
    found = metrics.table(scores, y, qid, measures=["NDCG@5", "precision@3"])
    assert found.measures == ("NDCG@5", "precision@3")
    assert np.array_equal(
        found.values[1, 1], metrics.precision_at(y, X[:, 1], 3, qid, per_query=True), equal_nan=True
    )
    with pytest.raises(ValueError, match="'auc' is a measure of one list"):
        metrics.table(scores, y, qid, measures=["auc"])


@pytest.mark.parametrize(
    ("name", "plain", "options"),
    [
        ("precision@20", "precision_at", {"k": 20}),
        ("recall@0.25", "recall_at", {"k": 0.25}),
        ("partial_auc@0.2", "partial_auc", {"max_fpr": 0.2}),
        ("push_risk@3", "push_risk", {"p": 3}),
        ("AUC", "auc", {}),
    ],
)
@pytest.mark.filterwarnings("ignore:.*the sample is too small")
def test_a_comparison_takes_names(name, plain, options):
    X, y = rows(200)
    found = inference.compare(y, X[:, 0], X[:, 1], name)
    assert repr(found) == repr(inference.compare(y, X[:, 0], X[:, 1], plain, **options))
    if plain in tables._NAMES:
        first, second = (metrics.named(name)(y, X[:, column]) for column in (0, 1))
        assert found.interval.estimate == pytest.approx(first - second, abs=tolerance("summation"))


def test_a_plan_takes_names():
    options = {"width": 0.5, "estimate": 0.3}
    found, plain = (
        inference.sample_size(name, **options, **p)
        for name, p in (("push_risk@4", {}), ("push_risk", {"p": 4}))
    )
    assert found.sizes == plain.sizes
    with pytest.raises(ValueError, match="p is no option of metric='auc@4'"):
        inference.sample_size("auc@4", **options)


def test_a_comparison_refuses_numbers_that_are_no_option_or_given_twice():
    X, y = rows()
    for name, options in (("auc@5", {}), ("precision@5", {"k": 5}), ("map@5", {"qid": np.zeros(60)})):
        with pytest.raises(ValueError, match=f"metric is '{name}', with a number"):
            inference.compare(y, X[:, 0], X[:, 1], name, **options)


def test_a_path_follows_the_share_of_the_negatives():
    X, y = rows()
    problem = cr.problems.PartialAUC(X, y, loss="squared_hinge", l2=0.1)
    path = cr.path(problem, max_fpr=[0.4, 1.0, 0.6], tol=1e-9)
    assert path.values.tolist() == [1.0, 0.6, 0.4]
    for value, solution in zip(path.values, path, strict=True):
        alone = cr.problems.PartialAUC(X, y, value, "squared_hinge", l2=0.1).solve(tol=1e-9)
        assert solution.value == pytest.approx(alone.value, abs=2e-9)
    with pytest.raises(ValueError, match="max_fpr is 0"):
        cr.path(problem, max_fpr=[0.0])
