"""Checks of the arrays of a graph, and of the arrays that compiled loops take beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from convexrank.data.nodes import called

Array = np.ndarray


def one_a_node(values: Any, n: int, name: str) -> Array:
    """Return values in the form for compiled loops, which do not check the length."""
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}, expected ({n},), one value for each node.")
    return array


def refuse_extremes(total: Array, names: Sequence[Any] | None = None) -> None:
    """Refuse weights that cannot be divided by their sum."""
    fits = (total == 0.0) | ((total >= np.finfo(np.float64).tiny) & (total < np.inf))
    if not fits.all():
        node = int(np.argmin(fits))
        raise ValueError(
            f"the weights of the edges out of node {called(names, node)} add up to {total[node]:g}, which "
            "shares cannot be taken of; bring all weights to a size near 1."
        )


def refuse_broken(offsets: Array, sources: Array, weights: Any) -> None:
    """Refuse arrays that are no lists of edges: compiled loops would read beyond their ends."""
    m = len(sources)
    if (
        offsets.ndim != 1
        or len(offsets) < 2
        or offsets[0] != 0
        or offsets[-1] != m
        or (offsets[1:] < offsets[:-1]).any()
    ):
        raise ValueError(
            f"offsets do not rise from 0 to {m}, the number of sources; make graphs with Graph.from_edges."
        )
    if m and not 0 <= int(sources.min()) <= int(sources.max()) < len(offsets) - 1:
        raise ValueError(
            f"sources are not all in 0..{len(offsets) - 2}; make graphs with Graph.from_edges, which says where."
        )
    if weights is not None and np.shape(weights) != sources.shape:
        raise ValueError(f"weights has shape {np.shape(weights)}, expected ({m},), one for each edge.")
