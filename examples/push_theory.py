"""Figure 8 and the one-dimensional example of the 2009 paper, in closed form and by simulation.

C. Rudin, The P-Norm Push, JMLR 10 (2009), Lemma 7 and section 10.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

Array = np.ndarray


def lemma_7(a: float, b: Any, p: float) -> tuple[Array, Array, Array]:
    """Return |a^(1/p) − b^(1/p)| and the two terms of its bound, |a − b| a^(1/p − 1) and |a − b|^(1/p)."""
    away = np.abs(a - b)
    return np.abs(a ** (1 / p) - b ** (1 / p)), away * a ** (1 / p - 1), away ** (1 / p)


def true_norm(epsilon: float, p: float, increasing: bool) -> float:
    """Return the p-norm over negatives of the share of positives at or below, of x or of −x, for the distribution.

    Under x a negative of [−1, 0] has the share ε of the positives below, one of [1, 2] has all. Under −x one of
    [−1, 0] has the share 1 − ε below, and one of [1, 2] has none.
    """
    if np.isinf(p):
        return 1.0 if increasing else 1.0 - epsilon
    if increasing:
        return float(((1 - epsilon) * epsilon**p + epsilon) ** (1 / p))
    return float((1 - epsilon) ** ((p + 1) / p))


def turning_order(epsilon: float) -> float:
    """Return the p at which both functions are equally good; x is better below."""
    return float(brentq(lambda p: true_norm(epsilon, p, True) - true_norm(epsilon, p, False), 1.0, 1e6))


def draw(epsilon: float, m: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw m rows of the distribution: labels and the feature."""
    y = rng.random(m) < 0.5
    tail = rng.random(m) < epsilon
    low = np.where(tail, np.where(y, -2.0, 1.0), np.where(y, 0.0, -1.0))
    return y, low + rng.random(m)


def empirical_norm(y: Array, scores: Array, p: float) -> float:
    """Return the p-norm over negatives of the share of positives at or below; 0 where a class is missing."""
    if y.all() or not y.any():
        return 0.0
    below = np.searchsorted(np.sort(scores[y]), scores[~y], side="right") / y.sum()
    return float(below.max() if np.isinf(p) else (below**p).mean() ** (1 / p))


def wrong_choices(epsilon: float, p: float, m: int, draws: int, seed: int) -> float:
    """Return the share of samples of m rows whose better function is not that of the distribution; ties choose x."""
    rng = np.random.default_rng(seed)
    right_is_x = true_norm(epsilon, p, True) <= true_norm(epsilon, p, False)
    wrong = 0
    for _ in range(draws):
        y, x = draw(epsilon, m, rng)
        wrong += (empirical_norm(y, x, p) <= empirical_norm(y, -x, p)) != right_is_x
    return wrong / draws


def chooses_x(epsilon: float, m: Any) -> Any:
    """Return the probability that R_max of a sample of m rows chooses x, which it should not.

    −x is better as soon as both tails have a row: R_max of x is then the number of all positives. (Where a negative of
    [−1, 0] is missing −x is better still.) Each tail has a row with probability ε/2, and no row is in both.
    """
    return 2 * (1 - epsilon / 2) ** m - (1 - epsilon) ** m
