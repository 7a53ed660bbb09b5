r"""Does a reward without a penalty have a minimiser? A linear program decides.

The joint cost of weights, targets and offsets is convex. Where the product of Lemma 8 exceeds 1 it grows like a square
in targets and predictors together, so a linear reward cannot outgrow it. Where it is 1 the squares vanish along the
directions in which targets move with their scores, and along no others: there gaps may earn for ever. For the squared
distance the cost is quadratic by pieces on a polyhedron, so what is bounded below has a minimiser (Frank and Wolfe,
1956): **a minimiser exists if and only if** no direction v of the weights satisfies

.. math:: \gamma_{ig}(v) \ge 0, \qquad \sum_{i,g}\rho_{ig}\,\gamma_{ig}(v) > \lambda_1\|v\|_1, \qquad
          \gamma_{ig}(v) = \min_{j : y_{ij} = g} X_{ij}v - \max_{j : y_{ij} = g'} X_{ij}v,

and, with one bound and no offset that follows it, no score moves towards the bound.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import Design, held_as
from convexrank.core.separability import units_of_features
from convexrank.problems.margin_retargeting._joint_cost import JointCost

Array = np.ndarray

# A linear program meets its constraints to about 1e-7: what is earned below this is no evidence.
_EVIDENCE = 1e-6
# Entries of a design that are built for it.
_LARGEST = 10_000_000


def rewards_grow(cost: JointCost, rows: Any, l1: float) -> bool:
    """Return whether gaps earn more than l1 costs along some direction in which targets move with their scores.

    Parameters
    ----------
    cost : JointCost
        The joint cost, with at most one finite bound.
    rows : array or sparse array, shape (n, d)
        Features, query by query.
    l1 : float
        Strength.

    Raises
    ------
    ValueError
        When the rows are a design that is too large to be built for this.
    """
    from scipy.optimize import linprog  # slow to import, and rarely needed

    blocks, steps = cost.blocks, np.flatnonzero(cost.blocks.above)
    n, count = rows.shape[0], len(blocks.sizes)
    rows = rows if held_as(rows).built else _built(rows)
    unit = units_of_features(rows)
    scores = sparse.csr_array(rows) @ sparse.diags_array(unit)
    block = np.empty(n, dtype=np.int64)
    block[blocks.order] = np.repeat(np.arange(count), blocks.sizes)
    place = sparse.csr_array((np.ones(n), (np.arange(n), block)), shape=(n, count))
    up = sparse.csr_array((np.ones(len(steps)), (np.arange(len(steps)), steps)), shape=(len(steps), count))
    down = sparse.csr_array(
        (np.ones(len(steps)), (np.arange(len(steps)), steps - 1)), shape=(len(steps), count)
    )
    # unknowns: positive and negative parts of the weights, floors and tops of the blocks
    below = [
        [-scores, scores, place, None],
        [scores, -scores, None, -place],
        [None, None, -up, down],
    ]
    if not cost.offsets:
        below += [[-scores, scores, None, None]] if math.isfinite(cost.low) else []
        below += [[scores, -scores, None, None]] if math.isfinite(cost.high) else []
    system = sparse.csr_array(sparse.block_array(below))
    rewards = cost.rewards[steps] / cost.rewards.max()
    price = l1 / cost.rewards.max() * np.concatenate((unit, unit))
    objective = np.concatenate((price, -(up.T @ rewards), down.T @ rewards))
    bounds = [(0.0, 1.0)] * (2 * len(unit)) + [(None, None)] * (2 * count)
    answer = linprog(
        objective, A_ub=system, b_ub=np.zeros(len(system.indptr) - 1), bounds=bounds, method="highs"
    )
    return answer.x is not None and -float(answer.fun) > _EVIDENCE


def _built(design: Design) -> sparse.csr_array:
    n, d = design.shape
    if n * d > _LARGEST:
        raise ValueError(
            f"X is a design of {n} rows and {d} columns, and whether a reward without l2 has a minimiser is decided "
            "over all of them, built; give l2 > 0, or no reward."
        )
    return sparse.csr_array(design.columns(np.arange(d)))
