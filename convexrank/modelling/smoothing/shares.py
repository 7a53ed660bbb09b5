r"""Means over the lowest upper rows with smooth shares, the same ones for all lower rows.

A mean :math:`\max_\alpha\sum_i\alpha_i\varphi(x_k - x_i)` has the same best shares α for all k. With a width μ they are
those that attain :math:`\max_\alpha F(s(\alpha)) - \tfrac12\mu u\sum_i\alpha_i^2/a_i`: F what is taken of the sums s,
convex and not decreasing, and u its multipliers. For fixed shares that is a convex function of the scores below the
risk, and so is the largest of them. Shares and multipliers follow from one another by turns, and the value rises: a few
turns when μ is small, as rows whose shares move have nearly the same scores then. Wherever they stop, the shares prove
a bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.modelling.expressions import PairMeans, SharedMeans
from convexrank.modelling.hessian_products import State
from convexrank.modelling.kernels.highest import nearest_shares
from convexrank.modelling.program import Program
from convexrank.modelling.steps import kernel_values

Array = np.ndarray

# Turns, and the sum of changes of shares, which add up to 1, from which on these are settled.
_MOST_TURNS, _SETTLED = 60, 1e-11


def means_in(program: Program) -> list[int]:
    """Return the places of means over the lowest upper rows."""
    return [k for k, node in enumerate(program.nodes) if isinstance(node, PairMeans)]


def settled(program: Program, means: list[int], scores: Array) -> tuple[Program, State]:
    """Return the program with the best shares of its means at the scores, by their widths, and its state there."""
    values, memories = program.up(scores)
    adjoints, atoms, turns = program.down(memories), dict[int, Any](), 0
    moving = sorted(depending_on(program, means).difference(means))
    change, before = 2.0, math.inf
    while _SETTLED < change < before and turns < _MOST_TURNS:  # where it falls no more, it is rounding
        check_time()
        change, before, turns = 0.0, change, turns + 1
        for k in means:
            node: Any = program.nodes[k]
            kernel, shares = memories[k][0], memories[k][3]
            one = replace_shares(node, _best(node, kernel, adjoints[k], shares))
            change += float(np.abs(one.shares - shares).sum()) / node.axis.count
            atoms[k] = one
            values[k], memories[k] = kernel_values(one, kernel, one.shares)
        for k in moving:
            values[k], memories[k] = program.steps[k].up(*[values[a] for a in program.args[k]])
        adjoints = program.down(memories)
    return program.with_atoms(atoms), (values, memories, adjoints)


def replace_shares(node: Any, shares: Array) -> SharedMeans:
    """Return the means with fixed shares; what is known about rows and pairs stays known."""
    found = SharedMeans(node.function, node.upper, node.lower, node.grades, lowest=node.lowest, shares=shares)
    fixed = ("lowest", "shares", "squares", "paid")
    vars(found).update({name: one for name, one in vars(node).items() if name not in fixed})
    return found


def of_width(node: PairMeans, width: float) -> PairMeans:
    """Return the means whose shares have a width."""
    kept = {name: one for name, one in vars(node).items() if name != "lowest"}
    found = replace(node, lowest=replace(node.lowest, width=width))
    vars(found).update(kept)
    return found


def _best(node: Any, kernel: Any, u: Array, before: Array) -> Array:
    """Return the best shares for multipliers; of a query without any those before."""
    (gains,), whole = kernel.sums(u, (0,), to_lower=False), node.axis.sums(u)
    axis = node.lowest.over
    found = nearest_shares(node.lowest, gains / axis.spread(np.where(whole > 0.0, whole, 1.0)))
    return found if (whole > 0.0).all() else np.where(axis.spread(whole) > 0.0, found, before)


def depending_on(program: Program, places: Iterable[int]) -> set[int]:
    """Return the places of what depends on some nodes, and of these."""
    found = set(places)
    for k, args in enumerate(program.args):
        if not found.isdisjoint(args):
            found.add(k)
    return found
