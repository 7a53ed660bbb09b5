"""What the papers define by a maximum over orders, computed over all orders of few scores."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations

import numpy as np

__all__ = ["drawn", "hinges", "loose", "partial_auc_error", "tight"]

Array = np.ndarray


def partial_auc_error(positive: Array, negative: Array, count: int) -> float:
    """Return one minus the partial AUC: the share of pairs with the ``count`` highest negatives in the wrong order."""
    highest = np.sort(negative)[len(negative) - count :]
    return float((highest[:, None] >= positive).mean())


def hinges(positive: Array, negative: Array) -> float:
    """Return the mean of (1 − f_i + f_k)₊ over all pairs."""
    return float(np.maximum(1.0 - positive + negative[:, None], 0.0).mean())


def loose(positive: Array, negative: Array, count: int) -> float:
    """Return the structural hinge of 2013 at ICML: orders of all rows are scored by all pairs."""
    return _largest(positive, negative, count)


def tight(positive: Array, negative: Array, count: int) -> float:
    """Return that of SVMpAUC-tight: the largest over all choices of ``count`` negatives, ordered alone."""
    return max(_largest(positive, np.array(chosen), count) for chosen in combinations(negative, count))


def _largest(positive: Array, negative: Array, count: int) -> float:
    """Return the largest loss of an order less the score that it loses against the right one.

    The loss counts for each positive how many of the ``count`` first negatives of the order are above it; the loss in
    score is f_i − f_k for each negative above a positive. Both are over all pairs that count.
    """
    rows = [(True, score) for score in positive] + [(False, score) for score in negative]
    found = -np.inf
    for order in permutations(rows):
        met: list[float] = []
        value = 0.0
        for is_positive, score in order:
            if is_positive:
                value += min(len(met), count) - sum(score - above for above in met)
            else:
                met.append(score)
        found = max(found, value / (len(positive) * count))
    return float(found)


def drawn(seed: int, cases: int = 12) -> list[tuple[Array, Array]]:
    """Return scores of two positives and of four negatives, half of them with ties."""
    rng = np.random.default_rng(seed)
    found = []
    for case in range(cases):
        scores = rng.integers(-2, 3, size=6) / 2.0 if case % 2 else rng.normal(size=6)
        found.append((scores[:2], scores[2:]))
    return found


Surrogate = Callable[[Array, Array, int], float]
