"""The JAX side of the oracles: functions of the scores, jitted once per shape class; and the state of JAX here.

The JAX side of the oracles: functions of the scores, jitted once per shape class.

A *risk* is a hashable function ``risk(data, *parts)`` of padded score vectors. Sizes are padded to few classes, so
that folds and random instances of similar size share one compilation. Everything runs in float64 whatever the
caller's JAX settings are, and those settings are left alone.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from convexrank.backend.compilation import SMALL, jit
from convexrank.backend.design import is_sparse, unpacked
from convexrank.backend.interruption import check_time, held

_OPEN = (None, "allow", "log")
# Processes that were forked from one in which JAX had started its threads, which do not come along.
_LOST: set[int] = set()


def _note_fork() -> None:
    """Remember in a child that JAX would wait for threads of its parent for ever."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    if getattr(bridge, "_backends", None) or _start.cache_info().currsize:
        _LOST.add(os.getpid())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


@lru_cache(maxsize=1)
def _start() -> None:
    """Let JAX find its devices, once.

    Raises
    ------
    RuntimeError
        When it finds none; the message names the environment variable that requests them.
    """
    try:
        with held():
            import jax

            jax.devices()
    except (AssertionError, RuntimeError, ValueError) as error:
        asked = getattr(jax.config, "jax_platforms", None)
        cause = (
            f"JAX_PLATFORMS, or jax_platforms, asks for {asked!r}" if asked else "no platform was asked for"
        )
        raise RuntimeError(
            f"JAX found no device to compute on ({type(error).__name__}: {error}): {cause}; set JAX_PLATFORMS=cpu "
            "before Python starts, or install what the platform needs."
        ) from error


@contextmanager
def _unguarded() -> Iterator[None]:
    import jax

    with jax.enable_x64(True), jax.transfer_guard("allow"):
        yield


def with_x64() -> Any:
    """Context in which JAX computes in 64 bits and takes numpy arrays; the caller's own settings are not touched.

    Raises
    ------
    RuntimeError
        When JAX finds no device, or this process was forked from one in which JAX runs: it would hang.
    """
    if _LOST and os.getpid() in _LOST:
        raise RuntimeError(
            "this process was forked from one in which JAX had started its threads, and JAX would wait for them for "
            "ever; start processes by multiprocessing.get_context('spawn') or 'forkserver', or by joblib's default, "
            "loky; or fork before the first solve."
        )
    _start()
    import jax

    # JAX needs fifty microseconds to change what transfers are allowed, and one for the precision
    config: Any = jax.config
    to, back = config.jax_transfer_guard_host_to_device, config.jax_transfer_guard_device_to_host
    return jax.enable_x64(True) if to in _OPEN and back in _OPEN else _unguarded()


def uses_jax(*arguments: Any) -> bool:
    """Return whether one of the arguments is a JAX array or a tracer. None is, where JAX was not imported yet."""
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(argument, jax.Array) for argument in arguments)


def is_mesh(place: Any) -> bool:
    """Return whether it is a mesh of JAX's devices. None is, where JAX was not imported yet."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(place, jax.sharding.Mesh)


Array = np.ndarray
Risk = Callable[..., Any]

_FINE_FROM = 512
# Bytes that a compiled function takes in faster than they are put on a device beforehand.
_SMALL = 1 << 17


@dataclass(frozen=True)
class RiskData:
    """A risk for JAX: a hashable function, and its arrays besides the scores.

    Parameters
    ----------
    function : callable
        The function ``function(data, *parts)``; compiled once for each function and shape class.
    data : pytree of arrays
        The arguments of the function besides the scores.
    sizes : tuple of int
        Padded length of each part.
    """

    function: Callable[..., Any]
    data: Any
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.function, Hashable):
            raise TypeError(f"{self.function!r} must be hashable to be compiled once.")


@dataclass(frozen=True)
class HostRisk:
    """A risk as a function that JAX can differentiate, by a callback. Hashable and picklable as its oracle.

    Parameters
    ----------
    oracle : callable
        Takes scores in float64, and returns the risk and its gradient.
    """

    oracle: Callable[[Array], tuple[float, Array]]

    def __call__(self, data: Any, scores: Any) -> Any:
        """Return the risk of scores in the order of the oracle."""
        from convexrank.backend.host_callback import value_on_host

        return value_on_host(lambda theta: self.oracle(theta.astype(np.float64)), scores)


def shape_class(size: int) -> int:
    """Round a size up: to a power of two from 64 on, above 512 to a multiple of a sixteenth of one.

    So padding costs little for large sizes. All small instances share one compiled program, and so do folds of similar
    size.
    """
    power = SMALL
    while power < size:
        power *= 2
    if power > _FINE_FROM:
        step = power // 16
        return -(-size // step) * step
    return power


def pad(values: Array, size: int, fill: float = 0.0) -> Array:
    """Return values extended to the given size."""
    if len(values) == size:
        return values
    padded = np.full(size, fill, dtype=values.dtype)
    padded[: len(values)] = values
    return padded


@dataclass(frozen=True)
class _Method:
    """A method and its owner, compared by value."""

    function: Callable[..., Any]
    owner: Any

    def __call__(self, *arguments: Any) -> Any:
        return self.function(self.owner, *arguments)


def by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable that equals another one when their owners are equal.

    Python compares bound methods by the identity of their owners: ``Power(2).g != Power(2).g``, and each would be
    compiled again.
    """
    owner, method = getattr(function, "__self__", None), getattr(function, "__func__", None)
    if method is None:
        return function
    try:
        hash(owner)
    except TypeError:
        return function
    return _Method(method, owner)


