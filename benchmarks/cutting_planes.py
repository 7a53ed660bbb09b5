"""SVMpAUC, a peer of PartialAUC: the partial AUC up to a false positive rate by cutting planes, in plain code.

Narasimhan and Agarwal (2013) bound one minus the partial AUC by a structural hinge: over all orders of positives and
negatives, the largest sum of the loss of an order and its score, less that of the right order. SVMpAUC scores an order
by all pairs; SVMpAUC-tight by the pairs of as many negatives as count, those whose sum is largest. From rate 0 on the
largest order is found pair by pair. The tight one is then the objective of PartialAUC with the hinge, the other adds
the negatives that do not count, as far as they are above positives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Array = Any
# Of scores of positives and negatives: coefficients of both in the cut, and its constant.
Cut = tuple[Array, Array, float]


@dataclass(frozen=True)
class Planes:
    """The best point of the method, its objective, the lower bound by the cuts, and how many they are."""

    weights: Array
    value: float
    bound: float
    cuts: int


def most_violated(positive: Array, negative: Array, share: float, tight: bool) -> Cut:
    """Return the most violated constraint, by two sorts and two searches.

    The k-th highest negative is worth ``lead[k]`` of a false positive. A pair is in the wrong order where that is
    worth more than the difference of scores takes away. Tight: each of the highest negatives counts by its lead, with
    a margin of 1; else each negative counts, with its lead as the margin.
    """
    import numpy as np

    falling = np.argsort(-negative, kind="stable")
    lead = np.clip(share * len(negative) - np.arange(len(negative)), 0.0, 1.0)
    weight, margin = (lead, np.ones_like(lead)) if tight else (np.ones_like(lead), lead)
    reached = negative[falling] + margin  # falls, as the margin does
    below = np.searchsorted(np.sort(positive), reached)
    above = np.r_[0.0, np.cumsum(weight)][np.searchsorted(-reached, -positive)]
    pairs = len(positive) * share * len(negative)
    of_negatives = np.empty(len(negative))
    of_negatives[falling] = weight * below / pairs
    return -above / pairs, of_negatives, float((weight * margin * below).sum() / pairs)


def cutting_planes(
    X: Array,
    y: Array,
    share: float,
    l2: float,
    tol: float,
    *,
    tight: bool = True,
    cut: Callable[[Array, Array, float, bool], Cut] = most_violated,
    most: int = 5_000,
) -> Planes:
    """Add the most violated constraint until none is violated by more than ``tol``."""
    import numpy as np

    positive, negative = X[y > 0], X[y <= 0]
    w, slack, best, bound = np.zeros(X.shape[1]), 0.0, (np.inf, np.zeros(X.shape[1])), 0.0
    planes: list[Array] = []
    for _ in range(most):
        of_positives, of_negatives, constant = cut(positive @ w, negative @ w, share, tight)
        plane = np.r_[of_positives @ positive + of_negatives @ negative, constant]
        reached = plane[:-1] @ w + constant
        best = min(best, (0.5 * l2 * float(w @ w) + reached, w), key=lambda one: one[0])
        if reached <= slack + tol:
            break
        planes.append(plane)
        w, slack = _minimum_above(np.array(planes), l2)
        bound = 0.5 * l2 * float(w @ w) + slack
    return Planes(best[1], best[0], bound, len(planes))


def _minimum_above(planes: Array, l2: float) -> tuple[Array, float]:
    """Minimise ½ l2 |w|² + s over s ≥ 0 and s ≥ each plane at w, by an interior point method."""
    import clarabel
    import numpy as np
    from scipy import sparse

    count, columns = planes.shape
    quadratic = sparse.diags_array(np.r_[np.full(columns - 1, l2), 0.0], format="csc")
    rows = np.vstack([np.c_[planes[:, :-1], -np.ones(count)], np.r_[np.zeros(columns - 1), -1.0]])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solver = clarabel.DefaultSolver(
        quadratic,
        np.r_[np.zeros(columns - 1), 1.0],
        sparse.csc_array(rows),
        np.r_[-planes[:, -1], 0.0],
        [clarabel.NonnegativeConeT(count + 1)],
        settings,
    )
    found = np.array(solver.solve().x)
    return found[:-1], float(found[-1])
