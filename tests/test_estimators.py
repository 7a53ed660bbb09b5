"""PushRanker: scikit-learn's own checks, the objectives from their definition, weights, labels, sparse X, pipelines."""

from __future__ import annotations

import math
import pickle
from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
import sklearn
from scipy import optimize, sparse
from sklearn.base import clone, is_classifier
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from convexrank import ConvergenceWarning, PushRanker, losses, metrics
from convexrank.estimators._objectives import names_of, own_fields
from convexrank.estimators.push import _OF_OBJECTIVES
from convexrank.problems import PartialAUC
from convexrank.problems.bipartite._base import Bipartite
from tests.tolerances import tolerance

L2 = 0.05


@parametrize_with_checks(
    [
        PushRanker(),
        # with this limit and penalty fits take three fifths of the time that 0.3 alone takes, and with this tolerance
        # half of that: the checks ask how arguments are handled, and test_rate_constrained how near the minimum is
        PushRanker(objective="rate_constrained", max_fpr=0.5, l2=1.0, tol=1e-3),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_arrays_of_other_libraries_are_read_by_numpy():
    X, y = draw()
    plain = PushRanker().fit(X.astype(np.float32), y)
    taken = PushRanker().fit(jnp.asarray(X, jnp.float32), jnp.asarray(y))
    assert not taken.__sklearn_tags__().array_api_support
    assert type(taken.coef_) is type(taken.predict(jnp.asarray(X))) is np.ndarray
    np.testing.assert_allclose(taken.coef_, plain.coef_, rtol=tolerance("small problems"))


def draw(rows=24, columns=2, seed=0):
    """Draw rows, tied in the first column, whose top can be cleaned though not all of the list (else p = ∞ gives 0)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    X[:, 0] = np.round(2 * X[:, 0]) / 2
    y = (X[:, 0] > 0.5).astype(int)
    y[np.argmin(np.abs(X - X[y == 0].mean(axis=0)).sum(axis=1))] = 1  # a positive among the negatives
    return X, y


# --- the objective of every choice of parameters, pair by pair ------------------------------------------------------

LOSSES = {
    "exponential": lambda z: math.exp(-z),
    "logistic": lambda z: math.log1p(math.exp(-z)),
    "hinge": lambda z: max(0.0, 1.0 - z),
    "squared_hinge": lambda z: max(0.0, 1.0 - z) ** 2,
}
CHOICES = {
    "p-norm": {"p": 3},
    "top": {"p": math.inf},
    "mean squared hinge": {"p": 2, "loss": "squared_hinge"},
    "mean hinge": {"p": 2, "loss": "hinge"},
    "maximum": {"p": math.inf, "loss": "logistic"},
    "price": {"price": "log_one_plus"},
    "power as price": {"price": 2.0, "loss": "logistic"},
}


def inner_sums(scores, y, weights, loss):
    """For each negative: the weighted sum of losses over the positives, and its own weight."""
    rows = range(len(y))
    return [
        (sum(weights[i] * LOSSES[loss](scores[i] - scores[k]) for i in rows if y[i]), weights[k])
        for k in rows
        if not y[k] and weights[k] > 0
    ]


def risk_by_hand(scores, y, weights, p=4.0, price=None, loss="exponential"):
    positives = sum(weight for weight, label in zip(weights, y, strict=True) if label)
    sums = inner_sums(scores, y, weights, loss)
    negatives = sum(weight for _, weight in sums)
    if price is not None:
        g = math.log1p if price == "log_one_plus" else lambda r: r**price
        return sum(weight * g(r) for r, weight in sums) / negatives
    if math.isinf(p):
        largest = max(r for r, _ in sums) / positives
        return math.log(largest) if loss == "exponential" else largest
    mean = sum(weight * (r / positives) ** p for r, weight in sums) / negatives
    return math.log(mean) / p if loss == "exponential" else mean


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("choice", CHOICES)
def test_the_documented_objective_is_minimised(choice, weighted):
    X, y = draw()
    weights = np.random.default_rng(1).integers(0, 4, size=len(y)) if weighted else None
    counts = np.ones(len(y)) if weights is None else weights
    model = PushRanker(l2=L2, **CHOICES[choice]).fit(X, y, sample_weight=weights)

    def objective(w):
        return risk_by_hand(X @ w, y, counts, **CHOICES[choice]) + L2 / 2 * w @ w

    found = objective(model.coef_)
    assert math.isclose(
        found, model.solution_.value, rel_tol=tolerance("summation"), abs_tol=tolerance("summation")
    )
    assert model.solution_.converged
    assert np.linalg.norm(model.coef_) > 0.1
    best = optimize.minimize(
        objective, model.coef_ + 0.3, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}
    )
    assert found <= best.fun + model.gap_ + tolerance("summation")


@pytest.mark.parametrize("choice", CHOICES)
def test_weights_are_repeated_rows(choice):
    X, y = draw()
    weights = np.random.default_rng(2).integers(0, 4, size=len(y))
    model = PushRanker(l2=L2, **CHOICES[choice])
    weighted = clone(model).fit(X, y, sample_weight=weights)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    plain = clone(model).fit(X, y)
    # l2-strong convexity: a point with gap ε is within sqrt(2 ε / l2) of the minimiser
    reach = sum(math.sqrt(2 * fitted.gap_ / L2) for fitted in (weighted, repeated)) + tolerance("summation")
    assert np.linalg.norm(weighted.coef_ - repeated.coef_) <= reach
    assert np.linalg.norm(weighted.coef_ - plain.coef_) > 10 * reach


# --- other objectives by name -----------------------------------------------------------------------------------------

FAMILY = names_of(Bipartite)
# The limits of a rate as a constraint, whose class is outside this family.
RATES = ("max_fpr", "min_recall", "min_precision")
# A value of each parameter, other than its default, that all objectives which have it take.
VALUES = {
    "p": 3.0,
    "price": 2.0,
    "loss": "squared_hinge",
    "max_fpr": 0.4,
    "min_tpr": 0.3,
    "spectrum": ("top", 3),
    "bottom_weight": 0.5,
    "tau": 0.3,
    "surrogate": "logistic",
    "beta": 2.0,
    "over": "all",
}
OTHERS = sorted(set(FAMILY) - {"push"})


def parameters_of(objective):
    return {name: VALUES[name] for name in own_fields(objective) if name in VALUES}


def test_every_parameter_of_the_family_is_one_of_the_estimator():
    known = set(PushRanker().get_params())
    for objective in FAMILY:
        missing = set(own_fields(objective)) - known - {"dtype"}
        assert not missing, f"add {missing} of {objective} to PushRanker and to the names of its parameters"
    of_family = {name for objective in FAMILY for name in own_fields(objective)} - {"dtype"}
    assert set(_OF_OBJECTIVES) == of_family | set(RATES)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", OTHERS)
def test_a_named_objective_is_the_definition_of_its_class(objective, weighted):
    X, y = draw()
    weights = np.random.default_rng(1).integers(0, 4, size=len(y)) if weighted else None
    given = parameters_of(objective)
    model = PushRanker(objective=objective, l2=L2, **given).fit(X, y, sample_weight=weights)
    problem = FAMILY[objective](X, y, sample_weight=weights, l2=L2, **given)

    def value(w):
        return problem.definition(X @ w) + L2 / 2 * w @ w

    found = value(model.coef_)
    assert found == pytest.approx(
        model.solution_.value, rel=tolerance("summation"), abs=tolerance("summation")
    )
    assert model.solution_.converged
    best = optimize.minimize(
        value, model.coef_ + 0.3, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}
    )
    assert found <= best.fun + model.gap_ + tolerance("summation")
    assert value(np.zeros(2)) > found


@pytest.mark.parametrize("objective", OTHERS)
def test_parameters_of_an_objective_are_parameters_of_the_estimator(objective):
    X, y = draw()
    given = parameters_of(objective)
    model = PushRanker(objective=objective, l2=L2, **given)
    assert clone(model).get_params() == model.get_params()
    assert model.get_params().items() >= {"objective": objective, **given}.items()
    for name, value in given.items():
        other = PushRanker(objective=objective, l2=L2, **given).set_params(**{name: value})
        search = GridSearchCV(other, {name: [value]}, cv=StratifiedKFold(2), error_score="raise").fit(X, y)
        assert np.array_equal(search.best_estimator_.coef_, clone(model).fit(X, y).coef_)
    for name in set(VALUES) - set(given):
        with pytest.raises(
            ValueError, match=rf"{name} is .*, but objective='{objective}' has no such parameter"
        ):
            clone(model).set_params(**{name: VALUES[name]}).fit(X, y)


def test_one_search_compares_objectives():
    X, y = draw(60, 3)
    grid = [
        {"objective": ["partial_auc"], "max_fpr": [0.1, 1.0]},
        {"objective": ["spectral_push"], "spectrum": ["uniform", ("top", 0.2), [0.25, 0.75]]},
        {"objective": ["push"], "p": [1, 8]},
    ]
    folds = StratifiedKFold(2)
    search = GridSearchCV(PushRanker(l2=L2), grid, cv=folds, error_score="raise").fit(X, y)
    assert len(search.cv_results_["mean_test_score"]) == 7
    best = PushRanker(l2=L2, **search.best_params_)
    assert search.best_score_ == cross_val_score(best, X, y, cv=folds).mean()


# --- scores, labels, sparse data ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_score_is_the_weighted_auc_with_ties_as_half(weighted):
    X, y = draw()
    model = PushRanker(l2=L2).fit(X, y)
    model.coef_ = np.array([1.0, 0.0])  # half-integers: many ties
    weights = np.random.default_rng(3).uniform(0, 2, size=len(y)) if weighted else np.ones(len(y))
    scores = model.predict(X)
    right = pairs = 0.0
    for i, k in product(np.flatnonzero(y), np.flatnonzero(1 - y)):
        pairs += weights[i] * weights[k]
        right += weights[i] * weights[k] * ((scores[i] > scores[k]) + 0.5 * (scores[i] == scores[k]))
    score = model.score(X, y, sample_weight=weights if weighted else None)
    assert math.isclose(score, right / pairs, rel_tol=tolerance("summation"))


@pytest.mark.parametrize("heavy", [1e20, 1e150, 1e160])
@pytest.mark.parametrize("classes", ["both", "negatives"])
def test_score_by_query_does_not_lose_light_queries_beside_heavy_ones(heavy, classes):
    X, y = draw()
    half, model = len(y) // 2, PushRanker(l2=L2).fit(X, y)
    qid = np.arange(len(y)) // half
    weights = np.where((qid == 0) & ((y == 0) | (classes == "both")), heavy, 1.0)
    score = model.score(X, y, sample_weight=weights, qid=qid)  # equal weights within a class cancel
    assert math.isclose(score, model.score(X, y, qid=qid), rel_tol=tolerance("summation"))


def test_predict_is_the_linear_score():
    X, y = draw()
    model = PushRanker(l2=L2).fit(X, y)
    assert np.array_equal(model.predict(X), X @ model.coef_)
    assert np.array_equal(model.decision_function(X), model.predict(X))
    assert model.coef_.shape == (model.n_features_in_,) == (2,)
    assert model.n_iter_ == model.solution_.iterations > 0
    assert not is_classifier(model)


@pytest.mark.parametrize(
    "name",
    [(0, 1), (-1, 1), (False, True), ("background", "signal"), (2.0, 7.5)],
    ids=["0/1", "-1/1", "bool", "text", "floats"],
)
def test_labels(name):
    X, y = draw()
    model = PushRanker(l2=L2).fit(X, np.array(name)[y])
    assert model.classes_.tolist() == list(name)
    assert model.positive_class_ == name[1]
    assert np.array_equal(model.coef_, PushRanker(l2=L2).fit(X, y).coef_)
    assert model.score(X, np.array(name, dtype=object)[y].tolist()) > 0.5


@pytest.mark.parametrize(
    "container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array]
)
def test_sparse_data_stay_sparse(container, monkeypatch):
    X, y = draw()
    dense = PushRanker(l2=L2).fit(X, y)

    def refuse(*_, **__):
        raise AssertionError("sparse data were made dense")

    for kind in (sparse.csr_array, sparse.csr_matrix):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)
    model = PushRanker(l2=L2).fit(container(X), y)
    assert model.solution_.solver != "exact"
    reach = sum(math.sqrt(2 * fitted.gap_ / L2) for fitted in (dense, model)) + tolerance("summation")
    assert np.linalg.norm(model.coef_ - dense.coef_) <= reach
    assert model.score(container(X), y) == dense.score(X, y)
    assert sparse.issparse(container(X))


# --- scikit-learn's tools -------------------------------------------------------------------------------------------


def test_grid_search_in_a_pipeline():
    X, y = draw(60, 3)
    folds = StratifiedKFold(3)
    grid = {"pushranker__p": [1, 8, math.inf], "pushranker__l2": [1e-2, 1.0]}
    search = GridSearchCV(make_pipeline(StandardScaler(), PushRanker()), grid, cv=folds, error_score="raise")
    search.fit(X, y)
    assert len(search.cv_results_["mean_test_score"]) == 6
    best = search.best_params_
    model = make_pipeline(StandardScaler(), PushRanker(best["pushranker__p"], l2=best["pushranker__l2"]))
    assert np.array_equal(search.predict(X), model.fit(X, y).predict(X))
    own = cross_val_score(model, X, y, cv=folds, error_score="raise")
    for scorer, expected in (
        (make_scorer(roc_auc_score), own),
        (make_scorer(metrics.precision_at, k=0.2), [*precisions(model, folds, X, y)]),
    ):
        found = cross_val_score(model, X, y, cv=folds, error_score="raise", scoring=scorer)
        assert found.tolist() == pytest.approx(expected, rel=tolerance("summation"))
    assert search.best_score_ == pytest.approx(own.mean(), rel=tolerance("summation"))


def precisions(model, folds, X, y):
    for train, test in folds.split(X, y):
        scores = clone(model).fit(X[train], y[train]).predict(X[test])
        count = math.ceil(0.2 * len(test))
        yield y[test][np.argsort(-scores)[:count]].mean()


def test_metadata_routing():
    X, y = draw(40)
    rng = np.random.default_rng(4)
    weights, qid = rng.uniform(0.5, 2, size=len(y)), np.full(len(y), 7)
    folds = StratifiedKFold(2)
    with sklearn.config_context(enable_metadata_routing=True):
        model = PushRanker(l2=L2).set_fit_request(sample_weight=True, qid=True)
        model = model.set_score_request(sample_weight=True, qid=True)
        search = GridSearchCV(model, {"p": [2]}, cv=folds, error_score="raise")
        search.fit(X, y, sample_weight=weights, qid=qid)
    by_hand = []
    for train, test in folds.split(X, y):
        fitted = PushRanker(2, l2=L2).fit(X[train], y[train], sample_weight=weights[train])
        by_hand.append(fitted.score(X[test], y[test], sample_weight=weights[test]))
    assert search.best_score_ == pytest.approx(np.mean(by_hand), rel=tolerance("summation"))


def test_pickle_and_clone():
    X, y = draw()
    model = PushRanker(8, loss=losses.Logistic(), price=2, l2=L2, l1=0.01, tol=1e-6).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.solution_.status is model.solution_.status
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "coef_")


def by_query(seed=0, rows=90):
    X, y = draw(rows, 3, seed)
    rng = np.random.default_rng(seed)
    # the last query has no positive
    return X, np.where(np.arange(rows) < rows - 5, y, 0), np.r_[np.arange(rows - 5) % 4, np.full(5, 9)], rng


def test_one_query_is_one_list():
    X, y = draw()
    plain, named = PushRanker(l2=L2).fit(X, y), PushRanker(l2=L2).fit(X, y, qid=["a"] * len(y))
    assert np.array_equal(plain.coef_, named.coef_)
    assert named.score(X, y) == plain.score(X, y, qid=[7] * len(y))
    for call in (plain.fit, plain.score):
        with pytest.raises(ValueError, match="qid has 2 entries, expected 24"):
            call(X, y, qid=[0, 0])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("options", "loss", "price"),
    [
        ({"p": 3.0}, lambda t: math.exp(-t), lambda r: r**3.0),
        ({"p": 2.0, "loss": "squared_hinge"}, lambda t: max(0.0, 1.0 - t) ** 2, lambda r: r**2),
        ({"price": "exp", "loss": "hinge"}, lambda t: max(0.0, 1.0 - t), math.exp),
    ],
)
def test_several_queries_are_lists_of_their_own(options, loss, price, weighted):
    """The risk is the sum over queries of that of one list, by loops over its pairs."""
    X, y, qid, rng = by_query()
    weights = rng.integers(1, 3, size=len(y)).astype(float) if weighted else np.ones(len(y))
    model = PushRanker(**options, l2=1.0).fit(X, y, qid, weights if weighted else None)
    scores, total = model.decision_function(X), 0.0
    for query in np.unique(qid):
        upper, lower = (np.flatnonzero((qid == query) & (y == one)) for one in (1, 0))
        if len(upper):
            # the price of a sum over positives, else of their mean
            unit = 1.0 if "price" in options else weights[upper].sum()
            costs = [
                price(sum(weights[i] * loss(scores[i] - scores[k]) for i in upper) / unit) for k in lower
            ]
            mean = sum(weights[lower] * costs) / weights[lower].sum()
            total += math.log(mean) / options["p"] if "loss" not in options else mean
    truth = total + 0.5 * float(model.coef_ @ model.coef_)
    assert model.solution_.value == pytest.approx(truth, rel=tolerance("summation"))
    shuffled = rng.permutation(len(y))
    again = PushRanker(**options, l2=1.0).fit(
        X[shuffled], y[shuffled], np.array([f"q{one}" for one in qid[shuffled]]), weights[shuffled]
    )
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=tolerance("small problems"))


def test_the_score_of_queries_is_the_mean_of_their_auc():
    X, y, qid, _ = by_query()
    model = PushRanker(l2=L2).fit(X, y, qid)
    scores = model.decision_function(X)
    mean = np.mean([roc_auc_score(y[qid == one], scores[qid == one]) for one in range(4)])
    assert model.score(X, y, qid) == pytest.approx(mean, rel=tolerance("summation"))
    with pytest.raises(ValueError, match="qid is not given, but fit was given one"):
        model.score(X, y)
    with pytest.raises(ValueError, match="no query with two rows of different labels"):
        model.score(X, y, qid=y)
    with pytest.raises(ValueError, match="has one threshold for all rows"):
        PushRanker(objective="rate_constrained", max_fpr=0.2).fit(X, y, qid)
    with pytest.raises(ValueError, match="none of the 2 queries has two rows of different labels"):
        model.fit(X, y, qid=y)


def test_a_search_passes_queries_on():
    X, y, qid, _ = by_query()
    qid = np.arange(len(y)) % 6
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = PushRanker(l2=L2).set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(ranker, {"p": [1.0, 4.0]}, cv=GroupKFold(3)).fit(X, y, qid=qid, groups=qid)
    train, test = next(GroupKFold(3).split(X, y, qid))
    by_hand = PushRanker(1.0, l2=L2).fit(X[train], y[train], qid[train]).score(X[test], y[test], qid[test])
    assert search.cv_results_["split0_test_score"][0] == pytest.approx(by_hand)
    with pytest.raises(ValueError, match="qid reaches fit, but not score"):
        GridSearchCV(PushRanker(), {"p": [1.0]}, cv=GroupKFold(3), error_score="raise").fit(
            X, y, qid=qid, groups=qid
        )


@pytest.mark.parametrize("features", ["linear", "thresholds"])
def test_masked_entries_are_not_taken_for_numbers(features):
    X, y = draw()
    mask = np.arange(len(y)) % 5 == 0
    model = PushRanker(features=features)
    for rows, labels in ((np.ma.masked_array(X, X > 1.0), y), (X, np.ma.masked_array(y, mask))):
        with pytest.raises(ValueError, match="is a masked array with masked entries"):
            model.fit(rows, labels)
    whole = model.fit(np.ma.masked_array(X), y)
    assert np.array_equal(whole.coef_, PushRanker(features=features).fit(X, y).coef_)
    with pytest.raises(ValueError, match="X is a masked array with masked entries"):
        whole.predict(np.ma.masked_array(X, X > 1.0))


# --- warnings and errors --------------------------------------------------------------------------------------------


def test_not_converged_is_said():
    X, y = draw()
    with pytest.warns(ConvergenceWarning, match="MAX_ITER"):
        model = PushRanker(l2=L2, max_iter=1).fit(X, y)
    assert model.n_iter_ == 1
    assert model.gap_ > 1e-8
    with pytest.warns(ConvergenceWarning, match="SEPARABLE"):
        model = PushRanker(l2=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    assert model.score([[0.0], [3.0]], [0, 1]) == 1


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"objective": "top"}, ValueError, "objective is 'top', expected one of: .*partial_auc.*top_push"),
        ({"objective": "list_net"}, ValueError, "objective is 'list_net', expected one of: "),
        ({"objective": None}, ValueError, "objective is None, expected one of: "),
        ({"objective": PartialAUC}, ValueError, "objective is .*PartialAUC.*, expected one of: "),
        ({"objective": "partial_auc", "max_fpr": 0.0}, ValueError, "max_fpr is 0.0"),
        ({"objective": "partial_auc", "max_fpr": 1.5}, ValueError, "max_fpr is 1.5"),
        ({"objective": "partial_auc", "max_fpr": "all"}, TypeError, "max_fpr is 'all'"),
        ({"objective": "partial_auc", "loss": "square"}, ValueError, "loss is 'square', expected one of"),
        ({"objective": "partial_auc", "p": 8}, ValueError, "p is 8, but objective='partial_auc' has no such"),
        ({"objective": "spectral_push", "spectrum": [0.7, 0.3]}, ValueError, "spectrum"),
        ({"objective": "spectral_push", "spectrum": [0.3, 0.3]}, ValueError, "spectrum"),
        (
            {"objective": "top_push", "spectrum": np.ones(3) / 3},
            ValueError,
            "spectrum is .* has no such parameter",
        ),
        ({"max_fpr": 0.1}, ValueError, "max_fpr is 0.1, but objective='push' has no such parameter"),
        ({"p": 0}, ValueError, "p is 0"),
        ({"p": math.nan}, ValueError, "p is nan"),
        ({"p": "4"}, TypeError, "p is '4'"),
        ({"p": None}, TypeError, "p is None"),
        ({"l1": None}, TypeError, "l1 is None"),
        ({"p": 0.5, "loss": "hinge"}, ValueError, "convex"),
        ({"l2": -1}, ValueError, "l2 is -1"),
        ({"l1": math.inf}, ValueError, "l1 is inf"),
        ({"loss": "square"}, ValueError, "loss is 'square', expected one of"),
        ({"price": "cubic"}, ValueError, "price is 'cubic', expected one of"),
        ({"price": "log_one_plus", "loss": "hinge"}, ValueError, "convex"),
        ({"solver": "magic"}, ValueError, "unknown solver 'magic'; solvers that fit"),
        ({"tol": 0}, ValueError, "tol is 0"),
        ({"max_iter": 2.5}, TypeError, "max_iter is 2.5"),
    ],
)
def test_bad_parameters_are_refused_by_fit(parameters, error, message):
    with pytest.raises(error, match=message):
        PushRanker(**parameters).fit(*draw())


def test_bad_labels_and_weights_are_refused():
    X, y = draw()
    with pytest.raises(ValueError, match="expected exactly two"):
        PushRanker().fit(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match="leaves no positive example"):
        PushRanker().fit(X, y, sample_weight=1 - y)
    with pytest.raises(ValueError, match="expected weights of at least 0"):
        PushRanker().fit(X, y, sample_weight=-np.ones(len(y)))
    model = PushRanker(l2=L2).fit(X, y)
    with pytest.raises(ValueError, match=r"expected both of \[0, 1\].*stratify the folds"):
        model.score(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match=r"y has the labels \[-1, 1\], expected both of \[0, 1\]"):
        model.score(X, 2 * y - 1)
    with pytest.raises(ValueError, match="leaves no positive or no negative"):
        model.score(X, y, sample_weight=y)
