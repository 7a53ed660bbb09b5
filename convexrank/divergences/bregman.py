r"""Bregman's algorithm (Table 2.1): :math:`\min_x D_\phi(x\|y)` subject to linear constraints, one row at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.data import check_choice, check_flag, check_integer, check_positive, check_vector
from convexrank.divergences.base import Divergence
from convexrank.divergences.projections import check_feasible, increasing_root, shift_range, stack_rows
from convexrank.divergences.separable import resolve

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class BregmanResult:
    r"""The result of Bregman's algorithm, with its certificate.

    Parameters
    ----------
    x : ndarray, shape (n,)
        The point; it has the slopes :math:`\nabla\phi(y) - A^\top\lambda - C^\top\mu`.
    multipliers : ndarray, shape (m,)
        The λ ≥ 0, one for each inequality.
    equality_multipliers : ndarray, shape (k,)
        The μ, one for each equality.
    value : float
        :math:`D_\phi(x\|y)`.
    bound : float
        The dual function at (λ, μ), a lower bound on the divergence of every feasible point.
    violation : float
        The largest violation of a constraint at x.
    iterations : int
        Number of sweeps over all constraints.

    Examples
    --------
    >>> from convexrank import divergences
    >>> result = divergences.bregman("squared", [2.0, 2.0], [[1.0, 1.0]], [2.0])
    >>> result.x.tolist(), result.multipliers.tolist(), result.gap
    ([1.0, 1.0], [1.0], 0.0)
    """

    x: Array
    multipliers: Array
    equality_multipliers: Array
    value: float
    bound: float
    violation: float
    iterations: int

    @property
    def gap(self) -> float:
        """Difference between value and bound; without a violation, a bound on the error of the value."""
        return abs(self.value - self.bound)


def bregman(
    divergence: Divergence | str,
    y: Any,
    A: Any = None,
    b: Any = None,
    *,
    equalities: tuple[Any, Any] | None = None,
    update: str = "sequential",
    corrected: bool = True,
    tol: float = 1e-9,
    max_iter: int = 10_000,
) -> BregmanResult:
    r"""Minimise a divergence under linear constraints by Bregman's algorithm.

    .. math:: \min_x\; D_\phi(x\|y) \quad\text{subject to}\quad Ax \le b, \quad Cx = d . \tag{2.11}

    The point always has the slopes :math:`\nabla\phi(y) - A^\top\lambda - C^\top\mu` with λ ≥ 0, so that every
    iterate gives a lower bound by weak duality. A sweep moves it to each hyperplane in turn (``sequential``), or to
    the mean of all moves from the same point (``parallel``); both are ascent of the concave dual function.

    Table 2.1 as published only increases the multiplier of a violated row. Then the effect of an early step that was
    too long is never undone: the limit is feasible, but not the minimiser. Bregman's and Hildreth's algorithm also
    decreases multipliers, by at most λ, and so does this function. ``corrected=False`` runs the published table,
    without a guarantee: it stops when the point is feasible, and ``gap`` bounds the error.

    Parameters
    ----------
    divergence : Divergence or str
        An object or a name.
    y : array, shape (n,)
        The point that is projected, inside the domain.
    A : array or sparse matrix, shape (m, n), optional
        Rows of the inequalities.
    b : array, shape (m,), optional
        Right-hand sides of the inequalities.
    equalities : pair, optional
        The matrix and the right-hand sides (C, d) of the equalities, of shapes (k, n) and (k,).
    update : {"sequential", "parallel"}
        Gauss–Seidel or Jacobi updates.
    corrected : bool
        Whether multipliers may decrease; False for the published table.
    tol : float
        Stop when the violation is at most tol · (1 + max(\|b\|, \|d\|)) and the gap at most tol · (1 + value).
    max_iter : int
        Largest number of sweeps.

    Returns
    -------
    BregmanResult
        The point with its multipliers, bound and violation.

    Raises
    ------
    ValueError, TypeError
        When y leaves the domain (the entry is named), when no point satisfies the constraints inside the domain, and
        for arrays of other shapes.
    RuntimeError
        When max_iter sweeps were not enough; the message states the remaining violation and gap.

    Notes
    -----
    A sweep costs m root findings over the entries of a row; linear rate, slow where rows are nearly parallel. The
    parallel update takes about m times as many sweeps. For large problems use a conic solver. One linear program
    decides whether there is a feasible point.

    References
    ----------
    S. Acharyya, dissertation, 2013, (2.11) and Table 2.1; Y. Censor, A. Lent, *An iterative row-action method for
    interval convex programming*, 1981: the correction.

    Examples
    --------
    The closest point of the simplex that falls:

    >>> from convexrank import divergences
    >>> A, b = [[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0]], [0.0, 0.0]
    >>> divergences.bregman("kl", [0.2, 0.2, 0.6], A, b).x.round(6).tolist()
    [0.333333, 0.333333, 0.333333]
    """
    divergence, corrected = resolve(divergence), check_flag(corrected, "corrected")
    y = check_vector(y, name="y")
    divergence.check_inside(y, "y")
    sweep = check_choice(update, {"sequential": _sequential, "parallel": _parallel}, "update")
    rows, right, count = stack_rows(A, b, equalities, len(y))
    tol, max_iter = check_positive(tol, "tol"), check_integer(max_iter, "max_iter", 1)
    check_feasible(divergence, rows, right, count)
    theta = divergence.slopes(y)
    state = _State(divergence, y, theta, rows, right, count, np.zeros(len(right)), corrected)
    result = state.result(0)
    for iteration in range(max_iter + 1):
        result = state.result(iteration)
        close = result.gap <= tol * (1.0 + abs(result.value)) or not corrected
        if result.violation <= tol * (1.0 + np.abs(right).max(initial=0.0)) and close:
            return result
        if iteration < max_iter:
            sweep(state)
    raise RuntimeError(
        f"Bregman's algorithm stopped after {max_iter} sweeps with violation {result.violation:.2g} and gap "
        f"{result.gap:.2g}; raise max_iter or tol, or use the sequential update. If the multipliers grow "
        f"(largest {np.abs(state.multipliers).max(initial=0.0):.2g}), the solution is on the edge of the domain."
    )


@dataclass(eq=False)
class _State:
    """The multipliers, and the slopes that belong to them; the only thing here that changes."""

    divergence: Divergence
    y: Array
    theta: Array
    rows: Any
    right: Array
    count: int  # of the rows, so many are inequalities, and come first
    multipliers: Array
    corrected: bool

    def move(self, i: int) -> float:
        """Return the change of the multiplier of row i with which the row holds, the others fixed."""
        span = slice(self.rows.indptr[i], self.rows.indptr[i + 1])
        columns, values = self.rows.indices[span], self.rows.data[span]
        excess = self._excess(columns, values, float(self.right[i]))
        local = self.theta if self.divergence.total is not None else self.theta[columns]
        direction = values
        if self.divergence.total is not None:
            direction = np.zeros(len(local))
            direction[columns] = values
        low, high = shift_range(_part(self.divergence, columns), local, direction)
        if i < self.count:
            now = excess(0.0)
            if now <= 0.0:
                return self._release(i, excess, high)
        root = increasing_root(excess, low, high)
        if root is None:
            raise ValueError(
                f"row {i} has no point inside the domain of {self.divergence._label} on its hyperplane that "
                "floating point reaches; the constraints allow points on, or very near, the edge of the domain only."
            )
        return -root

    def _release(self, i: int, excess: Callable[[float], float], high: float) -> float:
        """A slack row gives back up to its multiplier."""
        multiplier = self.multipliers[i]
        if multiplier == 0.0 or not self.corrected:
            return 0.0
        if multiplier < high and excess(multiplier) <= 0.0:
            return -multiplier
        root = increasing_root(excess, -math.inf, min(high, np.nextafter(multiplier, math.inf)))
        return -min(multiplier, multiplier if root is None else root)

    def _excess(self, columns: Array, values: Array, right: float) -> Callable[[float], float]:
        divergence = self.divergence
        if divergence.total is None:
            part, theta = _part(divergence, columns), self.theta[columns]
            return lambda level: float(values @ part.points(theta + level * values)) - right
        whole = np.zeros(len(self.theta))
        whole[columns] = values
        return lambda level: float(whole @ divergence.points(self.theta + level * whole)) - right

    def apply(self, i: int, change: float) -> None:
        """Change one multiplier."""
        self.multipliers[i] += change
        span = slice(self.rows.indptr[i], self.rows.indptr[i + 1])
        self.theta[self.rows.indices[span]] -= change * self.rows.data[span]

    def result(self, iteration: int) -> BregmanResult:
        """The certificate, from the multipliers alone."""
        # afresh, so that rounding of many small steps does not gather
        self.theta = self.divergence.slopes(self.y) - self.rows.T @ self.multipliers
        x = self.divergence.points(self.theta)
        excess = self.rows @ x - self.right
        value = float(self.divergence._sum(self.divergence._between(x, self.y), x))
        broken = np.concatenate([np.maximum(excess[: self.count], 0.0), np.abs(excess[self.count :])])
        return BregmanResult(
            x=x,
            multipliers=self.multipliers[: self.count].copy(),
            equality_multipliers=self.multipliers[self.count :].copy(),
            value=value,
            bound=value + float(self.multipliers @ excess),
            violation=float(broken.max(initial=0.0)),
            iterations=iteration,
        )


def _part(divergence: Divergence, columns: Array) -> Divergence:
    """The same divergence of some entries only."""
    if divergence.weights is None or divergence.total is not None:
        return divergence
    from copy import copy

    part = copy(divergence)
    object.__setattr__(part, "weights", tuple(np.asarray(divergence.weights)[columns]))
    return part


def _sequential(state: _State) -> None:
    for i in range(len(state.right)):
        change = state.move(i)
        if change:
            state.apply(i, change)


def _parallel(state: _State) -> None:
    changes = np.array([state.move(i) for i in range(len(state.right))])
    # the mean of points that each raise the dual function raises it, as it is concave; the sum need not
    for i in np.flatnonzero(changes):
        state.apply(int(i), float(changes[i]) / len(changes))
