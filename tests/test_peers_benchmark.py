"""The benchmark beside the authors' methods: AccuracyAtTopPrimal.jl's steps on PatMat's objective, what is judged."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import numpy as np
import pytest

import convexrank as cr
from tests.tolerances import tolerance

OVER = pytest.mark.parametrize("over", ["negatives", "all"])


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parent.parent / "benchmarks"))
    return {name: importlib.import_module(name) for name in ("gradient_steps", "peers")}


def drawn(rows=80):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, 3))
    return X, (X[:, 0] + rng.normal(size=rows) > 0.5).astype(int)


def problem(X, y, over, scale, penalty):
    return cr.problems.PatMat(X, y, 0.1, beta=scale, over=over, l2=2.0 * penalty)


@OVER
@pytest.mark.parametrize("scale", [10.0, 0.1])
def test_the_objective_of_the_steps_is_that_of_pat_mat_and_its_gradient_the_slope(modules, over, scale):
    steps = modules["gradient_steps"]
    (X, y), w, h = drawn(), np.array([0.4, -0.3, 0.2]), 1e-6
    ours = problem(X, y, over, scale, steps.PENALTY)
    value, gradient = steps.value_and_gradient(w, X, y, 0.1, scale, over)
    assert abs(value - ours.objective(w)) <= tolerance("summation") * abs(value)
    for j, slope in enumerate(gradient):
        step = h * np.eye(3)[j]
        found = (ours.objective(w + step) - ours.objective(w - step)) / (2.0 * h)
        assert abs(found - slope) <= tolerance("central difference") * max(1.0, abs(slope))


@OVER
def test_the_steps_come_near_the_minimum_and_without_the_slope_of_the_threshold_they_do_not(
    modules, monkeypatch, over
):
    steps = modules["gradient_steps"]
    X, y = drawn()
    ours = problem(X, y, over, 1.0, steps.PENALTY)
    least = ours.solve(tol=1e-9).value
    reached = [
        ours.objective(steps.by_steps(X, y, 0.1, 1.0, over, 0, steps=count)) - least for count in (20, 1000)
    ]
    assert -tolerance("summation") <= reached[1] <= 0.01 < reached[0]
    threshold = steps.threshold
    monkeypatch.setattr(steps, "threshold", lambda *given: (threshold(*given)[0], 0.0 * threshold(*given)[1]))
    astray = ours.objective(steps.by_steps(X, y, 0.1, 1.0, over, 0, steps=1000)) - least
    assert astray > 0.1


@OVER
def test_both_are_judged_on_other_rows_of_the_same_split(modules, monkeypatch, over):
    peers = modules["peers"]
    monkeypatch.setattr(peers, "STEPS", 100)
    X, y = drawn(160)
    parts = peers._parts(X, y, 3)
    for label in (0, 1):
        count = (y == label).sum()
        assert [(labels == label).sum() for _, labels in parts[:2]] == [
            count // 2,
            3 * count // 4 - count // 2,
        ]
    assert sorted(row.tobytes() for rows, _ in parts for row in rows) == sorted(row.tobytes() for row in X)
    one = peers._at_scale(parts, 0.1, 1.0, over, 0)
    (X, y), choose, test = parts
    w = problem(X, y, over, 1.0, peers.PENALTY).solve(tol=peers._TOL).x
    for rows, what in ((choose, "to choose"), (test, "found")):
        assert one[f"ours {what}"] == peers._found(rows[0] @ w, rows[1], 0.1)
    assert one["least"] - one["gap"] <= one["reached"]


def test_positives_found_above_the_allowed_negatives(modules):
    scores = np.array([4.0, 3.0, 2.0, 1.0, 3.5, 2.5, 1.5, 0.5])
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    found = [modules["peers"]._found(scores, y, rate) for rate in (0.1, 0.25, 0.5, 0.75)]
    assert found == [0.0, 0.25, 0.5, 0.75]


def test_the_table_takes_what_the_rows_to_choose_prefer(modules):
    def at(ours, theirs, reached=1.5):
        judged = {f"{who} {what}": value for who, pair in (("ours", ours), ("theirs", theirs)) for what, value in
                  zip(("to choose", "found"), pair, strict=True)}  # fmt: skip
        return {"least": 1.0, "gap": 0.0, "reached": reached, "ours": 1.0, "theirs": 2.0, **judged}

    splits = [[at((0.2, 0.9), (0.8, 0.3)), at((0.4, 0.6), (0.1, 0.7), 3.0)], [at((0.9, 0.8), (0.9, 0.3))]]
    case = {"over": "all", "tau": 0.05, "splits": splits}
    (row,) = modules["peers"]._steps({"drawn": [case]}).rows
    assert row[:7] == ("drawn", "all", "0.05", "1.5000", "3.0000", "0.700", "0.300")
    error = math.dist([0.3, 0.5], [0.4, 0.4]) / math.sqrt(2)
    assert row[7] == f"+0.400 ± {error:.3f}"
    assert row[8:] == ("1.50 s", "3.00 s")


def test_a_benchmark_without_its_files_says_so(modules, monkeypatch):
    peers = modules["peers"]
    monkeypatch.setattr(peers, "missing", lambda name: "skipped")
    section = peers.peers(0)
    assert section.targets == ()
    assert [table.title for table in section.tables] == ["Left out"]
    assert {reason for _, reason in section.tables[0].rows} == {"skipped"}


def test_both_forms_of_svmpauc_are_measured(modules, monkeypatch):
    peers = modules["peers"]
    monkeypatch.setitem(peers.DATA, "small", (drawn, "", "drawn"))
    found = peers.planes("small", 1)
    assert abs(found["tight"]["value"] - found["least"]) <= peers._STOP
    assert abs(found["tight"]["value"] - found["tight"]["ours"]) <= tolerance("summation")
    assert found["loose"]["value"] >= found["loose"]["ours"] >= found["least"] - peers._STOP
    section = peers._planes({"small": found})
    assert section.rows[0][0] == "small"
