"""Rows out of memory for risks that are sums over queries: queries that straddle pieces are joined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.design import stacked
from convexrank.data import QueryGroups
from convexrank.modelling.certificates.reference import Reference
from convexrank.modelling.groups import Groups
from convexrank.modelling.program import Program
from convexrank.problems.out_of_memory._streams import Portion, Stream, Sums
from convexrank.solvers.row_faces import Sample

Array = np.ndarray

# A sample has this number of rows per column, or one row out of this number, and at most 32 MB of entries unless the
# columns need more. It is drawn if all rows are at least four times as many, and have this number of entries.
_ROWS_PER_COLUMN, _SHARE, _SAMPLED, _WORTH, _TALL = 60, 32, 1 << 22, 4, 4_000_000

# A query with more rows than this number of pieces is not held at once.
_MOST_PIECES = 4

# Values of a query alone and among all others are equal, up to rounding relative to their size.
_SAME = 1e-9


def goes_in_order(rows: Array, starts: Array, piece: int) -> bool:
    """Return whether rows laid out query by query come in their order, and no query is much longer than a piece."""
    return bool((np.diff(rows) > 0).all()) and int(np.diff(starts).max()) <= _MOST_PIECES * piece


class QueryStream(Stream):
    """Evaluates a problem whose risk is a sum over queries, piece by piece.

    The problem's ``_by_query`` are the rows that count, query by query, and where each query begins and the last ends.
    """

    kind = Sums

    def portion(self, first: int, last: int, rows: slice) -> Portion:
        """Return the queries from a first to a last one as functions of the scores of these rows."""
        raise NotImplementedError

    @cached_property
    def _plan(self) -> list[tuple[slice, Portion]]:
        """Rows of the queries that each piece ends, and these queries alone; pieces that end none are left out."""
        whole, (rows, starts) = self.problem, self.problem._by_query
        first, last = rows[starts[:-1]], rows[starts[1:] - 1]
        borders, plan, before = whole.X.borders, [], int(np.searchsorted(first, whole.X.begin))
        for border in borders:
            after = int(np.searchsorted(last, border))
            if after > before:
                part = slice(int(first[before]), int(last[after - 1]) + 1)
                plan.append((part, self.portion(before, after, part)))
                before = after
        return plan

    def portions(self) -> Iterator[tuple[Portion, Any]]:
        """Yield the pieces once; rows of a query that has not ended wait for the next piece.

        Yields
        ------
        tuple of Portion and matrix
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
    return parts[0] if len(parts) == 1 else stacked(parts)


@dataclass(frozen=True, eq=False)
class DeclaredPortion(Portion):
    """Some queries of a declared risk: the risk of their rows alone."""

    program: Program

    def contributions(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return the sum over the queries and its gradient."""
        value, gradient = self.program.value_and_gradient(scores)
        return np.ones(1), np.array([value]), gradient[None]

    def reference(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return the same by plain numpy and the conjugate, and by how much that proves less than a tangent."""
        found = self._reference.below(scores)
        lost = found.value - float(found.slopes @ scores) - found.offset
        return np.array([1.0, 0.0]), np.array([found.value, lost]), found.slopes[None]

    @cached_property
    def _reference(self) -> Reference:
        return Reference(self.program)


class DeclaredStream(QueryStream):
    """Evaluates a declared formulation: the risk of some queries is the same expression of their rows."""

    def portion(self, first: int, last: int, rows: slice) -> DeclaredPortion:
        """Return the expression of these rows."""
        whole = self.problem
        (places, starts), numbers = whole._by_query, np.zeros(rows.stop - rows.start, dtype=np.int64)
        count, inside = last - first, places[starts[first] : starts[last]] - rows.start
        # rows that do not count are each a query of its own, without an order
        numbers[:] = count + np.arange(len(numbers))
        numbers[inside] = np.repeat(np.arange(count), np.diff(starts[first : last + 1]))
        weights = None if whole.sample_weight is None else whole.sample_weight[rows]
        groups = Groups(whole.y[rows], QueryGroups.from_qid(numbers), weights)
        program = whole._program_of(groups, len(groups.y))
        return DeclaredPortion(program)

    def count(self, reference: bool) -> int:
        """The risk, and what its lower bound loses."""
        return 2 if reference else 1

    def lost(self, total: Sums) -> float:
        """Return by how much the conjugate proves less than the tangent."""
        return float(total.values[1])

    def is_sum(self) -> bool:
        """Whether the values of the later queries are the same alone and among all: none looks at what is before it."""
        program, (rows, starts) = self.problem.program, self.problem._by_query
        scores, half = np.random.default_rng(0).normal(size=program.rows), program.count // 2
        part = slice(int(rows[starts[half]]), int(rows[-1]) + 1)
        try:
            alone = self.portion(half, program.count, part).program.up(scores[part])[0][-1]
        except (IndexError, ValueError):  # constants that are numbers of all rows
            return False
        whole = program.up(scores)[0][-1][half:]
        return bool(np.abs(alone - whole).max() <= _SAME * max(1.0, float(np.abs(whole).max())))


def streamed(problem: Any) -> DeclaredStream | None:
    """Return the evaluator of a declared formulation in one pass, where it is a sum over queries that stand together.

    Parameters
    ----------
    problem : Formulation
        The problem, whose X are Chunks.
    """
    rows, starts = problem._by_query
    if len(starts) < 3 or not goes_in_order(rows, starts, problem.X.most_rows):
        return None
    found = DeclaredStream(problem)
    return found if found.is_sum() else None


def sample_of(problem: Any) -> Sample | None:
    """Draw some queries of tall dense rows out of memory, one from each of as many stretches.

    Parameters
    ----------
    problem : LinearScores
        The problem, whose X are Chunks.
    """
    (places, starts), (rows, columns) = problem._by_query, problem.X.shape
    wanted = max(_ROWS_PER_COLUMN * columns, min(rows // _SHARE, _SAMPLED // columns))
    if problem.X.sparse or rows * columns < _TALL or _WORTH * wanted > rows:
        return None
    queries = len(starts) - 1
    count = max(1, round(queries * wanted / len(places)))
    found = None if _WORTH * count > queries else drawn(problem, count)
    return found if found and "TwiceDifferentiable" in found.problem.capabilities else None


def drawn(problem: Any, count: int) -> Sample | None:
    """Draw so many queries, one from each of as many stretches; None where they lack some of the grades."""
    rows, starts = problem._by_query
    queries = len(starts) - 1
    places = ((np.arange(count) + np.random.default_rng(0).random(count)) * (queries / count)).astype(np.intp)
    places = np.minimum(places, queries - 1)
    some = np.concatenate([rows[starts[query] : starts[query + 1]] for query in places.tolist()])
    if len(np.unique(problem.y[some])) < len(np.unique(problem.y)):
        return None  # margins are given for each step of the grades
    values: dict[str, Any] = {"X": problem.X[some], "l2": problem.l2 * count / queries}
    if problem.l1:
        values["l1"] = problem.l1 * count / queries
    for name in ("y", "center", "sample_weight"):
        if problem.__dict__.get(name) is not None:
            values[name] = problem.__dict__[name][some]
    made = problem.changed(qid=QueryGroups.from_sizes(np.diff(starts)[places]), **values)
    return Sample(made, queries / count)
