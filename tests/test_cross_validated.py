"""PushRankerCV and RetargetingRankerCV: scikit-learn's checks, a plain loop over folds, units, folds, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, LeaveOneGroupOut, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import convexrank as cr
from convexrank import PushRanker, PushRankerCV, RetargetingRanker, RetargetingRankerCV, metrics
from tests.test_retargeting_ranker import check_a_search_over_groups_without_queries
from tests.tolerances import tolerance


def binary(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [1.0, 10.0, 0.1, 1.0, 5.0][:d]
    y = (X[:, 0] + 0.1 * X[:, 1] + rng.normal(size=n) > 0.5).astype(int)
    return X, y


def graded(queries=9, rows=8, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * rows, d))
    y = np.clip(np.round(X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=len(X))), 0, 2)
    return X, y, np.array([f"q{k}" for k in np.arange(len(X)) % queries])


# the checks know of no queries: all rows are one, which only folds of rows divide
@parametrize_with_checks([
    # two values and answers of few digits: the checks ask how arguments are handled
    PushRankerCV(n=2, cv=2, tol=1e-5),
    RetargetingRankerCV(n=2, cv=KFold(2, shuffle=True, random_state=0), tol=1e-5),
])  # fmt: skip
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("path", ["l1", "l2", "p"])
def test_the_choice_is_that_of_a_plain_loop(path):
    X, y = binary()
    values = {"l1": [0.1, 0.03, 0.001], "l2": [1.0, 0.1, 1e-3], "p": [1.0, 2.0, 8.0]}[path]
    folds = StratifiedKFold(3)
    model = PushRankerCV(2.0, path=path, values=values, cv=folds, standardize=False, tol=1e-10).fit(X, y)
    expected = np.array(
        [
            [
                PushRanker(**{"p": 2.0, "tol": 1e-10, path: value}).fit(X[a], y[a]).score(X[b], y[b])
                for value in values
            ]
            for a, b in folds.split(X, y)
        ]
    )
    assert model.scores_ == pytest.approx(expected, abs=tolerance("cross-validation"))
    assert model.best_value_ == values[int(np.argmax(model.scores_.mean(axis=0)))]
    alone = PushRanker(**{"p": 2.0, "tol": 1e-10, path: model.best_value_}).fit(X, y)
    assert model.coef_ == pytest.approx(alone.coef_, abs=tolerance("small problems"))
    assert model.gap_ == model.solution_.gap <= 1e-10
    assert model.path_.metric == pytest.approx(model.scores_.mean(axis=0))
    assert model.decision_function(X) == pytest.approx(X @ model.coef_)


def test_values_of_l2_that_are_solved_together_have_the_scores_of_paths(monkeypatch):
    from convexrank.estimators import cross_validated

    rng, together, many = np.random.default_rng(0), [], cross_validated.solve_many
    X = rng.normal(size=(90, 3))
    y = X[:, 0] + rng.normal(size=90) > 0.5

    def watched(problem, **options):
        together.append(many(problem, **options).together)
        return many(problem, **options)

    def found(**options):
        search = PushRankerCV(p=2, path="l2", values=[1.0, 0.3, 0.1, 0.03, 0.01], cv=3, tol=1e-12, **options)
        return search.fit(X, y).scores_

    monkeypatch.setattr(cross_validated, "solve_many", watched)
    first = found()
    assert together == [5, 5, 5]
    found(l1=1e-3)
    found(solver="newton")
    monkeypatch.setattr(cross_validated, "_TOGETHER", 0)
    assert np.array_equal(first, found())
    assert len(together) == 3


@pytest.mark.parametrize("path", ["l1", "alpha"])
def test_queries_are_never_cut(path):
    X, y, qid = graded()
    values, folds = [0.3, 0.01], GroupKFold(3)
    model = RetargetingRankerCV(path=path, values=values, cv=3, standardize=False, tol=1e-10).fit(X, y, qid)
    expected = np.array(
        [
            [
                RetargetingRanker(**{"tol": 1e-10, path: value})
                .fit(X[a], y[a], qid[a])
                .score(X[b], y[b], qid[b])
                for value in values
            ]
            for a, b in folds.split(X, y, np.unique(qid, return_inverse=True)[1])
        ]
    )
    assert model.scores_ == pytest.approx(expected, abs=tolerance("cross-validation"))
    assert model.score(X, y, qid) > 0.9
    with pytest.raises(ValueError, match="qid is not given, but fit was given one"):
        model.score(X, y)


@pytest.mark.parametrize("scoring", [None, "precision@3"])
def test_a_push_by_query_is_chosen_on_whole_queries(scoring):
    X, y = binary(90)
    qid = np.array([f"q{k}" for k in np.arange(len(y)) % 6])
    values, named = [1.0, 0.1, 1e-3], scoring and metrics.named(scoring, by_query=True)
    options = {"path": "l2", "values": values, "cv": 3, "standardize": False}
    model = PushRankerCV(2.0, **options, scoring=scoring, tol=1e-10).fit(X, y, qid)
    expected = []
    for a, b in GroupKFold(3).split(X, y, qid):
        made = [PushRanker(2.0, l2=l2, tol=1e-10).fit(X[a], y[a], qid[a]) for l2 in values]
        expected.append(
            [
                named(y[b], one.decision_function(X[b]), qid[b]) if named else one.score(X[b], y[b], qid[b])
                for one in made
            ]
        )
    np.testing.assert_allclose(model.scores_, expected, rtol=tolerance("small problems"))
    assert model.best_value_ == values[int(np.argmax(np.mean(expected, axis=0)))]
    with pytest.raises(ValueError, match="cv cuts a query"):
        PushRankerCV(**{**options, "cv": list(KFold(3).split(X))}).fit(X, y, qid)
    one = PushRankerCV(2.0, **options, tol=1e-10).fit(X, y, np.zeros(len(y)))
    assert np.array_equal(one.scores_, PushRankerCV(2.0, **options, tol=1e-10).fit(X, y).scores_)


def test_folds_that_cut_a_query_are_refused():
    X, y, qid = graded()
    rows = np.arange(len(y))
    with pytest.raises(ValueError, match="cv cuts a query in fold 0"):
        RetargetingRankerCV(cv=[(rows[:30], rows[30:])]).fit(X, y, qid)
    whole = [(np.isin(qid, ["q0", "q1", "q2"]), ~np.isin(qid, ["q0", "q1", "q2"]))]
    folds = [tuple(map(np.flatnonzero, fold)) for fold in whole]
    assert RetargetingRankerCV(values=[0.1], cv=folds).fit(X, y, qid).scores_.shape == (1, 1)


def test_a_fold_whose_queries_have_no_order_is_refused():
    X, y, qid = graded()
    flat = np.isin(qid, ["q0", "q1", "q2"])
    y[flat] = 1.0
    without, rest = np.flatnonzero(flat), np.flatnonzero(~flat)
    for fold, message in (
        ((rest, without), "fold 0 of cv: no query to judge by has two rows of different grades"),
        ((without, rest), "fold 0 of cv: none of the 3 queries has two rows of different grades"),
    ):
        with pytest.raises(ValueError, match=message):
            RetargetingRankerCV(values=[0.1], cv=[fold]).fit(X, y, qid)


def test_one_list_of_grades_is_cut_by_folds_of_rows():
    X, y, _ = graded(queries=1, rows=40)
    model = RetargetingRankerCV(path="alpha", values=[0.1, 1.0], cv=KFold(2), standardize=False).fit(X, y)
    assert model.scores_.shape == (2, 2)
    alone = RetargetingRanker(alpha=model.best_value_).fit(X, y)
    assert model.coef_ == pytest.approx(alone.coef_, abs=tolerance("small problems"))
    assert model.score(X, y) == pytest.approx(alone.score(X, y))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_coefficients_are_in_the_units_of_the_columns(container):
    X, y = binary()
    X[:, 3] = 2.0 * (X[:, 3] > 0)  # zeros, for the sparse one
    scales = np.array([1.0, 1e3, 1e-3, 4.0, 0.5])
    weights = np.arange(len(y)) % 3
    one = PushRankerCV(n=5, cv=3, tol=1e-10).fit(container(X), y, sample_weight=weights)
    other = PushRankerCV(n=5, cv=3, tol=1e-10).fit(container(X * scales), y, sample_weight=weights)
    assert other.coef_ * scales == pytest.approx(one.coef_, rel=tolerance("cross-validation"), abs=1e-9)
    assert other.best_value_ == pytest.approx(one.best_value_)
    repeated = np.repeat(np.arange(len(y)), weights)
    deviations = X[repeated].std(axis=0)
    assert one.coef_ == pytest.approx(one.solution_.x / deviations)
    alone = PushRanker(l1=one.best_value_, tol=1e-10).fit(X[repeated] / deviations, y[repeated])
    assert one.solution_.x == pytest.approx(alone.coef_, abs=tolerance("small problems"))


def test_processes_change_nothing():
    X, y = binary()
    one, two = (PushRankerCV(n=4, cv=3, tol=1e-6, n_jobs=jobs).fit(X, y) for jobs in (None, 2))
    assert np.array_equal(one.scores_, two.scores_)
    assert np.array_equal(one.coef_, two.coef_)


def test_a_search_runs_in_several_processes():
    """In those of the test above, which are still there: each takes seconds to import the package."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 2))
    labels = (features[:, 0] + rng.normal(size=60) > 0).astype(int)
    search = GridSearchCV(cr.PushRanker(solver="lbfgs"), {"l2": [0.1]}, n_jobs=2, cv=2).fit(features, labels)
    alone = [
        cr.PushRanker(solver="lbfgs", l2=0.1)
        .fit(features[train], labels[train])
        .score(features[test], labels[test])
        for train, test in KFold(2).split(features, labels)
    ]
    assert [search.cv_results_[f"split{k}_test_score"][0] for k in range(2)] == alone


