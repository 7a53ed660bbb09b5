"""Separability: a linear program decides whether a direction ranks every pair correctly, with a proof.

Separable data have no minimiser under a loss that approaches zero but does not reach it. The same holds for
*quasi-separable* data: a direction ranks no pair wrongly and at least one strictly, with the others tied.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import dense, in_units, is_sparse
from convexrank.backend.interruption import check_time, time_left

Array = np.ndarray

# A solver for linear programs meets constraints to about 1e-7; slack below this is not evidence.
_EVIDENCE = 1e-6
# How long a direction may be, in units of the features. The longest makes slack 1 reachable for every separable data
# set unless the margin is below 1e-7. Where weights that decide nothing run to it, rounding is not small beside the
# slacks; a shorter one decides then, and may miss a row by as much less.
_REACHES = (1e7, 1e4, 1e2)
# Rows of the first, small program for each unknown: twice as many rows as unknowns are separable by chance.
_ROWS_PER_COLUMN = 6
# With more thresholds than this, as where all labels differ, interior points are faster than the simplex method.
_MANY_THRESHOLDS = 1000


@dataclass(frozen=True)
class Separation:
    """The result of the linear program.

    Attributes
    ----------
    kind : {"none", "quasi", "strict"}
    direction : ndarray, shape (d,)
        The direction; zeros when there is none.
    """

    kind: str
    direction: Array


def units_of_features(rows: Any) -> Array:
    """Return a unit for each feature: linear programs drop coefficients that are tiny beside others."""
    size = dense(abs(rows).max(axis=0)).ravel()
    return 1.0 / np.where(size > 0, size, 1.0)


def _centred(rows: Any, thresholds: Any) -> Any:
    """Take an offset c out of dense features: A + (B1)cᵀ is the same system with thresholds t − ⟨c, w⟩."""
    total = np.asarray(thresholds.sum(axis=1), dtype=np.float64).ravel()
    if is_sparse(rows) or not total.any():
        return rows
    return rows - np.outer(total, total @ rows / (total @ total))


def find_separation(rows: Any, thresholds: Any) -> Separation:
    r"""Decide whether some (w, t) satisfies :math:`Aw + Bt \ge 0`, not all zero, or all strictly.

    Maximises the sum of slacks s, :math:`Aw + Bt \ge s,\ 0 \le s \le 1`, over a bounded direction: the sum is positive
    exactly when the data are quasi-separable, and all slacks can be 1 (after scaling) when they are separable.

    Few rows decide, so the program is solved over some first, drawn with a fixed seed. Either they admit no direction
    but those that leave every row tied, which proves that no direction exists; or the rows that the answer does not
    satisfy with slack 1 are added, until no such row is left. The direction is then optimal over all rows.

    Parameters
    ----------
    rows : array or sparse array, shape (m, d)
        One row per ordering constraint: a positive's features, or a negative's with the sign changed.
    thresholds : array or sparse array, shape (m, t)
        The part of the auxiliary thresholds.

    Raises
    ------
    OutOfTimeError
        When the deadline of the solve passes first.
    """
    count, dimension = rows.shape
    rows = _centred(rows, thresholds)
    unit = units_of_features(rows)
    scaled = in_units(sparse.csr_array(rows), unit)
    system = sparse.hstack([scaled, sparse.csr_array(thresholds)]).tocsr()
    everything = np.arange(count)
    chosen = np.random.default_rng(0).permutation(count)[
        : _ROWS_PER_COLUMN * (dimension + thresholds.shape[1])
    ]
    while True:
        check_time()
        point = _widest(system[chosen])
        achieved = system @ point
        if not achieved[chosen].min() >= -_EVIDENCE:  # no answer, or one that is too inaccurate
            if len(chosen) == count:
                break
            chosen = everything
            continue
        tied = achieved[chosen].max() < _EVIDENCE
        if tied and (len(chosen) == count or _ties_all(system, chosen)):
            break
        rest = np.setdiff1d(everything, chosen)
        worst = rest[np.argsort(achieved[rest], kind="stable")]
        short = worst if tied else worst[achieved[worst] < 1.0 - _EVIDENCE]
        if len(short):
            chosen = np.concatenate([chosen, short[: len(chosen)]])
            continue
        kind, direction = "strict" if achieved.min() > _EVIDENCE else "quasi", point[:dimension] * unit
        return Separation(kind, direction / max(float(np.abs(direction).max()), 1e-300))
    return Separation("none", np.zeros(dimension))


def _widest(system: Any) -> Array:
    """Maximise the sum of slacks over some rows; NaN when the solver gives up, or no answer is accurate."""
    from scipy.optimize import linprog  # slow to import, and rarely needed

    count, free = system.shape
    matrix = sparse.hstack([-system, sparse.eye_array(count)]).tocsr()
    cost = np.r_[np.zeros(free), -np.ones(count)]
    method = "highs" if free <= _MANY_THRESHOLDS else "highs-ipm"
    for reach in _REACHES:
        bounds = [(-reach, reach)] * free + [(0.0, 1.0)] * count
        options = {"time_limit": left} if math.isfinite(left := max(time_left(), 0.0)) else {}
        answer = linprog(
            cost, A_ub=matrix, b_ub=np.zeros(count), bounds=bounds, method=method, options=options
        )
        check_time()
        if answer.x is not None and (system @ answer.x[:free]).min() >= -_EVIDENCE * reach / _REACHES[0]:
            return answer.x[:free]
    return np.full(free, np.nan)


def _ties_all(system: Any, chosen: Array) -> bool:
    """Whether every direction that leaves the chosen rows at zero leaves all rows at zero; False when in doubt."""
    some = system[chosen]
    sizes, directions = np.linalg.eigh((some.T @ some).toarray())
    idle = directions[:, sizes <= 1e-10 * sizes[-1]]
    return not idle.size or float(np.abs(system @ idle).max()) < _EVIDENCE
