"""Linear functions below a risk with kinks, by the multipliers of a smooth one: what certificates and proofs take.

What solvers run only suggests multipliers. They are moved into their constraints, and the conjugate of the risk itself
is taken there, in plain numpy or over balls: suggestions that are wrong make the bound loose, but not false.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from convexrank.core.results import CertificateError
from convexrank.modelling import conjugate
from convexrank.modelling.balls import Balls
from convexrank.modelling.certificates.pair_blocks import LISTED, blocks
from convexrank.modelling.expressions import PairSums
from convexrank.modelling.functions import Function
from convexrank.modelling.kernels.ball_pairs import MOST_PAIRS
from convexrank.modelling.language import Numpy
from convexrank.modelling.program import Program

Array = np.ndarray


def below(program: Program, smooth: Program, scores: Array) -> tuple[float, Array]:
    """Return the linear function's value at scores of 0, and its slopes in the scores of all rows."""
    values, memories = smooth.up(scores)
    m, cost = Numpy(), 0.0
    adjoints: list[Any] = [None] * len(program.nodes)
    adjoints[-1] = np.ones(program.count)
    for k in range(len(program.nodes) - 1, -1, -1):
        node, near, u = program.nodes[k], smooth.nodes[k], adjoints[k]
        if isinstance(node, PairSums) and isinstance(near, PairSums):
            upper, lower = (values[a] for a in program.args[k])
            one, parts = _below_pairs(node, near.function, upper, lower, u)
        elif conjugate.is_curved(node):
            suggested = conjugate.pulled(smooth, k, memories[k], u)
            one, parts = conjugate.dual_of(node, m, u, conjugate.shares_of(node, m, suggested, u))
        else:
            one, parts = conjugate.dual_of(node, m, u, None)
        cost += one
        for a, part in zip(program.args[k], parts, strict=True):
            adjoints[a] = part if adjoints[a] is None else adjoints[a] + part
    slopes = np.zeros(program.rows)
    for k, leaf in program.leaves:
        slopes += m.scattered(adjoints[k], leaf, program.rows)
    return -float(cost), slopes


def _below_pairs(
    node: PairSums, near: Function, upper: Array, lower: Array, u: Array
) -> tuple[float, tuple[Array, Array]]:
    """The cost of multipliers of pairs, parts of the slope as another function has them, and those of the rows."""
    function, cost = node.function, 0.0
    on_upper, on_lower = np.zeros(len(upper)), np.zeros(len(lower))
    least = 0.0 if function.increasing else -function.most
    for up, low in _blocks_of_pairs(node):
        each = node.weights[up] * u[low]
        v = each * np.clip(near.slopes(lower[low] - upper[up])[1], least, function.most)
        cost += float(np.sum(function.perspective(Numpy(), v, each)))  # type: ignore[misc]  # there is a conjugate
        on_upper -= np.bincount(up, v, len(upper))
        on_lower += np.bincount(low, v, len(lower))
    return cost, (on_upper, on_lower)


def _blocks_of_pairs(node: PairSums) -> Iterator[tuple[Array, Array]]:
    """Places of upper and lower rows: of all pairs where a list is not too long, else some at a time."""
    if node.pair_count <= LISTED:
        yield node.pairs
        return
    for block in blocks(node):
        yield block.places


def below_in_balls(program: Program, smooth: Program, scores: Array) -> tuple[Any, Array]:
    """Return the same over balls; the scores are balls, which suggest multipliers by their middles."""
    pairs = sum(node.pair_count for node in program.nodes if isinstance(node, PairSums))
    if pairs > MOST_PAIRS:
        raise CertificateError(
            f"{pairs} pairs are more than {MOST_PAIRS}, which are taken one by one in balls."
        )
    suggested = conjugate.multipliers(smooth, scores.astype(float))
    v = conjugate.feasible(program, Balls(), suggested)
    cost, slopes = conjugate.conjugate(program, Balls(), v)
    return -cost, slopes
