"""Random convex expressions over random groups of scores, and what all readings of one have to agree on.

``draw`` is a ``random.Random``: hypothesis hands one in that it can shrink, a seed gives the same instance always.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from convexrank import losses
from convexrank.data import as_groups
from convexrank.modelling import functions, loss_rules, rules
from convexrank.modelling.expressions import Node
from convexrank.modelling.groups import Groups
from convexrank.modelling.program import Program

# Values beyond this are of no use: exponentials of exponentials.
LARGEST = 1e6

LOSSES = (
    losses.Exponential(),
    losses.Logistic(),
    losses.Logistic(2.0),
    losses.Hinge(),
    losses.SquaredHinge(),
)
INCREASING = (
    functions.softplus,
    functions.hinge,
    functions.squared_hinge,
    functions.smooth_hinge(0.5),
    functions.smooth_hinge(3.0),
    functions.scaled(functions.squared_hinge, 0.3),
    functions.scaled(functions.hinge, 2.0),
)
OF_AFFINE = (
    functions.square,
    functions.huber(0.5),
    functions.huber(2.0),
    functions.scaled(functions.square, 0.7),
)
OF_PAIRS = (
    *LOSSES,
    functions.smooth_hinge(0.5),
    functions.huber(1.0),
    functions.scaled(functions.hinge, 0.5),
)


@dataclass
class Instance:
    """A risk of the scores of some rows."""

    root: Node
    groups: Groups
    rows: int

    @property
    def program(self) -> Program:
        """A new program."""
        return Program(self.root, self.rows)


def random_groups(draw: Random, graded: bool) -> Groups:
    """Rows in shuffled queries, some of which have no order; weights with zeros, ties of grades."""
    n = draw.randint(4, 13)
    queries = draw.choice([1, 1, 2, 3, 4])
    qid = [draw.randrange(queries) for _ in range(n)]
    y = [draw.randrange(4 if graded else 2) for _ in range(n)]
    weights = [draw.choice([0.0, 1.0, 1.0, 0.5, 3.0]) for _ in range(n)] if draw.random() < 0.6 else None
    one, other = draw.sample(range(n), 2)  # one query has an order
    qid[other], y[one], y[other] = qid[one], 0, 1
    if weights is not None:
        weights[one] = weights[other] = 2.0
    names = draw.sample(range(100), queries)
    ids = np.array([names[q] for q in qid])
    return Groups(np.array(y, dtype=float), as_groups(ids, n), None if weights is None else np.array(weights))


class Expressions:
    """Draws expressions; the arguments say how deep they may be."""

    def __init__(self, draw: Random, groups: Groups, graded: bool) -> None:
        self.draw, self.f = draw, groups
        self.leaves = [groups.rows] if graded else [groups.positive, groups.negative, groups.rows]
        self.graded = graded

    def factors(self, length: int, least: float) -> Any:
        """One number, or one for each entry; at least 0 or of any sign."""
        some = (0.25, 0.5, 1.0, 1.5) if least >= 0.0 else (-1.0, -1.0, -0.5, 0.25, 0.5, 1.0)
        if self.draw.random() < 0.7:
            return self.draw.choice(some)
        return np.array([self.draw.choice((*some, 0.0)) for _ in range(length)])

    def constant(self, length: int) -> Any:
        if self.draw.random() < 0.4:
            return self.draw.choice([-1.0, -0.5, 0.0, 0.5])
        return np.array([self.draw.choice([-1.0, 0.0, 0.5]) for _ in range(length)])

    def affine_level(self) -> Node:
        x = self.affine_rows(self.draw.choice(self.leaves), 0)
        weights = None
        if self.draw.random() < 0.3:
            weights = np.array([self.draw.choice([0.5, 1.0, 2.0]) for _ in x.axis.rows])
        found = rules.mean(x, weights)
        if self.draw.random() < 0.5:
            found = found * self.factors(self.f.count, -1.0)
        return found + self.constant(self.f.count) if self.draw.random() < 0.3 else found

    def affine_rows(self, leaf: Node, depth: int) -> Node:
        n = len(leaf.axis.rows)
        found = leaf if self.draw.random() < 0.4 else leaf * self.factors(n, -1.0)
        if self.draw.random() < 0.4:
            found = found + self.constant(n)
        if depth and self.draw.random() < 0.3:
            found = found - self.affine_level()
        return found

    def pairs(self) -> Node:
        phi = self.draw.choice(OF_PAIRS)
        if self.graded or self.draw.random() < 0.25:
            rows = self.affine_rows(self.f.rows, 1)
            other = rows if self.draw.random() < 0.5 else self.affine_rows(self.f.rows, 1)
            return loss_rules.pair_sums(phi, other, rows, self.f.grades)
        ends = [self.f.positive, self.f.negative]
        if self.draw.random() < 0.2:
            ends.reverse()
        rows = [self.affine_rows(leaf, 1) for leaf in ends]
        if self.draw.random() < 0.4 and getattr(phi, "increasing", True):
            return loss_rules.pair_means(phi, *rows, self.draw.choice([0.05, 0.3, 0.5, 0.7, 1.0]))
        return loss_rules.pair_sums(phi, *rows)

    def convex_rows(self, depth: int) -> Node:
        draw, kind = self.draw, self.draw.randrange(9)
        if kind == 8:
            return self.cumulative(depth)
        if kind == 0 or depth <= 0:
            return self.affine_rows(draw.choice(self.leaves), 1)
        if kind == 1:
            return self.pairs()
        if kind == 2:
            return rules.apply(draw.choice(OF_AFFINE), self.affine_rows(draw.choice(self.leaves), 1))
        if kind == 3:
            return rules.exp(self.affine_rows(draw.choice(self.leaves), 1))
        if kind == 4:
            return rules.power(self.pairs(), draw.choice([1.0, 1.5, 2.0, 3.0]))
        if kind == 5:
            return rules.apply(draw.choice(INCREASING), self.convex_rows(depth - 1))
        rows = self.convex_rows(depth - 1)
        n = len(rows.axis.rows)
        if kind == 6:
            return rows * self.factors(n, 0.0) + self.constant(n)
        level = self.level(depth - 1) * self.factors(self.f.count, 0.0)
        return rows + (level if draw.random() < 0.7 else level + self.constant(self.f.count))

    def cumulative(self, depth: int) -> Node:
        """Log-sum-exps up to the grade of each row, or up to levels with ties."""
        rows, weights = self.convex_rows(depth - 1), None
        n, same = len(rows.axis.rows), rows.axis is self.f.rows.axis
        if self.draw.random() < 0.5:
            weights = np.array([self.draw.choice([0.1, 0.5, 1.0, 2.0]) for _ in range(n)])
        levels = [self.draw.randrange(4) for _ in range(n)]
        grades = self.f.grades if same and self.draw.random() < 0.5 else np.array(levels, dtype=float)
        return rules.cumulative_log_sum_exp(rows, grades, weights)

    def threshold(self, depth: int) -> Node:
        """The threshold of a target, by a function that reaches 0 and by ones that do not."""
        draw, rows, weights = self.draw, self.convex_rows(depth - 1), None
        if draw.random() < 0.5:
            weights = np.array([draw.choice([0.1, 0.5, 1.0, 2.0]) for _ in rows.axis.rows])
        some = functions.softplus, functions.squared_hinge, functions.exp, functions.smooth_hinge(0.5)
        return loss_rules.threshold(
            rows, draw.choice(some), draw.choice([0.05, 0.5, 2.0]), draw.choice([0.5, 1.0, 3.0]), weights
        )

    def highest(self, rows: Node) -> Node:
        """A mean of the highest by count or share, or several of them; rows count by their own or other weights."""
        draw, weights = self.draw, None
        if draw.random() < 0.5:
            weights = np.array([draw.choice([0.1, 0.5, 1.0, 2.0]) for _ in rows.axis.rows])
        kind = draw.randrange(3)
        if kind == 0:
            return rules.mean_of_highest(rows, draw.choice([1, 2, 3, 20]), weights=weights)
        if kind == 1:
            return rules.mean_of_highest(rows, share=draw.choice([0.05, 0.3, 0.5, 0.7, 1.0]), weights=weights)
        steps = draw.choice([(0.0, 1.0), (0.25, 0.75), (0.0, 0.25, 0.25, 0.5), (0.1, 0.2, 0.3, 0.4), (1.0,)])
        return rules.spectral_sum(rows, steps, weights)

    def level(self, depth: int) -> Node:
        draw, kind = self.draw, self.draw.randrange(10)
        if kind == 9:
            return self.threshold(depth)
        if depth > 0 and kind == 0:
            return self.level(depth - 1) * self.factors(self.f.count, 0.0) + self.level(depth - 1)
        if depth > 0 and kind == 1:
            return rules.apply(draw.choice(INCREASING), self.level(depth - 1))
        if kind == 2:
            return self.affine_level() + self.level(depth - 1)
        rows = self.convex_rows(depth)
        weights = None
        if draw.random() < 0.3:
            weights = np.array([draw.choice([0.5, 1.0, 2.0]) for _ in rows.axis.rows])
        if kind in (3, 4):
            return draw.choice([rules.log_sum_exp, rules.log_mean_exp])(rows, weights)
        if kind == 5:
            return rules.maximum(rows)
        if kind == 6:
            return self.highest(rows)
        if kind == 7 and weights is not None:
            weights[0] = 0.0
            return rules.total(rows, weights)
        return draw.choice([rules.total, rules.mean])(rows, weights)


def random_instance(draw: Random) -> Instance:
    """Draw groups, and a risk of at most three levels."""
    graded = draw.random() < 0.4
    groups = random_groups(draw, graded)
    return Instance(Expressions(draw, groups, graded).level(draw.randint(1, 3)), groups, len(groups.y))


def tied_scores(draw: Random, n: int) -> np.ndarray:
    """Scores on a grid, where hinges and maxima have their kinks."""
    return np.array([draw.choice([-1.0, -0.5, 0.0, 0.0, 0.5, 1.0]) for _ in range(n)])


def scores_apart(draw: Random, n: int) -> np.ndarray:
    """Scores without ties."""
    return np.random.default_rng(draw.randrange(2**32)).normal(size=n)
