"""Is there a direction that ranks every pair as asked? A linear program decides, and its answer is a proof.

Data that admit one have no minimiser under a loss that only approaches zero. A direction that ranks no pair wrongly
and at least one strictly (the others tied) is enough for that too: *quasi-separable* data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

__all__ = ["Separation", "find_separation"]

Array = np.ndarray

# A solver for linear programs meets constraints to about 1e-7; slack below this is not evidence.
_EVIDENCE = 1e-6


@dataclass(frozen=True)
class Separation:
    """What the linear program found.

    Attributes
    ----------
    kind : {"none", "quasi", "strict"}
    direction : ndarray, shape (d,)
        The direction; zeros when there is none.
    """

    kind: str
    direction: Array


def _centred(rows: Any, thresholds: Any) -> Any:
    """Take an offset c out of dense features: A + (B1)cᵀ is the same system with thresholds t − ⟨c, w⟩."""
    total = np.asarray(thresholds.sum(axis=1), dtype=np.float64).ravel()
    if sparse.issparse(rows) or not total.any():
        return rows
    return rows - np.outer(total, total @ rows / (total @ total))


def find_separation(rows: Any, thresholds: Any) -> Separation:
    r"""Decide whether some (w, t) satisfies :math:`Aw + Bt \ge 0`, not all zero, or all strictly.

    Maximises the sum of slacks s, :math:`Aw + Bt \ge s,\ 0 \le s \le 1`, over a bounded direction: the sum is positive
    exactly when the data are quasi-separable, and all slacks can be 1 (after scaling) when they are separable.

    Parameters
    ----------
    rows : array or sparse array, shape (m, d)
        One row an ordering constraint: a positive's features, or a negative's with the sign changed.
    thresholds : array or sparse array, shape (m, t)
        The part of the auxiliary thresholds.
    """
    count, dimension = rows.shape
    rows = _centred(rows, thresholds)
    largest = abs(rows).max(axis=0)
    size = np.asarray(largest.todense() if sparse.issparse(largest) else largest).ravel()
    # each feature in units of its own: the solver drops coefficients that are tiny beside the others
    unit = 1.0 / np.where(size > 0, size, 1.0)
    scaled = sparse.csr_array(rows) @ sparse.diags_array(unit)
    system = sparse.hstack([scaled, sparse.csr_array(thresholds)]).tocsr()
    free = thresholds.shape[1] + dimension
    matrix = sparse.hstack([-system, sparse.eye_array(count)]).tocsr()
    cost = np.r_[np.zeros(free), -np.ones(count)]
    # scaling makes slack 1 reachable for every separable data set unless the margin is below 1e-7 of the features
    bounds = [(-1e7, 1e7)] * free + [(0.0, 1.0)] * count
    answer = linprog(cost, A_ub=matrix, b_ub=np.zeros(count), bounds=bounds, method="highs")
    if answer.x is None:
        return Separation("none", np.zeros(dimension))
    slacks, direction = answer.x[free:], answer.x[:dimension] * unit
    achieved = system @ answer.x[:free]
    if slacks.max() < _EVIDENCE or achieved.min() < -_EVIDENCE:
        return Separation("none", np.zeros(dimension))
    kind = "strict" if achieved.min() > _EVIDENCE else "quasi"
    return Separation(kind, direction / max(float(np.abs(direction).max()), 1e-300))
