"""The device that a caller asks for, whether the data fit there, and rows that the devices of a mesh share.

Rows that the devices of a mesh share: each holds some columns of the transpose, and all else as a whole.

A compiled loop is the same program. Its products with the rows are taken where the rows are, and gradients are added up
over the devices, by the compiler. Rows of padding, which make the mesh divide them, are 0, and no risk reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np

from convexrank.backend.jax_oracles import rows_moved, uses_jax, with_x64
from convexrank.data.messages import shown

Array = np.ndarray

# The name of the axis of a mesh over which rows are divided.
AXIS = "rows"
# What a program needs beside its data, as a share of them: scores, gradients, a trial point.
_WORKING = 0.25


class DeviceMemoryError(MemoryError):
    """The data, or what a program needs beside them, do not fit the device; the problem is as it was.

    Examples
    --------
    >>> from convexrank.solvers.jitted.devices import DeviceMemoryError
    >>> issubclass(DeviceMemoryError, MemoryError)
    True
    """


def check_device(device: Any, mesh: Any = None) -> None:
    """Refuse what is neither a name nor a device of JAX, which is not imported, what is no mesh, and both together.

    Raises
    ------
    TypeError
        When it is something else.
    ValueError
        When the mesh has no device of this process, or a device is given as well.
    """
    if device is not None and not isinstance(device, str) and not hasattr(device, "platform"):
        raise TypeError(f"device is {shown(device)}, expected 'cpu', 'gpu', 'tpu' or a device of JAX.")
    if mesh is not None:
        from convexrank.solvers.fixed_point._mesh import check_mesh

        check_mesh(mesh)
        if device is not None:
            raise ValueError(
                f"device is {device!r} beside a mesh of {mesh.size} devices, which says where to run; leave device "
                "out."
            )


def find_device(device: Any) -> Any:
    """Return the device of JAX that is meant.

    Parameters
    ----------
    device : str or jax.Device
        ``"cpu"``, ``"gpu"`` or ``"tpu"``, with a number for another than the first (``"gpu:1"``); or a device.

    Raises
    ------
    ValueError
        When JAX has no such device; the message lists those that it has.
    TypeError
        When it is neither a name nor a device.
    """
    with with_x64():
        import jax

        if isinstance(device, jax.Device):
            return device
        if not isinstance(device, str):
            raise TypeError(f"device is {shown(device)}, expected 'cpu', 'gpu', 'tpu' or a device of JAX.")
        # JAX has a default for no name, and a list has places from its end
        named = re.fullmatch(r"(\w+)(?::(\d+))?", device, re.ASCII)
        with suppress(RuntimeError, ValueError, IndexError):
            if named is not None:
                return jax.devices(named[1])[int(named[2] or 0)]
        there = ", ".join(f"{each.platform}:{each.id}" for each in jax.devices())
        raise ValueError(
            f"device is {device!r}, and JAX has no such device in this process, but {there}; install the JAX of "
            "your accelerator (jax.readthedocs.io, Installation), or leave device out: the default solvers need none."
        )


def home_of(*arguments: Any) -> Any | None:
    """Return where arguments of a caller lie: a device, or a mesh of several; None for the first CPU alone.

    Raises
    ------
    ValueError
        When arguments lie on different devices, or on devices of other processes as well.
    """
    places = set()
    for argument in arguments:
        if uses_jax(argument) and hasattr(argument, "devices"):  # a tracer has none
            if not argument.is_fully_addressable:
                raise ValueError(
                    f"rows lie on devices of other processes too: {argument.sharding}; pass convexrank.data.Shards, "
                    "which takes the rows of each process."
                )
            places.add(frozenset(argument.devices()))
    if not places:
        return None
    home = max(places, key=len)
    if any(not place <= home for place in places):
        names = ", ".join(sorted({str(device) for place in places for device in place}))
        raise ValueError(f"arrays lie on different devices: {names}; put them on one with jax.device_put.")
    if len(home) > 1:
        from jax.sharding import Mesh

        return Mesh(np.array(sorted(home, key=lambda device: device.id)), (AXIS,))
    (device,) = home
    return None if device.platform == "cpu" and device.id == 0 else device


@contextmanager
def computing_on(device: Any) -> Iterator[None]:
    """Context in which JAX computes in 64 bits and on a device; the caller's own settings are not touched.

    Yields
    ------
    None
        JAX computes on the device inside.

    Raises
    ------
    DeviceMemoryError
        When the device runs out of memory inside.
    """
    with with_x64():
        import jax

        with jax.default_device(device):
            try:
                yield
            except jax.errors.JaxRuntimeError as error:
                if "RESOURCE_EXHAUSTED" not in str(error):
                    raise
                raise DeviceMemoryError(
                    f"{device} is full: {str(error).splitlines()[0]}. The problem is as it was; free the device, "
                    "pass fewer rows, dtype='float32', or leave device out."
                ) from error


def check_room(device: Any, needed: int) -> None:
    """Refuse data that a device has no room for, before any is moved.

    Parameters
    ----------
    device : jax.Device
        The device; one that does not tell its memory, as a CPU, is not checked.
    needed : int
        Bytes of the data.

    Raises
    ------
    DeviceMemoryError
        When they do not fit.
    """
    told = device.memory_stats() or {}
    if "bytes_limit" not in told:
        return
    free, wanted = told["bytes_limit"] - told.get("bytes_in_use", 0), int(needed * (1.0 + _WORKING))
    if wanted > free:
        raise DeviceMemoryError(
            f"{device} is full: the solve needs about {wanted} bytes ({needed} for the data), and {free} of "
            f"{told['bytes_limit']} are free. The problem is as it was; free the device, pass fewer rows, "
            "dtype='float32', or leave device out."
        )


def shared(mesh: Any, make: Callable[[], tuple[Any, Any]], x0: Any) -> tuple[Any, Any]:
    """Put the rows of a function of a problem on the devices of a mesh, and all else on each of them.

    Parameters
    ----------
    mesh : jax.sharding.Mesh
        The devices, with any names of axes.
    make : callable
        Returns the function of the weights, a pytree with the data, and what goes with it; the data are on the host.
    x0 : ndarray, shape (d,)
        The start.

    Returns
    -------
    tuple
        The pair that ``make`` returns, and the start, on the devices.
    """
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    flat = jax.sharding.Mesh(mesh.devices.ravel(), (AXIS,))
    whole = NamedSharding(flat, PartitionSpec())
    everywhere = partial(jax.tree.map, partial(_put, whole))
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        function, rest = make()
    cut = NamedSharding(flat, PartitionSpec(None, AXIS))
    function = rows_moved(
        function, lambda columns: _put(cut, _divided(np.asarray(columns), mesh.size)), everywhere
    )
    return (function, everywhere(rest)), _put(whole, x0)


def _put(sharding: Any, values: Any) -> Any:
    """Put the parts of an array where they belong; each process has all of it, and puts those of its devices."""
    import jax

    values = np.asarray(values)
    return jax.make_array_from_callback(values.shape, sharding, values.__getitem__)


def _divided(columns: Array, parts: int) -> Array:
    """Columns of 0 make the number of rows a multiple of the number of devices."""
    missing = -columns.shape[1] % parts
    return np.pad(columns, ((0, 0), (0, missing))) if missing else columns