def log_sum_exp(exponents: Any) -> Any:
    """Return log Σ eˣ of a JAX vector with at least one finite entry.

    ``jax.nn.logsumexp`` also treats signs, axes and empty sums; without them compiling takes a third less.
    """
    import jax
    import jax.numpy as jnp

    top = jax.lax.stop_gradient(jnp.max(exponents))
    shift = jnp.where(jnp.isfinite(top), top, 0.0)
    return shift + jnp.log(jnp.sum(jnp.exp(exponents - shift)))


def running_sums(add: Callable[[Any, Any], Any], values: Any, firsts: Any, nothing: float) -> Any:
    """Return running sums, by an associative ``add`` with ``nothing``, which begin anew at each first entry.

    An associative scan of n entries is log n programs, each of its own size, which a processor compiles for seconds.
    There it is in blocks: the places of all blocks one after another, then the blocks.
    """
    import jax
    import jax.numpy as jnp

    def join(before: Any, here: Any) -> Any:
        return jnp.where(here[1], here[0], add(before[0], here[0])), before[1] | here[1]

    def joined(items: Any) -> Any:
        start = (jnp.full_like(items[0][0], nothing), jnp.zeros_like(items[1][0]))
        return jax.lax.scan(lambda before, here: (join(before, here),) * 2, start, items)[1]

    if jax.default_backend() != "cpu":
        return jax.lax.associative_scan(join, (values, firsts))[0]
    n = len(values)
    length = math.isqrt(max(n - 1, 0)) + 1
    places = [jnp.pad(x, (0, -n % length)).reshape(-1, length).T for x in (values, firsts)]
    inside = joined(places)
    ends = joined((inside[0][-1], inside[1][-1]))
    before = [jnp.concatenate([end[:1], end[:-1]]) for end in ends]
    here = inside[1].at[:, 0].set(True)  # before the first block there is nothing
    return join(before, (inside[0], here))[0].T.ravel()[:n]


def _small(parts: tuple[Any, ...]) -> bool:
    """Return whether programs for these scores, or columns by rows, are compiled without optimisation."""
    return max([part.shape[-1] for part in parts]) <= SMALL


@lru_cache(maxsize=256)
def _jitted_value_and_gradient(risk: Risk, parts: int, small: bool) -> Callable[..., Any]:
    import jax

    # a risk that sums over pairs knows how to give both in one pass over them
    both = getattr(risk, "value_and_gradient", None)
    return jit(both or jax.value_and_grad(risk, argnums=tuple(range(1, parts + 1))), small)


def value_and_gradient(risk: Risk, data: Any, parts: tuple[Array, ...]) -> tuple[float, tuple[Array, ...]]:
    """Evaluate a risk and its gradient with respect to each part, as numpy.

    The gradient is JAX's, unless the risk has a method ``value_and_gradient(data, *parts)`` of its own.
    """
    with with_x64():
        value, gradients = _jitted_value_and_gradient(risk, len(parts), _small(parts))(data, *parts)
        return float(value), tuple(np.asarray(gradient) for gradient in gradients)


def jax_matrix(matrix: Any) -> Any:
    """Return a sparse matrix in JAX's own form, others unchanged."""
    if not is_sparse(matrix):
        return matrix
    from jax.experimental.sparse import BCOO

    return BCOO.from_scipy_sparse(matrix)


