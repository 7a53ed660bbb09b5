"""Linear constraints of Bregman's algorithm: read, stacked, and tried for a feasible point."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from convexrank.data import check_matrix, check_vector, shown
from convexrank.divergences.base import Divergence

Array = np.ndarray

# A slack below this leaves no room inside the domain that floating point could find.
_ROOM = 1e-9


def stack_rows(A: Any, b: Any, equalities: Any, n: int) -> tuple[Any, Array, int]:
    """All constraints as one CSR matrix, the inequalities first."""
    parts, rights, count = [], [], 0
    if (A is None) != (b is None):
        raise ValueError("A and b come together, and one of them is missing; pass both.")
    if A is not None:
        parts.append(check_matrix(A, "A"))
        rights.append(check_vector(b, parts[-1].shape[0], "b"))
        count = parts[-1].shape[0]
    if equalities is not None:
        if not isinstance(equalities, tuple | list) or len(equalities) != 2:
            raise TypeError(f"equalities is {shown(equalities)}, expected a pair (C, d).")
        parts.append(check_matrix(equalities[0], "C"))
        rights.append(check_vector(equalities[1], parts[-1].shape[0], "d"))
    if not parts:
        raise ValueError("there are no constraints; pass A and b, or equalities=(C, d).")
    for part in parts:
        if part.shape[1] != n:
            raise ValueError(
                f"the constraints have {part.shape[1]} columns, expected {n}, one for each entry of y."
            )
    rows = sparse.csr_array(sparse.vstack([sparse.csr_array(part) for part in parts]))
    rows.eliminate_zeros()
    empty = np.flatnonzero(np.diff(rows.indptr) == 0)
    if len(empty):
        raise ValueError(f"row {int(empty[0])} of the constraints in A is zero; drop it.")
    return rows, np.concatenate(rights), count


def check_feasible(divergence: Divergence, rows: Any, right: Array, count: int) -> None:
    """One linear program: the point with the most room to the edge of the domain."""
    n, domain = rows.shape[1], divergence.domain
    room = np.ones((n, 1))
    upper, limits = [sparse.hstack([rows[:count], np.zeros((count, 1))])], [right[:count]]
    for end, sign in ((domain.lower, -1.0), (domain.upper, 1.0)):
        if math.isfinite(end):
            upper.append(sparse.hstack([sign * sparse.eye_array(n), room]))
            limits.append(np.full(n, sign * end))
    equal: Any = rows[count:]
    equal_right = right[count:]
    if divergence.total is not None:
        equal = sparse.vstack([equal, sparse.csr_array(np.ones((1, n)))])
        equal_right = np.append(equal_right, divergence.total)
    equal = sparse.hstack([equal, np.zeros((equal.shape[0], 1))])
    answer = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=sparse.csr_array(sparse.vstack(upper)),
        b_ub=np.concatenate(limits),
        A_eq=sparse.csr_array(equal) if equal.shape[0] else None,
        b_eq=equal_right if equal.shape[0] else None,
        bounds=[(None, None)] * n + [(0.0, 1.0)],
        method="highs",
    )
    if answer.status == 2:
        raise ValueError(
            f"infeasible: no point of the domain {domain} of {divergence._label} satisfies the constraints; relax b, "
            "or take a divergence with another domain."
        )
    if answer.status == 0 and answer.x[-1] < _ROOM:
        raise ValueError(
            f"infeasible inside the domain: the constraints hold only on the edge of {domain}, where the gradient of "
            f"{divergence._label} is not defined; drop the entries that are forced to the edge."
        )
