"""Rows out of memory for risks that are sums of log-sum-exps of groups of rows of one query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data.shards.local import compensated_sum
from convexrank.modelling.groups import Groups
from convexrank.modelling.log_sum_exps.sums import LogSumExps
from convexrank.modelling.log_sum_exps.terms import LogSumExpTerm, log_sum_exp_gradient, log_sum_exps
from convexrank.problems.out_of_memory._streams import LogSums, Portion, Stream, shared

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class LogPortion(Portion):
    """A piece: its log-sum-exps, with the shares of its rows of all rows."""

    terms: tuple[LogSumExpTerm, ...]

    def contributions(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return factors, values and gradients of the log-sum-exps."""
        values, pulls = np.empty(len(self.terms)), np.zeros((len(self.terms), len(scores)))
        for place, term in enumerate(self.terms):
            values[place], shares = log_sum_exp_gradient(term.exponents(scores))
            shares *= term.sign_times_power
            pulls[place, term.rows] = shares
        return np.array([term.outer_coefficient for term in self.terms]), values, pulls

    def reference(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return the same by code that no solver runs."""
        levels = LogSumExps(self.terms, len(scores)).levels(scores)
        pulls = np.zeros((len(levels), len(scores)))
        for place, (term, _, shares) in enumerate(levels):
            pulls[place, term.rows] = term.sign_times_power * shares
        factors = np.array([term.outer_coefficient for term in self.terms])
        return factors, np.array([level for _, level, _ in levels]), pulls


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
    """Evaluates a problem whose risk is a weighted sum of log-sum-exps, piece by piece.

    Parameters
    ----------
    problem : Formulation
        The problem, whose X are Chunks.
    """

    kind = LogSums

    def _terms(self, rows: slice) -> tuple[LogSumExpTerm, ...]:
        """The log-sum-exps of some rows, with their shares of all rows."""
        whole = self.problem
        weights = None if whole.sample_weight is None else whole.sample_weight[rows]
        found = log_sum_exps(whole.risk(Groups.part(whole._positives[rows], weights)), self._totals)
        if found is None:
            raise TypeError(f"the risk of {type(whole).__name__} has another form for a part of the rows.")
        return found

    @cached_property
    def _totals(self) -> dict[str, float]:
        """The total weight of each group."""
        counts, positives = self.problem.sample_weight, self.problem._positives
        whole = float(len(positives) if counts is None else counts.sum())
        upper = float(np.count_nonzero(positives) if counts is None else counts @ positives)
        return {"positive": upper, "negative": whole - upper, "rows": whole}

    @cached_property
    def terms(self) -> tuple[LogSumExpTerm, ...]:
        """The log-sum-exps of the first row: their factors and powers are those of all."""
        return self._terms(slice(0, 1))

    def count(self, reference: bool) -> int:
        """Return how many log-sum-exps there are."""
        return len(self.terms)

    def hessian_product(self, w: Array, v: Array) -> Array:
        """Return the Hessian of the risk at w times v: one pass."""
        return LogSumExps(self.terms, len(self.problem.y)).rates[1] @ self.spread(w, v).products

    def spread(self, w: Array, v: Array) -> Spread:
        """Return the moments of all rows for a product of the Hessian with v: one pass."""
        count, columns = len(self.terms), len(w)

        def packed() -> Array:
            total = None
            for portion, X in self.portions():
                part = Spread.of(portion.terms, X, w, v)
                total = part if total is None else Spread.together([total, part])
            if total is None:  # of no rows
                return np.concatenate((np.full(count, -np.inf), np.zeros(count * (1 + 2 * columns))))
            return total.packed()

        rows = self.problem.X.across(packed, 2 * count * (1 + columns), w.tobytes() + v.tobytes())
        return Spread.together([Spread.unpacked(row, count) for row in rows])

    def portions(self) -> Iterator[tuple[LogPortion, Any]]:
        """Yield the pieces once.

        Yields
        ------
        tuple of LogPortion and matrix
            A piece.

        Raises
        ------
        TypeError
            When factors of the risk depend on which rows it is evaluated for.
        """
        for piece in self.problem.X.pieces():
            portion = LogPortion(self._terms(piece.rows))
            if _factors(portion.terms) != _factors(self.terms):
                raise TypeError(
                    f"{self.problem.X!r} are rows out of memory, but the factors of the risk depend on the rows that "
                    "f holds; write them with means and totals, or as parameters of the formulation."
                )
            yield portion, piece.X


def _factors(terms: tuple[LogSumExpTerm, ...]) -> list[tuple[float, float]]:
    return [(term.outer_coefficient, term.sign_times_power) for term in terms]
