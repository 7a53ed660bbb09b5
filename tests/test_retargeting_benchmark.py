"""The benchmark of chapter 3 on a small collection: what it chooses and measures, and what it says without data."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import convexrank as cr
from tests.tolerances import tolerance

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
STRENGTHS = (1e-2, 30.0)


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("retargeting")
    monkeypatch.setattr(module, "STRENGTHS", STRENGTHS)
    return module


@pytest.fixture
def collection(tmp_path, monkeypatch):
    """Five parts of four queries of raw features in different scales, in the place of OHSUMED."""
    rng = np.random.default_rng(0)
    for part in range(1, 6):
        lines = []
        for query in range(4):
            scale = 10.0 ** rng.integers(-1, 3)
            X = scale * rng.uniform(size=(8, 3))
            y = np.clip(np.round(4 * X[:, 0] / scale - 2 + rng.normal(size=8)), 0, 2)
            for row, grade in zip(X, y, strict=True):
                named = " ".join(f"{j}:{value:.6f}" for j, value in enumerate((*row, 1.0), start=1))
                lines.append(f"{grade:.0f} qid:{10 * part + query} {named}")
        folder = tmp_path / "ohsumed_letor2" / f"Fold{part}"
        folder.mkdir(parents=True)
        (folder / "testset.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("CONVEXRANK_DATA", str(tmp_path))
    return tmp_path


def test_features_are_scaled_within_each_query(benchmark, collection):
    raw = cr.data.letor_folds(collection / "ohsumed_letor2")[0].test
    (_, _, test), *rest = benchmark.folds_of("OHSUMED")
    assert len(rest) == 4
    for query in np.unique(raw.qid):
        rows = raw.qid == query
        for j in range(3):
            column = raw.X[rows, j]
            expected = (column - column.min()) / (column.max() - column.min())
            assert np.allclose(test.X[rows, j], expected, atol=tolerance("summation"))
        assert not test.X[rows, 3].any()


@pytest.mark.parametrize("name", ["NDCG regression, squared", "NDCG regression, I, a constant feature"])
def test_the_best_model_on_validation_is_tested(benchmark, collection, name):
    method, parts = benchmark.METHODS[name], benchmark.folds_of("OHSUMED")
    entry = benchmark._run(method, parts)
    choices = 0
    for fold, (train, validation, test) in enumerate(parts):
        models = [method.build(train.X, train.y, train.qid, l2).solve().x[:4] for l2 in STRENGTHS]
        scores = [
            cr.metrics.mean_average_precision(validation.y, validation.X @ w, validation.qid) for w in models
        ]
        choices += scores[0] != scores[1]
        best = int(np.argmax(scores))
        assert entry["chosen"][fold] == f"{STRENGTHS[best]:g}"
        found = test.X @ models[best]
        for key, expected in (
            ("map", cr.metrics.mean_average_precision(test.y, found, test.qid)),
            ("ndcg@3", cr.metrics.ndcg(test.y, found, test.qid, 3)),
            ("err", cr.metrics.expected_reciprocal_rank(test.y, found, test.qid, max_grade=2)),
        ):
            assert entry[key][fold] == pytest.approx(expected, rel=tolerance("summation"))
    assert len(entry["seconds"]) == len(entry["gaps"]) == 10
    assert choices > 0, "a choice between equal scores shows nothing"
    assert max(entry["gaps"]) <= method.tol


def test_tables_carry_what_is_printed_and_a_standard_error(benchmark, collection):
    key = "NDCG regression, squared"
    entry = benchmark._run(benchmark.METHODS[key], benchmark.folds_of("OHSUMED"))
    found = {key: entry, benchmark.REFERENCE: entry}
    row = benchmark._quality("OHSUMED", found).rows[0]
    assert row[2] == ".4465"  # Table 3.4, baseline, SQ
    assert row[-1] == "3.4"
    values = np.array(entry["map"])
    assert row[1] == f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(5):.4f}".replace("0.", ".")
    assert benchmark._by_cut("OHSUMED", found).rows[0][-1] == "+.0000 ± .0000"
    assert len(benchmark._cost("OHSUMED", found).rows) == 2


def test_without_data_there_is_a_reason(benchmark, tmp_path, monkeypatch):
    monkeypatch.setenv("CONVEXRANK_DATA", str(tmp_path))
    section = benchmark.retargeting(1)
    assert section.targets == ()
    assert [name for name, _ in section.tables[0].rows] == ["MQ2008", "OHSUMED"]
    assert all("skipped: no folder" in reason for _, reason in section.tables[0].rows)


def test_measures_at_a_rank_are_no_addresses(benchmark):
    report = importlib.import_module("report")
    written = report.restructured([report.Table("t", ("NDCG@10",), ((".7",),))])
    assert "NDCG\\@10" in written  # unescaped it becomes a mailto link
