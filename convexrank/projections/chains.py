"""Projections on chains, and the arguments of projections.

Many chains in flat arrays: which rows make a chain, and the compiled loops with what they need around them.

Arrays are flat and the rows of a chain may lie anywhere. A `Layout` says where; inside the compiled loops a chain is
contiguous.

Checks of bounds on increments, for the host and for JAX.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.data import read_array, shown

Array = np.ndarray

# Chains are sorted as the rows of a matrix while padding costs no more than this factor.
PADDING = 4
# Rows and blocks are numbered in 32 bits.
MOST_ROWS = 2**31


@dataclass(frozen=True)
class Layout:
    """Chain g consists of ``rows[offsets[g]:offsets[g + 1]]``, in that order; ``rows`` is None for 0, 1, 2, …."""

    offsets: Array
    rows: Array | None = None

    @staticmethod
    def of(groups: Array | None, n: int, batch: int = 1) -> Layout:
        """Lay out ``batch`` times n rows, one chain for each group; ``groups`` is flat and of that length, or None."""
        if batch * n >= MOST_ROWS:
            raise ValueError(
                f"{batch * n} rows, expected fewer than {MOST_ROWS} in one call; project group by group."
            )
        if groups is None:
            return Layout(np.arange(batch + 1, dtype=np.int64) * n)
        codes, rows = groups, None
        if batch > 1:
            # groups of different members of the batch are different groups
            codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
            codes = codes + np.repeat(np.arange(batch, dtype=np.int64), n) * (codes.max() + 1)
        if (codes[1:] < codes[:-1]).any():
            rows = _stable_order(codes)
            codes = codes[rows]
        ends = np.flatnonzero(codes[1:] != codes[:-1]) + 1
        return Layout(np.concatenate(([0], ends, [len(codes)])).astype(np.int64), rows)

    def gather(self, values: Array) -> Array:
        """Return the values of the rows, chain after chain."""
        return values if self.rows is None else values[self.rows]

    def scatter(self, values: Array) -> Array:
        """Undo `gather`."""
        if self.rows is None:
            return values
        out = np.empty_like(values)
        out[self.rows] = values
        return out

    def sorted_by(self, keys: Array) -> Layout:
        """The same chains, each in ascending order of its keys."""
        keys = self.gather(keys)
        lengths = np.diff(self.offsets)
        if len(lengths) == 1:
            within = np.argsort(keys)
        elif len(lengths) * lengths.max() <= PADDING * len(keys):
            mask = np.arange(lengths.max()) < lengths[:, None]
            padded = np.full(mask.shape, np.inf)
            padded[mask] = keys
            within = (self.offsets[:-1, None] + np.argsort(padded, axis=1))[mask]
        else:
            within = np.lexsort((keys, np.repeat(np.arange(len(lengths)), lengths)))
        return Layout(self.offsets, within if self.rows is None else self.rows[within])


def _stable_order(codes: Array) -> Array:
    """Sort group ids; numpy sorts 16-bit integers several times faster than others."""
    if codes.dtype.kind in "iu" and int(codes.max()) - int(codes.min()) < 2**16:
        codes = (codes - codes.min()).astype(np.uint16)
    return np.argsort(codes, kind="stable")


def _plain(values: Array) -> Array:
    """Convert to what the loops were compiled for: float64, contiguous, aligned."""
    values = np.ascontiguousarray(values, dtype=np.float64)
    return values if values.flags.aligned else values.copy()


def pool_chains(z: Array, w: Array, offsets: Array) -> tuple[Array, Array]:
    """Isotonic regression of contiguous chains: the fit, and a number for the block of each entry."""
    from convexrank.projections.compiled_increments import pool

    fitted, block = np.empty(len(z)), np.empty(len(z), np.int32)
    pool(_plain(z), _plain(w), offsets, fitted, block)
    return fitted, block


def solve_isotonic(z: Array, w: Array | None, order: Array | None, layout: Layout) -> tuple[Array, Array]:
    """Isotonic regression along ``order``; rows of a chain with equal keys get equal values. Fit, block of each row."""
    ones = np.ones(1)
    if order is None:
        w = ones if w is None else layout.gather(w)
        fitted, block = pool_chains(layout.gather(z), w, layout.offsets)
        return layout.scatter(fitted), layout.scatter(block)
    layout = layout.sorted_by(order)
    keys, z, w = layout.gather(order), layout.gather(z), None if w is None else layout.gather(w)
    fresh = np.ones(len(keys), bool)
    fresh[1:] = keys[1:] != keys[:-1]
    fresh[layout.offsets[:-1]] = True
    if fresh.all():
        fitted, block = pool_chains(z, ones if w is None else w, layout.offsets)
    else:
        starts = np.flatnonzero(fresh)
        sizes = np.diff(starts, append=len(keys))
        masses = sizes.astype(float) if w is None else np.add.reduceat(w, starts)
        # relative to the first of the tied values, so that equal values have exactly that mean
        first = z[starts]
        excess = z - np.repeat(first, sizes)
        means = first + np.add.reduceat(excess if w is None else w * excess, starts) / masses
        fitted, block = pool_chains(means, masses, np.searchsorted(starts, layout.offsets))
        fitted, block = np.repeat(fitted, sizes), np.repeat(starts[block], sizes)
    return layout.scatter(fitted), layout.scatter(block)


def solve_permutahedron(z: Array, y: Array, layout: Layout) -> tuple[Array, Array, Array]:
    """Projection on the permutahedra: the points, the block of each row, and the row of y that it is matched with."""
    by_z, by_y = layout.sorted_by(z), layout.sorted_by(y)
    rising, values = by_z.gather(z), by_y.gather(y)
    _, block = pool_chains(rising - values, np.ones(1), layout.offsets)
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    sizes = np.diff(starts, append=len(z))
    # a large z leaves only its differences: y itself is never added to it
    centred = rising - np.repeat(rising[starts], sizes)
    level = (np.add.reduceat(values, starts) - np.add.reduceat(centred, starts)) / sizes
    points = np.where(np.repeat(sizes, sizes) == 1, values, centred + np.repeat(level, sizes))
    rows = np.arange(len(z)) if by_y.rows is None else by_y.rows
    return by_z.scatter(points), by_z.scatter(block), by_z.scatter(rows)


def solve_increments(
    z: Array, w: Array, low: Array, high: Array, offsets: Array, bounds: Array
) -> tuple[Array, Array, Array, int]:
    """Bounded-increment regression of contiguous chains.

    ``w``, ``low``, ``high``: one value for all, or one for each entry (of a step: the entry before it). ``bounds``, two
    columns: one row for all, or one for each chain. Returns the solution, how each entry is tied to the next (−1 by its
    lower, 1 by its upper bound, 0 not), what holds each block (at one of its entries −1 the lower bound, 1 the upper; 0
    elsewhere) and the first entry after which the bounds leave nothing (−1: none; such a chain becomes NaN).
    """
    from convexrank.projections import compiled_pieces
    from convexrank.projections.compiled_increments import solver

    n, longest = len(z), int(np.diff(offsets).max())
    s, side, pin = np.empty(n), np.zeros(n, np.int8), np.zeros(n, np.int8)
    size = longest // 8 + 2 * compiled_pieces.SPARE
    arrays = [_plain(values) for values in (z, w, low, high)]
    while True:
        # numpy asks for large pages where the system has them; numba's own allocation does not
        scratch = (
            np.empty(2 * compiled_pieces.ROOM + size * compiled_pieces.CHUNK, compiled_pieces.PIECE),
            np.empty(size // 2 * compiled_pieces.FAN, compiled_pieces.ENTRY),
            np.empty(size, np.int32),
            np.empty(size // 2, np.int32),
            np.empty((longest + 1 if len(w) > 1 else 1, 2)),
            np.empty(compiled_pieces.STATE, np.int64),
        )
        bad = solver()(*scratch, *arrays, offsets, _plain(bounds), s, side, pin)
        if bad != -2:
            return s, side, pin, int(bad)
        size *= 2


def check_steps(steps: Any, n: int, name: str) -> Array:
    """Return bounds of the increments as an array of one value (for all) or n − 1 values."""
    array = read_array(steps, name)
    if array.dtype.kind not in "iuf":
        raise TypeError(
            f"{name} is {shown(steps)}, expected a number or {n - 1} numbers; None is no bound here, ±inf is."
        )
    with np.errstate(over="ignore"):  # what does not fit is infinite: no bound
        array = array.astype(np.float64)
    if array.ndim > 1 or (array.ndim == 1 and len(array) != n - 1):
        raise ValueError(
            f"{name} has shape {array.shape}, expected a number or shape ({n - 1},): one bound for each step between "
            f"{n} rows."
        )
    array = np.atleast_1d(array)
    if np.isnan(array).any():
        place = f"[{int(np.argmax(np.isnan(array)))}]" if len(array) > 1 else ""
        raise ValueError(f"{name}{place} is NaN; pass -inf or inf where a step has no bound.")
    return array


def refuse_overflow(fitted: Array, **given: Array) -> Array:
    """Return a fit, or refuse values whose sums leave the range of floats."""
    if not np.isfinite(fitted).all():
        finite = {name: np.abs(values[np.isfinite(values)]) for name, values in given.items()}
        sizes = " and ".join(
            f"{name} has entries up to {sizes.max():g}" for name, sizes in finite.items() if sizes.size
        )
        raise ValueError(
            f"{sizes}, and sums of them are beyond floats, expected smaller ones; divide all numbers by a common "
            "factor."
        )
    return fitted


def spread(steps: Array, n: int) -> Array:
    """One bound for each row: for the step that starts there; the last row starts none."""
    return np.append(steps, 0.0) if len(steps) == n - 1 else np.full(n, steps[0] if len(steps) else 0.0)


def check_order(lower: Array, upper: Array, layout: Layout, n: int) -> None:
    """Refuse a step that no increment satisfies, naming the first."""
    with np.errstate(invalid="ignore"):
        empty = ~(lower <= upper) | (lower == np.inf) | (upper == -np.inf)
    if not empty.any() or n == 1:
        return
    starts = np.ones(n, bool)
    lasts = layout.offsets[1:] - 1
    starts[lasts if layout.rows is None else layout.rows[lasts]] = False
    places = np.flatnonzero(np.broadcast_to(empty, n - 1) & starts[:-1])
    if len(places):
        i = int(places[0])
        low, high = (float(steps[i if len(steps) > 1 else 0]) for steps in (lower, upper))
        raise ValueError(
            f"infeasible: lower[{i}] = {low:g} and upper[{i}] = {high:g} leave no increment after row {i}; pass "
            "lower <= upper, below inf and above -inf."
        )


def refuse_infeasible(
    bad: int, lower: Array, upper: Array, layout: Layout, interval: tuple[float, float]
) -> None:
    """Raise at the step where bounds of entries and of increments contradict each other."""
    i, following = (bad, bad + 1) if layout.rows is None else (int(layout.rows[k]) for k in (bad, bad + 1))
    low, high = (float(steps[i if len(steps) > 1 else 0]) for steps in (lower, upper))
    raise ValueError(
        f"infeasible: no values within bounds = ({interval[0]:g}, {interval[1]:g}) satisfy the increments up to the "
        f"step from row {i} to row {following}, where lower is {low:g} and upper is {high:g}; widen bounds or steps."
    )
