r"""Functions with which a risk is written, and the rules that make the stable form of a printed formula.

The rules keep exponentials apart, ``Elementwise`` of ``exp``: a pair sum of the exponential factorises,
:math:`\sum_i a_i e^{f_k-f_i} = e^{f_k + \log\sum_i a_i e^{-f_i}}`, a power of eᵃ is :math:`e^{pa}`, the logarithm of a
mean of eᵃ a log-mean-exp, and :math:`\log(1+e^a)` a softplus. So what is concave of a number may be convex of eᵃ.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from convexrank.core.elementwise_checks import check_slopes
from convexrank.data import check_positive, check_real, check_real_array, check_share, check_spectrum, shown
from convexrank.data.fields import Recorded, plain, recorded
from convexrank.modelling import expressions as tree
from convexrank.modelling import functions
from convexrank.modelling.functions import Function
from convexrank.modelling.levels import CumulativeLogSumExp

Array = np.ndarray


def apply(function: Function, x: tree.Node) -> tree.Node:
    """Return a function of each entry."""
    if not isinstance(function, Function):
        raise TypeError(
            f"apply takes a Function, and got {shown(function)}; a function made of atoms is a losses.Custom, which "
            "loss_of takes."
        )
    if function.own is None:
        checked_function(function)
    return tree.Elementwise(checked_expression(x), function)


@lru_cache(maxsize=64)
def checked_function(function: Function) -> Function:
    """Return a function that is known, or is convex on a grid and what it states."""
    if function.form is None:
        check_slopes(function)
    return function


def exp(x: tree.Node) -> tree.Node:
    """Return eˣ, entry by entry."""
    return apply(functions.exp, x)


def softplus(x: tree.Node) -> tree.Node:
    """Return log(1 + eˣ), entry by entry."""
    return apply(functions.softplus, x)


def hinge(x: tree.Node) -> tree.Node:
    r"""Return :math:`(1 + x)_+`, entry by entry; of a margin z take hinge(-z)."""
    return apply(functions.hinge, x)


def squared_hinge(x: tree.Node) -> tree.Node:
    r"""Return :math:`(1 + x)_+^2`, entry by entry."""
    return apply(functions.squared_hinge, x)


def huber(x: tree.Node, width: float = 1.0) -> tree.Node:
    """Return Huber's function of an affine expression: half the square up to a width, a line beyond."""
    return apply(functions.huber(check_positive(width, "width")), x)


def square(x: tree.Node) -> tree.Node:
    """Return the square, entry by entry, of an affine expression or of what is at least 0 by its form."""
    return power(x, 2.0) if is_nonnegative(checked_expression(x)) else apply(functions.square, x)


def power(x: tree.Node, p: float) -> tree.Node:
    """Return xᵖ for p ≥ 1 and x ≥ 0 by its form; of an exponential (eᵃ)ᵖ = e^(pa) for every p > 0."""
    p, a = check_positive(p, "p"), exponent(checked_expression(x))
    if a is not None:
        return exp(p * a)
    if p == 1.0:
        return x
    if p < 1.0:
        raise TypeError(
            f"({x})^{p:g} is not convex: a power below 1 is convex of an exponential only, such as pair_sums of the "
            "exponential loss."
        )
    # a power of (1 + x)₊ is one function
    if isinstance(x, tree.Elementwise) and x.function is functions.hinge:
        return squared_hinge(x.x) if p == 2.0 else apply(functions.power_of_positive(p), 1.0 + x.x)
    if not is_nonnegative(x):
        raise TypeError(
            f"({x})^{p:g} may be a power of a negative number, and not convex there; take the square, or the power of "
            "what is at least 0 by its form, such as a hinge or pair_sums."
        )
    return apply(functions.power_of_positive(p), x)


def log(x: tree.Node) -> tree.Node:
    """Return the logarithm of an exponential, or of a sum of exponentials; of anything else it is not convex."""
    a = exponent(checked_expression(x))
    if a is not None:
        return a
    if isinstance(x, tree.Dot) and (x.weights > 0.0).all() and (inner := exponent(x.x)) is not None:
        return _log_sum_exp(inner, x.weights, x.mean)
    factor, part = _multiple(x)
    if part is not x and np.min(factor) > 0.0:
        return log(part) + np.log(factor)
    raise TypeError(f"log({x}) is not convex: a logarithm is convex of exponentials and of their sums only.")


def log_one_plus(x: tree.Node) -> tree.Node:
    """Return log(1 + eᵃ) for x = eᵃ; of anything else it is concave."""
    a = exponent(checked_expression(x))
    if a is None:
        raise TypeError(f"log(1 + {x}) is not convex: it is convex of an exponential only.")
    return softplus(a)


