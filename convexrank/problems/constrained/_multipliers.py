r"""Multipliers that prove that no point satisfies a constraint on hinges.

For :math:`0 \le m_r \le c_r` with :math:`\sum_r m_r a_r = 0`, every z has

.. math:: \sum_r c_r (1 - \langle a_r, z\rangle)_+ \ge \sum_r m_r (1 - \langle a_r, z\rangle) = \sum_r m_r.

A linear program finds the largest sum. Its answer balances up to
rounding; the balance is made exact in rational numbers by moving a few multipliers that are inside of their limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import qr
from scipy.optimize import linprog

from convexrank import losses
from convexrank.modelling import Groups, Node, apply, mean
from convexrank.problems.bipartite._base import Bipartite

Array = np.ndarray

# The share of multipliers inside of their limits that is mixed in, so that there is room to move them.
_INSIDE = 1e-7

# Pivots below this share of the largest are of columns that depend on others.
_RANK = 1e-11


@dataclass(frozen=True, eq=False)
class Infeasibility:
    """Statement of multipliers of the rows about the left side of a constraint.

    Parameters
    ----------
    multipliers : ndarray, shape (n,)
        Multipliers of the rows, at least 0, with :math:`\\sum_r m_r a_r = 0`.
    least : float
        Their sum over the limit: the left side is at least this many times the limit. Above 1 no point satisfies the
        constraint.
    proved : bool
        Whether multipliers that differ from these by rounding balance exactly, in rational numbers, and prove it.
    """

    multipliers: Array
    least: float
    proved: bool


def least_left_side(rows: Array, caps: Array) -> tuple[Array, Array]:
    """Return multipliers with the largest sum, and the point z with the least left side, by linear programming."""
    unit = _units(rows)
    found = linprog(
        -np.ones(len(rows)),
        A_eq=(rows * unit).T,
        b_eq=np.zeros(rows.shape[1]),
        bounds=np.column_stack([0.0 * caps, caps]),
    )
    if found.x is None:
        raise ValueError(
            f"the linear program of the constraint failed ({found.message}); scale the features."
        )
    return np.clip(found.x, 0.0, caps), -np.asarray(found.eqlin.marginals) * unit


def balanced(rows: Array, caps: Array, multipliers: Array, limit: Fraction) -> bool:
    """Return whether multipliers near these, with more room, balance exactly and add up to more than the limit."""
    unit = _units(rows)
    scaled = rows * unit
    # the most even multipliers: t times their limits from either end
    each, share = sparse.eye_array(len(rows)), sparse.csr_array(caps[:, None])
    found = linprog(
        np.append(0.0 * caps, -1.0),
        A_ub=sparse.block_array([[-each, share], [each, share]]),
        b_ub=np.append(0.0 * caps, caps),
        A_eq=np.column_stack([scaled.T, np.zeros(rows.shape[1])]),
        b_eq=np.zeros(rows.shape[1]),
    )
    inside = multipliers if found.x is None else np.clip(found.x[:-1], 0.0, caps)
    mixed = (1.0 - _INSIDE) * multipliers + _INSIDE * inside
    room = np.minimum(mixed, caps - mixed)
    triangle, columns = _pivots((scaled * room[:, None]).T)
    steps = np.abs(np.diag(triangle))
    rank = int((steps > _RANK * steps.max(initial=0.0)).sum())
    chosen = columns[:rank]
    kept = _pivots(scaled[chosen])[1][:rank]
    exact = [[Fraction(entry) for entry in row] for row in rows.tolist()]
    moved = [Fraction(entry) for entry in mixed.tolist()]
    off = [-sum((m * row[j] for m, row in zip(moved, exact, strict=True)), Fraction()) for j in kept]
    change = _solved([[exact[r][j] for r in chosen] for j in kept], off)
    if change is None:
        return False
    for r, step in zip(chosen, change, strict=True):
        moved[r] += step
    inside_limits = all(0 <= m <= Fraction(cap) for m, cap in zip(moved, caps.tolist(), strict=True))
    sums = [
        sum((m * row[j] for m, row in zip(moved, exact, strict=True)), Fraction())
        for j in range(rows.shape[1])
    ]
    return inside_limits and not any(sums) and sum(moved) > limit


def _units(rows: Array) -> Array:
    """The inverse of the largest entry of each column, 1 where there is none."""
    size = np.abs(rows).max(axis=0)
    return 1.0 / np.where(size > 0.0, size, 1.0)


def _pivots(matrix: Array) -> tuple[Array, Array]:
    """The triangle of a QR decomposition, and the order of its columns: the most independent first."""
    found: Any = qr(matrix, mode="r", pivoting=True)
    return found


def _solved(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction] | None:
    """Solve a square system exactly; None where it is singular."""
    system = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    for step in range(len(system)):
        pivot = max(range(step, len(system)), key=lambda r: abs(system[r][step]))
        if not system[pivot][step]:
            return None
        system[step], system[pivot] = system[pivot], system[step]
        first = system[step]
        for r, row in enumerate(system):
            if r != step and row[step]:
                factor = row[step] / first[step]
                system[r] = [x - factor * top for x, top in zip(row, first, strict=True)]
    return [row[-1] / row[step] for step, row in enumerate(system)]


_HINGE = losses.Hinge().phi


class WeightedHinges(Bipartite):
    r"""The risk :math:`u\,\tfrac1I\sum_i(1-f_i)_+ + v\,\tfrac1K\sum_k(1+f_k)_+`, u and v not both 0.

    Parameters
    ----------
    X, y, l2, l1, qid, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`.
    u, v : float
        The weights of the two means, at least 0.
    """

    u: float = 1.0
    v: float = 1.0

    def risk(self, f: Groups) -> Node:
        """The means of both classes with their weights; one of weight 0 is left out."""
        parts = (self.u, -f.positive), (self.v, f.negative)
        first, *more = [mean(apply(_HINGE, scores)) * weight for weight, scores in parts if weight > 0.0]
        return first + more[0] if more else first
