"""The joint form of retargeting with the squared distance, as a cone program."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from convexrank.data import QueryGroups
from convexrank.problems.retargeting._grade_blocks import GradeBlocks
from convexrank.problems.retargeting._link import TargetLink

Array = np.ndarray


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
