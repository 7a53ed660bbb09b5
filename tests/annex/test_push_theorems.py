"""The published bounds on the push risk: the printed formulas and their inverses."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from convexrank import bounds
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")


def printed(I, K, p, eps, count, least=0.0, log_K=False):  # noqa: E741
    """The theorems as they are printed, with a covering number."""
    negatives = math.exp(-2 * K * max(eps**2 / 16 * least ** (2 * (p - 1)), (eps / 4) ** (2 * p)))
    positives = math.exp(-(eps**2) * I / 8 + (math.log(K) if log_K else 0.0))
    return 2 * count * (negatives + positives)


@pytest.mark.parametrize("log_K", [False, True])
@pytest.mark.parametrize("least", [0.0, 0.3])
def test_the_printed_formula(log_K, least):
    rng = np.random.default_rng(0)
    for _ in range(50):
        I, K = (int(size) for size in rng.integers(1, 5000, size=2))  # noqa: E741
        p, eps, theta = rng.uniform(1, 5), rng.uniform(0.05, 3), rng.uniform(0.1, 2)
        ball = bounds.NormBall(int(rng.integers(1, 4)), rng.uniform(0.5, 2), rng.uniform(0.5, 2))
        radius = eps * theta / 8
        count = (
            (1 + 2 * ball.bound * ball.reach / radius) ** ball.dimension
            if radius < ball.bound * ball.reach
            else 1
        )
        found = bounds.push(I, K, p, eps, theta, ball, least_risk=least, log_K=log_K)
        assert found.value == pytest.approx(
            printed(I, K, p, eps, count, least, log_K), rel=tolerance("fitted values")
        )
        assert found.vacuous == (found.value >= 1)
        assert ("Theorem 3" in found.source) == (least > 0)
        assert not found.refuted


@pytest.mark.parametrize("covering", [1, 1000, bounds.NormBall(3, 1.0, 2.0)])
@pytest.mark.parametrize("p", [1.0, 2.5])
def test_inverses(p, covering):
    """What is returned suffices, and a little less does not."""
    given = {"theta": 0.5, "covering": covering}
    delta = 0.05
    eps = bounds.push(400, 900, p, delta=delta, **given).value
    assert bounds.push(400, 900, p, eps, **given).value <= delta
    assert bounds.push(400, 900, p, eps * (1 - 1e-9), **given).value > delta
    eps = 1.2
    I = int(bounds.push(None, 10**6, p, eps, delta=delta, **given).value)  # noqa: E741
    assert (
        bounds.push(I, 10**6, p, eps, **given).value
        <= delta
        < bounds.push(I - 1, 10**6, p, eps, **given).value
    )
    K = int(bounds.push(10**4, None, p, eps, delta=delta, **given).value)
    assert (
        bounds.push(10**4, K, p, eps, **given).value
        <= delta
        < bounds.push(10**4, K - 1, p, eps, **given).value
    )


@pytest.mark.parametrize("I", [30, 55, 58, 60, 100, 400])
def test_the_smallest_K_with_ln_K_by_a_loop(I):  # noqa: E741
    """With ln K more negatives may be worse: the set of K that suffice is an interval, possibly empty."""
    enough = [K for K in range(1, 2000) if printed(I, K, 1, 1.0, 1, log_K=True) <= 0.05]
    found = bounds.push(I, None, 1, 1.0, delta=0.05, log_K=True)
    assert found.value == (enough[0] if enough else math.inf)
    assert found.vacuous == (not enough)


def test_ln_K_is_not_needed():
    """All heights at once are as far off as the empirical distribution function: Kolmogorov's exact distribution."""
    for I, eps in itertools.product((5, 20, 100), (0.2, 0.5, 1.0, 1.6)):  # noqa: E741
        assert stats.kstwo.sf(eps / 4, I) <= 2 * math.exp(-(eps**2) * I / 8)
    # and with ln K the printed term says nothing where the exact probability is small
    assert 2 * math.exp(-(0.8**2) * 100 / 8 + math.log(10**4)) > 1 > 20 * stats.kstwo.sf(0.2, 100)


def test_far_out():
    """Numbers whose squares and powers leave the range of floats."""
    assert bounds.push(10, 10, 1, 1e200).value == 0.0
    assert bounds.push(10, 10, 1e250, 5.0).value == pytest.approx(2 * math.exp(-(25 / 8) * 10), rel=SUMMATION)
    assert bounds.push(10, 10, 2, 1e200, 1e200, bounds.NormBall(2, 1.0, 1.0)).value == 0.0
    assert bounds.push(10, 10, 2, 1e-200, 1.0, bounds.NormBall(5000, 1.0, 1.0)).value == math.inf


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: bounds.push(0, 10, 1, 0.5), "I is 0"),
        (lambda: bounds.push(10, 0, 1, 0.5), "K is 0"),
        (lambda: bounds.push(10, 10, 0.5, 0.5), "p is 0.5"),
        (lambda: bounds.push(10, 10, math.nan, 0.5), "p is nan"),
        (lambda: bounds.push(10, 10, 1, 0.0), "eps is 0"),
        (lambda: bounds.push(10, 10, 1, delta=1.0), "delta is 1"),
        (lambda: bounds.push(10, 10, 1, 0.5, delta=0.1), "I, K, eps and delta 0 are None"),
        (lambda: bounds.push(None, None, 1, 0.5), "I, K, eps and delta 3 are None"),
        (lambda: bounds.push(10, 10, 1, 0.5, -1.0), "theta is -1"),
        (lambda: bounds.push(10, 10, 1, 0.5, 0.0, bounds.NormBall(2, 1, 1)), "theta is 0"),
        (lambda: bounds.push(10, 10, 1, 0.5, 0.0, 0), "covering is 0"),
        (lambda: bounds.push(10, 10, 1, 0.5, least_risk=1.5), "least_risk is 1.5"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, names):
    with pytest.raises(ValueError, match=names):
        call()


@pytest.mark.parametrize("covering", ["ball", None, [1, 2], bounds.NormBall])
def test_what_is_no_family(covering):
    with pytest.raises(TypeError, match="covering is"):
        bounds.push(10, 10, 1, 0.5, 0.1, covering)
