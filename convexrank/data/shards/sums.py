"""Sums over ranks that lose nothing to rounding but the last bit."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def compensated_sum(parts: Array) -> Array:
    """Return the sum over the first axis, with what each addition rounds off added at the end (Neumaier, 1974)."""
    total, lost = parts[0], np.zeros_like(parts[0])
    with np.errstate(over="ignore", invalid="ignore"):
        for part in parts[1:]:
            added = total + part
            back = added - total
            lost = lost + ((total - (added - back)) + (part - back))
            total = added
        return np.where(np.isfinite(total), total + lost, total)
