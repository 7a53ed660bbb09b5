"""The least l1 at which w = 0 is a minimiser, where the risk has a kink at scores of 0."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize, sparse

from convexrank.backend.gram import entries, transposed_times
from convexrank.regularizers import Penalty

Array = np.ndarray

# A sum of slopes below this share of the largest slopes is rounding.
_ROUNDING = 1e-12


def least_steepness(rows: Any, pull: Array, shared: Array, most: Array, penalty: Penalty) -> float:
    r"""Return :math:`\min_u \|X^\top u\|_\infty` over the subgradients u of a risk at scores of 0.

    All subgradients give the shared rows the same sum, in any distribution that gives none too large a share. So the
    minimum is a linear program with one unknown per shared row. The result is evaluated at the answer of the program:
    for this l1, w = 0 is a minimiser, whatever the tolerance of the program.

    Parameters
    ----------
    rows : matrix or design, shape (n, d)
        The features X.
    pull : ndarray, shape (n,)
        One subgradient in the scores.
    shared : ndarray of int, shape (m,)
        Rows that share the sum of their entries of the subgradient in any way.
    most : ndarray, shape (m,)
        The largest share of each of them.
    penalty : Penalty
        Among weights that must be at least 0, only those count that would increase.
    """
    total, fixed = float(pull[shared].sum()), pull.copy()
    fixed[shared] = 0.0
    base = np.asarray(transposed_times(rows, fixed), dtype=np.float64)
    points = entries(rows[shared])
    columns: Any = sparse.csr_array(points.T * total, dtype=np.float64)
    unit = max(penalty.steepness(base), float(np.abs(columns.data).max(initial=0.0)))
    if unit == 0.0:
        return 0.0
    free = np.flatnonzero(
        np.ones(len(base), dtype=bool) if penalty.nonnegative is None else ~penalty.nonnegative
    )
    # a weight that would increase has a negative slope; for free weights both signs count
    sides = sparse.vstack([-columns, columns[free]], format="csr") / unit
    limits = np.concatenate([base, -base[free]]) / unit
    below = sparse.hstack([sides, np.full((len(limits), 1), -1.0)], format="csr")
    found = optimize.linprog(
        np.append(np.zeros(len(shared)), 1.0),
        A_ub=below,
        b_ub=limits,
        A_eq=np.append(np.ones(len(shared)), 0.0)[None, :],
        b_eq=[1.0],
        bounds=np.column_stack([np.zeros(len(shared) + 1), np.append(most, np.inf)]),
        method="highs",
    )
    if found.status != 0:
        raise ValueError(
            f"the largest l1 that matters was not found: {found.message} Pass values of l1 instead."
        )
    parts = np.maximum(found.x[:-1], 0.0) / np.maximum(found.x[:-1], 0.0).sum()
    # towards shares that are surely allowed, until none is too large by the tolerance of the program
    allowed, over = most / most.sum(), parts > most
    room = ((most - allowed)[over] / (parts - allowed)[over]).min(initial=1.0)
    slope = base + columns @ (allowed + room * (parts - allowed))
    steepest = max(penalty.steepness(-slope), 0.0)
    return steepest if steepest > _ROUNDING * unit else 0.0
