"""Anderson's mixing of fixed-point iterates, in little memory."""

from __future__ import annotations

import numpy as np

__all__ = ["Mixing"]

Array = np.ndarray

# Sums over this many ranges, with random signs, stand for a vector in the least-squares problem.
_SKETCH = 4096
# A step that is this much longer than the shortest so far starts the history anew; after so many times, no more.
_LONGER, _PATIENCE = 4.0, 3
_ROUNDING = 1e-14


class Mixing:
    r"""Combine the last iterates of a map F so that the combined step is as short as possible.

    With :math:`r_k = F(z_k) - z_k` the next point is :math:`F(z_k) - \sum_j c_j [F(z_{j+1}) - F(z_j)]`, where c
    minimises :math:`\|r_k - \sum_j c_j (r_{j+1} - r_j)\|_2`. For a linear F that is a Krylov method with a short
    memory. Differences of iterates are kept in float32, which is enough for steps, and the minimisation is done on
    sketches of the r's: 4 bytes an unknown for each step remembered, and 9 more.

    Parameters
    ----------
    n : int
        Number of unknowns.
    memory : int
        Steps remembered, at least 1.

    References
    ----------
    D. Anderson, Iterative procedures for nonlinear integral equations, Journal of the ACM 12 (1965), section 4;
    H. Walker, P. Ni, Anderson acceleration for fixed-point iterations, SIAM J. Numerical Analysis 49 (2011).
    """

    def __init__(self, n: int, memory: int) -> None:
        self.memory, self.steps = memory, np.empty((memory, n), dtype=np.float32)
        self.correction = np.zeros(n, dtype=np.float32)
        ranges = min(n, _SKETCH)
        self._starts = np.arange(ranges) * n // ranges
        self._signs = np.random.default_rng(0).integers(0, 2, n, dtype=np.int8) * 2 - 1
        self._sketches = np.empty((memory, ranges))
        self._last: Array | None = None
        self._kept, self._shortest, self._failures = 0, np.inf, 0

    def mix(self, image: Array, moved: Array, length: float) -> bool:
        """Turn ``image``, which is F(z), into the next z in place; return whether it changed.

        Parameters
        ----------
        image : ndarray, shape (n,)
            F(z).
        moved : ndarray of float32, shape (n,)
            F(z) − z.
        length : float
            Size of ``moved``, in the norm that decides whether mixing helps.

        Returns
        -------
        bool
            False where ``image`` stays as it is.
        """
        if self._failures >= _PATIENCE:
            return False
        if length > _LONGER * self._shortest or length <= _ROUNDING * abs(float(image.sum())):
            self._failures += 1
            self._forget()
            return False
        self._shortest = min(self._shortest, length)
        sketch = np.add.reduceat(moved * self._signs, self._starts, dtype=np.float64)
        if self._last is not None:
            self._remember(moved, sketch)
        self._last = sketch
        if not self._kept:
            return False
        columns = self._sketches[: min(self._kept, self.memory)]
        scale = np.linalg.norm(columns, axis=1)
        scale[scale == 0.0] = 1.0
        shares = np.linalg.lstsq((columns / scale[:, None]).T, sketch, rcond=1e-7)[0] / scale
        np.dot(shares.astype(np.float32), self.steps[: len(columns)], out=self.correction)
        image -= self.correction
        return True

    def _remember(self, moved: Array, sketch: Array) -> None:
        slot = self._kept % self.memory
        np.subtract(moved, self.correction, out=self.steps[slot])
        self._sketches[slot] = sketch - self._last
        self._kept += 1

    def _forget(self) -> None:
        self._last, self._kept = None, 0
        self.correction[:] = 0.0
