"""The benchmark of the top of a list: what is chosen and judged on small rows, its verdicts, and what it leaves out."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from convexrank import PushRanker, metrics
from convexrank.estimators._objectives import names_of
from convexrank.problems.bipartite._base import Bipartite
from tests.tolerances import tolerance

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("top")


def small():
    rng = np.random.default_rng(0)
    X = 5.0 + 3.0 * rng.normal(size=(160, 3))
    return X, (X[:, 0] - X[:, 1] + 3.0 * rng.normal(size=160) > 2.0).astype(int)


def test_the_family_is_that_of_the_registry_and_the_best_setting_is_judged(benchmark, monkeypatch):
    monkeypatch.setitem(benchmark.DATA, "small", (small, "", "drawn"))
    monkeypatch.setattr(benchmark, "_STRENGTHS", (0.01, 1.0))
    found = benchmark.judged("small", 2)
    assert set(found) - set(benchmark._PEERS) - {benchmark._CHOSEN} == set(names_of(Bipartite))
    (X, y), (Xc, yc), (Xt, yt) = benchmark._split(*small(), seed=1)
    assert np.allclose(X.std(axis=0), 1.0)
    assert [len(X), len(Xc), len(Xt)] == [80, 32, 48]
    models = [PushRanker(objective="ir_push", l2=l2, tol=1e-5).fit(X, y) for l2 in (0.01, 1.0)]
    for place, (name, scale) in enumerate((("partial_auc@0.05", 20.0), ("precision@0.05", 1.0))):
        measure = metrics.named(name)
        chosen = max(models, key=lambda model: measure(yc, model.predict(Xc)))
        expected = scale * measure(yt, chosen.predict(Xt))
        assert found["ir_push"]["test"][1][place] == pytest.approx(expected, abs=tolerance("summation"))
        ours = [found[key] for key in names_of(Bipartite)]
        best = max(each["choose"][1][place] for each in ours)
        allowed = [each["test"][1][place] for each in ours if each["choose"][1][place] == best]
        assert found[benchmark._CHOSEN]["test"][1][place] in allowed


def test_a_difference_within_two_errors_is_no_win(benchmark):
    def entry(*values):
        return {"test": [[value] for value in values], "choose": [], "seconds": [], "gaps": []}

    peer = entry(0.5, 0.5, 0.5, 0.5)
    for values, verdict in (((0.7, 0.4, 0.6, 0.5), ", no"), ((0.7, 0.6, 0.65, 0.7), "")):
        each = {benchmark._CHOSEN: entry(*values), benchmark._LOGISTIC: peer}
        apart = np.array(values) - 0.5
        error = apart.std(ddof=1) / 2.0
        found = benchmark._difference(each, benchmark._LOGISTIC, 0)
        assert found == f"{apart.mean():+.3f} ± {error:.3f}{verdict}"
    assert np.isnan(benchmark._moments([1.0])[1])


def test_ten_data_sets_of_which_five_need_no_files(benchmark, monkeypatch, tmp_path):
    monkeypatch.setenv("CONVEXRANK_DATA", str(tmp_path))
    data = importlib.import_module("top_data")
    there = [name for name in data.DATA if not data.missing(name)]
    assert len(data.DATA) == 10
    assert there == ["linear", "two kinds", "screening", "cancer", "digits"]
    for name in there:
        X, y = data.DATA[name][0]()
        assert np.isfinite(X).all()
        assert 0.0 < y.mean() < 0.5
        assert set(y) == {0, 1}
    assert data.missing("MAGIC").startswith("skipped: no magic04")
