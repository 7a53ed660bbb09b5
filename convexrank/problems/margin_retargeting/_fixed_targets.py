"""The halves of block coordinate descent for margin-equipped retargeting: the best targets, and the best weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from convexrank.problems.margin_retargeting._targets_bregman import BregmanTargets
from convexrank.problems.margin_retargeting._targets_squared import increasing_roots, rank_ones

if TYPE_CHECKING:
    from convexrank.problems.margin_retargeting.margin_retargeting import MarginRetargeting

__all__ = ["fit_weights"]

Array = np.ndarray

_STEPS = 60
_HALVINGS = 40
# A decrease of this share of the cost is rounding.
_ROUNDING = 1e-15


def fit_weights(problem: MarginRetargeting, targets: Array, w: Array) -> Array:
    r"""Minimise over weights and offsets with the targets held: ridge regression, or a generalised linear model.

    .. math:: \min_{w,\beta}\sum_i c_i\bigl[\phi^*(s_i) - \langle r_i, s_i\rangle + \tfrac{C_w}{2}\|s_i\|^2\bigr]
              + \tfrac{\lambda_2}{2}\|w\|^2, \qquad s_i = X_i w + \beta_i .

    Newton's method, O(n d²) a step: one for squares.

    Parameters
    ----------
    problem : MarginRetargeting
        The problem, without l1.
    targets : ndarray, shape (n,)
        The targets, query by query.
    w : ndarray, shape (d,)
        Where to begin.
    """
    half = _WeightBlock(problem, targets)
    value, gradient, hessian = half.at(w)
    for _ in range(_STEPS):
        step = -np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        predicted, length = float(gradient @ step), 1.0
        if -predicted <= _ROUNDING * max(1.0, abs(value)):
            break
        for _ in range(_HALVINGS):
            found = half.at(w + length * step)
            if found[0] <= value + 1e-4 * length * predicted:
                break
            length *= 0.5
        else:
            break
        w = w + length * step
        value, gradient, hessian = found
        if problem.quadratic:
            break
    return w


class _WeightBlock:
    """The cost of weights for given targets, with the best offsets."""

    def __init__(self, problem: MarginRetargeting, targets: Array) -> None:
        self.problem, self.targets = problem, targets
        self.cost = BregmanTargets(problem.rules, problem.divergence)
        self.offsets = np.zeros(len(problem.groups))

    def at(self, w: Array) -> tuple[float, Array, Array]:
        """Value, gradient and Hessian in w."""
        problem, cost, r = self.problem, self.cost, self.targets
        groups, rules, rows = problem.groups, problem.rules, problem._dense_rows
        query, reg, weights = groups.query, rules.score_reg, problem.query_weights
        scores = rows @ w
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if rules.offsets:
                self.offsets = self._best_offsets(scores)
            s = scores + self.offsets[query]
            p = cost.predictions(s)
            values = cost.conjugates(s) + groups.sums(0.5 * reg * s * s - r * s)
            slope = weights[query] * (p - r + reg * s)
            bends = (p if cost.simplex else 1.0 / cost.curvature(p)) + reg
            hessian = ((weights[query] * bends)[:, None] * rows).T @ rows
            if cost.simplex:
                hessian -= rank_ones(groups, p, rows, weights)
                if rules.offsets and reg:
                    hessian -= reg * rank_ones(groups, np.ones_like(p), rows, weights)
            elif rules.offsets:
                hessian -= rank_ones(groups, bends, rows, weights)
        value = float(weights @ values) + 0.5 * problem.l2 * float(w @ w)
        return value, rows.T @ slope + problem.l2 * w, hessian + problem.l2 * np.eye(len(w))

    def _best_offsets(self, scores: Array) -> Array:
        groups, divergence, reg = self.problem.groups, self.problem.divergence, self.problem.rules.score_reg
        if self.cost.simplex:
            return -groups.sums(scores) / groups.sizes
        sums = groups.sums(self.targets)
        if self.problem.quadratic:
            return (sums / (1.0 + reg) - groups.sums(scores)) / groups.sizes

        def excess(offsets: Array) -> tuple[Array, Array, Array]:
            s = scores + offsets[groups.query]
            p = divergence._point(s)
            sizes = groups.sums(np.abs(p) + reg * np.abs(s)) + np.abs(sums)
            rise = groups.sums(1.0 / divergence._curvature(p) + reg)
            return groups.sums(p + reg * s) - sums, rise, sizes

        return increasing_roots(excess, self.offsets, 1e-14)
