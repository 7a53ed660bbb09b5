"""Many problems of one shape in one compiled program: the loops under ``vmap``, with shared data shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from convexrank.backend.compilation import jit
from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Shape, Solvable
from convexrank.core.loop import scale_of
from convexrank.solvers.jitted._chunks import bytes_of, bytes_to_move, is_small, run_chunk
from convexrank.solvers.jitted.accelerated import JaxAccelerated
from convexrank.solvers.jitted.devices import check_room, computing_on, find_device
from convexrank.solvers.jitted.newton import JaxNewton
from convexrank.solvers.row_faces import Compiled

Array = np.ndarray

# Bytes that the scores of all problems of a block, and their changes along all weights, may take.
_BLOCK = 1 << 28
# Chunks at most, and chunks without a lower estimate after which a problem is left to the host.
_CHUNKS, _PATIENCE = 200, 6
# How far below the tolerance the estimate has to be: the certificate adds rounding.
_BELOW = 0.5


def points_on_device(device: Any) -> Callable[..., Array]:
    """Return the function that solves problems together on a device.

    Parameters
    ----------
    device : str or jax.Device
        The device.

    Returns
    -------
    callable
        From problems, one point and a tolerance to points, one per row. Problems whose trees or shape classes differ
        are solved in several programs.

    Raises
    ------
    ValueError
        When JAX has no such device, or a problem is one that no compiled loop fits.
    DeviceMemoryError
        When the data do not fit the device.
    """
    return partial(_points, find_device(device))


def _points(device: Any, problems: Sequence[Any], first: Array, tol: float) -> Array:
    import jax

    newton = all("JaxCurved" in each.capabilities for each in problems)
    if not newton and not all("JaxProximal" in each.capabilities for each in problems):
        raise ValueError(
            f"{type(problems[0]).__name__} with these arguments has no compiled loop (JaxCurved or JaxProximal); leave "
            "device out."
        )
    found = np.full((len(problems), len(first)), np.nan)
    with computing_on(device):
        check_room(device, bytes_of(problems[0].face(Compiled), problems[0].dimension))
        flat = [jax.tree.flatten(_trees(each, newton)) for each in problems]
        kinds: dict[Any, list[int]] = {}
        for place, (leaves, tree) in enumerate(flat):
            shapes = tuple((np.shape(leaf), np.result_type(leaf)) for leaf in leaves)
            kinds.setdefault((tree, shapes), []).append(place)
        for (tree, _), places in kinds.items():
            for part in _blocks(places, problems[0], newton):
                some = [problems[place] for place in part]
                leaves = [flat[place][0] for place in part]
                found[part] = _solved(device, tree, leaves, newton, some, first, tol)
    return found


def _trees(problem: Solvable, newton: bool) -> Any:
    """The functions of a problem as pytrees; everything that may differ between problems is a leaf."""
    face = problem.face(Compiled)
    if newton:
        return face.objective(), np.asarray(problem.face(Shape).column_scales, dtype=face.dtype)
    return face.smooth(), face.prox()


def _blocks(places: list[int], problem: Solvable, newton: bool) -> list[list[int]]:
    """Cut the problems into blocks whose work fits; what Newton's method holds grows with the columns."""
    each = 8 * problem.face(Compiled).rows * (problem.dimension if newton else 4)
    size = max(1, _BLOCK // max(each, 1))
    return [places[start : start + size] for start in range(0, len(places), size)]


def _solved(
    device: Any,
    tree: Any,
    leaves: list[list[Any]],
    newton: bool,
    problems: list[Any],
    first: Array,
    tol: float,
) -> Array:
    """Run chunks of problems of one structure until every estimate meets the tolerance or falls no more."""
    import jax

    columns = [list(column) for column in zip(*leaves, strict=True)]
    axes = tuple(None if _same(column) else 0 for column in columns)
    shared = [
        column[0] if axis is None else np.stack(column) for column, axis in zip(columns, axes, strict=True)
    ]
    check_room(device, bytes_to_move(shared))
    data = [jax.device_put(leaf, device) for leaf in shared]
    built = problems[0].dimension <= JaxNewton.columns
    begin, program = _programs(tree, axes, newton, built, is_small(leaves[0]))
    advance, chunk = partial(program, data), JaxNewton.chunk if newton else JaxAccelerated.chunk
    start = np.tile(np.asarray(first, dtype=problems[0].face(Compiled).dtype), (len(problems), 1))
    state = advance(begin(data, start), 0)  # compiled here, and not timed
    best, lowest, idle, pace = start, np.full(len(start), np.inf), 0, np.inf
    for _ in range(_CHUNKS):
        check_time()
        point, value, gradient = (
            np.asarray(each, dtype=np.float64) for each in (state.x, state.value, state.gradient)
        )
        values = [
            float(each_value) + each.nonsmooth_value(x)
            for each, x, each_value in zip(problems, point, value, strict=True)
        ]
        rest = zip(problems, point, values, gradient, strict=True)
        residual = np.array([each.gap_estimate(x, value, slope) for each, x, value, slope in rest])
        enough = _BELOW * tol * np.array([scale_of(value) for value in values])
        best = np.where((residual < lowest)[:, None], point, best)
        idle = 0 if (residual < lowest)[~(residual <= enough)].any() else idle + 1
        lowest = np.minimum(residual, lowest)
        if (lowest <= enough).all() or idle >= _PATIENCE:
            break
        state, pace = run_chunk(advance, state, chunk, pace)
    return best


def _same(column: list[Any]) -> bool:
    """Return whether a leaf is the same for all problems."""
    first = column[0]
    if all(leaf is first for leaf in column):
        return True
    return all(np.array_equal(np.asarray(leaf), np.asarray(first)) for leaf in column[1:])


@lru_cache(maxsize=64)
def _programs(
    tree: Any, axes: tuple[int | None, ...], newton: bool, built: bool, small: bool
) -> tuple[Any, Any]:
    """The start and the chunk for a batch: one program for each structure, shape class and set of what is shared."""
    import jax

    from convexrank.solvers.jitted.programs import accelerated
    from convexrank.solvers.jitted.programs import newton as second

    if newton:
        start: Callable[..., Any] = second.start
        step: Callable[..., Any] = second.advance if built else second.advance_truncated
    else:
        factors = accelerated.Factors(JaxAccelerated.growth, JaxAccelerated.shrinkage)
        start, step = accelerated.start, partial(accelerated.advance, factors)

    def begin(leaves: Any, x: Any) -> Any:
        function, other = jax.tree.unflatten(tree, leaves)
        return start(function, x) if newton else start(function, other, x)

    def advance(leaves: Any, state: Any, count: Any) -> Any:
        function, other = jax.tree.unflatten(tree, leaves)
        return step(function, other, state, count)

    ways = list(axes)
    return (
        jit(jax.vmap(begin, in_axes=(ways, 0)), small),
        jit(jax.vmap(advance, in_axes=(ways, 0, None)), small),
    )
