"""What stumbled on real data: trivial minima, defaults without a solution, folds, valleys, files with counts."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import KFold

import convexrank as cr
from convexrank.core.loop import State
from convexrank.core.results import ConvergenceWarning
from convexrank.estimators import single_index
from convexrank.solvers.descent.lbfgs import _Cached, _flat_step, _Memory
from tests.tolerances import tolerance

DATA = Path(cr.__file__).parents[1] / "../shared/data"


def overlapping(seed=0, n=200):
    """The mean positive lies among the negatives: no direction has a clean top."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + rng.normal(size=n) > 1).astype(int)


KINDS = pytest.mark.parametrize("kind", [cr.problems.TopPush, cr.problems.RmaxPush])


@KINDS
@pytest.mark.parametrize("penalty", [{"l2": 1e-3}, {}, {"l1": 1e-3}])
def test_a_trivial_minimum_is_said(kind, penalty):
    X, y = overlapping()
    problem = kind(X, y, **penalty)
    with pytest.warns(cr.ConvergenceWarning, match=r"trivial minimum w = 0.*large finite p.*at_limit"):
        solution = problem.solve()
    assert solution.converged
    assert problem.objective(np.zeros(4)) - solution.value <= solution.gap


@KINDS
def test_a_small_gain_is_no_trivial_minimum(kind):
    """A strong penalty makes w and the gain tiny, and the rows are ranked all the same."""
    X, y = overlapping()
    X[:, 3] = np.where(y == 1, 1.0, -0.5)
    problem = kind(X, y, l2=1e7)
    solution = problem.solve()
    assert problem.objective(np.zeros(4)) - solution.value < 1e-6
    assert not problem._remark(solution)
    assert cr.metrics.auc(y, X @ solution.x) == 1.0


@KINDS
def test_the_limit_is_that_of_finite_p(kind):
    """Norm and direction of p·w as p grows, for row weights, too; errors fall like 1/p."""
    X, y = overlapping()
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    limit = kind(X, y, sample_weight=weight).at_limit().solve()
    assert limit.converged
    off = []
    for p in (1e2, 1e4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cr.ConvergenceWarning)  # asked for more than there is
            finite = cr.problems.PNormPush(X, y, p, sample_weight=weight).solve(tol=1e-14)
        off.append(np.linalg.norm(p * finite.x - limit.x) / np.linalg.norm(limit.x))
    assert off[1] < off[0] / 50
    assert off[1] < 1e-3


def test_the_ranker_falls_back_on_the_limit_when_asked():
    X, y = overlapping()
    with pytest.warns(cr.ConvergenceWarning, match="tie_break"):
        assert not cr.PushRanker(p=np.inf).fit(X, y).score(X, y) > 0.6
    model = cr.PushRanker(p=np.inf, tie_break="limit").fit(X, y)
    assert model.score(X, y) > 0.85
    assert np.array_equal(model.coef_, cr.problems.TopPush(X, y).at_limit().solve().x)
    X[:, 3] = np.where(y == 1, 1.0, -0.5)  # a clean top: nothing to break
    clean = [cr.PushRanker(p=np.inf, tie_break=given).fit(X, y).coef_ for given in (None, "limit")]
    assert np.array_equal(*clean)
    with pytest.raises(ValueError, match="tie_break"):
        cr.PushRanker(tie_break="limi").fit(X, y)
    with pytest.raises(ValueError, match="tie_break is 'limit', which paths do not use"):
        cr.PushRankerCV(tie_break="limit").fit(X, y)


