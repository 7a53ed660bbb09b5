"""The benchmark of single solves: what is measured, and that a slow solve or a wide gap is said."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    """The module, with one set of twenty drawn rows in two lists."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    module = importlib.import_module("real_solves")
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20, 2)), np.arange(20) % 4 == 0, np.arange(20) // 10
    problems = {
        "a push": ("Push", (2.0, "logistic"), {}),
        "half": ("PartialAUC", (0.5, "hinge"), {"min_tpr": 0.5}),
    }
    small = replace(module.SETS["MQ2008"], read=lambda: rows, file=None, problems=problems)
    monkeypatch.setattr(module, "SETS", {"drawn": small})
    yield module
    for name in set(sys.modules) - before:
        if (BENCHMARKS / f"{name}.py").exists():
            del sys.modules[name]


def here(job, **options):
    assert job == "real_solves:measured"
    return SimpleNamespace(result=importlib.import_module("real_solves").measured(**options))


def test_each_problem_is_solved_with_each_penalty(benchmark, monkeypatch):
    monkeypatch.setattr(benchmark, "fresh", here)
    section = benchmark.solves(0)
    assert [row[:2] for row in section.tables[0].rows] == [
        (name, penalty)
        for name in ("a push", "half")
        for penalty in ("l2 = 0.001", "l2 = 1e-06", "l1 = 0.001", "l1 = 0.0001")
    ]
    assert all(target.met for target in section.targets)


@pytest.mark.parametrize(("seconds", "gap"), [(11.0, 0.0), (1.0, 1e-6)])
def test_a_slow_solve_and_a_wide_gap_are_said(benchmark, monkeypatch, seconds, gap):
    found = {"l2 = 1": {"seconds": [seconds], "solver": "one", "iterations": 3, "value": 2.0, "gap": gap}}
    monkeypatch.setattr(benchmark, "fresh", lambda job, **options: SimpleNamespace(result=found))
    assert [target.met for target in benchmark.solves(0).targets] == [False, False]


def test_what_has_no_file_is_left_out(benchmark, monkeypatch):
    rows = replace(benchmark.SETS["drawn"], file="nothing/of/this/name")
    monkeypatch.setattr(benchmark, "SETS", {"drawn": rows})
    section = benchmark.solves(0)
    assert section.targets == ()
    assert section.tables[0].rows == (("nothing/of/this/name is not there",),)
