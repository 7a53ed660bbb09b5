"""Two log-sum-exps over very many rows in memory: one read of X per evaluation, and curvature from a few rows."""

from __future__ import annotations

import numpy as np

from convexrank.backend.design import centred_gram
from convexrank.core.minorants import rounding
from convexrank.modelling.log_sum_exps.terms import LogSumExpTerm

Array = np.ndarray

# Entries of a block of rows, which stays in the cache between the product with w and the products with weights.
_BLOCK = 1 << 17
# Exponents may be so far from 0 before they are shifted; a sum of exponentials below the least has lost digits.
_FAR, _LEAST = 50.0, 1e-200
# Rows that bound the curvature from below: so many per row of X and column, but not more or less than so many a column.
_WORTH, _FEWEST, _MOST = 3.2, 15, 120

# Rows, and a weight at least 0 for each.
Weighted = tuple[Array, Array]


class OnePass:
    """Evaluates the sum of two log-sum-exps, each over rows of its own, in one read of X.

    Weights are known only after all scores are: exponents are taken relative to those of the first rows.

    Parameters
    ----------
    terms : tuple of LogSumExpTerm
        Two terms without a common row.
    rows : int
        Number of rows n.
    """

    def __init__(self, terms: tuple[LogSumExpTerm, ...], rows: int) -> None:
        self._first, self._powers, self._offsets = np.zeros(rows), np.zeros(rows), np.full(rows, -np.inf)
        self._first[terms[0].rows] = 1.0
        for term in terms:
            self._powers[term.rows], self._offsets[term.rows] = term.sign_times_power, term.log_weights
        self._terms, self._base = terms, np.zeros(2)
        self._factors = np.array([term.outer_coefficient for term in terms])
        self._rates = np.array([term.rate for term in terms])

    def __call__(self, X: Array, w: Array) -> tuple[float, Array, Array] | None:
        """Return value, gradient in w and scores; None where exponents differ too much for one read."""
        n, d = X.shape
        length = max(64, _BLOCK // d)
        scores, totals, sums = np.empty(n), np.zeros(2), np.zeros((2, d))
        for start in range(0, n, length):
            block = slice(start, start + length)
            rows = X[block].astype(np.float64, copy=False)
            weights = rows @ w
            scores[block] = weights
            weights *= self._powers[block]
            weights += self._offsets[block]
            if not start:
                self._rebase(weights, length)
            np.exp(weights, out=weights)
            of_first = weights * self._first[block]
            weights -= of_first
            totals += np.add.reduce(of_first), np.add.reduce(weights)
            sums[0] += of_first @ rows
            sums[1] += weights @ rows
        if not (np.isfinite(totals).all() and (totals > _LEAST).all()):
            return None
        value = float(self._factors @ (self._base + np.log(totals)))
        return value, self._rates @ (sums / totals[:, None]), scores

    def _rebase(self, exponents: Array, length: int) -> None:
        """Take exponents relative to the largest of these, those of the first rows, where they are far from 0."""
        for place, term in enumerate(self._terms):
            seen = exponents[term.rows[: np.searchsorted(term.rows, length)]]
            top = float(seen.max(initial=-np.inf))
            if _FAR < abs(top) < np.inf:
                self._base[place] += top
                self._offsets[term.rows] -= top
                seen -= top
                exponents[term.rows[: len(seen)]] = seen


def drawn_by_weight(weights: Array, count: int) -> Array:
    """Draw so many places, each as often as its share of the weights asks: at equal steps of their running sum."""
    sums = np.cumsum(weights)
    steps = (np.arange(count) + 0.5) * (sums[-1] / count)
    return np.minimum(np.searchsorted(sums, steps), len(weights) - 1)


def covariance_of_rows(X: Array, rows: Array) -> Array:
    """Return about the covariance of some rows: products are taken in single precision, in units of the columns."""
    chosen = X[rows].astype(np.float64, copy=False)
    chosen -= chosen.mean(axis=0)
    sizes = np.sqrt(np.einsum("ij,ij->j", chosen, chosen))
    sizes[sizes == 0.0] = 1.0
    chosen /= sizes
    single = chosen.astype(np.float32)
    return (single.T @ single).astype(np.float64) * (sizes * sizes[:, None] / len(rows))


def _scatter(X: Array, parts: list[Weighted]) -> Array:
    """Return the sum over parts of the total weight times the covariance of their rows under the weights."""
    d = X.shape[1]
    found = np.zeros((d, d))
    for rows, weights in parts:
        chosen, total = X[rows].astype(np.float64, copy=False), float(weights.sum())
        chosen -= (weights @ chosen) / total
        # about the mean of what is left, so that an offset of the features costs no digits
        found += centred_gram(chosen, (weights @ chosen) / total, weights)
    return found


def bounding_rows(shape: tuple[int, int], weights: Array) -> Array:
    """Return places of rows of a matrix of that shape whose curvature bounds that of all: drawn by their weights."""
    n, d = shape
    count = int(min(max(_WORTH * n / d, _FEWEST * d), _MOST * d)) // 2
    return np.unique(drawn_by_weight(weights, count))


def modulus(X: Array, parts: list[Weighted]) -> float:
    r"""Return a number below the least eigenvalue of :math:`\sum_r c_r (x_r - m)(x_r - m)^\top`, from some of the rows.

    Where the weights c of a part are shares times a factor, that matrix is the Hessian of a log-sum-exp. Rows that are
    left out only lower it, and no other centre gives a smaller sum than the mean of the rows that are left.
    """
    chosen = [
        (rows[places], weights[places])
        for rows, weights in parts
        for places in [bounding_rows(X.shape, weights)]
    ]
    found = _scatter(X, chosen)
    trace = float(np.trace(found))
    if not np.isfinite(trace):
        return 0.0
    return max(float(np.linalg.eigvalsh(found)[0]) - 4.0 * rounding(len(X)) * trace, 0.0)


def expected_modulus(curvature: Array, shape: tuple[int, int], parts: list[Array]) -> float:
    """Return about what :func:`modulus` will be, for a Hessian of the risk and the shares of the rows of each part."""
    drawn = [bounding_rows(shape, shares) for shares in parts]
    covered = float(np.mean([shares[places].sum() for shares, places in zip(parts, drawn, strict=True)]))
    spread = (1.0 - min(np.sqrt(shape[1] / sum(map(len, drawn))), 1.0)) ** 2
    return float(np.linalg.eigvalsh(curvature)[0]) * covered * float(spread)
