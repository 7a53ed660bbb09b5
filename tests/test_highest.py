"""Means of the highest entries and spectral sums: against all permutations, and rows of a weight as repeated rows."""

from __future__ import annotations

import pickle
from itertools import permutations

import numpy as np
import pytest

from convexrank.data import Spectrum, as_groups, check_spectrum
from convexrank.modelling import conjugate, rules
from convexrank.modelling.certificates import reference
from convexrank.modelling.certificates.reference import Reference
from convexrank.modelling.expressions import Dot, Highest, Maximum
from convexrank.modelling.groups import Groups
from convexrank.modelling.kernels import highest
from convexrank.modelling.language import Numpy
from convexrank.modelling.program import Program
from convexrank.modelling.smoothing.programs import Smoothing, smooth_atom
from tests.expression_loops import plain_risk
from tests.tolerances import tolerance

SUMS = tolerance("summation")
SCORES = np.array([0.3, -1.2, 0.8, 0.8, 2.0, -0.5])


def negatives(weights=None, queries=None):
    """The negatives of rows, all but the first of each query."""
    n = len(SCORES) + 1 if weights is None else len(weights) + 1
    y = np.r_[1.0, np.zeros(n - 1)]
    return Groups(y, None, None if weights is None else np.r_[1.0, weights]).negative


def risk_of(root, scores):
    """The value of an expression of negatives alone."""
    return Program(root, len(scores) + 1).value_and_gradient(np.r_[0.0, scores])


@pytest.mark.parametrize(
    "spectrum",
    [[0, 0, 0.1, 0.2, 0.2, 0.5], "uniform", ("top", 1), ("top", 3), ("top", 0.4), [0.25, 0.25, 0.5]],
)
def test_a_spectral_sum_is_the_largest_of_all_orders(spectrum):
    f = negatives()
    if isinstance(spectrum, str):
        shares = np.full(6, 1 / 6)
    elif spectrum[0] == "top":  # 40 % of six are 2.4 of them
        count = spectrum[1] if spectrum[1] >= 1 else 6 * spectrum[1]
        shares = np.clip(count - np.arange(6), 0.0, 1.0) / count
    else:
        shares = np.repeat(spectrum, 6 // len(spectrum)) * len(spectrum) / 6
    truth = max(float(np.dot(shares, order)) for order in permutations(SCORES))
    root = rules.spectral_sum(f, spectrum)
    assert risk_of(root, SCORES)[0] == pytest.approx(truth, abs=SUMS)
    assert plain_risk(root, [0.0, *SCORES]) == pytest.approx(truth, abs=SUMS)


@pytest.mark.parametrize("spectrum", [("top", 1), ("top", 3), ("top", 0.35), [0.0, 0.1, 0.3, 0.6]])
def test_rows_of_a_weight_are_repeated_rows(spectrum):
    """Value, slope, what certificates and smooth functions say, and multipliers."""
    weights = np.array([1, 3, 2, 1, 2, 4])
    whole, again = SCORES, np.repeat(SCORES, weights)
    one, other = (rules.spectral_sum(negatives(w), spectrum) for w in (weights * 1.0, np.ones(13)))
    values, slopes = zip(*(risk_of(root, x) for root, x in ((one, whole), (other, again))), strict=True)
    assert values[0] == pytest.approx(values[1], abs=SUMS)
    starts = np.r_[0, np.cumsum(weights)[:-1]]
    assert np.add.reduceat(slopes[1][1:], starts) == pytest.approx(slopes[0][1:], abs=SUMS)
    for root, x in ((one, whole), (other, again)):
        below = Reference(Program(root, len(x) + 1)).below(np.r_[0.0, x])
        assert (below.value, below.offset) == pytest.approx((values[0], 0.0), abs=SUMS)
    if spectrum == ("top", 1):  # the maximum, which is smoothed without weights
        return
    smooth = [
        Smoothing(Program(root, len(x) + 1)).risk(np.r_[0.0, x], 0.7)
        for root, x in ((one, whole), (other, again))
    ]
    assert smooth[0].value == pytest.approx(smooth[1].value, abs=SUMS)
    assert np.add.reduceat(smooth[1].gradient[1:], starts) == pytest.approx(smooth[0].gradient[1:], abs=SUMS)
    assert smooth[0].value < values[0] == pytest.approx(smooth[0].risk, abs=SUMS)


def test_multipliers_are_in_the_permutahedron():
    """Those of every order fit; more than the share of the highest two in two rows does not, and is moved back."""
    made = Program(rules.spectral_sum(negatives(), ("top", 3)), 7)
    (place,) = conjugate.sizes(made)
    for order in permutations([0.0, 0.0, 0.0, 1 / 3, 1 / 3, 1 / 3]):
        numbers = Numpy()
        _, slopes = conjugate.conjugate(made, numbers, {place: np.array(order)})
        assert numbers.violation <= SUMS
        assert slopes @ np.r_[0.0, SCORES] <= risk_of(made.root, SCORES)[0] + SUMS
    wrong = np.array([0.5, 0.5, 0.0, 0.0, 0.0, 0.0])
    numbers = Numpy()
    conjugate.conjugate(made, numbers, {place: wrong})
    assert numbers.violation == pytest.approx(1 / 6)
    near, numbers = conjugate.feasible(made, Numpy(), {place: wrong}), Numpy()
    conjugate.conjugate(made, numbers, near)
    assert numbers.violation <= SUMS


def test_what_is_a_maximum_or_a_mean_is_one():
    f, heavy, light = negatives(), negatives([2.0, 3.0]), negatives([0.5, 3.0])
    assert type(rules.mean_of_highest(f, 1)) is Maximum
    assert type(rules.mean_of_highest(f, share=1 / 6)) is Maximum
    assert type(rules.mean_of_highest(heavy, 2)) is Maximum
    assert type(rules.mean_of_highest(light, 1)) is Highest  # half of it is another row
    assert type(rules.mean_of_highest(f, 6)) is Highest
    assert type(rules.mean_of_highest(f, share=1.0)) is Dot
    with pytest.raises(TypeError, match="count or a share"):
        rules.mean_of_highest(f, 2, share=0.5)


def test_the_highest_of_each_query():
    y, qid = np.array([1, 0, 0, 0, 1, 0, 0]), np.array([0, 0, 0, 0, 1, 1, 1])
    scores = np.array([0.0, 3.0, 1.0, 2.0, 0.0, 5.0, 4.0])
    f = Groups(y, as_groups(qid, 7)).negative
    for options, truth in (
        ({"count": 2}, 2.5 + 4.5),
        ({"share": 0.5}, (3 + 0.5 * 2) / 1.5 + 5.0),
        ({"count": 9}, 6.5),
    ):
        root = rules.mean_of_highest(f, **options)
        assert Program(root, 7).value_and_gradient(scores)[0] == pytest.approx(truth, abs=SUMS)


def test_a_spectrum_is_a_step_function():
    found = check_spectrum([0.0, 0.25, 0.25, 0.5])
    assert found == Spectrum((0.25, 0.75), (2.0, 1.0))
    assert check_spectrum(found) is found
    assert pickle.loads(pickle.dumps(found)) == found
    assert check_spectrum(("top", 0.25)) == check_spectrum([0, 0, 0, 1])
    assert check_spectrum("uniform") == check_spectrum([0.5, 0.5]) == check_spectrum([1.0])


def many_entries(kind, n, seed=0):
    rng = np.random.default_rng(seed)
    x = {
        "drawn": rng.normal(size=n),
        "ties": np.round(rng.normal(size=n), 1),
        "rising": np.linspace(-1.0, 1.0, n),
    }
    return np.tile([0.0, 5.0, 1.0], n)[:n] if kind == "periodic" else x[kind]


def weights_of_many(n, weighted):
    """None, or weights of which a few are as heavy as all others together: those of merged rows."""
    if not weighted:
        return None
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 4, size=n).astype(float)
    weights[rng.integers(n, size=5)] = 0.4 * n
    return weights


