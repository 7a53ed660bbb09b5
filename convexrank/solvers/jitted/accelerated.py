"""Accelerated proximal gradient with the whole iteration on a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from convexrank.core.capabilities import Proximal
from convexrank.core.loop import State
from convexrank.data import check_flag, check_integer, keep_checked
from convexrank.solvers.descent.first_order import check_factors
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
from convexrank.solvers.row_faces import Compiled, Lipschitz

Array = np.ndarray


@dataclass(frozen=True)
class JaxAccelerated:
    r"""Proximal gradient with Nesterov momentum and restart (FISTA), compiled as one loop with the data on a device.

    The steps are those of :class:`~convexrank.solvers.Accelerated`: backtracking in both directions, or a known
    constant, and momentum that is dropped where it points uphill. The loop runs ``chunk`` iterations on the device,
    and reads back point, value and gradient, d + 1 numbers each. Between chunks the host looks at limits, the callback
    and Ctrl-C; once the estimate of the gap meets the tolerance, the certificate decides, evaluated on the host by
    the reference code. ``max_iter`` and the iterations of callbacks count chunks.

    A program is compiled once for each form of a risk, each kind of penalty and each shape class of the rows
    (some seconds), and kept on disk; data of another size in the same class, and other strengths, use it again. On
    a CPU the methods in numpy are faster: BLAS has the same products, and small loops do not pay for a compilation.

    Products are in the precision of the data (``dtype`` of the problem); the n slopes of the risk are in float64.
    With float32 data a gap below about 1e-7 of the value may be out of reach; the solve then ends with the gap that
    it has, and says so.

    Parameters
    ----------
    growth, shrinkage : float
        Factors by which the local Lipschitz estimate grows when a step fails and shrinks when one succeeds.
    chunk : int
        Number of iterations between two looks of the host, fewer near a time limit.
    line_search : bool, optional
        Whether to search for the constant; by default only if the problem has no known constant.
    device : str or jax.Device, optional
        Where to run: ``"gpu"``, ``"cpu"``, ``"gpu:1"`` or a device; by default JAX's default device.
    mesh : jax.sharding.Mesh, optional
        Devices that share the rows, of one process or of those of ``jax.distributed.initialize``, each of which makes
        the same call with the same data: ``jax.make_mesh((len(jax.devices()),), ("rows",))``. Each device holds its
        part of X; gradients are added up over the devices, so that answers differ by rounding of these sums alone.
        Rows of zeros, which no risk reads, are added where the mesh does not divide them.

    Raises
    ------
    DeviceMemoryError
        When the data do not fit the device; the message has the bytes, and the problem is as it was.
    ValueError
        When JAX has no such device.

    References
    ----------
    A. Beck and M. Teboulle, SIAM J. Imaging Sci. 2 (2009); B. O'Donoghue and E. Candès, Found. Comput. Math. 15 (2015).

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l1=0.01, l2=0.1)
    >>> problem.solve(cr.solvers.JaxAccelerated(device="cpu")).status.name
    'CONVERGED'
    """

    growth: float = 2.0
    shrinkage: float = 0.9
    chunk: int = 20
    line_search: bool | None = None
    device: Any = None
    mesh: Any = None

    name = "jax-accelerated"
    requires = frozenset({"JaxProximal", "Proximal"})
    default_max_iter = 5_000

    def __post_init__(self) -> None:
        check_factors(self)
        keep_checked(self, check_integer, "chunk", minimum=1)
        keep_checked(self, check_flag, "line_search")
        check_device(self.device, self.mesh)

    def init(self, problem: Proximal, x0: Array) -> State:
        """Put the data on the device, compile, and start at the nearest feasible point."""
        from convexrank.solvers.jitted.programs import accelerated as programs

        device, face = chosen(self.device, self.mesh), problem.face(Compiled)
        with computing_on(device):
            (smooth, prox), x = place(
                device,
                lambda: (face.smooth(), face.prox()),
                x0,
                face.dtype,
                bytes_of(face, problem.dimension),
                self.mesh,
            )
            small = is_small(smooth)
            judge = judge_of(face.dtype, problem.smooth_value_and_gradient, problem.nonsmooth_value)
            if "Lipschitz" in problem.capabilities and not self.line_search:
                constant = problem.face(Lipschitz).constant
                inner = compiled(programs.start_with_constant, small)(smooth, prox, x, constant)
                advance = partial(compiled(programs.advance_with_constant, small), smooth, prox)
            else:
                factors = programs.Factors(self.growth, self.shrinkage)
                inner = compiled(programs.start, small)(smooth, prox, x)
                advance = partial(compiled(programs.advance, small), factors, smooth, prox)
            return first_state(problem, Loop(device, advance, judge, face.dtype), inner)

    def step(self, problem: Proximal, state: State) -> State:
        """Run one chunk on the device."""
        return next_state(problem, state, self.chunk)
