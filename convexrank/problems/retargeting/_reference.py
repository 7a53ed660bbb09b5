"""Retargeting stated again: in plain loops, as a cone program, and the cost of one query for certificates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.data import QueryGroups
from convexrank.divergences import KL, GeneralizedI, SquaredEuclidean, resolve
from convexrank.problems._plain import generator_of, rising_means, root, sum_over_queries
from convexrank.problems.retargeting._grade_blocks import GradeBlocks
from convexrank.problems.retargeting._link import TargetLink

Array = np.ndarray


def reference_cost(link: TargetLink, scores: Array, grades: Array, tied: bool) -> tuple[float, Array]:
    """Return the cost of one query and its gradient in the scores.

    Parameters
    ----------
    link : TargetLink
        The divergence, and whether there are simplex and offsets.
    scores, grades : ndarray, shape (n,)
        The query.
    tied : bool
        Whether rows of one grade share their target.

    Returns
    -------
    float and ndarray, shape (n,)
        Prediction less target is the gradient.
    """
    from scipy.optimize import isotonic_regression

    pooled = np.empty(len(scores))
    if tied:
        _, place, counts = np.unique(grades, return_inverse=True, return_counts=True)
        means = np.bincount(place, scores) / counts
        pooled = isotonic_regression(means, weights=counts).x[place]
    else:
        chain = np.lexsort((scores, grades))
        pooled[chain] = isotonic_regression(scores[chain]).x
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        natural = scores + _offset(link, scores, -np.inf) if link.adds_up else scores
        pooled_natural = pooled + _offset(link, pooled, 0.0) if link.simplex else pooled
        targets = link.divergence._point(pooled_natural)
        targets = np.maximum(targets, 0.0) if link.simplex else targets
        return float(link.mismatch(targets, natural).sum()), link.divergence._point(natural) - targets


def _offset(link: TargetLink, scores: Array, floor: float) -> float:
    """The offset with which predictions, cut off at the floor, add up to 1."""
    if link.quadratic:
        return _of_squares(scores, floor)
    divergence, n = link.divergence, len(scores)
    slopes, middle = divergence.dual_domain, float(divergence._slope(np.full(1, 1.0 / n))[0])

    def excess(offset: float) -> float:
        natural = scores + offset
        if (natural >= slopes.upper).any():
            return np.inf
        values = divergence._point(np.where(slopes.contains(natural), natural, middle))
        return float(np.maximum(np.where(natural <= slopes.lower, floor, values), floor).sum()) - 1.0

    return _root(excess, middle - float(scores.max()), middle - float(scores.min()))


def _of_squares(scores: Array, floor: float) -> float:
    """Try how many of the largest entries are above the floor."""
    largest = float(scores.max())
    falling = np.sort(scores - largest)[::-1]  # relative to the largest the total is never lost to rounding
    counts = np.arange(1, len(scores) + 1)
    levels = (1.0 - np.cumsum(falling)) / counts
    kept = -1 if floor == -np.inf else np.flatnonzero(falling + levels > floor)[-1]
    return float(levels[kept]) - largest


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Halve to the last digit."""
    while low < (middle := 0.5 * (low + high)) < high:
        if excess(middle) < 0.0:
            low = middle
        else:
            high = middle
    return low


def plain_risk(problem: Any, scores: Any) -> float:
    """Return the risk of a Retargeting at the scores of all rows, minimised over targets and offsets.

    Entries of the best targets are the link of z + λ for the isotonic regression z of the scores: every constraint of
    order is between entries of one function. λ = 0 without the simplex; on it targets add up to 1.
    """
    divergence, simplex, offsets = resolve(problem.divergence), bool(problem.simplex), problem.offsets
    if isinstance(divergence, KL):  # of distributions: the I-divergence with the best offset
        divergence, simplex, offsets = GeneralizedI(), True, True
    squared = isinstance(divergence, SquaredEuclidean)
    offsets = simplex if offsets is None else offsets  # for squares without the simplex they have no effect
    g = generator_of(divergence)

    def cost(f: list[float], y: list[float]) -> float:
        chain = sorted(range(len(f)), key=lambda j: (y[j], f[j]))
        s = [f[j] for j in chain]
        z = list(s)
        if problem.order == "block":  # rows of one grade have one target
            own = [[score for score, other in zip(f, y, strict=True) if other == y[j]] for j in chain]
            z = [sum(scores) / len(scores) for scores in own]
        z = rising_means(z)
        shift = beta = 0.0
        if simplex:
            shift = root(lambda level: sum(max(g.link(value + level), 0.0) for value in z) - 1.0, -max(z))
            if offsets:
                beta = root(lambda level: sum(g.link(value + level) for value in s) - 1.0, -max(s))
        r = [g.link(value + shift) for value in z]
        r = [max(target, 0.0) for target in r] if simplex else r
        terms = [(target, score + beta) for target, score in zip(r, s, strict=True)]
        if squared:
            return sum(0.5 * (target - score) ** 2 for target, score in terms)
        return sum(g.phi(target) + g.conjugate(score) - target * score for target, score in terms)

    return sum_over_queries(problem, scores, cost)


def joint_model(
    blocks: GradeBlocks, groups: QueryGroups, link: TargetLink, order: str, row_weights: Array, scores: Any
) -> tuple[Any, list[Any]]:
    """Return the squared distance of scores to targets in the order of the grades, and the constraints on the targets.

    Parameters
    ----------
    blocks : GradeBlocks
        Rows of equal grade, query by query.
    groups : QueryGroups
        The queries.
    link : TargetLink
        The squared distance, with its offsets or on the simplex.
    order : {"hidden", "block"}
        Whether rows of equal grade share a target.
    row_weights : ndarray, shape (n,)
        Weight of each row.
    scores : cvxpy expression, shape (n,)
        Scores of the rows that count, query by query.

    Returns
    -------
    tuple
        A convex cvxpy expression and a list of constraints.
    """
    import cvxpy as cp

    targets = cp.Variable(groups.rows, name="targets")
    along, level = targets[blocks.order], cp.Variable(len(blocks.sizes), name="levels")
    own = np.repeat(np.arange(len(blocks.sizes)), blocks.sizes)
    if order == "block":
        steps = np.flatnonzero(blocks.above)
        constraints = [along == level[own], level[steps - 1] <= level[steps]]
    else:  # (3.8): a level between any two grades
        rises = np.flatnonzero(blocks.above[own])
        falls = np.flatnonzero(np.append(blocks.above[1:], False)[own])
        constraints = [along[rises] >= level[own[rises]], along[falls] <= level[own[falls] + 1]]
    if link.simplex:
        adding = sparse.csr_array((np.ones(groups.rows), groups.order, groups.offsets))
        constraints += [targets >= 0, adding @ targets == 1]
    residuals = scores - targets
    if link.offsets:
        centring: list[Any] = [np.eye(size) - 1.0 / size for size in groups.sizes]
        residuals = sparse.block_diag(centring, format="csr") @ residuals
    return 0.5 * cp.sum_squares(cp.multiply(np.sqrt(row_weights), residuals)), constraints
