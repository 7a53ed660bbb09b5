"""The measures by query as plain loops over queries, rows and, for ties, every order; and random queries."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st


def orders(scores):
    """Every order of the rows that the scores allow, best first."""
    rows = sorted(range(len(scores)), key=lambda row: -scores[row])
    runs = [list(run) for _, run in itertools.groupby(rows, key=lambda row: scores[row])]
    for choice in itertools.product(*(itertools.permutations(run) for run in runs)):
        yield [row for run in choice for row in run]


def chosen_orders(grades, scores, ties):
    """The orders that a rule for ties averages over: all of them, or one."""
    if ties == "average":
        return list(orders(scores))
    within = {"stable": lambda row: row, "worst": lambda row: grades[row], "best": lambda row: -grades[row]}[
        ties
    ]
    return [sorted(range(len(scores)), key=lambda row: (-scores[row], within(row)))]


def discount(rank, kind):
    if kind == "letor":
        return 1.0 if rank <= 2 else 1.0 / math.log2(rank)
    return 1.0 / math.log2(1 + rank)


def worth(grade, kind):
    return grade if kind == "linear" else 2.0**grade - 1.0


def discounted(grades, k, gain, kind):
    return sum(worth(grade, gain) * discount(rank, kind) for rank, grade in enumerate(grades[:k], start=1))


def one_ndcg(grades, order, k=None, gain="exp2", discount="log2"):
    k = len(grades) if k is None else k
    best = discounted(sorted(grades, reverse=True), k, gain, discount)
    return discounted([grades[row] for row in order], k, gain, discount) / best if best else None


def one_average_precision(grades, order):
    seen, total = 0, 0.0
    for rank, row in enumerate(order, start=1):
        if grades[row] > 0:
            seen += 1
            total += seen / rank
    return total / seen if seen else None


def one_reciprocal_rank(grades, order):
    return next((1.0 / rank for rank, row in enumerate(order, start=1) if grades[row] > 0), None)


def one_precision(grades, order, k):
    return sum(grades[row] > 0 for row in order[:k]) / k if max(grades) > 0 else None


def one_expected_reciprocal_rank(grades, order, max_grade, k=None):
    reach, total = 1.0, 0.0
    for rank, row in enumerate(order[:k], start=1):
        chance = (2.0 ** grades[row] - 1.0) / 2.0**max_grade
        total += reach * chance / rank
        reach *= 1.0 - chance
    return total if max(grades) > 0 else None


def one_kendall(grades, scores, variant):
    rows, product, tied_y, tied_s = range(len(grades)), 0, 0, 0
    for i, j in itertools.combinations(rows, 2):
        product += int(np.sign(grades[i] - grades[j]) * np.sign(scores[i] - scores[j]))
        tied_y += grades[i] == grades[j]
        tied_s += scores[i] == scores[j]
    pairs = len(grades) * (len(grades) - 1) // 2
    if pairs == tied_y:
        return None
    below = pairs if variant == "a" else math.sqrt((pairs - tied_y) * (pairs - tied_s))
    return product / below if below else 0.0


def mean_rank(values, row):
    below, tied = (sum(test(value, values[row]) for value in values) for test in (float.__lt__, float.__eq__))
    return below + (tied + 1) / 2


def one_footrule(grades, scores, normalized=False):
    if len(set(grades)) < 2:
        return None
    n = len(grades)
    total = sum(abs(mean_rank(grades, row) - mean_rank(scores, row)) for row in range(n))
    return total / (n * n // 2) if normalized else total


def by_query(one, y, s, qid, ties=None, **options):
    """The measure of each query, queries in the order in which they first appear; None where it is not defined."""
    found = []
    for query in dict.fromkeys(np.asarray(qid).tolist()):
        rows = [row for row, other in enumerate(np.asarray(qid).tolist()) if other == query]
        grades, scores = ([float(values[row]) for row in rows] for values in (y, s))
        if ties is None:
            found.append(one(grades, scores, **options))
            continue
        values = [one(grades, order, **options) for order in chosen_orders(grades, scores, ties)]
        found.append(None if values[0] is None else sum(values) / len(values))
    return found


def as_array(values):
    return np.array([math.nan if value is None else value for value in values])


def queries(most=4, largest=5):
    """Rows of a few short queries in mixed order: grades 0 to 3, few different scores, hence many ties."""
    row = st.tuples(st.integers(0, 3), st.integers(-1, 1))

    def build(lists, seed):
        rows = [(grade, score, name) for name, rows in enumerate(lists) for grade, score in rows]
        order = np.random.default_rng(seed).permutation(len(rows))
        grades, scores, names = (np.array(column)[order] for column in zip(*rows, strict=True))
        return grades.astype(float), scores / 3.0, 10 - names

    lists = st.lists(st.lists(row, min_size=1, max_size=largest), min_size=1, max_size=most)
    return st.builds(build, lists, st.integers(0, 99))
