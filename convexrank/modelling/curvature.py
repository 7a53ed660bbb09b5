r"""Second derivatives of expressions: a diagonal and columns, in scores and in weights.

A Hessian in the making: a diagonal and products of columns of each query.

Second derivatives of an expression: products with a vector, or a diagonal and a few columns of each query.

Every smooth atom but sums over pairs has the Hessian :math:`\operatorname{diag}(d) - c\,g g^\top` in its argument, g
its gradient, or ones for entries whose share of a smoothed maximum moves. Through the Jacobians below, whose rows are
one entry and multiples of the columns of levels, this stays a diagonal and products of columns:
:math:`\operatorname{diag}(h) - S\operatorname{diag}(c)S^\top`, as solvers take it.

Second derivatives of an expression in the weights w of its scores Xw.
"""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.design import centred_gram, dense, entries, transposed_times, weighted_gram
from convexrank.core.score_model import Curvature, ScoreProducts
from convexrank.modelling import expressions as tree
from convexrank.modelling.expressions import Axis
from convexrank.modelling.hessian_products import (
    State,
    bend_of,
    gradient_moved,
    has_few_pairs,
    has_pair_hessian,
    hessian_of_few_pairs,
    hessian_product,
    pair_hessian,
)
from convexrank.modelling.levels import CumulativeLogSumExp, Threshold, bend_of_threshold, pulls
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


def has_columns(program: Program) -> bool:
    """Return whether second derivatives are a diagonal and a few columns."""
    return program.bends and not program.has_pairs and not program.has_levels


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
        if isinstance(node, tree.PairSums):
            owns = [part[0] for part in parts]
            jacobians[k] = _of_pairs(found, node, memories[k], adjoints[k], owns) if pairs else (0.0, [])
        else:
            jacobians[k] = _jacobian_of(found, node, parts, values[args[0]], memories[k], adjoints[k])
    return found


def _of_pairs(
    found: Columns, node: tree.PairSums, memory: Any, u: Array, owns: list[Any]
) -> tuple[Any, list[Any]]:
    """Add what pairs add to the diagonal, and return how fast the sums move with their own rows."""
    kernel, slope = memory[:2]
    (of_lower,), (of_upper,) = (
        kernel.sums(w, (2,), to_lower=low) for w, low in ((node.weights, True), (u, False))
    )
    found.diagonal[node.upper_axis.places] += node.weights * of_upper * owns[0] ** 2
    found.diagonal[node.axis.places] += u * of_lower * owns[1] ** 2
    return slope * owns[1], []


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


def constant(program: Program) -> Columns | None:
    """Return a diagonal and columns where they are the same at all scores."""
    fixed = _fixed(program)
    return None if fixed.moving else fixed.columns


def steepness(program: Program) -> float:
    """Return the largest factor of scores in a sum of log-sum-exps, 0 for squares; infinity for anything else.

    With it a gap bounds how far the gradient is from that at a minimiser.
    """
    return _fixed(program).steepness


def _steepness(program: Program, node: tree.Node, args: list[int]) -> float:
    if tree.is_affine(node) or isinstance(node, tree.Affine | tree.Dot):
        return 0.0
    if isinstance(node, tree.LogSumExp) and np.ndim(program.own_factors.get(args[0], np.ones(1))) == 0:
        return abs(program.own_factors[args[0]])
    return 0.0 if _is_quadratic(node) else math.inf


class _Fixed:
    """Parts that are the same at all scores: Jacobians of affine nodes, and the curvature of added squares."""

    def __init__(self, program: Program) -> None:
        self.columns, self.jacobians = Columns(program), dict[int, Any]()
        self.jacobians.update((k, (own, [])) for k, own in program.own_factors.items())
        inner: set[int] = set()  # what curved nodes are functions of, squares that are added up aside
        for k in range(len(program.nodes) - 1, -1, -1):
            node = program.nodes[k]
            if k in inner or not (
                tree.is_affine(node) or isinstance(node, tree.Affine | tree.Dot) or _is_quadratic(node)
            ):
                inner.update(program.args[k])
        self.moving, state = [], None
        for k, node, args in program.of_levels:
            if isinstance(node, tree.Differences):  # of two rows each: products alone tell their curvature
                self.jacobians[k] = 0.0, []
                continue
            squares = k not in inner and _is_quadratic(node)
            if squares or tree.is_affine(node):
                parts = [self.jacobians[a] for a in args]
                if isinstance(node, tree.Affine):
                    self.jacobians[k] = _jacobian_of_sum(node, parts)
                    continue
                state = _state_at_zero(program) if state is None else state
                values, memories, adjoints = state
                self.jacobians[k] = _jacobian(
                    node, self.columns, parts[0], values[args[0]], memories[k], adjoints[k]
                )
            elif k in inner or not isinstance(node, tree.Affine | tree.Dot):
                self.moving.append((k, node, args))
        self.columns.merge()
        # products that are added would be missing in the diagonal
        taken = all((rates >= 0.0).all() for rates in self.columns.listed()[1])
        nodes = zip(program.nodes, program.args, strict=True)
        self.steepness = max(_steepness(program, node, args) for node, args in nodes) if taken else math.inf


