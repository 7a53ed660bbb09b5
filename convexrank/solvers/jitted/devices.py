"""The device that a caller asks for, and whether the data fit there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from convexrank.backend.jax_start import uses_jax, with_x64
from convexrank.data.messages import shown

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


def check_device(device: Any) -> None:
    """Refuse what is neither a name nor a device of JAX, which is not imported.

    Raises
    ------
    TypeError
        When it is something else.
    """
    if device is not None and not isinstance(device, str) and not hasattr(device, "platform"):
        raise TypeError(f"device is {shown(device)}, expected 'cpu', 'gpu', 'tpu' or a device of JAX.")


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
        platform, _, number = device.partition(":")
        try:
            return jax.devices(platform)[int(number or 0)]
        except (RuntimeError, ValueError, IndexError):
            there = ", ".join(f"{each.platform}:{each.id}" for each in jax.devices())
            raise ValueError(
                f"device is {device!r}, and JAX has no such device in this process, but {there}; install the JAX of "
                "your accelerator (jax.readthedocs.io, Installation), or leave device out: the default solvers need "
                "none."
            ) from None


def device_of(*arguments: Any) -> Any | None:
    """Return the device on which arguments of a caller lie, where that is one and not the first CPU; else None.

    Raises
    ------
    ValueError
        When arguments lie on different devices.
    """
    found = set()
    for argument in arguments:
        if uses_jax(argument) and hasattr(argument, "devices") and len(argument.devices()) == 1:
            found |= argument.devices()
    if len(found) > 1:
        names = ", ".join(sorted(str(device) for device in found))
        raise ValueError(f"arrays lie on different devices: {names}; put them on one with jax.device_put.")
    device = found.pop() if found else None
    return None if device is None or (device.platform == "cpu" and device.id == 0) else device


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
                    f"{device} is full: {_first_line(error)}. The problem is as it was; free the device, pass fewer "
                    "rows, dtype='float32', or leave device out."
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


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
