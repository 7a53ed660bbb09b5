"""What certificates sum over pairs: against plain double loops, with code and derivatives that no solver runs."""

from __future__ import annotations

import sys
import time
import tracemalloc

import numpy as np
import pytest

from convexrank import atoms, losses, prices, problems
from convexrank.backend import jax_oracles
from convexrank.backend.dual_numbers import differentiate
from convexrank.modelling.log_sum_exps import terms
from convexrank.problems import _pair_reference as reference
from tests.test_pairwise import (
    DRAWN,
    PLAIN,
    POLYNOMIAL,
    PRICES,
    SCORES,
    brute_graded,
    brute_push,
    draw,
    draw_graded,
    same,
)
from tests.tolerances import tolerance

STEEP = ("wide", "one far above", "one far below")


@DRAWN
@pytest.mark.parametrize("name", list(PLAIN))
@pytest.mark.parametrize("way", ["reference_push", "push_in_blocks"])
def test_push_is_the_double_loop(scores, name, way, monkeypatch):
    if name == "exponential" and scores in STEEP:
        scores = "offset"  # e^1000 is infinite
    run = getattr(reference, way)
    for seed, price in enumerate(["identity", "power", "log", "power"]):
        a, b, u, v = draw(scores, seed)
        expected = brute_push(name, price, a, b, u, v)
        same(run(PLAIN[name][0], PRICES[price][0].g, a, b, u, v), expected)
        monkeypatch.setattr(reference, "_BLOCK", 2 * len(a))
        same(run(PLAIN[name][0], PRICES[price][0].g, a, b, u, v), expected)
        monkeypatch.undo()


@DRAWN
@pytest.mark.parametrize("name", list(PLAIN))
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("way", ["reference_graded", "graded_in_blocks"])
def test_graded_is_the_double_loop(scores, name, seed, way, monkeypatch):
    if name == "exponential" and scores in STEEP:
        scores = "offset"
    f, y, w = draw_graded(scores, seed)
    run, expected = getattr(reference, way), brute_graded(name, f, y, w)
    same(run(PLAIN[name][0], f, y, w, w), expected)
    monkeypatch.setattr(reference, "_BLOCK", 30)
    same(run(PLAIN[name][0], f, y, w, w), expected)


def several_queries(scores, seed):
    """Queries of different lengths, offsets and numbers of grades, some without a pair; weighted."""
    rng = np.random.default_rng(seed)
    sizes = [5, 1, 9, 2, 6]
    queries = np.repeat(np.arange(len(sizes)), sizes)
    f = np.concatenate([SCORES[scores](rng, size) for size in sizes]) + 1024.0 * queries
    y = np.where(queries == 4, 2, rng.integers(0, [2, 1, 9, 2, 1][seed % 5] + 1, size=len(f)))
    return f, y, rng.choice([0.25, 1.0, 3.0], size=len(sizes))[queries], queries


@DRAWN
@pytest.mark.parametrize("name", POLYNOMIAL)
@pytest.mark.parametrize("seed", range(5))
def test_queries_at_once_are_queries_one_by_one(scores, name, seed):
    f, y, upper, queries = several_queries(scores, seed)
    value, gradient = 0.0, np.zeros(len(f))
    for query in np.unique(queries):
        rows = queries == query
        one, slope = brute_graded(name, f[rows], y[rows], np.ones(rows.sum()))
        value += upper[rows][0] * one
        gradient[rows] = upper[rows] * slope
    same(reference.reference_graded(PLAIN[name][0], f, y, upper, np.ones(len(f)), queries), (value, gradient))


def test_a_subgradient_where_pairs_tie_with_the_margin():
    """A pair at the kink is charged to both of its rows or to neither: the minorant holds everywhere near."""
    rng = np.random.default_rng(0)
    f, y = rng.integers(-8, 8, size=40) / 4.0, rng.integers(0, 6, size=40)
    ones = np.ones(40)
    value, slope = reference.reference_graded(losses.Hinge(), f, y, ones, ones)
    assert slope.sum() == 0.0
    for _ in range(50):
        other = f + rng.integers(-4, 5, size=40) / 8.0
        assert reference.reference_graded(losses.Hinge(), other, y, ones, ones)[0] >= value + slope @ (
            other - f
        )


def test_a_planted_error_is_caught():
    f, y, w = draw_graded("on the kink", 0)
    value, gradient = reference.reference_graded(losses.Hinge(), f, y, w, w)
    expected = brute_graded("hinge", f, y, w)
    same((value, gradient), expected)
    for planted in ((1.01 * value, gradient), (value, np.roll(gradient, 1)), (value, 1.01 * gradient)):
        with pytest.raises(AssertionError):
            same(planted, expected)


# --- cost -----------------------------------------------------------------------------------------------------------


