"""Rows out of memory for risks made of log-sum-exps over positives and over negatives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data.shards.sums import compensated_sum
from convexrank.problems._streams import LogSums, Stream, shared
from convexrank.problems.bipartite._boosting_oracle import LogSumExpTerm, log_sum_exp_gradient

__all__ = ["LogStream", "Spread"]

Array = np.ndarray


class LogPortion:
    """A piece: the problem with its rows alone, whose shares are those of all rows."""

    def __init__(self, problem: Any) -> None:
        self.problem = problem

    def contributions(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return factors, values and gradients of the log-sum-exps."""
        terms = self.problem.terms
        values, pulls = np.empty(len(terms)), np.zeros((len(terms), len(scores)))
        for place, term in enumerate(terms):
            values[place], shares = log_sum_exp_gradient(term.exponents(scores))
            shares *= term.sign_times_power
            pulls[place, term.rows] = shares
        return np.array([term.outer_coefficient for term in terms]), values, pulls

    def reference(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return the same from the definition."""
        levels = self.problem.reference_levels(scores)
        pulls = np.zeros((len(levels), len(scores)))
        for place, (_, _, rows, pull) in enumerate(levels):
            pulls[place, rows] = pull
        return np.array([one[0] for one in levels]), np.array([one[1] for one in levels]), pulls


@dataclass(frozen=True, eq=False)
class Spread:
    """Moments of log-sum-exps: values (m,), means of rows (m, d) and of rows times v (m,), covariances times v (m, d).

    The weights of the rows are their softmax. Parts are merged about the common mean, where nothing cancels.
    """

    values: Array
    means: Array
    along: Array
    products: Array

    @classmethod
    def of(cls, terms: tuple[LogSumExpTerm, ...], X: Any, w: Array, v: Array) -> Spread:
        """Return the moments of the rows of one matrix."""
        scores, steps = (np.asarray(X @ vector, dtype=np.float64) for vector in (w, v))
        found = []
        for term in terms:
            value, shares = log_sum_exp_gradient(term.exponents(scores))
            rows, weights, apart = term.rows, np.zeros(len(scores)), np.zeros(len(scores))
            along = float(shares @ steps[rows])
            weights[rows], apart[rows] = shares, shares * (steps[rows] - along)
            found.append((value, np.asarray(X.T @ weights), along, np.asarray(X.T @ apart)))
        return cls(*(np.array(column, dtype=np.float64) for column in zip(*found, strict=True)))

    @classmethod
    def together(cls, parts: list[Spread]) -> Spread:
        """Return the moments of the rows of all parts."""
        values, shares = shared(np.array([part.values for part in parts]))
        all_means, all_along = (
            np.array([part.means for part in parts]),
            np.array([part.along for part in parts]),
        )
        means, along = compensated_sum(shares[:, :, None] * all_means), compensated_sum(shares * all_along)
        apart = (all_means - means) * (all_along - along)[:, :, None]
        products = np.array([part.products for part in parts]) + apart
        return cls(values, means, along, compensated_sum(shares[:, :, None] * products))

    def packed(self) -> Array:
        """Return all as one vector."""
        return np.concatenate((self.values, self.along, self.means.ravel(), self.products.ravel()))

    @classmethod
    def unpacked(cls, vector: Array, count: int) -> Spread:
        """Return the moments of this number of log-sum-exps from their packed form."""
        values, along, rest = np.split(vector, [count, 2 * count])
        means, products = rest.reshape(2, count, -1)
        return cls(values, means, along, products)


class LogStream(Stream):
    """Evaluates a problem whose risk is a weighted sum of log-sum-exps, piece by piece."""

    kind = LogSums

    def __init__(self, problem: Any) -> None:
        super().__init__(problem)
        weights = problem.sample_weight
        counted = (problem._counted(True), problem._counted(False))
        self._totals = [float(rows.sum() if weights is None else weights[rows].sum()) for rows in counted]

    @property
    def terms(self) -> tuple[LogSumExpTerm, ...]:
        """The log-sum-exps of the first row: their factors and powers are those of all."""
        return self._alone(slice(0, 1)).terms

    def count(self, reference: bool) -> int:
        """Return how many log-sum-exps there are."""
        return self._counts[reference]

    @cached_property
    def _counts(self) -> tuple[int, int]:
        return len(self.terms), len(self._alone(slice(0, 1)).reference_levels(np.zeros(1)))

    def spread(self, w: Array, v: Array) -> Spread:
        """Return the moments of all rows for a product of the Hessian with v: one pass."""
        count, columns = self.count(False), len(w)

        def packed() -> Array:
            total = None
            for portion, X in self.portions():
                part = Spread.of(portion.problem.terms, X, w, v)
                total = part if total is None else Spread.together([total, part])
            if total is None:  # of no rows
                return np.concatenate((np.full(count, -np.inf), np.zeros(count * (1 + 2 * columns))))
            return total.packed()

        rows = self.problem.X.across(packed, 2 * count * (1 + columns), w.tobytes() + v.tobytes())
        return Spread.together([Spread.unpacked(row, count) for row in rows])

    def portions(self) -> Iterator[tuple[LogPortion, Any]]:
        """Go through the pieces once.

        Yields
        ------
        tuple of LogPortion and matrix
            A piece.
        """
        for piece in self.problem.X.pieces():
            yield LogPortion(self._alone(piece.rows)), piece.X

    def _alone(self, rows: slice) -> Any:
        """The problem with some rows alone, without their features."""
        whole = self.problem
        made = object.__new__(type(whole))
        made.__dict__.update({name: whole.__dict__[name] for name in type(whole).__dataclass_fields__})
        weights = None if whole.sample_weight is None else whole.sample_weight[rows]
        made.__dict__.update(
            X=np.empty((rows.stop - rows.start, 0)),
            y=None,
            sample_weight=weights,
            _labels=whole._labels[rows],
        )
        for name, counts, total in zip(("positive", "negative"), _weights(made), self._totals, strict=True):
            made.__dict__[f"log_{name}_shares"] = np.log(counts / total)
        return made


def _weights(alone: Any) -> tuple[Any, Any]:
    """The weights of positives and of negatives: one number where all count alike."""
    if alone.sample_weight is None:
        return 1.0, 1.0
    return alone.positive_weights, alone.negative_weights
