"""Validation of distributions over nodes, and of sets of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.data.checks.arrays import _real_array, _refuse_non_finite, read_array

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