@pytest.mark.parametrize("divergence", ["squared", "kl", "generalized_i", "bit_entropy"])
def test_defaults_are_feasible(divergence):
    data = cr.data.load_queries()
    rows = data.qid <= 12
    X = cr.QueryScaler().fit_transform(data.X[rows], qid=data.qid[rows])
    model = cr.RetargetingRanker(divergence).fit(X, data.y[rows], data.qid[rows])
    assert model.solution_.converged
    assert model.score(X, data.y[rows], data.qid[rows]) > 0.8
    if divergence == "squared":
        before = cr.RetargetingRanker(divergence, margin=1.0).fit(X, data.y[rows], data.qid[rows])
        assert np.array_equal(model.coef_, before.coef_)
    tight = cr.RetargetingRanker(divergence, bound=(0.2, 0.8))
    if divergence == "kl":  # eight targets of 0.2 have no sum of 1
        with pytest.raises(ValueError, match="infeasible"):
            tight.fit(X, data.y[rows], data.qid[rows])
    else:
        assert tight.fit(X, data.y[rows], data.qid[rows]).solution_.converged
    with pytest.raises(ValueError, match="margin"):
        cr.RetargetingRanker(margin="atuo").fit(X, data.y[rows], data.qid[rows])


def test_a_price_too_steep_says_what_works():
    X, y = overlapping(n=100)
    y[:40] = 1
    scale = f"{1 / y.sum():.3g}"
    with pytest.warns(cr.ConvergenceWarning, match=rf"prices\.ExpPrice\(1/I\) = prices\.ExpPrice\({scale}\)"):
        cr.PushRanker(price="exp", max_iter=3).fit(X, y)
    assert cr.PushRanker(price=cr.prices.ExpPrice(float(scale))).fit(X, y).solution_.converged


def test_a_fit_keeps_its_time_and_its_start(capsys):
    X, y = cr.data.load_screening(return_X_y=True)
    with pytest.warns(cr.ConvergenceWarning, match="TIME_LIMIT"):
        cr.PushRanker(time_limit=1e-9).fit(X, y)
    model = cr.PushRanker(warm_start=True, verbose=True).fit(X, y)
    assert capsys.readouterr().err
    first, steps = model.coef_, model.n_iter_
    again = model.set_params(verbose=False).fit(X, y)
    assert again.n_iter_ < steps
    assert np.allclose(again.coef_, first, rtol=0, atol=tolerance("two solvers"))
    assert model.fit(X[:, :3], y).coef_.shape == (3,)
    for name in ("warm_start", "verbose"):
        with pytest.raises((TypeError, ValueError), match=name):
            cr.PushRanker(**{name: "yes"}).fit(X, y)


def test_grades_without_queries_are_pointed_to_what_takes_them():
    data = cr.data.load_queries()
    with pytest.warns(UserWarning, match="qid is None, so that all rows"):
        cr.RetargetingRanker(alpha=10.0).fit(data.X, data.y)
    with pytest.raises(ValueError, match=r"RetargetingRanker\(\)\.fit\(X, y, qid\)"):
        cr.PushRanker().fit(data.X, data.y)


def test_routing_that_was_forgotten_says_what_to_write():
    data = cr.data.load_queries()
    model = cr.RetargetingRanker(alpha=1.0).fit(data.X, data.y, data.qid)
    with pytest.raises(
        ValueError, match=r"enable_metadata_routing=True.*set_fit_request\(qid=True\).*groups=qid"
    ):
        model.score(data.X, data.y)


def test_folds_of_a_sorted_file_are_shuffled():
    """Sorted by the index, stretches judge extrapolation."""
    X, y = cr.data.load_dose_response(return_X_y=True)
    order = np.argsort(y)
    X, y = X[order][::3], y[order][::3]
    candidates = {"strong": [0.01, 10.0], "tol": 1e-6}
    found = cr.SingleIndexRegressor(cv=4, **candidates).fit(X, y).cv_results_["mean_squared_error"]
    shuffled = KFold(4, shuffle=True, random_state=0)
    wanted = cr.SingleIndexRegressor(cv=shuffled, **candidates).fit(X, y).cv_results_["mean_squared_error"]
    stretches = cr.SingleIndexRegressor(cv=KFold(4), **candidates).fit(X, y).cv_results_["mean_squared_error"]
    assert np.array_equal(found, wanted)
    assert stretches.min() > 2 * found.min()


