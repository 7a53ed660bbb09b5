"""Rules of losses: sums over pairs, totals and thresholds, of known functions and of those that are read from atoms."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from convexrank.data import check_positive, check_real_array, check_share, shown
from convexrank.data.fields import plain, recorded
from convexrank.modelling import expressions as tree
from convexrank.modelling import functions
from convexrank.modelling.functions import Function
from convexrank.modelling.levels import Threshold
from convexrank.modelling.rules import (
    apply,
    checked_expression,
    checked_function,
    checked_weights,
    exp,
    log_mean_exp,
    log_sum_exp,
    total,
)
from convexrank.modelling.tracing import Piece, named, pieces, traced

Array = np.ndarray


def threshold(x: tree.Node, loss: Any, target: float, scale: float = 1.0, weights: Any = None) -> tree.Node:
    r"""Return the least t of each query for which the mean of ℓ(b(t − x)) is at most a target: a smooth quantile.

    With a loss of at least 1 at margins up to 0, at most the share ``target`` of the rows has x at or above t.

    Parameters
    ----------
    x : expression
        One number per row.
    loss : Loss or Function
        A smooth loss ℓ whose infimum is 0, such as ``losses.SquaredHinge()``; or a function φ with ℓ(z) = φ(−z). For
        the exponential this is a log-mean-exp.
    target : float
        A number τ above 0.
    scale : float
        The factor b above 0. As it grows, t goes to the maximum.
    weights : array, optional
        Weights of the rows in the mean, greater than 0; their own by default.
    """
    phi = _function_of(loss, "threshold")
    b = check_positive(scale, "scale")
    tau = check_positive(target, "target")
    if phi is functions.exp:
        return (log_mean_exp(b * x, weights) - np.log(recorded(tau))) / b
    if not (phi.smooth and phi.increasing and phi.least == 0.0):
        raise ValueError(
            f"threshold takes a smooth loss that falls to 0, such as squared_hinge, and got {phi.name}."
        )
    return Threshold(x, checked_weights(x, weights, positive=True), phi, b, tau)


def pair_sums(loss: Any, upper: tree.Node, lower: tree.Node, grades: Any = None) -> tree.Node:
    r"""Return :math:`\sum_i a_i \ell(x_i - x_k)` for each lower row k, over the upper rows i of its query.

    Parameters
    ----------
    loss : Loss or Function
        A loss ℓ(z) of :mod:`convexrank.losses`, convex and not increasing; or a function φ with ℓ(z) = φ(−z).
    upper, lower : expression
        Affine expressions with one entry per row; pushes take ``f.positive`` and ``f.negative``.
    grades : ndarray, optional
        Grades of the rows, where upper and lower are the same group: pairs with a higher upper grade count.
    """
    known = _pieces_of(loss, "pair_sums")
    if not all(tree.is_affine(checked_expression(x)) and x.axis is not None for x in (upper, lower)):
        raise TypeError(
            f"pair_sums takes affine expressions of the scores with one entry per row, and got {upper} and {lower}."
        )
    if grades is not None:
        grades = check_real_array(grades, "grades").astype(np.float64, copy=False)
        if upper.axis is not lower.axis or upper.axis is None or grades.shape != upper.axis.rows.shape:
            raise ValueError(
                "grades are those of one group of rows, which are both the upper and the lower ones."
            )
        if not np.isfinite(grades).all():
            raise ValueError("grades are not all finite; leave out rows without a grade.")
    found = reduce(add, [_pair_sums(one, upper, lower, grades) for one in known])
    return _printed(loss, found, lambda phi: tree.PairSums(phi, upper, lower, grades))


def _pair_sums(piece: Piece, upper: tree.Node, lower: tree.Node, grades: Any) -> tree.Node:
    """The sum of c φ(s (x_k − x_i) + b)."""
    if not piece.is_plain:
        upper, lower = piece.scale * upper, piece.scale * lower + piece.shift
    if grades is None and piece.function is functions.exp:
        found: tree.Node = exp(lower + log_sum_exp(-upper))
    else:
        found = tree.PairSums(piece.function, upper, lower, grades)
    return found if piece.is_plain else piece.factor * found


def pair_means(loss: Any, upper: tree.Node, lower: tree.Node, lowest: Any) -> tree.Node:
    r"""Return for each lower row k the mean of :math:`\ell(x_i - x_k)` over the lowest upper rows i of its query.

    Parameters
    ----------
    loss : Loss or Function
        A loss ℓ(z), convex and not increasing; or a function φ with ℓ(z) = φ(−z).
    upper, lower : expression
        Affine expressions with one entry per row; pushes take ``f.positive`` and ``f.negative``.
    lowest : float
        The share of the upper rows of each query that counts, above 0 and at most 1, by weight.
    """
    known, share = _pieces_of(loss, "pair_means"), check_share(plain(lowest), "lowest")
    sums = pair_sums(loss, upper, lower)
    axis, low = tree.rows_of(upper), tree.rows_of(lower)
    whole = axis.sums(recorded(axis.weights))
    if share == 1.0:
        return sums * (1.0 / whole)[low.query]
    if not all(one.function.increasing for one in known):
        raise ValueError(
            "pair_means takes a loss that does not increase, whose worst upper rows are the lowest; got "
            f"{known[0].function.name}."
        )
    found = reduce(add, [_pair_means(one, upper, lower, lowest * whole) for one in known])
    return _printed(
        loss, found, lambda phi: _pair_means(Piece(1.0, phi, 1.0, 0.0), upper, lower, lowest * whole)
    )


def _pair_means(piece: Piece, upper: tree.Node, lower: tree.Node, asked: Array) -> tree.Node:
    """The mean of c φ(s (x_k − x_i) + b) over the lowest i, which are those of every φ that does not decrease."""
    if not piece.is_plain:
        upper, lower = piece.scale * upper, piece.scale * lower + piece.shift
    lowest = tree.Highest(-1.0 * upper, tree.rows_of(upper).stored_weights, asked)
    found = tree.PairMeans(piece.function, upper, lower, lowest=lowest)
    return found if piece.is_plain else piece.factor * found


def loss_of(loss: Any, margins: tree.Node) -> tree.Node:
    """Return ℓ(z) of a loss, entry by entry of an expression z of the scores."""
    phi = _function_of(loss, "loss_of")
    read = traced(loss, margins) if _states_nothing(loss, phi) else None
    return apply(phi, -margins) if read is None else _printed(loss, read, lambda phi: apply(phi, -margins))


def total_loss(loss: Any, margins: tree.Node, weights: Any = None) -> tree.Node:
    """Return Σ c ℓ(x) of a loss over the rows of each query; that of the exponential is one of a log-sum-exp."""
    found = []
    for one in _pieces_of(loss, "total_loss"):
        line = -margins if one.is_plain else one.shift - one.scale * margins
        exponential = one.function is functions.exp
        part = exp(log_sum_exp(line, weights)) if exponential else total(apply(one.function, line), weights)
        found.append(part if one.is_plain else one.factor * part)
    return _printed(loss, reduce(add, found), lambda phi: total(apply(phi, -margins), weights))


def _function_of(loss: Any, what: str) -> Function:
    """The function φ(x) = ℓ(−x) of a loss, or a function as it is."""
    if isinstance(loss, Function):
        return checked_function(loss)
    stated = all(hasattr(loss, name) for name in ("smooth", "attained", "factorises"))
    if isinstance(loss, type) or not stated:
        raise TypeError(
            f"{what} takes a loss, and got {shown(loss)}, expected one such as "
            "convexrank.losses.Hinge() or losses.Custom(function), or a Function."
        )
    return checked_function(functions.of_loss(loss))


def _pieces_of(loss: Any, what: str) -> tuple[Piece, ...]:
    """The terms of ℓ(−x): those of a loss of one's own that are read from its atoms, else one function."""
    phi = _function_of(loss, what)
    found = pieces(loss) if _states_nothing(loss, phi) else None
    return found or (Piece(1.0, phi, 1.0, 0.0),)


def _printed(loss: Any, found: tree.Node, own: Callable[[Function], tree.Node]) -> tree.Node:
    """What is read from a loss that has a name is printed by that name."""
    phi = _function_of(loss, "")
    return named(loss, found, lambda: own(phi)) if _states_nothing(loss, phi) else found


def _states_nothing(loss: Any, phi: Function) -> bool:
    """Whether a loss is its call alone, with no reading of its own."""
    reads = phi.line is not None or phi.coefficients is not None
    return not (isinstance(loss, Function) or phi.own is None or reads)
