"""A smooth function below the hinges of the pairs of each query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from convexrank.backend.gram import dense, squares_times, times, transposed_times, weighted_gram
from convexrank.data import QueryGroups
from convexrank.pair_sums.margin_window import WindowSums, window_pairs, window_sums
from convexrank.problems._smoothed import Smoothed

__all__ = ["PairRows", "smoothed_pairs"]

Array = np.ndarray

# Pairs for each row, and for each unknown, on which a Hessian rests. Where more are at the margin, every so many-th
# stands for the others: a direction may be rough, where it ends is decided by the gradient.
_PAIRS_PER_ROW, _PAIRS_PER_UNKNOWN = 10, 200


@dataclass(frozen=True)
class PairRows:
    """The rows of all queries, laid out query by query.

    Parameters
    ----------
    rows : matrix, shape (n, d)
        Their features.
    ranks : ndarray of int, shape (n,)
        Their grades, as small numbers.
    groups : QueryGroups
        The layout.
    weights : ndarray, shape (n,)
        The weight of each pair of the row's query.
    """

    rows: Any
    ranks: Array
    groups: QueryGroups
    weights: Array

    def sums(self, scores: Array, width: float) -> WindowSums:
        """Return the sums over pairs."""
        return window_sums(self.centred(scores), self.ranks, self.groups, width)

    def centred(self, scores: Array) -> Array:
        """Return the scores less the mean of their query: only differences matter."""
        return scores - (self.groups.sums(scores) / self.groups.sizes)[self.groups.query]


@dataclass(frozen=True)
class _InWeights:
    pairs: PairRows
    scores: Array
    width: float
    sums: WindowSums

    def pulled(self, multipliers: Array) -> Array:
        """Return Xᵀu."""
        weighted = self.pairs.weights * multipliers
        return np.asarray(transposed_times(self.pairs.rows, weighted), dtype=np.float64)

    def slope(self) -> Array:
        """Return the gradient."""
        return self.pulled(self.sums.saturated + self.sums.between)

    def drift(self) -> Array:
        """Return the derivative of the gradient in the width: multipliers between 0 and 1 fall as 1/μ."""
        return self.pulled(-self.sums.between / self.width)

    @cached_property
    def _curved(self) -> tuple[Array, Array, Array]:
        """Places of the rows of pairs at the margin, and what each pair adds to the curvature."""
        pairs, count = self.pairs, self.sums.count
        rows = len(self.scores)
        most = min(_PAIRS_PER_ROW * rows, _PAIRS_PER_UNKNOWN * min(rows, pairs.rows.shape[1]))
        every = max(1, -(-count // most))
        chosen = window_pairs(pairs.centred(self.scores), pairs.ranks, pairs.groups, self.width, every, most)
        upper, lower = chosen
        return upper, lower, pairs.weights[upper] * (every / self.width)

    @cached_property
    def _touched(self) -> tuple[Any, Array, Array, Array]:
        """The rows of those pairs, each once, the places of the pairs among them, and what a pair adds."""
        upper, lower, weights = self._curved
        places, ends = np.unique(np.concatenate([upper, lower]), return_inverse=True)
        return self.pairs.rows[places], ends[: len(upper)], ends[len(upper) :], weights

    def product(self) -> Callable[[Array], Array]:
        """Return the product with the Hessian."""
        rows, upper, lower, weights = self._touched

        def product(v: Array) -> Array:
            image = np.asarray(times(rows, v), dtype=np.float64)
            turned = weights * (image[upper] - image[lower])
            back = np.bincount(upper, turned, len(image)) - np.bincount(lower, turned, len(image))
            return np.asarray(transposed_times(rows, back), dtype=np.float64)

        return product

    def diagonal(self) -> Array:
        """Return about what the diagonal of the Hessian is: without products of the two rows of a pair."""
        rows, upper, lower, weights = self._touched
        count = rows.shape[0]
        return squares_times(rows, np.bincount(upper, weights, count) + np.bincount(lower, weights, count))

    def matrix(self) -> Array:
        """Return the Hessian."""
        upper, lower, weights = self._curved
        return dense(weighted_gram(self.pairs.rows[upper] - self.pairs.rows[lower], weights))

    def along(self, direction: Array) -> Callable[[float], tuple[float, float]]:
        """Return value and derivative on a line."""
        pairs, image = self.pairs, np.asarray(times(self.pairs.rows, direction), dtype=np.float64)
        turned = pairs.weights * image

        def at(length: float) -> tuple[float, float]:
            sums = pairs.sums(self.scores + length * image, self.width)
            return float(pairs.weights @ sums.value), float(turned @ (sums.saturated + sums.between))

        return at


def smoothed_pairs(pairs: PairRows, scores: Array, width: float) -> Smoothed:
    """Return the smooth function of w at the scores of the rows, laid out query by query."""
    sums = pairs.sums(scores, width)
    inside = _InWeights(pairs, scores, width, sums)
    return Smoothed(
        risk=float(pairs.weights @ sums.risk),
        value=float(pairs.weights @ sums.value),
        offset=float(pairs.weights @ sums.offset),
        slope=inside.slope(),
        drift=inside.drift,
        product=inside.product,
        diagonal=inside.diagonal,
        matrix=inside.matrix,
        along=inside.along,
    )
