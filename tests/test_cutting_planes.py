"""SVMpAUC's cutting planes, the peer of PartialAUC: their constraint by enumeration, minima, and planted bugs."""

from __future__ import annotations

import importlib
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest

import convexrank as cr
from tests.tolerances import tolerance

pytestmark = pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
SUMS, STOP = tolerance("summation"), tolerance("cutting planes")
# Of four negatives: all are whole counts but the last, which is one negative and a half.
SHARES = (0.25, 0.5, 1.0, 0.375)


@pytest.fixture
def planes(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parent.parent / "benchmarks"))
    return importlib.import_module("cutting_planes")


def largest(positive, negative, share, tight):
    """The largest loss of an order, less what it loses in score, over all orders: from the definitions of the papers.

    Tight: over all choices of as many negatives as count, and the orders of these.
    """
    counted = share * len(negative)
    chosen = combinations(negative, round(counted)) if tight else [negative]
    return max(in_order(positive, some, counted) for some in map(np.array, chosen))


def in_order(positive, negative, counted):
    found, rows = -np.inf, [(1, i) for i in range(len(positive))] + [(0, k) for k in range(len(negative))]
    for order in permutations(rows):
        loss = lost = 0.0
        met = []  # the negatives that are ranked above, in order
        for label, row in order:
            if label:
                loss += sum(min(max(counted - place, 0.0), 1.0) for place in range(len(met)))
                lost += sum(positive[row] - negative[k] for k in met)
            else:
                met.append(row)
        found = max(found, (loss - lost) / (len(positive) * counted))
    return found


def hinges(positive, negative, share):
    """The objective of PartialAUC with the hinge: all positives beside the highest negatives."""
    counted = share * len(negative)
    lead = np.clip(counted - np.arange(len(negative)), 0.0, 1.0)
    margins = positive[:, None] - np.sort(negative)[::-1]
    return float((lead * np.maximum(1.0 - margins, 0.0)).sum() / (len(positive) * counted))


def scores(seed):
    rng = np.random.default_rng(seed)
    drawn = rng.integers(-2, 3, size=6) / 2.0 if seed % 2 else rng.normal(size=6)  # every other one has ties
    return drawn[:2], drawn[2:]


def attained(cut, positive, negative, share, tight):
    of_positives, of_negatives, constant = cut(positive, negative, share, tight)
    return of_positives @ positive + of_negatives @ negative + constant


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("seed", range(6))
def test_the_constraint_is_the_largest_of_all_orders_and_the_tight_one_is_partial_auc(planes, share, seed):
    positive, negative = scores(seed)
    tight, loose = (attained(planes.most_violated, positive, negative, share, kind) for kind in (True, False))
    assert abs(loose - largest(positive, negative, share, False)) <= SUMS
    assert abs(tight - hinges(positive, negative, share)) <= SUMS
    whole = float(share * len(negative)).is_integer()
    if whole:
        assert abs(tight - largest(positive, negative, share, True)) <= SUMS
        # what is between the two: the negatives that do not count, where they are above a positive
        left = np.sort(negative)[: len(negative) - round(share * len(negative))]
        beyond = np.maximum(left[:, None] - positive, 0.0).sum() / (len(positive) * share * len(negative))
        assert abs(loose - tight - beyond) <= SUMS
    problem = cr.problems.PartialAUC(np.r_[positive, negative][:, None], [1, 1, 0, 0, 0, 0], share, "hinge")
    assert abs(tight - problem.objective([1.0])) <= SUMS


def test_with_a_negative_that_counts_in_part_the_loose_one_may_be_the_lower(planes):
    positive, negative = np.array([0.5]), np.zeros(2)
    tight, loose = (attained(planes.most_violated, positive, negative, 0.75, kind) for kind in (True, False))
    assert abs(tight - (0.5 + 0.5 * 0.5) / 1.5) <= SUMS
    assert abs(loose - 0.5 / 1.5) <= SUMS
    assert abs(loose - in_order(positive, negative, 1.5)) <= SUMS


