"""RetargetingRanker: scikit-learn's checks, its objective by a conic solver, queries, weights, searches, bad input."""

from __future__ import annotations

import itertools
import math
import pickle
import warnings
from dataclasses import fields

import cvxpy as cp
import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import convexrank as cr
from convexrank import ConvergenceWarning, RetargetingRanker
from convexrank.data import QueryGroups
from convexrank.data import groups as groups_of_rows
from convexrank.estimators._objectives import PASSED, names_of
from convexrank.estimators.retargeting import _OF_OBJECTIVES
from convexrank.metrics import conventions
from convexrank.problems import MarginRetargeting, RankCosine
from convexrank.problems.queries._base import GradedQueries
from tests.query_references import by_query, one_ndcg
from tests.tolerances import tolerance

ALPHA = 0.1


@parametrize_with_checks(
    [
        RetargetingRanker(),
        RetargetingRanker(normalize=False, alpha=1.0),
        RetargetingRanker("generalized_i", 0.01, bound=(0.1, 4.0)),
        RetargetingRanker(l1=0.01, bound=(-1.0, 2.0), offsets=False),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def draw(queries=5, columns=3, seed=0):
    """Draw rows of queries in mixed order, one with a single row and one with a single grade among them."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 8, size=queries)
    sizes[-1] = 1
    qid = np.repeat(10 + rng.permutation(queries), sizes)
    X = rng.normal(size=(len(qid), columns))
    y = np.clip(np.round(X[:, 0] - X[:, 1] + 0.7 * rng.normal(size=len(qid)) + 0.7), 0, 2)
    y[qid == qid[-2]] = 1.0
    order = rng.permutation(len(qid))
    return X[order], y[order], qid[order]


def reach(*models):
    """How far apart the weights of models with certified gaps may be: the objective is strongly convex."""
    return sum(math.sqrt(2 * model.gap_ / model.alpha) for model in models) + tolerance("summation")


def program(X, y, qid, margin, alpha, normalize):
    """The documented problem, pair by pair, for a conic solver: its value and its weights."""
    w, targets, cost, rules = cp.Variable(X.shape[1]), cp.Variable(len(y)), 0.0, []
    for query in np.unique(qid):
        rows = np.flatnonzero(qid == query)
        levels = sorted(set(y[rows]))
        if len(levels) < 2:
            continue
        rest = targets[rows] - X[rows] @ w - cp.Variable()
        cost += cp.sum_squares(rest) / 2 / (len(rows) if normalize else 1)
        rules += [
            targets[i] >= targets[j] + margin
            for low, high in itertools.pairwise(levels)
            for i in rows[y[rows] == high]
            for j in rows[y[rows] == low]
        ]
    problem = cp.Problem(cp.Minimize(cost + alpha / 2 * cp.sum_squares(w)), rules)
    problem.solve(solver="CLARABEL")
    return problem.value, w.value


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("margin", [1.0, 0.3])
def test_the_documented_objective_is_minimised(margin, normalize):
    X, y, qid = draw()
    model = RetargetingRanker("squared", margin, ALPHA, normalize=normalize).fit(X, y, qid)
    value, weights = program(X, y, qid, margin, ALPHA, normalize)
    assert math.isclose(model.solution_.value, value, rel_tol=tolerance("two solvers"))
    assert 0 <= model.gap_ <= 1e-8
    assert model.solution_.certificate.kind == "global"
    near = reach(model) + math.sqrt(2 * tolerance("two solvers") * value / ALPHA)
    assert np.linalg.norm(model.coef_ - weights) <= near < 0.1 * np.linalg.norm(weights)


def test_options_reach_the_problem():
    X, y, qid = draw()
    options = {"margin": (0.5, 1.0), "reward": 0.1, "bound": (-2.0, 2.0), "target_reg": 0.3, "score_reg": 0.2}
    problem = RetargetingRanker(alpha=ALPHA, **options)._problem(X, y, qid)
    assert (problem.l2, problem.l1, problem.offsets) == (ALPHA, 0.0, True)
    assert {name: getattr(problem, name) for name in options} == options
    assert RetargetingRanker(margin=None, reward=0.2)._problem(X, y, qid).margin is None


def test_l1_sets_weights_to_zero_and_offsets_may_be_left_out():
    X, y, qid = draw(columns=5)
    bounds = (-0.4, 0.9)
    dense = RetargetingRanker(margin=0.4, bound=bounds, alpha=ALPHA).fit(X, y, qid)
    sparser = clone(dense).set_params(l1=0.1).fit(X, y, qid)
    still = clone(dense).set_params(offsets=False).fit(X, y, qid)
    for model, options in ((sparser, {"l1": 0.1}), (still, {"offsets": False})):
        problem = MarginRetargeting(X, y, qid, margin=0.4, bound=bounds, l2=ALPHA, **options)
        assert model.gap_ <= 1e-8
        assert math.isclose(
            model.solution_.value, problem.objective(model.coef_), rel_tol=tolerance("summation")
        )
        assert np.linalg.norm(model.coef_ - dense.coef_) > 10 * reach(model, dense)
    assert 0 < np.sum(sparser.coef_ == 0.0) < 5
    assert dense.coef_.all()
    # a constant column cancels where there are offsets, and counts where there are none
    wider = np.column_stack([X, np.ones(len(y))])
    assert abs(clone(dense).fit(wider, y, qid).coef_[-1]) <= reach(dense)
    assert abs(clone(still).fit(wider, y, qid).coef_[-1]) > 10 * reach(still)


@pytest.mark.parametrize(
    ("divergence", "options"), [("kl", {"margin": 0.01}), ("generalized_i", {"bound": (0.1, 4.0)})]
)
def test_other_divergences(divergence, options):
    X, y, qid = draw()
    model = RetargetingRanker(divergence, alpha=1e-2, **options).fit(X, y, qid)
    problem = MarginRetargeting(X, y, qid, divergence, l2=1e-2, **{"margin": 1.0, **options})
    assert model.gap_ <= 1e-8
    assert math.isclose(model.solution_.value, problem.objective(model.coef_), rel_tol=tolerance("summation"))
    # Lemma 8 with equality: s(1 + C_r)(C_w + 1/L) = 1, where 1/L is 0 on the domain
    strong = 2.0 if divergence == "kl" else problem.divergence.strong_convexity(*options["bound"])
    assert problem.score_reg == pytest.approx(1.0 / strong)
    assert model.score(X, y, qid) > RetargetingRanker(divergence, alpha=1e6, **options).fit(X, -y, qid).score(
        X, y, qid
    )


def test_the_order_of_rows_and_the_names_of_queries_do_not_matter():
    X, y, qid = draw()
    order = np.random.default_rng(1).permutation(len(y))
    model = RetargetingRanker(alpha=ALPHA).fit(X, y, qid)
    named = clone(model).fit(X[order], y[order], np.array([f"q{number}" for number in qid[order]]))
    grouped = clone(model).fit(X, y, QueryGroups.from_qid(qid))
    for other in (named, grouped):
        assert np.linalg.norm(other.coef_ - model.coef_) <= reach(model, other)
    one_list = clone(model).fit(X, y)
    assert np.linalg.norm(one_list.coef_ - model.coef_) > 10 * reach(model, one_list)


def test_what_asks_for_nothing_changes_nothing():
    X, y, qid = draw()
    model = RetargetingRanker(alpha=ALPHA).fit(X, y, qid)
    asks = [len(set(y[qid == query])) > 1 for query in qid]
    assert not all(asks)
    fewer = clone(model).fit(X[asks], y[asks], qid[asks])
    assert np.linalg.norm(fewer.coef_ - model.coef_) <= reach(model, fewer)
    wider = clone(model).fit(np.column_stack([X, np.zeros(len(y)), np.ones(len(y))]), y, qid)
    assert wider.coef_[3] == 0.0
    assert abs(wider.coef_[4]) <= tolerance("summation")  # a constant feature cancels in each query
    assert np.linalg.norm(wider.coef_[:3] - model.coef_) <= reach(model, wider)
    graded = clone(model).fit(X, np.array([-7.0, 0.5, 100.0])[y.astype(int)], qid)
    assert np.array_equal(graded.coef_, model.coef_)  # only the order of grades counts


@pytest.mark.parametrize("groups", [False, True])
def test_weights_are_repeated_rows(groups):
    X, y, qid = draw()
    weights = np.random.default_rng(2).integers(0, 4, size=len(y))
    model = RetargetingRanker(alpha=ALPHA)
    weighted = clone(model).fit(X, y, QueryGroups.from_qid(qid) if groups else qid, sample_weight=weights)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights), np.repeat(qid, weights))
    plain = clone(model).fit(X, y, qid)
    near = reach(weighted, repeated)
    assert np.linalg.norm(weighted.coef_ - repeated.coef_) <= near
    assert np.linalg.norm(weighted.coef_ - plain.coef_) > 10 * near
    found = plain.score(X, y, qid, sample_weight=weights)
    again = plain.score(*(np.repeat(values, weights, axis=0) for values in (X, y, qid)))
    assert found == pytest.approx(again, rel=tolerance("summation"))
    assert found != plain.score(X, y, qid)


def test_predict_is_the_linear_score():
    X, y, qid = draw()
    model = RetargetingRanker(alpha=ALPHA).fit(X, y, qid)
    assert np.array_equal(model.predict(X), X @ model.coef_)
    assert np.array_equal(model.decision_function(X), model.predict(X))
    assert model.coef_.shape == (model.n_features_in_,) == (3,)
    assert model.n_iter_ == model.solution_.iterations > 0
    assert not is_classifier(model)
    assert not is_regressor(model)


CONVENTIONS = {
    "convexrank": ({}, "average", None),
    "scikit-learn": ({"gain": "linear"}, "average", 0.0),
    "letor4": ({"discount": "letor"}, "stable", 0.0),
}


@pytest.mark.parametrize("cut", [None, 2])
@pytest.mark.parametrize("name", CONVENTIONS)
def test_score_is_ndcg_in_the_convention_it_names(name, cut):
    X, y, qid = draw()
    X[:, 0] = np.round(X[:, 0])
    options, ties, empty = CONVENTIONS[name]
    model = RetargetingRanker(ndcg_convention=name, ndcg_k=cut).fit(X, y, qid)
    model.coef_ = np.array([1.0, 0.0, 0.0])  # integers: many ties
    y[qid == qid[0]] = 0.0  # a query without a relevant row
    values = by_query(one_ndcg, y, model.predict(X), qid, ties, k=cut, **options)
    if name == "letor4" and cut:
        sizes = [np.sum(qid == query) for query in dict.fromkeys(qid.tolist())]
        values = [0.0 if size < cut else value for value, size in zip(values, sizes, strict=True)]
    filled = [empty if value is None else value for value in values]
    counted = [value for value in filled if value is not None]
    assert None in values
    assert model.score(X, y, qid) == pytest.approx(np.mean(counted), rel=tolerance("summation"))
    assert str(model.convention).startswith({"letor4": "LETOR 4.0"}.get(name, name))


def test_a_convention_may_be_an_object():
    X, y, qid = draw()
    named = RetargetingRanker(ndcg_convention="letor3").fit(X, y, qid)
    given = RetargetingRanker(ndcg_convention=conventions.LETOR3).fit(X, y, qid)
    assert named.score(X, y, qid) == given.score(X, y, qid)


def test_queries_that_fit_had_are_asked_for_by_score():
    X, y, qid = draw()
    model = RetargetingRanker(alpha=ALPHA).fit(X, y, qid)
    with pytest.raises(ValueError, match="qid is not given, but fit was given one"):
        model.score(X, y)
    one_list = clone(model).fit(X, y)
    assert one_list.score(X, y) == pytest.approx(one_list.score(X, y, np.zeros(len(y), dtype=int)))


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_data_stay_sparse(container, monkeypatch):
    X, y, qid = draw()
    X[np.abs(X) < 0.4] = 0.0
    dense = RetargetingRanker(alpha=ALPHA).fit(X, y, qid)

    def refuse(*_, **__):
        raise AssertionError("sparse data were made dense")

    for kind in (sparse.csr_array, sparse.csr_matrix):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)
    model = RetargetingRanker(alpha=ALPHA).fit(container(X), y, qid)
    assert np.linalg.norm(model.coef_ - dense.coef_) <= reach(dense, model)
    assert model.score(container(X), y, qid) == dense.score(X, y, qid)


# --- scikit-learn's tools -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaled", [False, True])
def test_grid_search_over_folds_of_queries(scaled):
    X, y, qid = draw(12, seed=3)
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = RetargetingRanker(ndcg_k=3).set_fit_request(qid=True).set_score_request(qid=True)
        model = make_pipeline(StandardScaler(), ranker) if scaled else ranker
        name = "retargetingranker__alpha" if scaled else "alpha"
        search = GridSearchCV(model, {name: [0.01, 1.0, 100.0]}, cv=GroupKFold(3), error_score="raise")
        search.fit(X, y, qid=qid, groups=qid)
    expected = []
    for alpha in (0.01, 1.0, 100.0):
        scores = []
        for train, test in GroupKFold(3).split(X, y, qid):
            assert not set(qid[train]) & set(qid[test])
            move = StandardScaler().fit(X[train]).transform if scaled else np.asarray
            fitted = RetargetingRanker(alpha=alpha, ndcg_k=3).fit(move(X[train]), y[train], qid[train])
            scores.append(fitted.score(move(X[test]), y[test], qid[test]))
        expected.append(np.mean(scores))
    assert search.cv_results_["mean_test_score"].tolist() == pytest.approx(expected)
    assert search.best_params_[name] == (0.01, 1.0, 100.0)[int(np.argmax(expected))]
    assert search.predict(X).shape == y.shape


def test_what_is_not_routed_is_not_lost_in_silence():
    X, y, qid = draw(12, seed=3)
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = RetargetingRanker().set_fit_request(qid=True)
        with pytest.raises(ValueError, match=r"\[qid\] are passed but are not explicitly set"):
            cross_validate(ranker, X, y, cv=GroupKFold(3), params={"qid": qid, "groups": qid})
        deaf = ranker.set_score_request(qid=False)
        with pytest.raises(ValueError, match="qid reaches fit, but not score"):
            cross_validate(
                deaf, X, y, cv=GroupKFold(3), params={"qid": qid, "groups": qid}, error_score="raise"
            )
    search = GridSearchCV(RetargetingRanker(), {"alpha": [1e-3, 1e-2]}, cv=GroupKFold(3))
    with warnings.catch_warnings():  # a score that fails would be a warning with a traceback, six times
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="All the 6 fits failed") as refusal:
            search.fit(X, y, qid=qid, groups=qid)
    assert str(refusal.value).count("set_score_request(qid=True)") == 1
    with pytest.raises(ValueError, match="qid is not given, but fit was given one"):
        RetargetingRanker().fit(X, y, qid).score(X, y)


def test_a_search_by_another_score_may_fit_with_queries():
    X, y, qid = draw(12, seed=3)
    scores = cross_val_score(
        RetargetingRanker(), X, y, cv=GroupKFold(3), params={"qid": qid}, groups=qid,
        scoring=lambda model, rows, grades: float(model.decision_function(rows) @ grades),
    )  # fmt: skip
    assert np.isfinite(scores).all()


def test_pickle_and_clone():
    X, y, qid = draw()
    model = RetargetingRanker("squared", (0.5, 1.0), ALPHA, ndcg_convention="letor4", ndcg_k=5, tol=1e-6)
    model.fit(X, y, qid)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.score(X, y, qid) == model.score(X, y, qid)
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "coef_")


# --- warnings and errors --------------------------------------------------------------------------------------------


def test_not_converged_is_said():
    X, y, qid = draw()
    with pytest.warns(ConvergenceWarning, match="MAX_ITER"):
        model = RetargetingRanker(alpha=1e-6, max_iter=1, solver="lbfgs").fit(X, y, qid)
    assert model.n_iter_ == 1
    assert model.gap_ > 1e-8


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"divergence": "euclid"}, ValueError, "divergence is 'euclid', expected"),
        ({"margin": -1.0}, ValueError, "margin is -1"),
        ({"margin": (1.0,)}, ValueError, "margin has 1 entries, expected 2"),
        ({"bound": (0.0, 1.0), "margin": 1.0}, ValueError, "infeasible: the margins of query"),
        ({"alpha": -1}, ValueError, "alpha is -1"),
        ({"l1": -1}, ValueError, "l1 is -1"),
        ({"alpha": None}, TypeError, "alpha is None"),
        ({"ndcg_convention": "ndcg"}, ValueError, "ndcg_convention is 'ndcg', expected one of: convexrank"),
        ({"solver": "magic"}, ValueError, "unknown solver 'magic'; solvers that fit"),
        ({"tol": 0}, ValueError, "tol is 0"),
    ],
)
def test_bad_parameters_are_refused_by_fit(parameters, error, message):
    with pytest.raises(error, match=message):
        RetargetingRanker(**parameters).fit(*draw())


def test_bad_data_are_refused():
    X, y, qid = draw()
    ranker = RetargetingRanker()
    with pytest.raises(ValueError, match=r"none of the \d queries has two rows of different grades"):
        ranker.fit(X, np.ones(len(y)), qid)
    with pytest.raises(ValueError, match="contains NaN"):
        ranker.fit(X, np.where(np.arange(len(y)) == 2, np.nan, y), qid)
    with pytest.raises(ValueError, match=rf"qid.* 3 .*expected.*{len(y)}"):
        ranker.fit(X, y, qid[:3])
    with pytest.raises(ValueError, match=r"sample_weight\[0\] is 0\.5, expected whole numbers"):
        ranker.fit(X, y, qid, sample_weight=np.full(len(y), 0.5))
    for huge, words in ((1e12, r"asks for .* rows in all"), (1e300, "sum of at most")):
        with pytest.raises(ValueError, match=words):
            ranker.fit(X, y, qid, sample_weight=np.full(len(y), huge))
    with pytest.raises(ValueError, match="zero everywhere; give the rows that count a weight greater than 0"):
        ranker.fit(X, y, qid, sample_weight=np.zeros(len(y)))
    with pytest.raises(ValueError, match="none of the 1 queries"):
        ranker.fit(X, y, qid, sample_weight=(np.arange(len(y)) == 0).astype(float))
    fitted = ranker.fit(X, y, qid)
    with pytest.raises(ValueError, match="negative grade"):
        fitted.score(X, y - 1, qid)
    with pytest.raises(ValueError, match="no query with a grade above 0"):
        fitted.score(X, np.zeros(len(y)), qid)
    with pytest.raises(ValueError, match="k is 0"):
        RetargetingRanker(ndcg_k=0).fit(X, y, qid).score(X, y, qid)


def sorts_of_all_rows(monkeypatch, size):
    """A list of the sorts of at least so many rows from now on, and of the times that ids of queries are checked."""
    found = []

    def count(module, name, length):
        inner = getattr(module, name)

        def counting(values, *arguments, **options):
            if length(values) >= size:
                found.append((name, length(values)))
            return inner(values, *arguments, **options)

        monkeypatch.setattr(module, name, counting)

    for name in ("argsort", "unique"):
        count(np, name, len)
    count(np, "lexsort", lambda keys: len(keys[0]))
    count(groups_of_rows, "check_groups", len)
    return found


@pytest.mark.parametrize("times", [None, 1, 2])
def test_a_fit_groups_its_rows_once_and_sorts_them_once(monkeypatch, times):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.tile([0.0, 1.0], 30)
    qid = rng.permutation(np.repeat([7, 3, 5], 20))
    found = sorts_of_all_rows(monkeypatch, len(y))
    RetargetingRanker(alpha=ALPHA).fit(
        X, y, qid, sample_weight=None if times is None else np.full(len(y), times)
    )
    size = len(y) * (times or 1)
    # by query; all grades there are; by grade within queries. What the certificate does for one query is shorter
    assert found == [("check_groups", 60), ("argsort", 60), ("unique", size), ("lexsort", size)]


def test_sizes_of_queries_are_queries():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(6), 10)
    y = np.digitize(X[:, 0], [0.0, 1.0])
    for make in (lambda: RetargetingRanker(tol=1e-10), lambda: cr.Ranker("list_net", tol=1e-10)):
        by_size, by_name = make().fit(X, y, group=[10] * 6), make().fit(X, y, qid)
        np.testing.assert_array_equal(by_size.coef_, by_name.coef_)
        assert by_size.score(X, y, group=[10] * 6) == by_name.score(X, y, qid)
        with pytest.raises(ValueError, match="expected one of them"):
            make().fit(X, y, qid, group=[10] * 6)
        with pytest.raises(ValueError, match="group adds up to 20 rows, expected 60"):
            make().fit(X, y, group=[10, 10])


def check_a_search_over_groups_without_queries(jobs):
    """Without routing it ran on one query, and its numbers looked plausible."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(6), 10)
    y = np.digitize(X[:, 0], [0.0, 1.0])
    search = GridSearchCV(RetargetingRanker(), {"alpha": [0.1, 1.0]}, cv=GroupKFold(3), n_jobs=jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, of each fit that fails
        with pytest.raises(ValueError, match=r"fit has no qid(.|\n)*set_fit_request"):
            search.fit(X, y, groups=qid)
        with pytest.raises(ValueError, match="set_fit_request"):
            cross_val_score(RetargetingRanker(), X, y, groups=qid, cv=GroupKFold(3))
    plain = GridSearchCV(RetargetingRanker(), {"alpha": [0.1, 1.0]}, cv=3, n_jobs=jobs).fit(X, y)
    assert np.isfinite(plain.best_score_)


def test_a_search_over_groups_without_queries_is_refused():
    """In several processes by test_cross_validated, which has some."""
    check_a_search_over_groups_without_queries(jobs=None)


# --- other objectives by name -----------------------------------------------------------------------------------------

FAMILY = names_of(GradedQueries) | {"rank_cosine": RankCosine}
# A value of each parameter, other than its default, that all objectives which have it take.
VALUES = {
    "divergence": "squared",
    "offsets": False,
    "normalize": False,
    "loss": "squared_hinge",
    "target": "linear",
    "gain": "linear",
    "gamma": 0.2,
    "smoothing": 0.1,
}


def own_names(formulation):
    return {one.name for one in fields(formulation) if one.init} - PASSED


def test_every_parameter_of_the_family_is_one_of_the_estimator():
    own = {name for objective in (*FAMILY.values(), MarginRetargeting) for name in own_names(objective)}
    assert set(_OF_OBJECTIVES) == own - {"dtype", "center"}


@pytest.mark.parametrize("objective", FAMILY)
def test_a_named_objective_is_that_of_its_class(objective):
    X, y, qid = draw()
    counts = np.random.default_rng(1).integers(1, 3, size=len(y))
    given = {name: VALUES[name] for name in own_names(FAMILY[objective]) if name in VALUES}
    model = RetargetingRanker(objective=objective, alpha=ALPHA, **given)
    model.fit(X, y, qid=qid, sample_weight=counts)
    rows = np.repeat(np.arange(len(y)), counts)
    problem = FAMILY[objective](X[rows], y[rows], qid=qid[rows], l2=ALPHA, **given)
    assert abs(problem.objective(model.coef_) - problem.solve().value) <= 10.0 * tolerance("two solvers")
    plain = RetargetingRanker(objective=objective, alpha=ALPHA).fit(X, y, qid=qid)
    assert np.isfinite(plain.score(X, y, qid=qid))


def test_an_objective_is_searched_along_a_path():
    X, y, qid = draw(queries=8)
    model = cr.RetargetingRankerCV(objective="list_net", path="alpha", values=[1.0, 0.1], cv=2, tol=1e-6)
    model.fit(X, y, qid=qid)
    assert model.best_value_ in (1.0, 0.1)
    assert model.scores_.shape == (2, 2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"objective": "listnet"}, "did you mean .list_net."),
        ({"objective": "list_net", "margin": 2.0}, "margin is 2.0, but objective='list_net' has no such"),
        (
            {"objective": "list_mle", "divergence": "kl"},
            "divergence is 'kl', but objective='list_mle' has no",
        ),
        ({"gamma": 0.3}, "gamma is 0.3, but objective='retargeting' has no such parameter"),
        ({"objective": "xendcg", "gamma": 1.5}, "gamma is 1.5"),
    ],
)
def test_wrong_objectives_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        RetargetingRanker(**parameters).fit(*draw())


@pytest.mark.parametrize("grades", [["good", "bad", "bad", "good"], ["1", "0", "0", "1"]])
def test_grades_are_numbers(grades):
    with pytest.raises(ValueError, match=r"y holds .* expected numbers"):
        RetargetingRanker().fit(np.eye(4), grades, [0, 0, 1, 1])