def _state_at_zero(program: Program) -> State:
    with np.errstate(all="ignore"):
        values, memories = program.up(np.zeros(program.rows))
        return values, memories, program.down(memories)


def _is_quadratic(node: tree.Node) -> bool:
    return isinstance(node, tree.Elementwise) and node.function.is_quadratic and tree.is_affine(node.x)


def _fixed(program: Program) -> _Fixed:
    found = program.kept.get("curvature")
    if found is None:
        found = program.kept["curvature"] = _Fixed(program)
    return found


def _jacobian_of(found: Columns, node: tree.Node, parts: list[Any], x: Array, memory: Any, u: Array) -> Any:
    if isinstance(node, tree.Affine):
        return _jacobian_of_sum(node, parts)
    if isinstance(node, CumulativeLogSumExp):  # of a chain of levels the diagonal alone
        own = parts[0][0]
        found.diagonal[node.axis.places] += pulls(node, memory, u) * own**2
        return memory[0] * own, []
    return _jacobian(node, found, parts[0], x, memory, u)


def _jacobian_of_sum(node: tree.Affine, parts: list[Any]) -> tuple[Any, list[tuple[Any, Array]]]:
    own: Any = 0.0
    terms: list[tuple[Any, Array]] = []
    for (c, part), (its_own, its_terms) in zip(node.terms, parts, strict=True):
        own = own + c * its_own if part.axis is not None else own  # levels have no rows of their own
        terms += [(c * node.spread(part, b), column) for b, column in its_terms]
    return own, terms


def _jacobian(
    node: tree.Node, found: Columns, part: Any, x: Array, memory: Any, u: Array
) -> tuple[Any, list[tuple[Any, Array]]]:
    (own, terms), axis = part, node.x.axis  # type: ignore[attr-defined]  # of one argument
    if isinstance(node, Threshold):
        own_bend, whole = bend_of_threshold(node, memory)
        memory, d, c, g = memory[0], node.over.spread(u) * own_bend, None, memory[0]
    else:
        d, c, g = bend_of(node, x, memory, u)
    if not isinstance(d, float):
        found.add(axis, d, own, terms)
    if isinstance(node, tree.Elementwise):
        return None if axis is None else memory * own, [(memory * b, column) for b, column in terms]
    if axis is None:
        raise TypeError(f"{node} has no rows to reduce.")

    def summed(pull: Array) -> Array:
        column = found.on_rows(axis, pull * own)
        for b, other in terms:
            sums = axis.sums(pull * b)
            if found.count > 1:
                query = found.program.query
                sums = np.where(query >= 0, sums[query], 0.0)
            column += sums * other  # which is 0 for rows of no query
        return column

    column = summed(node.shares if isinstance(node, tree.Dot) else memory)
    if isinstance(node, Threshold):  # − dgᵀ − gdᵀ + (Σd) ggᵀ as a product of two columns
        other = summed(own_bend - node.over.spread(0.5 * whole) * memory)
        found.products.append((other, column, -2.0 * u))
    if c is not None:
        bent = column if g is memory else summed(g)
        found.products.append((bent, bent, -c))
    return None, [(found.ones, column)]  # a level has no rows of its own


# Second derivatives of sums over pairs are one product with all columns, up to so many pairs and products,
_PAIRS, _PRODUCTS = 2_000_000, 100_000_000
# or, under functions with curvature, a few sums over pairs for each column.
_BLOCKED, _COLUMNS = 200_000, 60


# The differences of features of listed pairs may be so many times as many numbers as X, or so many.
_LISTED, _BUILT = 4, 1 << 24


def is_affordable(program: Program, columns: int) -> bool:
    """Whether second derivatives in so many weights, of a risk with pairs, are cheap enough for Newton's method."""
    pairs = program.curved_pairs
    if has_pair_hessian(program):
        return pairs <= _PAIRS and pairs * columns <= _PRODUCTS
    if has_few_pairs(program) and pairs * columns <= _PRODUCTS:
        return True
    return not pairs or (pairs <= _BLOCKED and columns <= _COLUMNS)


