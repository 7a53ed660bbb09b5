"""The benchmark of accuracy: contenders share an objective, errors are true ones, and the figures read the tables."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from tests.example_modules import load

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def accuracy(monkeypatch):
    """The module, imported as its own process does."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    module = importlib.import_module("accuracy")
    monkeypatch.setattr(module, "_SECONDS", math.inf)  # a test may compile while the machine has other work
    yield module
    for name in set(sys.modules) - before:
        if (BENCHMARKS / f"{name}.py").exists():
            del sys.modules[name]


def small_queries():
    rng = np.random.default_rng(0)
    X, query = rng.normal(size=(40, 3)), np.repeat(np.arange(5), 8)
    return X, np.digitize(X[:, 0] + rng.normal(size=40), [0.5, 1.0]), query


def errors(contest):
    """The error of each contender at its tightest tolerance."""
    return {who: contest.error(run(min(tols))) for who, (run, tols) in contest.contenders.items()}


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_liblinear_minimises_rank_svm(accuracy, monkeypatch, penalty):
    monkeypatch.setattr(accuracy, "collection", small_queries)
    contest = accuracy._rank_svm(penalty)
    found = errors(contest)
    found.pop("liblinear, dual", None)  # asked for a rough answer
    assert max(found.values()) < 1e-5
    w = contest.contenders["convexrank"][0](1e-8)
    assert contest.error(1.1 * w) > 1e-4  # another point is told apart


def test_general_minimisers_minimise_the_push(accuracy, monkeypatch):
    X, y, _ = small_queries()
    labels = (y > 0).astype(int)
    assert max(errors(accuracy._push(lambda: (X, labels), 1, 1e-4, conic=True)).values()) < 1e-6
    steep = errors(accuracy._push(lambda: (sparse.csr_array(X), labels), 4, 1e-2, conic=False))
    assert set(steep) == {"convexrank", "SciPy, L-BFGS-B"}
    assert max(steep.values()) < 1e-6


def test_a_reference_that_proves_nothing_is_refused(accuracy, monkeypatch):
    monkeypatch.setattr(accuracy, "collection", small_queries)
    monkeypatch.setattr(accuracy, "_TIGHT", 0.5)
    monkeypatch.setattr(accuracy, "_PROVED", 0.0)
    with pytest.raises(ValueError, match="the reference has a gap"):
        accuracy._rank_svm("l2")


def test_times_are_the_least_at_which_an_error_was_reached(accuracy, monkeypatch):
    found = [("a", 0.1, 1.0, 1e-3), ("a", 0.01, 4.0, 1e-7), ("b", 0.1, 3.0, 1e-7), ("b", 0.01, 2.0, 1e-6)]
    assert accuracy.time_to(1e-6, found, {"a"}) == 4.0
    assert accuracy.time_to(1e-6, found, {"a", "b"}) == 2.0
    assert accuracy.time_to(1e-9, found, {"a", "b"}) == math.inf

    toy = accuracy._Contest({"a": (lambda tol: 0.5 * tol, (1e-2, 1e-20))}, abs)
    monkeypatch.setitem(accuracy.CONTESTS, "toy", lambda: toy)
    assert [(who, tol, error) for who, tol, _, error in accuracy.measured("toy", 1)] == [
        ("a", 1e-2, 5e-3),
        ("a", 1e-20, accuracy._ROUNDING),
    ]


def test_the_figures_read_what_was_written(accuracy):
    tables = load("scale_tables")
    text = tables.RESULTS.with_name("accuracy_results.inc").read_text("utf-8")
    runs = tables.table(text, "Time to a true accuracy")
    assert {what for what, *_ in runs} == set(accuracy.CONTESTS)
    assert all(tables.seconds(time) > 0.0 and float(error) > 0.0 for _, _, _, time, error, *_ in runs)
    growth = tables.table(tables.RESULTS.with_name("growth_results.inc").read_text("utf-8"), "Growth")
    assert len(growth) == 5
    assert all(len(row) == 10 for row in growth)
