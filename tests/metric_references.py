"""What the tests of the measures share: slow references, one pair or one row at a time, and random data."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from convexrank import metrics

TIE_COSTS = {"strict": 0.0, "half": 0.5, "misrank": 1.0}


def loop_heights(y, s):
    return [sum(s[i] <= s[k] for i in range(len(y)) if y[i]) for k in range(len(y)) if not y[k]]


def loop_reverse_heights(y, s):
    return [sum(s[i] <= s[k] for k in range(len(y)) if not y[k]) for i in range(len(y)) if y[i]]


def loop_ranks(y, s):
    return [sum(s[i] <= s[j] for j in range(len(y))) for i in range(len(y)) if y[i]]


def loop_r_p(y, s, p=3):
    return sum(height**p for height in loop_heights(y, s))


def loop_r_max(y, s):
    return max(loop_heights(y, s))


def loop_push_risk(y, s, p=3, theta=0.0):
    total = 0.0
    for k in range(len(y)):
        if not y[k]:
            total += (sum(y[i] and s[i] <= s[k] + theta for i in range(len(y))) / sum(y)) ** p
    return (total / (len(y) - sum(y))) ** (1 / p)


def loop_recall_at_precision(y, s, numerator=3, denominator=5):
    """Every threshold in turn; the precision is compared in integers."""
    best = 0
    for threshold in set(s):
        chosen = [label for label, score in zip(y, s, strict=True) if score >= threshold]
        if sum(chosen) * denominator >= numerator * len(chosen):
            best = max(best, sum(chosen))
    return best / sum(y)


def loop_auc(y, s):
    right, pairs = 0.0, 0
    for i, k in itertools.product(range(len(y)), repeat=2):
        if y[i] and not y[k]:
            pairs += 1
            right += 1.0 if s[i] > s[k] else 0.5 if s[i] == s[k] else 0.0
    return right / pairs


def loop_partial_auc(y, s, max_fpr=0.3):
    """The area under the polygon, one trapezoid a segment: its width times its height in the middle."""
    positives, negatives = sum(y), len(y) - sum(y)
    corners = [(0.0, 0.0)]
    for threshold in sorted(set(s), reverse=True):
        chosen = [label for label, score in zip(y, s, strict=True) if score >= threshold]
        corners.append(((len(chosen) - sum(chosen)) / negatives, sum(chosen) / positives))
    area = 0.0
    for (x0, y0), (x1, y1) in itertools.pairwise(corners):
        end = min(x1, max_fpr)
        if end > x0:
            middle = (x0 + end) / 2
            area += (end - x0) * (y0 + (y1 - y0) * (middle - x0) / (x1 - x0))
    return area


def loop_precision(y, s, k=3):
    """The mean over every order of the rows that the scores allow."""
    allowed = [
        order
        for order in itertools.permutations(range(len(y)))
        if all(s[a] >= s[b] for a, b in itertools.pairwise(order))
    ]
    return sum(sum(y[row] for row in order[:k]) for order in allowed) / (k * len(allowed))


def loop_positives_at_top(y, s):
    return sum(all(s[i] > s[k] for k in range(len(y)) if not y[k]) for i in range(len(y)) if y[i])


def loop_dcg(y, s):
    return sum(1 / math.log(1 + rank) for rank in loop_ranks(y, s))


def loop_average_reciprocal_rank(y, s):
    return sum(1 / rank for rank in loop_ranks(y, s))


def loop_risk(y, s, cost):
    """Value and squared standard error of the U-statistic."""
    n = len(y)
    rows = []
    for i in range(n):
        lost = 0.0
        for j in range(n):
            product = (y[i] - y[j]) * (s[i] - s[j])
            lost += 1.0 if product < 0 else cost if s[i] == s[j] and y[i] != y[j] else 0.0
        rows.append(lost / (n - 1))
    value = sum(rows) / n
    return value, 4 * sum((row - value) ** 2 for row in rows) / (n * (n - 1))


BIPARTITE = {
    "heights": (metrics.heights, loop_heights),
    "reverse_heights": (metrics.reverse_heights, loop_reverse_heights),
    "r_p": (lambda y, s: metrics.r_p(y, s, 3), loop_r_p),
    "r_max": (metrics.r_max, loop_r_max),
    "push_risk": (lambda y, s: metrics.push_risk(y, s, 3), loop_push_risk),
    "auc": (metrics.auc, loop_auc),
    "partial_auc": (lambda y, s: metrics.partial_auc(y, s, 0.3), loop_partial_auc),
    "precision_at": (lambda y, s: metrics.precision_at(y, s, 3), None),
    "recall_at_precision": (lambda y, s: metrics.recall_at_precision(y, s, 0.6), loop_recall_at_precision),
    "positives_at_top": (metrics.positives_at_top, loop_positives_at_top),
    "dcg": (metrics.dcg, loop_dcg),
    "average_reciprocal_rank": (metrics.average_reciprocal_rank, loop_average_reciprocal_rank),
}


def shuffled(positives, negatives, seed):
    y = np.array([True] * len(positives) + [False] * len(negatives))
    s = np.array(positives + negatives, dtype=float)
    order = np.random.default_rng(seed).permutation(len(y))
    return y[order], s[order]


def bipartite(largest=15, minimum=1):
    """Labels of both classes and integer scores: few values, hence many ties."""
    scores = st.lists(st.integers(-4, 4), min_size=minimum, max_size=largest)
    return st.builds(shuffled, scores, scores, st.integers(0, 99))


def untied():
    """Labels of both classes and scores that all differ."""

    def build(positives, negatives, seed):
        s = np.random.default_rng(seed).permutation(positives + negatives).astype(float)
        return np.arange(positives + negatives) < positives, s

    return st.builds(build, st.integers(1, 15), st.integers(1, 15), st.integers(0, 99))


def graded():
    """Real labels with at least two values, and scores; ties in both."""
    pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3)), min_size=1, max_size=25)

    def build(rows, score, step):
        rows = [*rows, (rows[0][0] + step, score)]
        return np.array([row[0] for row in rows]) / 2, np.array([row[1] for row in rows], dtype=float)

    return st.builds(build, pairs, st.integers(-3, 3), st.integers(1, 3))
