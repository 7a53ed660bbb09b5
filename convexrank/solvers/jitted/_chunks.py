"""Runner of the compiled loops: chunks of iterations on a device, and the host's loop between them.

After a chunk the host sees point, value and gradient as the device found them, which costs nothing but d numbers. Only
when these say that the tolerance is met does the loop ask the certificate, which evaluates all again with the
reference code. Limits, callbacks, progress and Ctrl-C are looked at between chunks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from convexrank.backend.compilation import SMALL, jit
from convexrank.backend.interruption import check_time, rounds_in_time, time_left
from convexrank.core.capabilities import Proximal, Smooth
from convexrank.core.loop import State
from convexrank.solvers.jitted.devices import check_room, computing_on, find_device, shared
from convexrank.solvers.row_faces import Compiled

Array = np.ndarray

# Chunks without progress after which no more is to be had at this precision.
_PATIENCE = 8
# Seconds that a chunk may take, so that Ctrl-C is answered.
_LONGEST = 2.0
SINGLE = (
    "data and products on the device are float32, and rounding leaves this gap; dtype='float64' goes further"
)


@dataclass(frozen=True)
class Loop:
    """A compiled loop with its data on a device.

    Parameters
    ----------
    device : jax.Device
        Where it runs.
    advance : callable
        From a state of the device and a number of iterations to the next state, a tuple with fields ``x``, ``value``,
        ``gradient`` and ``stalled``.
    judge : callable
        The host's objective and gradient of the smooth part at a point, as the device found them, or again.
    dtype : str
        Floating type of the data.
    """

    device: Any
    advance: Callable[[Any, int], Any] = field(repr=False)
    judge: Callable[[Any], tuple[Array, float, Array]] = field(repr=False)
    dtype: str = "float64"


@dataclass(frozen=True)
class _Memory:
    loop: Loop
    inner: Any
    lowest: float = math.inf  # residual and value so far, which do not fall monotonically
    least: float = math.inf
    idle: int = 0
    pace: float = math.inf  # seconds of an iteration


def first_state(problem: Smooth | Proximal, loop: Loop, inner: Any) -> State:
    """Return the state of the host's loop at the start; the program of the chunks is compiled here, and not timed."""
    return _state(problem, _Memory(loop, loop.advance(inner, 0)))


def next_state(problem: Smooth | Proximal, state: State, chunk: int) -> State:
    """Run a chunk on the device, fewer iterations near a time limit and where they take long."""
    memory: _Memory = state.memory
    with computing_on(memory.loop.device):
        inner, pace = run_chunk(memory.loop.advance, memory.inner, chunk, memory.pace)
        return _state(problem, replace(memory, inner=inner, pace=pace))


def run_chunk(advance: Callable[[Any, int], Any], inner: Any, chunk: int, pace: float) -> tuple[Any, float]:
    """Run a chunk of a compiled program; the first one begins with an iteration that tells how long they take.

    Parameters
    ----------
    advance : callable
        From a state with a field ``x`` and a number of iterations to the next state.
    inner : tuple
        The state.
    chunk : int
        The number of iterations, fewer where they take long or a deadline is near.
    pace : float
        Seconds of an iteration so far; infinity if none was timed.

    Returns
    -------
    tuple
        The next state, and the seconds of an iteration.
    """
    import jax

    if jax.process_count() > 1:  # clocks differ, and processes that share a mesh take the same iterations
        return advance(inner, chunk), pace
    for most in (chunk,) if math.isfinite(pace) else (1, chunk - 1):
        if most and time_left() > 0.0:
            count, start = rounds_in_time(most, pace), time.perf_counter()
            count = max(1, min(count, int(_LONGEST / max(pace, 1e-9))))
            inner = advance(inner, count)
            inner.x.block_until_ready()
            pace = (time.perf_counter() - start) / count
    return inner, pace


def _state(problem: Smooth | Proximal, memory: _Memory) -> State:
    point, value, gradient = memory.loop.judge(memory.inner)
    residual = problem.gap_estimate(point, value, gradient)
    better = residual < memory.lowest or value < memory.least
    idle = 0 if better else memory.idle + 1
    lowest, least = min(residual, memory.lowest), min(value, memory.least)
    memory = replace(memory, lowest=lowest, least=least, idle=idle)
    stalled = bool(memory.inner.stalled) or idle >= _PATIENCE
    note = SINGLE if stalled and memory.loop.dtype == "float32" else ""
    return State(point, value, residual, memory, stalled=stalled, note=note)


def judge_of(
    dtype: str, both: Callable[[Array], tuple[float, Array]], rest: Callable[[Array], float]
) -> Callable[[Any], tuple[Array, float, Array]]:
    """Return a judge that adds the part that is not smooth to value and gradient of the device.

    Of data in single precision the device's value has too few digits, and the host evaluates again.
    """

    def judge(inner: Any) -> tuple[Array, float, Array]:
        point = np.asarray(inner.x, dtype=np.float64)
        found = (float(inner.value), np.asarray(inner.gradient, dtype=np.float64))
        value, gradient = found if dtype == "float64" else both(point)
        return point, value + rest(point), gradient

    return judge


def place(
    device: Any, make: Callable[[], Any], x0: Array, dtype: str, needed: int, mesh: Any = None
) -> tuple[Any, Any]:
    """Put data and start on a device, inside its context: the pytree that ``make`` returns, and the point.

    With a mesh, of which the device is one, all its devices share the rows.

    Raises
    ------
    DeviceMemoryError
        When the device has no room for so many bytes.
    """
    import jax

    if mesh is not None:
        check_room(device, -(-needed // mesh.size))
        both = shared(mesh, make, np.asarray(x0, dtype=dtype))
        check_time()
        return both
    check_room(device, needed)
    made = make()
    check_room(device, bytes_to_move(made))
    made = jax.device_put(made, device)
    check_time()  # moving large data takes seconds, and so does compiling
    return made, jax.device_put(np.asarray(x0, dtype=dtype), device)


def bytes_to_move(made: Any) -> int:
    """Return how many bytes of a pytree are on the host yet."""
    import jax

    return sum(leaf.nbytes for leaf in jax.tree.leaves(made) if isinstance(leaf, np.ndarray))


def bytes_of(face: Compiled, columns: int) -> int:
    """Return how many bytes the rows of a problem take, dense and padded."""
    return face.rows * columns * (8 if face.dtype == "float64" else 4)


def chosen(device: Any, mesh: Any = None) -> Any:
    """Return the device that was asked for, one of the mesh, or JAX's default one where none was."""
    if mesh is not None:
        return mesh.local_devices[0]
    if device is not None:
        return find_device(device)
    from convexrank.backend.jax_oracles import with_x64

    with with_x64():
        import jax

        config: Any = jax.config
        default = config.jax_default_device
        return jax.devices()[0] if default is None else find_device(default)


def is_small(made: Any) -> bool:
    """Return whether all data are of few rows, so that programs are compiled with fewer optimisations."""
    import jax

    rows = [np.shape(leaf)[-1] for leaf in jax.tree.leaves(made) if np.ndim(leaf)]
    return 0 < max(rows, default=0) <= SMALL


@lru_cache(maxsize=128)
def compiled(function: Callable[..., Any], small: bool) -> Callable[..., Any]:
    """Return the program of a pure function of pytrees: one for each structure and shape class."""
    return jit(function, small)
