"""Rows in pieces, as a matrix whose entries are used only through its products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from convexrank.backend.design import Design, row_lengths
from convexrank.data.checks.values import check_flag, check_integer, check_kind, check_list, check_real
from convexrank.data.chunks.pieces import (
    NoRowsError,
    Piece,
    PieceSummary,
    first_look,
    same_again,
    scores_of,
    sums_of,
)
from convexrank.data.chunks.reader import Text, one_by_one, read_ahead
from convexrank.data.chunks.sources import (
    Arrays,
    Files,
    IterableSource,
    Notifying,
    Parquet,
    Source,
    arrays_of,
    is_in_memory,
    joined,
    parquet_files,
    paths_of,
    piece_rows,
    re_iterable,
    row_numbers,
)
from convexrank.data.messages import shown

__all__ = ["SOURCES", "Chunks"]

Array = np.ndarray

SOURCES = (Arrays, Files, IterableSource, Parquet, Text, Notifying)


class Chunks(Design):
    r"""Rows that do not fit in memory, in pieces, as X of the problems that decompose over pieces.

    A problem takes ``Chunks`` where it takes X, and their labels where it takes y: ``PNormPush(chunks, chunks.y, p=8,
    l2=1e-4)``. Its value, gradient and certificate are those of the same rows in memory, up to rounding. A pass holds
    three pieces: one is computed with, one is ready, one is being read. All arithmetic is in float64, whatever the type
    in the files is. Labels and queries are kept in memory, features are not.

    Making ``Chunks`` takes one pass, in which all entries are checked. Later passes compare the size of each piece, a
    checksum of some thousand entries, and the time of the last change of a file with those of the first pass.

    Parameters
    ----------
    pieces : iterable of tuples
        An object that yields (X, y) or (X, y, qid) in every iteration: a list, or an object with ``__iter__``; X is an
        array or a sparse matrix of shape (r, d), with any r. For arrays and files see :meth:`from_arrays`,
        :meth:`from_files`, :meth:`from_parquet` and :meth:`from_letor`.

    Attributes
    ----------
    shape : tuple of int
        Numbers of rows and columns (n, d).
    y, qid : ndarray, shape (n,)
        Labels and queries of all rows; qid is None if the pieces have no queries.
    longest : float
        The Euclidean length of the longest row.
    sparse : bool
        Whether pieces are sparse matrices.
    passes : int
        Number of passes over the pieces so far, including the first one.

    Raises
    ------
    ValueError, TypeError
        When a piece is not a finite real matrix, or has another number of columns; the message names piece, file and
        row. When the pieces can be iterated only once. In a later pass, when data have changed.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3)).astype(np.float32)
    >>> y = X[:, 0] + rng.normal(size=1000) > 1.0
    >>> chunks = cr.data.Chunks([(X[:600], y[:600]), (X[600:], y[600:])])
    >>> chunks
    Chunks(1000 rows, 3 columns, 2 pieces)
    >>> solution = cr.problems.PNormPush(chunks, chunks.y, p=8, l2=1e-2).solve()
    >>> solution.status.name, bool(solution.gap < 1e-8)
    ('CONVERGED', True)
    """

    def __init__(self, pieces: Any) -> None:
        self._source: Source = pieces if isinstance(pieces, SOURCES) else re_iterable(pieces)
        self.passes = 0
        self._state, self._is_in_memory = self._source.state(), is_in_memory(self._source)
        self._look()

    def _look(self) -> None:
        """Read all pieces once, and keep what is needed of them."""
        seen: list[PieceSummary] = []

        def checked() -> Iterator[PieceSummary]:
            columns, labelled = None, None
            for number, raw in enumerate(self._source.pieces(labels=True)):
                one = first_look(raw, number, columns, labelled)
                if one.size:
                    columns, labelled = one.columns, (one.y is not None, one.qid is not None)
                yield one

        for one in read_ahead(checked):
            seen.append(one)
        self.passes += 1
        sizes = np.array([one.size for one in seen], dtype=np.int64)
        if not sizes.sum():
            raise NoRowsError("pieces have no rows; pass at least one row.")
        filled = [one for one in seen if one.size]
        self._shape, self.sparse = (int(sizes.sum()), filled[0].columns), any(one.sparse for one in filled)
        self._starts = np.concatenate(([0], sizes.cumsum()))
        self.y, self.qid = (joined([getattr(one, name) for one in filled]) for name in ("y", "qid"))
        self.longest = max(one.longest for one in filled)
        with np.errstate(over="ignore"):
            self._mean_squares = np.sum([one.squares for one in filled], axis=0) / self._shape[0]
        self._seen = [(one.size, one.checksum) for one in seen]
        #: The types of floating point numbers that pieces hold.
        self.kinds = sorted({one.kind for one in filled if one.kind.startswith("float")})
        self.is_single = {one.kind for one in filled} == {"float32"}

    # --- ways in ------------------------------------------------------------------------------------------------------

    @classmethod
    def from_arrays(cls, X: Any, y: Any, qid: Any = None, *, rows_per_piece: int | None = None) -> Self:
        """Cut arrays into pieces, in particular memory maps: ``numpy.load(file, mmap_mode="r")`` or ``numpy.memmap``.

        Parameters
        ----------
        X : array, memory map or CSR matrix, shape (n, d)
            The rows.
        y, qid : array, shape (n,)
            The labels of the rows; the queries of the rows, if there are any.
        rows_per_piece : int, optional
            Number of rows in a piece; by default a piece has 4 MB in float32.

        Returns
        -------
        Chunks
            The pieces.
        """
        return cls(arrays_of(X, y, qid, piece_rows(rows_per_piece)))

    @classmethod
    def from_files(cls, X: Any, y: Any = None, qid: Any = None, *, rows_per_piece: int | None = None) -> Self:
        """Read files of numpy, one after the other.

        Parameters
        ----------
        X : path or list of paths
            Files ``.npz`` with arrays X, y and, if there are queries, qid, which are read one at a time; or files
            ``.npy`` with X alone, which are mapped into memory.
        y, qid : path or list of paths
            For ``.npy``, the files with the labels and the queries, as many files as for X.
        rows_per_piece : int, optional
            Rows of a piece, as for :meth:`from_arrays`.

        Returns
        -------
        Chunks
            The pieces.
        """
        files, labels, queries = paths_of(X, "X"), paths_of(y, "y"), paths_of(qid, "qid")
        for name, others in (("y", labels), ("qid", queries)):
            if others and any(file.endswith(".npz") for file in files):
                raise ValueError(f"{name} is given, but X names files .npz, which hold it; leave it out.")
            if others and len(others) != len(files):
                raise ValueError(
                    f"{name} has {len(others)} files, expected {len(files)}, one for each file of X."
                )
        return cls(Files(files, labels, queries, piece_rows(rows_per_piece)))

    @classmethod
    def from_parquet(
        cls,
        paths: Any,
        y: str,
        qid: str | None = None,
        columns: Any = None,
        *,
        rows_per_piece: int | None = None,
    ) -> Self:
        """Read Parquet files, with some columns as features; needs pyarrow, the extra ``arrow``.

        Parameters
        ----------
        paths : path or list of paths
            Files, or folders with files named ``*.parquet``, which are read in the order of their names.
        y, qid : str
            Names of the columns with labels and with queries.
        columns : list of str, optional
            Names of the columns with features, in this order; by default all other columns but pandas' row numbers.
        rows_per_piece : int, optional
            Rows of a piece, as for :meth:`from_arrays`.

        Returns
        -------
        Chunks
            The pieces.

        Raises
        ------
        ImportError
            When pyarrow is not installed.
        """
        for name, value in (("y", y), ("qid", "" if qid is None else qid)):
            check_kind(value, name, str, "the name of a column")
        chosen = None if columns is None else tuple(check_list(columns, "columns", "names of columns"))
        if chosen is not None and not (chosen and all(isinstance(one, str) for one in chosen)):
            raise ValueError(
                f"columns is {shown(columns)}, expected the names of the features, at least one."
            )
        return cls(
            Parquet(parquet_files(paths_of(paths, "paths")), y, qid, chosen, piece_rows(rows_per_piece))
        )

    @classmethod
    def from_letor(
        cls,
        paths: Any,
        n_features: int | None = None,
        *,
        zero_based: bool = False,
        sparse: bool = False,
        queries: bool = True,
        null: float | None = None,
        rows_per_piece: int | None = None,
    ) -> Self:
        """Read LETOR or svmlight files, plain or compressed by gzip; see :func:`convexrank.data.read_letor`.

        Parameters
        ----------
        paths : path or list of paths
            The files.
        n_features : int, optional
            The number of features; by default the largest feature number, which takes one more pass to find.
        zero_based, sparse, null : bool, bool, float
            As for ``read_letor``.
        queries : bool
            Whether lines have query ids; False for svmlight files, whose second word is a feature.
        rows_per_piece : int, optional
            Number of lines in a piece; 3000 by default.

        Returns
        -------
        Chunks
            The pieces.
        """
        for name, flag in (("zero_based", zero_based), ("sparse", sparse), ("queries", queries)):
            check_flag(flag, name)
        if null is not None and not np.isfinite(check_real(null, "null")):
            raise ValueError(f"null is {null}, expected a finite number.")
        files, rows = paths_of(paths, "paths"), piece_rows(rows_per_piece)
        fill = None if null is None else float(null)
        width = 0 if n_features is None else check_integer(n_features, "n_features", 1)
        made = Text(files, width, zero_based, sparse, queries, fill, rows)
        return cls(made if width else replace(made, n_features=made.width()))

    in_memory, sample = False, "chunks[::100]"

    # --- passes -------------------------------------------------------------------------------------------------------

    def pieces(self) -> Iterator[Piece]:
        """Yield all pieces, reading ahead of those that are not in memory.

        Yields
        ------
        Piece
            ``X``, dense in float32 or float64 like the data, or CSR in float64; ``rows``, the slice of these rows among
            all.

        Raises
        ------
        ValueError
            When a piece or a file has changed since the first pass.
        """
        state = self._source.state()
        for before, now in zip(self._state, state, strict=True):
            if before != now:
                raise ValueError(
                    f"{now[0]} has changed since these Chunks were made (its size or time of change); leave the files "
                    "alone while they are in use, or make new Chunks."
                )
        self.passes += 1

        def again() -> Iterator[Piece]:
            number = -1
            for number, raw in enumerate(self._source.pieces(labels=False)):
                seen = self._seen[number] if number < len(self._seen) else None
                start = int(self._starts[min(number, len(self._seen))])
                piece = same_again(raw, number, start, seen)
                if piece is not None:
                    yield piece
            if number + 1 != len(self._seen):
                raise ValueError(
                    f"there are {number + 1} pieces, and there were {len(self._seen)} when these Chunks were made; an "
                    "iterable has to give the same pieces each time: pass a list, or an object with __iter__."
                )

        yield from (one_by_one if self._is_in_memory else read_ahead)(again)

    @property
    def borders(self) -> Array:
        """The number of rows up to the end of each piece."""
        return self._starts[1:]

    @property
    def most_rows(self) -> int:
        """The number of rows of the largest piece."""
        return int(np.diff(self._starts).max())

    @property
    def begin(self) -> int:
        """The number of the first row that this process holds."""
        return 0

    # --- over processes: here there is one, which does what is asked --------------------------------------------------

    def allgather(self, local: Callable[[], Array], length: int, same: Any) -> Array:
        """Return the vectors of this length that the processes compute from their rows, one row for each process."""
        return local()[None]

    def check_same_arguments(self, name: str, said: Callable[[], dict[str, str]]) -> None:
        """Refuse arguments that differ between processes; they are put into words where there are several."""

    # --- as a matrix --------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self._shape

    @property
    def mean_squares(self) -> Array:
        """The mean of the squares of each column, shape (d,)."""
        return self._mean_squares

    def _scores(self, w: Array) -> Array:
        scores = np.empty(self._shape[0])
        for piece in self.pieces():
            scores[piece.rows] = scores_of(piece.X, w)
        return scores

    def _sums(self, u: Array) -> Array:
        sums = np.zeros(self._shape[1])
        for piece in self.pieces():
            sums += sums_of(piece.X, u[None, piece.rows])[0]
        return sums

    def row_lengths(self) -> Array:
        """Return the Euclidean lengths of the rows, shape (n,): one pass."""
        lengths = np.empty(self._shape[0])
        for piece in self.pieces():
            lengths[piece.rows] = row_lengths(piece.X)
        return lengths

    def __getitem__(self, rows: Any) -> Any:
        """Return some rows as a matrix in memory, in float64: one pass."""
        if isinstance(rows, tuple):
            return self.columns(np.zeros(0))
        places = row_numbers(rows, self._shape[0])
        order = np.argsort(places, kind="stable")
        ordered, found = places[order], []
        whole = np.empty((0 if self.sparse else len(places), self._shape[1]))
        for piece in self.pieces():
            first, last = np.searchsorted(ordered, (piece.rows.start, piece.rows.stop))
            if last > first:
                some = piece.X[ordered[first:last] - piece.rows.start]
                if self.sparse:
                    found.append(sparse.csr_array(some, dtype=np.float64))  # some pieces are dense
                else:
                    whole[order[first:last]] = some
        if not found:
            return whole
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return sparse.csr_array(sparse.vstack(found))[back]

    def columns(self, places: Array) -> Any:
        """Refuse: columns of rows out of memory would have to be held."""
        raise TypeError(
            f"{self!r} are rows out of memory, whose columns are not built; methods that need the matrix itself (exact "
            "models, proofs, l1 by columns) take rows in memory: a sample of them, such as chunks[::100]."
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        """Refuse: all rows would be in memory at once."""
        return self.columns(np.zeros(0))

    def transform(self, X: Any) -> Any:
        """Return the rows as they are: the columns are the features themselves."""
        return X

    def __repr__(self) -> str:
        rows, columns = self._shape
        return f"Chunks({rows} rows, {columns} columns, {len(self._seen)} pieces)"
