"""Separability by linear programming against the definition: on a line, in the plane, in known and planted cases."""

from __future__ import annotations

import itertools
import time
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.optimize import linprog

import convexrank as cr
from convexrank.backend.interruption import OutOfTimeError, check_time, ending_after
from convexrank.core import separability
from convexrank.core.results import Status
from convexrank.core.separability import find_separation
from convexrank.modelling import expressions as tree
from convexrank.modelling import recession
from convexrank.modelling.recession import never_rising
from tests.random_expressions import random_instance, scores_apart, tied_scores
from tests.tolerances import tolerance


def bipartite(positives, negatives):
    """The system f_i ≥ t ≥ f_k, as the problems pose it."""
    signs = np.r_[np.ones(len(positives)), -np.ones(len(negatives))]
    return signs[:, None] * np.vstack([positives, negatives]), -signs[:, None]


def on_a_line(positives, negatives):
    """The definition for one feature, by looking at every pair: both directions are tried."""
    kinds = []
    for sign in (1, -1):
        gaps = [sign * (p - n) for p in positives for n in negatives]
        kinds.append("strict" if min(gaps) > 0 else "quasi" if min(gaps) == 0 and max(gaps) > 0 else "none")
    return min(kinds, key=["strict", "quasi", "none"].index)


def in_the_plane(positives, negatives):
    """The definition for two features of small integers: all directions that matter are normals of differences."""
    gaps = [p - n for p in positives for n in negatives]
    moves = [g for g in gaps if g.any()]
    if not moves:
        return "none"
    candidates = [np.array([-g[1], g[0]]) for g in moves] + moves
    candidates = [s * c for c in candidates for s in (1, -1)]
    # between two neighbouring normals the answer is constant: sums of pairs visit every sector
    candidates += [
        a / np.abs(a).max() + b / np.abs(b).max() for a, b in itertools.combinations(candidates, 2)
    ]
    best = "none"
    for direction in candidates:
        lengths = [float(direction @ g) for g in gaps]
        if min(lengths) > tolerance("separation"):
            return "strict"
        if min(lengths) >= 0 and max(lengths) > tolerance("separation"):
            best = "quasi"
    return best


def check_direction(found, positives, negatives):
    """The direction is the proof: it ranks no pair wrongly (up to rounding), and all strictly when it says so."""
    gaps = (positives[:, None, :] - negatives[None, :, :]) @ found.direction
    size = (np.abs(positives[:, None, :] - negatives[None, :, :]) @ np.abs(found.direction)).max()
    if found.kind == "none":
        assert not found.direction.any()
    elif found.kind == "strict":
        assert gaps.min() > 0
    else:
        assert gaps.min() >= -tolerance("separation") * size
        assert gaps.max() > 0


@given(
    st.lists(st.integers(-4, 4), min_size=1, max_size=6),
    st.lists(st.integers(-4, 4), min_size=1, max_size=6),
)
def test_one_feature(positives, negatives):
    p, n = np.array(positives, float)[:, None], np.array(negatives, float)[:, None]
    found = find_separation(*bipartite(p, n))
    assert found.kind == on_a_line(positives, negatives)
    check_direction(found, p, n)


SMALL = st.integers(-2, 2).map(float)


@settings(max_examples=50)
@given(
    st.integers(1, 4).flatmap(lambda rows: arrays(np.float64, (rows, 2), elements=SMALL)),
    st.integers(1, 4).flatmap(lambda rows: arrays(np.float64, (rows, 2), elements=SMALL)),
)
def test_two_features(positives, negatives):
    found = find_separation(*bipartite(positives, negatives))
    assert found.kind == in_the_plane(positives, negatives)
    check_direction(found, positives, negatives)


