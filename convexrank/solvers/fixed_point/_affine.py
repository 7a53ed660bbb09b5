"""Problems that sweeps over the nodes of a graph solve, and the system that they solve for them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from convexrank.solvers.graph_faces import AffineFixedPoint

Array = np.ndarray

# Nodes looked at at a time: what is made on the way stays small.
_PIECE = 1 << 15


def is_folded(operator: Any) -> bool:
    """Whether the answer is proportional to the system's without the dangling outflow: it goes to v, or nowhere."""
    if operator.restarts_dangling or operator.loses_rank:
        return True
    return operator.personalization is None and np.ndim(operator.escape) == 0


def scale_of_start(problem: AffineFixedPoint, x0: Array, folded: Any) -> Any:
    """What the system's z is of ranks: less by what dangling nodes would return where that is folded into the scale."""
    if problem.operators[0].loses_rank:
        return 1.0
    parts = [slice(first, first + _PIECE) for first in range(0, len(x0), _PIECE)]
    degrees = problem.graph.degrees
    lost = problem.alpha * sum(x0[part][degrees[part] == 0].sum(axis=0) for part in parts)
    return np.where(folded, (1.0 - problem.alpha) / (1.0 - problem.alpha + lost), 1.0)


def exchange(sent: list[Array], bounds: Array) -> None:
    """Show every range what the others became."""
    for i, (first, last) in enumerate(pairwise(bounds)):
        for k, other in enumerate(sent):
            if k != i:
                other[first:last] = sent[i][first:last]
