"""The estimators over thresholds and products of features."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.utils.estimator_checks import parametrize_with_checks

import convexrank as cr
from convexrank import PushRanker, RetargetingRanker
from convexrank.estimators._objectives import names_of
from convexrank.problems.bipartite._base import Bipartite
from convexrank.solvers.working_sets._part import Part
from convexrank.solvers.working_sets.working_sets import WorkingSets
from tests.tolerances import tolerance


@parametrize_with_checks([PushRanker(features="thresholds", bins=8, l1=0.01, l2=0.01, tol=1e-12)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def curved(seed=0, rows=240):
    """Labels that a linear score cannot explain: extremes of the first column, an interaction, absent values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    y = (np.abs(X[:, 0]) + (X[:, 1] > 0) * (X[:, 2] > 0) + 0.3 * rng.normal(size=rows) > 1.0).astype(int)
    X[rng.integers(rows, size=20), 1] = np.nan
    return X, y


@pytest.mark.parametrize("features", ["thresholds", "products"])
def test_a_push_over_thresholds_is_the_problem_over_its_design(features):
    X, y = curved()
    model = PushRanker(p=2, features=features, l2=0.0, l1=0.03, bins=10).fit(X, y)
    design = cr.features.Thresholds(X, 10)
    if features == "products":
        design = cr.features.Stacked([design, cr.features.Products(X, 10)])
    solution = cr.problems.PNormPush(design, y, p=2, l1=0.03).solve()
    assert abs(model.solution_.value - solution.value) <= model.gap_ + solution.gap
    np.testing.assert_allclose(model.decision_function(X), design @ model.coef_, atol=1e-12)
    new = curved(1)[0]
    np.testing.assert_allclose(model.predict(new), design.transform(new) @ model.coef_, atol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    assert model.design_.shape[0] == 0  # the rows are not kept
    assert model.solution_.certificate.kind == "global"


# Options for l1 = 0.03 that the trivial minimum w = 0 does not meet.
OBJECTIVES = {name: {} for name in names_of(Bipartite)}
OBJECTIVES["partial_auc"] = {"max_fpr": 0.5, "loss": "squared_hinge"}
OBJECTIVES["spectral_push"] = {"spectrum": ("top", 0.5)}
OBJECTIVES["push"] = {"loss": "logistic", "p": 2}


def columns_of(kind, X, y):
    """The derived columns of some rows, and how those of others are made."""
    if kind == "leaves":
        made = cr.LeafFeatures(RandomForestClassifier(n_estimators=4, max_depth=3, random_state=0)).fit(X, y)
        return made.transform(X), made.transform
    if kind == "kernel":
        made = Nystroem("rbf", gamma=0.5, n_components=12, random_state=0).fit(X)
        return made.transform(X), made.transform
    design = cr.features.Thresholds(X, 3)
    if kind == "products":
        design = cr.features.Stacked([design, cr.features.Products(X, 3)])
    return design, design.transform


@pytest.mark.parametrize("kind", ["thresholds", "products", "kernel", "leaves"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_takes_derived_columns(objective, kind):
    """All are linear in their columns: the estimator is the problem over them, and scores new rows by them."""
    X, y = curved(rows=100)
    new = curved(1, rows=40)[0]
    X, new = np.nan_to_num(X), np.nan_to_num(new)
    columns, transform = columns_of(kind, X, y)
    # the columns do explain the labels, but w = 0 may be the minimum where one negative alone counts
    strengths = {"l1": 1e-3, "l2": 1e-2}
    direct = kind in ("thresholds", "products")
    model = PushRanker(objective=objective, **OBJECTIVES[objective], **strengths, tol=1e-6)
    if direct:
        model.set_params(features=kind, bins=3)
    with warnings.catch_warnings():
        # TopPush and RmaxPush may say that no direction clears the top
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        model.fit(X if direct else columns, y)
    assert model.solution_.certificate.kind == "global"
    assert model.gap_ <= 1e-6 * max(1.0, abs(model.solution_.value))
    risk = model.solution_.instance.definition(columns @ model.coef_)
    penalty = 1e-3 * np.abs(model.coef_).sum() + 1e-2 / 2 * model.coef_ @ model.coef_
    assert risk + penalty == pytest.approx(model.solution_.value, rel=tolerance("summation"), abs=1e-12)
    scores = model.decision_function(new if direct else transform(new))
    assert scores == pytest.approx(transform(new) @ model.coef_, abs=1e-12)
    if objective not in ("top_push", "rmax_push"):
        assert np.ptp(scores) > 0.01


def test_thresholds_see_what_a_line_cannot():
    X, y = curved(rows=600)
    held = curved(1, rows=600)
    line = PushRanker(p=1).fit(np.nan_to_num(X), y)
    curve = PushRanker(p=1, features="thresholds", bins=16, l2=0.0, l1=0.01).fit(X, y)
    assert curve.score(*held) > line.score(np.nan_to_num(held[0]), held[1]) + 0.1


def test_monotone_columns_by_name():
    pandas = pytest.importorskip("pandas")
    X, y = curved()
    table = pandas.DataFrame(X, columns=["size", "age", "price"])
    model = PushRanker(features="thresholds", l1=0.01, l2=0.1, monotone={"price": 1, "age": -1}).fit(table, y)
    size, age, price = model.design_.values_of_levels(model.coef_)
    assert (np.diff(price) >= 0).all()
    assert (np.diff(age[:-1]) <= 0).all()  # the last level is that of absent values
    assert (np.diff(size) > 0).any()
    assert (np.diff(size) < 0).any()
    assert [levels.name for levels in model.design_.levels] == ["size", "age", "price"]


def test_retargeting_over_thresholds():
    X, y = curved()
    qid = np.arange(240) // 12
    ranker = RetargetingRanker(features="thresholds", bins=8, alpha=0.1, l1=0.05).fit(X, y, qid)
    problem = cr.problems.MarginRetargeting(
        cr.features.Thresholds(X, 8), y, qid, margin=1.0, l2=0.1, l1=0.05, offsets=True, normalize=True
    )
    solution = problem.solve()
    assert abs(ranker.solution_.value - solution.value) <= ranker.gap_ + solution.gap
    line = RetargetingRanker(alpha=0.1).fit(np.nan_to_num(X), y, qid)
    assert ranker.score(X, y, qid) > line.score(np.nan_to_num(X), y, qid)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"features": "trees"}, "features is 'trees'"),
        ({"bins": 4}, "features is 'linear'"),
        ({"features": "thresholds", "monotone": {"age": 1}}, "monotone names 'age', which is no column"),
        ({"features": "thresholds", "l1": 0.0, "l2": 0.0}, "both l1 and l2 are 0"),
    ],
)
def test_bad_parameters(parameters, words):
    X, y = curved()
    with pytest.raises(ValueError, match=words):
        clone(PushRanker(**parameters)).fit(np.nan_to_num(X), y)


