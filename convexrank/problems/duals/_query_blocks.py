"""Conjugates of regressions: squares with or without an offset for each query, and exponentials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.problems.duals._losses import entropies

__all__ = ["Exponentials", "Squares"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Squares:
    r"""The risk :math:`\sum_r\frac{c_r}{2}(f_r + \beta - t_r)^2`, β the best offset of the row's group, or 0.

    v are the weighted residuals; G is :math:`\sum_r v_r^2/(2c_r) + t_rv_r`, and with offsets v sums to 0 in each group.

    Parameters
    ----------
    rows : ndarray of int, shape (g,)
        The rows.
    targets, weights : ndarray, shape (g,)
        The targets t, and the weights c, the same for all rows of a group.
    groups : ndarray of int, shape (g,), or None
        The group of each row from 0 on; None without offsets.
    """

    rows: Array
    targets: Array
    weights: Array
    groups: Array | None

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def modulus(self) -> float:
        """One over the largest weight."""
        return 1.0 / float(self.weights.max())

    @property
    def entries(self) -> tuple[Array, Array, Array]:
        """One entry for each row."""
        return self.rows, np.arange(self.size), np.ones(self.size)

    @property
    def rest(self) -> Array:
        """No residuals."""
        return np.zeros(self.size)

    def value(self, v: Array) -> float:
        """Return the sum of squares, and the targets' part."""
        return float(v @ (0.5 * v / self.weights + self.targets))

    def _means(self, v: Array) -> Array:
        if self.groups is None:
            return np.zeros(self.size)
        return (np.bincount(self.groups, v) / np.bincount(self.groups))[self.groups]

    def violation(self, v: Array) -> float:
        """Return the largest mean of a group."""
        return float(np.abs(self._means(v)).max())

    def near(self, x: Array) -> Array:
        """Return x centred in each group."""
        return x - self._means(x)

    def at(self, scores: Array, width: float) -> Array:
        """Return the weighted residuals."""
        rests = scores[self.rows] - self.targets
        return self.weights * (rests - self._means(rests))

    def model(self, v: Any) -> tuple[Any, list[Any]]:
        """Return the squares, and the sums of the groups."""
        import cvxpy as cp

        value = 0.5 * cp.sum_squares(cp.multiply(1.0 / np.sqrt(self.weights), v)) + self.targets @ v
        if self.groups is None:
            return value, []
        sums = sparse.csr_array((np.ones(self.size), (self.groups, np.arange(self.size))))
        return value, [sums @ v == 0]

    def exactly(self, v: Array) -> list[Any]:
        """Return v centred."""
        from convexrank.proof.balls import exact, total

        parts = exact(v)
        if self.groups is not None:
            members = [np.flatnonzero(self.groups == group) for group in range(int(self.groups.max()) + 1)]
            means = [total(parts[place] for place in some.tolist()) / len(some) for some in members]
            parts = [part - means[group] for part, group in zip(parts, self.groups.tolist(), strict=True)]
        return parts

    def ball_value(self, parts: list[Any]) -> Any:
        """Return the squares."""
        from convexrank.proof.balls import around, total

        data = zip(parts, self.weights.tolist(), self.targets.tolist(), strict=True)
        return total(part * (part / (2 * around(c, self.size)) + around(t, self.size)) for part, c, t in data)


@dataclass(frozen=True, eq=False)
class Exponentials:
    r"""The risk :math:`\sum_r c_re^{f_r}`: v is positive, and G is :math:`\sum_r v_r\log(v_r/c_r) - v_r`.

    Parameters
    ----------
    rows : ndarray of int, shape (g,)
        The rows.
    weights : ndarray, shape (g,)
        The weights c, greater than 0.
    targets : ndarray, shape (g,)
        The v at which the dual weights of the rows are 0, what the shift of the conjugate takes away.
    """

    rows: Array
    weights: Array
    targets: Array

    modulus = 0.0

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def entries(self) -> tuple[Array, Array, Array]:
        """One entry for each row."""
        return self.rows, np.arange(self.size), np.ones(self.size)

    @property
    def rest(self) -> Array:
        """The weighted targets."""
        return self.targets

    def value(self, v: Array) -> float:
        """Return the divergence."""
        return float((entropies(v) - v * (1.0 + np.log(self.weights))).sum())

    def violation(self, v: Array) -> float:
        """Return how far below 0 an entry is."""
        return max(-float(v.min()), 0.0)

    def near(self, x: Array) -> Array:
        """Return x without negative entries."""
        return np.maximum(x, 0.0)

    def at(self, scores: Array, width: float) -> Array:
        """Return the weighted exponentials."""
        with np.errstate(over="ignore"):
            return self.weights * np.exp(scores[self.rows])

    def model(self, v: Any) -> tuple[Any, list[Any]]:
        """Return the divergence, and the range."""
        import cvxpy as cp

        return -cp.sum(cp.entr(v)) - (1.0 + np.log(self.weights)) @ v, [v >= 0]

    def exactly(self, v: Array) -> list[Any]:
        """Return v without negative entries."""
        from convexrank.proof.balls import exact

        return exact(np.maximum(v, 0.0))

    def ball_value(self, parts: list[Any]) -> Any:
        """Return the divergence."""
        from convexrank.proof.balls import around, total

        wide = [around(c, self.size) for c in self.weights.tolist()]
        return total(
            part * ((part / c).log() - 1) for part, c in zip(parts, wide, strict=True) if not part.is_zero()
        )