KNOWN = {
    # name: positives, negatives, kind
    "strict": ([[1.0, 0.0], [2.0, 5.0]], [[0.0, 0.0], [-1.0, 3.0]], "strict"),
    "touching": ([[1.0], [2.0]], [[1.0], [0.0]], "quasi"),
    "touching in one corner": ([[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [-1.0, 2.0]], "quasi"),
    "the same row in both classes, alone": ([[1.0, 1.0]], [[1.0, 1.0]], "none"),
    "all rows the same": (np.ones((3, 2)), np.ones((4, 2)), "none"),
    "all rows zero": (np.zeros((3, 2)), np.zeros((2, 2)), "none"),
    "a constant feature beside a separating one": ([[7.0, 1.0]], [[7.0, 0.0]], "strict"),
    "inside": ([[0.0, 0.0]], [[1.0, 0.0], [-1.0, 0.1], [0.0, -1.0], [0.0, 1.0]], "none"),
    "exclusive or": ([[0.0, 0.0], [1.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]], "none"),
    "one of each": ([[3.0]], [[5.0]], "strict"),
}


@pytest.mark.parametrize("name", list(KNOWN))
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_known_cases_at_any_scale(name, scale, as_sparse):
    positives, negatives, kind = (np.array(part) if i < 2 else part for i, part in enumerate(KNOWN[name]))
    rows, thresholds = bipartite(scale * positives, scale * negatives)
    if as_sparse:
        rows, thresholds = sparse.csr_array(rows), sparse.csr_array(thresholds)
    found = find_separation(rows, thresholds)
    assert found.kind == kind
    check_direction(found, scale * positives, scale * negatives)
    # rows given twice change nothing
    twice = find_separation(*bipartite(np.repeat(scale * positives, 2, axis=0), scale * negatives))
    assert twice.kind == kind


def planted(seed, margin, offset=0.0, rows=40):
    """Two classes a planted margin apart, and one example of each class dropped into the middle of the other."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=3)
    X = rng.normal(size=(rows, 3))
    y = X @ w > np.median(X @ w)
    X = X + np.outer(np.where(y, 0.5, -0.5) * margin, w / (w @ w)) + offset
    mixed = X.copy()
    mixed[np.flatnonzero(y)[0]], mixed[np.flatnonzero(~y)[0]] = X[~y].mean(axis=0), X[y].mean(axis=0)
    return X, mixed, y


@pytest.mark.parametrize("margin", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("units", [(1.0, 1.0, 1.0), (1e-6, 1.0, 1e6), (1e6, 1e6, 1e6), (1e-6, 1e-6, 1e-6)])
def test_units_offsets_and_margins(margin, offset, units):
    """Neither the unit of a feature nor an offset is a property of the data; both were once taken for one."""
    X, mixed, y = planted(0, margin, offset)
    strict = find_separation(*bipartite((X * units)[y], (X * units)[~y]))
    assert strict.kind == "strict"
    if offset < 1e6 or margin > 1e-4:  # else the scores themselves are rounded by about the margin
        check_direction(strict, (X * units)[y], (X * units)[~y])
    none = find_separation(*bipartite((mixed * units)[y], (mixed * units)[~y]))
    assert none.kind == "none"


@pytest.mark.parametrize("overlap", [1e-3, 1e-6, 1e-9])
def test_a_small_overlap_is_no_separation(overlap):
    positives, negatives = np.array([[1.0 - overlap], [2.0], [3.0]]), np.array([[1.0], [0.0], [-1.0]])
    assert find_separation(*bipartite(positives, negatives)).kind == "none"
    assert find_separation(*bipartite(positives + 2 * overlap, negatives)).kind in ("strict", "quasi")


def test_pairs_without_thresholds():
    none = np.zeros((1, 0))
    assert find_separation(np.array([[1.0, -2.0]]), none).kind == "strict"
    assert find_separation(np.array([[0.0, 0.0]]), none).kind == "none"
    cycle = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [-1.0, 0.0, 1.0]])
    assert find_separation(cycle, np.zeros((3, 0))).kind == "none"
    both_ways = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    found = find_separation(both_ways, np.zeros((3, 0)))
    assert found.kind == "quasi"
    assert abs(found.direction[0]) <= tolerance("separation") * found.direction[1]


def test_nothing_of_the_callers_is_edited():
    rows, thresholds = bipartite(np.array([[1.0], [2.0]]), np.array([[0.0]]))
    before = rows.copy(), thresholds.copy()
    find_separation(rows, thresholds)
    find_separation(sparse.csr_array(rows), sparse.csr_array(thresholds))
    assert np.array_equal(rows, before[0])
    assert np.array_equal(thresholds, before[1])


# --- as problems ask ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_graded_labels(seed):
    """One threshold between two grades: a sum of the features orders them, then one row is misplaced."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 3)) + 100.0
    y = np.digitize(X.sum(axis=1), np.quantile(X.sum(axis=1), [0.3, 0.6]))
    X = X + 0.1 * y[:, None]
    problem = cr.problems.ConvexRisk(X, y.astype(float))
    found = find_separation(*problem._ordering())
    assert found.kind == "strict"
    assert problem._is_separating(found.direction)
    wrong = y.copy()
    wrong[np.argmax(y)] = 0
    again = cr.problems.ConvexRisk(X, wrong.astype(float))
    found = find_separation(*again._ordering())
    assert found.kind == "none" or again._is_separating(found.direction)


@pytest.mark.parametrize("units", [1.0, np.array([1e-6, 1.0, 1e6])])
def test_a_solve_says_separable_whatever_the_units(units):
    X, mixed, y = planted(1, 0.5)
    with pytest.warns(cr.ConvergenceWarning, match="SEPARABLE"):
        solution = cr.problems.PNormPush(X * units, y, p=2).solve()
    assert solution.status is Status.SEPARABLE
    assert cr.problems.PNormPush(mixed, y, p=2).solve().status is Status.CONVERGED


def interval_of_one_class(X, y):
    """A direction −1, +1 or +1, −1 on neighbouring thresholds whose interval holds rows of one class only."""
    for j in range(X.shape[1] - 1):
        inside = X[:, j] - X[:, j + 1]
        if j % 4 < 3 and inside.any() and len(set(y[inside > 0])) == 1:
            direction = np.zeros(X.shape[1])
            direction[[j, j + 1]] = (1, -1) if y[inside > 0][0] else (-1, 1)
            return direction
    return None


@pytest.mark.parametrize("seed", [2, 7, 8, 9, 11])
def test_thresholds_with_an_interval_of_one_class(seed):
    """Most of the 32 weights decide nothing, and a linear program may let them run until rounding hides the slacks."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=300)
    y = z + rng.normal(size=300) > 0.6
    features = 0.5 * z[:, None] + rng.normal(size=(300, 8))
    X = (features[:, :, None] > np.array([-1.5, 0.0, 0.1, 0.13])).reshape(300, 32).astype(float)
    direction = interval_of_one_class(X, y)
    gaps = (X[y][:, None] - X[~y][None]) @ direction
    assert gaps.min() >= 0 < gaps.max()
    found = find_separation(*bipartite(X[y], X[~y]))
    assert found.kind == "quasi"
    check_direction(found, X[y], X[~y])


def test_the_linear_program_keeps_the_deadline():
    """All labels differ, so that there are as many thresholds: seconds without a deadline."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 10))
    problem = cr.problems.ConvexRisk(X, X @ rng.normal(size=10) + rng.normal(size=2000), "logistic")
    system = problem._ordering()
    with pytest.raises(OutOfTimeError), ending_after(0.05):
        find_separation(*system)
    start = time.perf_counter()
    with pytest.raises(OutOfTimeError), ending_after(0.0):
        find_separation(*system)
    assert time.perf_counter() - start < 5.0


def test_many_thresholds_are_decided_as_few(monkeypatch):
    """Interior points and the simplex method give the same answers."""
    rng = np.random.default_rng(1)
    for overlap, kind in ((0.0, "strict"), (1.0, "none")):
        X = rng.normal(size=(150, 3))
        y = X @ [1.0, -2.0, 0.5] + overlap * rng.normal(size=150)
        system = cr.problems.ConvexRisk(X, y, "logistic")._ordering()
        found = [find_separation(*system).kind]
        monkeypatch.setattr(separability, "_MANY_THRESHOLDS", 10)
        assert [*found, find_separation(*system).kind] == [kind, kind]
        monkeypatch.undo()


def test_a_solve_says_what_it_had_no_time_to_decide(monkeypatch):
    """Where the point hints at a missing minimiser and the linear program does not end, the message says so."""
    problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4)

    def endless():
        while True:
            check_time()

    monkeypatch.setattr(type(problem), "_may_lack_minimiser", lambda *_: True)
    monkeypatch.setattr(type(problem), "_prove_nonexistence", lambda _: endless())
    start = time.perf_counter()
    solution = problem.solve(time_limit=0.5)
    assert solution.status is Status.CONVERGED
    assert "whether a minimiser exists was not decided" in solution.message
    assert time.perf_counter() - start < 10.0


