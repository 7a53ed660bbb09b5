r"""Second derivatives of an expression: products with a vector, or a diagonal and a few columns of each query.

Every smooth atom but sums over pairs has the Hessian :math:`\operatorname{diag}(d) - c\,g g^\top` in its argument, g
its gradient, or ones for entries whose share of a smoothed maximum moves. Through the Jacobians below, whose rows are
one entry and multiples of the columns of levels, this stays a diagonal and products of columns:
:math:`\operatorname{diag}(h) - S\operatorname{diag}(c)S^\top`, as solvers take it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from convexrank.core.score_model import Curvature, ScoreProducts
from convexrank.modelling import expressions as tree
from convexrank.modelling.curvature.columns import Columns
from convexrank.modelling.curvature.products import State, bend_of, gradient_moved
from convexrank.modelling.levels.cumulative import CumulativeLogSumExp, pulls
from convexrank.modelling.levels.thresholds import Threshold, bend_of_threshold
from convexrank.modelling.program import Program

Array = np.ndarray


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
        level = node.is_level(part) and node.axis is not None
        terms += [
            (c * (node.axis.spread(b) if level and node.axis is not None else b), column)
            for b, column in its_terms
        ]
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
        return 0.0 if axis is None else memory * own, [(memory * b, column) for b, column in terms]
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
    return 0.0, [(found.ones, column)]
