"""Second derivatives of the joint cost in the scores: what working sets need."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from convexrank.core.score_model import Curvature
from convexrank.problems.margin_retargeting._joint_cost import Fit, JointCost

__all__ = ["score_curvature"]

Array = np.ndarray


def score_curvature(cost: JointCost, fit: Fit, scores: Array) -> Curvature:
    """Return the generalised Hessian of the cost in the scores, query by query: (3.20) with the constraints taken in.

    What :meth:`JointCost.second_order` sums over rows of X: a pool of targets takes one product away, and so does an
    offset. A pool of one row is part of the diagonal.
    """
    chain, groups, weights, reg = fit.chain, cost.groups, cost.query_weights, cost.score_reg
    p = chain.gather(cost.predictions(scores + fit.offsets[groups.query]))
    with np.errstate(divide="ignore"):
        bends, curved = cost.bends(p) + reg, cost.divergence._curvature(chain.gather(fit.targets))
    starts, sizes, masses = fit.pool_masses((1.0 + cost.target_reg) * curved)
    along = weights[groups.query]
    diagonal, taken = along * bends, along[starts] / masses
    alone = sizes == 1
    diagonal[starts[alone]] -= taken[alone]
    pools = np.repeat(np.cumsum(~alone) - 1, sizes)
    rows = np.flatnonzero(np.repeat(~alone, sizes))
    shares = [
        sparse.csc_array((np.ones(len(rows)), (rows, pools[rows])), shape=(groups.rows, int((~alone).sum())))
    ]
    rates = [taken[~alone]]

    def take(vectors: Array, sign: float) -> None:
        """Take c·vvᵀ/Σv of each query away, or add it."""
        totals = groups.sums(vectors)
        with np.errstate(divide="ignore", invalid="ignore"):
            rates.append(np.where(totals > 0.0, sign * weights / totals, 0.0))
        shape = (groups.rows, len(groups))
        shares.append(sparse.csc_array((vectors, np.arange(groups.rows), groups.offsets), shape=shape))

    moves = np.repeat(sizes / masses, sizes)  # what a common shift of the predictors does to each target
    if cost.simplex:
        take(moves, -1.0)
        take(p, 1.0)
        if cost.offsets and reg:
            take(np.ones_like(p), reg)
    elif cost.offsets:
        take(bends - moves, 1.0)
    found = sparse.csr_array(sparse.hstack(shares, format="csr"))
    back = np.empty(groups.rows, dtype=np.int64)
    back[chain.order] = np.arange(groups.rows)
    return Curvature(diagonal[back], sparse.csc_array(found[back]), np.concatenate(rates))
