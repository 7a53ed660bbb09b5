"""Solve many problems of one formulation: paths, folds, bootstraps and permutations."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from convexrank.backend.interruption import OutOfTimeError, as_a_whole, check_time, ending_after, time_left
from convexrank.backend.jax_oracles import is_mesh
from convexrank.backend.progress import progress_bar, warn_caller
from convexrank.core.capabilities import Batched, SolverLike, value_at
from convexrank.core.loop import certificate_of, scale_of
from convexrank.core.many.solutions import Members, Solutions, met_at, too_late
from convexrank.core.problem import Problem
from convexrank.core.results import Certificate, ConvergenceWarning, Solution
from convexrank.core.solving import class_at, usable
from convexrank.data import check_flag, check_positive, read_array, shown
from convexrank.data.fields import parameters_of, sample_of
from convexrank.data.messages import progress_as_verbose

__all__ = ["solve_many"]

Array = np.ndarray
#: From problems, the points of a first guess and a tolerance to points, one per row; NaN where there is none.
Together = Callable[[Any, Array, float], Array]

# Methods that solve many problems together: on a device, and in numpy where all are sums of log-sum-exps with l2.
_ON_DEVICE = "jitted.batches:points_on_device"
_BY_GRAMS = "weighted_newton:points_by_grams"
# So many problems are worth it.
_FEW = 4
# The tolerance of a solution that others start from.
_NEAR = 1e-4


@progress_as_verbose
@as_a_whole
def solve_many(
    problem: Problem,
    *,
    solver: SolverLike = None,
    device: Any = None,
    tol: float = 1e-8,
    time_limit: float | None = None,
    verbose: bool = False,
    **parameters: Any,
) -> Solutions:
    r"""Solve many problems that differ from one in parameters or in weights of rows, each to its own certificate.

    On a device all problems of one shape run in one compiled program: the loop of ``jax-newton``, or else of
    ``jax-accelerated``, under ``vmap``, with X shared and the rest batched. On the host, sums of log-sum-exps with l2
    and a dense X (``PNormPush``, ``BottomPush`` and others) that differ in ``sample_weight`` or ``l2`` take steps
    together: scores and gradients of a block are one matrix product each, and Hessians, which begin with that of the
    mean, are formed where steps are slow and corrected by secants elsewhere.
    Certificates are evaluated in blocks, too, and threads share the blocks; a problem and its solution as objects are
    made when they are asked for. All other problems are solved one after the other, each from the solution before it,
    by the solver that is their default.

    However a point was found, a certificate of its own problem decides, evaluated from the definition by code that no
    solver runs. A problem whose point does not meet the tolerance is solved on its own from there.

    Parameters
    ----------
    problem : Problem
        The problem. Parameters that are not varied are its own.
    solver : str or solver object, optional
        Solve one after the other, by this solver.
    device : str, jax.Device or jax.sharding.Mesh, optional
        Solve together on a device of JAX, as in :meth:`convexrank.Problem.solve`; with a solver, on a mesh, or with
        kinks, one after the other. By default where X lies, as there.
    tol : float
        The tolerance of each, as in :meth:`convexrank.Problem.solve`.
    time_limit : float, optional
        Seconds for all of them; problems that nothing is left for end with status TIME_LIMIT.
    verbose : bool
        Whether to show a progress bar.
    **parameters : arrays
        Fields of the class, each with one entry per problem: numbers such as ``l2=[1.0, 0.1]`` or ``p=[1, 2]``, and
        arrays with the problems as their first axis, such as ``sample_weight`` or ``y`` of shape (B, n).

    Returns
    -------
    Solutions
        A sequence of solutions, with ``coefficients``, ``gaps``, ``statuses`` and ``to_frame()``.

    Raises
    ------
    ValueError, TypeError
        When nothing is varied, lengths differ, or a value is not one of the class; the message names the problem.
        When JAX has no such device.
    MemoryError
        When the data do not fit the device.

    Warns
    -----
    ConvergenceWarning
        Once, when some have not converged.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 3)), np.arange(60) % 3 == 0
    >>> problem = cr.problems.PNormPush(X, y, p=2, l2=0.1)
    >>> weights = rng.multinomial(60, np.full(60, 1 / 60), size=50).astype(float)
    >>> cr.solve_many(problem, sample_weight=weights)
    Solutions: 50 problems over sample_weight: 50 CONVERGED, gaps up to ... (... s)
    """
    tol, verbose = check_positive(tol, "tol"), check_flag(verbose, "verbose")
    limit = math.inf if time_limit is None else check_positive(time_limit, "time_limit", infinite=True)
    varied = _checked(problem, parameters)
    device = usable(problem, problem._home) if solver is None and device is None else device
    start, count = time.perf_counter(), len(next(iter(varied.values())))
    bar = progress_bar(verbose, count, f"{type(problem).__name__}, {count} problems")
    # the weights are read to their end, which is soon
    together = None if solver is not None or device is not None else _weighted(problem, varied)
    with ending_after(limit - (time.perf_counter() - start)), warnings.catch_warnings(), bar:
        warnings.simplefilter("ignore", ConvergenceWarning)
        if together is not None:
            members, met = _weighted_members(problem, varied, together, tol, bar.update)
        else:
            problems = [_made(problem, varied, place) for place in range(count)]
            members, met = _members(problem, problems, varied, solver, device, tol, bar.update)
    solutions = Solutions(varied, members, time.perf_counter() - start, met)
    if not solutions.converged.all():
        warn_caller(f"{solutions!r}; solutions[i].message says why.", ConvergenceWarning)
    return solutions


def _checked(problem: object, parameters: dict[str, Any]) -> dict[str, Array]:
    """Return what is varied as arrays of one length."""
    if not hasattr(problem, "changed") or isinstance(problem, type):
        raise TypeError(f"problem is {shown(problem)}, expected an instance of a problem.")
    if not parameters:
        raise ValueError(
            "nothing is varied; give an array with an entry per problem, such as l2=[1.0, 0.1] or sample_weight of "
            "shape (B, n)."
        )
    known = [name for name in parameters_of(problem) if name != "X"]
    varied = {}
    for name, values in parameters.items():
        if name not in known:
            raise ValueError(
                f"{name} is no parameter of {type(problem).__name__} that may vary, which has: {', '.join(known)}."
            )
        varied[name] = read_array(values, name)
        if varied[name].ndim == 0 or not len(varied[name]):
            raise ValueError(f"{name} is {shown(values)}, expected an array with an entry per problem.")
    lengths = {name: values.shape for name, values in varied.items()}
    if len({shape[0] for shape in lengths.values()}) > 1:
        told = ", ".join(f"{name} of shape {shape}" for name, shape in lengths.items())
        raise ValueError(f"{told}: expected the same number of problems, the first axis, in each.")
    return varied


def _made(problem: Problem, varied: dict[str, Array], place: int) -> Problem:
    values = {name: each[place] if each.ndim > 1 else each[place].item() for name, each in varied.items()}
    try:
        return problem.changed(**values)
    except (TypeError, ValueError) as error:
        raise type(error)(f"problem {place}: {error}") from error


def _first(problem: Problem, varied: dict[str, Array], tol: float) -> Array:
    """Return where the first problem starts: near the solution of the problem as it is, where only weights vary."""
    return problem.solve(tol=max(tol, _NEAR)).x if set(varied) == {"sample_weight"} else problem.start()


def _weighted(problem: Problem, varied: dict[str, Array]) -> Any:
    """Return what evaluates all problems in one pass; None where there is no such thing, or the problems are few."""
    fit = len(next(iter(varied.values()))) >= _FEW and set(varied) <= {"sample_weight", "l2"}
    return problem.face(Batched).members(varied.get("sample_weight"), varied.get("l2")) if fit else None


def _weighted_members(
    problem: Problem, varied: dict[str, Array], together: Any, tol: float, update: Callable[..., Any]
) -> tuple[Members, int]:
    """Solve and certify in one pass; what does not meet the tolerance so is solved on its own from there."""
    start, first, count = time.perf_counter(), problem.start(), len(together)
    points, bounds = (
        np.tile(first, (count, 1)),
        tuple(np.full(count, no) for no in (math.nan, math.inf, -math.inf)),
    )
    try:
        first = _first(problem, varied, tol)
        method: Together = class_at(_BY_GRAMS)
        points = method(together, first, tol)
        bounds = together.certificates(points)
        if 0 < len(again := np.flatnonzero(~_met(bounds, tol) & np.isfinite(points).all(axis=1))) < count:
            some = together.part(again)  # steps that were thought to be enough, and were not
            points[again] = method(some, points[again], tol)
            for whole, part in zip(bounds, some.certificates(points[again]), strict=True):
                whole[again] = part
    except OutOfTimeError:
        pass
    met = _met(bounds, tol)
    seconds = (time.perf_counter() - start) / count
    update(int(met.sum()))
    points[~np.isfinite(points).all(axis=1)] = first
    others: dict[int, Solution] = {}
    late = np.flatnonzero(~met).tolist()
    while late and time_left() > 0.0:  # else there is none for making the problems, either
        place = late.pop(0)
        others[place] = _alone(_made(problem, varied, place), points[place], tol)
        update()
    update(len(late))
    remembered = {name: sample_of(values) for name, values in varied.items() if values.ndim > 1}

    def made(place: int) -> Problem:
        for name, sample in remembered.items():
            if sample_of(varied[name]) != sample:
                raise ValueError(
                    f"{name} was edited in place after solve_many, whose problems are made of it when they are asked "
                    "for; pass a copy that nobody edits."
                )
        return _made(problem, varied, place)

    members = Members(points, bounds, others, made, type(problem).__name__, seconds, late)
    return members, int(met.sum())


def _met(bounds: tuple[Array, ...], tol: float) -> Array:
    """Return which certificates meet the tolerance, of values and gaps."""
    return bounds[1] <= tol * np.maximum(1.0, np.abs(bounds[0]))


def _members(
    problem: Problem,
    problems: Sequence[Problem],
    varied: dict[str, Array],
    solver: SolverLike,
    device: Any,
    tol: float,
    update: Callable[..., Any],
) -> tuple[Members, int]:
    """Solve together on a device, or one after the other; each certifies its own point."""
    found, together, first, points = [], 0, problem.start(), None
    method: Together | None = None
    try:
        if solver is None and device is not None and not is_mesh(device) and _has_batches(problem):
            method = class_at(_ON_DEVICE)(device)
        first = _first(problem, varied, tol)
        points = None if method is None else method(problems, first, tol)
    except OutOfTimeError:
        pass
    guess = first
    for place, each in enumerate(problems):
        solution = None if points is None else _accepted(each, points[place], tol)
        together += solution is not None
        if solution is None:
            point = guess if points is None else np.asarray(points[place])
            near = point if np.isfinite(point).all() else guess
            # the device was for all of them together, where that is possible
            solution = _alone(each, near, tol, solver, device if method is None else None)
        if solution.converged and "sample_weight" not in varied:
            guess = solution.x
        found.append(solution)
        update()
    return Members.of(found), together


def _has_batches(problem: Problem) -> bool:
    """Whether a compiled loop takes many of them at once."""
    return not problem.capabilities.isdisjoint({"JaxCurved", "JaxProximal"})


def _accepted(problem: Problem, x: Array, tol: float) -> Solution | None:
    """Return the solution at a point whose certificate meets the tolerance; None elsewhere."""
    if not np.isfinite(x).all():
        return None
    start = time.perf_counter()
    try:
        check_time()
        certificate = certificate_of(problem, x, None, math.inf)
    except OutOfTimeError:
        return None
    if not certificate.gap <= tol * scale_of(certificate.value):
        return None
    return met_at(x, certificate, time.perf_counter() - start, problem, type(problem).__name__)


def _alone(
    problem: Problem, x0: Array, tol: float, solver: SolverLike = None, device: Any = None
) -> Solution:
    left = time_left()
    if left <= 0.0:
        nothing = Certificate(math.inf, value_at(problem, x0), -math.inf)
        return too_late(x0, nothing, problem, type(problem).__name__)
    return problem.solve(solver, tol=tol, x0=x0, time_limit=None if math.isinf(left) else left, device=device)
