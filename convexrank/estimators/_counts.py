"""Row weights of formulations that have none: how often each row counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.data import check_weights

__all__ = ["check_counts"]

Array = np.ndarray

# Rows that repetition may make.
_LARGEST = 1e9


def check_counts(sample_weight: Any, length: int) -> Array | None:
    """Return how often each row counts, or None when each counts once.

    Raises
    ------
    ValueError, TypeError
        When the weights are not whole numbers of at least 0, one for each row.
    """
    weights = check_weights(sample_weight, length)
    if weights is None:
        return None
    if weights.sum() > _LARGEST:
        raise ValueError(
            f"sample_weight asks for {weights.sum():.3g} rows in all, more than {_LARGEST:.0e}: the formulation has no "
            "weights, a row can only be repeated. Divide the weights by a common factor, or leave them out."
        )
    counts = weights.astype(np.int64)
    if (counts != weights).any():
        i = int(np.argmax(counts != weights))
        raise ValueError(
            f"sample_weight[{i}] is {weights[i]:g}, expected whole numbers: the formulation has no weights, a row can "
            "only be repeated. Scale the weights and round them, or leave them out."
        )
    return counts
