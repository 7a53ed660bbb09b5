"""Features and penalties over balls: products with the matrix, and what a slope of the risk proves of the optimum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import held_as, is_sparse
from convexrank.core.results import CertificateError
from convexrank.proof.balls import (
    ZERO,
    Balls,
    above,
    arb,
    arb_mat,
    dot,
    exact,
    greatest,
    midpoints,
    positive,
    root,
    total,
)
from convexrank.regularizers import L2Ball, Penalty
from convexrank.regularizers.norms import FEASIBLE

Array = np.ndarray


@dataclass(frozen=True)
class ExactPenalty:
    r"""The penalty :math:`\Omega(w) = \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1 + \iota_{\text{ball}}(w)`.

    Parameters
    ----------
    penalty : Penalty
        Strengths and ball, taken as the rational numbers that they are.
    """

    penalty: Penalty

    def value(self, w: Balls) -> arb:
        """Enclose the two norms; the ball is :meth:`shrinking`'s."""
        return dot(w, w) * self.penalty.l2 / 2 + total(map(abs, w)) * self.penalty.l1

    def shrinking(self, w: Array) -> arb | None:
        """Return a factor that brings w into the ball: 1 inside; None where it is outside by more than rounding."""
        ball, point = self.penalty.ball, exact(w)
        if self.penalty.nonnegative is not None and bool((w[self.penalty.nonnegative] < 0.0).any()):
            return None
        if ball is None:
            return arb(1)
        size = dot(point, point).sqrt() if isinstance(ball, L2Ball) else total(map(abs, point))
        if size <= ball.radius:
            return arb(1)
        return None if size > arb(ball.radius) * (1 + arb(FEASIBLE)) else ball.radius / size.upper()

    def gap(self, w: Balls, slope: Balls) -> arb:
        r"""Enclose :math:`\Omega(w) + \Omega^*(v) - \langle v, w\rangle`, or more, for v the negative slope.

        With l2 alone it is :math:`\|\lambda_2 w-v\|^2/(2\lambda_2)`, written so that nothing cancels.

        Parameters
        ----------
        w : list of arb
            A point.
        slope : list of arb
            A slope of the risk.
        """
        l2, l1 = arb(self.penalty.l2), arb(self.penalty.l1)
        v = [-entry for entry in slope]
        if self.penalty.l2 > 0:
            rests = []
            for x, y, signed in zip(w, v, self._signed(len(v)), strict=True):
                # where weights are at least 0, slopes that push them below cost nothing
                clipped = (y if signed else y.max(-l1)).min(l1)
                off = l2 * x - (y - clipped)
                rests.append(off * off / (2 * l2) + (l1 * abs(x) - clipped * x))
            free = total(rests)
            return free if self.penalty.ball is None else free - self._saved(v)
        return self.value(w) - dot(v, w) + self._support(v)

    def _shrunk(self, v: Balls, threshold: arb) -> Balls:
        """The sizes of the entries less a threshold, at least 0."""
        return [positive(abs(entry) - threshold) for entry in v]

    def _saved(self, v: Balls) -> arb:
        """Decrease of the conjugate because of the ball, or less; never below 0."""
        ball, l2 = self.penalty.ball, arb(self.penalty.l2)
        shrunk = self._shrunk(v, arb(self.penalty.l1))
        squares = dot(shrunk, shrunk)
        if isinstance(ball, L2Ball):
            excess = root(squares) - l2 * ball.radius
            return excess * excess / (2 * l2) if excess >= 0 else ZERO
        if ball is None or total(shrunk) <= l2 * ball.radius:
            return ZERO
        # any multiplier of the constraint gives an upper bound of the conjugate; this one is the best, up to rounding
        sizes = np.array([float(entry) for entry in shrunk])
        multiplier = arb(
            max(float(np.max(sizes - ball.prox(sizes / self.penalty.l2, 1.0) * self.penalty.l2)), 0.0)
        )
        rest = self._shrunk(shrunk, multiplier)
        return positive(squares / (2 * l2) - dot(rest, rest) / (2 * l2) - multiplier * ball.radius)

    def _support(self, v: Balls) -> arb:
        """The conjugate without l2: that of the ball, at the entries that l1 leaves."""
        ball, shrunk = self.penalty.ball, self._shrunk(v, arb(self.penalty.l1))
        if ball is None:
            raise ValueError("without l2 and a ball the conjugate is infinite.")
        if isinstance(ball, L2Ball):
            return root(dot(shrunk, shrunk)) * ball.radius
        return greatest(shrunk) * ball.radius

    def excess(self, slope: Balls) -> arb:
        """Enclose by how much the largest entry exceeds l1; below 0 where all are smaller."""
        signed = self._signed(len(slope))
        return greatest(-s if one else abs(s) for s, one in zip(slope, signed, strict=True)) - self.penalty.l1

    def _signed(self, count: int) -> list[bool]:
        """Mask of the weights that must be at least 0."""
        flags = self.penalty.nonnegative
        return [False] * count if flags is None else flags.tolist()


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
    if X.size > entries:  # of sparse ones those that are stored
        return _Rounded(X)
    return _Sparse(X) if is_sparse(X) else _Dense(X)


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
        self.X = X

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
    # γ is below twice count · unit, and the sizes are at least half of what they should be
    slope = 4.0 * count * _UNIT
    radii = slope * sizes + 4.0 * count * _TINIEST
    return [arb(value, radius) for value, radius in zip(values.tolist(), radii.tolist(), strict=True)]
