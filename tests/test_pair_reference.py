"""What certificates sum over pairs: against plain double loops, with code and derivatives that no solver runs."""

from __future__ import annotations

import sys
import time
import tracemalloc

import numpy as np
import pytest

from convexrank import atoms, prices, problems
from convexrank.backend import jax_oracles
from convexrank.backend.dual_numbers import differentiate
from tests.test_pairwise import PLAIN, same
from tests.tolerances import tolerance

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
    value, gradient = problem._reference_scores(scores)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # a tenth of a second; a list of the pairs takes a minute
    assert time.perf_counter() - start < 10.0
    assert peak < 1_000 * problem.rows
    fast, slope = problem._risk_and_score_gradient(scores)
    same((value, gradient), (fast, slope))


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


# What solvers evaluate risks with; the sums of `plain` and the functions of `sums` are those of certificates.
OF_SOLVERS = (
    "convexrank.backend.jax_oracles",
    "convexrank.modelling.curvature",
    "convexrank.modelling.hessian_products",
    "convexrank.modelling.kernels",
    *(
        f"convexrank.modelling.log_sum_exps.{module}"
        for module in ("coordinates", "terms", "weighted_rows", "weighted_terms")
    ),
    "convexrank.modelling.steps",
)


def forbid(monkeypatch):
    """Let every function that solvers evaluate risks with raise an error, also where it was imported to."""

    def refuse(*arguments, **options):
        raise AssertionError("a certificate ran a solver's code")

    def of_solvers(value):
        home = getattr(value, "__module__", None) or ""
        return callable(value) and home.startswith(OF_SOLVERS) and not home.endswith(".plain")

    for name, module in list(sys.modules.items()):
        if name.startswith("convexrank.") and module is not None:
            for attribute, value in list(vars(module).items()):
                if not isinstance(value, type) and of_solvers(value):
                    monkeypatch.setattr(module, attribute, refuse)


@pytest.mark.parametrize("problem", RISKS, ids=lambda problem: type(problem).__name__)
def test_certificates_run_no_code_of_solvers(problem, monkeypatch):
    scores = np.asarray(problem.X @ np.random.default_rng(0).normal(size=problem.dimension))
    expected = problem._reference_scores(scores)
    # another problem of the same risk: nothing in it is bound to what ran before
    problem = problem.changed(l2=problem.l2 + 0.5)
    forbid(monkeypatch)
    found = problem._reference_scores(scores)
    assert found[0] == expected[0]
    assert np.array_equal(found[1], expected[1])
    with pytest.raises(AssertionError, match="a solver's code"):
        problem._risk_and_score_gradient(scores)


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
    values, slopes = jax_oracles.derivatives(price.g, np.ones(3))
    assert np.allclose(values, np.log(2.0) + 1.0)
    assert np.allclose(slopes, 1.5)
