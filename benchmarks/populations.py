"""Populations of rankings whose measures are known: what the coverage of intervals is measured on.

A negative with score s has the false positive rate u = 1 − s, uniform; a positive has P(U ≤ u) = u^a, so that the ROC
curve is u^a. Everything follows: AUC 1/(1 + a), push risk (E(1 − u^a)^p)^(1/p), a Beta integral. With ties, scores are
cut to a grid.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

__all__ = ["draw", "truth"]


def draw(kind: str, rng: Any, **options: Any) -> dict[str, Any]:
    """Draw a sample: the arguments of an interval."""
    return {
        "classes": _classes,
        "rows": _rows,
        "normal": _normal,
        "queries": _queries,
        "groups": _groups,
        "weighted": _weighted,
    }[kind](rng, **options)


def truth(metric: str, **options: Any) -> float:
    """Return the value of the population."""
    return {
        "auc": _auc,
        "monitor": _auc,
        "push_risk": _push_risk,
        "partial_auc": _partial_auc,
        "precision_at": _precision_at,
        "recall_at": _recall_at,
        "ranking_risk": _ranking_risk,
        "map": _map,
        "ndcg": _ndcg,
        "difference": _difference,
        "missed": lambda a, size, length: _over_ranks(a, size, lambda rank: float(rank > length)),
        "roc": lambda **_: math.nan,
    }[metric](**options)


# --- samples ------------------------------------------------------------------------------------------------------


def _scores(rng: Any, a: float, y: Any, levels: int) -> Any:
    import numpy as np

    u = rng.random(len(y))
    u[y == 1] **= 1.0 / a
    return -np.ceil(u * levels) if levels else -u


def _classes(
    rng: Any, a: float, positives: int, negatives: int, levels: int = 0, other: float = 0.0
) -> dict[str, Any]:
    import numpy as np

    y = np.repeat([1, 0], [positives, negatives])
    s = _scores(rng, a, y, levels)
    # the second ranker is a mixture: with this probability it gives a row a fresh score, of its class
    return {"y": y, "s": s} | (
        {"s2": np.where(rng.random(len(y)) < other, -rng.random(len(y)), s)} if other else {}
    )


def _rows(rng: Any, a: float, n: int, share: float, levels: int = 0) -> dict[str, Any]:
    y = (rng.random(n) < share).astype(int)
    return {"y": y, "s": _scores(rng, a, y, levels)}


def _normal(rng: Any, n: int, rho: float) -> dict[str, Any]:
    s = rng.normal(size=n)
    return {"y": rho * s + math.sqrt(1 - rho**2) * rng.normal(size=n), "s": s}


def _queries(rng: Any, a: float, m: int, size: int) -> dict[str, Any]:
    """One relevant row in each query, and irrelevant ones that are uniform."""
    import numpy as np

    y = np.tile([1] + [0] * (size - 1), m)
    return {"y": y, "s": _scores(rng, a, y, 0), "qid": np.repeat(np.arange(m), size)}


def _groups(rng: Any, a: float, m: int, size: int, share: float, tail: float = 0.0) -> dict[str, Any]:
    """Rows in groups of one common score each with probability 1/2: the score of a row stays as it is by itself.

    With a tail the sizes are Pareto's with this index, from ``size`` to a hundred times that.
    """
    import numpy as np

    sizes = np.full(m, size)
    if tail:
        sizes = np.ceil(size * np.minimum(rng.random(m) ** (-1.0 / tail), 100.0)).astype(int)
    groups = np.repeat(np.arange(m), sizes)
    y = (rng.random(len(groups)) < share).astype(int)
    uniform = np.where(rng.random(len(groups)) < 0.5, rng.random(m)[groups], rng.random(len(groups)))
    return {"y": y, "s": -np.where(y == 1, uniform ** (1.0 / a), uniform), "groups": groups}


def _weighted(rng: Any, a: float, n: int, share: float, most: float) -> dict[str, Any]:
    """Rows of a population that are drawn with a chance of 1 / weight, with weights from 1 to ``most``."""
    import numpy as np

    y = (rng.random(n) < share).astype(int)
    # the logarithm of a row's weight is uniform in the population: in the sample P(W ≤ w) is linear in 1 / w
    weights = 1.0 / (1.0 - rng.random(n) * (1.0 - 1.0 / most))
    return {"y": y, "s": _scores(rng, a, y, 0), "sample_weight": np.asarray(weights)}


# --- truths -------------------------------------------------------------------------------------------------------


def _auc(a: float, levels: int = 0, **_: Any) -> float:
    if not levels:
        return 1.0 / (1.0 + a)
    corners = [(j / levels) ** a for j in range(levels + 1)]
    return sum(one + other for one, other in itertools.pairwise(corners)) / (2 * levels)


def _push_risk(a: float, p: float, levels: int = 0, **_: Any) -> float:
    if levels:  # a tie is a misrank: the positives at or below are those of the own level and worse
        return (sum((1.0 - (j / levels) ** a) ** p for j in range(levels)) / levels) ** (1 / p)
    # E(1 − U^a)^p = B(1/a, p + 1) / a
    log_beta = math.lgamma(1 / a) + math.lgamma(p + 1) - math.lgamma(1 / a + p + 1)
    return math.exp((log_beta - math.log(a)) / p)


def _partial_auc(a: float, max_fpr: float, levels: int = 0, **_: Any) -> float:
    if not levels:
        return max_fpr ** (1 + a) / (1 + a)
    rates = [
        min(j / levels, max_fpr) for j in range(levels + 1)
    ]  # the curve is a polygon, whose corners these are
    heights = [_polygon(u, a, levels) for u in rates]
    return sum(
        (u - v) * (one + other) / 2
        for (v, u), (one, other) in zip(itertools.pairwise(rates), itertools.pairwise(heights), strict=True)
    )


def _polygon(u: float, a: float, levels: int) -> float:
    """Return the height at u of the ROC curve with corners at 0, 1/levels, 2/levels, …."""
    left = min(math.floor(u * levels + 1e-9), levels - 1)
    low, high = (left / levels) ** a, ((left + 1) / levels) ** a
    return low + (u * levels - left) * (high - low)


def _at_cut(a: float, share: float, k: float) -> float:
    """Return the false positive rate u at which a share k of all rows is let through."""
    low, high = 0.0, 1.0
    for _ in range(100):
        u = (low + high) / 2
        low, high = (u, high) if share * u**a + (1 - share) * u < k else (low, u)
    return low


def _precision_at(a: float, share: float, k: float, **_: Any) -> float:
    return share * _at_cut(a, share, k) ** a / k


def _recall_at(a: float, share: float, k: float, **_: Any) -> float:
    return _at_cut(a, share, k) ** a


def _ranking_risk(rho: float, **_: Any) -> float:
    return math.acos(rho) / math.pi


def _over_ranks(a: float, size: int, value: Any) -> float:
    """Return the expectation of a function of the rank 1 + Bin(size − 1, U) of a positive, P(U ≤ u) = u^a."""
    total = 0.0
    for above in range(size):
        # E U^j (1 − U)^(m − 1 − j) = a B(a + j, m − j), times the binomial coefficient
        log = math.lgamma(a + above) + math.lgamma(size - above) - math.lgamma(a + size)
        log += math.lgamma(size) - math.lgamma(above + 1) - math.lgamma(size - above)
        total += a * math.exp(log) * value(1 + above)
    return total


def _map(a: float, size: int, **_: Any) -> float:
    return _over_ranks(a, size, lambda rank: 1.0 / rank)


def _ndcg(a: float, size: int, **_: Any) -> float:
    return _over_ranks(a, size, lambda rank: 1.0 / math.log2(1 + rank))


def _difference(a: float, other: float, **_: Any) -> float:
    """Return the AUC less that of the second ranker: of the four cases a pair keeps its scores in one.

    A fresh score is uniform. A fresh positive is above a negative with probability 1/2, a positive above a fresh
    negative as above an old one.
    """
    kept = 1.0 / (1.0 + a)
    return kept - ((1 - other) * kept + other * 0.5)