def test_a_search_over_groups_without_queries_is_refused_in_processes():
    """In the same ones."""
    check_a_search_over_groups_without_queries(jobs=2)


def test_thresholds_of_named_columns():
    X, y = binary()
    table = pd.DataFrame(X, columns=list("abcde"))
    model = PushRankerCV(features="thresholds", bins=8, monotone={"a": 1}, n=4, cv=2, tol=1e-6).fit(table, y)
    assert model.coef_.shape == (model.design_.shape[1],)
    assert model.predict(table.iloc[:3]) == pytest.approx(
        model.design_.transform(table.iloc[:3]) @ model.coef_
    )
    grades, qid = np.clip(np.round(X[:, 0]), 0, 2), np.arange(len(X)) // 10
    queries = RetargetingRankerCV(features="thresholds", bins=8, n=3, cv=2, tol=1e-6, ratio=0.1).fit(
        table, grades, qid
    )
    assert queries.coef_.shape == (queries.design_.shape[1],)


def test_a_score_of_ones_own_and_folds_by_group():
    X, y = binary()
    groups = np.arange(len(y)) % 3
    folds = list(LeaveOneGroupOut().split(X, y, groups))
    seen = []

    def top(labels, scores):
        seen.append(len(labels))
        return metrics.precision_at(labels, scores, 5)

    values = [0.1, 0.01]
    model = PushRankerCV(values=values, cv=folds, scoring=top, standardize=False).fit(X, y)
    assert seen == [20] * 6
    expected = [
        [top(y[b], PushRanker(l1=value).fit(X[a], y[a]).predict(X[b])) for value in values] for a, b in folds
    ]
    assert model.scores_.tolist() == expected
    ranked = RetargetingRankerCV(
        values=[0.1], cv=2, scoring=lambda y, scores, qid: float(len(np.unique(qid)))
    ).fit(*graded(queries=4))
    assert ranked.scores_.tolist() == [[2.0], [2.0]]


