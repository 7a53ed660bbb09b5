"""Some queries of a problem of ``QueryScores`` alone, for rows out of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.data import QueryGroups
from convexrank.problems.out_of_memory._queries import QueryStream

__all__ = ["ScoresStream"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class QueryPortion:
    """Some queries: the problem with their rows alone."""

    problem: Any

    def contributions(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return the sum over the queries and its gradient."""
        value, gradient = self.problem.risk_and_score_gradient(scores)
        return np.ones(1), np.array([value]), gradient[None]

    def reference(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return the same from the definition."""
        value, gradient = self.problem.reference_scores(scores)
        return np.ones(1), np.array([value]), gradient[None]


class ScoresStream(QueryStream):
    """Evaluates such a problem piece by piece."""

    def portion(self, first: int, last: int, rows: slice) -> QueryPortion:
        """Return the problem of these queries."""
        return QueryPortion(_alone(self.problem, first, last, rows))


def _alone(whole: Any, first: int, last: int, rows: slice) -> Any:
    """The problem with some queries alone, without their features."""
    made, groups = object.__new__(type(whole)), whole.groups
    part = slice(int(groups.offsets[first]), int(groups.offsets[last]))
    for name in type(whole).__dataclass_fields__:
        made.__dict__[name] = whole.__dict__[name]
    made.__dict__.update(
        X=np.empty((rows.stop - rows.start, 0)),
        y=whole.y[rows],
        qid=None,
        levels=whole.levels,
        groups=QueryGroups.from_sizes(groups.sizes[first:last]),
        idle_queries=0,
        _rows=whole._rows[part] - rows.start,
    )
    if made.__dict__.get("center") is not None:
        made.__dict__["center"] = whole.center[rows]
    return made