def total(x: tree.Node, weights: Any = None) -> tree.Node:
    """Return Σ c x over the rows of each query; by default c are the weights of the rows."""
    return tree.Dot(x, checked_weights(x, weights))


def mean(x: tree.Node, weights: Any = None) -> tree.Node:
    """Return the weighted mean over the rows of each query."""
    found = tree.Dot(x, checked_weights(x, weights), True)
    if (found.over.sums(found.weights) == 0.0).any():
        raise ValueError(
            f"weights of {x} add up to 0 in a query, so that there is no mean; give others, or a total."
        )
    return found


def log_sum_exp(x: tree.Node, weights: Any = None) -> tree.Node:
    """Return log Σ c eˣ over the rows of each query."""
    return _log_sum_exp(x, checked_weights(x, weights, positive=True), False)


def log_mean_exp(x: tree.Node, weights: Any = None) -> tree.Node:
    """Return log Σ c eˣ / Σ c over the rows of each query."""
    return _log_sum_exp(x, checked_weights(x, weights, positive=True), True)


def cumulative_log_sum_exp(x: tree.Node, grades: Any, weights: Any = None) -> tree.Node:
    """Return for each row log Σ c eˣ over the rows of its query whose grade is at most its own.

    Parameters
    ----------
    x : expression
        One number per row.
    grades : ndarray
        One number per row, such as ``f.grades`` for ``f.rows``; equal ones are added up together.
    weights : array, optional
        Factors c greater than 0; by default the weights of the rows.
    """
    c = checked_weights(x, weights, positive=True)
    found = check_real_array(grades, "grades").astype(np.float64, copy=False)
    if found.shape != c.shape or not np.isfinite(found).all():
        raise ValueError(
            f"grades have shape {found.shape}, expected finite numbers, one for each of the {len(c)} rows of {x}."
        )
    return CumulativeLogSumExp(x, c, found)


def _log_sum_exp(x: tree.Node, weights: Array, mean: bool) -> tree.Node:
    """A log-sum-exp without what all rows of a query share: log Σ c e^(x + t) = t + log Σ c eˣ."""
    whole = x if isinstance(x, tree.Affine) else tree.affine(x)
    levels = [whole.is_level(part) and not np.ndim(c) for c, part in whole.exact_terms]
    if not any(levels) or all(levels):
        return tree.LogSumExp(x, weights, mean)
    shared, rest = (
        tuple(term for term, is_level in zip(whole.exact_terms, levels, strict=True) if is_level is wanted)
        for wanted in (True, False)
    )
    return tree.Affine(None, shared) + tree.LogSumExp(
        tree.Affine(whole.axis, rest, whole.exact_constant), weights, mean
    )


def maximum(x: tree.Node) -> tree.Node:
    """Return the largest entry of each query."""
    axis = checked_expression(x).axis
    ones = np.ones(0 if axis is None else len(axis.rows))
    found = tree.Maximum(x, ones, np.ones(x.leaf.axis.count))
    _ = found.over  # refused here where there are no rows
    return found


def mean_of_highest(
    x: tree.Node, count: float | None = None, *, share: float | None = None, weights: Any = None
) -> tree.Node:
    """Return the mean of the highest entries of each query: so many of them, or a share of all.

    Rows count by weight, by default their own: a row of weight 2 is like two rows, and the last row that counts may
    count in part. Where a query has less than ``count``, all its rows count.
    """
    if (count is None) == (share is None):
        raise TypeError(
            f"mean_of_highest takes a count or a share: count is {shown(count)}, share {shown(share)}, expected one."
        )
    a = plain(checked_weights(x, weights, positive=True))
    if share is not None:
        if check_share(share, "share") == 1.0:
            return mean(x, weights)
    elif not (number := check_real(count, "count")) >= 1 or number % 1 != 0:
        raise ValueError(f"count is {shown(count)}, expected a whole number of at least 1.")
    axis: Any = x.axis
    asked = np.full(axis.count, float(count)) if count is not None else share * axis.sums(recorded(a))
    if (a >= axis.spread(plain(asked))).all():  # within every row that may be the highest
        return maximum(x)
    return tree.Highest(x, a, asked)