def in_differences(program: Program, X: Any) -> tuple[Program, Any] | None:
    """Return the risk of listed pairs in their differences, and those of their features.

    None of another risk, and where these are far more numbers.
    """
    if len(program.leaves) != 1 or not program.differences:
        return None
    rows, leaf, (n, d) = entries(X), program.differences[0][1], X.shape
    if len(leaf.lower) * d > max(_LISTED * n * d, _BUILT):
        return None
    upper, lower = (rows[side].astype(np.float64) for side in (leaf.axis.rows, leaf.lower))
    return Program(tree.each_pair_a_row(program.nodes[-1]), len(leaf.lower)), upper - lower


class InWeights:
    """Value, gradient and Hessian in w.

    Parameters
    ----------
    program : Program
        The risk.
    X : matrix, shape (n, d)
        The features.
    centres : bool
        Whether second derivatives do not see a shift of all scores. Then they are taken about a common centre, so that
        an offset of the features cannot cancel.
    """

    def __init__(self, program: Program, X: Any, centres: bool) -> None:
        self.program, self.X, self.centres = program, X, centres

    def second_order(self, scores: Array) -> tuple[float, Array, Array]:
        """Return the risk, its gradient and its Hessian in w. O(n d²), or a sum over pairs for each column."""
        program = self.program
        if self._of_pairs is not None:
            return self._of_pairs.second_order(program.differences[0][1].entries(scores))
        if self._still is not None:
            value, slope = program.value_and_gradient(scores)
            return value, self._pulled(slope), self._still.copy()
        if has_columns(program):
            value, slope, found = second_derivatives(program, scores)
            hessian, pull = self._by_columns(slope, found)
            return value, pull, hessian
        X = np.asarray(dense(self.X), dtype=np.float64)
        if has_pair_hessian(program):
            value, slope, hessian = pair_hessian(program, scores, X)
        elif has_few_pairs(program):
            values, memories = program.up(scores)
            adjoints = program.down(memories)
            value, slope = float(np.add.reduce(values[-1])), program.placed(adjoints)
            hessian = hessian_of_few_pairs(program, (values, memories, adjoints), X)
        else:
            value, slope = program.value_and_gradient(scores)
            product = hessian_product(program, scores)
            hessian = np.stack([product(column) for column in X.T]) @ X
        return value, self._pulled(slope), 0.5 * (hessian + hessian.T)

    def _pulled(self, slope: Array) -> Array:
        return np.asarray(transposed_times(self.X, slope), dtype=np.float64)

    @cached_property
    def _of_pairs(self) -> InWeights | None:
        """The risk of listed pairs in their differences, where that is a diagonal and columns."""
        found = in_differences(self.program, self.X) if self.program.bends else None
        return InWeights(*found, centres=False) if found is not None and has_columns(found[0]) else None

    @cached_property
    def _still(self) -> Array | None:
        """XᵀHX of a quadratic risk, which is the same everywhere; None of another."""
        found = constant(self.program) if has_columns(self.program) else None
        return None if found is None else self._by_columns(np.zeros(self.program.rows), found)[0]

    def _by_columns(self, slope: Array, found: Columns) -> tuple[Array, Array]:
        """XᵀHX and Xᵀg, H a diagonal and columns."""
        if not self.centres and not found.products:
            return weighted_gram(entries(self.X), found.diagonal), self._pulled(slope)
        vectors = [slope, found.diagonal]
        if found.count == 1:  # one read of X
            listed, between = found.form()
            columns = np.array(vectors + listed)
            images = self._pulled(columns.T).T
            wholes = np.add.reduce(columns, axis=1)
            (pull, pulled), images, whole, wholes = images[:2], images[2:], wholes[1], wholes[2:, None]
        else:
            columns, rates = found.collected()
            pull, pulled = self._pulled(np.array(vectors).T).T
            images = dense(columns @ entries(self.X))
            wholes = np.add.reduceat(columns.data, columns.indptr[:-1]) if len(rates) else rates
            whole, wholes, between = found.diagonal.sum(), wholes[:, None], -rates[:, None]
        centre = pulled / whole if self.centres and whole > 0.0 else np.zeros_like(pulled)
        apart = images - wholes * centre
        products = between @ apart if found.count == 1 else between * apart
        return centred_gram(self.X, centre, found.diagonal) + apart.T @ products, pull
