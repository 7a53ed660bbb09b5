r"""Second derivatives of an expression: products with a vector, or a diagonal and a few columns of each query.

Every smooth atom but sums over pairs has the Hessian :math:`\operatorname{diag}(d) - c\,g g^\top` in its argument, g
its gradient. Through the Jacobians below, whose rows are one entry and multiples of the columns of levels, this stays a
diagonal and products of columns: :math:`\operatorname{diag}(h) - S\operatorname{diag}(c)S^\top`, as solvers take it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.core.score_model import Curvature
from convexrank.modelling.expressions import (
    Affine,
    Axis,
    Dot,
    Elementwise,
    LogSumExp,
    Node,
    PairSums,
    Scores,
)
from convexrank.modelling.language import Numpy
from convexrank.modelling.program import Program

__all__ = [
    "Columns",
    "curvature",
    "has_columns",
    "has_pair_hessian",
    "has_second_derivatives",
    "hessian_product",
    "pair_hessian",
    "second_derivatives",
]

Array = np.ndarray


def has_second_derivatives(program: Program) -> bool:
    """Whether second derivatives are known."""
    return program.bends


def has_columns(program: Program) -> bool:
    """Whether second derivatives are a diagonal and a few columns."""
    return program.bends and not program.has_pairs


def _bend(node: Node, x: Array, memory: Any, u: Array) -> tuple[Any, Array | None]:
    """The Hessian of an atom weighed by u, as diag(d) − c ggᵀ: d and c."""
    match node:
        case Elementwise():
            bend = node.function.bend
            if bend is None:
                raise TypeError(f"{node.function.name} has no second derivatives.")
            return u * bend(x), None
        case LogSumExp():
            return memory * node.over.spread(u), u
        case _:
            return 0.0, None


# --- products ---------------------------------------------------------------------------------------------------------


def hessian_product(program: Program, scores: Array) -> Callable[[Array], Array]:
    """Return the product of the Hessian in the scores with a vector, forward over reverse."""
    values, memories = program.up(scores)
    adjoints = program.down(memories)

    def product(v: Array) -> Array:
        moved: list[Any] = []
        for k, (node, args) in enumerate(zip(program.nodes, program.args, strict=True)):
            if isinstance(node, Scores):
                moved.append(Numpy().gathered(v, node))
            else:
                moved.append(_push(node, memories[k], [moved[a] for a in args]))
        turned: list[Any] = [0.0] * len(program.nodes)
        turned[-1] = np.zeros(program.count)
        for k in range(len(program.nodes) - 1, -1, -1):
            node, args = program.nodes[k], program.args[k]
            if not args:
                continue
            bent = _curve(
                program, k, memories[k], adjoints[k], [values[a] for a in args], [moved[a] for a in args]
            )
            back = program.steps[k].down(memories[k], turned[k]) if np.any(turned[k]) else (0.0,) * len(bent)
            for a, one, two in zip(args, back, bent, strict=True):
                turned[a] = turned[a] + one + two
        return program.placed(
            [
                np.broadcast_to(part, leaf.axis.rows.shape) if leaf is not None else None
                for part, leaf in _leaves(program, turned)
            ]
        )

    return product


def has_pair_hessian(program: Program) -> bool:
    """Whether nothing bends but sums over pairs of rows, and nothing curved depends on these."""
    curved = [k for k, node in enumerate(program.nodes) if not isinstance(node, Scores | Affine | Dot)]
    return all(
        k in program.constant_adjoints and all(a in program.own_factors for a in program.args[k])
        for k in curved
    )


def pair_hessian(program: Program, scores: Array, X: Array) -> tuple[float, Array, Array]:
    """Return value, gradient in the scores, and XᵀHX of the Hessian H in them, where nothing bends but sums over pairs.

    A pair has u a φ″ (x_k − x_i)(x_k − x_i)ᵀ; the cross terms need the weighed sums of the rows of the partners.
    """
    values, memories = program.up(scores)
    adjoints = program.down(memories)
    hessian = np.zeros((X.shape[1], X.shape[1]))
    for k, u in program.constant_adjoints.items():
        node: Any = program.nodes[k]
        upper, lower = (
            np.reshape(program.own_factors[a], (-1, 1)) * X[axis.rows]
            for a, axis in zip(program.args[k], (node.upper_axis, node.axis), strict=True)
        )
        kernel, weights = memories[k][0], node.weights
        (to_lower,) = kernel.sums(weights, (2,), to_lower=True)
        (to_upper,) = kernel.sums(u, (2,), to_lower=False)
        partners = _column_sums(kernel, weights[:, None] * upper)
        cross = (u[:, None] * lower).T @ partners
        hessian += (lower * (u * to_lower)[:, None]).T @ lower + (
            upper * (weights * to_upper)[:, None]
        ).T @ upper
        hessian -= cross + cross.T
    return float(np.add.reduce(values[-1])), program.placed(adjoints), hessian


def _column_sums(kernel: Any, columns: Array) -> Array:
    """The sums of columns over the upper partners, weighed by second derivatives."""
    if kernel.takes_columns:
        return kernel.sums(columns, (2,), to_lower=True)[0]
    return np.stack([kernel.sums(column, (2,), to_lower=True)[0] for column in columns.T], axis=1)


def _leaves(program: Program, turned: list[Any]) -> list[tuple[Any, Scores | None]]:
    return [
        (part, node if isinstance(node, Scores) else None)
        for part, node in zip(turned, program.nodes, strict=True)
    ]


def _push(node: Node, memory: Any, dx: list[Any]) -> Any:
    """The Jacobian of an atom times dx."""
    match node:
        case Affine():
            return sum(
                c * (node.axis.spread(one) if node.is_level(part) and node.axis is not None else one)
                for (c, part), one in zip(node.terms, dx, strict=True)
            )
        case Dot():
            return node.over.sums(node.shares * dx[0])
        case Elementwise():
            return memory * dx[0]
        case PairSums():
            kernel, slope, _ = memory
            (moved,) = kernel.sums(node.weights * dx[0], (1,), to_lower=True)
            return dx[1] * slope - moved
        case LogSumExp():
            return node.over.sums(memory * dx[0])
        case _:
            raise TypeError(f"{node} has no derivative everywhere.")


def _curve(program: Program, k: int, memory: Any, u: Array, x: list[Array], dx: list[Any]) -> tuple[Any, ...]:
    """The Hessian of an atom, weighed by its adjoint, times dx."""
    node = program.nodes[k]
    if isinstance(node, Affine | Dot):
        return (0.0,) * len(dx)
    if isinstance(node, PairSums):
        a, (upper, lower), kernel = node.weights, dx, memory[0]
        of_lower = [kernel.sums(w, (2,), to_lower=True)[0] for w in (a, a * upper)]
        of_upper = [kernel.sums(w, (2,), to_lower=False)[0] for w in (u, u * lower)]
        return a * (upper * of_upper[0] - of_upper[1]), u * (lower * of_lower[0] - of_lower[1])
    d, c = _bend(node, x[0], memory, u)
    found = d * dx[0]
    if c is not None:
        (back,) = program.steps[k].down(memory, c * _push(node, memory, dx))
        found = found - back
    return (found,)


# --- a diagonal and columns -------------------------------------------------------------------------------------------


class Columns:
    """The Hessian in the making: diag(h) + Σ rate/2 (left rightᵀ + right leftᵀ) in each query."""

    def __init__(self, rows: int, query: Array, count: int) -> None:
        self.diagonal, self.query, self.count = np.zeros(rows), query, count
        self.products: list[tuple[Array, Array, Array]] = []

    def on_rows(self, axis: Axis, values: Any) -> Array:
        """Return a column of all rows, 0 beside those of an axis."""
        column = np.zeros(len(self.query))
        column[axis.places] = values
        return column

    def add(self, axis: Axis | None, d: Array, own: Any, terms: list[tuple[Any, Array]]) -> None:
        """Add Jᵀ diag(d) J for the Jacobian J of the entries of an axis: own · e_row + Σ b · column."""
        if axis is not None:
            self.diagonal[axis.places] += d if np.ndim(own) == 0 and own * own == 1.0 else d * (own * own)
        if not terms:
            return
        for place, (b, column) in enumerate(terms):
            if axis is not None and np.any(own):
                self.products.append((self.on_rows(axis, d * own * b), column, np.full(self.count, 2.0)))
            for other, (c, second) in enumerate(terms[: place + 1]):
                rate = d * b * c * (1.0 if other == place else 2.0)
                self.products.append((column, second, rate if axis is None else axis.sums(rate)))

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
            sizes = float(np.abs(left).max()), float(np.abs(right).max())
            if min(sizes) == 0.0:
                continue
            balance = np.sqrt(sizes[1] / sizes[0])
            columns += [balance * left + right / balance, balance * left - right / balance]
            rates += [-0.25 * rate, 0.25 * rate]
        return columns, rates

    def collected(self) -> tuple[sparse.csc_array, Array]:
        """Return columns and rates of the form that solvers take, one column per query."""
        (columns, rates), n, rows = self.listed(), len(self.query), np.flatnonzero(self.query >= 0)
        if not columns:
            return sparse.csc_array((n, 0)), np.zeros(0)
        blocks = [
            sparse.csc_array((column[rows], (rows, self.query[rows])), shape=(n, self.count))
            for column in columns
        ]
        return sparse.csc_array(sparse.hstack(blocks, format="csc")), np.concatenate(rates)


def curvature(program: Program, scores: Array) -> tuple[float, Array, Curvature]:
    """Return value, gradient, and the second derivatives as a diagonal and columns."""
    value, gradient, found = second_derivatives(program, scores)
    return value, gradient, Curvature(found.diagonal, *found.collected())


def second_derivatives(program: Program, scores: Array) -> tuple[float, Array, Columns]:
    """Return value, gradient, and a diagonal and columns.

    The gradient of an entry is own · e_row + Σ b · column, the columns those of the levels that it depends on.
    """
    values, memories = program.up(scores)
    adjoints = program.down(memories)
    found, last = Columns(program.rows, program.query, program.count), len(program.nodes) - 1
    jacobians: dict[int, Any] = {k: (own, []) for k, own in program.own_factors.items()}
    for k, node, args in program.of_levels:
        if isinstance(node, Affine):
            jacobians[k] = None if k == last else _jacobian_of_sum(node, [jacobians[a] for a in args])
        else:
            x, part = values[args[0]], jacobians[args[0]]
            jacobians[k] = _jacobian(node, found, part, x, memories[k], adjoints[k], program.query)
    value, gradient = float(np.add.reduce(values[-1])), program.placed(adjoints)
    return value, gradient, found


def _jacobian_of_sum(node: Affine, parts: list[Any]) -> tuple[Any, list[tuple[Any, Array]]]:
    own: Any = 0.0
    terms: list[tuple[Any, Array]] = []
    for (c, part), (its_own, its_terms) in zip(node.terms, parts, strict=True):
        own = own + c * its_own if part.axis is not None else own  # levels have no rows of their own
        level = node.is_level(part) and node.axis is not None
        terms += [
            (c * (node.axis.spread(b) if level and node.axis is not None else b), column)
            for b, column in its_terms
        ]
    return own, terms


def _jacobian(
    node: Node, found: Columns, part: Any, x: Array, memory: Any, u: Array, query: Array
) -> tuple[Any, list[tuple[Any, Array]]]:
    (own, terms), axis = part, node.args[0].axis
    d, c = _bend(node, x, memory, u)
    if np.ndim(d):
        found.add(axis, d, own, terms)
    if isinstance(node, Elementwise):
        return 0.0 if axis is None else memory * own, [(memory * b, column) for b, column in terms]
    if axis is None:
        raise TypeError(f"{node} has no rows to reduce.")
    pull = node.shares if isinstance(node, Dot) else memory
    column = found.on_rows(axis, pull * own)
    for b, other in terms:
        column += np.where(query >= 0, axis.sums(pull * b)[query], 0.0) * other
    if c is not None:
        found.products.append((column, column, -c))
    return 0.0, [(np.ones(found.count), column)]
