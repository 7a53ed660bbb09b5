"""Slow references for the judges: each states its problem and solves it with a solver, without a derivation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = [
    "bounded_increments",
    "central_differences",
    "isotonic",
    "learned_divergence",
    "least_value",
    "loop_integral",
    "on_grid",
    "optimum",
    "root",
    "strongly_convex_fit",
]

Array = np.ndarray


def isotonic(values: Array, weights: Array | None = None) -> Array:
    """Return the nearest non-decreasing vector, by scipy."""
    from scipy.optimize import isotonic_regression

    return isotonic_regression(values, weights=weights).x


def optimum(objective: Any, constraints: Sequence[Any] = (), tolerance: float = 1e-11) -> float:
    """Solve a cvxpy model by Clarabel; return its value. Variables keep theirs."""
    import cvxpy as cp

    model = objective if isinstance(objective, cp.Problem) else cp.Problem(objective, list(constraints))
    model.solve(solver=cp.CLARABEL, tol_gap_abs=tolerance, tol_gap_rel=tolerance, tol_feas=tolerance)
    if model.status != cp.OPTIMAL:
        raise RuntimeError(f"a reference model ended as {model.status}; nothing can be judged by it.")
    return float(np.asarray(model.value))


def bounded_increments(values: Array, lower: Array, upper: Array, weights: Array | None = None) -> Array:
    """Return the nearest vector whose steps lie between the bounds: the quadratic program, by cvxpy."""
    import cvxpy as cp

    fitted = cp.Variable(len(values))
    scale = np.ones(len(values)) if weights is None else np.sqrt(weights)
    steps, finite = cp.diff(fitted), np.flatnonzero(np.isfinite(upper))
    bounds = [steps >= lower, *([steps[finite] <= upper[finite]] if len(finite) else [])]
    optimum(cp.Minimize(cp.sum_squares(cp.multiply(scale, fitted - values))), bounds)
    return np.asarray(fitted.value)


def learned_divergence(
    theta: Array, y: Array, strong: float | None, smooth: float | None, nodes: int = 401
) -> float:
    r"""Return the least of Σ φ(y_i) + φ*(θ_i) − y_i θ_i over φ, which is a linear program in the values of φ on a grid.

    φ* is the greatest of finitely many affine functions there, and curvature is a second difference. Good to about
    the square of the spacing; y has to lie on the grid (:func:`on_grid`).
    """
    from scipy import sparse
    from scipy.optimize import linprog

    grid, places = _grid(y, nodes)
    n, step = len(y), grid[1] - grid[0]
    second = sparse.csr_array(np.diff(np.eye(nodes), n=2, axis=0))
    second = sparse.hstack([second, sparse.csr_array((nodes - 2, n))])
    rows, bounds = [-second], [np.full(nodes - 2, -(strong or 0.0) * step**2)]
    if smooth is not None:
        rows.append(second)
        bounds.append(np.full(nodes - 2, smooth * step**2))
    for i in range(n):  # θ_i g - φ(g) is at most φ*(θ_i)
        own = sparse.csr_array((np.ones(nodes), (np.arange(nodes), np.full(nodes, i))), shape=(nodes, n))
        rows.append(sparse.hstack([-sparse.eye_array(nodes), -own]))
        bounds.append(-theta[i] * grid)
    cost = np.r_[np.bincount(places, minlength=nodes).astype(float), np.ones(n)]
    answer = linprog(
        cost,
        A_ub=sparse.vstack(rows).tocsr(),
        b_ub=np.concatenate(bounds),
        bounds=(None, None),
        method="highs",
    )
    return float(answer.fun - y @ theta)


def _grid(y: Array, nodes: int) -> tuple[Array, Array]:
    margin = 0.75 * (y.max() - y.min())
    grid = np.linspace(y.min() - margin, y.max() + margin, nodes)
    return grid, np.rint((y - grid[0]) / (grid[1] - grid[0])).astype(int)


def on_grid(y: Array, nodes: int = 401) -> Array:
    """Move every target but the extreme ones to the nearest point of the grid."""
    grid, places = _grid(y, nodes)
    moved = grid[places]
    moved[np.argmin(y)], moved[np.argmax(y)] = y.min(), y.max()
    return moved


def strongly_convex_fit(y: Array, strong: float) -> Callable[..., float]:
    r"""Return a function of θ (and of fixed φ*' at θ, if wanted): the least cost over s-strongly convex φ.

    The model has the values of φ at y and at x = φ*'(θ) as variables, and every pair of points that a strongly convex
    function can join as a constraint: quadratic constraints, solved by cvxpy to 1e-10.
    """
    import cvxpy as cp

    n = len(y)
    at_y, x, at_x, theta = cp.Variable((n, 1)), cp.Variable((n, 1)), cp.Variable((n, 1)), cp.Parameter((n, 1))
    fixed, column, row = cp.Parameter((n, 1)), np.ones((n, 1)), np.ones((1, n))

    def above(
        value: Any, place: Any
    ) -> Any:  # at (i, j): the function at place i, over the one that touches at x_j
        gaps = place @ row - column @ x.T
        return value @ row >= column @ at_x.T + cp.multiply(
            column @ theta.T, gaps
        ) + 0.5 * strong * cp.square(gaps)

    cost = cp.sum(at_y) - cp.sum(at_x) + cp.sum(cp.multiply(theta, x - y[:, None]))
    joined = [above(at_y, y[:, None]), above(at_x, x)]
    free, bound = cp.Problem(cp.Minimize(cost), joined), cp.Problem(cp.Minimize(cost), [*joined, x == fixed])

    def least(scores: Array, link: Array | None = None) -> float:
        theta.value, fixed.value = scores[:, None], (np.zeros(n) if link is None else link)[:, None]
        return optimum(free if link is None else bound, tolerance=1e-10)

    return least


def least_value(objective: Callable[[Array], tuple[float, Array]], start: Array) -> tuple[float, Array]:
    """Return the least value of a smooth function and where it is, by BFGS."""
    from scipy.optimize import minimize

    answer = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-11, "maxiter": 2000})
    return float(answer.fun), answer.x


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that changes its sign between the two ends is 0, by Brent's method."""
    from scipy.optimize import brentq

    answer: Any = brentq(function, low, high, xtol=1e-13)
    return float(answer)


def central_differences(function: Callable[[Array], float], at: Array, step: float) -> Array:
    """Return the gradient by central differences."""
    slopes = np.empty(len(at))
    for i, unit in enumerate(step * np.eye(len(at))):
        slopes[i] = (function(at + unit) - function(at - unit)) / (2.0 * step)
    return slopes


def loop_integral(field: Callable[[Array], Array], corners: Any) -> float:
    """Return the integral of a field that depends on the order of the scores alone, round a polygon.

    It is constant between the points where two scores meet, so the integral is an exact sum.
    """
    total, n = 0.0, len(corners[0])
    for start, stop in zip(corners, [*corners[1:], corners[0]], strict=True):
        a, move = np.asarray(start, float), np.subtract(stop, start).astype(float)
        meetings = [0.0, 1.0]
        for i in range(n):
            for j in range(i):
                rate = move[i] - move[j]
                if rate != 0 and 0 < (a[j] - a[i]) / rate < 1:
                    meetings.append((a[j] - a[i]) / rate)
        cuts = np.unique(meetings)
        for left, right in pairwise(cuts):
            total += (right - left) * float(field(a + 0.5 * (left + right) * move) @ move)
    return total