def test_columns_of_different_sizes_are_named_where_steps_end_or_are_many(monkeypatch):
    X, y = cr.data.load_dose_response(return_X_y=True)
    X, y = X[:100], y[:100]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cr.SingleIndexRegressor(max_iter=3).fit(X * [1.0, 100.0, 1.0, 1.0, 1.0], y)
        cr.SingleIndexRegressor(max_iter=3).fit(X, y)
    assert [str(item.message)[:20] for item in caught].count("X has columns whose ") == 1
    monkeypatch.setattr(single_index, "_MANY", 5)
    # even columns: no warning, which would be an error
    assert cr.SingleIndexRegressor(tol=1e-4).fit(X, y).n_iter_ > 5
    with pytest.warns(ConvergenceWarning, match="columns unevenly; standardise first"):
        cr.SingleIndexRegressor(tol=1e-4).fit(X * [1.0, 20.0, 1.0, 1.0, 1.0], y)


class Valley:
    """A flat value over a stiff and a soft direction."""

    def value_and_gradient(self, x):
        return 0.0, np.array([1.0, 1e6]) * x


def test_in_a_narrow_valley_slopes_decide():
    """The length of the gradient rises along a step that is right: old steps stopped here."""
    x, direction = np.array([1.0, 0.0]), np.array([-1.0, 20e-6])
    gradient = Valley().value_and_gradient(x)[1]
    state = State(x, 0.0, 1.0, _Memory(gradient, (), None, np.ones(2)))
    oracle = _Cached(Valley().value_and_gradient, np.ones(2))
    assert np.linalg.norm(oracle.both(x + direction)[1]) > np.linalg.norm(gradient)
    assert _flat_step(oracle, state, direction) == 1.0
    assert _flat_step(oracle, state, -direction) is None, "uphill"
    assert _flat_step(oracle, state, 3.0 * direction) == 0.5, "as far as 1.5, where the slope has turned half"


@pytest.mark.skipif(not (DATA / "ohsumed_letor2").is_dir(), reason="the LETOR files may not be redistributed")
def test_rank_cosine_on_raw_features_of_letor():
    data = cr.data.read_letor(DATA / "ohsumed_letor2/Fold1/testset.txt")
    assert cr.problems.RankCosine(data.X, data.y, data.qid, l2=1e-2).solve().converged


def test_a_line_of_counts_is_no_edge(tmp_path):
    path = tmp_path / "edges.txt"
    edges = [(i, (i + 1) % 12) for i in range(12)]
    body = "".join(f"{a} {b}\n" for a, b in edges)
    path.write_text("# a ring\n12 12\n" + body)
    with pytest.raises(
        ValueError, match=r"line 2: 12 12 reads like the numbers of nodes and edges.*skip_rows=2"
    ):
        cr.Graph.read(path)
    assert (cr.Graph.read(path, skip_rows=2).n, cr.Graph.read(path, skip_rows=2).m) == (12, 12)
    assert cr.Graph.read(path, n=13).m == 13
    path.write_text(body)
    assert cr.Graph.read(path).m == 12


def test_polytopes_of_dangling_nodes():
    graph = cr.Graph.from_edges([0, 0, 1], [1, 2, 2])
    with pytest.raises(ValueError, match='dangling="uniform"'):
        cr.consensus.Polytopes.around(graph, 0.1, dangling="error")
    sets = cr.consensus.Polytopes.around(graph, 0.1)
    assert np.allclose(sets.lower[2], 0.9 / 3, rtol=1e-15, atol=0)
    assert np.allclose(sets.upper[2], 1.1 / 3, rtol=1e-15, atol=0)
    with pytest.raises(ValueError, match="dangling"):
        cr.consensus.Polytopes.around(graph, 0.1, dangling="drop")
