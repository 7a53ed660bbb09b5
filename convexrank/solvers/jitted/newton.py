"""Newton's method with the whole iteration on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from convexrank.core.capabilities import Shape, Smooth, Solvable
from convexrank.core.loop import State
from convexrank.data import check_integer, keep_checked
from convexrank.solvers.jitted._chunks import (
    Loop,
    bytes_of,
    chosen,
    compiled,
    first_state,
    is_small,
    judge_of,
    next_state,
    place,
)
from convexrank.solvers.jitted.devices import check_device, computing_on
from convexrank.solvers.row_faces import Compiled

Array = np.ndarray

# Bytes that the images of all unit vectors may take, from which the Hessian is built.
_MOST = 1 << 30


class Steps(NamedTuple):
    """A function and the units of the weights on a device, a point there, and the programs of Newton's method."""

    device: Any
    function: Any
    units: Any
    x: Any
    start: Callable[..., Any]
    advance: Callable[..., Any]


def newton_steps(solver: Any, problem: Solvable, make: Callable[[], Any], x0: Array) -> Steps:
    """Put a function of a problem on the device or the mesh of a solver.

    Parameters
    ----------
    solver : JaxNewton or JaxContinuation
        Its device, mesh and columns.
    problem : Solvable
        The problem.
    make : callable
        Returns the function of the weights, a pytree with the data.
    x0 : ndarray, shape (d,)
        The point.
    """
    from convexrank.solvers.jitted.programs import newton as programs

    device, face = chosen(solver.device, solver.mesh), problem.face(Compiled)
    needed = bytes_of(face, problem.dimension)
    built = problem.dimension <= solver.columns and needed <= _MOST

    def with_units() -> Any:
        return make(), np.asarray(problem.face(Shape).column_scales, face.dtype)

    with computing_on(device):
        (function, units), x = place(device, with_units, x0, face.dtype, needed, solver.mesh)
        small = is_small(function)
        advance = programs.advance if built else programs.advance_truncated
        return Steps(device, function, units, x, compiled(programs.start, small), compiled(advance, small))


@dataclass(frozen=True)
class JaxNewton:
    r"""Newton's method, compiled as one loop with the data on a device.

    .. math:: w \leftarrow w - t H^{-1}\nabla

    The second derivatives are those of JAX. Up to ``columns`` weights the Hessian is built, by one product with it for
    each weight, all in one pass, and factorised; beyond, the direction is found by conjugate gradients on products with
    the Hessian, in the units of the weights, until the rest is small beside the gradient (truncated Newton). t is
    halved until the decrease is a share of the predicted one. What a chunk is, and what happens between chunks, is as
    for :class:`~convexrank.solvers.JaxAccelerated`.

    Parameters
    ----------
    columns : int
        The largest number of weights for which the Hessian is built.
    chunk : int
        Number of steps between two looks of the host, fewer near a time limit.
    device, mesh : optional
        As for :class:`~convexrank.solvers.JaxAccelerated`.

    Raises
    ------
    DeviceMemoryError
        When the data do not fit the device; the message has the bytes, and the problem is as it was.
    ValueError
        When JAX has no such device.

    References
    ----------
    T. Steihaug, The conjugate gradient method and trust regions in large scale optimization, SIAM J. Numer. Anal. 20
    (1983).

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> problem.solve(cr.solvers.JaxNewton(device="cpu")).status.name
    'CONVERGED'
    """

    columns: int = 256
    chunk: int = 3
    device: Any = None
    mesh: Any = None

    name = "jax-newton"
    requires = frozenset({"JaxCurved", "Smooth"})
    default_max_iter = 500

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "columns", minimum=0)
        keep_checked(self, check_integer, "chunk", minimum=1)
        check_device(self.device, self.mesh)

    def init(self, problem: Smooth, x0: Array) -> State:
        """Put the data on the device, compile, and evaluate at the start."""
        face = problem.face(Compiled)
        device, objective, units, x, start, advance = newton_steps(self, problem, face.objective, x0)
        with computing_on(device):
            inner = start(objective, x)
            judge = judge_of(face.dtype, problem.value_and_gradient, lambda _: 0.0)
            loop = Loop(device, partial(advance, objective, units), judge, face.dtype)
            return first_state(problem, loop, inner)

    def step(self, problem: Smooth, state: State) -> State:
        """Run one chunk on the device."""
        return next_state(problem, state, self.chunk)
