"""Steps of an expression in numpy: the value of an atom from those of its arguments, and the adjoints of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from convexrank.modelling.expressions import (
    Affine,
    Dot,
    Elementwise,
    Highest,
    LogSumExp,
    Node,
    PairMeans,
    PairSums,
    Scores,
    SharedMeans,
)
from convexrank.modelling.kernels.highest import border_of, smooth_highest_values
from convexrank.modelling.kernels.pairs import pair_kernel
from convexrank.modelling.levels import (
    CumulativeLogSumExp,
    Threshold,
    pulls,
    values_and_parts,
    values_and_shares,
)

Array = np.ndarray

# How far below the highest of its entries the logarithm of a mean lies that is taken from what is missing to 1.
_NEAR = 1e-4


class Step(NamedTuple):
    """A node's own value, and the product of its transposed Jacobian with adjoints.

    ``up(*arguments)`` returns the value and whatever ``down`` needs of it; ``down(memory, adjoint)`` returns the
    adjoints of the arguments. For leaves the argument of ``up`` is the vector of all scores.
    """

    up: Callable[..., tuple[Array, Any]]
    down: Callable[[Any, Array], tuple[Any, ...]]


def step_of(node: Node, adjoint: Array | None = None) -> Step:
    """Return the step of a node; the adjoint is that of sums over pairs, where it is the same at all scores."""
    return Step(*(_of_pairs(node, adjoint) if isinstance(node, PairSums) else _bound(node)))


def _bound(node: Node) -> tuple[Callable[..., tuple[Array, Any]], Callable[[Any, Array], tuple[Any, ...]]]:
    """Return what gives value and memory, and what gives the adjoints of the arguments."""
    match node:
        case Scores():
            return lambda scores: (node.entries(scores), None), lambda memory, u: ()
        case Affine():
            return _of_affine(node)
        case Dot():
            axis, shares = node.over, node.shares
            return (
                lambda x: (axis.sums(shares * x), None),
                lambda memory, u: (shares * axis.spread(u),),
            )
        case LogSumExp():
            return _of_log_sum_exp(node) if not node.width else _of_smoother_log_sum_exp(node)
        case CumulativeLogSumExp():
            return partial(values_and_shares, node), lambda memory, u: (pulls(node, memory, u),)
        case Highest():
            values = smooth_highest_values if node.width else highest_values
            return (
                lambda x: values(node, x),
                lambda memory, u: (memory * node.over.spread(u),),
            )
        case Threshold():
            axis = node.over
            return partial(values_and_parts, node), lambda memory, u: (memory[0] * axis.spread(u),)
        case Elementwise():
            slopes = node.function.slopes
            return slopes, lambda memory, u: (u * memory,)  # the derivatives are the memory
        case _:
            raise TypeError(f"{type(node).__name__} has no step.")


def _is_multiple(node: Affine) -> bool:
    return len(node.terms) == 1 and not np.any(node.constant) and not node.is_level(node.args[0])


def _of_affine(node: Affine) -> tuple[Any, Any]:
    constant = node.constant
    if _is_multiple(node):
        ((factor, _),) = node.terms
        return lambda x: (factor * x, None), lambda memory, u: (factor * u,)
    has_constant = np.ndim(constant) > 0 or constant != 0.0
    terms = [(c, not np.ndim(c) and c == 1.0, part) for c, part in node.terms]

    def up(*arguments: Array) -> tuple[Array, Any]:
        value, fresh = None, False
        for (c, is_one, part), x in zip(terms, arguments, strict=True):
            x = node.spread(part, x) if is_one else c * node.spread(part, x)
            if value is None:
                value, fresh = x, not is_one
            elif fresh:  # nobody else has this array
                value = np.add(value, x, out=value) if value.shape == x.shape else value + x
            else:
                value, fresh = value + x, True
        if value is None:
            raise TypeError("an expression without scores has no value.")
        return (value + constant if has_constant else value), None

    def down(memory: Any, u: Array) -> list[Any]:
        return [node.gathered(part, u if is_one else c * u) for c, is_one, part in terms]

    return up, down


def _of_log_sum_exp(node: LogSumExp) -> tuple[Any, Any]:
    axis = node.over
    if (node.weights == 1.0).all():
        logs, shift = None, -np.log(axis.sizes) if node.mean else 0.0
    else:
        logs, shift = np.log(node.shares), 0.0

    def one_query(x: Array) -> tuple[Array, Any]:
        exponents = x if logs is None else x + logs
        top = np.maximum.reduce(exponents)
        shares = exponents - top
        np.exp(shares, out=shares)
        whole = np.add.reduce(shares, keepdims=True)
        shares /= whole
        return np.log(whole) + (top + shift), shares

    if axis.count == 1:
        return near_the_highest(node, one_query), lambda memory, u: (memory * u,)

    def up(x: Array) -> tuple[Array, Any]:
        exponents = x if logs is None else x + logs
        tops = axis.highest(exponents)
        shares = exponents - axis.spread(tops)
        np.exp(shares, out=shares)
        sums = axis.sums(shares)
        shares /= axis.spread(sums)
        return tops + np.log(sums) + shift, shares

    return near_the_highest(node, up), lambda memory, u: (memory * axis.spread(u),)


def _of_smoother_log_sum_exp(node: LogSumExp) -> tuple[Any, Any]:
    (up, down), heat = _of_log_sum_exp(replace(node, width=0.0)), 1.0 + node.width
    shift = node.width * np.log(node.over.sums(node.shares))

    def smoother(x: Array) -> tuple[Array, Any]:
        value, shares = up(x / heat)
        return heat * value - shift, shares

    return smoother, down


def near_the_highest(node: LogSumExp, up: Any) -> Any:
    """Take logarithms of means next to 1 from what is missing to 1: 1/p of a small power p magnifies their rounding."""
    if not node.mean:
        return up
    axis = node.over

    def more_exactly(x: Array) -> tuple[Array, Any]:
        (level, shares), highest = up(x), axis.highest(x)
        near = level > highest - _NEAR
        if near.any():
            with np.errstate(invalid="ignore", divide="ignore"):  # where it is not used
                missing = axis.sums(node.shares * np.expm1(x - axis.spread(highest)))
                level = np.where(near, highest + np.log1p(missing), level)
        return level, shares

    return more_exactly


def highest_values(node: Highest, x: Array) -> tuple[Array, Array]:
    """Return the mean of the highest entries of each query, and shares of the rows in it."""
    shares = highest_shares(node, x)
    return node.over.sums(shares * x), shares


def highest_shares(node: Highest, x: Array) -> Array:
    """Return a subgradient of the mean of the highest entries; rows that tie at the border share what is left."""
    axis = node.over
    above, tied, left = highest_rows(node, x)
    return (above + tied * axis.spread(left / axis.sums(tied))) / axis.spread(node.masses)


def highest_rows(node: Highest, x: Array) -> tuple[Array, Array, Array]:
    """Return the weights of the rows above the border of the highest, of those at it, and how much of these counts."""
    axis, border = node.over, node.over.spread(border_of(node, x))
    above, tied = (x > border) * node.weights, (x == border) * node.weights
    return above, tied, node.masses - axis.sums(above)


def weights_at(node: PairSums, upper: Array) -> Array:
    """Return the weights of the upper rows of sums over pairs, or their shares in the means over the lowest."""
    return highest_shares(node.lowest, -upper) if isinstance(node, PairMeans) else node.weights


def kernel_values(node: PairSums, kernel: Any, weights: Array) -> tuple[Array, Any]:
    """Return sums over pairs with some weights of the upper rows, and their memory."""
    value, slope = kernel.sums(weights, (0, 1), to_lower=True)
    if isinstance(node, SharedMeans):
        value = value - node.axis.spread(node.paid)
    return value, (kernel, slope, None, weights)


def _of_pairs(node: PairSums, adjoint: Array | None) -> tuple[Any, Any]:
    """Sums over pairs; both sides come from one pass where the adjoint is known before the scores are."""
    make, fixed = pair_kernel(node), None if isinstance(node, PairMeans) else node.weights

    def up(upper: Array, lower: Array) -> tuple[Array, Any]:
        kernel, weights = make(upper, lower), weights_at(node, upper) if fixed is None else fixed
        both = None if adjoint is None else getattr(kernel, "both", None)
        if both is None:
            return kernel_values(node, kernel, weights)
        value, slope, back = both(weights, adjoint)
        return value, (kernel, slope, back, weights)

    def down(memory: Any, u: Array) -> tuple[Any, ...]:
        kernel, slope, back, weights = memory
        if back is None or not np.array_equal(u, adjoint):  # type: ignore[arg-type]  # known where there is back
            (back,) = kernel.sums(u, (1,), to_lower=False)
        return -weights * back, u * slope

    return up, down
