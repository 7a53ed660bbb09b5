"""The joint form of retargeting with the squared distance, as a cone program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from convexrank.problems.retargeting import Retargeting

__all__ = ["joint_model"]


def joint_model(problem: Retargeting, scores: Any) -> tuple[Any, list[Any]]:
    """Return the squared distance of scores to targets in the order of the grades, and what holds the targets there.

    Parameters
    ----------
    problem : Retargeting
        A problem with the squared distance.
    scores : cvxpy expression, shape (n,)
        Scores of the rows that count, query by query.

    Returns
    -------
    tuple
        A convex cvxpy expression and a list of constraints.
    """
    import cvxpy as cp

    blocks, groups = problem.blocks, problem.groups
    targets = cp.Variable(groups.rows, name="targets")
    along, level = targets[blocks.order], cp.Variable(len(blocks.sizes), name="levels")
    own = np.repeat(np.arange(len(blocks.sizes)), blocks.sizes)
    if problem.order == "block":
        steps = np.flatnonzero(blocks.above)
        held = [along == level[own], level[steps - 1] <= level[steps]]
    else:  # (3.8): a level between any two grades
        rises = np.flatnonzero(blocks.above[own])
        falls = np.flatnonzero(np.append(blocks.above[1:], False)[own])
        held = [along[rises] >= level[own[rises]], along[falls] <= level[own[falls] + 1]]
    if problem.link.simplex:
        adding = sparse.csr_array((np.ones(groups.rows), groups.order, groups.offsets))
        held += [targets >= 0, adding @ targets == 1]
    rests = scores - targets
    if problem.link.offsets:
        centring: list[Any] = [np.eye(size) - 1.0 / size for size in groups.sizes]
        rests = sparse.block_diag(centring, format="csr") @ rests
    return 0.5 * cp.sum_squares(cp.multiply(np.sqrt(problem.row_weights), rests)), held
