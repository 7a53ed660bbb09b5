"""Validation of spectra, of kernel matrices and of distributions over nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.data.checks.arrays import (
    _real_array,
    _refuse_non_finite,
    check_matrix,
    check_real_array,
    read_array,
)
from convexrank.data.checks.values import LARGEST_ENTRY, check_integer, check_share, is_integer
from convexrank.data.frames import well_formed
from convexrank.data.messages import shown

# Weights of more different sizes are as many sums over all rows.
_MOST_STEPS = 200

# Sums of weights this near 1 are 1, up to rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Spectrum:
    """The density of the weights of sorted rows as a step function, from the highest row down; it does not rise.

    Parameters
    ----------
    ends : tuple of float
        Where the steps end: a total weight of rows, or a share of that of all rows. Further rows have weight 0.
    heights : tuple of float
        The density on each step, falling; the steps times these add up to 1.
    counted : bool
        Whether the ends are weights of rows; else they are shares.

    Raises
    ------
    ValueError
        When the steps are no such density.
    """

    ends: tuple[float, ...]
    heights: tuple[float, ...]
    counted: bool = False

    def __post_init__(self) -> None:
        ends, heights = (0.0, *self.ends), (*self.heights, 0.0)
        fits = (
            1 < len(ends) == len(heights) <= _MOST_STEPS + 1
            and all(a < b < math.inf for a, b in pairwise(ends))
            and all(a > b for a, b in pairwise(heights))
            and (self.counted or ends[-1] <= 1.0)
        )
        if (
            not fits
            or not abs(sum((high - low) * end for high, low, end in self.rises) - 1.0) <= 2.0 * _ROUNDING
        ):
            raise ValueError(
                f"ends are {shown(self.ends)} and heights {shown(self.heights)}, expected at most {_MOST_STEPS} ends "
                "that rise, shares to at most 1, and heights that fall, which add up to 1 over the steps."
            )

    @property
    def rises(self) -> list[tuple[float, float, float]]:
        """The density on each step, that below it, and where it ends.

        The sum is Σ (density − lower) · end · mean of the highest up to the end.
        """
        lower = (*self.heights[1:], 0.0)
        return list(zip(self.heights, lower, self.ends, strict=True))


def check_spectrum(value: Any, name: str = "spectrum") -> Spectrum:
    """Return weights of sorted rows as a step function.

    ``"uniform"`` is the mean of all rows; ``("top", share)`` with a float and ``("top", count)`` with an integer are
    means of the highest, as are the share and the count alone; an array has the shares of equal parts of the rows, from
    the lowest to the highest.
    """
    if isinstance(value, Spectrum):
        return value
    if np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf":
        return _top(value, name)
    if isinstance(value, str):
        if value != "uniform":
            raise ValueError(f"{name} is {shown(value)}, expected {_ALLOWED}.")
        return Spectrum((1.0,), (1.0,))
    if isinstance(value, tuple | list) and any(isinstance(part, str) for part in value):
        if len(value) != 2 or value[0] != "top":
            raise ValueError(f"{name} is {shown(value)}, expected {_ALLOWED}.")
        return _top(value[1], f"{name}[1]")
    steps = np.asarray(check_real_array(value, name), dtype=np.float64)
    if steps.ndim != 1 or not len(steps):
        raise ValueError(f"{name} has shape {steps.shape}, expected {_ALLOWED}.")
    if not np.isfinite(steps).all() or steps[0] < 0.0 or (np.diff(steps) < 0.0).any():
        raise ValueError(
            f"{name} is {shown(value)}, expected numbers of at least 0 that do not decrease, from the lowest "
            "rows to the highest; sort them."
        )
    whole = float(steps.sum())
    if not abs(whole - 1.0) <= _ROUNDING:
        raise ValueError(f"{name} adds up to {whole:g}, expected 1; divide it by its sum.")
    last = np.flatnonzero(np.append(np.diff(steps) != 0.0, True))
    heights, ends = steps[last][::-1] * len(steps), np.append(0, last[:-1] + 1)[::-1]
    if len(last) > _MOST_STEPS:
        raise ValueError(
            f"{name} has {len(last)} different numbers, expected at most {_MOST_STEPS}; give fewer, larger parts."
        )
    kept = heights > 0.0
    return Spectrum(tuple(((len(steps) - ends[kept]) / len(steps)).tolist()), tuple(heights[kept].tolist()))


_ALLOWED = (
    'an array with one number for each part, "uniform", ("top", share) or ("top", count), such as ("top", 0.05) or '
    '("top", 100), or the share or the count alone'
)


def _top(value: Any, name: str) -> Spectrum:
    if is_integer(value):
        count = check_integer(value, name, 1)
        return Spectrum((float(count),), (1.0 / count,), counted=True)
    share = check_share(value, name)
    return Spectrum((share,), (1.0 / share,))


# Kernels are computed by differences of large numbers: this much of their size is rounding.
_KERNEL_ROUNDING = 1e-10


def check_kernel(K: Any, name: str = "K") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a kernel matrix, made exactly symmetric, with its eigenvalues in ascending order and its eigenvectors.

    Raises
    ------
    ValueError, TypeError
        When the matrix is not square, not symmetric, or not positive semidefinite up to rounding; the message names the
        first place, or the smallest eigenvalue.
    """
    matrix = check_matrix(
        well_formed(K, name).toarray() if sparse.issparse(K) else K, name, most=LARGEST_ENTRY
    )
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} has shape {matrix.shape}, expected a square kernel matrix (n, n).")
    apart = np.abs(matrix - matrix.T)
    if float(apart.max()) > _KERNEL_ROUNDING * float(np.abs(matrix).max()):
        i, j = (int(k) for k in np.unravel_index(int(np.argmax(apart)), apart.shape))
        raise ValueError(
            f"{name}[{i}, {j}] is {matrix[i, j]:g} and {name}[{j}, {i}] is {matrix[j, i]:g}, expected a symmetric "
            f"kernel matrix; pass ({name} + {name}.T) / 2 if the difference does not matter."
        )
    matrix = 0.5 * (matrix + matrix.T)
    values, vectors = np.linalg.eigh(matrix)
    if values[0] < -_KERNEL_ROUNDING * max(float(values[-1]), -float(values[0])):
        raise ValueError(
            f"{name} has the eigenvalue {values[0]:.4g}, expected a positive semidefinite kernel matrix; use a "
            f"kernel that is one, or add at least {-values[0]:.4g} to the diagonal."
        )
    return matrix, np.maximum(values, 0.0), vectors