@pytest.mark.parametrize("tight", [True, False])
def test_a_constraint_is_below_the_objective_elsewhere(planes, tight):
    rng = np.random.default_rng(3)
    for share in SHARES:
        there, here = ((rng.normal(size=5), rng.normal(size=4)) for _ in range(2))
        of_positives, of_negatives, constant = planes.most_violated(*there, share, tight)
        plane = of_positives @ here[0] + of_negatives @ here[1] + constant
        assert plane <= attained(planes.most_violated, *here, share, tight) + SUMS


def drawn(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(14, 2))
    y = np.arange(14) < 6
    X[y, 0] += 1.0
    return X, y.astype(int)


def agrees(planes, seed, share, **bug):
    """Whether the minima are as derived: the tight one is ours; the loose one is above it, by what ours leaves out."""
    X, y = drawn(seed)
    ours = cr.problems.PartialAUC(X, y, share, "hinge", l2=0.1).solve("exact")
    tight, loose = (
        planes.cutting_planes(X, y, share, 0.1, STOP, tight=kind, **bug) for kind in (True, False)
    )
    positive, negative = X[y > 0] @ ours.x, np.sort(X[y == 0] @ ours.x)[: 8 - round(share * 8)]
    beyond = np.maximum(negative[:, None] - positive, 0.0).sum() / (6 * share * 8)
    slack = tolerance("two solvers")
    return (
        abs(tight.value - ours.value) <= slack
        and ours.value - slack <= loose.value <= ours.value + beyond + slack
        and all(abs(one.value - one.bound) <= STOP + slack for one in (tight, loose))
    )


@pytest.mark.parametrize("share", [0.125, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_minima_are_as_derived(planes, seed, share):
    assert agrees(planes, seed, share)


def test_the_minima_of_both_differ(planes):
    X, y = drawn(1)
    tight, loose = (planes.cutting_planes(X, y, 0.125, 0.1, STOP, tight=kind).value for kind in (True, False))
    assert loose > tight + 0.1


def test_the_minimum_of_the_tight_one_is_ours_where_a_negative_counts_in_part(planes):
    X, y = drawn(5)
    ours = cr.problems.PartialAUC(X, y, 0.3, "hinge", l2=0.1).solve("exact").value
    assert abs(planes.cutting_planes(X, y, 0.3, 0.1, STOP).value - ours) <= tolerance("two solvers")


# Constraints that are not the most violated, or none at all.
BUGS = {
    "a negative too few": lambda cut: lambda f, g, share, tight: cut(f, g, share - 0.125, tight),
    "the lowest negatives": lambda cut: lambda f, g, share, tight: flipped(cut, f, g, share, tight),
    "no margin": lambda cut: lambda f, g, share, tight: (*cut(f - 1.0, g - 1.0, share, tight)[:2], 0.0),
    "all negatives count": lambda cut: lambda f, g, share, tight: scaled(cut(f, g, 1.0, tight), 1.0 / share),
}


def flipped(cut, positive, negative, share, tight):
    """The constraint for the negatives as if they were ranked the other way around."""
    of_positives, of_negatives, constant = cut(positive, -negative, share, tight)
    return of_positives, of_negatives, constant


def scaled(constraint, by):
    return tuple(by * part for part in constraint)


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_in_the_most_violated_constraint_are_found(planes, name):
    found = [agrees(planes, seed, 0.25, cut=BUGS[name](planes.most_violated)) for seed in range(3)]
    assert not any(found)


def test_the_least_cuts_of_data_without_a_direction(planes):
    """Rows that are all alike: w = 0 is the minimum, of value 1, and one constraint shows it."""
    found = planes.cutting_planes(np.ones((6, 2)), np.array([1, 1, 0, 0, 0, 0]), 0.5, 0.1, STOP)
    assert (found.cuts, found.weights.tolist()) == (1, [0.0, 0.0])
    assert abs(found.value - 1.0) <= SUMS
    short = planes.cutting_planes(*drawn(0), 0.5, 0.1, STOP, most=2)
    assert short.cuts == 2
    assert short.value > short.bound + STOP
