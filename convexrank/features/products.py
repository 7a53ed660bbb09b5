"""Designs made of others: products of thresholds of two columns, or side by side; and kernels on pairs of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property, read_only
from convexrank.backend.design import Design, by_columns, columns_of, held_as, row_lengths, unpacked
from convexrank.data import (
    check_flag,
    check_integer,
    check_list,
    check_matrix,
    check_pairs,
    check_weights,
    keep,
    shown,
)
from convexrank.features._levels import ColumnLevels, LevelDesign, levels_of, of_rows, place_of, read_columns

__all__ = ["Products", "Stacked", "pair_kernel"]

Array = np.ndarray


def pair_kernel(K: Any, pairs: Any, others: Any = None, *, antisymmetric: bool = False) -> Array:
    r"""Return a kernel on pairs, the product of a kernel of the first rows and one of the second.

    .. math:: k\bigl((a, b), (c, d)\bigr) = K_{ac} K_{bd}
              \quad\text{or, antisymmetric,}\quad K_{ac} K_{bd} - K_{ad} K_{bc}

    The second one has only rules with r(x', x) = −r(x, x'), and with a universal K every continuous one. Where K is a
    kernel both are. O(m²) for m pairs.

    Parameters
    ----------
    K : array, shape (n, k)
        The kernel of rows: those of ``pairs`` with those of ``others``.
    pairs : array of int, shape (m, 2)
        Row numbers (a, b) of pairs, in 0..n-1.
    others : array of int, shape (l, 2), optional
        Row numbers (c, d) of the others, in 0..k-1; by default the same pairs.
    antisymmetric : bool
        Which of the two.

    Returns
    -------
    ndarray, shape (m, l)
        Values of the kernel on pairs.

    Raises
    ------
    ValueError, TypeError
        When K is not finite and real, or a pair is out of range or has the same row twice.

    References
    ----------
    T. Pahikkala, W. Waegeman, E. Tsivtsivadze, T. Salakoski and B. De Baets, Learning intransitive reciprocal relations
    with kernel methods, European Journal of Operational Research 206 (2010).

    Examples
    --------
    >>> pair_kernel([[2.0, 1.0], [1.0, 3.0]], [[0, 1], [1, 0]], antisymmetric=True).tolist()
    [[5.0, -5.0], [-5.0, 5.0]]
    """
    kernel = unpacked(check_matrix(K, "K"))
    a, b = check_pairs(pairs, kernel.shape[0]).T
    c, d = (a, b) if others is None else check_pairs(others, kernel.shape[1], "others").T
    if others is None and kernel.shape[0] != kernel.shape[1]:
        raise ValueError(
            f"K has shape {kernel.shape}, expected a square matrix, or others; pass the other pairs."
        )
    antisymmetric = check_flag(antisymmetric, "antisymmetric")
    with np.errstate(over="ignore", invalid="ignore"):
        found = kernel[np.ix_(a, c)] * kernel[np.ix_(b, d)]
        found = found - kernel[np.ix_(a, d)] * kernel[np.ix_(b, c)] if antisymmetric else found
    if not np.isfinite(found).all():
        raise ValueError(
            f"K has entries of up to {np.abs(kernel).max():.3g}, whose products overflow; pass a kernel in other units."
        )
    return found


# Vectors with one entry per column are kept, several of them; beyond this many they fill the memory.
_MOST = 50_000_000


@dataclass(frozen=True, eq=False, repr=False)
class Products(LevelDesign):
    r"""One column for each product of two thresholds: 1 where :math:`x_j > a` and :math:`x_k > b`, else 0.

    The weights of one pair of features define a piecewise constant surface. The columns are never built: sums
    over a pair are two-dimensional histograms, cumulated along both axes, so that all P pairs cost O(P(n + bins²)). A
    certificate covers the pairs of the design, by default all pairs.

    Parameters
    ----------
    X : array or data frame, shape (n, d)
        The features, dense; a missing value (NaN) exceeds no threshold.
    bins : int
        Largest number of thresholds of one feature, which are quantiles.
    pairs : sequence of pairs, optional
        Pairs of features, by name or number; by default all.
    names : sequence of str, optional
        Names of the features; by default those of a data frame, else x0, x1, ….
    sample_weight : array, shape (n,), optional
        Weight of each row when thresholds are chosen, as in :class:`~convexrank.features.Thresholds`.

    Raises
    ------
    ValueError, TypeError
        When X is not a dense real table, an argument is out of range, no pair of features varies, or there would be
        more than fifty million products.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> design = cr.features.Products(X)
    >>> design.label(0), design.toarray().ravel().tolist()
    ('x0 > 0 and x1 > 0', [0.0, 0.0, 0.0, 1.0])
    """

    X: InitVar[Any]
    bins: int = 12
    pairs: Sequence[tuple[Any, Any]] | None = None
    names: Sequence[str] | None = None
    sample_weight: InitVar[Any] = None
    levels: tuple[ColumnLevels, ...] = field(init=False)
    codes: Array = field(init=False)
    first: Array = field(init=False)
    second: Array = field(init=False)

    def __post_init__(self, X: Any, sample_weight: Any) -> None:
        bins = check_integer(self.bins, "bins", 1)
        matrix, names, words = read_columns(X, given=self.names)
        if words:
            raise ValueError(
                f"X has categories in the columns {shown([names[j] for j in words])}, of which no products are made; "
                "leave them out, or pass Thresholds."
            )
        levels = levels_of(matrix, names, bins, weights=check_weights(sample_weight, len(matrix)))
        pairs = np.array(_read_pairs(self.pairs, names, levels), dtype=np.int64).reshape(-1, 2)
        first, second = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        counts = np.array([len(column.cuts) for column in levels], dtype=np.int64)
        total = int(counts[first] @ counts[second])
        if not total:
            raise ValueError(
                "no product is left of X: no pair has two features that vary; pass others, or Thresholds."
            )
        if total > _MOST:
            raise ValueError(
                f"there would be {total} products, expected at most {_MOST}; pass fewer bins or pairs."
            )
        self.__dict__["levels"] = levels
        made = {"codes": self._codes(matrix), "first": first, "second": second}
        self.__dict__.update({name: read_only(value) for name, value in made.items()})

    def _codes(self, matrix: Array) -> Array:
        """The levels; an absent value passes nothing."""
        codes = super()._codes(matrix)
        return np.where(codes > self._cuts[:, None], 0, codes).astype(np.int32)

    @cached_property
    def _cuts(self) -> Array:
        return np.array([len(column.cuts) for column in self.levels], dtype=np.int64)

    @cached_property
    def starts(self) -> Array:
        """The place at which the weights of each pair begin, and the number of all weights."""
        return np.cumsum(np.r_[0, self._cuts[self.first] * self._cuts[self.second]])

    @cached_property
    def _bases(self) -> Array:
        return np.cumsum(np.r_[0, (self._cuts[self.first] + 1) * (self._cuts[self.second] + 1)])

    def _sizes(self, pair: int) -> tuple[int, int]:
        return int(self._cuts[self.first[pair]]), int(self._cuts[self.second[pair]])

    def surface(self, w: Array, pair: int) -> Array:
        """Return the value of a pair's surface at each pair of levels, shape (levels of one, levels of the other)."""
        rows, columns = self._sizes(pair)
        surface = np.zeros((rows + 1, columns + 1))
        weights = w[self.starts[pair] : self.starts[pair + 1]].reshape(rows, columns)
        if weights.any():
            surface[1:, 1:] = weights.cumsum(axis=0).cumsum(axis=1)
        return surface

    def _scores(self, w: Array) -> Array:
        from convexrank.features._sums import add_pairs  # compiled: loading takes time

        used = np.unique(np.searchsorted(self.starts, np.flatnonzero(w), side="right") - 1)
        scores = np.zeros(self.shape[0])
        if len(used):
            parts = [self.surface(w, int(pair)).ravel() for pair in used]
            bases = np.cumsum([0, *map(len, parts)])
            add_pairs(
                *(self.codes, self.first[used], self.second[used]),
                *(self._cuts + 1, bases, np.concatenate(parts), scores),
            )
        return scores

    def _sums(self, u: Array) -> Array:
        from convexrank.features._sums import sum_pairs

        sums, found = np.zeros(int(self._bases[-1])), np.empty(self.shape[1])
        sum_pairs(
            self.codes, self.first, self.second, self._cuts + 1, self._bases, np.ascontiguousarray(u), sums
        )
        for pair in range(len(self.first)):
            rows, columns = self._sizes(pair)
            part = sums[self._bases[pair] : self._bases[pair + 1]].reshape(rows + 1, columns + 1)
            passed = part[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
            found[self.starts[pair] : self.starts[pair + 1]] = passed[1:, 1:].ravel()
        return found

    def columns(self, places: Array) -> sparse.csc_array:
        """Return the columns of these products, shape (n, k)."""
        rows = []
        for pair, place in self._found(places):
            one, other = divmod(place, self._sizes(pair)[1])
            passed = (self.codes[self.first[pair]] > one) & (self.codes[self.second[pair]] > other)
            rows.append(np.flatnonzero(passed))
        return of_rows(rows, [np.ones(len(part)) for part in rows], self.shape[0])

    def row_lengths(self) -> Array:
        """Return the Euclidean lengths of the rows, the roots of the numbers of products that are 1."""
        counts = self.codes.astype(np.float64)
        return np.sqrt(sum(counts[j] * counts[k] for j, k in zip(self.first, self.second, strict=True)))

    def label(self, place: int) -> str:
        """Name a column: both features and thresholds."""
        if check_integer(place, "place", 0) >= self.shape[1]:
            raise ValueError(f"place is {shown(place)}, expected a number below {self.shape[1]}.")
        ((pair, number),) = self._found(np.array([place]))
        one, other = divmod(number, self._sizes(pair)[1])
        return f"{self.levels[self.first[pair]].label(one)} and {self.levels[self.second[pair]].label(other)}"

    def __repr__(self) -> str:
        return (
            f"Products({self.shape[0]} rows, {len(self.first)} pairs of features, {self.shape[1]} products)"
        )


def _read_pairs(
    pairs: Any, names: tuple[str, ...], levels: tuple[ColumnLevels, ...]
) -> list[tuple[int, int]]:
    if pairs is None:
        return list(combinations([j for j, column in enumerate(levels) if len(column.cuts)], 2))
    found = []
    for pair in check_list(pairs, "pairs", "a pair of features"):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"pairs has {shown(pair)}, expected pairs of features such as ('age', 'price').")
        one, other = (place_of(column, names, "pairs") for column in pair)
        if one == other:
            raise ValueError(f"pairs has {shown(pair)}, expected two different features.")
        found.append((one, other))
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Stacked(Design):
    """Several designs or matrices with the same rows, side by side: for instance raw columns and thresholds.

    Parameters
    ----------
    parts : sequence
        Designs, arrays of shape (n, d) or sparse arrays, at least one.

    Raises
    ------
    ValueError, TypeError
        When there is no part, a part is no real matrix, or the numbers of rows differ.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> X = np.array([[1.0, 7.0], [2.0, 8.0], [3.0, 6.0]])
    >>> cr.features.Stacked([X, cr.features.Thresholds(X)]).shape
    (3, 6)
    """

    parts: Sequence[Any]

    def __post_init__(self) -> None:
        given = check_list(self.parts, "parts", "a design or a matrix")
        if not given:
            raise ValueError("parts is empty, expected at least one design or matrix.")
        for place, part in enumerate(given):
            if not held_as(part).in_memory:
                raise TypeError(
                    f"parts[{place}] is {part!r}, rows out of memory, which are not put beside other columns; write "
                    "all columns to the files, or take a sample in memory, such as chunks[::100]."
                )
        parts = tuple(check_matrix(part, f"parts[{place}]") for place, part in enumerate(given))
        rows = [int(part.shape[0]) for part in parts]
        if len(set(rows)) > 1:
            raise ValueError(f"parts have {rows} rows, expected the same number in each.")
        keep(self, parts=parts)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return int(self.parts[0].shape[0]), int(self.starts[-1])

    @cached_property
    def starts(self) -> Array:
        """The place at which the columns of each part begin, and the number of all columns."""
        return np.cumsum([0, *(part.shape[1] for part in self.parts)])

    @property
    def nonnegative(self) -> Array | None:
        """Whether each weight must be at least 0, according to the parts."""
        own = [held_as(part).nonnegative for part in self.parts]
        if all(one is None for one in own):
            return None
        return np.concatenate(
            [
                np.zeros(part.shape[1], dtype=bool) if one is None else one
                for one, part in zip(own, self.parts, strict=True)
            ]
        )

    def _scores(self, w: Array) -> Array:
        pieces = np.split(w, self.starts[1:-1])
        return sum(
            (part @ piece for part, piece in zip(self.parts, pieces, strict=True)), np.zeros(self.shape[0])
        )

    def _sums(self, u: Array) -> Array:
        return np.concatenate([part.T @ u for part in self.parts])

    @cached_property
    def _by_columns(self) -> list[Any]:
        return list(map(by_columns, self.parts))

    def columns(self, places: Array) -> sparse.csc_array:
        """Return the columns at these places, shape (n, k)."""
        places = np.asarray(places)
        owner = np.searchsorted(self.starts, places, side="right") - 1
        blocks, order = [], []
        for number in np.unique(owner):
            where = np.flatnonzero(owner == number)
            blocks.append(columns_of(self._by_columns[number], places[where] - self.starts[number]))
            order.append(where)
        if not blocks:
            return sparse.csc_array((self.shape[0], 0), dtype=np.float64)
        return sparse.csc_array(sparse.hstack(blocks, format="csc"))[:, np.argsort(np.concatenate(order))]

    def transform(self, X: Any) -> Stacked:
        """Return the same columns on other rows, where every part is a design of the same table.

        Parameters
        ----------
        X : array or data frame, shape (k, d)
            The rows.

        Raises
        ------
        ValueError
            When a part is a matrix, which has no other rows.
        """
        if not all(hasattr(part, "transform") for part in self.parts):
            raise ValueError(
                "a part is a matrix, whose columns on other rows are not known; stack the parts of the new rows: "
                "Stacked([new, design.transform(new)])."
            )
        return Stacked([part.transform(X) for part in self.parts])

    def row_lengths(self) -> Array:
        """Return the Euclidean lengths of the rows, shape (n,)."""
        return np.sqrt(sum(row_lengths(part) ** 2 for part in self.parts))

    def __getitem__(self, rows: Any) -> Stacked:
        return Stacked([part[rows] for part in self.parts])

    def __repr__(self) -> str:
        return f"Stacked({self.shape[0]} rows, {len(self.parts)} parts, {self.shape[1]} columns)"
