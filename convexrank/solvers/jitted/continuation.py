"""Newton's method on smooth functions below a risk with kinks, of decreasing width, with the iteration on a device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from convexrank.core.capabilities import Convex
from convexrank.core.loop import State, scale_of
from convexrank.data import check_integer, check_positive, keep_checked
from convexrank.solvers.descent.smoothed.places import Place, place_at
from convexrank.solvers.descent.smoothed.states import advanced, begun
from convexrank.solvers.jitted._chunks import SINGLE, run_chunk
from convexrank.solvers.jitted.devices import check_device, computing_on
from convexrank.solvers.jitted.newton import Steps, newton_steps
from convexrank.solvers.row_faces import Compiled, Smoothable

Array = np.ndarray

# Chunks at a width after which the next one is tried all the same.
_PATIENCE = 20
# What the smoothing may cost, as a share of the tolerance.
_ENOUGH = 0.4
# Widths without a better value or bound after which there is none to be had.
_IDLE = 6


@dataclass(frozen=True)
class _Run:
    """A function on a device with its width, a state there, and the minimisers of the last two widths."""

    steps: Steps
    function: Any
    inner: Any
    width: float
    settled: tuple[tuple[Array, float], ...] = ()
    chunks: int = 0  # at this width
    idle: int = 0
    pace: float = float("inf")


@dataclass(frozen=True)
class JaxContinuation:
    r"""Minimise smooth functions below the risk by Newton's method on a device, with decreasing width μ.

    The smooth functions are those of :class:`~convexrank.solvers.Continuation`, and their multipliers at a point and a
    width prove a bound, as there, evaluated on the host by the code of certificates. JAX reads the functions, with the
    widths as arguments of one program. The smooth function below a mean of the highest entries is a least over levels,
    which safeguarded Newton steps find on the device. At each width the steps are those of
    :class:`~convexrank.solvers.JaxNewton`. The line through the minimisers of the last two widths predicts the next
    one, and the limit at μ = 0, which is tried as an answer.

    A step is a chunk of Newton steps at a width. The host evaluates the problem where a width ends.

    Parameters
    ----------
    shrink : float
        The factor of the width.
    columns : int
        The largest number of weights for which the Hessian is built; beyond, conjugate gradients take its place.
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
    Y. Nesterov, Smooth minimization of non-smooth functions, Mathematical Programming 103, 2005, section 4.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.TopPush([[1.5], [2.0], [1.0], [0.0]], [1, 1, 0, 0], l2=0.1)
    >>> problem.solve(cr.solvers.JaxContinuation(device="cpu")).status.name
    'CONVERGED'
    """

    shrink: float = 0.3
    columns: int = 256
    chunk: int = 3
    device: Any = None
    mesh: Any = None

    name = "jax-continuation"
    requires = frozenset({"Convex", "JaxSmoothable", "Smoothable"})
    default_max_iter = 1_000

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "shrink")
        keep_checked(self, check_integer, "columns", minimum=0)
        keep_checked(self, check_integer, "chunk", minimum=1)
        if not self.shrink < 1.0:
            raise ValueError(f"shrink is {self.shrink}, expected a factor below 1.")
        check_device(self.device, self.mesh)

    def init(self, problem: Convex, x0: Array) -> State:
        """Put the data on the device, compile, and evaluate at the start."""
        width = problem.face(Smoothable).unit  # beyond it log-sum-exps would be smoothed, too
        steps = newton_steps(self, problem, partial(problem.face(Compiled).below, width), x0)
        with computing_on(steps.device):
            run = _Run(steps, steps.function, steps.start(steps.function, steps.x), width)
        return _with(begun(problem, np.array(x0, dtype=np.float64), width, self.shrink), run)

    def step(self, problem: Convex, state: State) -> State:
        """Run one chunk on the device; go on to the next width from a minimiser that is near enough."""
        run, path = state.memory
        with computing_on(run.steps.device):
            advance = partial(run.steps.advance, run.function, run.steps.units)
            inner, pace = run_chunk(advance, run.inner, self.chunk, run.pace)
            run = replace(run, inner=inner, pace=pace, chunks=run.chunks + 1)
            w, slope = (np.asarray(each, dtype=np.float64) for each in (inner.x, inner.gradient))
            left, most = float(slope @ slope) / (2.0 * problem.penalty.l2), path.best - path.lower
            ends = bool(inner.stalled) or run.chunks >= _PATIENCE
            if not ends and left > self.shrink * most:
                return replace(state, memory=(run, path))
            here = place_at(problem, w, run.width)
            on_path = replace(state, memory=path)
            # near enough: no more is left to gain there than the smoothing costs
            if not ends and left > here.lag:
                return _with(advanced(path, on_path, [here]), run)
            return self._narrower(problem, on_path, run, here)

    def _narrower(self, problem: Convex, state: State, run: _Run, here: Place) -> State:
        """Take note of the minimiser of a width, and begin at the next one."""
        settled = (*run.settled[-1:], (here.w, run.width))
        seen = [here] if len(settled) < 2 else [here, place_at(problem, _on_line(settled, 0.0), run.width)]
        after = advanced(state.memory, state, seen)
        found = after.memory
        better = found.best < state.memory.best or found.lower > state.memory.lower
        idle = 0 if better else run.idle + 1
        share = _ENOUGH * (state.tol or 0.0) * scale_of(found.best) / here.lag if here.lag > 0.0 else 1.0
        width = run.width * (max(self.shrink, share) if share < 1.0 else self.shrink)
        function = problem.face(Compiled).narrowed(run.function, width)
        starts = [here.w] if len(settled) < 2 else [here.w, _on_line(settled, width)]
        inners = [run.steps.start(function, np.asarray(w, run.inner.x.dtype)) for w in starts]
        inner = min(inners, key=lambda one: float(one.value))
        run = replace(run, function=function, inner=inner, width=width, settled=settled, chunks=0, idle=idle)
        single = SINGLE if idle > _IDLE and run.inner.x.dtype == np.float32 else ""
        return replace(_with(after, run), stalled=idle > _IDLE, note=single)


def _with(state: State, run: _Run) -> State:
    """Return a state of the path with what runs on the device."""
    return replace(state, memory=(run, state.memory))


def _on_line(settled: tuple[tuple[Array, float], ...], width: float) -> Array:
    """Return the point of a width on the line through the minimisers of two others."""
    (before, wider), (w, narrow) = settled
    return w + (w - before) * ((narrow - width) / (wider - narrow))
