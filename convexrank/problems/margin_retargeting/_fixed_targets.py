"""Regression on given targets, one block of coordinate descent, for margin-equipped retargeting."""

from __future__ import annotations

import numpy as np

from convexrank.problems._damped_newton import damped_newton
from convexrank.problems.margin_retargeting._joint_cost import JointCost, rank_ones
from convexrank.problems.margin_retargeting._targets_squared import increasing_roots

Array = np.ndarray


def fit_weights(cost: JointCost, rows: Array, l2: float, targets: Array, w: Array) -> Array:
    r"""Minimise over weights and offsets with fixed targets: ridge regression, or a generalised linear model.

    .. math:: \min_{w,\beta}\sum_i c_i\bigl[\phi^*(s_i) - \langle r_i, s_i\rangle + \tfrac{C_w}{2}\|s_i\|^2\bigr]
              + \tfrac{\lambda_2}{2}\|w\|^2, \qquad s_i = X_i w + \beta_i .

    Newton's method, O(n d²) per step; squares need one step.

    Parameters
    ----------
    cost : JointCost
        The joint cost.
    rows : ndarray, shape (n, d)
        Features, query by query.
    l2 : float
        Strength.
    targets : ndarray, shape (n,)
        The targets, query by query.
    w : ndarray, shape (d,)
        Where to begin.
    """
    groups, query, weights, reg = cost.groups, cost.groups.query, cost.query_weights, cost.score_reg
    offsets = np.zeros(len(groups))

    def best_offsets(scores: Array) -> Array:
        if cost.simplex:
            return -groups.sums(scores) / groups.sizes
        if cost.quadratic:
            return (groups.sums(targets) / (1.0 + reg) - groups.sums(scores)) / groups.sizes
        return increasing_roots(lambda beta: cost.imbalance(scores + beta[query], targets), offsets)

    def evaluate(w: Array) -> tuple[float, Array, Array]:
        nonlocal offsets
        scores = rows @ w
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if cost.offsets:
                offsets = best_offsets(scores)
            s = scores + offsets[query]
            p = cost.predictions(s)
            values = cost.conjugates(s) + groups.sums(0.5 * reg * s * s - targets * s)
            bends = cost.bends(p) + reg
            hessian = ((weights[query] * bends)[:, None] * rows).T @ rows
            if cost.simplex:
                hessian -= rank_ones(groups, p, rows, weights)
                if cost.offsets and reg:
                    hessian -= reg * rank_ones(groups, np.ones_like(p), rows, weights)
            elif cost.offsets:
                hessian -= rank_ones(groups, bends, rows, weights)
        value = float(weights @ values) + 0.5 * l2 * float(w @ w)
        gradient = rows.T @ (weights[query] * (p - targets + reg * s)) + l2 * w
        return value, gradient, hessian + l2 * np.eye(len(w))

    return damped_newton(evaluate, w)
