"""A Hessian in the making: a diagonal and products of columns of each query."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.modelling.expressions import (
    Axis,
)
from convexrank.modelling.program import Program

Array = np.ndarray
# Columns are multiples of one another, up to rounding relative to their size.
_SAME = 1e-14


class Columns:
    """The Hessian in the making: diag(h) + Σ rate/2 (left rightᵀ + right leftᵀ) in each query."""

    def __init__(self, program: Program) -> None:
        self.program, self.count = program, program.count
        self.diagonal, self.ones = np.zeros(program.rows), np.ones(program.count)
        self.products: list[tuple[Array, Array, Array]] = []

    def copy(self) -> Columns:
        """Return the same, to which more may be added."""
        made = copy(self)
        made.diagonal, made.products = self.diagonal.copy(), self.products.copy()
        return made

    def merge(self) -> None:
        """Join products of columns that are multiples of one another in each query, as of what is centred."""
        joined: list[list[Array]] = []
        apart = []
        for left, right, rate in self.products:
            for one in [*joined, [right, np.zeros(self.count)]]:
                factors = [self._multiple(column, one[0]) for column in (left, right)]
                if factors[0] is not None and factors[1] is not None:
                    if not any(one is known for known in joined):
                        joined.append(one)
                    one[1] = one[1] + rate * factors[0] * factors[1]
                    break
            else:
                apart.append((left, right, rate))
        self.products = [*((column, column, rate) for column, rate in joined), *apart]

    def _multiple(self, column: Array, of: Array) -> Array | None:
        """By what a column is a multiple of another in each query; None where it is none, up to rounding."""
        (rows, starts), size = self.program.by_query, float(np.abs(column).max())
        squares = np.add.reduceat((of * of)[rows], starts[:-1])
        factors = np.add.reduceat((column * of)[rows], starts[:-1]) / np.where(squares > 0.0, squares, 1.0)
        rest = column[rows] - factors.repeat(np.diff(starts)) * of[rows]
        return factors if float(np.abs(rest).max()) <= _SAME * size else None

    def on_rows(self, axis: Axis, values: Any) -> Array:
        """Return a column of all rows, 0 beside those of an axis."""
        column = np.zeros(len(self.diagonal))
        column[axis.places] = values
        return column

    def add(self, axis: Axis | None, d: Array, own: Any, terms: list[tuple[Any, Array]]) -> None:
        """Add Jᵀ diag(d) J for the Jacobian J of the entries of an axis: own · e_row + Σ b · column."""
        if axis is not None:
            self.diagonal[axis.places] += (
                d if isinstance(own, float) and own * own == 1.0 else d * (own * own)
            )
        if not terms:
            return
        for place, (b, column) in enumerate(terms):
            if axis is not None and not (isinstance(own, float) and own == 0.0):
                self.products.append((self.on_rows(axis, d * own * b), column, self.ones + self.ones))
            for other, (c, second) in enumerate(terms[: place + 1]):
                rate = d * b * c * (1.0 if other == place else 2.0)
                self.products.append((column, second, rate if axis is None else axis.sums(rate)))

    def form(self) -> tuple[list[Array], Array]:
        """Return the different columns of one query, and the symmetric matrix between them."""
        columns: dict[int, Array] = {}
        for left, right, _ in self.products:
            columns[id(left)], columns[id(right)] = left, right
        places = {key: place for place, key in enumerate(columns)}
        matrix = np.zeros((len(columns), len(columns)))
        for left, right, rate in self.products:
            matrix[places[id(left)], places[id(right)]] += rate[0]
        return list(columns.values()), 0.5 * (matrix + matrix.T)

    def listed(self) -> tuple[list[Array], list[Array]]:
        """Return columns of all queries, and the rates of each query, so that all are products with themselves."""
        columns: list[Array] = []
        rates: list[Array] = []
        for left, right, rate in self.products:
            if left is right:
                columns.append(left)
                rates.append(-rate)
                continue
            # l rᵀ + r lᵀ = ½ (l + r)(l + r)ᵀ − ½ (l − r)(l − r)ᵀ, for columns of equal size
            sizes = [float(np.maximum.reduce(np.abs(column))) for column in (left, right)]
            if min(sizes) == 0.0:
                continue
            balance = np.sqrt(sizes[1] / sizes[0])
            columns += [balance * left + right / balance, balance * left - right / balance]
            rates += [-0.25 * rate, 0.25 * rate]
        return columns, rates

    def collected(self) -> tuple[sparse.csr_array, Array]:
        """Return the transposed columns and the rates of the form that solvers take, one column per query."""
        (columns, rates), n, (rows, starts) = self.listed(), len(self.diagonal), self.program.by_query
        blocks = len(columns)
        if not blocks:
            return sparse.csr_array((0, n)), np.zeros(0)
        entries, ends = np.concatenate([column[rows] for column in columns]), starts
        if blocks > 1:
            rows = np.tile(rows, blocks)
            ends = np.concatenate([starts[:1], *(starts[1:] + starts[-1] * block for block in range(blocks))])
        return sparse.csr_array((entries, rows, ends), shape=(self.count * blocks, n)), np.concatenate(rates)
