r"""Newton's method for many weightings of the same rows at once: bootstraps, folds and strengths of l2.

For a sum of log-sum-exps of groups G_m, weights c of problem b and scores θ, the shares are
:math:`s_{br} = c_{br} e^{t\theta_r} / \sum_{r'} c_{br'} e^{t\theta_{r'}}`. Gradient and Hessian in w are means and
covariances of the rows under these shares. So the Hessians of a block of problems are one product of the shares, shape
(B, g), with the products of all pairs of columns, shape (g, d(d + 1)/2), which are formed once. From one point for all
problems the exponentials are those of one point, too. Products are in single precision as far as that tells gradients
of the length that the tolerance asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.threads import in_threads
from convexrank.modelling.log_sum_exps.weighted_rows import WeightedRows, WeightedTerm

Array = np.ndarray

# Numbers of a block of problems, one for each row: they stay in the cache.
_BLOCK = 1 << 17
# Numbers that the products of pairs of columns may take.
_MOST = 1 << 26
# Steps, and how far below the tolerance the estimate of the gap has to be: the certificate adds rounding.
_STEPS, _BELOW = 8, 0.5
# Gradients this short, as a share of the longest possible one, are not told by single precision.
_SINGLE = 5e-7


def points_by_grams(problems: WeightedRows, first: Array, tol: float) -> Array:
    """Solve problems together.

    Parameters
    ----------
    problems : WeightedRows
        The problems.
    first : ndarray, shape (d,) or (B, d)
        Where all of them begin, or each.
    tol : float
        The tolerance of each.

    Returns
    -------
    ndarray, shape (B, d)
        The points, NaN for problems that more steps would be needed for, or more memory.
    """
    columns, count = first.shape[-1], len(problems.l2)
    above, below = np.triu_indices(columns)
    if sum([len(term.rows) for term in problems.terms]) * len(above) > _MOST:
        return np.full((count, columns), np.nan)
    longest = sum([abs(term.power * term.factor) * float(term.lengths.max()) for term in problems.terms])
    single = float(np.sqrt(2.0 * problems.l2.min() * _BELOW * tol)) >= _SINGLE * longest
    kind = np.float32 if single else np.float64
    groups = [_Group.of(term, kind, (above, below)) for term in problems.terms]
    size = max(1, _BLOCK // max(len(group.rows) for group in groups))
    blocks = [slice(start, start + size) for start in range(0, count, size)]

    def solved(block: slice) -> Array:
        return _Block(groups, problems, block).solved(first if first.ndim == 1 else first[block], tol)

    return np.concatenate(list(in_threads(solved, blocks)))


@dataclass(frozen=True)
class _Group:
    """A log-sum-exp: its rows about their mean, their products by pairs of columns, and its numbers."""

    rows: Array
    X: Array
    mean: Array
    products: Array
    places: tuple[Array, Array]
    power: float
    factor: float
    logs: Any

    @classmethod
    def of(cls, term: WeightedTerm, kind: Any, places: tuple[Array, Array]) -> _Group:
        # about the mean, so that an offset of the features costs no digits; shares do not notice
        mean = term.X.mean(axis=0)
        X = (term.X - mean).astype(kind)
        products = X[:, places[0]] * X[:, places[1]]
        logs = term.logs.astype(kind) if isinstance(term.logs, np.ndarray) else None
        return cls(term.rows, X, mean, products, places, term.power, term.factor, logs)

    @property
    def rate(self) -> float:
        return self.power * self.factor


class _Block:
    """Some problems, and steps of all of them."""

    def __init__(self, groups: list[_Group], problems: WeightedRows, block: slice) -> None:
        self.groups, self.l2 = groups, problems.l2[block]
        self.constant = np.zeros(len(self.l2))
        self.counts: list[Array | None] = []
        for group, term in zip(groups, problems.terms, strict=True):
            counts = (
                None if problems.weights is None else problems.weights[block, term.rows].astype(group.X.dtype)
            )
            self.counts.append(counts)
            if group.logs is None:
                self.constant += term.factor * term.logs
            if counts is not None:
                self.constant += term.factor * term.of_all(counts.sum(axis=1, dtype=np.float64))

    def solved(self, first: Array, tol: float) -> Array:
        """Take steps until the estimates of all gaps meet the tolerance; points of problems that fail are NaN."""
        w, before = np.empty((len(self.l2), first.shape[-1])), np.zeros(0)
        w[:] = first
        for step in range(_STEPS):
            value, gradient, means, shares = self._first_order(w, shared=step == 0 and first.ndim == 1)
            gap = np.vecdot(gradient, gradient) / (2.0 * self.l2)
            enough = _BELOW * tol * np.maximum(1.0, np.abs(value))
            open_ = ~(gap <= enough)
            if not open_.any():
                return w
            w[open_] += self._direction(gradient, means, shares, open_)
            # errors of Newton's method are squared: where that is enough there is no look at the gradient
            if step and (gap * (gap / before) ** 2 <= enough)[open_].all():
                return w
            before = gap
        w[open_] = np.nan
        return w

    def _first_order(self, w: Array, shared: bool) -> tuple[Array, Array, list[Array], list[Array]]:
        """Values, gradients, and means and shares of each group."""
        value, gradient = self.constant + 0.5 * self.l2 * np.vecdot(w, w), self.l2[:, None] * w
        means, shares = [], []
        for group, counts in zip(self.groups, self.counts, strict=True):
            points = (w[:1] if shared else w).astype(group.X.dtype)
            exponents = points @ group.X.T
            exponents *= group.X.dtype.type(group.power)
            if group.logs is not None:
                exponents += group.logs
            tops = exponents.max(axis=1, keepdims=True)
            exponents -= tops
            masses = np.exp(exponents, out=exponents)
            if counts is not None:
                masses = np.multiply(counts, masses, out=None if shared else masses)
            elif shared:
                masses = np.repeat(masses, len(w), axis=0)
            totals = masses.sum(axis=1, keepdims=True)
            masses /= totals
            mean = (masses @ group.X).astype(np.float64)
            value = value + group.factor * (tops + np.log(totals))[:, 0] + group.rate * (w @ group.mean)
            gradient = gradient + group.rate * (mean + group.mean)
            means.append(mean)
            shares.append(masses)
        return value, gradient, means, shares

    def _direction(self, gradient: Array, means: list[Array], shares: list[Array], open_: Array) -> Array:
        count, d = int(open_.sum()), gradient.shape[1]
        above, below = self.groups[0].places
        upper = np.zeros((count, len(above)))
        for group, mean, part in zip(self.groups, means, shares, strict=True):
            bend, centre = group.rate * group.power, mean[open_]
            upper += bend * (part[open_] @ group.products - centre[:, above] * centre[:, below])
        places = np.empty((d, d), dtype=np.intp)
        places[above, below] = places[below, above] = np.arange(len(above))
        hessians = upper[:, places]
        hessians[:, np.arange(d), np.arange(d)] += self.l2[open_, None]
        return -np.linalg.solve(hessians, gradient[open_][:, :, None])[:, :, 0]
