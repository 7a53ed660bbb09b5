"""How narrow an interval can be that holds for every law: the floor, and an interval below it that fails."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from convexrank import inference
from tests.tolerances import tolerance

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def floors(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import least_widths

    monkeypatch.setattr(least_widths, "_SAMPLES", 500)
    monkeypatch.setattr(least_widths, "_DROP", 0.08)
    return least_widths


def test_power_is_that_of_the_likelihood_ratio(floors):
    """Of N(0, 1) against N(d, 1): the normal power, and the mean width of Pratt's interval from it."""
    z, alpha = np.random.default_rng(0).normal(size=100_000), 0.05
    for d in (0.5, 2.0):
        power = floors._power(np.sort(d * z - d**2 / 2), alpha)
        assert power == pytest.approx(
            stats.norm.cdf(d - stats.norm.ppf(1 - alpha)), abs=tolerance("monte_carlo_power")
        )


@pytest.mark.parametrize(
    ("metric", "options"), [("auc", {}), ("push_risk", {"p": 3.0}), ("partial_auc", {"max_fpr": 0.3})]
)
def test_slopes_are_derivatives(floors, metric, options):
    rng, value = np.random.default_rng(1), floors._VALUES[metric](**options)
    laws = [rng.dirichlet(np.full(40, 5.0)) for _ in range(2)]
    moved = [law * np.exp(0.1 * rng.normal(size=40)) for law in laws]
    moved = [law / law.sum() for law in moved]
    step, (start, *slopes) = 1e-6, value(*laws)
    near = [law + step * (other - law) for law, other in zip(laws, moved, strict=True)]
    found = (value(*near)[0] - start) / step
    wanted = sum(slope @ (other - law) for slope, law, other in zip(slopes, laws, moved, strict=True))
    factor = start ** (1 - 3.0) if metric == "push_risk" else 1.0  # slopes of the third power, over three
    assert found == pytest.approx(
        wanted * factor, rel=tolerance("slope of a width"), abs=tolerance("small slope of a width")
    )


def test_of_many_rows_the_floor_is_that_of_normal_numbers(floors):
    """An AUC of 600 + 600 rows: deviations times 2 (z Φ(z) + φ(z)), of which a sum of steps lacks a few per cent."""
    a, n, z = 0.3, 600, stats.norm.ppf(0.95)
    area = 1 / (1 + a)
    variance = (
        1 / (1 + 2 * a) - area**2 + a / (2 + a) - (a / (1 + a)) ** 2
    ) / n  # negatives u^a, positives U
    found = floors.least_width("auc", a, n, n) / math.sqrt(variance)
    normal = 2 * (z * stats.norm.cdf(z) + stats.norm.pdf(z))
    assert 0.9 * normal < found < 1.03 * normal


def test_an_interval_below_the_floor_fails_somewhere(floors):
    """Asymptotic ones for p = 16; where one negative in 300 is above all positives, half of the samples lack them."""
    p, n, share, rng = 16, 200, 1 / 300, np.random.default_rng(2)
    power = math.exp(math.lgamma(1 / 0.3) + math.lgamma(p + 1) - math.lgamma(1 / 0.3 + p + 1)) / 0.3
    truth = ((1 - share) * power + share) ** (1 / p)
    y, held, widths = np.repeat([1, 0], n), [], []
    for _ in range(40):
        u = rng.random(2 * n)
        u[:n] **= 1 / 0.3
        usual = -u
        mixed = np.where((y == 0) & (rng.random(2 * n) < share), 1.0, usual)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few negatives that make up the risk
            widths.append(inference.push_risk_interval(y, usual, p, method="asymptotic").width)
            held.append(truth in inference.push_risk_interval(y, mixed, p, method="asymptotic"))
    assert np.mean(widths) < floors.least_width("push_risk", 0.3, n, n, p=p)
    assert stats.binom.cdf(sum(held), 40, 0.95) < 1e-4
