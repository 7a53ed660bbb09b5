"""A warning names the line of the caller, however deep in the package it is raised."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import convexrank as cr
from convexrank.backend.progress import level_of_caller

GRAPH = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
ROWS = np.random.default_rng(0).normal(size=(12, 2))
LABELS = (ROWS[:, 0] > 0).astype(int)
KERNEL, VALUES = ROWS @ ROWS.T + np.eye(12), ROWS[:, 1] ** 2


def lines(call: Callable[[], Any]) -> set[tuple[str, int]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return {(warning.filename, warning.lineno) for warning in caught}


CALLS: dict[str, Callable[[], Any]] = {
    "a problem": lambda: cr.problems.LpqRank(GRAPH, 4, 4),
    "a game": lambda: cr.problems.PageRankGame(GRAPH, epsilon=100.0),
    "a copy of a problem": lambda: dataclasses.replace(cr.problems.LpqRank(GRAPH, 4, 5), q=4),
    "a one-liner that builds": lambda: cr.lpq_rank(GRAPH, 4, 4, alpha=0.3),
    "a one-liner that solves": lambda: cr.trust_rank(GRAPH, [0], tol=1e-30),
    "one that calls another": lambda: cr.antitrust_rank(GRAPH, [0], tol=1e-30),
    "pagerank": lambda: cr.pagerank(GRAPH, tol=1e-30),
    "solve": lambda: cr.problems.PageRank(GRAPH).solve(max_iter=1),
    "solve of its own": lambda: cr.problems.KernelLearnedDivergence(KERNEL, VALUES, 0.5, l2=0.1).solve(
        max_iter=1
    ),
    "an estimator": lambda: cr.PushRanker(max_iter=1).fit(ROWS, LABELS),
    "the limit of an estimator": lambda: cr.PushRanker(p=np.inf, tie_break="limit", max_iter=1).fit(
        ROWS, LABELS
    ),
    "a search": lambda: cr.PushRankerCV(p=4, values=[0.1], max_iter=1, cv=2).fit(ROWS, LABELS),
    "an estimator of uneven columns": lambda: cr.SingleIndexRegressor(max_iter=1).fit(
        ROWS * [1.0, 1e4], VALUES
    ),
    "an estimator without queries": lambda: cr.RetargetingRanker(max_iter=1).fit(
        np.tile(ROWS, (50, 1)), np.arange(600) % 3
    ),
    "scikit-learn": lambda: cross_val_score(cr.PushRanker(max_iter=1), ROWS, LABELS, cv=2),
    "a metric": lambda: cr.metrics.r_p([1, 1, 0, 0], [0, 1, 2, 3], p=5000),
}


@pytest.mark.parametrize("kind", CALLS)
def test_warnings_name_the_line_of_the_caller(kind):
    call = CALLS[kind]
    source, first = inspect.getsourcelines(call)
    found = lines(call)
    assert found, "nothing warned"
    assert all(file == __file__ and first <= line < first + len(source) for file, line in found), found


def test_a_caller_outside_counts_frames_up_to_itself():
    assert level_of_caller() == 1
    # a function inside the package, and one inside it that calls that one
    space: dict[str, Any] = {"__name__": "convexrank.planted", "level_of_caller": level_of_caller}
    exec("def inner():\n    return level_of_caller()\ndef outer():\n    return inner()\n", space)
    assert space["inner"]() == 2
    assert space["outer"]() == 3
    # a package of another name that starts alike is outside
    space["__name__"] = "convexranker"
    assert space["inner"]() == 1
