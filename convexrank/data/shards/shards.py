"""Rows over processes or on the workers of Dask, as a matrix whose entries are used only through its products."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import Design
from convexrank.backend.interruption import import_module
from convexrank.data.checks.arrays import check_real_array, read_array
from convexrank.data.checks.values import check_positive
from convexrank.data.chunks.chunks import Chunks
from convexrank.data.chunks.pieces import LARGEST, Piece
from convexrank.data.chunks.sources import row_numbers
from convexrank.data.messages import shown
from convexrank.data.shards.local import (
    check_alike,
    check_arguments,
    check_queries,
    compensated_sum,
    labels_type,
    local_rows,
    rank_summary,
)
from convexrank.data.shards.ranks import Ranks
from convexrank.data.shards.watch import RankError

__all__ = ["DaskRows", "Shards"]

Array = np.ndarray


class DaskRows(Design):
    r"""Rows of a ``dask.array`` or ``dask.dataframe``, as X of problems with linear scores.

    Products are computed where the pieces are: each worker returns the scores Xw of its rows, and for the gradient the
    vector :math:`X^\top u` of d numbers of each piece, which are added here in the order of the pieces. So n scores and
    d sums travel for each evaluation, and the features never do, but for columns that ``working-sets`` asks for. Dask
    computes the piece of a lost worker again. Value, gradient and certificate are those of the same rows in memory, up
    to rounding.

    All entries are looked at once at the start. Keep the pieces on the workers, ``X = X.persist()``, where they fit:
    otherwise each product makes them anew, for instance reads them from files.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame, shape (n, d)
        The rows, in pieces of whole rows, dense, real and finite; of a data frame, all columns.
    y : dask.array.Array, dask.dataframe.Series or array-like of shape (n,), optional
        Their labels, which are computed and kept in memory.

    Attributes
    ----------
    y : ndarray, shape (n,), or None
        The labels.
    shape : tuple of int
        Numbers of rows and columns.

    Raises
    ------
    TypeError, ValueError
        When X is no collection of Dask with two dimensions; when entries are not finite real numbers, with the number
        of the piece; when y has another length, or X has no rows.
    ImportError
        When Dask is not installed (``pip install 'convexrank[dask]'``).

    Examples
    --------
    >>> import convexrank as cr
    >>> # rows = cr.data.DaskRows(X.persist(), y)
    >>> # cr.problems.PNormPush(rows, rows.y, p=4, l2=1e-3).solve("lbfgs")
    >>> # cr.PushRanker().fit(rows, rows.y).predict(rows)
    """

    sample = "rows[::100].toarray()"

    def __init__(self, X: Any, y: Any = None) -> None:
        if not hasattr(X, "to_delayed") or len(getattr(X, "shape", ())) != 2:
            raise TypeError(
                f"X is {shown(X)}, expected a dask.array with two dimensions, or a dask.dataframe."
            )
        blocks = X.rechunk({1: -1}).to_delayed().ravel() if hasattr(X, "rechunk") else X.to_delayed()
        self._blocks: list[Any] = list(blocks)
        self._source = X  # the workers drop what they keep for a collection that nobody holds any more
        seen = self._on_each(_looked_at)
        for number, (_, _, wrong, _) in enumerate(seen):
            if wrong:
                raise ValueError(f"piece {number} of X {wrong}.")
        sizes, widths = ([one[place] for one in seen] for place in (0, 1))
        if len(set(widths)) > 1:
            raise ValueError(
                f"X has pieces with {sorted(set(widths))} columns, expected the same number in each."
            )
        self._shape = (int(sum(sizes)), int(widths[0]))
        for count, name in zip(self._shape, ("rows", "columns"), strict=True):
            if not count:
                raise ValueError(f"X has no {name}, expected at least one.")
        self._starts = np.cumsum([0, *sizes])
        self._lengths = np.concatenate([one[3] for one in seen])
        self._take(np.arange(self._shape[0]))
        self.y = None if y is None else read_array(y.compute() if hasattr(y, "compute") else y, "y")
        if self.y is not None and self.y.shape != self._shape[:1]:
            raise ValueError(
                f"y has shape {self.y.shape}, expected ({self._shape[0]},), one label for each row of X."
            )

    def _take(self, places: Array) -> None:
        """Keep these rows of the pieces, in this order."""
        self._places, self._order = places, np.argsort(places, kind="stable")
        ends = np.searchsorted(places[self._order], self._starts)
        self._cuts = ends[1:-1]
        whole = np.array_equal(places, np.arange(self._starts[-1]))
        self._local = [
            None if whole else places[self._order][first:last] - start
            for first, last, start in zip(ends, ends[1:], self._starts, strict=False)
        ]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self._shape

    def _on_each(self, function: Any, *parts: Any) -> list[Any]:
        """Call a function on each piece, with its entry of each list, on the workers."""
        dask = import_module("dask")
        run = dask.delayed(function, pure=False)
        listed = zip(self._blocks, *parts, strict=True)
        return list(dask.compute(*(run(*one) for one in listed), optimize_graph=False))

    def _gathered(self, function: Any, argument: Array) -> Array:
        """Return what a function makes of each row, in the order of the rows."""
        parts = self._on_each(function, self._local, [argument] * len(self._blocks))
        found = np.concatenate(parts)
        ordered = np.empty_like(found)
        ordered[self._order] = found
        return ordered

    def _scores(self, w: Array) -> Array:
        return self._gathered(_scores, w)

    def _sums(self, u: Array) -> Array:
        parts = np.split(u[self._order], self._cuts)
        return np.sum(self._on_each(_sums, self._local, parts), axis=0)

    def columns(self, places: Array) -> sparse.csc_array:
        """Return the columns at these places, shape (n, k), from the workers."""
        return sparse.csc_array(self._gathered(_columns, np.asarray(places)))

    def __getitem__(self, rows: Any) -> DaskRows:
        found, rows = copy(self), row_numbers(rows, self._shape[0])
        found._take(self._places[rows])
        found._shape, found._lengths = (len(found._places), self._shape[1]), self._lengths[rows]
        found.y = None if self.y is None else self.y[rows]
        return found

    def row_lengths(self) -> Array:
        """Return the Euclidean lengths of the rows, shape (n,)."""
        return self._lengths

    def __repr__(self) -> str:
        return f"DaskRows({self._shape[0]} rows, {self._shape[1]} columns, {len(self._blocks)} pieces)"


def _matrix(piece: Any, local: Array | None = None) -> Array:
    rows = np.asarray(piece, dtype=np.float64)
    return rows if local is None else rows[local]


def _looked_at(piece: Any) -> tuple[int, int, str, Array]:
    """Return numbers of rows and columns, what is wrong, and the lengths of the rows."""
    try:
        rows = _matrix(check_real_array(piece, "X"))
    except (TypeError, ValueError) as error:
        return 0, 0, f"has entries that are no numbers ({error}), expected finite real numbers", np.zeros(0)
    largest, wrong = float(np.abs(rows).max(initial=0.0)), ""
    if not math.isfinite(largest):
        wrong = "has NaN or an infinite entry, expected finite real numbers"
    elif largest > LARGEST:
        wrong = f"has an entry of size {largest:.2g}, whose products overflow, expected at most {LARGEST:g}"
    return *rows.shape, wrong, np.zeros(0) if wrong else np.linalg.norm(rows, axis=1)


def _scores(piece: Any, local: Array | None, w: Array) -> Array:
    return _matrix(piece, local) @ w


def _sums(piece: Any, local: Array | None, u: Array) -> Array:
    return _matrix(piece, local).T @ u


def _columns(piece: Any, local: Array | None, places: Array) -> Array:
    return _matrix(piece, local)[:, places]


class Shards(Chunks):
    r"""Rows over the processes of a JAX program. X consists of the rows of all ranks, in the order of the ranks.

    Every process makes ``Shards`` of its rows and then runs the same program: ``PNormPush(shards, shards.y, p=8,
    l2=1e-4).solve()`` returns the same solution on every rank, to the last bit. Each rank reads its own rows. Their
    contributions (for a push some log-sum-exps and vectors of d numbers) are gathered from all ranks and added
    up in one order, so that w and the state of the solver are the same everywhere. The certificate is that of all rows.

    The processes are those of :func:`jax.distributed.initialize`; without it there is one rank. An error on one rank is
    an error on all ranks. If a rank stays silent for longer than the timeout, all ranks end with an error that names
    it. The page "Rows over processes" has the details.

    Parameters
    ----------
    X : array, memory map, CSR matrix, jax.Array, Chunks or callable
        The rows of this rank, shape (r, d); r may be 0. For a sharded :class:`jax.Array`, the rows are those that are
        addressable on this rank. A function without arguments may return the rows; an error in it is raised on all
        ranks.
    y, qid : array, shape (r,), optional
        Labels and queries of the rows; not for :class:`Chunks`, which contain them. All rows of a query must be on one
        rank.
    timeout : float
        Seconds that a rank may do nothing while others wait for it.

    Attributes
    ----------
    y, qid : ndarray, shape (n,)
        Labels and queries of all rows, on every rank.
    own : slice
        The rows of this rank among all rows.
    rank, ranks : int
        The number of this rank, from 0, and the number of ranks.

    Raises
    ------
    ValueError, TypeError
        As for :class:`Chunks`; when versions, columns, types or arguments differ between ranks; when no rank has
        rows, or a query has rows on two.
    RankError
        When another rank fails, or is silent.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> y = X[:, 0] + rng.normal(size=1000) > 1.0
    >>> shards = cr.data.Shards(X, y)
    >>> shards
    Shards(1000 rows, 3 columns, rank 0 of 1 with 1000 rows)
    >>> solution = cr.problems.PNormPush(shards, shards.y, p=8, l2=1e-2).solve()
    >>> solution.status.name, bool(solution.gap < 1e-8)
    ('CONVERGED', True)
    """

    def __init__(self, X: Any, y: Any = None, qid: Any = None, *, timeout: float = 30.0) -> None:
        self._together = Ranks(check_positive(timeout, "timeout"))
        self.rank, self.ranks = self._together.index, self._together.count
        local, error = None, None
        try:
            local = local_rows(X, y, qid, self._together.heartbeat)
        except Exception as caught:  # noqa: BLE001 - raised again once the others know
            error = caught
        said = self._together.exchange(rank_summary(local, self._together.timeout, error))
        if local is None or error is not None:
            raise error or RankError("this rank has no rows.")
        for rank, one in enumerate(said):
            if one["error"]:
                raise RankError(f"rank {rank} of {self.ranks}: {one['error']}")
        check_alike(said)
        if not any(one["rows"] for one in said):
            raise ValueError("X has no rows on any rank; pass at least one row.")
        self._local = local.chunks
        self._take_stock(said)

    def _take_stock(self, said: list[dict[str, Any]]) -> None:
        """Put together what all ranks know of all rows."""
        counts = [int(one["rows"]) for one in said]
        self._starts = np.concatenate(([0], np.cumsum(counts)))
        known = [one for one in said if one["rows"]]
        self._shape, self.sparse = (
            (sum(counts), int(known[0]["columns"])),
            any(one["sparse"] for one in known),
        )
        self.longest = max(one["longest"] for one in known)
        self._most_rows = max(one["most"] for one in known)
        self._kind = np.dtype(np.float32 if all(one["single"] for one in known) else np.float64)
        self.y, self.qid = (self._labels(said, name) for name in ("y", "qid"))
        own = np.zeros(self._shape[1])
        if self._local is not None:
            with np.errstate(over="ignore"):
                own = self._local.mean_squares * self._local.shape[0]
        with np.errstate(over="ignore", invalid="ignore"):
            self._mean_squares = compensated_sum(self.allgather(lambda: own, len(own), b"")) / self._shape[0]

    def _labels(self, said: list[dict[str, Any]], name: str) -> Array | None:
        kind = labels_type(said, name)
        if kind is None:
            return None
        own = np.zeros(0) if self._local is None else getattr(self._local, name)
        parts = self._together.gather_any(own.astype(kind), np.diff(self._starts))
        if name == "qid":
            check_queries(parts)
        whole = np.concatenate(parts)
        whole.flags.writeable = False
        return whole

    # --- over processes ---------------------------------------------------------------------------------------------

    @property
    def own(self) -> slice:
        """The rows of this rank among all rows."""
        return slice(int(self._starts[self.rank]), int(self._starts[self.rank + 1]))

    def whole(self, values: Any) -> Array:
        """Return one number for each of all rows, from the numbers for the rows of each rank, such as weights.

        Parameters
        ----------
        values : array, shape (r,)
            Numbers for the rows of this rank.

        Returns
        -------
        ndarray, shape (n,)
            The numbers of all ranks, in the order of the ranks.

        Raises
        ------
        ValueError, RankError
            ValueError when there is not one number for each row; then RankError on the other ranks.
        """
        size = self.own.stop - self.own.start

        def checked() -> Array:
            vector = read_array(values, "values")
            if vector.shape != (size,) or vector.dtype.kind not in "biuf":
                raise ValueError(
                    f"values has shape {vector.shape} and type {vector.dtype}, expected ({size},) numbers, one for "
                    "each row of this rank."
                )
            return vector.astype(np.float64)

        return self._by_row(checked, b"whole")

    def allgather(self, local: Callable[[], Array], length: int, same: Any) -> Array:
        """Return the vectors of this length that the processes compute from their rows, one row for each process."""
        return self._together.gather(local, length, same)

    def check_same_arguments(self, name: str, said: Callable[[], dict[str, str]]) -> None:
        """Refuse arguments that differ between processes.

        Raises
        ------
        ValueError
            On all ranks; the message names the argument and two ranks.
        """
        advice = ", and of arrays those of all rows: shards.y, shards.qid, shards.whole(weights)"
        if self.ranks > 1:
            check_arguments(self._together.exchange([name, said()]), advice)

    @contextmanager
    def ending_after(self, seconds: float | None) -> Iterator[None]:
        """End what runs inside after so many seconds, on all ranks at the same step, whatever their clocks say.

        Yields
        ------
        None
            Nobody else has to look at a clock.
        """
        limit = math.inf if seconds is None else check_positive(seconds, "time_limit", infinite=True)
        with self._together.running(limit):
            yield None

    def _by_row(self, local: Callable[[], Array], same: Any) -> Array:
        """Return numbers for all rows, of what each rank computes for its own."""
        counts = np.diff(self._starts)
        most = int(counts.max())

        def padded() -> Array:
            values = local()
            return np.concatenate((values, np.zeros(most - len(values))))

        found = self.allgather(padded, most, same)
        return np.concatenate([row[:count] for row, count in zip(found, counts, strict=True)])

    # --- passes -----------------------------------------------------------------------------------------------------

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of this rank, reading ahead.

        Yields
        ------
        Piece
            ``X`` in float64, dense or CSR, and ``rows``, the slice of these rows among all.
        """
        begin = self.begin
        for piece in () if self._local is None else self._local.pieces():
            self._together.heartbeat()
            rows = slice(begin + piece.rows.start, begin + piece.rows.stop)
            yield replace(piece, rows=rows)

    @property
    def passes(self) -> int:  # type: ignore[override]
        """Number of passes of this rank over its pieces so far, including the first one."""
        return 0 if self._local is None else self._local.passes

    @property
    def begin(self) -> int:
        """The number of the first row that this rank holds."""
        return self.own.start

    @property
    def borders(self) -> Array:
        """The number of rows up to the end of each piece of this rank."""
        return np.zeros(0, dtype=np.int64) if self._local is None else self._local.borders + self.begin

    @property
    def most_rows(self) -> int:
        """The number of rows of the largest piece of any rank."""
        return self._most_rows

    # --- as a matrix ------------------------------------------------------------------------------------------------

    def _scores(self, w: Array) -> Array:
        own = self._local
        return self._by_row(lambda: np.zeros(0) if own is None else own @ w, np.ascontiguousarray(w))

    def _sums(self, u: Array) -> Array:
        own, columns = self._local, self._shape[1]

        def summed() -> Array:
            return np.zeros(columns) if own is None else own.T @ u[self.own]

        return compensated_sum(self.allgather(summed, columns, np.ascontiguousarray(u)))

    def row_lengths(self) -> Array:
        """Return the Euclidean lengths of the rows, shape (n,): one pass."""
        own = self._local
        return self._by_row(lambda: np.zeros(0) if own is None else own.row_lengths(), b"lengths")

    def __getitem__(self, rows: Any) -> Any:
        """Return some rows as a matrix in memory, in float64, on every rank: one pass."""
        if self.sparse:
            raise TypeError(
                f"rows of {self!r} are sparse, and stay where they are; take them from what a rank was given."
            )
        places, columns = row_numbers(rows, self._shape[0]), self._shape[1]
        owners = np.searchsorted(self._starts, places, side="right") - 1
        most = int(np.bincount(owners, minlength=self.ranks).max()) if len(places) else 0

        # the bits of two numbers in float32 go as one in float64
        kind, length = self._kind, most * columns * self._kind.itemsize
        length = -(-length // 8)

        def chosen() -> Array:
            mine = places[owners == self.rank] - self.begin
            room = np.zeros(length)
            if len(mine) and self._local is not None:
                room.view(kind)[: len(mine) * columns] = self._local[mine].ravel()
            return room

        bits = self.allgather(chosen, length, np.ascontiguousarray(places))
        found = bits.view(kind)[:, : most * columns].reshape(self.ranks, most, columns)
        whole = np.empty((len(places), columns))
        for rank in range(self.ranks):
            mine = owners == rank
            whole[mine] = found[rank, : int(mine.sum())]
        return whole

    def __repr__(self) -> str:
        (rows, columns), size = self._shape, self.own.stop - self.own.start
        place = f"rank {self.rank} of {self.ranks} with {size} rows"
        return f"Shards({rows} rows, {columns} columns, {place})"
