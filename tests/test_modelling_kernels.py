"""Kernels of sums over pairs against plain double loops, in awkward cases; each with a planted bug."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest

from convexrank import losses
from convexrank.modelling import functions, jax_reading, pair_sums, steps, total
from convexrank.modelling.certificates import below, reference
from convexrank.modelling.expressions import Axis, PairSums, Scores
from convexrank.modelling.hessian_products import pair_hessian
from convexrank.modelling.jax_reading import JaxRisk
from convexrank.modelling.kernels import exponentials, hinges, interpolated, pairs, plain
from convexrank.modelling.kernels.hinges import sorted_runs
from convexrank.modelling.kernels.pairs import BlockedPairs, pair_kernel
from convexrank.modelling.kernels.plain import PlainPairs
from convexrank.modelling.program import Program
from tests.test_pairwise import DRAWN, PLAIN, POLYNOMIAL, SCORES, brute_graded, draw_graded, same
from tests.tolerances import tolerance

STEEP = ("wide", "one far above", "one far below")
WAYS = {
    "chosen": pair_kernel,
    "in blocks": lambda node: partial(BlockedPairs, node),
    "plain": lambda node: partial(PlainPairs, node),
}


def program(name, y, w, way="chosen"):
    """The sum over all pairs of rows of different grades."""
    n = len(y)
    rows = Scores(Axis("rows", np.arange(n), np.asarray(w, dtype=float), np.zeros(n, dtype=int), 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "pair_kernel", WAYS[way])
        return Program(total(pair_sums(PLAIN[name][0], rows, rows, y)), n)


# --- graded rows ------------------------------------------------------------------------------------------------------


@DRAWN
@pytest.mark.parametrize("name", list(PLAIN))
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("way", WAYS)
def test_graded_rows_are_the_double_loop(scores, name, seed, way, monkeypatch):
    """Few grades by their bits and many by a sweep; blocks of one row, of a few, and of all."""
    if name == "exponential" and scores in STEEP:
        scores = "offset"
    f, y, w = draw_graded(scores, seed)
    expected = brute_graded(name, f, y, w)
    limit = "offset" if scores == "offset" and name == "exponential" else "summation"
    for block, grades in ((1, 8), (30, 1), (1 << 16, 1)):
        monkeypatch.setattr(pairs, "_BLOCK", block)
        monkeypatch.setattr(plain, "_BLOCK", block)
        monkeypatch.setattr(pairs, "_FEW_GRADES", grades)
        same(program(name, y, w, way).value_and_gradient(f), expected, limit)


@DRAWN
@pytest.mark.parametrize("weights", ["equal", "drawn"])
def test_logistic_pairs_without_an_exponential_each_are_the_double_loop(scores, weights, monkeypatch):
    """Also where products of quotients are cut: after one factor, and where scores lie far apart."""
    for seed in range(4):
        f, y, w = draw_graded(scores, seed)
        w = np.full(len(w), 0.5) if weights == "equal" else w
        if np.ptp(f) > exponentials.WIDEST:
            f = f * (exponentials.WIDEST / np.ptp(f))
        expected = brute_graded("logistic", f, y, w)
        for factors in (1, 3, 64):
            monkeypatch.setattr(exponentials, "_FACTORS", factors)
            same(program("logistic", y, w).value_and_gradient(f), expected)


@pytest.mark.parametrize("way", ["chosen", "plain"])
def test_exponentials_in_the_far_range(way):
    """Well ranked, hundreds apart: the pairs next to each other decide, and nothing overflows on the way."""
    f, y = np.arange(8) * 300.0 + 5e4, np.arange(8)
    same(
        program("exponential", y, np.ones(8), way).value_and_gradient(f),
        brute_graded("exponential", f, y, np.ones(8)),
    )
    with np.errstate(over="ignore", invalid="ignore"):
        assert program("exponential", y, np.ones(8), way).value_and_gradient(-f)[0] == math.inf


@pytest.mark.parametrize("name", POLYNOMIAL)
def test_a_sweep_never_goes_below_zero(name, monkeypatch):
    """Pairs a hair inside the margin: moments of large scores cancel to rounding."""
    monkeypatch.setattr(pairs, "_FEW_GRADES", 1)
    for far in np.random.default_rng(0).uniform(1e5, 1e6, size=20):
        f, y = np.array([far, far + 1 - 1e-9, 0.0, 0.0, 0.0]), np.array([0, 1, 0, 0, 0])
        assert program(name, y, np.ones(5)).value_and_gradient(f)[0] >= 0.0


@pytest.mark.parametrize("unit", [0.1, 0.3, 1 / 3])
@pytest.mark.parametrize("grades", [1, 8])
def test_pairs_at_the_margin_count_in_both_roles_or_in_neither(unit, grades, monkeypatch):
    """At a kink rounding decides; slopes that differ in the two roles of a pair are those of no tangent."""
    monkeypatch.setattr(pairs, "_FEW_GRADES", grades)
    rng = np.random.default_rng(0)
    for _ in range(100):
        f, y = unit * rng.integers(-30, 31, size=20), rng.permutation(20) % 3
        assert program("hinge", y, np.ones(20)).value_and_gradient(f)[1].sum() == 0.0


# --- any atom: queries, other derivatives, weights of any sign --------------------------------------------------------

FUNCTIONS = {
    "exponential": functions.exp,
    "logistic": functions.softplus,
    "logistic of base 2": losses.Logistic(2.0).phi,
    "hinge": functions.hinge,
    "squared hinge": functions.squared_hinge,
    "huber": functions.huber(1.0),
}


@pytest.mark.parametrize("scores", ["drawn", "ties", "not numbers"])
def test_each_query_is_sorted_with_its_own_rows(scores):
    """By comparing all rows where they are few; what is not a number does not lead outside the query."""
    sort, rng = sorted_runs()[0], np.random.default_rng(0)
    sizes = [1, 2, 7, 255, 256, 257, 900]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    x = rng.normal(size=starts[-1]) if scores == "drawn" else rng.integers(0, 3, size=starts[-1]) * 1.0
    if scores == "not numbers":
        x[rng.random(len(x)) < 0.3] = np.nan
    order = sort(x, starts)
    for start, end in itertools.pairwise(starts):
        assert np.array_equal(np.sort(order[start:end]), np.arange(start, end))
        if scores != "not numbers":
            assert np.array_equal(x[order[start:end]], np.sort(x[start:end]))


def atom(function, rng, graded, several):
    """Rows of queries with weights and ties; lower scores of a group of their own, or of the same rows."""
    q = np.sort(rng.integers(0, 4 if several else 1, size=24))
    q = np.unique(q, return_inverse=True)[1]
    rows = Scores(Axis("rows", np.arange(24), rng.choice([0.5, 1.0, 3.0], size=24), q, int(q[-1]) + 1))
    x = rng.integers(-16, 16, size=24) / 4.0  # exact, at the margin too
    if graded:
        grades = rng.normal(size=24) if rng.random() < 0.5 else rng.integers(0, 4, size=24) * 1.0
        return PairSums(function, rows, rows, grades), x, x if rng.random() < 0.5 else 0.5 * x
    others = np.sort(np.concatenate([np.arange(int(q[-1]) + 1), rng.integers(0, int(q[-1]) + 1, size=8)]))
    low = Scores(Axis("low", 24 + np.arange(len(others)), np.ones(len(others)), others, int(q[-1]) + 1))
    return PairSums(function, rows, low), x, rng.integers(-16, 16, size=len(others)) / 4.0


def by_listing(node, x, y, weights, order, to_lower):
    up, low = node.pairs
    values = node.function.bend(y[low] - x[up]) if order == 2 else node.function.slopes(y[low] - x[up])[order]
    if to_lower:
        return np.bincount(low, values * weights[up], len(y))
    return np.bincount(up, values * weights[low], len(x))


def lists_of_several_sizes(function, graded, seed=0):
    """Lists of a few rows, of which the first one weighs a billion times as much as the others."""
    rng = np.random.default_rng(seed)
    q = np.repeat(np.arange(300), rng.integers(2, 9, size=300))
    weights = np.where(q == 0, 1e9, rng.uniform(0.5, 2.0, size=len(q)))
    rows, x = Scores(Axis("rows", np.arange(len(q)), weights, q, 300)), rng.normal(size=len(q))
    if graded:
        return PairSums(function, rows, rows, rng.integers(0, 4, size=len(q)) * 1.0), x, x
    others = np.sort(np.concatenate([np.arange(300), rng.integers(0, 300, size=500)]))
    low = Scores(Axis("low", len(q) + np.arange(len(others)), np.ones(len(others)), others, 300))
    return PairSums(function, rows, low), x, rng.normal(size=len(others))


@pytest.mark.parametrize(
    "kind",
    ["normal", "far from 0", "very far from 0", "ties", "tiny", "signed zeros", "huge", "falling", "nan"],
)
def test_many_numbers_are_sorted_by_their_leading_bits(kind):
    rng, n = np.random.default_rng(0), 10_001
    normal = rng.normal(size=n)
    x = {
        "normal": normal,
        "far from 0": 1e9 + normal,
        "very far from 0": 1e14 + normal,
        "ties": np.round(normal, 2),
        "tiny": 5e-324 * rng.integers(-3, 4, n),
        "signed zeros": np.where(normal > 0.0, 0.0, -0.0),
        "huge": 1e300 * rng.standard_cauchy(n),
        "falling": -np.sort(normal),
        "nan": np.where(np.arange(n) == 7, -np.abs(np.nan), normal),
    }[kind]
    order = hinges.rising_order(x)
    assert np.array_equal(np.sort(order), np.arange(n))
    np.testing.assert_array_equal(x[order], np.sort(x))


def test_what_leading_bits_do_not_tell_is_mended(monkeypatch):
    """The planted bug: the order of the leading bits is taken as it is."""
    x = 1e9 + np.random.default_rng(0).normal(size=10_001)
    monkeypatch.setattr(hinges, "_mend", lambda: lambda *given: True)
    assert (np.diff(x[hinges.rising_order(x)]) < 0.0).any()


def test_equal_points_stay_in_their_order():
    points = np.random.default_rng(0).integers(0, 50, 3_000) / 8.0
    assert np.array_equal(plain._in_order(points), np.argsort(points, kind="stable"))
    apart = np.random.default_rng(0).normal(size=3_000)
    assert np.array_equal(plain._in_order(apart), np.argsort(apart))


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("name", ["hinge", "squared hinge"])
def test_sums_of_a_list_have_no_rounding_of_other_lists(name, graded):
    """The planted bug: differences of running sums over all lists, which are as exact as the sum over all."""
    function = FUNCTIONS[name]
    node, x, y = lists_of_several_sizes(function, graded)
    heavy = node.axis.weights if graded else np.where(node.axis.query == 0, 1e9, 1.0)
    for to_lower, weights in ((True, node.weights), (False, heavy)):
        light = (node.axis if to_lower else node.upper_axis).query > 0
        for order, found in enumerate(PlainPairs(node, x, y).sums(weights, (0, 1), to_lower=to_lower)):
            truth = by_listing(node, x, y, weights, order, to_lower)
            assert np.abs(found - truth)[light].max() <= 1e-3 * tolerance("summation")
    narrow, u = functions.smooth_hinge(0.3), np.where(node.axis.query == 0, 1e9, 1.0)
    if name == "hinge":
        found, truth = (how(node, narrow, x, y, u)[1] for how in (below._below_hinges, below._below_pairs))
        for one, other, axis in zip(found, truth, (node.upper_axis, node.axis), strict=True):
            assert np.abs(one - other)[axis.query > 0].max() <= 1e-3 * tolerance("summation")


def compare(function, graded, several, seed):
    """All kernels of an atom against its list of pairs."""
    rng = np.random.default_rng(seed)
    node, x, y = atom(function, rng, graded, several)
    for to_lower, signed in itertools.product((True, False), (False, True)):
        weights = rng.random(len(x) if to_lower else len(y)) * (
            rng.choice([-1.0, 0.0, 1.0], size=1)[0] if signed else 1.0
        )
        weights = weights * rng.choice([-1.0, 1.0], size=len(weights)) if signed else weights
        size = np.abs(weights)
        # the bend of a squared hinge jumps at the margin, where rounding decides
        bends = [2] if function.bend is not None and function is not functions.squared_hinge else []
        made = [pair_kernel(node)(x, y)]
        if not signed:
            made += [PlainPairs(node, x, y), BlockedPairs(node, x, y)]
        for kernel, orders in itertools.product(made, ([0, 1], [1], bends)):
            if not orders or (isinstance(kernel, PlainPairs) and 2 in orders):
                continue
            for order, found in zip(
                orders, kernel.sums(weights, tuple(orders), to_lower=to_lower), strict=True
            ):
                expected = by_listing(node, x, y, weights, order, to_lower)
                scale = max(float(np.abs(by_listing(node, x, y, size, order, to_lower)).max()), 1e-30)
                assert np.abs(found - expected).max() <= tolerance("summation") * scale


@pytest.mark.parametrize("several", [False, True], ids=["one query", "queries"])
@pytest.mark.parametrize("graded", [False, True], ids=["two groups", "grades"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_are_the_list_of_pairs(name, graded, several):
    for seed in range(12):
        compare(FUNCTIONS[name], graded, several, seed)


def compare_long_and_short(graded):
    """Sums for certificates over queries of a few rows, which are listed together, and of many between these."""
    rng, sizes = np.random.default_rng(0), [3, 1, 4, 130, 2, 2, 90, 1, 5]
    q = np.repeat(np.arange(9), sizes)
    rows, x = Scores(Axis("rows", np.arange(238), np.ones(238), q, 9)), rng.normal(size=238)
    if graded:
        node, y = PairSums(FUNCTIONS["logistic of base 2"], rows, rows, rng.integers(0, 3, 238) * 1.0), x
    else:
        low = np.repeat(np.arange(9), [2, 2, 1, 70, 3, 1, 1, 90, 2])
        y = rng.normal(size=len(low))
        lower = Scores(Axis("low", 238 + np.arange(len(low)), np.ones(len(low)), low, 9))
        node = PairSums(FUNCTIONS["huber"], rows, lower)
    for to_lower in (True, False):
        weights = rng.random(len(x) if to_lower else len(y))
        for order, found in enumerate(PlainPairs(node, x, y).sums(weights, (0, 1), to_lower=to_lower)):
            expected = by_listing(node, x, y, weights, order, to_lower)
            assert np.abs(found - expected).max() <= tolerance("summation") * np.abs(expected).max()


@pytest.mark.parametrize("graded", [False, True])
def test_short_queries_are_summed_together(graded, monkeypatch):
    together = []
    spoilt(PlainPairs, "_add_pairs", lambda old: lambda *a: (together.append(a[1:3]), old(*a)))(monkeypatch)
    compare_long_and_short(graded)
    assert together == 2 * ([(0, 3), (4, 6), (7, 9)] if graded else [(0, 3), (4, 6)])
    spoilt(
        PlainPairs, "_add_pairs", lambda old: lambda self, first, last, *a: old(self, first, last - 1, *a)
    )(monkeypatch)
    with pytest.raises(AssertionError):
        compare_long_and_short(graded)


@pytest.fixture
def by_nodes(monkeypatch):
    """Polynomials in the place of the logistic function at any number of pairs, in solves and in certificates."""
    at_any_number(monkeypatch)


def at_any_number(monkeypatch):
    for owner, name in ((interpolated, "_VERY_MANY"), (plain, "_MANY"), (plain, "_FEWER")):
        monkeypatch.setattr(owner, name, 0)


@pytest.mark.parametrize("several", [False, True], ids=["one query", "queries"])
@pytest.mark.parametrize("graded", [False, True], ids=["two groups", "grades"])
@pytest.mark.parametrize("name", ["logistic", "logistic of base 2"])
def test_kernels_by_nodes_are_the_list_of_pairs(name, graded, several, by_nodes):
    made = pair_kernel(atom(FUNCTIONS[name], np.random.default_rng(0), graded, several)[0])
    assert isinstance(made(np.zeros(24), np.zeros(24)), interpolated.InterpolatedPairs)
    for seed in range(4):
        compare(FUNCTIONS[name], graded, several, seed)


@DRAWN
@pytest.mark.parametrize("way", ["chosen", "plain"])
def test_graded_rows_by_nodes_are_the_double_loop(scores, way, by_nodes):
    for seed in range(4):
        f, y, w = draw_graded(scores, seed)
        same(program("logistic", y, w, way).value_and_gradient(f), brute_graded("logistic", f, y, w))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 10.0, 100.0, 1e4])
def test_nodes_of_very_many_pairs_are_the_double_sum(scale):
    """At the numbers of pairs at which they are chosen, near and far; all rows of a column at once."""
    rng = np.random.default_rng(0)
    x, y = scale * rng.normal(size=3000), scale * rng.normal(size=1500)
    up = Scores(Axis("up", np.arange(3000), rng.random(3000), np.zeros(3000, dtype=int), 1))
    low = Scores(Axis("low", 3000 + np.arange(1500), rng.random(1500), np.zeros(1500, dtype=int), 1))
    node, apart, bend = PairSums(functions.softplus, up, low), y[:, None] - x, functions.softplus.bend
    assert bend is not None
    values = [*functions.softplus.slopes(apart), bend(apart)]
    kernel, proved = pair_kernel(node)(x, y), PlainPairs(node, x, y)
    assert isinstance(kernel, interpolated.InterpolatedPairs)
    assert bool(proved._blocks) == (scale <= 10.0)  # farther apart there are as many nodes as rows
    for to_lower, weights in ((True, rng.normal(size=3000)), (False, rng.normal(size=1500))):
        for order, exact in enumerate(values):
            whole, size = ((exact @ w if to_lower else w @ exact) for w in (weights, np.abs(weights)))
            found = [kernel.sums(weights, (order,), to_lower=to_lower)[0]]
            if order < 2:
                found += [proved.sums(weights, (order,), to_lower=to_lower)[0]]
            for one in found:
                assert np.abs(one - whole).max() <= tolerance("summation") * size.max()
    columns = rng.normal(size=(3000, 2))
    for up, low in ((np.arange(0, 3000, 3), np.arange(0, 1500, 7)), (np.arange(3000), np.arange(3, 1500))):
        among = pairs.kernel_among(kernel, node, [x, y], up, low)
        assert isinstance(among, interpolated.InterpolatedPairs) == (len(up) == 3000)
        for found, exact in zip(among.of_columns(columns[up]), values[1:], strict=True):
            assert np.abs(found - exact[np.ix_(low, up)] @ columns[up]).max() <= tolerance("summation") * 3000


@pytest.mark.parametrize("scale", [3.0, 1e3])
@pytest.mark.parametrize("several", [False, True], ids=["one query", "queries"])
@pytest.mark.parametrize("ties", [False, True], ids=["no ties", "ties"])
def test_pairs_of_many_grades_are_nodes_but_for_those_of_neighbours(scale, several, ties, monkeypatch):
    rng = np.random.default_rng(0)
    grades = rng.normal(size=230) if not ties else np.append(np.round(8 * rng.normal(size=200)), np.zeros(30))
    q, x = (
        np.sort(rng.integers(0, 3, 230)) if several else np.zeros(230, dtype=int),
        scale * rng.normal(size=230),
    )
    rows = Scores(Axis("rows", np.arange(230), rng.random(230), q, int(q.max()) + 1))
    monkeypatch.setattr(interpolated, "_VERY_MANY", 150)
    for name, value in (("_MANY", 150), ("_FEWER", 0)):
        monkeypatch.setattr(plain, name, value)
    for function in (functions.softplus, losses.Logistic(2.0).phi):
        node = PairSums(function, rows, rows, grades)
        parts, proved = interpolated.interpolated_parts(node), PlainPairs(node, x, x)
        assert len(parts.blocks) >= 3
        assert len(proved._parts[0]) >= 3
        listed = sum(len(up) * len(low) for up, low in parts.blocks)
        assert 0 < parts.rest[1].pair_count == node.pair_count - listed < node.pair_count / 2
        assert proved._rest is not None
        for to_lower, orders, kernel in itertools.product(
            (True, False), ((0, 1), (2,)), (pair_kernel(node)(x, x), proved)
        ):
            if orders == (2,) and kernel is proved:
                continue
            weights = rng.random(230)
            for order, found in zip(orders, kernel.sums(weights, orders, to_lower=to_lower), strict=True):
                expected = by_listing(node, x, x, weights, order, to_lower)
                assert np.abs(found - expected).max() <= tolerance("summation") * np.abs(expected).max()


def test_few_of_very_many_pairs_of_many_grades_are_taken_one_by_one():
    rng = np.random.default_rng(0)
    x = rng.normal(size=30_000)
    rows = Scores(Axis("rows", np.arange(len(x)), np.ones(len(x)), np.zeros(len(x), dtype=int), 1))
    node = PairSums(functions.softplus, rows, rows, rng.normal(size=len(x)))
    parts, proved = interpolated.interpolated_parts(node), PlainPairs(node, x, x)
    for _, rest in (parts.rest, proved._rest):
        assert (rest if isinstance(rest, PairSums) else rest.node).pair_count <= 0.15 * node.pair_count


@pytest.mark.parametrize("width", [1e-3, 0.05, 0.4, 3.0])
def test_windows_of_any_length_are_the_double_sum(width):
    """With points that are in many windows, in few, and in none; and some of the pairs between."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=300), np.append(rng.normal(size=198), [-np.inf, -40.0])
    up = Scores(Axis("up", np.arange(300), rng.random(300), np.zeros(300, dtype=int), 1))
    low = Scores(Axis("low", 300 + np.arange(200), rng.random(200), np.zeros(200, dtype=int), 1))
    kernel, short = pair_kernel(PairSums(functions.smooth_hinge(width), up, low))(x, y), 1.0 + y[:, None] - x
    assert isinstance(kernel, pairs.WindowedPairs)
    between, beyond = (short > 0.0) & (short <= width), short > width
    with np.errstate(invalid="ignore"):
        value = np.where(beyond, short - 0.5 * width, np.where(between, short**2 / (2.0 * width), 0.0))
        slope, hinge = np.where(between, short / width, 1.0 * beyond), np.maximum(short, 0.0)
        moved = np.where(between, short / width**2, 0.0)
    expected = {"value": value, "slope": slope, "bend": between / width, "hinge": hinge}
    moving = {
        "moved_value": np.where(between, 0.5 * moved * np.maximum(short, 0.0), 0.5 * beyond),
        "moved_slope": moved,
    }
    for to_lower, weights in ((True, rng.random(300)), (False, rng.random(200))):
        parts = kernel.parts(weights, to_lower=to_lower)
        for name, exact in expected.items():
            whole = exact @ weights if to_lower else weights @ exact
            found = getattr(parts, name)()
            assert np.abs(found - whole).max() <= tolerance("summation") * max(1.0, whole.max()), name
            assert found.min() >= 0.0
        for name, exact in moving.items():  # both fall with the width
            whole = exact @ weights if to_lower else weights @ exact
            assert np.abs(getattr(parts, name)() + whole).max() <= tolerance("summation") * max(
                1.0, whole.max()
            ), name
    rows, others, every = kernel.listed(10**6)
    assert every == 1
    assert sorted(zip(others, rows, strict=True)) == list(zip(*np.nonzero(between), strict=True))
    rows, others, every = kernel.listed(40)
    assert len(rows) <= 40
    assert len(set(zip(others, rows, strict=True))) == len(rows) == -(-np.count_nonzero(between) // every)
    assert between[others, rows].all()


@pytest.mark.parametrize(
    "function",
    [
        functions.squared_hinge,
        functions.smooth_hinge(0.5),
        functions.exp,
        functions.softplus,
        functions.scaled(functions.softplus, 0.3),
        functions.huber(0.5),
    ],
    ids=lambda function: function.name,
)
@pytest.mark.parametrize("apart", [1.0, 400.0])
def test_columns_are_the_double_sum(function, apart):
    """Of all rows, and of some: far apart no quotients of exponentials are taken."""
    rng = np.random.default_rng(2)
    x, y, columns = rng.normal(size=60), rng.normal(size=40), rng.normal(size=(60, 3))
    if function is not functions.exp:
        x[0] += apart
    up = Scores(Axis("up", np.arange(60), rng.random(60), np.zeros(60, dtype=int), 1))
    low = Scores(Axis("low", 60 + np.arange(40), rng.random(40), np.zeros(40, dtype=int), 1))
    node, apart = PairSums(function, up, low), y[:, None] - x
    kernel, exact = pair_kernel(node)(x, y), (function.slopes(apart)[1], function.bend(apart))
    for rows, others in ((np.arange(60), np.arange(40)), (np.arange(0, 60, 7), np.arange(3, 40, 5))):
        among = pairs.kernel_among(kernel, node, [x, y], rows, others)
        for one, found in zip(exact, among.of_columns(columns[rows]), strict=True):
            size = np.abs(one).max(initial=1.0)
            assert (
                np.abs(found - one[np.ix_(others, rows)] @ columns[rows]).max()
                <= tolerance("summation") * 60 * size
            )


@pytest.mark.parametrize("spread", [1.0, 400.0])
def test_columns_between_grades_are_those_of_the_pairs_that_count(spread):
    rng = np.random.default_rng(4)
    x, columns, grades = spread * rng.normal(size=50), rng.normal(size=(50, 3)), rng.integers(0, 4, size=50)
    query = np.sort(rng.integers(0, 3, size=50))
    rows = Scores(Axis("rows", np.arange(50), np.ones(50), query, 3))
    kernel = pair_kernel(PairSums(functions.softplus, rows, rows, grades.astype(float)))(x, x)
    assert isinstance(kernel, exponentials.LogisticPairs) == (spread == 1.0)
    counts, apart = (grades > grades[:, None]) & (query == query[:, None]), x[:, None] - x
    exact = functions.softplus.slopes(apart)[1], functions.softplus.bend(apart)
    for one, found in zip(exact, kernel.of_columns(columns), strict=True):
        assert np.abs(found - (counts * one) @ columns).max() <= tolerance("summation") * 50


def test_columns_of_some_rows_have_a_window_that_some_are_within():
    """There the slope jumps in the middle: a direction needs no more."""
    rng = np.random.default_rng(3)
    x, y, columns = rng.normal(size=6000), rng.normal(size=40), rng.normal(size=(600, 3))
    up = Scores(Axis("up", np.arange(6000), np.ones(6000), np.zeros(6000, dtype=int), 1))
    low = Scores(Axis("low", 6000 + np.arange(40), np.ones(40), np.zeros(40, dtype=int), 1))
    some, others = np.arange(0, 6000, 10), np.arange(40)
    node = PairSums(functions.smooth_hinge(1e-3), up, low)
    whole = pair_kernel(node)(x, y)
    assert pairs.kernel_among(whole, node, [x, y], np.arange(6000), others).width == 1e-3
    kernel = pairs.kernel_among(whole, node, [x, y], some, others)
    assert isinstance(kernel, pairs.WindowedPairs)
    assert kernel.width > 1e-3
    short = 1.0 + y[:, None] - x[some]
    slopes, bends = kernel.of_columns(columns)
    assert np.abs(slopes - (short > 0.5 * kernel.width) @ columns).max() <= tolerance("summation") * 600
    within = ((short > 0.0) & (short <= kernel.width)) / kernel.width
    assert np.abs(bends - within @ columns).max() <= tolerance("summation") * 600 / kernel.width


@pytest.mark.parametrize("way", ["chosen", "plain"])
@pytest.mark.parametrize("gap", [20.0, 30.0, 35.0])
def test_sums_by_nodes_of_well_ranked_rows_have_all_digits(gap, way, by_nodes):
    """All terms are almost 0, and none of them below: prices are powers of these sums."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=60)
    f = gap * y + rng.random(60)
    node = program("logistic", y, np.ones(60), way).nodes[-2]
    assert isinstance(node, PairSums)
    weights, kernel = rng.random(60), WAYS[way](node)(f, f)
    for order, found in enumerate(kernel.sums(weights, (0, 1), to_lower=True)):
        expected = by_listing(node, f, f, weights, order, True)
        assert np.abs(found - expected).max() <= tolerance("summation") * expected.max()


def test_scores_that_are_not_finite_have_no_finite_sums(by_nodes):
    f, y = np.array([0.0, np.inf, 1.0, -1.0]), np.array([0, 1, 0, 1])
    with np.errstate(invalid="ignore"):
        assert not np.isfinite(program("logistic", y, np.ones(4)).value_and_gradient(-f)[0])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_second_derivatives_of_exponentials_are_the_double_loop(seed, scale):
    f, y, w = draw_graded("plain", seed)
    f = f if scale == 1.0 else scale * y + f  # at the larger scale well ranked, so that nothing overflows
    rows = np.random.default_rng(seed).normal(size=(len(f), 3)) + 10.0
    expected = np.zeros((3, 3))
    for i, j in itertools.product(range(len(f)), repeat=2):
        if y[i] > y[j]:
            expected += w[i] * w[j] * math.exp(f[j] - f[i]) * np.outer(rows[i] - rows[j], rows[i] - rows[j])
    _, _, found = pair_hessian(program("exponential", y, w), f, rows)
    # the mean of the rows is taken out by cancellation
    assert np.abs(found - expected).max() <= tolerance("offset") * np.abs(expected).max()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("grades", [1, 8])
def test_second_derivatives_of_squared_hinges_are_the_double_loop(seed, grades, monkeypatch):
    monkeypatch.setattr(pairs, "_FEW_GRADES", grades)
    f, y, w = draw_graded("plain", seed)
    rows, expected = np.random.default_rng(seed).normal(size=(len(f), 3)), np.zeros((3, 3))
    for i, j in itertools.product(range(len(f)), repeat=2):
        if y[i] > y[j] and f[i] - f[j] < 1.0:
            expected += 2.0 * w[i] * w[j] * np.outer(rows[i] - rows[j], rows[i] - rows[j])
    _, _, found = pair_hessian(program("squared hinge", y, w), f, rows)
    assert np.abs(found - expected).max() <= tolerance("summation") * np.abs(expected).max()


@DRAWN
@pytest.mark.parametrize("name", ["exponential", "logistic", *POLYNOMIAL])
def test_certificates_of_sorted_pairs_are_those_of_all(scores, name, monkeypatch):
    scores = "offset" if name == "exponential" and scores in STEEP else scores
    for seed in range(4):
        compare_certificates(name, *draw_graded(scores, seed), monkeypatch)


def compare_certificates(name, f, y, w, monkeypatch):
    """Value, slopes, and what the conjugate proves at scores of 0."""
    made, found = program(name, y, w), []
    for least in (0, len(f) ** 2):
        monkeypatch.setattr(reference, "SORTED", least)
        found.append(reference.Reference(made).below(f))
    limit = "offset" if name == "exponential" else "summation"
    same(found[0][:2], found[1][:2], limit)
    size = max(1.0, abs(found[1].value), float(np.abs(found[1].slopes) @ np.abs(f)))
    assert abs(found[0].offset - found[1].offset) <= tolerance(limit) * size


# --- JAX --------------------------------------------------------------------------------------------------------------


LISTS_AND_BLOCKS = [(1 << 18, 1), (1, 1), (1, 40), (1, 1 << 18)]


@pytest.mark.parametrize(
    ("name", "listed", "block"),
    [
        ("exponential", 1, 1),  # neither listed nor in blocks
        *((name, *sizes) for name in PLAIN if name != "exponential" for sizes in LISTS_AND_BLOCKS),
    ],
)
def test_pairs_in_jax_are_the_double_loop(name, listed, block, monkeypatch):
    """Listed, and in blocks of one row, of some, and of all; exponentials between grades by running sums."""
    import jax

    monkeypatch.setattr(jax_reading, "_LISTED", listed)
    monkeypatch.setattr(jax_reading, "_BLOCK", block)
    # a new function: blocks of another length are not those that were traced before
    compiled = jax.jit(jax.value_and_grad(lambda tree, theta: JaxRisk()(tree, theta), argnums=1))
    for seed, offset in itertools.product(range(3), (0.0, -800.0)):
        f, y, w = draw_graded("plain", seed)
        tree = JaxRisk.prepare(program(name, y, w).root)
        with jax.enable_x64(True):
            value, slope = compiled(tree, f + offset)
        same((float(value), np.asarray(slope)), brute_graded(name, f, y, w), "offset")


# --- planted bugs -----------------------------------------------------------------------------------------------------


def spoilt(owner, name, made):
    return lambda monkeypatch: monkeypatch.setattr(owner, name, made(getattr(owner, name)))


def of_many_grades(owner, name, made):
    return lambda monkeypatch: (
        monkeypatch.setattr(pairs, "_FEW_GRADES", 1),
        spoilt(owner, name, made)(monkeypatch),
    )


def of_nodes(owner, name, made):
    return lambda monkeypatch: (at_any_number(monkeypatch), spoilt(owner, name, made)(monkeypatch))


BUGS = {
    "a partner of an equal grade": (
        spoilt(exponentials.Layout, "sort", lambda old: lambda self, x: old(self, x) + 1e-3 * (self.order is not None)),
        functions.exp,
    ),
    "running sums of the other side": (
        spoilt(
            exponentials.RunningSums,
            "sums",
            lambda old: lambda self, *a, to_lower: old(self, *a, to_lower=not to_lower),
        ),
        functions.exp,
    ),
    "the sweep by the wrong grades": (
        of_many_grades(
            hinges.SweptPairs,
            "sums",
            lambda old: lambda self, *a, to_lower: old(self, *a, to_lower=not to_lower),
        ),
        functions.hinge,
    ),
    "few grades by the wrong order": (
        spoilt(pairs.SortedPairs, "_powers", lambda old: lambda self, w, to_lower: old(self, w, not to_lower)),
        functions.hinge,
    ),
    "a factor forgotten": (
        spoilt(
            exponentials.LogisticPairs,
            "__init__",
            lambda old: lambda self, layout, factor, *x: old(self, layout, 1.0, *x),
        ),
        losses.Logistic(2.0).phi,
    ),
    "second derivatives of quotients": (
        spoilt(
            exponentials.LogisticPairs,
            "sums",
            lambda old: lambda self, w, orders, **o: old(self, w, (1,) if 2 in orders else orders, **o),
        ),
        functions.softplus,
    ),
    "a cell too far": (
        of_nodes(interpolated, "_between", lambda old: lambda j, offset: old(j, offset + 1)), functions.softplus,
    ),
    "near is far": (of_nodes(interpolated, "_FAR", lambda old: 2), functions.softplus),
    "nodes of certificates in the wrong order": (
        of_nodes(
            plain.NodePairs,
            "_tables",
            lambda old: lambda self: ((rows, (a, b[:, ::-1])) for rows, (a, b) in old(self)),
        ),
        functions.softplus,
    ),
    "plain sums without a bit": (
        spoilt(plain, "_merged", lambda old: lambda *a: list(old(*a))[1:]), functions.hinge,
    ),
    "plain running sums of the other side": (
        spoilt(PlainPairs, "_running", lambda old: lambda self, w, to_lower: old(self, w, not to_lower)), functions.exp,
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug, monkeypatch):
    plant, function = BUGS[bug]
    plant(monkeypatch)
    with pytest.raises((AssertionError, ValueError, IndexError)):
        compare_some(function)


def compare_some(function):
    for seed in range(12):
        compare(function, True, False, seed)


@pytest.mark.parametrize("name", POLYNOMIAL)
def test_a_planted_bug_in_what_is_proved_is_found(name, monkeypatch):
    spoilt(PlainPairs, "conjugates", lambda old: lambda self, w: 1.01 * old(self, w))(monkeypatch)
    with pytest.raises(AssertionError):
        compare_certificates(name, *draw_graded("plain", 0), monkeypatch)


@pytest.mark.parametrize("way", ["chosen", "plain"])
@pytest.mark.parametrize("name", ["exponential", "hinge", "huber"])
def test_memory_of_graded_rows_is_bounded(name, way):
    import tracemalloc

    rng, n = np.random.default_rng(0), 3000
    made = program(name, rng.normal(size=n), np.ones(n), way)
    made.value_and_gradient(rng.normal(size=n))
    tracemalloc.start()
    made.value_and_gradient(rng.normal(size=n))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * n * n / 10  # a tenth of one array of all pairs


def test_scores_are_not_edited():
    f, y, w = draw_graded("plain", 0)
    before = [part.copy() for part in (f, y, w)]
    for name in PLAIN:
        program(name, y, w).value_and_gradient(f)
    for part, copy in zip((f, y, w), before, strict=True):
        assert np.array_equal(part, copy)
    assert set(SCORES) >= set(STEEP)


@pytest.mark.parametrize("n", [1, 2, 3, 16, 17, 40])
@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_running_log_sums_begin_anew(n, backend, monkeypatch):
    """In blocks and by an associative scan, beside sums of numpy from each first entry on; and their gradient."""
    import jax

    rng = np.random.default_rng(n)
    exponents, firsts, costs = 20.0 * rng.normal(size=n), rng.random(n) < 0.2, rng.normal(size=n)
    exponents[1:2] = 0.1 * np.finfo(np.float64).min  # a weight of 0
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    begun = [max([0, *np.flatnonzero(firsts[: k + 1])]) for k in range(n)]
    expected = [np.logaddexp.reduce(exponents[start : k + 1]) for k, start in enumerate(begun)]

    @jax.jit  # alone, each operation is a program of its own
    def sums_and_slope(x):
        found, pulled = jax.vjp(lambda x: jax_reading._running_log_sums(x, firsts), x)
        return found, pulled(jax.numpy.asarray(costs))[0]

    with jax.enable_x64(True):
        found, slope = sums_and_slope(exponents)
    np.testing.assert_allclose(found, expected, rtol=tolerance("summation"))
    shares = [
        [math.exp(exponents[i] - expected[k]) if begun[k] <= i <= k else 0.0 for i in range(n)]
        for k in range(n)
    ]
    np.testing.assert_allclose(slope, costs @ np.array(shares), atol=tolerance("summation"))
