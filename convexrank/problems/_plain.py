"""Losses, prices, generators and the data of lists and graphs as plain numbers: what a ``definition`` is made of.

Each function of one number is its published formula, and shares no code with the objects that solvers, models and
certificates use. What is the user's own is called: there is no other statement of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from convexrank import divergences, losses, prices

Scalar = Callable[[float], float]

# exp of more is no float.
_LARGEST = 709.78
# Roots are looked for in steps up to this length.
_FAR = 1e9


def exp(x: float) -> float:
    """The exponential; infinity, and no error, where it leaves the range of floats."""
    return math.exp(x) if x < _LARGEST else math.inf


def softplus(x: float) -> float:
    """Return log(1 + e^x); e^x may leave the range of floats where its logarithm does not."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def loss_of(loss: Any) -> Scalar:
    """Return the loss ℓ of a margin z."""
    if isinstance(loss, losses.Exponential):
        return lambda z: exp(-z)
    if isinstance(loss, losses.Logistic):
        return lambda z: softplus(-z) / math.log(loss.base)
    if isinstance(loss, losses.Hinge):
        return lambda z: max(0.0, 1.0 - z)
    if isinstance(loss, losses.SquaredHinge):
        return lambda z: max(0.0, 1.0 - z) ** 2
    return lambda z: float(loss(z))


def price_of(price: Any) -> Scalar:
    """Return the price g of a sum r of losses."""
    if isinstance(price, prices.Identity):
        return lambda r: r
    if isinstance(price, prices.Power):
        return lambda r: exp(price.p * math.log(r)) if r > 0.0 else 0.0
    if isinstance(price, prices.LogOnePlus):
        return math.log1p
    if isinstance(price, prices.ExpPrice):
        return lambda r: exp(price.scale * r)
    return lambda r: float(price.g(r))


def price_of_exp(price: Any) -> Scalar:
    """Return a ↦ g(e^a): the exponential's sums may leave the range of floats where their price does not."""
    if isinstance(price, prices.Power):
        return lambda a: exp(price.p * a)
    if isinstance(price, prices.LogOnePlus):
        return softplus
    if isinstance(price, prices.Identity | prices.ExpPrice):
        return lambda a: price_of(price)(exp(a))
    return lambda a: float(price.h(a))


@dataclass(frozen=True)
class Generator:
    """A generator φ of one number: with its slope, the inverse of the slope, its conjugate, and its open domain."""

    phi: Scalar
    slope: Scalar
    link: Scalar
    conjugate: Scalar
    low: float = -math.inf
    high: float = math.inf


def x_log_x(x: float) -> float:
    """The product, continued by 0 at 0."""
    return x * math.log(x) if x > 0.0 else 0.0


def log(x: float) -> float:
    """The logarithm, minus infinity at 0."""
    return math.log(x) if x > 0.0 else -math.inf


def generator_of(divergence: Any) -> Generator:
    """Return the generator of a separable divergence, without weights."""
    if isinstance(divergence, divergences.SquaredEuclidean):
        return Generator(lambda x: 0.5 * x * x, lambda x: x, lambda t: t, lambda t: 0.5 * t * t)
    if isinstance(divergence, divergences.GeneralizedI):
        a = divergence.shift
        return Generator(
            lambda x: x_log_x(x - a) - (x - a),
            lambda x: log(x - a),
            lambda t: a + exp(t),
            lambda t: exp(t) + a * t,
            low=a,
        )
    if isinstance(divergence, divergences.KL):  # of one entry: the sum of all is another condition
        return Generator(
            x_log_x, lambda x: log(x) + 1.0, lambda t: exp(t - 1.0), lambda t: exp(t - 1.0), 0.0, 1.0
        )
    if isinstance(divergence, divergences.BitEntropy):
        return Generator(
            lambda x: x_log_x(x) + x_log_x(1.0 - x),
            lambda x: log(x) - log(1.0 - x),
            lambda t: math.exp(-softplus(-t)),
            softplus,
            0.0,
            1.0,
        )
    if isinstance(divergence, divergences.ItakuraSaito):
        return Generator(
            lambda x: -log(x),
            lambda x: -1.0 / x,
            lambda t: -1.0 / t if t < 0.0 else math.inf,
            lambda t: -1.0 - math.log(-t) if t < 0.0 else math.inf,
            low=0.0,
        )
    own, domain = divergence, divergence.domain
    return Generator(
        _of_a_number(own._phi),
        _of_a_number(own._slope),
        _of_a_number(own._point),
        _of_a_number(own._conjugate),
        domain.lower,
        domain.upper,
    )


