r"""Sizes of the numbers from which a risk and its slopes are computed, to which their rounding is relative.

An error e in an entry of a node changes the risk by its adjoint times e. Adjoints are added up by their sizes here, so
that terms that cancel count: :math:`(f + 10^8)^2 - 10^{16}` is as uncertain as its terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.modelling import expressions as tree
from convexrank.modelling.levels.cumulative import CumulativeLogSumExp
from convexrank.modelling.levels.thresholds import Threshold
from convexrank.modelling.program import Program

Array = np.ndarray


def sizes_of_terms(
    program: Program, values: list[Array], parts: list[tuple[Any, ...]]
) -> tuple[float, Array]:
    """Return the size of all terms of the risk, and of those of its slope in each score, shape (n,).

    Given are the entries of all nodes and the adjoints of their arguments; only those of affine functions can cancel.
    """
    pulls: list[Any] = [0.0] * len(program.nodes)
    pulls[-1], whole = np.ones(program.count), 0.0
    for k in range(len(program.nodes) - 1, -1, -1):
        node, args = program.nodes[k], program.args[k]
        size, found = _sizes(node, pulls[k], values[k], parts[k], [np.abs(values[a]) for a in args])
        whole += float(np.sum(size))
        for a, part in zip(args, found, strict=True):
            pulls[a] = pulls[a] + np.abs(part)
    slopes = np.zeros(program.rows)
    for k, leaf in program.leaves:
        for _, rows in leaf.sides:
            slopes += np.bincount(rows, np.broadcast_to(pulls[k], rows.shape), len(slopes))
    return whole, slopes


def _sizes(node: tree.Node, u: Any, value: Array, parts: tuple[Any, ...], x: list[Array]) -> tuple[Any, Any]:
    """The sizes of the numbers that entries are computed from, weighed by u, and the adjoints of the arguments."""
    match node:
        case tree.Scores():
            return 0.0, ()  # the point itself
        case tree.Affine():
            size, found = np.abs(node.constant), []
            for (c, part), one in zip(node.terms, x, strict=True):
                level = node.is_level(part) and node.axis is not None
                size = size + np.abs(c) * (node.axis.spread(one) if level and node.axis is not None else one)
                pull = np.abs(c) * u
                found.append(node.axis.sums(pull) if level and node.axis is not None else pull)
            return u * size, found
        case tree.Dot():
            pull = np.abs(node.shares) * node.over.spread(u)
            return pull * x[0], (pull,)
        case tree.Elementwise():
            return u * np.abs(value) + np.abs(parts[0]) * (1.0 + x[0]), parts
        case tree.PairSums():
            return u * np.abs(value) + np.abs(parts[1]) * (1.0 + x[1] + x[0].max()), parts
        case _:
            return u * (1.0 + np.abs(value)), parts


class Sizes:
    """A bound on the size of all terms, by a few numbers.

    Sums of adjoints are passed down the tree, and entries of affine functions are bounded by the largest score. What
    stays are the adjoints and values of the other atoms.
    """

    def __init__(self, program: Program) -> None:
        largest, uses = _largest_entries(program), _uses(program)
        self._whole = _below(program, largest, None)
        self._curved = [
            (
                k,
                *(
                    _below(program, largest, k)
                    if isinstance(node, tree.Elementwise | tree.PairSums)
                    else (0.0, 0.0)
                ),
                use,
            )
            for k, (node, use) in enumerate(zip(program.nodes, uses, strict=True))
            if not isinstance(node, tree.Scores | tree.Affine | tree.Dot)
        ]

    def most(self, largest: float, values: list[Any], multipliers: list[Any], parts: list[Any]) -> float:
        """Return the bound, for scores of at most a size."""
        found = self._whole[0] * largest + self._whole[1]
        for k, a, b, uses in self._curved:
            found += uses * summed(multipliers[k] * abs(values[k]))
            # slopes of a loss that falls and rises cancel in the sums of one argument and not in those of the other
            found += max(map(summed, map(abs, parts[k]))) * (a * largest + b) if b else 0.0
        return found


def summed(x: Any) -> float:
    """Return the sum of the entries; of a number itself."""
    return float(x if isinstance(x, float) else np.add.reduce(x))


def _uses(program: Program) -> list[float]:
    """Count the uses of each node's entries: in itself, and in the sums up to the next function."""
    found = [1.0] * len(program.nodes)
    for k in range(len(program.nodes) - 1, -1, -1):
        node = program.nodes[k]
        once = (
            found[k]
            if isinstance(node, tree.Affine | tree.Dot)
            else float(isinstance(node, tree.Elementwise | tree.PairSums))
        )
        for a in program.args[k]:
            found[a] = max(found[a], 1.0 + once)
    return found


def _largest_entries(program: Program) -> list[Array]:
    """Return bounds a·|scores| + b of the entries of affine functions: a and b of each node; 0 of other nodes."""
    found: list[Array] = []
    for node, args in zip(program.nodes, program.args, strict=True):
        x = [found[a] for a in args]
        match node:
            case tree.Scores():
                found.append(np.array([1.0, 0.0]))
            case tree.Affine():
                parts = [_most(c) * one for (c, _), one in zip(node.terms, x, strict=True)]
                found.append(sum(parts, np.array([0.0, _most(node.constant)])))
            case tree.Dot():
                found.append(_most(node.over.sums(np.abs(node.shares))) * x[0])
            case _:
                found.append(np.zeros(2))
    return found


def _below(program: Program, largest: list[Array], place: int | None) -> tuple[float, float]:
    """The terms down to other functions, for adjoints with a sum of 1 of a function's argument, or for the risk.

    They are at most a·|scores| + b: a and b.
    """
    one = np.array([0.0, 1.0])
    found, pulls, last = 0.0 * one, [0.0] * len(program.nodes), len(program.nodes)
    if place is None:
        pulls[-1] = float(program.count)
    else:
        found, last = one, place
        for a in program.args[place]:
            pulls[a] += 1.0
            found = found + largest[a]
    for k in range(last - 1, -1, -1):
        node, pull = program.nodes[k], pulls[k]
        match node:
            case tree.Affine():
                found = found + pull * _most(node.constant) * one
                factors = [_most(c) for c, _ in node.terms]
            case tree.Dot():
                factors = [_most(node.over.sums(np.abs(node.shares)))]
            case tree.LogSumExp() | tree.Highest() | CumulativeLogSumExp() | Threshold():
                found, factors = found + pull * one, [1.0]
            case _:
                continue
        for a, factor in zip(program.args[k], factors, strict=True):
            pulls[a] += factor * pull
            if isinstance(node, tree.Affine | tree.Dot):
                found = found + factor * pull * largest[a]
    return float(found[0]), float(found[1])


def _most(x: Any) -> float:
    return float(np.abs(x).max(initial=0.0))
