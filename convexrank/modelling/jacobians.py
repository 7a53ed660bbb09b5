"""Second derivatives in w by the Jacobians of all atoms, as matrices: one pass where pairs are few enough to list."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import weighted_gram
from convexrank.modelling import expressions as tree
from convexrank.modelling.hessian_products import State, bend_of
from convexrank.modelling.kernels.highest import partial_shares
from convexrank.modelling.kernels.pairs import some_pairs
from convexrank.modelling.program import Program

Array = np.ndarray

# Pairs for each row, and in all: of more, sums over pairs for each column take less time than matrices of pairs.
_PAIRS_PER_ROW, _PAIRS = 40, 2_000_000
_ATOMS = (
    tree.Scores,
    tree.Affine,
    tree.Dot,
    tree.Elementwise,
    tree.LogSumExp,
    tree.Highest,
    tree.PairSums,
)


def has_few_pairs(program: Program) -> bool:
    """Return whether all atoms have Jacobians here, and pairs are few."""
    known = all(isinstance(node, _ATOMS) and not isinstance(node, tree.PairMeans) for node in program.nodes)
    few = program.pair_count <= min(_PAIRS_PER_ROW * program.rows, _PAIRS)
    return known and few and program.curved_pairs > 0


def hessian_of_few_pairs(program: Program, state: State, X: Array) -> Array:
    """Return XᵀHX of the Hessian H in the scores; shares of upper rows move by themselves, about.

    The second derivatives of each atom, weighed by its adjoint, stand between Jacobians of its arguments in w.
    """
    (values, memories, adjoints), jacobians = state, list[Any]()
    found = np.zeros((X.shape[1], X.shape[1]))
    for k, (node, args) in enumerate(zip(program.nodes, program.args, strict=True)):
        inner = [jacobians[a] for a in args]
        x, u = [values[a] for a in args], adjoints[k]
        match node:
            case tree.Scores():
                jacobians.append(node.entries(X))
            case tree.Affine():
                terms = zip(node.terms, inner, strict=True)
                jacobians.append(sum(_spread(node, part, one) * _column(c) for (c, part), one in terms))
            case tree.PairSums():
                jacobians.append(_of_pairs(node, memories[k], x, u, inner, found))
            case tree.Dot():
                jacobians.append(_sums(node.over, node.shares[:, None] * inner[0]))
            case _:
                jacobians.append(_of_one(node, memories[k], x[0], u, inner[0], found))
    return found


def _of_one(node: Any, memory: Any, x: Array, u: Any, inner: Array, found: Array) -> Array:
    """Return the Jacobian of a function of rows, or of those of a query, and add its second derivatives."""
    d, c, g = bend_of(node, x, memory, u)
    bent = np.flatnonzero(np.broadcast_to(d, len(inner)))
    found += weighted_gram(inner[bent], np.broadcast_to(d, len(inner))[bent])
    if c is not None:
        together = _sums(node.over, np.asarray(g)[:, None] * inner)
        found -= weighted_gram(together, np.broadcast_to(c, len(together)))
    moved = np.broadcast_to(memory, len(inner))[:, None] * inner
    return moved if isinstance(node, tree.Elementwise) else _sums(node.over, moved)


def _of_pairs(
    node: tree.PairSums, memory: Any, x: list[Array], u: Any, inner: list[Array], found: Array
) -> Array:
    """Return the Jacobian of sums over pairs, and add their second derivatives."""
    upper, lower, _ = some_pairs(node, node.pair_count)
    apart, shape = x[1][lower] - x[0][upper], (len(x[1]), len(x[0]))
    bend: Any = node.function.bend
    slopes, bends = (
        sparse.csr_array((part, (lower, upper)), shape)
        for part in (node.function.slopes(apart)[1], bend(apart))
    )
    a, u, (above, below) = node.weights, np.broadcast_to(u, shape[0]), inner
    across = below.T @ (u[:, None] * (bends @ (a[:, None] * above)))
    found += (
        weighted_gram(below, u * (bends @ a)) + weighted_gram(above, a * (bends.T @ u)) - across - across.T
    )
    if isinstance(node, tree.SharedMeans):
        moving = np.flatnonzero(part := partial_shares(node.lowest, node.shares))
        turned = (slopes.T @ u)[moving, None] * above[moving] - (slopes.T @ (u[:, None] * below))[moving]
        rates = 1.0 / (node.lowest.width * node.axis.sums(u))
        found += _about_means(node.upper_axis, moving, part[moving], turned, rates)
    return (slopes @ a)[:, None] * below - slopes @ (a[:, None] * above)


def _about_means(axis: tree.Axis, rows: Array, shares: Array, moved: Array, rates: Array) -> Array:
    """Return the sum over queries of the Gram matrices of rows about their means."""
    query = axis.query[rows]
    whole = np.maximum(np.bincount(query, shares, axis.count), np.finfo(np.float64).tiny)
    by_query = sparse.csr_array((shares, (query, np.arange(len(rows)))), (axis.count, len(rows)))
    apart = moved - ((by_query @ moved) / whole[:, None])[query]
    return weighted_gram(apart, shares * rates[query])


def _spread(node: tree.Affine, part: tree.Node, x: Array) -> Array:
    if not node.is_level(part):
        return x
    return x if node.axis is None or node.axis.count == 1 else x.repeat(node.axis.sizes, axis=0)


def _sums(axis: tree.Axis, x: Array) -> Array:
    return np.add.reduceat(x, axis.starts[:-1], axis=0)


def _column(c: Any) -> Any:
    return c[:, None] if np.ndim(c) else c
