"""Points of a dual that satisfy the constraint of a penalty without l2, or a direction that shows that none does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import entries
from convexrank.problems.duals._blocks import Conjugate
from convexrank.regularizers import Penalty

Array = np.ndarray

# Corrections after which a point balances the rows up to rounding.
_ROUNDS = 4


@dataclass(frozen=True)
class Nearest:
    """The weights under which the rows are most nearly balanced.

    Parameters
    ----------
    v : ndarray, shape (m,)
        The weights.
    direction : ndarray, shape (d,)
        The multipliers of the entries of Xᵀ(Av + b): a direction of length 1 in the sum of absolute values, along which
        the risk falls at the rate of the largest entry; 0 where the linear program was not solved.
    """

    v: Array
    direction: Array


def nearest(conjugate: Conjugate, X: Any, penalty: Penalty) -> Nearest:
    """Minimise the largest entry of Xᵀ(Av + b) over distributions v, a linear program.

    Parameters
    ----------
    conjugate : Conjugate
        One whose blocks are distributions.
    X : matrix, shape (n, d)
        The rows.
    penalty : Penalty
        The penalty, which determines the entries that count on one side only.
    """
    from scipy.optimize import linprog  # slow to import, and rarely needed

    products = (sparse.csr_array(entries(X)).T @ conjugate.matrix).tocsr()
    dimension = int(X.shape[1])
    signed = np.zeros(dimension, dtype=bool) if penalty.nonnegative is None else penalty.nonnegative
    count, both_sides = int(conjugate.ends[-1]), int((~signed).sum())
    entries_of_both = [products[np.flatnonzero(~signed)], -products]
    limits = both_sides + dimension
    matrix = sparse.hstack([sparse.vstack(entries_of_both), -np.ones((limits, 1))]).tocsr()
    sums = sparse.hstack([conjugate.sums, sparse.csr_array((len(conjugate.blocks), 1))])
    answer = linprog(
        np.r_[np.zeros(count), 1.0],
        A_ub=matrix,
        b_ub=np.zeros(limits),
        A_eq=sums,
        b_eq=np.ones(len(conjugate.blocks)),
        bounds=[(0.0, None)] * count + [(0.0, None)],
        method="highs",
    )
    direction = np.zeros(dimension)
    if answer.x is None:
        return Nearest(conjugate.near(np.ones(count)), direction)
    multipliers = -np.asarray(answer.ineqlin.marginals)
    direction[~signed] -= multipliers[:both_sides]
    direction += multipliers[both_sides:]
    return Nearest(conjugate.near(np.asarray(answer.x)[:-1]), direction)


def balanced(conjugate: Conjugate, X: Any, v: Array) -> Array | None:
    """Return a point near v with Xᵀ(Av + b) = 0 up to rounding; None where none is near.

    The correction is the smallest one relative to v, so that small entries change little and stay positive.
    """
    rows = entries(X)
    products = (sparse.csr_array(rows).T @ conjugate.matrix).tocsr()
    shift = np.zeros(products.shape[0]) if conjugate.shift is None else rows.T @ conjugate.shift
    scale = np.asarray(abs(products).max(axis=1).todense()).ravel()
    products = sparse.diags_array(1.0 / np.where(scale > 0.0, scale, 1.0)) @ products
    shift = shift / np.where(scale > 0.0, scale, 1.0)
    for _ in range(_ROUNDS):
        scaled = products @ sparse.diags_array(np.abs(v))
        gram, rest = (scaled @ products.T).toarray(), products @ v + shift
        ones = conjugate.sums.toarray()
        sums = ones * np.abs(v)
        joint = np.block([[gram, scaled @ ones.T], [ones @ scaled.T, sums @ ones.T]])
        step = np.linalg.lstsq(joint, np.r_[rest, np.zeros(len(ones))], rcond=1e-13)[0]
        moved = v - np.abs(v) * (np.r_[products.T @ step[: len(rest)]] + ones.T @ step[len(rest) :])
        v = conjugate.near(moved)
    close = np.abs(products @ v + shift).max(initial=0.0) <= 1e-11 * max(1.0, float(np.abs(v).sum()))
    return v if close else None
