r"""Second derivatives of an expression: products with a vector, or a diagonal and a few columns of each query.

Every smooth atom but sums over pairs has the Hessian :math:`\operatorname{diag}(d) - c\,g g^\top` in its argument, g
its gradient, or ones for entries whose share of a smoothed maximum moves. Through the Jacobians below, whose rows are
one entry and multiples of the columns of levels, this stays a diagonal and products of columns:
:math:`\operatorname{diag}(h) - S\operatorname{diag}(c)S^\top`, as solvers take it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.core.score_model import Curvature, ScoreProducts
from convexrank.modelling.expressions import (
    Affine,
    Axis,
    Differences,
    Dot,
    Elementwise,
    Highest,
    LogSumExp,
    Node,
    PairSums,
    Scores,
    is_affine,
)
from convexrank.modelling.kernels.highest import partial_shares
from convexrank.modelling.program import Program

__all__ = [
    "Columns",
    "State",
    "columns_of",
    "constant",
    "curvature",
    "gradient_moved",
    "has_columns",
    "has_pair_hessian",
    "hessian_product",
    "pair_hessian",
    "products",
    "second_derivatives",
    "steepness",
]

Array = np.ndarray
#: Values, memories and adjoints of all nodes.
State = tuple[list[Any], list[Any], list[Any]]
# Columns are multiples of one another, up to rounding relative to their size.
_SAME = 1e-14


def has_columns(program: Program) -> bool:
    """Whether second derivatives are a diagonal and a few columns."""
    return program.bends and not program.has_pairs


def _bend(node: Node, x: Array, memory: Any, u: Array) -> tuple[Any, Array | None, Any]:
    """The Hessian of an atom weighed by u, as diag(d) − c ggᵀ: d, c and g."""
    match node:
        case Elementwise():
            bend = node.function.bend
            if bend is None:
                raise TypeError(f"{node.function.name} has no second derivatives.")
            return u * bend(x), None, None
        case LogSumExp():
            return memory * (u if len(u) == 1 else node.over.spread(u)), u, memory
        case Highest():
            part, rate = partial_shares(node, memory), u / node.width
            return part * node.over.spread(rate), rate / _or_one(node.over.sums(part)), part
        case _:
            return 0.0, None, None


def _or_one(x: Array) -> Array:
    """Numbers to divide by: 1 in the place of 0."""
    return np.where(x > 0.0, x, 1.0)


# --- products ---------------------------------------------------------------------------------------------------------


def hessian_product(program: Program, scores: Array) -> Callable[[Array], Array]:
    """Return the product of the Hessian in the scores with a vector, forward over reverse."""
    values, memories = program.up(scores)
    state = values, memories, program.down(memories)
    return lambda v: gradient_moved(program, state, v, {})


def products(program: Program, scores: Array) -> ScoreProducts:
    """Return value, gradient, and the product of the Hessian, beside a diagonal that counts pairs by their rows."""
    values, memories = program.up(scores)
    adjoints = program.down(memories)
    state = values, memories, adjoints
    return ScoreProducts(
        float(np.add.reduce(values[-1])),
        program.placed(adjoints),
        columns_of(program, state, pairs=True).diagonal,
        lambda v: gradient_moved(program, state, v, {}),
    )


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
        sides = dict(zip(program.args[k], (node.upper_axis, node.axis), strict=True))
        rows = {a: _multiple(program.own_factors[a], X[axis.places]) for a, axis in sides.items()}
        upper, lower = (rows[a] for a in program.args[k])
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


def _multiple(factor: Any, rows: Array) -> Array:
    return rows if isinstance(factor, float) and factor == 1.0 else np.reshape(factor, (-1, 1)) * rows


def _column_sums(kernel: Any, columns: Array) -> Array:
    """The sums of columns over the upper partners, weighed by second derivatives."""
    if kernel.takes_columns:
        return kernel.sums(columns, (2,), to_lower=True)[0]
    return np.stack([kernel.sums(column, (2,), to_lower=True)[0] for column in columns.T], axis=1)


def gradient_moved(
    program: Program, state: State, v: Array, own: Mapping[int, tuple[Any, Sequence[Any]]]
) -> Array:
    """Return how the gradient moves as the scores move by v, and atoms by themselves.

    ``own`` has for the places of these atoms how their values move, and the adjoints of their arguments.
    """
    (values, memories, adjoints), moved = state, []
    for k, (node, args) in enumerate(zip(program.nodes, program.args, strict=True)):
        if isinstance(node, Scores):
            moved.append(node.entries(v))
        else:
            moved.append(_push(node, memories[k], [moved[a] for a in args]))
        if k in own:
            moved[k] = moved[k] + own[k][0]
    turned: list[Any] = [0.0] * len(program.nodes)
    turned[-1] = np.zeros(program.count)
    for k in range(len(program.nodes) - 1, -1, -1):
        args = program.args[k]
        if not args:
            continue
        bent = _curve(
            program, k, memories[k], adjoints[k], [values[a] for a in args], [moved[a] for a in args]
        )
        if k in own:
            bent = [one + two for one, two in zip(bent, own[k][1], strict=True)]
        back = program.steps[k].down(memories[k], turned[k]) if np.any(turned[k]) else (0.0,) * len(bent)
        for a, one, two in zip(args, back, bent, strict=True):
            turned[a] = turned[a] + one + two
    leaves = dict(program.leaves)
    return program.placed(
        [
            np.broadcast_to(part, leaves[k].axis.rows.shape) if k in leaves else None
            for k, part in enumerate(turned)
        ]
    )


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
        case LogSumExp() | Highest():
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
    d, c, g = _bend(node, x[0], memory, u)
    found = d * dx[0]
    if c is not None:
        axis = node.over  # type: ignore[attr-defined]  # a reduction
        found = found - g * axis.spread(c * axis.sums(g * dx[0]))
    return (found,)


# --- a diagonal and columns -------------------------------------------------------------------------------------------


class Columns:
    """The Hessian in the making: diag(h) + Σ rate/2 (left rightᵀ + right leftᵀ) in each query."""

    def __init__(self, program: Program) -> None:
        self.diagonal, self.query, self.count = np.zeros(program.rows), program.query, program.count
        self.ones, self.by_query = np.ones(program.count), program.by_query
        self.products: list[tuple[Array, Array, Array]] = []

    def copy(self) -> Columns:
        """Return the same, to which more may be added."""
        made = object.__new__(Columns)
        made.__dict__.update(self.__dict__, diagonal=self.diagonal.copy(), products=self.products.copy())
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
        (rows, starts), size = self.by_query, float(np.abs(column).max())
        squares = np.add.reduceat((of * of)[rows], starts[:-1])
        factors = np.add.reduceat((column * of)[rows], starts[:-1]) / np.where(squares > 0.0, squares, 1.0)
        rest = column[rows] - factors.repeat(np.diff(starts)) * of[rows]
        return factors if float(np.abs(rest).max()) <= _SAME * size else None

    def on_rows(self, axis: Axis, values: Any) -> Array:
        """Return a column of all rows, 0 beside those of an axis."""
        column = np.zeros(len(self.query))
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
        (columns, rates), n, (rows, starts) = self.listed(), len(self.query), self.by_query
        blocks = len(columns)
        if not blocks:
            return sparse.csr_array((0, n)), np.zeros(0)
        entries, ends = np.concatenate([column[rows] for column in columns]), starts
        if blocks > 1:
            rows = np.tile(rows, blocks)
            ends = np.concatenate([starts[:1], *(starts[1:] + starts[-1] * block for block in range(blocks))])
        return sparse.csr_array((entries, rows, ends), shape=(self.count * blocks, n)), np.concatenate(rates)


def curvature(program: Program, scores: Array) -> tuple[float, Array, Curvature]:
    """Return value, gradient, and the second derivatives as a diagonal and columns."""
    value, gradient, found = second_derivatives(program, scores)
    columns, rates = found.collected()
    return value, gradient, Curvature(found.diagonal, columns.T, rates, steepness=steepness(program))


def second_derivatives(program: Program, scores: Array) -> tuple[float, Array, Columns]:
    """Return value, gradient, and a diagonal and columns.

    The gradient of an entry is own · e_row + Σ b · column, the columns those of the levels that it depends on.
    """
    values, memories = program.up(scores)
    adjoints = program.down(memories)
    found = columns_of(program, (values, memories, adjoints))
    return float(np.add.reduce(values[-1])), program.placed(adjoints), found


def columns_of(program: Program, state: State, pairs: bool = False) -> Columns:
    """Return the diagonal and columns at values, memories and adjoints.

    Sums over pairs are left out, which is right where they are only added up; or with ``pairs`` what they add to the
    diagonal is counted, and columns miss them.
    """
    fixed, (values, memories, adjoints) = _fixed(program), state
    found, jacobians = fixed.columns.copy(), fixed.jacobians.copy()
    for k, node, args in fixed.moving:
        parts = [jacobians[a] for a in args]
        if isinstance(node, PairSums):
            owns = [part[0] for part in parts]
            jacobians[k] = _of_pairs(found, node, memories[k], adjoints[k], owns) if pairs else (0.0, [])
        else:
            jacobians[k] = _jacobian_of(
                program, found, node, parts, values[args[0]], memories[k], adjoints[k]
            )
    return found


def _of_pairs(
    found: Columns, node: PairSums, memory: Any, u: Array, owns: list[Any]
) -> tuple[Any, list[Any]]:
    """Add what pairs add to the diagonal, and return how fast the sums move with their own rows."""
    kernel, slope = memory[:2]
    (of_lower,), (of_upper,) = (
        kernel.sums(w, (2,), to_lower=low) for w, low in ((node.weights, True), (u, False))
    )
    found.diagonal[node.upper_axis.places] += node.weights * of_upper * owns[0] ** 2
    found.diagonal[node.axis.places] += u * of_lower * owns[1] ** 2
    return slope * owns[1], []


def constant(program: Program) -> Columns | None:
    """Return a diagonal and columns where they are the same at all scores."""
    fixed = _fixed(program)
    return None if fixed.moving else fixed.columns


def steepness(program: Program) -> float:
    """Return the largest factor of scores in a sum of log-sum-exps, 0 for squares; infinity for anything else.

    With it a gap bounds how far the gradient is from that at a minimiser.
    """
    return _fixed(program).steepness


def _steepness(program: Program, node: Node, args: list[int]) -> float:
    if is_affine(node) or isinstance(node, Affine | Dot):
        return 0.0
    if isinstance(node, LogSumExp) and np.ndim(program.own_factors.get(args[0], np.ones(1))) == 0:
        return abs(program.own_factors[args[0]])
    return 0.0 if _is_quadratic(node) else math.inf


class _Fixed:
    """What is the same at all scores: Jacobians of affine nodes, and the curvature of squares that are added up."""

    def __init__(self, program: Program) -> None:
        self.columns, self.jacobians = Columns(program), dict[int, Any]()
        self.jacobians.update((k, (own, [])) for k, own in program.own_factors.items())
        scores = np.zeros(program.rows)
        with np.errstate(all="ignore"):
            values, memories = program.up(scores)
            adjoints = program.down(memories)
        inner: set[int] = set()  # what curved nodes are functions of, squares that are added up aside
        for k in range(len(program.nodes) - 1, -1, -1):
            node = program.nodes[k]
            if k in inner or not (is_affine(node) or isinstance(node, Affine | Dot) or _is_quadratic(node)):
                inner.update(program.args[k])
        self.moving = []
        for k, node, args in program.of_levels:
            if isinstance(node, Differences):  # of two rows each: products alone tell their curvature
                self.jacobians[k] = 0.0, []
                continue
            squares = k not in inner and _is_quadratic(node)
            if squares or is_affine(node):
                parts = [self.jacobians[a] for a in args]
                self.jacobians[k] = _jacobian_of(
                    program, self.columns, node, parts, values[args[0]], memories[k], adjoints[k]
                )
            elif k in inner or not isinstance(node, Affine | Dot):
                self.moving.append((k, node, args))
        self.columns.merge()
        # products that are added would be missing in the diagonal
        taken = all((rates >= 0.0).all() for rates in self.columns.listed()[1])
        nodes = zip(program.nodes, program.args, strict=True)
        self.steepness = max(_steepness(program, node, args) for node, args in nodes) if taken else math.inf


def _is_quadratic(node: Node) -> bool:
    return isinstance(node, Elementwise) and node.function.is_quadratic and is_affine(node.x)


def _fixed(program: Program) -> _Fixed:
    found = program.kept.get("curvature")
    if found is None:
        found = program.kept["curvature"] = _Fixed(program)
    return found


def _jacobian_of(
    program: Program, found: Columns, node: Node, parts: list[Any], x: Array, memory: Any, u: Array
) -> Any:
    if isinstance(node, Affine):
        return _jacobian_of_sum(node, parts)
    return _jacobian(node, found, parts[0], x, memory, u, program.query)


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
    (own, terms), axis = part, node.x.axis  # type: ignore[attr-defined]  # of one argument
    d, c, g = _bend(node, x, memory, u)
    if not isinstance(d, float):
        found.add(axis, d, own, terms)
    if isinstance(node, Elementwise):
        return 0.0 if axis is None else memory * own, [(memory * b, column) for b, column in terms]
    if axis is None:
        raise TypeError(f"{node} has no rows to reduce.")

    def summed(pull: Array) -> Array:
        column = found.on_rows(axis, pull * own)
        for b, other in terms:
            column += np.where(query >= 0, axis.sums(pull * b)[query], 0.0) * other
        return column

    column = summed(node.shares if isinstance(node, Dot) else memory)
    if c is not None:
        bent = column if g is memory else summed(g)
        found.products.append((bent, bent, -c))
    return 0.0, [(found.ones, column)]
