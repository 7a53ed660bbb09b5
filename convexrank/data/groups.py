"""Query groups: ids in any order become one flat, contiguous layout, once and in one place; and gains of grades."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property, read_only
from convexrank.data.checks.arrays import check_groups, read_array
from convexrank.data.checks.values import check_choice, check_flag, check_integer
from convexrank.data.frames import refuse_missing

__all__ = ["QueryGroups", "as_groups"]

Array = np.ndarray

_MOST_ROWS = 2**31 - 1
# From here on floats stand for several integers.
_EXACT = 2.0**53


@dataclass(frozen=True, eq=False)
class QueryGroups:
    r"""Rows of each query, as flat arrays.

    The n rows are laid out query by query: the q-th query holds the places ``offsets[q] : offsets[q + 1]``, and place
    p holds row ``order[p]``. Queries come in the order in which they first appear, and the rows of a query keep theirs.
    A query may be empty when the groups were made from sizes.

    Parameters
    ----------
    order : ndarray of int, shape (n,)
        The row at each place.
    offsets : ndarray of int, shape (m + 1,)
        Where each of the m queries starts; the last entry is n.
    ids : ndarray, shape (m,)
        The id of each query, as the caller passed it.

    Examples
    --------
    >>> groups = QueryGroups.from_qid(["b", "a", "b"])
    >>> groups.ids.tolist(), groups.sizes.tolist(), groups.order.tolist()
    (['b', 'a'], [2, 1], [0, 2, 1])
    >>> groups.spread(groups.gather([1.0, 2.0, 3.0])).tolist()
    [1.0, 2.0, 3.0]
    """

    order: Array
    offsets: Array
    ids: Array

    def __post_init__(self) -> None:
        given = [np.asarray(values) for values in (self.order, self.offsets, self.ids)]
        order, offsets, ids = given
        if any(values.ndim != 1 for values in given) or len(offsets) != len(ids) + 1 or len(ids) == 0:
            raise ValueError(
                f"order, offsets and ids have shapes {[values.shape for values in given]}, expected (n,), (m + 1,) and "
                "(m,) with m >= 1; make groups with QueryGroups.from_qid or from_sizes."
            )
        for name, places in (("order", order), ("offsets", offsets)):
            if places.size and places.dtype.kind not in "iu":
                raise TypeError(f"{name} holds {places.dtype} values, expected integers.")
        if offsets[0] != 0 or offsets[-1] != len(order) or (offsets[1:] < offsets[:-1]).any():
            raise ValueError(f"offsets do not rise from 0 to {len(order)}, the number of rows in order.")
        named = np.zeros(len(order), dtype=bool)
        named[order[(order >= 0) & (order < len(order))]] = True
        if not named.all():
            raise ValueError(
                f"order lacks the row {int(np.argmin(named))}, expected each of 0..{len(order) - 1} once."
            )
        self.__setstate__(
            {"order": order.astype(np.int64, copy=False), "offsets": offsets.astype(np.int64, copy=False)}
        )
        self.__setstate__({"ids": ids})

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over arrays as read-only ones: compiled loops trust what was checked."""
        self.__dict__.update({name: read_only(value) for name, value in state.items()})

    @classmethod
    def from_qid(
        cls, qid: Any, length: int | None = None, *, required: bool = False, name: str = "qid"
    ) -> Self:
        """Group rows by id, in O(n log n).

        Parameters
        ----------
        qid : array of int or str, shape (n,), or None
            The query of each row, in any order. None makes one query of all rows.
        length : int, optional
            The number of rows expected; needed when qid is None.
        required, name : bool, str
            Whether None is an error; the name of the argument in messages.

        Raises
        ------
        ValueError, TypeError
            When qid is missing although required, empty, of another length, not one-dimensional, of mixed kinds, or
            has NaN.
        """
        required = check_flag(required, "required")
        length = None if length is None else check_integer(length, "length", 0)
        if qid is None:
            if required or length is None:
                raise ValueError(
                    f"{name} is not given, expected one query id for each row; pass {name}=np.zeros(n, dtype=int) if "
                    "all rows belong to one query."
                )
            return cls(np.arange(length), np.array([0, length]), np.zeros(1, dtype=np.int64))
        ids = _readable_ids(qid, length, name)
        if len(ids) == 0:
            raise ValueError(f"{name} is empty; pass at least one row.")
        by_id = np.argsort(ids, kind="stable")
        starts = np.concatenate(([0], np.flatnonzero(ids[by_id[1:]] != ids[by_id[:-1]]) + 1))
        first = by_id[starts]
        appearance = np.argsort(first)
        sizes = np.diff(starts, append=len(ids))[appearance]
        offsets = np.concatenate(([0], sizes.cumsum()))
        # whole queries change places, in which the sort left the rows as they came
        moves = np.repeat(starts[appearance] - offsets[:-1], sizes)
        return cls(by_id[np.arange(len(ids)) + moves], offsets, ids[first[appearance]])

    @classmethod
    def from_sizes(
        cls, sizes: Any, length: int | None = None, *, ids: Array | None = None, name: str = "sizes"
    ) -> Self:
        """Group rows that already stand together, from the number of rows of each query: LightGBM's ``group``.

        Parameters
        ----------
        sizes : array of int, shape (m,)
            Number of rows of each query, in the order of the rows; 0 is an empty query.
        length : int, optional
            The number of rows that the sizes must add up to.
        ids : ndarray, shape (m,), optional
            The id of each query; 0, 1, 2, … by default.
        name : str
            Name of the argument in messages.

        Returns
        -------
        QueryGroups
            The layout.

        Raises
        ------
        ValueError, TypeError
            When the sizes are not a vector of integers of at least 0, or do not add up to the length.
        """
        counts = np.asarray(sizes)
        if counts.ndim != 1 or len(counts) == 0:
            raise ValueError(
                f"{name} has shape {counts.shape}, expected (m,): the number of rows of each query."
            )
        if counts.dtype.kind not in "iu":
            raise TypeError(f"{name} holds {counts.dtype} values, expected integers: numbers of rows.")
        if (counts < 0).any():
            place = int(np.argmax(counts < 0))
            raise ValueError(f"{name}[{place}] is {counts[place]}, expected a number of rows of at least 0.")
        total = sum(counts.tolist())  # Python's integers do not overflow
        if length is not None and total != length:
            raise ValueError(
                f"{name} adds up to {total} rows, expected {length}; pass the sizes that belong to these rows."
            )
        if total > _MOST_ROWS:
            raise ValueError(f"{name} adds up to {total} rows, expected at most {_MOST_ROWS}.")
        offsets = np.concatenate(([0], counts.astype(np.int64).cumsum()))
        return cls(np.arange(offsets[-1]), offsets, np.arange(len(counts)) if ids is None else ids)

    @property
    def rows(self) -> int:
        """Number of rows n."""
        return len(self.order)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def sizes(self) -> Array:
        """Number of rows of each query, shape (m,). For rows laid out by `gather` it is LightGBM's ``group``."""
        return np.diff(self.offsets)

    @cached_property
    def slices(self) -> list[slice]:
        """The places of each query."""
        ends = self.offsets.tolist()
        return list(map(slice, ends[:-1], ends[1:]))

    @cached_property
    def query(self) -> Array:
        """The number 0, 1, … of the query at each place, shape (n,)."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def back(self) -> Array:
        """The place of each row, shape (n,): the inverse of `order`."""
        places = np.empty(self.rows, dtype=np.int64)
        places[self.order] = np.arange(self.rows)
        return places

    @cached_property
    def in_place(self) -> bool:
        """Whether the rows of every query already stand together, so that nothing moves."""
        return bool((self.order == np.arange(self.rows)).all())

    def gather(self, values: Any) -> Any:
        """Return values (one for each row, or a matrix of rows) laid out query by query."""
        return self._taken(values, self.order)

    def spread(self, values: Any) -> Any:
        """Return values laid out query by query in the order of the rows again: the inverse of `gather`."""
        return self._taken(values, self.back)

    def _taken(self, values: Any, places: Array) -> Any:
        array: Any = values if hasattr(values, "ndim") else np.asarray(values)
        if self.in_place:
            return array
        # brackets of a Series or a DataFrame ask for labels, not for places
        return array.iloc[places] if hasattr(array, "iloc") else array[places]

    def numbered(self, values: Array) -> Array:
        """Number the distinct values of each query, laid out query by query: 0, 1, … through all queries, ascending."""
        order = np.lexsort((values, self.query))
        moved = values[order]
        changes = np.concatenate(([False], (moved[1:] != moved[:-1]) | (np.diff(self.query) != 0)))
        numbers = np.empty(len(values), dtype=np.int64)
        numbers[order] = changes.cumsum()
        return numbers

    def sums(self, values: Array) -> Array:
        """Add up values laid out query by query within each query; 0 for an empty one."""
        return self._reduced(np.add, values, 0)

    def maxima(self, values: Array, empty: float = -np.inf) -> Array:
        """Return the largest of the values of each query, laid out query by query."""
        return self._reduced(np.maximum, values, empty)

    def minima(self, values: Array, empty: float = np.inf) -> Array:
        """Return the smallest of the values of each query, laid out query by query."""
        return self._reduced(np.minimum, values, empty)

    @cached_property
    def _filled(self) -> tuple[Array, Array]:
        """Whether each query has rows, and where those that have begin."""
        filled = self.sizes > 0
        return filled, self.offsets[:-1][filled]

    def _reduced(self, ufunc: np.ufunc, values: Array, empty: float) -> Array:
        values, (filled, starts) = np.asarray(values), self._filled
        # reduceat returns the entry at the start for an empty stretch, so those are left out
        reduced = ufunc.reduceat(values, starts, axis=0) if len(starts) else values[:0]
        if len(starts) == len(filled):
            return reduced
        result = np.full((len(self), *values.shape[1:]), empty, dtype=np.result_type(values, type(empty)))
        result[filled] = reduced
        return result

    def repeated(self, times: Array) -> tuple[Array, Self]:
        """Repeat each row a given number of times; rows with 0 and queries without rows are left out.

        Parameters
        ----------
        times : ndarray of int, shape (n,)
            Number of copies of each row, laid out query by query.

        Returns
        -------
        rows : ndarray of int
            The rows, laid out query by query.
        groups : QueryGroups
            The queries of those rows.
        """
        sizes = self.sums(times)
        return np.repeat(self.order, times), self.from_sizes(sizes[sizes > 0], ids=self.ids[sizes > 0])

    def subset(self, queries: Any) -> Array:
        """Return the rows of the chosen queries (a mask or numbers), laid out query by query."""
        chosen = np.arange(len(self))[queries]
        return np.concatenate(
            [self.order[self.offsets[q] : self.offsets[q + 1]] for q in chosen] or [self.order[:0]]
        )


def _readable_ids(qid: Any, length: int | None, name: str) -> Array:
    """Return the ids as an array of one plain kind."""
    ids = qid if type(qid) is np.ndarray else read_array(qid, name)
    if (
        ids.dtype.kind in "SU"
        and isinstance(qid, list | tuple)
        and not all(isinstance(one, str | bytes) for one in qid)
    ):
        ids = np.asarray(qid, dtype=object)  # numpy has made words of numbers and of missing entries
    refuse_missing(ids, name)
    if ids.dtype.kind == "O" and ids.ndim == 1:
        # data frames hand integers over as objects
        if all(isinstance(entry, int | np.integer) and not isinstance(entry, bool) for entry in ids):
            try:
                ids = ids.astype(np.int64)
            except OverflowError as error:
                raise ValueError(
                    f"{name} has ids beyond 64 bits ({error}); pass text in their place."
                ) from error
    if ids.dtype.kind == "f" and ids.size and np.abs(ids).max() >= _EXACT:
        raise ValueError(
            f"{name} has ids that are floats of 2**53 or more, where different integers are one float; pass integers, "
            "or strings."
        )
    rows = ids.shape[0] if length is None and ids.ndim else (length or 0)
    return np.asarray(check_groups(ids, rows, name))


def as_groups(qid: Any, length: int, *, required: bool = False, name: str = "qid") -> QueryGroups:
    """Return groups for this number of rows: groups unchanged, ids grouped, None as one query of all rows.

    Arguments and errors are those of :meth:`QueryGroups.from_qid`.
    """
    if not isinstance(qid, QueryGroups):
        return QueryGroups.from_qid(qid, length, required=required, name=name)
    if qid.rows != length:
        raise ValueError(
            f"{name} groups {qid.rows} rows, expected {length}, one for each row; pass groups of these rows."
        )
    return qid


# The sum of so many rows of such a grade that fit in memory is still finite.
_LARGEST_EXPONENT = 980.0
_GAINS = {"exp2": "exp2", "linear": "linear"}


def gains(grades: np.ndarray, gain: str) -> np.ndarray:
    """Return what each grade is worth: 2^y − 1 for "exp2", y itself for "linear"; at least 0.

    Raises
    ------
    ValueError
        For an unknown name, negative grades, or grades for which sums of gains are not finite.
    """
    check_choice(gain, _GAINS, "gain")
    if grades.min() < 0:
        raise ValueError(
            f"y has the negative grade {grades.min():g}, expected grades of at least 0: shift them, or pass y > 0."
        )
    linear = gain == "linear"
    if grades.max() > (2.0**_LARGEST_EXPONENT if linear else _LARGEST_EXPONENT):
        other = "" if linear else ", or gain='linear' where gain is a parameter"
        raise ValueError(
            f"y has the grade {grades.max():g}, for which sums of {'y' if linear else '2**y'} are not finite; pass "
            f"smaller grades, such as their ranks{other}."
        )
    return grades if linear else np.expm1(grades * np.log(2.0))