def padded_columns(parts: tuple[Any, ...], sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the rows of each part as padded columns; large ones are put where JAX computes, once for all calls."""
    found = []
    for rows, size in zip(parts, sizes, strict=True):
        padded = np.zeros((rows.shape[1], size), dtype=rows.dtype)
        padded[:, : rows.shape[0]] = unpacked(rows).T
        check_time()
        found.append(padded)
    if sum(array.nbytes for array in found) <= _SMALL:
        return tuple(found)
    with with_x64():
        import jax

        # jnp.asarray would compile a program for this
        return tuple(jax.device_put(array) for array in found)


def penalised(risk: RiskData, columns: tuple[Any, ...], l2: float, l1: float) -> Callable[[Any], Any]:
    """Return the function of w that adds penalties to a risk: a pytree, whose program depends on the risk alone."""
    from jax.tree_util import Partial

    # the slope of |w| at 0 is not asked for where l1 is 0
    return Partial(_Method(_penalised, risk.function), risk.data, columns, l2, l1 or None)


def with_data(function: Any, change: Callable[[Any], Any]) -> Any:
    """Return a function of :func:`penalised` with other data of the risk, made of its own; the rest stays there."""
    from jax.tree_util import Partial

    data, *rest = function.args
    return Partial(function.func, change(data), *rest)


def rows_moved(function: Any, put: Callable[[Any], Any], rest: Callable[[Any], Any]) -> Any:
    """Return a function of :func:`penalised` with its columns of rows put elsewhere, and all other data, too.

    Raises
    ------
    TypeError
        When it is another function, which has no rows.
    """
    if getattr(getattr(function, "func", None), "function", None) is not _penalised:
        raise TypeError("this problem has no rows of linear scores that devices could share; leave mesh out.")
    from jax.tree_util import Partial

    data, columns, *strengths = function.args
    moved, sizes = tuple(map(put, columns)), tuple(part.shape[1] for part in columns)
    risk = _Method(_cut, (function.func.owner, sizes))
    return Partial(_Method(_penalised, risk), rest(data), moved, *map(rest, strengths))


def _cut(owner: tuple[Risk, tuple[int, ...]], data: Any, *parts: Any) -> Any:
    """The risk of the scores before rows that were added."""
    risk, sizes = owner
    return risk(data, *(part[:size] for part, size in zip(parts, sizes, strict=True)))


def _penalised(risk: Risk, data: Any, columns: tuple[Any, ...], l2: Any, l1: Any | None, w: Any) -> Any:
    import jax.numpy as jnp

    value = risk(data, *(w @ part for part in columns)) + 0.5 * l2 * w @ w
    return value if l1 is None else value + l1 * jnp.abs(w).sum()


@cache
def _jitted_value() -> Callable[..., Any]:
    return jit(lambda function, w: function(w), small=True)


def value_of(objective: Callable[[Any], Any], w: Array) -> float:
    """Evaluate a JAX objective at w; a pytree is compiled once for each shape class."""
    with with_x64():
        import jax

        if isinstance(objective, jax.tree_util.Partial):
            return float(_jitted_value()(objective, w))
        return float(objective(w))


def with_slope(function: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """Return an elementwise function of one variable and its derivative at x; to be called while JAX traces."""
    import jax
    import jax.numpy as jnp

    value, pull = jax.vjp(lambda t: jnp.broadcast_to(function(t), t.shape).astype(t.dtype), x)
    return value, pull(jnp.ones_like(x))[0]


@lru_cache(maxsize=256)
def _jitted_derivatives(function: Callable[[Any], Any], small: bool) -> Callable[..., Any]:
    return jit(lambda x: with_slope(function, x), small)


def derivatives(function: Callable[[Any], Any], x: Array) -> tuple[Array, Array]:
    """Evaluate an elementwise function of one variable and its derivative, as numpy."""
    flat = np.ravel(x)
    if not len(flat):
        return np.array(x), np.array(x)
    size = shape_class(len(flat))
    # pad with a value of the input itself: any other number may lie outside the function's domain
    padded = pad(flat, size, float(flat[0]))
    with with_x64():
        value, slope = _jitted_derivatives(by_value(function), size <= SMALL)(padded)
        value, slope = np.asarray(value)[: len(flat)], np.asarray(slope)[: len(flat)]
    return value.reshape(x.shape), slope.reshape(x.shape)
