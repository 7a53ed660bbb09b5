"""Products with the matrix of features: exact data and balls, or floats with an a-priori bound on their rounding."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from flint import arb_mat
from scipy import sparse

from convexrank.backend.design import held_as
from convexrank.core.results import CertificateError
from convexrank.proof.balls import Balls, above, arb, dot, exact, midpoints, total

Array = np.ndarray

# Above this many entries the products are made in floats. Blocks of rows keep copies small, and γ too.
_ENTRIES = 10_000_000
_KEPT, _BLOCK = 2_000_000, 4_096
# A design of more entries is not built.
_MOST = 5e7
_UNIT = 2.0**-53
_TINIEST = 2.0**-1074


def products(X: Any, entries: int = _ENTRIES) -> Products:
    """Return products with X that suit its kind and size."""
    if not held_as(X).built:
        count = float(X.row_lengths() @ X.row_lengths())
        if count > _MOST:
            raise CertificateError(
                f"the columns of X have {count:.0f} entries, and a proof builds them; make a design with fewer bins."
            )
        X = X.tocsr()
    size = int(X.nnz) if sparse.issparse(X) else X.size
    if size > entries:
        return _Rounded(X)
    return _Sparse(X) if sparse.issparse(X) else _Dense(X)


class _Dense:
    """All entries as balls of radius 0; X is cut into blocks of rows, which are kept where they take little room."""

    def __init__(self, X: Array) -> None:
        self.X = X

    def _blocks(self) -> Any:
        return self._kept if self.X.size <= _KEPT else self._made()

    def _made(self) -> Any:
        rows, columns = self.X.shape
        step = max(1, _KEPT // (8 * columns))
        for start in range(0, rows, step):
            part = self.X[start : start + step]
            yield start, arb_mat(len(part), columns, part.ravel().tolist())

    @cached_property
    def _kept(self) -> list[tuple[int, arb_mat]]:
        return list(self._made())

    def scores(self, w: Array) -> Balls:
        column = arb_mat(len(w), 1, w.tolist())
        return [entry for _, block in self._blocks() for entry in (block * column).entries()]

    def pull(self, slope: Balls) -> Balls:
        parts = [
            arb_mat(1, block.nrows(), slope[start : start + block.nrows()]) * block
            for start, block in self._blocks()
        ]
        return [total(column) for column in zip(*(part.entries() for part in parts), strict=True)]


class _Sparse:
    """The stored entries of a sparse matrix, by rows and by columns."""

    def __init__(self, X: Any) -> None:
        self.rows, self.columns = sparse.csr_array(X), sparse.csc_array(X)

    def scores(self, w: Array) -> Balls:
        return _sums(self.rows, exact(w))

    def pull(self, slope: Balls) -> Balls:
        return _sums(self.columns, slope)


def _sums(matrix: Any, vector: Balls) -> Balls:
    ends, places, entries = matrix.indptr.tolist(), matrix.indices.tolist(), matrix.data.tolist()
    return [dot((vector[place] for place in places[a:b]), entries[a:b]) for a, b in pairwise(ends)]


class _Rounded:
    r"""Products in floats, with the a-priori bound on rounding.

    However a sum of m products is ordered, :math:`|\mathrm{fl}(x^\top w) - x^\top w| \le \gamma_m |x|^\top|w|`,
    :math:`\gamma_m = mu/(1-mu)`, and a little for underflow. What |x|ᵀ|w| loses itself is covered by doubling.
    """

    def __init__(self, X: Any) -> None:
        self.X: Any = sparse.csr_array(X) if sparse.issparse(X) else X

    def _blocks(self) -> Any:
        for start in range(0, self.X.shape[0], _BLOCK):
            yield start, self.X[start : start + _BLOCK].astype(np.float64)

    def scores(self, w: Array) -> Balls:
        found: Balls = []
        for _, block in self._blocks():
            found += _enclosed(block @ w, abs(block) @ np.abs(w), len(w))
        return found

    def pull(self, slope: Balls) -> Balls:
        middle = midpoints(slope)
        radii = np.array([above(abs(ball - mid)) for ball, mid in zip(slope, middle.tolist(), strict=True)])
        found = [arb(0)] * self.X.shape[1]
        for start, block in self._blocks():
            part = slice(start, start + block.shape[0])
            turned, size = block.T, abs(block).T
            moved = _enclosed(turned @ middle[part], size @ np.abs(middle[part]), block.shape[0])
            spread = 2.0 * (size @ radii[part]) + block.shape[0] * _TINIEST
            found = [
                whole + arb(entry, error) if error else whole + entry
                for whole, entry, error in zip(found, moved, spread.tolist(), strict=True)
            ]
        return found


#: The two products with X that a proof needs: ``scores(w)`` encloses Xw for an exact w, ``pull(slope)`` encloses Xᵀu.
Products = _Dense | _Sparse | _Rounded


def _enclosed(values: Array, sizes: Array, count: int) -> Balls:
    """Balls around sums of ``count`` products that were made in floats; ``sizes`` are the sums of their sizes."""
    slope = (
        4.0 * count * _UNIT
    )  # γ is below twice count · unit, and the sizes are at least half of what they should be
    radii = slope * sizes + 4.0 * count * _TINIEST
    return [arb(value, radius) for value, radius in zip(values.tolist(), radii.tolist(), strict=True)]
