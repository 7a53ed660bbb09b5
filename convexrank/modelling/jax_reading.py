"""An expression in JAX: a function of the scores with the tree as an argument, compiled once for each structure.

Axes are padded here and nowhere else: to the shape classes of their lengths, by their first row with weight 0, so that
padding has finite values and never counts. One program serves all data of the same structure and classes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np

from convexrank.backend.jax_oracles import shape_class
from convexrank.modelling.expressions import (
    Affine,
    Axis,
    Dot,
    Elementwise,
    Highest,
    LogSumExp,
    Node,
    PairSums,
    Scores,
)
from convexrank.modelling.language import Language, read

__all__ = ["JaxRisk", "padded"]

Array = np.ndarray

_STATIC = {"name", "count", "mean", "function", "most", "is_padded"}


@dataclass(frozen=True, eq=False, repr=False)
class _Pairs(Node):
    """A pair sum as a list of padded pairs."""

    function: Any
    upper: Node
    lower: Node
    up: Array
    low: Array
    weights: Array

    @property
    def args(self) -> tuple[Node, ...]:  # type: ignore[override]
        """Upper and lower scores."""
        return (self.upper, self.lower)

    @property
    def axis(self) -> Axis | None:  # type: ignore[override]
        """The lower rows."""
        return self.lower.axis


def _pad(values: Array, size: int, fill: Any) -> Array:
    return np.concatenate([values, np.full(size - len(values), fill, dtype=values.dtype)])


def padded(root: Node) -> Node:
    """Return the expression with padded axes."""
    axes: dict[int, Axis] = {}
    known: dict[int, Node] = {}

    def axis_of(axis: Axis) -> Axis:
        if id(axis) not in axes:
            size = shape_class(len(axis.rows))
            rows, query = _pad(axis.rows, size, axis.rows[0]), _pad(axis.query, size, axis.query[0])
            axes[id(axis)] = Axis(axis.name, rows, _pad(axis.weights, size, 0.0), query, axis.count)
        return axes[id(axis)]

    def rows_of(values: Any, axis: Axis | None, fill: Any = None) -> Any:
        if axis is None or not np.ndim(values):
            return np.asarray(values, dtype=np.float64)
        values = np.asarray(values, dtype=np.float64)
        return _pad(values, shape_class(len(axis.rows)), values[0] if fill is None else fill)

    def visit(node: Node) -> Node:
        if id(node) in known:
            return known[id(node)]
        parts = [visit(part) for part in node.args]
        match node:
            case Scores():
                found: Node = Scores(axis_of(node.axis))
            case Affine():
                axis = None if node.axis is None else axis_of(node.axis)
                terms = tuple(
                    (rows_of(c, node.axis), part) for (c, _), part in zip(node.terms, parts, strict=True)
                )
                found = Affine(axis, terms, rows_of(node.constant, node.axis))
            case Dot() | LogSumExp():
                # shares are taken before padding
                found = type(node)(parts[0], rows_of(node.shares, node.over, 0.0), False)
            case Highest():
                found = Highest(parts[0], node.most)
            case Elementwise():
                found = replace(node, x=parts[0])
            case PairSums():
                up, low = node.pairs
                size = shape_class(len(up))
                weights = _pad(node.weights[up], size, 0.0)
                first = int(up[0]), int(low[0])
                found = _Pairs(
                    node.function,
                    parts[0],
                    parts[1],
                    _pad(up, size, first[0]),
                    _pad(low, size, first[1]),
                    weights,
                )
            case _:
                raise TypeError(f"{type(node).__name__} is not read by JAX.")
        known[id(node)] = found
        return found

    return visit(root)


@cache
def _language() -> Any:
    """Register the nodes as pytrees, and return the language; JAX is imported here."""
    import jax
    import jax.numpy as jnp

    for kind in (Axis, Scores, Affine, Dot, LogSumExp, Highest, Elementwise, _Pairs):
        names = [field.name for field in fields(kind)]
        static = [name for name in names if name in _STATIC]
        jax.tree_util.register_dataclass(kind, [name for name in names if name not in static], static)

    class Jax(Language):
        """Traced arrays."""

        times, total = staticmethod(jnp.multiply), staticmethod(jnp.sum)
        exp, softplus = staticmethod(jnp.exp), staticmethod(jax.nn.softplus)
        positive, power = staticmethod(jax.nn.relu), staticmethod(jnp.power)

        @staticmethod
        def shares(node: Any) -> Any:
            return node.weights

        @staticmethod
        def huber(x: Any, width: float) -> Any:
            size = jnp.abs(x)
            return jnp.where(size <= width, 0.5 * x * x / width, size - 0.5 * width)

        @staticmethod
        def scatter(places: Any, x: Any, length: int) -> Any:
            if length == 1:
                return jnp.sum(x, keepdims=True)
            return jax.ops.segment_sum(x, places, length)

        @staticmethod
        def log_sum_exp(x: Any, node: Any) -> Any:
            axis, counts = node.over, node.weights > 0.0
            exponents = jnp.where(counts, x, -jnp.inf)
            tops = jax.lax.stop_gradient(jax.ops.segment_max(exponents, axis.query, axis.count))
            masses = jnp.where(
                counts, node.weights * jnp.exp(jnp.where(counts, x - tops[axis.query], 0.0)), 0.0
            )
            return tops + jnp.log(Jax.scatter(axis.query, masses, axis.count))

        @staticmethod
        def highest(x: Any, node: Any) -> Any:
            axis = node.over
            counted = jnp.where(axis.weights > 0.0, x, -jnp.inf)
            if node.most == 1:
                return jax.ops.segment_max(counted, axis.query, axis.count)
            # falling within each query; a row counts by its place there
            order = jnp.lexsort((-counted, axis.query))
            sizes = jax.ops.segment_sum((axis.weights > 0.0) * 1, axis.query, axis.count)
            places = jnp.arange(len(x)) - jnp.searchsorted(axis.query[order], axis.query[order])
            counts = jnp.minimum(node.most, sizes)
            chosen = places < counts[axis.query[order]]
            values = jnp.where(chosen, counted[order], 0.0)
            return jax.ops.segment_sum(values, axis.query[order], axis.count) / counts

        def pair_sums(self, node: Any, upper: Any, lower: Any) -> Any:
            costs = node.function.read(self, lower[node.low] - upper[node.up])
            return jax.ops.segment_sum(node.weights * costs, node.low, lower.shape[0])

    return Jax()


@dataclass(frozen=True)
class JaxRisk:
    """The risk as a function ``risk(tree, scores)`` for ``RiskData``; all of them are equal."""

    def __call__(self, tree: Any, scores: Any) -> Any:
        import jax.numpy as jnp

        return jnp.sum(read(tree, _language(), scores))

    @staticmethod
    def prepare(root: Node) -> Node:
        """Return the tree to pass: padded, and registered with JAX."""
        _language()
        return padded(root)
