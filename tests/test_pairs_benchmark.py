"""The sums over pairs of before, which today's are timed beside."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def modules(monkeypatch):
    """The peer, and the benchmark that times it."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module("earlier_pairs"), importlib.import_module("pairs")
    for name in set(sys.modules) - before:
        if (BENCHMARKS / f"{name}.py").exists():
            del sys.modules[name]


def test_earlier_sums_are_the_double_loop(modules):
    earlier, pairs = modules
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=30), rng.integers(0, 2, size=30)
    short = np.maximum(1.0 - scores[y == 1][:, None] + scores[y == 0][None, :], 0.0)
    value, gradient = earlier.push_evaluation(scores, y)
    assert value == pytest.approx(np.square(short.sum(axis=0)).sum())
    assert gradient[y == 0] == pytest.approx(2.0 * short.sum(axis=0) * (short > 0).sum(axis=0))

    grades, offsets = rng.integers(0, 4, size=30), np.array([0, 11, 12, 30])
    ranks, ends, weights = pairs._layout(grades, offsets)
    value, gradient = earlier.rank_svm_evaluation(scores, ranks, ends, weights)
    expected, slope = 0.0, np.zeros(30)
    for start, end in ((0, 11), (12, 30)):
        pairs_of = [(i, j) for i in range(start, end) for j in range(start, end) if grades[i] > grades[j]]
        for i, j in pairs_of:
            if scores[i] - scores[j] < 1.0:
                expected += (1.0 - scores[i] + scores[j]) / len(pairs_of)
                slope[i] -= 1.0 / len(pairs_of)
                slope[j] += 1.0 / len(pairs_of)
    assert value == pytest.approx(expected)
    assert gradient == pytest.approx(slope)


def test_both_are_timed_and_agree(modules):
    _, pairs = modules
    found = pairs.beside_earlier(rows=240, times=1, repeats=2)
    assert set(found) == {"Push, hinge, power 2", "RankSVM, hinge"}
    assert all(len(times) == 2 for both in found.values() for times in both)
