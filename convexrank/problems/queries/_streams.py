"""Rows out of memory for risks that are sums over queries: queries that straddle pieces are joined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.data import QueryGroups
from convexrank.problems._streams import Stream, Sums

__all__ = ["QuerySample", "QueryStream", "drawn", "goes_in_order", "sample_of"]

Array = np.ndarray

# A sample has this number of rows per column, or one row out of this number, and at most 32 MB of entries unless the
# columns need more. It is drawn if all rows are at least four times as many, and have this number of entries.
_ROWS_PER_COLUMN, _SHARE, _SAMPLED, _WORTH, _TALL = 60, 32, 1 << 22, 4, 4_000_000

# A query with more rows than this number of pieces is not held at once.
_MOST_PIECES = 4


def goes_in_order(rows: Array, groups: QueryGroups, piece: int) -> bool:
    """Whether rows laid out query by query come in their order, and no query is much longer than a piece."""
    return bool((np.diff(rows) > 0).all()) and int(groups.sizes.max()) <= _MOST_PIECES * piece


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


class QueryStream(Stream):
    """Evaluates a problem whose risk is a sum over queries, piece by piece."""

    kind = Sums

    @cached_property
    def _plan(self) -> list[tuple[slice, QueryPortion]]:
        """Of each piece that ends a query: the rows of the queries that it ends, and these queries alone."""
        whole = self.problem
        ends = whole.groups.offsets[1:]
        last = whole._rows[ends - 1]  # the last row of each query
        first = whole._rows[whole.groups.offsets[:-1]]
        borders, plan, before = whole.X.borders, [], int(np.searchsorted(first, whole.X.begin))
        for border in borders:
            after = int(np.searchsorted(last, border))
            if after > before:
                rows = slice(int(first[before]), int(last[after - 1]) + 1)
                plan.append((rows, QueryPortion(_alone(whole, before, after, rows))))
                before = after
        return plan

    def portions(self) -> Iterator[tuple[QueryPortion, Any]]:
        """Go through the pieces once; rows of a query that has not ended wait for the next piece.

        Yields
        ------
        tuple of QueryPortion and matrix
            The queries that end in a piece.
        """
        if not self._plan:
            return
        plan, held, start = iter(self._plan), [], self.problem.X.begin
        rows, portion = next(plan)
        for piece in self.problem.X.pieces():
            held = [*held, piece.X]
            stop = piece.rows.stop
            while portion is not None and rows.stop <= stop:
                joined = _stacked(held)
                yield portion, joined[rows.start - start : rows.stop - start]
                held, start = [joined[rows.stop - start :]], rows.stop
                rows, portion = next(plan, (rows, None))
            # rows before the next query that counts are of no use
            unused = (stop if portion is None else min(rows.start, stop)) - start
            if unused > 0:
                held, start = [_stacked(held)[unused:]], start + unused
            if start == stop:
                held = []


def _stacked(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if any(sparse.issparse(part) for part in parts):
        return sparse.csr_array(sparse.vstack(parts, format="csr"))
    return np.concatenate(parts)


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


@dataclass(frozen=True, eq=False)
class QuerySample:
    """A sample of the queries in memory; each query represents several queries.

    Parameters
    ----------
    problem : LinearScores
        Their problem, whose l2 is smaller by that factor, so that it has about the minimiser of all.
    factor : float
        The number of queries that each one represents.
    """

    problem: Any
    factor: float

    def solve(self, *, tol: float, time_limit: float | None) -> Any:
        """Solve it."""
        return self.problem.solve(tol=tol, time_limit=time_limit)

    def second_order(self, w: Array) -> tuple[float, Array, Array]:
        """Return value, gradient and Hessian of about the objective of all queries."""
        value, gradient, hessian = self.problem.second_order(w)
        return self.factor * value, self.factor * gradient, self.factor * hessian


def sample_of(problem: Any) -> QuerySample | None:
    """Draw some queries of tall dense rows out of memory, one from each of as many stretches.

    Parameters
    ----------
    problem : QueryScores
        The problem, whose X are Chunks.
    """
    groups, (rows, columns) = problem.groups, problem.X.shape
    wanted = max(_ROWS_PER_COLUMN * columns, min(rows // _SHARE, _SAMPLED // columns))
    if problem.X.sparse or rows * columns < _TALL or _WORTH * wanted > rows:
        return None
    count = max(1, round(len(groups) * wanted / groups.rows))
    return None if _WORTH * count > len(groups) else drawn(problem, count)


def drawn(problem: Any, count: int) -> QuerySample | None:
    """Draw so many queries, one from each of as many stretches; None where they lack some of the grades."""
    groups = problem.groups
    places = ((np.arange(count) + np.random.default_rng(0).random(count)) * (len(groups) / count)).astype(
        np.intp
    )
    places = np.minimum(places, len(groups) - 1)
    parts = [problem.stretch(query) for query in places.tolist()]
    some = np.concatenate([problem._rows[part] for part in parts])
    if len(np.unique(problem.y[some])) < len(problem.levels):
        return None  # margins are given for each step of the grades
    values: dict[str, Any] = {
        "X": problem.X[some],
        "y": problem.y[some],
        "l2": problem.l2 * count / len(groups),
    }
    if problem.__dict__.get("center") is not None:
        values["center"] = problem.center[some]
    sizes = groups.sizes[places]
    made = problem.changed(qid=QueryGroups.from_sizes(sizes), **values)
    return QuerySample(made, len(groups) / count)
