"""The projections as JAX functions: which code runs where, and the derivatives.

The derivative of a projection on a polyhedron is the projection on its active face: entries that are tied move
together, by the weighted mean. The compiled loops say what is tied; the rules below take means by segment sums, O(n) in
time and memory. They are linear in the tangents, so forward mode, reverse mode and ``vmap`` all follow from them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.custom_derivatives import SymbolicZero
from jax.dtypes import float0

from convexrank.data import check_groups, check_interval, check_positive_weights, check_vector
from convexrank.projections import host
from convexrank.projections.chains import (
    Layout,
    check_order,
    check_steps,
    refuse_infeasible,
    solve_increments,
    spread,
)

# A longer chain is sequential work: a device other than the CPU hands it to the host.
LONGEST_ON_DEVICE = 20_000


def _select(path: str, on_host: Callable[..., Any], on_device: Callable[..., Any], *operands: Any) -> Any:
    """Run the compiled loop or pure JAX; ``path`` is "auto", "host", "device", or "platform": by the platform."""
    if path == "auto":
        # tracing both branches costs time, and without an accelerator one of them never runs
        path = "host" if jax.default_backend() == "cpu" else "platform"
    if path == "host":
        return on_host(*operands)
    if path == "device":
        return on_device(*operands)
    return jax.lax.platform_dependent(*operands, cpu=on_host, default=on_device)


def _is_zero(tangent: Any) -> bool:
    """Return whether a tangent is absent: of None, of an integer, or known to vanish."""
    return tangent is None or isinstance(tangent, SymbolicZero) or tangent.dtype == float0


def _no_tangents(*results: Any) -> tuple[Any, ...]:
    return tuple(np.zeros(result.shape, float0) for result in results)


def _mean(values: Any, weights: Any, block: Any) -> Any:
    """Weighted mean over the block of each entry."""
    n = values.shape[0]
    sums = jax.ops.segment_sum(values, block, num_segments=n)
    masses = jax.ops.segment_sum(weights, block, num_segments=n)
    return sums[block] / masses[block]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _isotonic(path: str, z: Any, w: Any, order: Any, groups: Any) -> tuple[Any, Any]:
    from convexrank.projections import device as device

    return _select(path, host.isotonic, device.isotonic, z, w, order, groups)


@partial(_isotonic.defjvp, symbolic_zeros=True)
def _isotonic_jvp(path: str, primals: Any, tangents: Any) -> Any:
    z, w = primals[:2]
    dz, dw = tangents[:2]
    s, block = _isotonic(path, *primals)
    weights, pull = jnp.ones_like(z) if w is None else w, jnp.zeros_like(z)
    if not _is_zero(dz):
        pull = pull + weights * dz
    if not _is_zero(dw):
        pull = pull + dw * (z - s)
    return (s, block), (_mean(pull, weights, block), *_no_tangents(block))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _permutahedron(path: str, z: Any, y: Any, groups: Any) -> tuple[Any, Any, Any]:
    from convexrank.projections import device as device

    return _select(path, host.permutahedron, device.permutahedron, z, y, groups)


@partial(_permutahedron.defjvp, symbolic_zeros=True)
def _permutahedron_jvp(path: str, primals: Any, tangents: Any) -> Any:
    dz, dy, _ = tangents
    s, block, match = _permutahedron(path, *primals)
    ones, ds = jnp.ones_like(s), jnp.zeros_like(s)
    if not _is_zero(dz):
        ds = ds + dz - _mean(dz, ones, block)
    if not _is_zero(dy):
        ds = ds + _mean(dy[match], ones, block)
    return (s, block, match), (ds, *_no_tangents(block, match))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _increments(path: str, *operands: Any) -> tuple[Any, Any, Any, Any]:
    from convexrank.projections import device as device

    on_device = device.increments if operands[0].shape[0] <= LONGEST_ON_DEVICE else host.increments
    if path == "device":
        on_device = device.increments
    return _select(path, host.increments, on_device, *operands)


@partial(_increments.defjvp, symbolic_zeros=True)
def _increments_jvp(path: str, primals: Any, tangents: Any) -> Any:
    z, w = primals[:2]
    dz, dw, dlow, dhigh, dfloor, dceiling, _ = tangents
    s, side, pin, rows = _increments(path, *primals)
    zeros = jnp.zeros_like(z)
    weights, target, shift = jnp.ones_like(z) if w is None else w, zeros, zeros
    if not _is_zero(dz):
        target = target + dz
    if not _is_zero(dw):
        target = target + dw * (z - s) / weights
    # along the chain: what the entry moves by, against the first of its block
    step = zeros
    if not _is_zero(dlow):
        step = step + jnp.where(side < 0, dlow[rows], 0.0)
    if not _is_zero(dhigh):
        step = step + jnp.where(side > 0, dhigh[rows], 0.0)
    if not (_is_zero(dlow) and _is_zero(dhigh)):
        shift = jnp.cumsum(step) - step
    block = jnp.cumsum(jnp.concatenate([jnp.zeros(1, side.dtype), side[:-1]]) == 0) - 1
    # a block that is held moves as the entry that the bound holds
    pinned = jax.ops.segment_max(jnp.abs(pin), block, num_segments=z.shape[0])[block] > 0
    share = jnp.where(pinned, pin != 0, weights[rows])
    target = jnp.where(pinned, 0.0, target[rows])
    for code, tangent in ((-1, dfloor), (1, dceiling)):
        if not _is_zero(tangent):
            target = target + jnp.where(pin == code, tangent, 0.0)
    ds = shift + _mean(share * (target - shift), share, block)
    return (s, side, pin, rows), (zeros.at[rows].set(ds, unique_indices=True), *_no_tangents(side, pin, rows))


_isotonic_compiled = jax.jit(_isotonic, static_argnums=0)
_permutahedron_compiled = jax.jit(_permutahedron, static_argnums=0)
_increments_compiled = jax.jit(_increments, static_argnums=0)


def _known(value: Any) -> bool:
    """Return whether a value can be looked at now."""
    return not isinstance(value, Tracer)


def _vector(value: Any, length: int | None, name: str, dtype: Any = None) -> Any:
    """A vector for JAX: checked as far as it is known, its shape in any case; floating."""
    if _known(value):
        check_vector(np.asarray(value), length, name)
    array = jnp.asarray(value)
    if array.ndim != 1 or (length is not None and array.shape[0] != length) or array.shape[0] == 0:
        expected = "(n,), at least one entry" if length is None else f"({length},)"
        raise ValueError(
            f"{name} has shape {array.shape}, expected {expected}; map over a batch with jax.vmap."
        )
    if dtype is None:
        dtype = array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else jnp.zeros(0).dtype
    return array.astype(dtype)


def _groups(groups: Any, n: int) -> Any:
    """Group ids as integers."""
    if groups is None:
        return None
    if _known(groups):
        ids = np.asarray(check_groups(np.asarray(groups), n))
        return jnp.asarray(np.unique(ids, return_inverse=True)[1].reshape(-1).astype(np.int32))
    if groups.shape != (n,) or not jnp.issubdtype(groups.dtype, jnp.integer):
        raise ValueError(
            f"groups has shape {groups.shape} and type {groups.dtype}, expected integers of shape ({n},)."
        )
    return groups


def _order(order: Any, n: int) -> Any:
    """Keys to sort by; what is known and would lose digits becomes ranks."""
    if order is None:
        return None
    if _known(order):
        keys = check_vector(np.asarray(order), n, "order")
        if np.asarray(order).dtype != jnp.asarray(order).dtype:
            return jnp.asarray(np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int32))
    array = jnp.asarray(order)
    if array.shape != (n,):
        raise ValueError(f"order has shape {array.shape}, expected ({n},); map over a batch with jax.vmap.")
    return array


def _weights(weights: Any, n: int, dtype: Any) -> Any:
    if weights is None:
        return None
    if _known(weights):
        check_positive_weights(np.asarray(weights), n)
    return _vector(weights, n, "weights", dtype)


def _interval(bounds: tuple[Any, Any], dtype: Any) -> tuple[Any, Any]:
    """Bounds of the entries as numbers of JAX."""
    if all(_known(bound) for bound in bounds):
        bounds = check_interval(bounds)
    for place, bound in enumerate(bounds):
        if jnp.shape(bound) != () and bound is not None:
            raise TypeError(f"bounds[{place}] has shape {jnp.shape(bound)}, expected a number or None.")
    low, high = bounds
    return jnp.asarray(-jnp.inf if low is None else low, dtype), jnp.asarray(
        jnp.inf if high is None else high, dtype
    )


def isotonic(
    z: Any,
    order: Any,
    weights: Any,
    groups: Any,
    increasing: bool,
    bounds: tuple[Any, Any],
    path: str = "auto",
) -> Any:
    """Compute `convexrank.projections.isotonic`; ``path`` forces one implementation, for tests."""
    z = _vector(z, None, "z")
    n = z.shape[0]
    operands = (_weights(weights, n, z.dtype), _order(order, n), _groups(groups, n))
    floor, ceiling = _interval(bounds, z.dtype)
    fitted = _isotonic_compiled(path, z if increasing else -z, *operands)[0]
    fitted = fitted if increasing else -fitted
    return fitted if bounds[0] is None and bounds[1] is None else jnp.clip(fitted, floor, ceiling)


def permutahedron(z: Any, y: Any, groups: Any, path: str = "auto") -> Any:
    """Compute `convexrank.projections.permutahedron`."""
    z = _vector(z, None, "z")
    return _permutahedron_compiled(
        path, z, _vector(y, z.shape[0], "y", z.dtype), _groups(groups, z.shape[0])
    )[0]


def bounded_increments(
    z: Any, lower: Any, upper: Any, weights: Any, groups: Any, bounds: tuple[Any, Any], path: str = "auto"
) -> Any:
    """Compute `convexrank.projections.bounded_increments`."""
    z = _vector(z, None, "z")
    n = z.shape[0]
    _check_feasible(lower, upper, groups, bounds, n)
    steps = []
    for name, step in (("lower", lower), ("upper", upper)):
        array = jnp.asarray(step, z.dtype)
        if array.shape not in ((), (n - 1,)):
            raise ValueError(f"{name} has shape {array.shape}, expected a number or shape ({n - 1},).")
        steps.append(jnp.append(jnp.broadcast_to(array, (n - 1,)), jnp.zeros(1, z.dtype)))
    floor, ceiling = _interval(bounds, z.dtype)
    operands = (_weights(weights, n, z.dtype), *steps, floor, ceiling, _groups(groups, n))
    return _increments_compiled(path, z, *operands)[0]


def _check_feasible(lower: Any, upper: Any, groups: Any, bounds: tuple[Any, Any], n: int) -> None:
    """Refuse bounds that nothing satisfies, as far as they are known."""
    for step, name in ((lower, "lower"), (upper, "upper")):
        if _known(step):
            check_steps(step if step is None else np.asarray(step), n, name)
    if not all(_known(value) for value in (lower, upper, groups, *bounds)):
        return
    low, high = check_steps(np.asarray(lower), n, "lower"), check_steps(np.asarray(upper), n, "upper")
    interval = check_interval(bounds)
    layout = Layout.of(None if groups is None else check_groups(np.asarray(groups), n), n)
    check_order(low, high, layout, n)
    if interval[0] > -np.inf and interval[1] < np.inf:
        falls, rises = layout.gather(spread(low, n)), layout.gather(spread(high, n))
        bad = solve_increments(np.zeros(n), np.ones(1), falls, rises, layout.offsets, np.array([interval]))[3]
        if bad >= 0:
            refuse_infeasible(bad, low, high, layout, interval)