def _of_a_number(function: Callable[[Any], Any]) -> Scalar:
    """Return a function of arrays as one of a number; root finding asks for the same numbers again and again."""
    return lru_cache(maxsize=10_000)(lambda x: float(function(np.array([x]))[0]))


def log_mean(terms: list[tuple[float, float]]) -> float:
    """Return the logarithm of the mean of e^x over pairs (weight, x), each term over the largest: none overflows."""
    top = max(x for _, x in terms)
    total = sum(weight * math.exp(x - top) for weight, x in terms)
    return top + math.log(total / sum(weight for weight, _ in terms))


def log_norm(f: list[float], over: list[int], others: list[int], weight: list[float], p: float) -> float:
    """Return (1/p) log of the mean over k of (the mean over i of e^(f_k − f_i))^p, for k ``over`` and i of the others.

    In logarithms: powers of sums of exponentials leave the range of floats.
    """
    terms = [(weight[k], p * log_mean([(weight[i], f[k] - f[i]) for i in others])) for k in over]
    return log_mean(terms) / p


def rising_means(values: list[float]) -> list[float]:
    """Return the nearest list that does not fall: neighbours out of order are pooled to their mean."""
    pools: list[tuple[float, float, int]] = []
    for value in values:
        mean, total, count = value, value, 1
        while pools and pools[-1][0] > mean:
            _, more, others = pools.pop()
            total, count = total + more, count + others
            mean = total / count
        pools.append((mean, total, count))
    return [mean for mean, _, count in pools for _ in range(count)]


def sides_of(y: Any, qid: Any, sample_weight: Any) -> list[tuple[list[int], list[int], list[float]]]:
    """Return positives and negatives of each query that has both, of positive weight, and the weights of all rows."""
    labels, found = y.tolist(), []
    weight = [1.0] * len(labels) if sample_weight is None else sample_weight.tolist()
    larger = max(labels)
    for rows in queries_of(qid, len(labels)):
        positives = [i for i in rows if labels[i] == larger and weight[i] > 0.0]
        negatives = [k for k in rows if labels[k] != larger and weight[k] > 0.0]
        if positives and negatives:
            found.append((positives, negatives, weight))
    return found


def shares_by_rank(spectrum: Any, weights: list[float]) -> list[float]:
    """Return the shares of rows in a spectral sum, the highest row first: integrals of the density over their weights.

    Where the rows end before the steps do, the shares are divided by their sum.
    """
    unit = 1.0 if spectrum.counted else sum(weights)
    found, before = [], 0.0
    for weight in weights:
        until, start, share = before + weight / unit, 0.0, 0.0
        for end, height in zip(spectrum.ends, spectrum.heights, strict=True):
            share += height * max(0.0, min(until, end) - max(before, start))
            start = end
        found.append(share)
        before = until
    return [share / sum(found) for share in found]


def shares_of_first(share: float, weights: list[float]) -> list[float]:
    """Return what rows count in the mean of the first of them, by weight, up to a share of all."""
    allowed = left = share * sum(weights)
    found = []
    for weight in weights:
        found.append(min(weight, left) / allowed)
        left -= min(weight, left)
    return found


