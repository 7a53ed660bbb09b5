"""The minimum of a quadratic plus l1, from the matrix of second derivatives.

Sweeps find which weights are 0. A linear system for the others ends what would creep where columns are nearly equal.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dposv  # pyright: ignore[reportAttributeAccessIssue]  # made by f2py

from convexrank.backend.interruption import check_time
from convexrank.backend.numba_cache import compiled, part, read_only_array, types
from convexrank.regularizers.norms import longer

Array = np.ndarray

# The most sweeps over the columns in use between two sweeps over all.
ROUND = 4
# Collinear columns have no curvature between them: the least of these shares that makes a system solvable is added.
_RIDGES = (1e-13, 1e-11, 1e-9, 1e-7, 1e-5)
# Turns of sweeps and of a linear system for the weights in use.
_TURNS = 100
# Lengths are tried from the whole way down to the share that keeps all signs: they shrink by this power of it.
_TRIALS = 0.25
# Below this share of itself a weight on its way to 0 is there.
_PASSED = 1e-12

_numbers = read_only_array(types.float64)


@part
def minimiser_of_one(slope: float, curvature: float, old: float, l1: float, lowest: float) -> float:
    """Minimise a quadratic in one weight plus l1·|weight|, the weight at least lowest."""
    free, threshold = old - slope / curvature, l1 / curvature
    new = free - threshold if free > threshold else (free + threshold if free < -threshold else 0.0)
    return max(new, lowest)


@compiled(
    types.int64(
        *(types.Array(types.float64, 2, "C", readonly=True), _numbers, _numbers, _numbers),
        *(types.float64, types.int64, types.float64, types.float64[::1], types.float64[::1]),
    )
)
def _descend_dense(
    bends: Array,
    slopes: Array,
    point: Array,
    lowest: Array,
    l1: float,
    sweeps: int,
    enough: float,
    step: Array,
    bent: Array,
) -> int:
    """Minimise by sweeps over the weights, from a step; ``bent`` is the product of the matrix with it."""
    whole, rounds = True, 0
    for sweep in range(sweeps):
        largest, skipped = 0.0, False
        for k in range(len(point)):
            old = point[k] + step[k]
            if not whole and old == 0.0:
                skipped = True
                continue
            new = minimiser_of_one(slopes[k] + bent[k], bends[k, k], old, l1, lowest[k])
            change = new - old
            if change != 0.0:
                step[k] = new - point[k]
                for t in range(len(point)):
                    bent[t] += change * bends[k, t]
                largest = max(largest, abs(change) * bends[k, k])
        settled, rounds = largest <= enough, 0 if whole else rounds + 1
        if settled and (whole or not skipped):
            return sweep + 1
        whole = settled or rounds == ROUND
    return sweeps


@np.errstate(over="ignore", invalid="ignore")  # columns that are nearly collinear, or flat, lead far away
def minimum_with_l1(
    bends: Array,
    slopes: Array,
    point: Array,
    lowest: Array,
    l1: float,
    sweeps: int,
    enough: float,
    worth: float,
) -> Array:
    """Return the step to the minimum of a quadratic plus l1.

    Parameters
    ----------
    bends : ndarray, shape (k, k)
        Second derivatives, on the diagonal above 0.
    slopes, point, lowest : ndarray, shape (k,)
        The gradient of the quadratic at the point, the point, and the least value of each weight.
    l1 : float
        The strength of the penalty.
    sweeps : int
        The most sweeps over the weights between two linear systems.
    enough : float
        Sweeps end where no slope is changed by more.
    worth : float
        The share of what the step promises by which a turn is to add to it; else it is the last one.
    """
    step, bent, promised = np.zeros(len(point)), np.zeros(len(point)), 0.0
    for turn in range(_TURNS):
        check_time()
        used = _descend_dense(bends, slopes, point, lowest, l1, sweeps, enough, step, bent)
        # sweeps stop where each slope is small, and creep where curvature is, as on columns that are nearly equal
        if turn and used == 1:
            break
        _to_the_minimum_of_the_face(bends, slopes, point, l1, step, bent)
        before, promised = promised, _promise(slopes, point, l1, step, bent)
        if not before - promised > worth * -promised:  # a number that is none ends it, too
            break
    return step


def _to_the_minimum_of_the_face(
    bends: Array, slopes: Array, point: Array, l1: float, step: Array, bent: Array
) -> None:
    """Move the weights in use towards the minimum of the model among weights of the same signs; others become 0."""
    there = point + step
    (used,) = np.nonzero(there)
    if not len(used):
        return
    block, rest = bends[np.ix_(used, used)], (slopes + bent)[used] + l1 * np.sign(there[used])
    diagonal, way = block.diagonal().copy(), np.zeros(len(used))
    for ridge in _RIDGES:
        block.flat[:: len(used) + 1] = (1.0 + ridge) * diagonal
        _, solved, info = dposv(block, rest)
        if info == 0 and np.isfinite(solved).all():
            way = -solved
            break
    # weights that would pass 0 stop there, many at a time; up to the first of them the model falls in any case
    here, signs = there[used], np.sign(there[used])
    towards = signs * way < 0.0
    first = float((-here[towards] / way[towards]).min(initial=1.0))
    now, shorter = _promise(slopes, point, l1, step, bent), min(0.5, first**_TRIALS)
    length = 1.0 / shorter
    while length > first:
        length = max(shorter * length, first)
        moved = here + length * way
        moved[towards & (signs * moved <= _PASSED * np.abs(here))] = 0.0
        found = step.copy()
        found[used] = moved - point[used]
        curved = bends @ found
        better = _promise(slopes, point, l1, found, curved) <= now
        if better:
            step[:], bent[:] = found, curved
            return


def _promise(slopes: Array, point: Array, l1: float, step: Array, bent: Array) -> float:
    """Return what a model says a step adds to the objective."""
    return float((slopes + 0.5 * bent) @ step) + l1 * float(longer(point, step).sum())
