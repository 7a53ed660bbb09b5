"""Rows on the workers of Dask: answers of the same rows in memory, in threads and on a cluster that loses a worker."""

from __future__ import annotations

import os
import pickle
import signal
import warnings

import numpy as np
import pytest

import convexrank as cr
from convexrank import problems
from convexrank.data import DaskRows
from tests.tolerances import tolerance

dask = pytest.importorskip("dask", reason="Dask is not installed")
arrays = pytest.importorskip("dask.array", reason="dask.array is not installed")


def rows(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, X[:, 0] + rng.normal(size=n) > 1.0


def cut(X, rows=500):
    """Pieces of several columns, too, which have to be put together."""
    return arrays.from_array(X, chunks=(rows, 3))


def test_products_are_those_of_the_matrix():
    X, y = rows()
    made = DaskRows(cut(X), arrays.from_array(y))
    assert (made.shape, repr(made)) == ((1200, 5), "DaskRows(1200 rows, 5 columns, 3 pieces)")
    np.testing.assert_array_equal(made.y, y)
    rng = np.random.default_rng(1)
    w, u = rng.normal(size=5), rng.normal(size=1200)
    tight = {"rtol": tolerance("summation"), "atol": 1e-12}
    np.testing.assert_allclose(made @ w, X @ w, **tight)
    np.testing.assert_allclose(made.T @ u, X.T @ u, **tight)
    np.testing.assert_array_equal(made.toarray(), X)
    np.testing.assert_allclose(made.row_lengths(), np.linalg.norm(X, axis=1), **tight)
    some = rng.permutation(1200)[:70]
    for part in (made[some], made[some][rng.permutation(70)[:9]], made[y], made[10:20]):
        places = part._places
        np.testing.assert_allclose(part @ w, X[places] @ w, **tight)
        np.testing.assert_allclose(part.T @ u[places], X[places].T @ u[places], **tight)
        np.testing.assert_array_equal(part.y, y[places])
        np.testing.assert_array_equal(part.toarray(), X[places])


PROBLEMS = {
    "push": (problems.PNormPush, {"p": 4, "l2": 1e-2}),
    "sparse push": (problems.PNormPush, {"p": 4, "l2": 1e-2, "l1": 1e-3}),
    "top": (problems.TopPush, {"l2": 1e-2}),
    "partial AUC": (problems.PartialAUC, {"max_fpr": 0.2, "l2": 1e-2}),
    "prices": (problems.Push, {"price": 2.0, "loss": "logistic", "l2": 1.0}),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_answers_are_those_of_rows_in_memory(name):
    formulation, options = PROBLEMS[name]
    X, y = rows()
    made = DaskRows(cut(X).persist(), y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)  # what it says of the data is the same
        found, plain = formulation(made, made.y, **options).solve(), formulation(X, y, **options).solve()
    assert found.converged
    assert found.certificate.kind == "global"
    assert abs(found.value - plain.value) <= found.gap + plain.gap
    assert formulation(X, y, **options).certificate(found.x).gap <= 1e-6 * max(1.0, abs(found.value))


@pytest.mark.parametrize("options", [{}, {"l1": 1e-3}, {"objective": "pat_mat", "tau": 0.2}])
def test_the_ranker_takes_them(options):
    X, y = rows(400)
    made, labels = DaskRows(cut(X, 150).persist(), y), np.where(y, "yes", "no")
    found, plain = cr.PushRanker(**options).fit(made, labels), cr.PushRanker(**options).fit(X, labels)
    assert abs(found.solution_.value - plain.solution_.value) <= found.gap_ + plain.gap_
    np.testing.assert_allclose(found.predict(made), found.predict(X), rtol=tolerance("summation"), atol=1e-12)
    assert found.score(made, labels) == pytest.approx(plain.score(X, labels), abs=1e-3)
    kept = pickle.dumps(found)
    assert b"dask" not in kept
    np.testing.assert_array_equal(pickle.loads(kept).predict(X), found.predict(X))


def test_what_estimators_cannot_do_with_them():
    X, y = rows(100)
    made = DaskRows(cut(X, 50), y)
    for model, message in (
        (cr.PushRanker(features="thresholds"), r"rows out of memory.*rows\[::100\]\.toarray"),
        (cr.PushRankerCV(), r"rows out of memory.*rows\[::100\]\.toarray"),
    ):
        with pytest.raises(TypeError, match=message):
            model.fit(made, y)
    fitted = cr.PushRanker().fit(made, y)
    with pytest.raises(ValueError, match="whose means are not kept"):
        fitted.explain(X[0])
    with pytest.raises(ValueError, match="X has 5 columns, expected 2"):
        cr.PushRanker().fit(X[:, :2], y).predict(made)
    found, plain = (cr.SingleIndexRegressor(strong=1.0, l2=0.1).fit(r, X[:, 0]) for r in (made, X))
    np.testing.assert_array_equal(found.coef_, plain.coef_)


def test_frames_are_rows_as_well():
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe", reason="dask.dataframe is not installed")
    X, y = rows(300)
    table = frames.from_pandas(pandas.DataFrame(X, columns=list("abcde")).assign(y=y), npartitions=4)
    made = DaskRows(table[list("abcde")], table["y"])
    np.testing.assert_array_equal(made.toarray(), X)
    np.testing.assert_array_equal(made.y, y)
    with pytest.raises(ValueError, match="piece 0 of X has entries that are no numbers"):
        DaskRows(table.assign(a="text"))


def test_refused():
    X, y = rows(100)
    with pytest.raises(TypeError, match=r"expected a dask.array"):
        DaskRows(X, y)
    with pytest.raises(TypeError, match="two dimensions"):
        DaskRows(arrays.from_array(X[:, 0]))
    broken = X.copy()
    broken[70, 2] = np.nan
    with pytest.raises(ValueError, match="piece 1 of X has NaN"):
        DaskRows(cut(broken, 50), y)
    with pytest.raises(ValueError, match="y has shape"):
        DaskRows(cut(X), y[1:])
    with pytest.raises(ValueError, match="y is a masked array"):
        DaskRows(cut(X), np.ma.masked_equal(y, True))
    for wrong, words in (
        (X * 1j, "X is complex"),
        (X.astype(str), "X holds <U32 values"),
        (X.astype("M8[s]"), r"X holds datetime64\[s\] values"),
        (np.ma.masked_equal(X, X[0, 0]), "X is a masked array with masked entries"),
        (X * 1e200, r"whose products overflow, expected at most 1e\+150"),
    ):
        with pytest.raises(ValueError, match=f"piece 0 of X .*{words}"):
            DaskRows(cut(wrong, 50), y)
    with pytest.raises(ValueError, match="X has no columns"):
        DaskRows(arrays.from_array(X[:, :0]), y)
    made = DaskRows(cut(X), y)
    np.testing.assert_array_equal(made[-1].toarray(), X[-1:])
    with pytest.raises(TypeError, match="rows is 'a', expected a slice"):
        made["a"]


def piece(number):
    """Rows that a worker makes, again where they are lost."""
    return np.random.default_rng(number).normal(size=(300, 5))


@pytest.mark.filterwarnings("ignore")  # of the cluster, which loses a worker
def test_the_piece_of_a_lost_worker_is_computed_again():
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    blocks = [arrays.from_delayed(dask.delayed(piece)(k), (300, 5), float) for k in range(6)]
    X = np.concatenate([piece(k) for k in range(6)])
    y = X[:, 0] + np.random.default_rng(9).normal(size=1800) > 1.0
    lost = []
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        kept = arrays.concatenate(blocks).persist()
        distributed.wait(kept)
        made = DaskRows(kept, y)
        del kept  # as in DaskRows(X.persist(), y): nobody else holds what the workers keep
        holders = client.has_what()
        assert sum(map(len, holders.values())) >= 6
        workers = client.run(os.getpid)

        def after_a_step(state):
            if not lost:
                address = max(workers, key=lambda one: len(holders[one]))
                lost.append(len(holders[address]))
                os.kill(workers[address], signal.SIGKILL)

        found = problems.PNormPush(made, made.y, p=4, l2=1e-3).solve("lbfgs", callback=after_a_step)
    assert lost[0] > 0
    plain = problems.PNormPush(X, y, p=4, l2=1e-3).solve()
    assert found.converged
    assert abs(found.value - plain.value) <= found.gap + plain.gap