def test_nan_and_sparse_rows():
    from scipy import sparse

    X, y = curved()
    with pytest.raises(ValueError, match="NaN"):
        PushRanker().fit(X, y)
    with pytest.raises(TypeError, match="parse"):
        PushRanker(features="thresholds", l1=0.1).fit(sparse.csr_array(np.nan_to_num(X)), y)


def test_steps_end_where_the_objective_falls_forever_and_no_bound_is_called_certified(monkeypatch):
    """Thresholds separate the classes by more than l1 costs: the direction shows at a point on the way."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 30))
    y = (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=600) > 1.0).astype(int)
    searched, stepped, steps, given = Part.search, WorkingSets.step, [], []

    def step(self, problem, state):
        given.append(problem)
        return stepped(self, problem, state)

    def search(self, point, *arguments):
        # what was found when this step began: nothing that would have ended the solve
        problem = given[-1]
        separation = point.scores[problem.positives].min() - point.scores[problem.negatives].max()
        steps.append(problem._fall * separation > problem.l1 * abs(point.w).sum())
        return searched(self, point, *arguments)

    monkeypatch.setattr(WorkingSets, "step", step)
    monkeypatch.setattr(Part, "search", search)
    with pytest.warns(cr.ConvergenceWarning, match="UNBOUNDED"):
        solution = PushRanker(features="thresholds", l1=1e-3, l2=0).fit(X, y).solution_
    assert solution.status is cr.Status.UNBOUNDED
    assert steps
    assert not any(steps)
    for text in (repr(solution), solution.message, solution.summary()):
        assert "certified" not in text
        assert "at most" not in text
    assert "no minimum" in repr(solution)


def test_labels_of_noise_have_an_answer_where_thresholds_do_not_separate_them():
    """At once where l1 leaves no weight, and else that of plain steps on the matrix of the thresholds."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 10)), rng.random(1500) < 0.3
    found = PushRanker(features="thresholds", bins=8, l1=3e-3, l2=0).fit(X, y).solution_
    assert found.converged
    problem = found.instance
    other = problem.changed(X=problem.X.toarray()).solve("accelerated")
    assert abs(found.value - other.value) <= found.gap + other.gap
    assert found.value < -100.0 * found.gap
    nothing = PushRanker(features="thresholds", bins=8, l1=1.01 * problem.l1_max(), l2=0).fit(X, y).solution_
    assert nothing.converged
    assert "every weight is 0" in nothing.message
    assert (nothing.iterations, nothing.value) == (0, 0.0)


@pytest.mark.parametrize("later", [[1, 2], [1.0, 2.0], [True, False], np.array([1, "2"], dtype=object)])
def test_categories_that_are_read_as_another_type_are_refused(later):
    """Codes such as 1, 2 and A are texts; in later rows without an A pandas reads numbers, which are no codes."""
    pd = pytest.importorskip("pandas")
    codes = pd.DataFrame({"age": np.arange(30.0) % 7, "code": np.array(["1", "2", "A"])[np.arange(30) % 3]})
    ranker = PushRanker(features="thresholds", p=2).fit(codes, (np.arange(30) % 4 == 1))
    assert len(ranker.predict(codes.assign(code="B"))) == 30  # another value of the same type
    with pytest.raises(ValueError, match=r"in column code, expected entries such as '1', of type str"):
        ranker.predict(codes.iloc[:2].assign(code=later))


def test_lists_in_a_column_are_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"held": [[1], [2], [3], [4]]})
    with pytest.raises(TypeError, match=r"X has \[1\] of type list in column held"):
        PushRanker(features="thresholds").fit(frame, [0, 1, 0, 1])
