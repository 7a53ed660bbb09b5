"""An expression by loops over Python numbers, straight from the definitions: the tests' first truth for readings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from convexrank.modelling.expressions import (
    Affine,
    Dot,
    Elementwise,
    Highest,
    LogSumExp,
    Node,
    PairMeans,
    PairSums,
    Reduction,
    Scores,
)
from convexrank.modelling.levels import CumulativeLogSumExp, Threshold


def plain_risk(root: Node, scores: list[float]) -> float:
    """Return the risk at the scores of all rows."""
    return sum(_entry(root, scores, query) for query in range(root.leaf.axis.count))


def _entry(node: Node, scores: list[float], k: int) -> float:
    """Entry k of a node."""

    def at(c: Any) -> float:
        return float(c[k] if np.ndim(c) else c)

    match node:
        case Scores():
            return sum(sign * scores[int(rows[k])] for sign, rows in node.sides)
        case Affine():
            found = at(node.constant)
            for c, part in node.terms:
                place = int(node.axis.query[k]) if node.is_level(part) and node.axis is not None else k
                found += at(c) * _entry(part, scores, place)
            return found
        case Elementwise():
            return node.function.plain(_entry(node.x, scores, k))
        case PairMeans():
            return _pair_mean(node, scores, k)
        case PairSums():
            return _pair_sum(node, scores, k)
        case CumulativeLogSumExp():
            rows = [j for j in _rows(node.axis.query, node.axis.query[k]) if node.grades[j] <= node.grades[k]]
            return _log_of_sum([(float(node.weights[j]), _entry(node.x, scores, j)) for j in rows])
        case Threshold():
            return _threshold(node, scores, k)
        case Highest():
            return _mean_of_highest(node, scores, k)
        case Reduction():
            return _reduced(node, scores, k)
        case _:
            raise TypeError(f"{type(node).__name__} has no loop.")


def _rows(query: Any, k: int) -> list[int]:
    return [j for j in range(len(query)) if query[j] == k]


def _reduced(node: Reduction, scores: list[float], k: int) -> float:
    rows = _rows(node.over.query, k)
    whole = sum(float(node.weights[j]) for j in rows) if node.mean else 1.0
    terms = [(float(node.weights[j]) / whole, _entry(node.x, scores, j)) for j in rows]
    if isinstance(node, Dot):
        return sum(c * one for c, one in terms)
    if not isinstance(node, LogSumExp):
        raise TypeError(f"{type(node).__name__} has no loop.")
    return _log_of_sum(terms)


def _log_of_sum(terms: list[tuple[float, float]]) -> float:
    top = max(one for _, one in terms)
    return top + math.log(sum(c * math.exp(one - top) for c, one in terms))


def _threshold(node: Threshold, scores: list[float], k: int) -> float:
    rows = _rows(node.over.query, k)
    terms = [(float(node.shares[j]), _entry(node.x, scores, j)) for j in rows]

    def exceeds(t: float) -> bool:
        return sum(c * node.function.plain(node.scale * (x - t)) for c, x in terms) > node.target

    low = high = max(x for _, x in terms)
    step = 1.0
    while not exceeds(low) or exceeds(high):
        low, high, step = (low, high + step, 2.0 * step) if exceeds(high) else (low - step, high, 2.0 * step)
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return high


def _mean_of_highest(node: Highest, scores: list[float], k: int) -> float:
    rows = _rows(node.over.query, k)
    falling = sorted(((_entry(node.x, scores, j), float(node.weights[j])) for j in rows), reverse=True)
    most = min(float(node.asked[k]), sum(weight for _, weight in falling))
    left, found = most, 0.0
    for entry, weight in falling:
        part = min(weight, left)
        found, left = found + part * entry, left - part
    return found / most


def _pair_mean(node: PairMeans, scores: list[float], k: int) -> float:
    up, here = node.upper_axis, _entry(node.lower, scores, k)
    rows = _rows(up.query, node.axis.query[k])
    costs = [(node.function.plain(here - _entry(node.upper, scores, i)), float(up.weights[i])) for i in rows]
    most = left = float(node.lowest.asked[node.axis.query[k]])
    found = 0.0
    for cost, weight in sorted(costs, reverse=True):
        part = min(weight, left)
        found, left = found + part * cost, left - part
    return found / most


def _pair_sum(node: PairSums, scores: list[float], k: int) -> float:
    up, low, found = node.upper_axis, node.axis, 0.0
    here = _entry(node.lower, scores, k)
    for i in range(len(up.rows)):
        if up.query[i] == low.query[k] and (node.grades is None or node.grades[i] > node.grades[k]):
            found += float(up.weights[i]) * node.function.plain(here - _entry(node.upper, scores, i))
    return found