# --- the inequalities of an expression ------------------------------------------------------------------------------


def has_factors_of_zero(node):
    numbers = [c for c, _ in node.terms] if isinstance(node, tree.Affine) else []
    numbers += [node.shares] if isinstance(node, tree.Dot) else []
    return any(not np.all(number) for number in numbers) or any(map(has_factors_of_zero, node.args))


def extreme(A, B, towards):
    """The scores of a square farthest in a direction that satisfy the inequalities."""
    count = B.shape[1]
    bounds = [(-1.0, 1.0)] * A.shape[1] + [(None, None)] * count
    system = sparse.hstack([A, B]).tocsr()
    objective = -np.r_[towards, np.zeros(count)]
    return linprog(objective, A_ub=-system, b_ub=np.zeros(len(A.indptr) - 1), bounds=bounds).x[: A.shape[1]]


def violation(A, B, d):
    """How far the inequalities are from holding for scores d, with the best auxiliary numbers."""
    slack = sparse.hstack([B, np.ones((B.shape[0], 1))]).tocsr()
    bounds = [(None, None)] * B.shape[1] + [(0.0, None)]
    return linprog(np.r_[np.zeros(B.shape[1]), 1.0], A_ub=-slack, b_ub=A @ d, bounds=bounds).fun


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_inequalities_hold_exactly_where_no_query_rises_far_out(start):
    """The slope far out follows the atoms by other code; at scores drawn at random, and at the ends of the cone."""
    held = np.zeros(2, dtype=int)
    for seed in range(start, start + 20):
        draw = Random(seed)
        instance = random_instance(draw)
        program, rng = instance.program, np.random.default_rng(seed)
        A, B = never_rising(program)
        drawn = [scores_apart(draw, program.rows), tied_scores(draw, program.rows)]
        ends = [extreme(A, B, rng.normal(size=program.rows)) for _ in range(2)]
        for d in (*drawn, *ends):
            each = recession._up(program, lambda node, *x, d=d: recession._slopes(node, d, *x))
            if d is not drawn[0] and d is not drawn[1] and np.isinf(each).any():
                continue  # rounding of an end times an infinite slope
            holds = violation(A, B, d) <= 1e-9
            held[int(holds)] += 1
            assert not holds or each.sum() <= 1e-7
            assert holds or each.max() > 1e-9 or has_factors_of_zero(instance.root)
    assert held.min() >= 10


def test_too_many_pairs_have_no_inequalities(monkeypatch):
    program = cr.problems.PartialAUC.random(3).program
    pairs = max(node.pair_count for node in program.nodes if isinstance(node, tree.PairSums))
    for most in (pairs, pairs - 1):
        monkeypatch.setattr(recession, "_MOST_PAIRS", most)
        assert (never_rising(program) is not None) == (most == pairs)
