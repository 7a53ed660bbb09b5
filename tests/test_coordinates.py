"""The coordinate oracle of boosting against the objectives from their definitions, for all pushes that it can serve."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from convexrank.modelling.log_sum_exps.coordinates import LogSumExpCoordinates
from convexrank.modelling.log_sum_exps.terms import LogSumExpTerm
from convexrank.problems import BottomPush, PNormPush, TopBottomPush
from convexrank.solvers.descent.coordinates import exact_step
from tests.boosting_references import example
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")


def lines(problem, terms):
    return LogSumExpCoordinates(problem.X, terms, problem.l2)


def top_terms(problem):
    return (
        LogSumExpTerm(problem.positives, -1.0, 1.0, np.log(problem._positive_shares)),
        LogSumExpTerm(
            problem.negatives,
            problem.p,
            1 / problem.p,
            np.log(problem._negative_weights / problem._negative_weights.sum()),
        ),
    )


def bottom_terms(problem, weight=1.0):
    return (
        LogSumExpTerm(problem.positives, -problem.p, weight / problem.p, np.log(problem._positive_shares)),
        LogSumExpTerm(
            problem.negatives,
            1.0,
            weight,
            np.log(problem._negative_weights / problem._negative_weights.sum()),
        ),
    )


def oracle_of(problem):
    """Return the coordinate oracle of each push that is a sum of log-sum-exps."""
    if isinstance(problem, TopBottomPush):
        return lines(problem, top_terms(problem) + bottom_terms(problem, problem.bottom_weight))
    return (
        lines(problem, bottom_terms(problem))
        if isinstance(problem, BottomPush)
        else problem._coordinate_oracle()
    )


MAKERS = [
    lambda H, y, p, **k: PNormPush(H, y, p, **k),
    lambda H, y, p, **k: BottomPush(H, y, p, **k),
    lambda H, y, p, **k: TopBottomPush(H, y, p, 0.3, **k),
]


@pytest.mark.parametrize("make", MAKERS)
@given(seed=st.integers(0, 10_000), p=st.sampled_from([0.5, 1.0, 3.0, 64.0]), l2=st.sampled_from([0.0, 0.3]))
def test_edges_and_lines_are_those_of_the_objective(make, seed, p, l2):
    H, y = example(("binary", "real")[seed % 2], seed % 7)
    problem = make(H, y, p, l2=l2)
    oracle, w = oracle_of(problem), np.random.default_rng(seed).normal(size=5)
    expected_risk, risk_gradient = problem._reference_risk(w)
    risk, score_gradient = oracle.risk_and_score_gradient(oracle.scores(w))
    assert risk == pytest.approx(expected_risk, rel=SUMMATION, abs=SUMMATION)
    edges = oracle.edges(w, score_gradient)
    assert np.allclose(edges, -risk_gradient - l2 * w, rtol=SUMMATION, atol=SUMMATION)
    j, step, nudge = seed % 5, 0.7, tolerance("difference_step")
    line = oracle.line(oracle.scores(w), oracle.column(j), w[j])
    moved = w + step * np.eye(5)[j]
    slope = problem._reference_minorant(moved).slope[j] + l2 * moved[j]
    assert line.slope(step) == pytest.approx(slope, rel=SUMMATION, abs=SUMMATION)
    change = (line.slope(step + nudge) - line.slope(step - nudge)) / (2 * nudge)
    assert line.curvature(step) == pytest.approx(change, rel=nudge, abs=nudge)


@pytest.mark.parametrize("make", MAKERS)
@given(
    seed=st.integers(0, 10_000),
    p=st.floats(0.3, 40),
    low=st.floats(-3, 3),
    width=st.floats(0.1, 50),
)
def test_closed_form_is_the_root_of_the_slope(make, seed, p, low, width):
    H, y = example("binary", seed % 7)
    problem = make(low + width * H, y, p)
    oracle = oracle_of(problem)
    column = oracle.column(seed % 5)
    line = oracle.line(oracle.scores(np.random.default_rng(seed).normal(size=5) / width), column, 0.0)
    alpha = line.closed_form()
    if isinstance(problem, TopBottomPush):
        assert alpha is None  # four terms do not balance in pairs
        return
    assert alpha is not None
    size = SUMMATION * (abs(low) + width)
    assert line.slope(alpha) == pytest.approx(0.0, abs=size)
    shift = 0.01 / (width * (1 + p))
    assert line.slope(alpha - shift) < -size
    assert line.slope(alpha + shift) > size


@pytest.mark.parametrize("p", [0.3, 1.0, 3.0, 49.0, 98.0, 103.0])  # p·(1/p) is not 1 for some of these
def test_slope_at_infinity_sees_ties_through_rounding(p):
    y = np.array([True, True, False, False])
    tied, crossed, apart = np.array([[1, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0]]) * 0.7
    oracle = PNormPush(np.column_stack([tied, crossed, apart]), y, p)._coordinate_oracle()
    limits = [
        oracle.line(np.zeros(4), column, 0.0).slope_at_infinity(1.0) for column in (tied, crossed, apart)
    ]
    assert limits[0] == 0.0
    assert limits[1:] == pytest.approx([0.7, -0.7], rel=SUMMATION)


@pytest.mark.parametrize("p", [3.0, 49.0])
def test_a_constant_column_is_not_worth_a_step(p):
    y = np.array([True, True, False, False])
    oracle = PNormPush(np.eye(4), y, p)._coordinate_oracle()
    lines_tried = [oracle.line(np.arange(4.0), np.full(4, value), 0.0) for value in np.linspace(0.1, 2.0, 20)]
    assert any(line.slope(0.0) != 0.0 for line in lines_tried)  # rounding, which must not be followed
    assert all(exact_step(line, True) == 0.0 for line in lines_tried)


def test_no_closed_form_with_l2_or_three_values():
    H, y = example("binary")
    problem = PNormPush(H, y, p=2, l2=0.1)
    assert problem._coordinate_oracle().line(np.zeros(28), H[:, 0], 0.0).closed_form() is None
    assert (
        PNormPush(H, y, p=2)._coordinate_oracle().line(np.zeros(28), H[:, 0] + H[:, 1], 0.0).closed_form()
        is None
    )


def test_repeated_entries_of_a_sparse_column_add_up():
    repeated = sparse.csr_array((np.ones(3), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    oracle = LogSumExpCoordinates(repeated, ())
    assert oracle.column(0).tolist() == [2.0, 0.0]