def long_query(name):
    """One query of many rows; a double loop over its pairs takes minutes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    if name == "RankSVM":
        return problems.RankSVM(X, rng.integers(0, 5, size=len(X)), l2=1.0)
    if name == "ConvexRisk":
        return problems.ConvexRisk(X, rng.normal(size=len(X)), "hinge", l2=1.0)
    return problems.Push(X, rng.random(len(X)) < 0.5, 2, "squared_hinge", l2=1.0)


@pytest.mark.parametrize("name", ["RankSVM", "ConvexRisk", "Push"])
def test_a_long_query_takes_neither_time_nor_memory_by_pairs(name):
    problem = long_query(name)
    scores = np.random.default_rng(1).normal(size=problem.rows)
    start = time.perf_counter()
    tracemalloc.start()
    value, gradient = problem.reference_scores(scores)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # a tenth of a second; a list of the pairs takes a minute
    assert time.perf_counter() - start < 10.0
    assert peak < 1_000 * problem.rows
    fast, slope = problem.risk_and_score_gradient(scores)
    same((value, gradient), (fast, slope))


@pytest.mark.parametrize("kernel", ["push_in_blocks", "graded_in_blocks"])
def test_memory_of_the_double_sum_is_bounded(kernel):
    rows = 3000
    rng = np.random.default_rng(0)
    a, b, ones = rng.normal(size=rows), rng.normal(size=rows), np.ones(rows)
    tracemalloc.start()
    if kernel == "push_in_blocks":
        reference.push_in_blocks(losses.Logistic(), prices.Identity().g, a, b, ones, ones)
    else:
        reference.graded_in_blocks(losses.Logistic(), a, np.arange(rows), ones, ones)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * rows * rows / 10  # a tenth of one array of all pairs


# --- independence ---------------------------------------------------------------------------------------------------

RISKS = [
    *(problems.Push.random(seed) for seed in range(8)),
    *(problems.CrucialPairs.random(seed) for seed in range(6)),
    *(problems.ConvexRisk.random(seed) for seed in range(6)),
    *(problems.RankSVM.random(seed) for seed in range(2)),
    *(problems.RmaxPush.random(seed) for seed in range(4)),
    problems.PNormPush.random(0),
    problems.TopPush.random(0),
    problems.IRPush.random(0),
    problems.BottomPush.random(0),
    problems.TopBottomPush.random(0),
]


def forbid(monkeypatch, names):
    """Let every function that solvers evaluate risks with raise an error."""
    modules = [jax_oracles, terms]
    modules += [module for name, module in sys.modules.items() if name.startswith("convexrank.pair_sums.")]

    def refuse(*arguments, **options):
        raise AssertionError("a certificate ran a solver's code")

    for module in modules:
        for name, value in list(vars(module).items()):
            if (
                callable(value)
                and getattr(value, "__module__", "").startswith("convexrank")
                and name in names(module)
            ):
                monkeypatch.setattr(module, name, refuse)


@pytest.mark.parametrize("problem", RISKS, ids=lambda problem: type(problem).__name__)
def test_certificates_run_no_code_of_solvers(problem, monkeypatch):
    scores = np.asarray(problem.X @ np.random.default_rng(0).normal(size=problem.dimension))
    expected = problem.reference_scores(scores)
    forbid(monkeypatch, lambda module: module.__all__)
    for name, module in list(sys.modules.items()):  # names that were imported from there
        if name.startswith("convexrank.problems."):
            for attribute in (
                "derivatives",
                "polynomial_push",
                "polynomial_graded",
                "active_sums",
                "log_sum_exp_gradient",
            ):
                monkeypatch.setattr(module, attribute, None, raising=False)
    found = problem.reference_scores(scores)
    assert found[0] == expected[0]
    assert np.array_equal(found[1], expected[1])
    with pytest.raises((AssertionError, TypeError)):
        jax_oracles.derivatives(np.exp, np.ones(2))


def test_the_reference_module_imports_no_sums_of_solvers():
    assert not [
        name
        for name, value in vars(reference).items()
        if "pair_sums" in getattr(value, "__module__", "") or ""
    ]


FACES = {
    **{f"loss {name}": (pair[0], np.linspace(-3.0, 3.0, 25) + 0.01) for name, pair in PLAIN.items()},
    **{
        f"{face} of {type(price).__name__} {number}": (
            getattr(price, face), np.linspace(-3.0 if face == "h" else 0.1, 3.0, 25)
        )
        for number, price in enumerate((
            prices.Identity(), prices.Power(0.5), prices.Power(2.5), prices.LogOnePlus(), prices.ExpPrice(0.3),
            prices.Custom(lambda r: r + atoms.square(r)),
            prices.Custom(lambda r: atoms.positive(r - 1.5) ** 2),
            prices.Custom(lambda r: atoms.maximum(r, 2.0 * r - 1.0)),
            prices.Custom(lambda r: (1.0 + r) * atoms.log1p(r)),
        ))
        for face in ("g", "h")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", list(FACES))
def test_derivatives_in_numpy_are_those_of_jax(name):
    function, grid = FACES[name]
    found, expected = differentiate(function, grid), jax_oracles.derivatives(lambda x: function(x), grid)
    for mine, theirs in zip(found, expected, strict=True):
        assert np.allclose(mine, theirs, rtol=tolerance("atoms"), atol=tolerance("atoms"))


def test_a_function_that_is_no_atom_goes_through_jax():
    import jax.numpy as jnp

    with pytest.warns(UserWarning, match="no exact model"):
        price = prices.Custom(lambda r: jnp.log1p(r) + r)
    with pytest.raises((TypeError, AttributeError)):
        differentiate(price.g, np.ones(3))
    values, slopes = reference.reference_derivatives(price.g, np.ones(3))
    assert np.allclose(values, np.log(2.0) + 1.0)
    assert np.allclose(slopes, 1.5)
