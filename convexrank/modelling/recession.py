r"""How a risk behaves far out: its recession function, a number that it is never below, and what a shift does.

A convex risk without a penalty has no minimiser where it falls for ever along scores d that the features allow. Its
slope far out along d is the recession function, which follows atom by atom.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from convexrank.modelling.expressions import (
    Affine,
    Dot,
    Elementwise,
    Highest,
    LogSumExp,
    Node,
    PairSums,
    Scores,
)
from convexrank.modelling.program import Program

__all__ = ["infimum", "is_reached", "recession", "shift"]

Array = np.ndarray


def _up(program: Program, rule: Callable[..., Any]) -> Any:
    """Follow a rule from the leaves to the root."""
    found: list[Any] = []
    for node, args in zip(program.nodes, program.args, strict=True):
        found.append(rule(node, *[found[a] for a in args]))
    return found[-1]


def _spread(node: Affine, part: Node, x: Array) -> Array:
    return node.axis.spread(x) if node.is_level(part) and node.axis is not None else x


def _times(c: Any, x: Array) -> Array:
    """The product, 0 where the factor is 0 and the number infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(np.asarray(c) == 0.0, 0.0, c * x)


def recession(program: Program, d: Array) -> float:
    """Return the slope of the risk far out along scores d; infinity where it rises faster than linearly."""

    def far(node: Node, *x: Array) -> Array:
        match node:
            case Scores():
                return d[node.axis.rows]
            case Affine():
                terms = zip(node.terms, x, strict=True)
                return sum((_times(c, _spread(node, part, one)) for (c, part), one in terms), np.zeros(1))
            case Dot():
                return node.over.sums(_times(node.shares, x[0]))
            case LogSumExp():
                return node.over.highest(x[0])
            case Highest():
                parts = zip(np.split(x[0], node.over.starts[1:-1]), node.counts.tolist(), strict=True)
                return np.array([np.sort(part)[-count:].mean() for part, count in parts])
            case Elementwise():
                return node.function.recession(x[0])
            case PairSums():
                up, low = node.pairs
                rises = node.weights[up] * node.function.recession(x[1][low] - x[0][up])
                return np.bincount(low, rises, len(node.axis.rows))
            case _:
                raise TypeError(f"{type(node).__name__} has no recession function.")

    return float(np.sum(_up(program, far)))


def infimum(program: Program) -> float:
    """Return a number that the risk is never below, by the ranges of its functions; minus infinity where there is none.

    Every node has a number that none of its entries is below, or one for each.
    """

    def least(node: Node, *x: Array) -> Array:
        match node:
            case Affine():
                found = np.asarray(node.constant, dtype=np.float64)
                for (c, part), one in zip(node.terms, x, strict=True):
                    below = _times(c, _spread(node, part, one) if np.ndim(one) else one)
                    found = found + np.where(np.asarray(c) < 0.0, -math.inf, below)
                return found
            case Dot():
                values = np.broadcast_to(x[0], node.shares.shape)
                if (node.shares < 0.0).any():
                    return np.asarray(-math.inf)
                return node.over.sums(_times(node.shares, values))
            case LogSumExp():
                return node.over.highest(np.broadcast_to(x[0], node.shares.shape) + np.log(node.shares))
            case Elementwise():
                values, function = np.atleast_1d(x[0]), node.function
                known = function.increasing and bool(np.isfinite(values).all())
                return function.slopes(values)[0] if known else np.asarray(function.least)
            case PairSums():
                return np.asarray(0.0 if node.function.least >= 0.0 else -math.inf)
            case _:
                return np.asarray(-math.inf)

    return float(np.sum(np.broadcast_to(_up(program, least), (program.count,))))


def is_reached(program: Program) -> bool:
    """Whether all functions reach their infimum at finite scores, as hinges and squares do; then a minimiser exists."""
    functions = [node.function for node in program.nodes if isinstance(node, Elementwise | PairSums)]
    logarithms = any(isinstance(node, LogSumExp) for node in program.nodes)
    return bool(functions) and not logarithms and all(function.reaches_least for function in functions)


def shift(program: Program) -> float | None:
    """Return how fast the risk rises when all scores rise together, if it does so linearly; else None.

    0 where it depends on differences of scores only.
    """

    def moved(node: Node, *x: Any) -> Array | None:
        """The slope of each entry, or of all; None where it is not constant along the shift."""
        if any(one is None for one in x):
            return None
        match node:
            case Scores():
                return np.ones(len(node.axis.rows))
            case Affine():
                terms = zip(node.terms, x, strict=True)
                return sum((_times(c, _spread(node, part, one)) for (c, part), one in terms), np.zeros(1))
            case Dot():
                return node.over.sums(node.shares * x[0])
            case LogSumExp() | Highest():
                tops = node.over.highest(x[0])
                return tops if (x[0] == node.over.spread(tops)).all() else None
            case Elementwise():
                return x[0] if not x[0].any() else None
            case PairSums():
                same = (x[0] == x[0][0]).all() and (x[1] == x[0][0]).all()
                return np.zeros(len(x[1])) if same else None
            case _:
                return None

    found = _up(program, moved)
    return None if found is None else float(np.sum(found))