def spectral_sum(x: tree.Node, spectrum: Any, weights: Any = None) -> tree.Node:
    r"""Return :math:`\sum_k \sigma_k x_{[k]}` over the sorted entries, :math:`x_{[1]} \le x_{[2]} \le \dots`.

    The sum is that of each query. It is convex, as σ does not decrease. It is a weighted sum of means of the highest
    entries, one for each rise of σ.

    Parameters
    ----------
    x : expression
        One entry per row.
    spectrum : array, str or tuple
        The weights σ: ``("top", 0.05)``, ``("top", 100)`` and ``"uniform"`` are means of the highest 5 %, of the
        highest hundred and of all rows. An array has the weights of equal parts of the rows, from the lowest to the
        highest: they do not decrease and add up to 1.
    weights : array, optional
        Weights of the rows; their own by default. A row of weight 2 is like two rows.
    """
    given = check_spectrum(spectrum)
    kind = "count" if given.counted else "share"
    means = [
        (recorded(here) - lower) * end * mean_of_highest(x, **{kind: end}, weights=weights)
        for here, lower, end in given.rises
    ]
    return sum(means[1:], means[0])


def _multiple(x: tree.Node) -> tuple[Any, tree.Node]:
    """Factor and node of what is a multiple of one node."""
    if isinstance(x, tree.Affine) and len(x.terms) == 1 and x.axis is x.args[0].axis:
        return (1.0, x) if np.any(x.constant) else x.terms[0]
    return 1.0, x


def exponent(x: tree.Node) -> tree.Node | None:
    """Return the exponent a of x = eᵃ, and a + log c of x = c eᵃ; None for anything else."""
    factor, part = _multiple(x)
    if not (isinstance(part, tree.Elementwise) and part.function is functions.exp and np.min(factor) > 0.0):
        return None
    return part.x if part is x else part.x + np.log(factor)


def is_nonnegative(x: tree.Node) -> bool:
    """Return whether an expression is at least 0 by its form."""
    match x:
        case tree.Elementwise() | tree.PairSums():
            return x.function.least >= 0.0
        case tree.Affine():
            signs = all(np.min(c) >= 0.0 and is_nonnegative(part) for c, part in x.terms)
            return signs and bool(np.min(x.constant) >= 0.0)
        case tree.Dot():
            return bool(x.weights.min() >= 0.0) and is_nonnegative(x.x)
        case tree.Highest():
            return is_nonnegative(x.x)
        case _:
            return False


def checked_expression(x: Any) -> tree.Node:
    """Return what is an expression; refuse anything else."""
    if isinstance(x, tree.Node):
        return x
    raise TypeError(f"{x!r} is no expression of the scores; write it with f.positive, f.negative or f.rows.")


def checked_weights(x: tree.Node, weights: Any, positive: bool = False) -> Array:
    """Return weights of the rows of an expression, by default their own."""
    axis = checked_expression(x).axis
    if axis is None:
        raise TypeError(f"{x} has one number per query already, and no rows to reduce.")
    if weights is None:
        return axis.weights
    known = isinstance(weights, Recorded) and weights.shape == axis.rows.shape
    found = (
        weights
        if known
        else check_real_array(plain(weights), f"weights of {x}").astype(np.float64, copy=False)
    )
    if found.shape not in ((), axis.rows.shape):
        raise ValueError(
            f"weights of {x} have shape {found.shape}, expected one number, or {len(axis.rows)}, one for each row of "
            f"{axis.name}."
        )
    found = found if known else np.broadcast_to(found, axis.rows.shape)
    if not np.isfinite(found).all() or (positive and not (found > 0.0).all()):
        raise ValueError(f"weights of {x} are not all finite{' and greater than 0' if positive else ''}.")
    return found


def check_convex(root: tree.Node, nodes: Sequence[tree.Node]) -> None:
    """Refuse an expression that the rules do not show to be convex; the message names the place.

    Its nodes are given, arguments before the nodes that use them.
    """
    if root.axis is not None:
        raise TypeError(
            f"the risk is {root}, one number per row of {root.axis.name}; reduce it by mean, total or maximum."
        )
    flat: set[int] = set()
    for node in nodes:
        curved = [part for part in node.args if id(part) not in flat]
        if not curved and isinstance(node, tree.Scores | tree.Affine | tree.Dot):
            flat.add(id(node))
        for part in curved:
            _check_increasing(node, part)


def _check_increasing(node: tree.Node, part: tree.Node) -> None:
    """Refuse a node that may fall where a part that is not affine rises."""
    factors: list[Any] = []
    if isinstance(node, tree.Affine):
        factors = [factor for factor, one in node.terms if one is part]
    elif isinstance(node, tree.Dot):
        factors = [node.weights]
    if any(factor < 0.0 if isinstance(factor, float) else factor.min() < 0.0 for factor in factors):
        raise TypeError(f"the risk is not convex: in {node} the convex part {part} has a negative factor.")
    if isinstance(node, tree.Elementwise) and not node.function.increasing:
        raise TypeError(
            f"the risk is not convex by its form: {node.function.name} is not monotone, and {part} is not affine."
        )
