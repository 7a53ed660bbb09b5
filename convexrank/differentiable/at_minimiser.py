"""The minimiser of a problem to rounding, and linear systems of the second derivatives there, in numpy.

At a minimiser w the slope of the objective along the weights that are not 0 is 0. By the implicit function theorem
these weights move by :math:`-H^{-1}` times what the slope moves by, H the second derivatives along them; a weight that
l1 holds at 0 stays there.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from convexrank.backend.cached import cached_property
from convexrank.backend.interruption import as_a_whole
from convexrank.core.loop import SolverLike
from convexrank.core.results import ConvergenceWarning, Status
from convexrank.problems._declared import Declared

__all__ = ["AtMinimiser"]

Array = np.ndarray

# Columns up to which second derivatives are a matrix; beyond, products with them are taken.
_DENSE = 2_000
# A weight this near to its edge, relative to l1, may leave 0 or reach it.
_EDGE = 1e-6
# Newton's steps after a solve, each of which about doubles the digits, and a step that is rounding.
_STEPS, _ROUNDING = 4, 1e-15
# Eigenvalues are known to so many units of rounding, for each column.
_UNITS = 16.0
# Residual of the products, relative, how many may be taken, and what may remain.
_RESIDUAL, _MOST_PRODUCTS, _REMAINS = 1e-13, 20_000, 1e-8


@dataclass(frozen=True, eq=False)
class AtMinimiser:
    """A problem at its minimiser.

    Parameters
    ----------
    problem : problem that declares its risk
        A smooth risk with l2 and l1.
    w : ndarray, shape (d,)
        The minimiser.
    """

    problem: Declared
    w: Array

    @classmethod
    @as_a_whole
    def of(cls, problem: Declared, solver: SolverLike, tol: float) -> Self:
        """Solve, and take Newton's steps until they are rounding.

        Raises
        ------
        ValueError
            When the solve does not converge.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # an error follows
            solution = problem.solve(solver, tol=tol)
        if solution.status is not Status.CONVERGED:
            raise ValueError(
                f"the solve ended with the status {solution.status.name}, so that there is no minimiser to "
                f"differentiate: {solution.status.message}"
            )
        found = cls(problem, solution.x)
        for _ in range(_STEPS):
            step = found._newton_step
            w = found.w - step
            if (np.sign(w) != np.sign(found.w))[found.free].any():
                break
            after = cls(problem, w)
            if not np.linalg.norm(after.slope[found.free]) < np.linalg.norm(found.slope[found.free]):
                break
            found = after
            if np.linalg.norm(step) <= _ROUNDING * np.linalg.norm(w):
                break
        return found

    @property
    def _newton_step(self) -> Array:
        try:
            return self.solve(self.slope)
        except ValueError:  # where second derivatives are degenerate the solver's answer stays
            return np.zeros_like(self.w)

    @cached_property
    def free(self) -> Array:
        """Mask of the weights that move: all, or with l1 those that are not 0."""
        return np.ones(len(self.w), dtype=bool) if self.problem.l1 == 0.0 else self.w != 0.0

    @cached_property
    def _pull(self) -> Array:
        """The slope of risk and l2."""
        return self.problem.smooth_value_and_gradient(self.w)[1]

    @cached_property
    def slope(self) -> Array:
        """The slope of the objective along the weights that move, 0 elsewhere."""
        return np.where(self.free, self._pull + self.problem.l1 * np.sign(self.w), 0.0)

    def check(self) -> None:
        """Refuse a minimiser at which the weights have no derivative.

        Raises
        ------
        ValueError
            When second derivatives are degenerate, or l1 holds a weight at 0 only just.
        """
        if (l1 := self.problem.l1) > 0.0:
            bends = self._dense.diagonal() if self._is_dense else np.ones(len(self.w))
            # a weight of 0 whose slope is almost l1, and a weight that is almost 0
            edge = np.where(self.free, np.abs(self.w) * bends, l1 - np.abs(self._pull)) <= _EDGE * l1
            if edge.any():
                raise ValueError(
                    f"weight {int(np.argmax(edge))} is at the edge between 0 and not 0 for l1={l1:g}: derivatives to "
                    "the two sides differ; take another l1, or l2 alone."
                )
        if self.free.any():
            self.solve(np.ones(len(self.w)))

    def checked_solve(self, b: Array) -> Array:
        """Return :meth:`solve` where :meth:`check` finds nothing."""
        _ = self._checked
        return self.solve(b)

    @cached_property
    def _checked(self) -> bool:
        self.check()
        return True

    def solve(self, b: Array) -> Array:
        """Return u with Hu = b along the weights that move, 0 elsewhere.

        Raises
        ------
        ValueError
            When H is degenerate.
        """
        b, found = np.where(self.free, b, 0.0), np.zeros(len(self.w))
        if not b.any():
            return found
        if self._is_dense:
            units, values, vectors = self._eigen
            if not values[0] > _UNITS * len(values) * np.finfo(np.float64).eps * values[-1]:
                raise self._degenerate()
            found[self.free] = units * (vectors @ ((vectors.T @ (units * b[self.free])) / values))
            return found
        size = len(self.w)
        hessian: Any = LinearOperator((size, size), matvec=self._product, dtype=np.float64)  # type: ignore[call-arg]
        u, _ = cg(hessian, b, rtol=_RESIDUAL, maxiter=_MOST_PRODUCTS)
        if not np.linalg.norm(self._product(u) - b) <= _REMAINS * np.linalg.norm(b):
            raise self._degenerate()
        return u

    @property
    def _is_dense(self) -> bool:
        return self.problem._has_curvature and len(self.w) <= _DENSE

    @cached_property
    def _dense(self) -> Array:
        return self.problem.second_order(self.w)[2]

    @cached_property
    def _eigen(self) -> tuple[Array, Array, Array]:
        """Units in which the diagonal of H is 1, and eigenvalues and -vectors there."""
        hessian = self._dense[np.ix_(self.free, self.free)]
        diagonal = hessian.diagonal()
        units = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        values, vectors = np.linalg.eigh(units[:, None] * hessian * units)
        return units, values, vectors

    def _product(self, v: Array) -> Array:
        v = np.ravel(v)
        bent = self.problem.hessian_product(self.w, np.where(self.free, v, 0.0))
        return np.where(self.free, bent, v)

    def _degenerate(self) -> ValueError:
        return ValueError(
            f"second derivatives at the minimiser are degenerate (l2={self.problem.l2:g}): other weights are as good, "
            "so that it has no derivative; give l2 > 0."
        )
