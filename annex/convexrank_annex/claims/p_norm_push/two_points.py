"""Scores of few values, for which the law of the empirical risk is known exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

__all__ = ["SETTINGS", "Setting", "binomial", "disk_excess", "worst_ratio"]

Array = np.ndarray


def binomial(count: int, share: float) -> Array:
    """Return the chances of 0, 1, …, count successes, each of chance ``share``."""
    from scipy.special import gammaln, xlog1py, xlogy

    k = np.arange(count + 1.0)
    ways = gammaln(count + 1.0) - gammaln(k + 1.0) - gammaln(count - k + 1.0)
    return np.exp(ways + xlogy(k, share) + xlog1py(count - k, -share))


@dataclass(frozen=True)
class Setting:
    """A share ``above`` of the negatives is above a share ``below`` of the positives; all else is in order.

    The true risk is above^{1/p} · below; with k such negatives and i such positives in the sample the empirical risk
    is (k/K)^{1/p} · i/I. No two different scores are within the margin.
    """

    p: float
    positives: int
    negatives: int
    above: float
    below: float

    @property
    def risk(self) -> float:
        """R_{p,1} of the distribution."""
        return self.above ** (1.0 / self.p) * self.below

    def exceedance(self, epsilon: float) -> float:
        """Return P(risk − empirical risk ≥ ε), a sum over the two binomial counts."""
        from scipy.special import bdtr

        k = np.arange(self.negatives + 1)
        roots = (k / self.negatives) ** (1.0 / self.p)
        most = np.full(len(k), float(self.positives))
        np.divide((self.risk - epsilon) * self.positives, roots, out=most, where=roots > 0)
        most = np.minimum(np.floor(most * (1 + 1e-12)), self.positives)
        chances = binomial(self.negatives, self.above)
        return float(
            np.sum(chances * np.where(most < 0, 0.0, bdtr(np.maximum(most, 0.0), self.positives, self.below)))
        )


# Mild and large powers; in the last two the risk is due to few negatives.
SETTINGS = (
    (Setting(1.0, 400, 150, 0.7, 0.8), 0.45),
    (Setting(1.0, 2000, 1000, 0.5, 0.6), 0.25),
    (Setting(2.0, 3000, 1500, 0.9, 0.95), 0.6),
    (Setting(4.0, 9000, 4000, 0.7, 0.95), 0.4),
    (Setting(8.0, 20000, 1500, 0.5**8, 1.0), 0.4999),
    (Setting(16.0, 20000, 3000, 0.6**16, 1.0), 0.5999),
)


def worst_ratio(bound: Callable[[Setting, float], float]) -> float:
    """Return the largest probability of a deviation by ε over its bound."""
    return max(setting.exceedance(epsilon) / bound(setting, epsilon) for setting, epsilon in SETTINGS)


def disk_excess(divisor: float) -> float:
    """Return the largest P(sup of L over a disk ≥ ε) − P(L at its centre ≥ ε/2), radius ε/divisor, ramps of slope 1.

    Two instances of either class, samples of two, all margins on the slope. For p = 1 L is linear there, so its
    supremum is at a corner of the disk; for p = 4 the corners bound it from below.
    """
    rng, worst = np.random.default_rng(76), -np.inf
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * 4)).reshape(4, -1).T
    corners = np.vstack([np.zeros(4), corners])
    counts = np.array([0.0, 0.5, 1.0])  # of the rare instance in a sample
    for trial in range(60):
        p, rare, epsilon = float(rng.choice([1.0, 4.0])), rng.choice([0.2, 0.5]), rng.uniform(0.05, 0.3)
        spread = 0.0 if trial % 2 else 0.1
        centre = np.r_[[0.5, 0.5], [0.0, 0.0]] + spread * rng.uniform(-1.0, 1.0, size=4)
        scores = centre + epsilon / divisor * corners
        ramp = 1.0 - (scores[:, :2, None] - scores[:, None, 2:])

        def risk(up: float, down: float, ramp: Array = ramp, p: float = p) -> Array:
            inner = (1.0 - up) * ramp[:, 0] + up * ramp[:, 1]
            return ((1.0 - down) * inner[:, 0] ** p + down * inner[:, 1] ** p) ** (1.0 / p)

        true, chances, reached, centred = risk(rare, rare), binomial(2, rare), 0.0, 0.0
        for (i, up), (k, down) in product(enumerate(counts), repeat=2):
            deviations = true - risk(up, down)
            reached += chances[i] * chances[k] * (deviations.max() >= epsilon)
            centred += chances[i] * chances[k] * (deviations[0] >= epsilon / 2.0)
        worst = max(worst, reached - centred)
    return worst