def distance_from_projection(node, x, shares):
    """How far shares are from those that the conditions of a projection ask for."""
    each = shares / node.weights
    lowered, cap = x - node.width * each, 1.0 / float(node.masses[0])
    free = (each > 0.0) & (each < cap * (1.0 - SUMS))
    level = float(np.median(lowered[free])) if free.any() else float(lowered[each > 0.0].min())
    wanted = np.clip((x - level) / node.width, 0.0, cap)
    return max(abs(shares.sum() - 1.0), float(np.abs(each - wanted).max()) * node.width)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["drawn", "ties", "rising", "periodic"])
@pytest.mark.parametrize("n", [3_000, 40_000])
def test_shares_of_many_entries_are_a_projection(n, kind, weighted):
    x, weights = many_entries(kind, n), weights_of_many(n, weighted)
    for count in (0.01, 0.3, 0.9):
        for width in (1e-3 * n, 1.0 * n, 1e3 * n):
            node = smooth_atom(rules.mean_of_highest(negatives_of(n, weights), share=count), width)
            shares = highest.nearest_shares(node, x)
            assert distance_from_projection(node, x, shares) <= SUMS
            truth = risk_of(rules.mean_of_highest(negatives_of(n, weights), share=count), x)[0]
            assert highest.means_of_highest(node, x, shares)[0] == pytest.approx(truth, abs=SUMS)


def negatives_of(n, weights):
    """The negatives of rows, all but the first."""
    y = np.r_[1.0, np.zeros(n)]
    return Groups(y, None, None if weights is None else np.r_[1.0, weights]).negative


def test_entries_lowered_by_another_number_are_told(monkeypatch):
    """The planted bug: Newton's method that ends a step early."""
    x, node = (
        many_entries("drawn", 40_000),
        smooth_atom(rules.mean_of_highest(negatives_of(40_000, None), 400), 1e3),
    )
    assert distance_from_projection(node, x, highest.nearest_shares(node, x)) <= SUMS
    old = highest.lowered_by
    monkeypatch.setattr(highest, "lowered_by", lambda *arguments: old(*arguments) + 1e-3)
    assert distance_from_projection(node, x, highest.nearest_shares(node, x)) > SUMS


@pytest.mark.parametrize("kind", ["drawn", "ties", "rising", "periodic"])
def test_the_entry_at_a_rank_is_that_of_a_sort(kind):
    x = many_entries(kind, 50_000)
    falling = np.sort(x)[::-1]
    for rank in (1, 2, 700, 2_500, 30_000, 50_000):
        assert highest.highest_at(x, rank) == falling[rank - 1]
        assert reference.entry_at(x, rank)[0] == falling[rank - 1]
