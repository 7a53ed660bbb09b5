"""Ranker: scikit-learn's checks, the objective from loops, nested parameters, queries, weights, searches, bad input."""

from __future__ import annotations

import math
import pickle
from itertools import product

import numpy as np
import pytest
import sklearn
from scipy import optimize, sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import convexrank as cr
from convexrank.modelling import log_mean_exp, mean, mean_of_highest, pair_sums, softplus
from convexrank.modelling.functions import smooth_hinge
from tests.tolerances import tolerance

L2 = 0.1


class HuberTop(cr.Formulation):
    """Smooth hinges over pairs, and the mean of the highest negatives."""

    width: float = 0.5
    count: int = 3

    def risk(self, f):
        pairs = pair_sums(smooth_hinge(self.width), f.positive, f.negative)
        return mean(pairs) + mean_of_highest(f.negative, self.count)


class Smooth(cr.Formulation):
    """A risk of means, in which rows may be repeated."""

    def risk(self, f):
        return mean(softplus(log_mean_exp(f.negative) - f.positive))


class Graded(cr.Formulation):
    """Hinges over pairs of rows of different grades."""

    def risk(self, f):
        return mean(pair_sums(cr.losses.Hinge(), f.rows, f.rows, f.grades))


@parametrize_with_checks(
    [cr.Ranker(Smooth), cr.Ranker(Smooth, features="thresholds", bins=8, l1=0.01, tol=1e-12)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def draw(queries=4, seed=0, grades=2):
    """Draw rows of queries in mixed order."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(10 + np.arange(queries), 12)
    X = np.round(2 * rng.normal(size=(len(qid), 3))) / 2
    worth = X @ [1.0, -1.0, 0.5] + rng.normal(size=len(qid))
    y = np.digitize(worth, np.quantile(worth, np.arange(1, grades) / grades))
    order = rng.permutation(len(qid))
    return X[order], y[order], qid[order]


def reach(*models):
    """How far apart the weights of models with certified gaps may be: the objective is strongly convex."""
    return sum(math.sqrt(2 * model.gap_ / L2) for model in models) + tolerance("summation")


def huber_top(scores, y, qid, weights, width, count):
    """The risk of HuberTop, query by query and pair by pair."""
    value = 0.0
    for query in set(qid):
        up = [i for i in range(len(y)) if qid[i] == query and y[i] and weights[i]]
        low = [k for k in range(len(y)) if qid[k] == query and not y[k] and weights[k]]
        if not up or not low:
            continue
        for i, k in product(up, low):
            short = max(0.0, 1 - scores[i] + scores[k])
            cost = short - width / 2 if short > width else short * short / (2 * width)
            value += weights[i] * weights[k] / sum(weights[j] for j in low) * cost
        repeated = [scores[k] for k in low for _ in range(int(weights[k]))]
        highest = sorted(repeated, reverse=True)[:count]
        value += sum(highest) / len(highest)
    return value


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("asked", [False, True])
def test_the_declared_objective_is_minimised(weighted, asked):
    X, y, qid = draw()
    weights = np.random.default_rng(1).integers(0, 4, size=len(y)) if weighted else None
    model = cr.Ranker(HuberTop, {"width": 0.8}, l2=L2).fit(X, y, qid if asked else None, weights)
    queries, counts = qid if asked else np.zeros(len(y)), np.ones(len(y)) if weights is None else weights

    def objective(w):
        return huber_top(X @ w, y, queries, counts, 0.8, 3) + L2 / 2 * w @ w

    found = objective(model.coef_)
    assert math.isclose(found, model.solution_.value, rel_tol=tolerance("summation"))
    assert model.solution_.converged
    best = optimize.minimize(
        objective, model.coef_ + 0.1, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}
    )
    assert found <= best.fun + model.gap_ + tolerance("summation")
    assert np.array_equal(model.predict(X), X @ model.coef_)
    assert model.n_iter_ == model.solution_.iterations > 0


def test_grades_and_weights():
    X, y, qid = draw(grades=4)
    weights = np.random.default_rng(2).integers(0, 3, size=len(y))
    problem = Graded(X, y, qid=qid, sample_weight=weights, l2=L2)
    model = cr.Ranker(Graded, l2=L2).fit(X, y, qid, weights)
    assert model.solution_.value == problem.solve().value
    repeated = cr.Ranker(Graded, l2=L2).fit(*(np.repeat(part, weights, axis=0) for part in (X, y, qid)))
    assert np.linalg.norm(model.coef_ - repeated.coef_) <= reach(model, repeated)
    assert np.linalg.norm(model.coef_ - cr.Ranker(Graded, l2=L2).fit(X, y, qid).coef_) > 0.01


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grades", [2, 4])
def test_score_is_the_share_of_pairs_in_order(grades, weighted):
    X, y, qid = draw(grades=grades)
    model = cr.Ranker(Graded, l2=L2).fit(X, y, qid)
    model.coef_ = np.array([1.0, 0.0, 0.0])  # half-integers: many ties
    weights = np.random.default_rng(3).uniform(0, 2, size=len(y)) if weighted else np.ones(len(y))
    scores, shares = model.predict(X), []
    for query in set(qid):
        right = pairs = 0.0
        rows = np.flatnonzero(qid == query)
        for i, j in product(rows, rows):
            if y[i] > y[j]:
                pairs += weights[i] * weights[j]
                right += weights[i] * weights[j] * ((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]))
        shares.append(right / pairs)
    score = model.score(X, y, qid, weights if weighted else None)
    assert math.isclose(score, np.mean(shares), rel_tol=tolerance("summation"))


def test_one_query_of_two_classes_is_scored_by_the_area_under_the_curve():
    X, y, _ = draw()
    model = cr.Ranker(Smooth, l2=L2).fit(X, np.array(["background", "signal"])[y])
    assert np.array_equal(model.coef_, cr.Ranker(Smooth, l2=L2).fit(X, y).coef_)
    expected = cr.metrics.auc(y, model.predict(X))
    assert math.isclose(
        model.score(X, np.array(["background", "signal"])[y]), expected, rel_tol=tolerance("summation")
    )


def test_sparse_data_and_thresholds():
    X, y, qid = draw()
    dense, thin = (cr.Ranker(HuberTop, l2=L2).fit(kind, y, qid) for kind in (X, sparse.csr_array(X)))
    assert np.linalg.norm(dense.coef_ - thin.coef_) <= reach(dense, thin)
    curve = cr.Ranker(Smooth, features="thresholds", bins=8, l1=0.01, l2=0.0).fit(X, y, qid)
    problem = Smooth(cr.features.Thresholds(X, 8), y, qid=qid, l1=0.01)
    assert math.isclose(curve.solution_.value, problem.objective(curve.coef_), rel_tol=tolerance("summation"))
    assert curve.score(X, y, qid) > 0.5


# --- parameters of the formulation ----------------------------------------------------------------------------------


def test_parameters_of_the_formulation_are_nested():
    given = {"count": 5}
    model = cr.Ranker(HuberTop, given, l2=L2)
    found = model.get_params()
    assert (found["formulation__count"], found["formulation__width"]) == (5, 0.5)
    assert found["params"] is given
    again = clone(model).set_params(formulation__count=7, l2=1.0)
    assert (again.params, again.l2, given) == ({"count": 7}, 1.0, {"count": 5})
    assert cr.Ranker().set_params(formulation=HuberTop, formulation__width=1.0).params == {"width": 1.0}
    assert not any(name.startswith("formulation__") for name in model.get_params(deep=False))
    assert cr.Ranker(3, 4).get_params()["params"] == 4  # refused by fit alone
    with pytest.raises(ValueError, match=r"'widht' \(did you mean 'width'\?\), expected one of: count"):
        model.set_params(formulation__widht=1.0)


def test_a_formulation_of_the_package_by_its_name():
    X, y, qid = draw(grades=3)
    model = cr.Ranker("list_net", {"target": "linear"}, l2=L2).fit(X, y, qid)
    problem = cr.problems.ListNet(X, y, qid, target="linear", l2=L2)
    assert model.solution_.value == problem.solve().value
    assert clone(model).get_params()["formulation__target"] == "linear"
    other = clone(model).set_params(formulation="rank_svm", params=None, formulation__loss="squared_hinge")
    assert other.fit(X, y, qid).solution_.instance.loss == cr.losses.SquaredHinge()
    with pytest.raises(ValueError, match="sample_weight is given, but ListNet has no weights of rows"):
        model.fit(X, y, qid, np.ones(len(y)))
    with pytest.raises(ValueError, match=r"formulation is 'listnet'.* expected one of"):
        cr.Ranker("listnet").fit(X, y, qid)


def test_pickle_and_clone():
    X, y, qid = draw()
    model = cr.Ranker(HuberTop, {"count": 5}, l2=L2, tol=1e-6).fit(X, y, qid)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.score(X, y, qid) == model.score(X, y, qid)
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "coef_")


def test_a_search_in_a_pipeline_with_queries_and_weights():
    X, y, qid = draw(8)
    weights = np.random.default_rng(4).integers(1, 3, size=len(y)).astype(float)
    folds = GroupKFold(2)
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        ranker = cr.Ranker(HuberTop, l2=L2, tol=1e-6).set_fit_request(qid=True, sample_weight=True)
        model = make_pipeline(scaler, ranker.set_score_request(qid=True, sample_weight=True))
        grid = {"ranker__formulation__count": [1, 12], "ranker__formulation__width": [0.3]}
        search = GridSearchCV(model, grid, cv=folds, error_score="raise")
        search.fit(X, y, qid=qid, sample_weight=weights, groups=qid)
    for place, count in enumerate((1, 12)):
        scores = []
        for train, test in folds.split(X, y, qid):
            scaler = StandardScaler().fit(X[train])
            one = cr.Ranker(HuberTop, {"count": count, "width": 0.3}, l2=L2, tol=1e-6)
            one.fit(scaler.transform(X[train]), y[train], qid[train], weights[train])
            scores.append(one.score(scaler.transform(X[test]), y[test], qid[test], weights[test]))
        assert search.cv_results_["mean_test_score"][place] == pytest.approx(np.mean(scores))


def test_what_is_not_routed_is_not_lost_in_silence():
    X, y, qid = draw(6)
    with sklearn.config_context(enable_metadata_routing=True):
        deaf = cr.Ranker(HuberTop, l2=L2).set_fit_request(qid=True).set_score_request(qid=False)
        with pytest.raises(ValueError, match="qid reaches fit, but not score"):
            cross_validate(
                deaf, X, y, cv=GroupKFold(3), params={"qid": qid, "groups": qid}, error_score="raise"
            )
    with pytest.raises(ValueError, match="qid is not given, but fit was given one"):
        cr.Ranker(HuberTop, l2=L2).fit(X, y, qid).score(X, y)


class Concave(cr.Formulation):
    def risk(self, f):
        return mean(-1.0 * pair_sums(cr.losses.Hinge(), f.positive, f.negative))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((), TypeError, "formulation is None, expected a class derived from convexrank.Formulation"),
        ((HuberTop(*draw()[:2]),), TypeError, "formulation is HuberTop.*, expected a class"),
        ((cr.problems.PageRank,), TypeError, "expected a class derived from convexrank.Formulation"),
        ((HuberTop, 5), TypeError, "params is 5, expected a dictionary of the parameters of HuberTop"),
        ((HuberTop, {"l2": 1.0}), ValueError, "params has 'l2', which is an argument of Ranker or of fit"),
        ((HuberTop, {"depth": 1}), ValueError, "a name in params is 'depth', expected one of: count, dtype"),
        ((HuberTop, {"count": 0}), ValueError, "count is 0"),
        ((Concave,), TypeError, "the risk is not convex"),
    ],
)
def test_bad_parameters_are_refused_by_fit(arguments, error, message):
    X, y, qid = draw()
    with pytest.raises(error, match=message):
        cr.Ranker(*arguments, l2=L2).fit(X, y, qid)


def test_bad_labels_are_refused():
    X, y, qid = draw()
    model = cr.Ranker(HuberTop, l2=L2).fit(X, y, qid)
    with pytest.raises(ValueError, match="y has no query with two rows of different labels"):
        model.score(X, np.zeros(len(y)), qid)
    with pytest.raises(ValueError, match=r"y has shape \(3,\), expected \(48,\)"):
        model.score(X, y[:3], qid)
    with pytest.raises(ValueError, match="expected exactly two"):
        cr.Ranker(HuberTop).fit(X, np.arange(len(y)) % 3, qid)
