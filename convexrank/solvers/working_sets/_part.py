"""The problem over one working set: Newton models of it, coordinate descent on them, compiled, and the search."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse

from convexrank.backend.interruption import check_time
from convexrank.backend.numba_cache import compiled, read_only_array, types
from convexrank.core.score_model import Curvature, ScoreModel
from convexrank.regularizers import Penalty
from convexrank.regularizers.norms import longer
from convexrank.solvers.quadratics import ROUND, minimiser_of_one, minimum_with_l1
from convexrank.solvers.row_faces import Columnwise

Array = np.ndarray

# Entries of a dense copy of the columns, and of the matrix of products, that may be made.
_MOST_DENSE, _MOST_PRODUCTS = 50_000_000, 10_000_000
# Costs in units of one entry of a column in one sweep: of one row in the product of two columns from a dense copy, and
# of two entries that meet in a row; of a product in all sweeps; and what an entry costs in the sweeps that are saved.
_DENSE = (0.04, 100.0, 40.0)
_SPARSE = (1.0, 200.0, 20.0)
# Columns that share many rows take ten times the sweeps, and few models where each is solved precisely.
_OVERLAP, _OVERLAPPING = 0.1, 10.0
# With the products sweeps cost little: there may be more of them, and the minimum is found more precisely, by turns
# with a linear system. They end where one adds less than a share to what the model promises: it holds no better.
_CHEAPER, _TIGHTER, _WORTH_A_TURN = 2, 0.01, 0.2

# So many terms of a risk are few.
_FEW_TERMS = 8

_numbers, _starts = read_only_array(types.float64), read_only_array(types.int64)
_places = read_only_array(types.int32)


@compiled(
    types.int64(
        *(_starts, _places, _numbers, _numbers),
        *(_starts, _places, _numbers, _numbers),
        *(_numbers, _numbers, _numbers, _numbers),
        *(types.float64, types.float64, types.int64, types.float64),
        *(types.float64[::1], types.float64[::1], types.float64[::1]),
    )
)
def _descend(
    starts: Array,
    rows: Array,
    entries: Array,
    scaled: Array,
    group_starts: Array,
    groups: Array,
    sums: Array,
    rates: Array,
    slopes: Array,
    curvatures: Array,
    point: Array,
    lowest: Array,
    l1: float,
    l2: float,
    sweeps: int,
    enough: float,
    step: Array,
    pulled: Array,
    means: Array,
) -> int:
    """Minimise the model from step = 0; ``pulled`` is its change of the scores, scaled, and ``means`` Sᵀ times that."""
    whole, rounds = True, 0
    for sweep in range(sweeps):
        largest, skipped = 0.0, False
        for k in range(len(point)):
            old = point[k] + step[k]
            if not whole and old == 0.0:
                skipped = True
                continue
            slope = slopes[k] + l2 * step[k]
            for t in range(starts[k], starts[k + 1]):
                slope += entries[t] * pulled[rows[t]]
            for t in range(group_starts[k], group_starts[k + 1]):
                slope -= rates[groups[t]] * sums[t] * means[groups[t]]
            new = minimiser_of_one(slope, curvatures[k], old, l1, lowest[k])
            change = new - old
            if change != 0.0:
                step[k] = new - point[k]
                for t in range(starts[k], starts[k + 1]):
                    pulled[rows[t]] += change * scaled[t]
                for t in range(group_starts[k], group_starts[k + 1]):
                    means[groups[t]] += change * sums[t]
                largest = max(largest, abs(change) * curvatures[k])
        settled, rounds = largest <= enough, 0 if whole else rounds + 1
        if settled and (whole or not skipped):
            return sweep + 1
        whole = settled or rounds == ROUND
    return sweeps


class ColumnModel:
    """Quadratic models of the objective over some columns.

    Where products of all pairs of columns cost less than sweeps over their entries, they are made; a sweep then costs
    the square of the number of columns.

    Parameters
    ----------
    columns : csc_array, shape (n, k)
        The columns.
    l2, l1 : float
        The strengths of the penalty.
    lowest : ndarray, shape (k,)
        The least value of each weight: minus infinity, or 0.
    products : callable, optional
        Gives the products of the columns with weights of the rows between, where that is cheap.
    """

    def __init__(
        self,
        columns: sparse.csc_array,
        l2: float,
        l1: float,
        lowest: Array,
        products: Callable[[Array], Array] | None = None,
    ) -> None:
        self.columns, self.l2, self.l1, self.lowest = columns, l2, l1, lowest
        self.transposed = columns.T
        self._products = products or _products_of(columns)

    def minimum(
        self, curvature: Curvature, slopes: Array, point: Array, sweeps: int, enough: float
    ) -> tuple[Array, Array]:
        """Return the step to the minimum of a model, and what it adds to the scores.

        Parameters
        ----------
        curvature : Curvature
            That of the risk in the scores.
        slopes : ndarray, shape (k,)
            The gradient of the smooth part in the weights of the columns.
        point : ndarray, shape (k,)
            Those weights.
        sweeps : int
            The limit of sweeps.
        enough : float
            Sweeps end when no slope of the model is changed by more.
        """
        # products of two sparse matrices take several times as long as those with a few dense columns
        few = len(curvature.rates) <= _FEW_TERMS
        grouped = self.transposed @ (curvature.shares.toarray() if few else curvature.shares)
        if self._products is None:
            step, grouped = np.zeros(len(point)), sparse.csr_array(grouped)
            return step, self._by_entries(curvature, grouped, slopes, point, sweeps, enough, step)
        bends, sums = self._products(curvature.diagonal), grouped if few else grouped.toarray()
        squares = bends.diagonal().copy()
        bends -= (sums * curvature.rates) @ sums.T
        bends.flat[:: len(point) + 1] = _positive(bends.diagonal(), squares) + self.l2
        limits = _CHEAPER * sweeps, _TIGHTER * enough, _WORTH_A_TURN
        step = minimum_with_l1(bends, slopes, point, self.lowest, self.l1, *limits)
        return step, np.asarray(self.columns @ step)

    def _by_entries(
        self,
        curvature: Curvature,
        grouped: sparse.csr_array,
        slopes: Array,
        point: Array,
        sweeps: int,
        enough: float,
        step: Array,
    ) -> Array:
        matrix = self.columns
        starts, rows = matrix.indptr.astype(np.int64), _int32(matrix.indices)
        scaled = curvature.diagonal[rows] * matrix.data
        squares = matrix.power(2).T @ curvature.diagonal
        bends = _positive(squares - grouped.power(2) @ curvature.rates, squares) + self.l2
        _descend(
            *(starts, rows, matrix.data, scaled),
            *(grouped.indptr.astype(np.int64), _int32(grouped.indices), grouped.data, curvature.rates),
            *(slopes, bends, point, self.lowest),
            *(self.l1, self.l2, sweeps, enough),
            *(step, np.zeros(len(curvature.diagonal)), np.zeros(len(curvature.rates))),
        )
        return np.asarray(matrix @ step)


def _products_of(columns: sparse.csc_array) -> Callable[[Array], Array] | None:
    """Return what makes all products of columns; None where sweeps over the entries cost less."""
    rows, count = map(int, columns.shape)  # type: ignore[arg-type]  # two-dimensional
    if count**2 > _MOST_PRODUCTS:
        return None
    entries = columns.nnz * (_OVERLAPPING if columns.nnz > _OVERLAP * rows * count else 1.0)
    in_rows = np.bincount(columns.indices, minlength=rows).astype(np.float64)
    dense = _costs(*_DENSE, rows * count**2, count, entries) if rows * count <= _MOST_DENSE else 1.0
    meeting = _costs(*_SPARSE, float(in_rows @ in_rows), count, entries)
    if min(dense, meeting) >= 0.0:
        return None
    if dense <= meeting:
        return partial(_dense_products, np.ascontiguousarray(columns.T.toarray()))
    return partial(_sparse_products, columns.tocsr())


def _costs(
    meeting: float, sweeping: float, saved: float, meetings: float, count: int, entries: float
) -> float:
    """Return the cost of products beyond the sweeps over entries that they save."""
    return meeting * meetings + sweeping * count**2 - saved * entries


def _dense_products(rows: Array, weights: Array) -> Array:
    """The products from a dense copy of the transpose."""
    scaled = rows * np.sqrt(weights)
    return scaled @ scaled.T


def _sparse_products(columns: sparse.csr_array, weights: Array) -> Array:
    """The products row by row: the entries of a row meet one another."""
    count = int(columns.shape[1])  # type: ignore[index]  # two-dimensional
    found = np.zeros((count, count))
    _add_meetings(_int32(columns.indptr), _int32(columns.indices), columns.data, weights, found)
    found += np.tril(found, -1).T
    return found


@compiled(types.void(_places, _places, _numbers, _numbers, types.float64[:, ::1]))
def _add_meetings(starts: Array, numbers: Array, entries: Array, weights: Array, found: Array) -> None:
    """Add the products of the entries of each row, times its weight, to the lower triangle."""
    for row in range(len(weights)):
        for a in range(starts[row], starts[row + 1]):
            share, first = weights[row] * entries[a], numbers[a]
            for b in range(starts[row], a + 1):
                # rows of a matrix made from columns have their numbers in order
                found[first, numbers[b]] += share * entries[b]


def _positive(bends: Array, squares: Array) -> Array:
    """Second derivatives, at least their rounding: a column without curvature takes a long step, no infinite one."""
    return np.maximum(bends, squares * 1e-12 + np.finfo(float).tiny)


def _int32(places: Array) -> Array:
    return places.astype(np.int32, copy=False)


# Below this share of the objective a decrease cannot be told from rounding: violations decide then.
_ROUNDING = 1e-13


def penalty_at(penalty: Penalty, w: Array) -> float:
    """Evaluate both norms, at weights within the constraints."""
    return 0.5 * penalty.l2 * float(w @ w) + penalty.l1 * float(np.abs(w).sum())


def violations_of(w: Array, slopes: Array, l1: float, nonnegative: Array | None) -> Array:
    """Return the distance of each slope from what optimality asks."""
    steep = np.abs(slopes) if nonnegative is None else np.where(nonnegative, -slopes, np.abs(slopes))
    return np.where(w != 0.0, np.abs(slopes + l1 * np.sign(w)), np.maximum(steep - l1, 0.0))


@dataclass(frozen=True)
class Point:
    """Weights of the working set, the scores of all weights, the risk there, and the objective."""

    w: Array
    scores: Array
    model: ScoreModel
    value: float


@dataclass(frozen=True)
class Part:
    """The problem over one working set, the other weights as they are."""

    problem: Columnwise
    penalty: Penalty
    nonnegative: Array | None
    model: ColumnModel

    @classmethod
    def of(cls, problem: Columnwise, penalty: Penalty, places: Array) -> Part:
        """Take the columns at these places."""
        nonnegative = None if penalty.nonnegative is None else penalty.nonnegative[places]
        lowest = np.full(len(places), -math.inf)
        lowest[slice(0) if nonnegative is None else nonnegative] = 0.0
        model = ColumnModel(
            problem.columns.at(places), penalty.l2, penalty.l1, lowest, problem.columns.products(places)
        )
        return cls(problem, penalty, nonnegative, model)

    def slopes(self, point: Point) -> Array:
        """Return the gradient of the smooth part in the weights."""
        return self.model.transposed @ point.model.gradient + self.penalty.l2 * point.w

    def violation(self, point: Point, slopes: Array) -> float:
        """Return the largest violation of optimality."""
        return float(violations_of(point.w, slopes, self.penalty.l1, self.nonnegative).max(initial=0.0))

    def search(
        self, point: Point, step: tuple[Array, Array], slopes: Array, violation: float
    ) -> Point | None:
        """Halve the step until the objective falls by a share of what the model promised; None where it never does.

        Where the promise is below the rounding of the objective, the violations have to fall, or the change that the
        slopes at both ends give: its rounding is that of slopes times the step.
        """
        (delta, change), penalty = step, self.penalty
        added = float(longer(point.w, delta).sum())
        promised = float(slopes @ delta) + penalty.l1 * added
        hidden = -promised <= _ROUNDING * max(1.0, abs(point.value))
        noise = np.finfo(float).eps * float((np.abs(slopes) + penalty.l1) @ np.abs(delta))
        rest = point.value - point.model.value - penalty_at(penalty, point.w)
        length = 1.0
        while length > (0.1 if hidden else 1e-9):
            check_time()
            w, scores = point.w + length * delta, point.scores + length * change
            model = self.problem.model(scores)
            found = Point(w, scores, model, model.value + rest + penalty_at(penalty, w))
            if hidden:
                ahead = self.slopes(found)
                fall = 0.5 * length * float((slopes + ahead) @ delta)
                fall += penalty.l1 * float(longer(point.w, length * delta).sum())
                if fall <= 0.1 * length * promised < -noise or self.violation(found, ahead) < 0.9 * violation:
                    return found
            elif found.value <= point.value + 1e-4 * length * promised:
                return found
            length *= 0.5
        return None


def followed(point: Point, found: Point, smoothness: float) -> float:
    """A multiple of the identity that has the curvature seen along the last step."""
    change = found.scores - point.scores
    square = float(change @ change)
    if found.model.curvature is not None or square == 0.0:
        return smoothness
    seen = float(change @ (found.model.gradient - point.model.gradient)) / square
    return min(max(seen, 0.1 * smoothness), 10.0 * smoothness)