# A row that came out of a division by its sum adds up to 1 within this.
_SUM = 1e-9


def check_distributions(rows: Any, n: int | None = None, name: str = "rows") -> np.ndarray:
    """Return distributions over n nodes, one in each row, divided by its sum, which rounding may have moved off 1.

    Raises
    ------
    ValueError, TypeError
        When there is no row, the shape is wrong, an entry is negative or not finite, or a row does not sum to one; the
        message names the row.
    """
    array = read_array(rows, name)
    if array.ndim == 1 and array.size and array.dtype.kind != "O":
        array = array[None, :]
    if (
        array.ndim != 2
        or array.shape[0] == 0
        or array.shape[1] == 0
        or (n is not None and array.shape[1] != n)
    ):
        wanted = "(k, n)" if n is None else f"(k, {n})"
        raise ValueError(
            f"{name} has shape {array.shape}, expected {wanted} with k >= 1: one distribution in each row."
        )
    values = _real_array(array, name, np.float64)
    _refuse_non_finite(values, name)
    if (values < 0).any():
        row, entry = (int(k) for k in np.argwhere(values < 0)[0])
        raise ValueError(
            f"row {row} of {name} has the negative entry {values[row, entry]:g} for node {entry}, expected a "
            "distribution: entries of at least 0."
        )
    sums = values.sum(axis=1)
    wrong = np.abs(sums - 1.0) > _SUM
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"row {row} of {name} adds up to {sums[row]:.9g}, expected 1: a distribution. Divide it by its sum; a row "
            "of zeros is a node without links, which needs a recommendation of its own."
        )
    return values / sums[:, None]