def test_a_path_that_ends_in_one_fold_is_not_chosen_there():
    """Without a penalty the last value has no minimiser on separable rows."""
    X = np.array([[0.0], [1.0], [2.0], [3.0], [1.5], [0.5], [2.5], [3.5]])
    y = np.array([0, 0, 1, 1, 1, 0, 0, 1])
    separable, other = np.array([0, 1, 2, 3]), np.array([4, 5, 6, 7])
    folds = [(separable, other), (other, separable)]
    model = PushRankerCV(2.0, l2=0.0, values=[1.5, 0.0], cv=folds, tol=1e-6, standardize=False).fit(X, y)
    assert np.isnan(model.scores_[0, 1])
    assert not np.isnan(model.scores_[1, 0])
    assert model.best_value_ == 1.5


def test_bad_input_is_refused_by_name():
    X, y = binary()
    one_class = [(np.flatnonzero(y == 1), np.arange(len(y)))]
    missing = [(np.arange(len(y)), np.flatnonzero(y == 1))]
    for options, message in (
        ({"path": "alpha"}, "path is 'alpha', expected one of: l1, l2, max_fpr, p, spectrum, tau"),
        ({"path": "l2"}, "l2 is 'auto', expected values"),
        ({"values": [-1.0]}, "l1 is -1.0"),
        ({"values": []}, "l1"),
        ({"cv": one_class}, "fold 0 of cv: y"),
        ({"cv": missing}, "fold 0 of cv: y has the labels"),
        ({"cv": KFold(2), "values": [0.0], "l2": 0.0}, "already at l1 = 0"),
    ):
        data = (X[:4], y[:4]) if "already" in message else (X, y)
        if "already" in message:
            data = (np.arange(4.0)[:, None], np.array([0, 0, 1, 1]))
        with pytest.raises(ValueError, match=message):
            PushRankerCV(**options).fit(*data)
    with pytest.raises(ValueError, match="qid has 2 queries"):
        RetargetingRankerCV(cv=3).fit(*graded(queries=2))
    with pytest.raises(ValueError, match=r"all rows are one query, .* pass qid"):
        RetargetingRankerCV(cv=3).fit(*graded(queries=2)[:2])


def test_a_gap_that_is_not_met_is_said():
    X, y = binary()
    with pytest.warns(cr.ConvergenceWarning, match="PushRankerCV: "):
        PushRankerCV(path="l2", values=[1e-3], cv=2, max_iter=1, solver="lbfgs", tol=1e-12).fit(X, y)


@pytest.mark.parametrize("cv", [-1, float("nan"), "five"])
def test_folds_that_are_none_are_refused_by_name(cv):
    rng = np.random.default_rng(0)
    with pytest.raises((ValueError, TypeError), match="cv"):
        cr.PushRankerCV(cv=cv, n=3).fit(rng.normal(size=(30, 2)), np.arange(30) % 2)


def test_options_of_a_single_fit_are_refused_and_their_defaults_are_not():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    with pytest.raises(ValueError, match=r"time_limit is 1\.0, which paths do not use"):
        cr.PushRankerCV(time_limit=1.0, n=3).fit(X, y)
    assert cr.PushRankerCV(verbose=0, warm_start=False, n=3, tol=1e-4).fit(X, y).scores_.shape == (5, 3)
