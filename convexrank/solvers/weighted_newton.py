r"""Newton's method for many weightings of the same rows at once: bootstraps, folds and strengths of l2.

For a sum of log-sum-exps of groups G_m, weights c of problem b and scores θ, the shares are
:math:`s_{br} = c_{br} e^{t\theta_r} / \sum_{r'} c_{br'} e^{t\theta_{r'}}`. Gradient and Hessian in w are means and
covariances of the rows under these shares. So the Hessians of a block of problems are one product of the shares, shape
(B, g), with the products of all pairs of columns, shape (g, d(d + 1)/2), which are formed once. From one point for all
problems the exponentials are those of one point, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.deadline import check_time

Array = np.ndarray

# Problems that take their steps together; their shares stay in the cache.
_BLOCK = 64
# Numbers that the products of pairs of columns may take.
_MOST = 1 << 26
# Steps, and how far below the tolerance the estimate of the gap has to be: the certificate adds rounding.
_STEPS, _BELOW = 8, 0.5


@dataclass(frozen=True)
class _Group:
    """A log-sum-exp: its rows, their products by pairs of columns, and its two numbers."""

    rows: Array
    X: Array
    products: Array
    power: float
    factor: float


def points_by_grams(problems: Sequence[Any]) -> Any:
    """Return the function that solves problems together; None where their rows are not dense, or are too many.

    Parameters
    ----------
    problems : sequence of Problem
        Problems with one X whose risks are sums of log-sum-exps, with l2, which differ in weights of rows and l2.

    Returns
    -------
    callable
        From the problems, one point and a tolerance to points, one per row.
    """
    X, columns = problems[0].X, problems[0].dimension
    plain = isinstance(X, np.ndarray) and X.dtype == np.float64
    if not plain or len(X) * (columns * (columns + 1) // 2) > _MOST:
        return None
    return _points


def _points(problems: Sequence[Any], first: Array, tol: float) -> Array:
    X = problems[0].X
    # all rows that count in some problem, with weights 1: constants beside the exponents have no effect on shares
    terms = problems[0].changed(sample_weight=None).log_sum_exps.terms
    above, below = np.triu_indices(X.shape[1])
    groups = []
    for term in terms:
        rows = X[term.rows]
        products = rows[:, above] * rows[:, below]
        groups.append(_Group(term.rows, rows, products, term.sign_times_power, term.outer_coefficient))
    found = np.empty((len(problems), X.shape[1]))
    for start in range(0, len(problems), _BLOCK):
        part = problems[start : start + _BLOCK]
        found[start : start + _BLOCK] = _Block(groups, part, (above, below)).solved(first, tol)
    return found


class _Block:
    """Some problems, and steps of all of them."""

    def __init__(self, groups: list[_Group], problems: Sequence[Any], places: tuple[Array, Array]) -> None:
        self.groups, self.places = groups, places
        weights = [each.sample_weight for each in problems]
        if all(each is None for each in weights):
            self.counts: list[Array | None] = [None] * len(groups)
        else:
            n = len(problems[0].X)
            full = np.array([np.ones(n) if each is None else each for each in weights])
            self.counts = [full[:, group.rows] for group in groups]
        self.l2 = np.array([each.l2 for each in problems])

    def solved(self, first: Array, tol: float) -> Array:
        """Take steps until the estimates of all gaps meet the tolerance; points of problems that fail are NaN."""
        w = np.tile(first, (len(self.l2), 1))
        for step in range(_STEPS):
            check_time()
            shared = step == 0
            value, gradient, means, shares = self._first_order(w, shared)
            enough = _BELOW * tol * np.maximum(1.0, np.abs(value))
            open_ = ~(np.einsum("bd,bd->b", gradient, gradient) <= 2.0 * self.l2 * enough)
            if not open_.any():
                return w
            move = self._direction(gradient, means, shares, open_)
            w = w.copy()
            w[open_] += move
        w[open_] = np.nan
        return w

    def _first_order(self, w: Array, shared: bool) -> tuple[Array, Array, list[Array], list[Array]]:
        """Values up to a constant, gradients, and means and shares of each group."""
        value, gradient = 0.5 * self.l2 * np.einsum("bd,bd->b", w, w), self.l2[:, None] * w
        means, shares = [], []
        for group, counts in zip(self.groups, self.counts, strict=True):
            exponents = (w[:1] if shared else w) @ group.X.T
            exponents *= group.power
            tops = exponents.max(axis=1, keepdims=True)
            exponents -= tops
            masses = np.exp(exponents, out=exponents)
            if counts is not None:
                masses = counts * masses
            elif shared:
                masses = np.broadcast_to(masses, (len(w), masses.shape[1]))
            totals = masses.sum(axis=1, keepdims=True)
            mean = masses @ group.X / totals
            value = value + group.factor * (tops + np.log(totals))[:, 0]
            gradient = gradient + group.factor * group.power * mean
            means.append(mean)
            shares.append(masses / totals)
        return value, gradient, means, shares

    def _direction(self, gradient: Array, means: list[Array], shares: list[Array], open_: Array) -> Array:
        count, d = int(open_.sum()), gradient.shape[1]
        upper, hessians = np.zeros((count, len(self.places[0]))), np.zeros((count, d, d))
        for group, mean, part in zip(self.groups, means, shares, strict=True):
            bend = group.factor * group.power**2
            mean = mean[open_]
            upper += bend * (part[open_] @ group.products)
            hessians -= bend * mean[:, :, None] * mean[:, None, :]
        above, below = self.places
        hessians[:, above, below] += upper
        off = above != below
        hessians[:, below[off], above[off]] += upper[:, off]
        hessians[:, np.arange(d), np.arange(d)] += self.l2[open_, None]
        return -np.linalg.solve(hessians, gradient[open_][:, :, None])[:, :, 0]
