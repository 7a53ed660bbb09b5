"""Sums over pairs as they were before formulations were declared: the peer of today's, kept as it was.

By plain numpy and one compiled sweep: value and gradient in the scores of a push with price r² and hinge, and of
RankSVM with the hinge. Both hold for weights of 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

__all__ = ["push_evaluation", "rank_svm_evaluation"]


def _running(gaps: Any, weights: Any) -> tuple[Any, Any]:
    """Return the sums of weighted distances to earlier points, and of weights; nothing cancels."""
    import numpy as np

    sums = np.zeros((2, len(gaps)))
    np.cumsum(weights[:-1], out=sums[0, 1:])
    np.cumsum(gaps * sums[0], out=sums[1])
    return np.asarray((0.0, 1.0)) @ sums, np.asarray([1.0]) @ sums[:-1]


def push_evaluation(scores: Any, y: Any) -> tuple[float, Any]:
    """Return Σ_k (Σ_i (1 − s_i + s_k)₊)² and its gradient, by one sort."""
    import numpy as np

    positive, negative = scores[y == 1], scores[y == 0]
    centre, count = float(np.median(positive)), len(negative)
    points = np.concatenate([negative - centre + 1.0, positive - centre])
    order = np.argsort(points, kind="stable")
    place = np.empty(len(points), dtype=np.intp)
    place[order] = np.arange(len(points))
    gaps = np.diff(points[order], prepend=points[order[0]])
    weights = np.concatenate([np.zeros(count), np.ones(len(positive))])[order]
    inner, slope = (part[place[:count]] for part in _running(gaps, weights))
    marginal = 2.0 * inner
    back = np.concatenate([marginal, np.zeros(len(positive))])[order][::-1]
    pulled = _running(np.append(0.0, gaps[:0:-1]), back)[1][::-1][place[count:]]
    gradient = np.empty(len(scores))
    gradient[y == 1], gradient[y == 0] = -pulled, marginal * slope
    return float(np.square(inner).sum()), gradient


@cache
def _sweep() -> Callable[..., Any]:
    """Compile the sweep: for each row the sum of the values of lower ranks whose scores it exceeds by less than 1."""
    import numpy as np

    from convexrank.backend.numba_cache import compiled

    @compiled()
    def sweep(scores: Any, ranks: Any, offsets: Any, values: Any) -> Any:
        columns = values.shape[1]
        sums = np.zeros_like(values)
        tree = np.zeros((ranks.max() + 2, columns))
        for query in range(len(offsets) - 1):
            start, size = offsets[query], offsets[query + 1] - offsets[query]
            order = np.argsort(-scores[start : start + size]) + start
            count = 0
            for place in range(start, start + size):
                count = max(count, ranks[place] + 1)
            tree[: count + 1] = 0.0
            entered = 0
            for row in order:
                while entered < size and scores[row] - scores[order[entered]] < 1.0:
                    newcomer = order[entered]
                    node = ranks[newcomer] + 1
                    while node <= count:
                        for column in range(columns):
                            tree[node, column] += values[newcomer, column]
                        node += node & -node
                    entered += 1
                node = ranks[row]
                while node > 0:
                    for column in range(columns):
                        sums[row, column] += tree[node, column]
                    node -= node & -node
        return sums

    return sweep


def rank_svm_evaluation(scores: Any, ranks: Any, offsets: Any, weights: Any) -> tuple[float, Any]:
    """Return Σ_q w_q Σ (1 − s_j + s_k)₊ over pairs of a query with ranks r_j > r_k, and its gradient.

    Rows are laid out query by query, the ranks of each are 0, 1, 2, …; there is a weight for each row.
    """
    import numpy as np

    sizes = np.diff(offsets)
    query = np.repeat(np.arange(len(sizes)), sizes)
    centred = scores - (np.add.reduceat(scores, offsets[:-1]) / sizes)[query]
    moments = np.column_stack([np.ones(len(centred)), centred, centred**2])
    turned = np.maximum.reduceat(ranks, offsets[:-1])[query] - ranks
    below = _sweep()(centred, ranks, offsets, moments)
    above = _sweep()(-centred, turned, offsets, np.ascontiguousarray(moments[:, :2]))
    values, slopes = (1.0 - centred) * below[:, 0] + below[:, 1], above[:, 0] - below[:, 0]
    return float(weights @ np.maximum(values, 0.0)), weights * slopes