def queries_of(qid: Any, rows: int) -> list[list[int]]:
    """Return the numbers of the rows of each query, however the queries are given; None is one query."""
    if qid is None:
        return [list(range(rows))]
    if hasattr(qid, "offsets"):
        ends = qid.offsets.tolist()
        return [qid.order[start:end].tolist() for start, end in pairwise(ends)]
    found: dict[Any, list[int]] = {}
    for row, query in enumerate(np.asarray(qid).tolist()):
        found.setdefault(query, []).append(row)
    return list(found.values())


def sum_over_queries(problem: Any, scores: Any, cost: Callable[[list[float], list[float]], float]) -> float:
    """Add up a cost of the scores and grades of each query that has an order; with ``normalize`` over its rows."""
    f, y, risk = [float(score) for score in scores], problem.y.tolist(), 0.0
    for rows in queries_of(problem.qid, len(f)):
        grades = [y[j] for j in rows]
        if max(grades) > min(grades):
            paid = cost([f[j] for j in rows], grades)
            risk += paid / len(rows) if getattr(problem, "normalize", False) else paid
    return risk


def softmax_divergence(problem: Any, scores: Any, worth: Callable[[list[float]], list[float]]) -> float:
    """Add up the divergence of the softmax of scores from the distribution that what grades are worth gives."""

    def divergence(f: list[float], y: list[float]) -> float:
        gains, top = worth(y), max(f)
        normalizer = top + math.log(sum(math.exp(score - top) for score in f))
        shares = [gain / sum(gains) for gain in gains]
        terms = zip(shares, f, strict=True)
        return sum(q * (math.log(q) - (score - normalizer)) for q, score in terms if q > 0.0)

    return sum_over_queries(problem, scores, divergence)


def links_of(graph: Any) -> list[tuple[int, int, float]]:
    """Return (from, to, weight) of each link of a graph."""
    ends, sources = graph.offsets.tolist(), graph.sources.tolist()
    weights = [1.0] * len(sources) if graph.weights is None else graph.weights.tolist()
    return [
        (sources[edge], node, weights[edge])
        for node in range(len(ends) - 1)
        for edge in range(ends[node], ends[node + 1])
    ]


def walk_matrix(graph: Any, alpha: float, personalization: Any, dangling: str) -> list[list[float]]:
    """Return the rows of PageRank's matrix, (5.1): αT + (1 − α)v1ᵀ; nodes without links lead to v or anywhere."""
    n, out = int(graph.n), [0.0] * int(graph.n)
    v = [1.0 / n] * n if personalization is None else personalization.tolist()
    links = links_of(graph)
    for source, _, weight in links:
        out[source] += weight
    away = v if dangling == "teleport" else [1.0 / n] * n
    P = [
        [(1.0 - alpha) * v[i] + (0.0 if out[j] > 0.0 else alpha * away[i]) for j in range(n)]
        for i in range(n)
    ]
    for source, target, weight in links:
        if out[source] > 0.0:
            P[target][source] += alpha * weight / out[source]
    return P


def root(f: Scalar, start: float, low: float = -math.inf, high: float = math.inf) -> float:
    """Return where a rising function passes 0 between two ends, an end where it does not; it may be infinite."""
    from scipy import optimize

    brentq: Any = optimize.brentq
    left = right = min(max(start, low), high)
    for direction in (-1.0, 1.0):
        step = direction
        while direction * f(left if direction < 0.0 else right) < 0.0:
            if abs(step) > _FAR:
                return left if direction < 0.0 else right
            if direction < 0.0:
                if left <= low:
                    return low
                left = max(left + step, low)
            else:
                if right >= high:
                    return high
                right = min(right + step, high)
            step *= 2.0
    while not (math.isfinite(f(left)) and math.isfinite(f(right))):
        middle = 0.5 * (left + right)
        left, right = (left, middle) if f(middle) > 0.0 else (middle, right)
    return left if left == right else float(brentq(f, left, right, xtol=1e-300, rtol=1e-15))
