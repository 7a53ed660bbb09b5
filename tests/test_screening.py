"""Screening in working sets: what is left out is 0 in every answer, and a wrong radius costs time, not correctness."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.solvers.working_sets import _screening
from convexrank.solvers.working_sets._screening import Screening
from tests.tolerances import tolerance

KINDS = ("push", "sparse push, l2", "listnet", "squares, l2", "repeated columns")


def instance(kind):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 40))
    noisy = X[:, :3].sum(axis=1) + 2.0 * rng.normal(size=60)
    y, grades, queries = noisy > np.median(noisy), np.digitize(noisy, [-1.0, 2.0]), np.arange(60) // 10
    thin = sparse.csr_array(np.where(rng.random(X.shape) < 0.4, np.abs(X), 0.0))
    return {
        "push": lambda: cr.problems.PNormPush(X, y, p=4, l1=1.0),
        "sparse push, l2": lambda: cr.problems.PNormPush(thin, y, p=2, l1=1.0, l2=0.05),
        "listnet": lambda: cr.problems.ListNet(X, grades, queries, l1=1.0),
        "squares, l2": lambda: cr.problems.NDCGRegression(X, grades, queries, l1=1.0, l2=0.05),
        "repeated columns": lambda: cr.problems.PNormPush(np.hstack([X, X]), y, p=1, l1=1.0, l2=0.05),
    }[kind]()


@pytest.fixture
def eager(monkeypatch):
    """Screen at every chance, and note what was left; the instances are too small for it to pay."""
    for name, value in (("_LOOKS", 0), ("_ENTRIES", 0), ("_SMALLER", 1.0), ("_WORTH", 1.0)):
        monkeypatch.setattr(_screening, name, value)
    noted = []

    def noting(method):
        def noted_method(self, problem, w, point):
            found = method(self, problem, w, point)
            if found.kept is not None:
                noted.append((problem, found.kept.places))
            return found

        return noted_method

    monkeypatch.setattr(Screening, "at", noting(Screening.at))
    monkeypatch.setattr(Screening, "valid_at", noting(Screening.valid_at))
    return noted


def path_of(problem, ratio=0.6, **options):
    return problem.path(l1="auto", n=8, ratio=ratio, tol=1e-8, **options)


def wrongly_left_out(noted, path):
    """How many columns were left out that a precise answer uses, by the slopes of the reference code."""
    wrong = 0
    for problem, places in noted:
        answer = path[int(np.argmin(np.abs(path.values - problem.l1)))].x
        steep = np.abs(problem.reference_minorant(answer).slope)
        used = (answer != 0.0) | (steep >= problem.l1 * (1.0 - tolerance("slope at the minimiser")))
        used[places] = False
        wrong += int(used.sum())
    return wrong


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_out_is_0_and_answers_are_the_same(kind, eager):
    problem, ratio = instance(kind), 0.9 if "squares" in kind else 0.6  # many noisy columns are near l1 there
    path = path_of(problem, ratio)
    noted = list(eager)
    others = path_of(problem, ratio, solver="accelerated")
    assert wrongly_left_out(noted, others) == 0
    assert path.columns_left.min() < problem.dimension
    assert others.columns_left is None
    for one, other in zip(path, others, strict=True):
        assert one.certificate.kind == "global"
        assert abs(one.value - other.value) <= one.gap + other.gap


# of "push" alone, whose gap is known near the minimiser only, even this radius leaves out nothing that is used
@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_radius_that_is_too_small_is_caught_and_costs_no_correctness(kind, eager, monkeypatch):
    monkeypatch.setattr(_screening, "movement", lambda bends, *rest: np.full(len(bends), -1e3))
    problem = instance(kind)
    path = path_of(problem)
    noted = list(eager)
    others = path_of(problem, solver="accelerated")
    assert wrongly_left_out(noted, others) > 0
    for one, other in zip(path, others, strict=True):
        assert (one.status.name, one.certificate.kind) == ("CONVERGED", "global")
        assert abs(one.value - other.value) <= one.gap + other.gap


def test_designs_and_few_entries_leave_nothing_out():
    problem = instance("push")
    assert (path_of(problem).columns_left == problem.dimension).all()
    design = cr.features.Thresholds(problem.X[:, :3], bins=8)
    path = path_of(cr.problems.PNormPush(design, problem.y, p=2, l1=1.0))
    assert (path.columns_left == design.shape[1]).all()
    assert "columns left" in path.to_frame()
