"""Features of sizes far from 1, in both precisions: Newton's method converges, and the certificate says so."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import convexrank as cr
from convexrank.backend.gram import times, transposed_times
from tests.tolerances import tolerance

D = 8
SCALES = {"large": np.full(D, 1e6), "small": np.full(D, 1e-3), "mixed": 10.0 ** np.linspace(-6, 6, D)}


def made(name, scale, dtype, l2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, D))
    noisy, grades, queries = (
        X[:, 0] + rng.normal(size=400),
        rng.integers(0, 3, size=400),
        np.arange(400) // 20,
    )
    X = X * SCALES[scale]
    if name == "PNormPush":
        return cr.problems.PNormPush(X, noisy > 0, p=4, l2=l2, dtype=dtype)
    if name == "MarginRetargeting":
        return cr.problems.MarginRetargeting(X, grades, queries, margin=1.0, l2=l2, dtype=dtype)
    return cr.problems.ListNet(X, grades, queries, l2=l2, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["PNormPush", "MarginRetargeting", "ListNet"])
@pytest.mark.parametrize(
    ("scale", "l2"), [("large", 0.0), ("large", 1e-3), ("small", 1e-3), ("mixed", 1e-3)], ids=str
)
def test_newton_converges_whatever_the_units(dtype, name, scale, l2):
    """Slopes of the risk in float32 have too few digits once they are multiplied by features of 1e6."""
    solution = made(name, scale, dtype, l2).solve("newton")
    assert solution.status is cr.Status.CONVERGED
    assert solution.iterations < 40


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_callers_units_come_back(dtype):
    """Without a penalty the scores do not depend on the units of the features."""
    plain = cr.problems.PNormPush(
        made("PNormPush", "large", "float64", 0.0).X / 1e6, made("PNormPush", "large", dtype, 0.0).y, p=4
    )
    scaled = made("PNormPush", "large", dtype, 0.0)
    expected, found = plain.X @ plain.solve().x, scaled.X @ scaled.solve().x
    assert np.allclose(
        found, expected, rtol=tolerance("single precision"), atol=tolerance("single precision")
    )


def test_products_with_float32_make_no_copy_in_float64():
    rng = np.random.default_rng(0)
    X, w, u = rng.normal(size=(200_000, 20)).astype(np.float32), rng.normal(size=20), rng.normal(size=200_000)
    expected = X.astype(np.float64) @ w, X.T.astype(np.float64) @ u
    tracemalloc.start()
    found = times(X, w), transposed_times(X, u)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for mine, truth in zip(found, expected, strict=True):
        assert np.allclose(mine, truth, rtol=0, atol=tolerance("summation") * np.abs(truth).max())
    assert peak < X.nbytes  # a copy has twice as many bytes
