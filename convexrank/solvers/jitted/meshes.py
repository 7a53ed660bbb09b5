"""Rows that the devices of a mesh share: each holds some columns of the transpose, and all else as a whole.

A compiled loop is the same program. Its products with the rows are taken where the rows are, and gradients are added up
over the devices, by the compiler. Rows of padding, which make the mesh divide them, are 0, and no risk reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from convexrank.backend.jax_oracles import rows_moved

Array = np.ndarray
AXIS = "rows"


def check_rows_mesh(mesh: Any, device: Any) -> None:
    """Refuse what is no mesh of devices, or a device beside it.

    Raises
    ------
    TypeError
        When it is no mesh.
    ValueError
        When the mesh has no device of this process, or a device is given as well.
    """
    from convexrank.solvers.fixed_point._mesh import check_mesh

    check_mesh(mesh)
    if device is not None:
        raise ValueError(
            f"device is {device!r} beside a mesh of {mesh.size} devices, which says where to run; leave device out."
        )


def first_device(mesh: Any) -> Any:
    """Return a device of the mesh that this process has."""
    return mesh.local_devices[0]


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
