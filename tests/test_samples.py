"""The data at hand: the same on each call, and what their descriptions say of them is so."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import convexrank as cr

TABLES = (cr.data.load_screening, cr.data.load_queries, cr.data.load_dose_response)


@pytest.mark.parametrize("load", TABLES, ids=lambda load: load.__name__)
def test_tables_are_the_same_on_each_call(load):
    first, again, parts = load(), load(), load(return_X_y=True)
    assert first.X is not again.X, "one caller's edits are no other's"
    for part, wanted in zip(parts, (first.X, first.y, first.qid), strict=False):
        assert np.array_equal(part, wanted)
    assert np.array_equal(first.X, again.X)
    assert len(parts) == (2 if first.qid is None else 3)
    assert first.X.shape == (len(first.y), len(first.feature_names))
    assert "Parameters" not in first.DESCR
    assert len(first.DESCR) > 100
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.X = first.X
    with pytest.raises((ValueError, TypeError), match="return_X_y"):
        load(return_X_y=1)


def test_a_push_finds_the_top_of_the_screening():
    """On both halves; the classes are as the description says."""
    data = cr.data.load_screening()
    assert (len(data.y), int(data.y.sum())) == (4000, 200)
    half = np.arange(4000) < 2000
    for train in (half, ~half):
        top, ratio = [], []
        for p in (1, 64):
            fit = cr.problems.PNormPush(data.X[train], data.y[train], p, l2=1e-3).solve()
            top.append(cr.metrics.precision_at(data.y[~train], data.X[~train] @ fit.x, k=0.01))
            ratio.append(fit.x[1] / fit.x[0])
        assert top[1] >= top[0] + 0.1
        assert ratio[1] < ratio[0]


def test_queries_have_levels_that_the_scaler_takes_out():
    data = cr.data.load_queries()
    sizes = np.bincount(data.qid)[1:]
    assert (len(sizes), sizes.min() >= 8, sizes.max() <= 30) == (80, True, True)
    assert set(data.y) == set(range(5))
    within = [data.X[data.qid == q].std() for q in range(1, 81)]
    assert max(within) > 50 * min(within)
    model = cr.RetargetingRanker(alpha=1.0)
    scaled = cr.QueryScaler().fit_transform(data.X, qid=data.qid)
    assert model.fit(scaled, data.y, data.qid).score(scaled, data.y, data.qid) > 0.85


def test_a_line_misses_the_dose_response():
    X, y = cr.data.load_dose_response(return_X_y=True)
    line, curve = (
        model.fit(X[:300], y[:300]).score(X[300:], y[300:])
        for model in (LinearRegression(), cr.SingleIndexRegressor())
    )
    assert line < 0.9 < 0.97 < curve


def test_trust_does_not_reach_the_farm_of_the_web():
    web = cr.data.load_web()
    assert (len(web.names), int(web.spam.sum()), len(web.trusted)) == (400, 50, 7)
    assert np.array_equal(web.source, cr.data.load_web().source)
    graph = cr.Graph.from_edges(web.source, web.target, names=web.names)
    assert graph.m == len(web.source), "no link twice"
    assert not web.spam[web.trusted].any()
    ranks, trust = cr.pagerank(graph), cr.trust_rank(graph, web.trusted)
    assert web.spam[np.argsort(-ranks)[:4]].all()
    assert not web.spam[np.argsort(-trust)[:20]].any()
    assert trust[web.spam].sum() < 0.1 * trust.sum()
