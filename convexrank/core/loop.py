"""The one loop that runs every iterative solver: tolerance, limits, callback, progress, trace, interruption."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np

from convexrank.backend.interruption import (
    NOW,
    OutOfTimeError,
    answered,
    check_interruption,
    ending_after,
    stopped_inside,
)
from convexrank.backend.progress import LOGGER, progress_bar, warn_caller
from convexrank.core.capabilities import (
    Advice,
    Certified,
    Existence,
    Method,
    Ordered,
    Solvable,
    has_objective,
    offers,
    value_at,
)
from convexrank.core.results import Certificate, Solution, Status, Witness

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Array = np.ndarray
P = TypeVar("P", bound=Solvable, contravariant=True)

# Ends that may have their reason in the data: the problem is asked before they are reported.
_UNEXPLAINED = (Status.FAILED, Status.UNBOUNDED)
#: Ends that the caller brought about: the point so far counts, and what is evaluated and proved about it in a moment,
#: which is this part of time_limit and no less than so many seconds.
STOPPED = (Status.INTERRUPTED, Status.TIME_LIMIT)
_PART, _MOMENT = 0.05, 0.15
# At least so many states later a certificate that refused is asked again.
_SOON = 50
# Ends at which the best point may meet the tolerance all the same: another point was looked at last.
_SHORT = (Status.FAILED, Status.MAX_ITER, Status.TIME_LIMIT)
# Ends at a state that may have part of its work before it.
_UNFINISHED = (*STOPPED, Status.MAX_ITER)
_UNDECIDED = "whether a minimiser exists was not decided in the time that was left; raise time_limit"
_NOWHERE_FINITE = "the objective is not finite where the solve began, so that there is no point to return"
_NOT_FROM_START = "the objective is not finite at x0, so that the solve began at the default start"


@dataclass(frozen=True)
class Options:
    """The options of the caller of ``solve``, validated."""

    tol: float
    max_iter: int | None
    time_limit: float
    callback: Callable[[Any], Any] | None
    verbose: bool
    top: int = 0  # how many first entries are to be in a proved order; the tolerance is enough, too
    checkpoint: Any = None  # where the best point so far is kept
    every: int = 10  # after so many iterations


@dataclass(frozen=True)
class State:
    """The state of an iterative solver.

    Parameters
    ----------
    x : ndarray
        The point that is returned if the loop stops here.
    value : float
        The objective at x; NaN if the problem has no objective.
    residual : float
        The solver's cheap estimate of value − optimum, or of the distance to the solution if there is no
        objective; when it meets the tolerance, the certificate is evaluated.
    memory : Any
        Other data of the solver.
    stalled : bool
        Whether further progress is impossible at this precision.
    witness : Witness, optional
        Evidence for the certificate.
    iteration : int
        Number of the iteration, set by the loop.
    tol : float
        The relative tolerance of the run, set by the loop after the first state; before that 0.
    complete : callable, optional
        For a residual that covers only a part of the problem, such as the columns that screening left: returns the
        state at the same point for the whole problem. The loop calls it before it reports convergence, and continues
        from that state.
    note : str
        What the message of the solution says of the run, such as that another method went on.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> seen = []
    >>> solution = problem.solve("lbfgs", callback=lambda state: seen.append((state.iteration, state.value)))
    >>> seen[0]
    (0, 0.0)
    """

    x: Array
    value: float
    residual: float
    memory: Any = field(default=None, repr=False)
    stalled: bool = False
    witness: Witness | None = field(default=None, repr=False)
    iteration: int = 0
    tol: float = 0.0
    complete: Callable[[], State] | None = field(default=None, repr=False)
    note: str = field(default="", repr=False)


class Solver(Method, Protocol[P]):
    """A method: hyper-parameters, the capabilities it needs, a first state and a step.

    The type of the problem is the protocol that the method needs, and declares all that the method calls.
    """

    def init(self, problem: P, x0: Array) -> State:
        """Return the state at the starting point."""
        ...

    def step(self, problem: P, state: State) -> State:
        """Return the state after one iteration."""
        ...


def is_iterative(method: Method) -> TypeIs[Solver[Any]]:
    """Return whether a method takes steps."""
    return hasattr(method, "step")


def certificate_of(problem: Solvable, x: Array, witness: Witness | None, residual: float) -> Certificate:
    """Return the problem's certificate; without one the residual, labelled so."""
    if offers(problem, Certified):
        return problem.certificate(x, witness)
    return Certificate(residual, math.nan, -math.inf, kind="residual")


class Monitor:
    """Keeps the trace and the best point, and decides when to stop."""

    #: What proves something about a point.
    prove = staticmethod(certificate_of)

    def __init__(self, problem: Solvable, solver: Method, options: Options, x0: Array | None = None) -> None:
        self.problem, self.solver, self.options = problem, solver, options
        self.has_objective, self.existence = has_objective(problem), problem.face(Existence)
        self.limit = options.max_iter if options.max_iter is not None else solver.default_max_iter
        self.start = time.perf_counter()
        self.trace: dict[str, list[float]] = {"objective": [], "gap": [], "seconds": []}
        self.best: State | None = None
        self.last: State | None = None  # from which the solver goes on
        self._x0 = x0  # only until there is a state: large problems count their arrays
        self.certificate: Certificate | None = None
        self._ask_below, self._ask_after = math.inf, 0
        self._logs = LOGGER.isEnabledFor(logging.DEBUG)
        self._shown = False  # whether the last point shows that there is no minimum
        self._bar = progress_bar(True, self.limit, type(problem).__name__) if options.verbose else None

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return time.perf_counter() - self.start

    def record(self, state: State) -> Status | None:
        """Take note of a state; return a status when it is time to stop."""
        self.trace["objective"].append(state.value)
        self.trace["gap"].append(state.residual)
        self.trace["seconds"].append(time.perf_counter() - self.start)
        self._x0, self.last = None, state
        if self._logs:
            words = (
                type(self.problem).__name__,
                self.solver.name,
                state.iteration,
                state.value,
                state.residual,
            )
            LOGGER.debug("%s with %s: step %d, objective %.12g, residual %.2g", *words)
        if self._bar is not None:
            self._bar.set_postfix_str(f"gap {state.residual:.1e}", refresh=False)
            self._bar.update(state.iteration - self._bar.n)
        if not (math.isfinite(state.value) or self.is_finite(state)):
            return Status.FAILED
        by = "value" if self.has_objective else "residual"
        if self.best is None or getattr(state, by) <= getattr(self.best, by):
            self.best, self.certificate = state, None
        terminal = self.existence.terminal_status(state.x)
        if terminal is not None:
            self.best, self._shown = state, True
            return terminal
        if (
            self.options.checkpoint is not None
            and state.iteration % self.options.every == 0 < state.iteration
        ):
            self._keep(self.best or state)
        # the callback sees every state, the last one included
        stop = self.options.callback is not None and self.options.callback(state) is True
        if self._is_certified(state):
            return Status.CONVERGED
        return Status.INTERRUPTED if stop else self._limits(state)

    def is_finite(self, state: State) -> bool:
        """Return whether a method can go on from a state."""
        if self.has_objective:
            return math.isfinite(state.value)
        is_known = self.best is not None and state.x is self.best.x
        return (is_known or bool(np.isfinite(state.x).all())) and not math.isnan(state.residual)

    def _limits(self, state: State) -> Status | None:
        if state.stalled:
            return Status.FAILED
        if state.iteration >= self.limit:
            return Status.MAX_ITER
        if self.trace["seconds"][-1] >= self.options.time_limit:
            return Status.TIME_LIMIT
        return None

    def _is_certified(self, state: State) -> bool:
        """Ask the certificate once the solver's own estimate is low enough; half as often each time it refuses.

        That is once the estimate is half of what it was, or after twice as many states, as it may have been too low.
        """
        enough = self.options.tol * scale_of(state.value)
        met = state.residual <= enough or (self.options.top > 0 and self._has_order(state, state.residual))
        states = len(self.trace["gap"])
        if not (state.stalled or (met and (state.residual <= self._ask_below or states > self._ask_after))):
            return False
        if state.complete is not None:
            part, state = state, replace(state.complete(), iteration=state.iteration)
            self.best, self.last = state if self.best is part else self.best, state
            self.trace["gap"][-1] = state.residual
            if not (state.stalled or state.residual <= enough):
                return False
        self._ask_below, self._ask_after = 0.5 * state.residual, 2 * states + _SOON
        certificate = self.prove(self.problem, state.x, state.witness, state.residual)
        if certificate.gap > enough and not self._has_order(state, certificate.gap):
            return False
        self.best, self.certificate = state, certificate
        return True

    def _has_order(self, state: State, gap: float) -> bool:
        """Return whether the order that was asked for, if any, is proved where the gap is that large."""
        top = self.options.top
        return top > 0 and len(self.problem.face(Ordered).proved_top(state.x, gap, top)) == top

    def _keep(self, best: State) -> None:
        """Write the best point so far, about which nothing is proved; a disk that is full stops no solve."""
        nothing = Certificate(math.inf, best.value, -math.inf)
        steps, status = len(self.trace["objective"]) - 1, Status.INTERRUPTED
        kept = self._solution(best, nothing, status, status.message, steps)
        try:
            kept.save(self.options.checkpoint)
        except OSError as error:
            warn_caller(
                f"the checkpoint {self.options.checkpoint} was not written at step {kept.iterations} ({error}); an "
                "older one stays as it was, and the solve goes on.",
                RuntimeWarning,
            )

    def finish(self, status: Status, detail: str = "") -> Solution:
        """Build the solution from the best point; that of a run that was stopped, in a moment."""
        if status not in STOPPED:
            return self._finish(status, detail)
        with ending_after(moment_after(self.options)):
            return self._finish(status, detail)

    def _finish(self, status: Status, detail: str) -> Solution:
        if self._bar is not None:
            self._bar.close()
        best = self.best
        if status in _UNFINISHED and not self.has_objective:
            best = self._completed(best)
        if best is None and status in STOPPED:
            self.best = best = self._start()
            status = status if status is Status.INTERRUPTED else self.proved(status)
        may_lack_minimiser = best is not None and self.existence.is_doubtful(best.x)
        doubtful = status in _UNEXPLAINED or (
            may_lack_minimiser and status in (Status.CONVERGED, Status.MAX_ITER)
        )
        found, undecided = self._nonexistence() if doubtful and not self._shown else (None, "")
        detail = "; ".join(filter(None, (detail, undecided)))
        if found is not None:
            status, direction, detail = found
            if not may_lack_minimiser:
                best, self.certificate = State(direction, value_at(self.problem, direction), math.inf), None
        message = f"{status.message}; {detail}" if detail else status.message
        if self.last is not None and self.last.note:
            message = f"{message}; {self.last.note}"
        states = len(self.trace["objective"])
        if best is None:  # no state was finite: there is no point to return
            message = f"{message}; {_NOWHERE_FINITE}"
            best = State(np.full(self.problem.dimension, np.nan), math.nan, math.inf)
            certificate, iterations = Certificate(math.inf, math.nan, -math.inf), states
        else:
            certificate, iterations = self.certificate, max(states - 1, 0)
            if certificate is None:
                certificate = self._certificate_of(best)
            if self.trace["gap"]:
                self.trace["gap"][-1] = certificate.gap
            message = message if status.lacks_minimum else f"{message} ({certificate})"
        return self._solution(best, certificate, status, message, iterations)

    def proved(self, status: Status) -> Status:
        """Return CONVERGED where the certificate of the best point meets the tolerance, whatever ended the run.

        A small residual does not say that a search among several stationary points is over.
        """
        if self.best is None or not self.has_objective:
            return status
        if self.certificate is None:
            with ending_after(moment_after(self.options) if status in STOPPED else math.inf):
                self.certificate = self._certificate_of(self.best)
        enough = self.options.tol * scale_of(self.best.value)
        if status is Status.FAILED and self.best.witness is not None and self.certificate.gap > enough:
            if self.problem.face(Advice).seeks_evidence:
                self._look_without_witness(enough)
        is_bound = self.certificate.kind != "residual"
        return Status.CONVERGED if is_bound and self.certificate.gap <= enough else status

    def _look_without_witness(self, enough: float) -> None:
        """Let the certificate look for evidence itself: that of the solver may be what it made no progress with."""
        alone, given = replace(cast(State, self.best), witness=None), cast(Certificate, self.certificate)
        with ending_after(max(self.options.time_limit - self.seconds, moment_after(self.options))):
            found = self._certificate_of(alone)
        if found.gap <= enough and found.kind in ("global", "ball", given.kind):
            self.best, self.certificate = alone, found

    def _completed(self, best: State | None) -> State | None:
        """The last state for the whole problem, where it is better than the best one."""
        if self.last is None or self.last.complete is None:
            return best
        try:
            whole = self.last.complete()
        except OutOfTimeError:
            return best
        return whole if best is None or whole.residual < best.residual else best

    def _nonexistence(self) -> tuple[tuple[Status, Array, str] | None, str]:
        """Return why there is no minimiser, in the time that is left; a remark where that is too short."""
        try:
            with ending_after(max(self.options.time_limit - self.seconds, moment_after(self.options))):
                return self.existence.explanation(), ""
        except OutOfTimeError:
            return None, _UNDECIDED

    def _solution(
        self, best: State, certificate: Certificate, status: Status, message: str, iterations: int
    ) -> Solution:
        return Solution(
            x=best.x,
            value=best.value,
            gap=certificate.gap,
            residual=best.residual,
            status=status,
            iterations=iterations,
            seconds=time.perf_counter() - self.start,
            trace=dict(zip(self.trace, map(np.array, self.trace.values()), strict=True)),
            certificate=certificate,
            solver=self.solver.name,
            problem=type(self.problem).__name__,
            message=message,
            witness=best.witness,
            instance=self.problem,
        )

    def _start(self) -> State:
        """The state of a run that was stopped before it had one; its value is NaN where that takes too long."""
        x, value = self.problem.start() if self._x0 is None else self._x0, math.nan
        with suppress(OutOfTimeError):
            value = value_at(self.problem, x)
        return State(x, value, math.inf)

    def _certificate_of(self, best: State) -> Certificate:
        """The certificate of the best point; where there is no time for it, that nothing is proved."""
        try:
            return self.prove(self.problem, best.x, best.witness, best.residual)
        except OutOfTimeError:
            return Certificate(math.inf, best.value, -math.inf)


def moment_after(options: Options) -> float:
    """Return how many seconds may be spent after a solve that was stopped."""
    return max(_PART * options.time_limit, _MOMENT) if math.isfinite(options.time_limit) else _MOMENT


def scale_of(value: float) -> float:
    """Return what a tolerance is multiplied by: max(1, \\|value\\|), and 1 where there is no objective."""
    return 1.0 if math.isnan(value) else max(1.0, abs(value))


def iterate(
    problem: Solvable,
    solver: Solver[Any],
    x0: Array,
    options: Options,
    monitored: Callable[..., Monitor] = Monitor,
) -> Solution:
    """Run a solver until the certificate meets the tolerance, a limit is reached, or Ctrl-C.

    Raises
    ------
    KeyboardInterrupt
        When Ctrl-C is pressed again, or is meant for more than this solve.
    """
    monitor, detail = monitored(problem, solver, options, x0), ""
    try:
        with ending_after(options.time_limit):
            state = solver.init(problem, x0)
            del x0  # large problems count their arrays
            # far away a steep risk, or the square of a length, is infinite
            if not (math.isfinite(state.value) or monitor.is_finite(state)):
                start = problem.start()
                if not np.array_equal(state.x, start):
                    state, detail = solver.init(problem, start), _NOT_FROM_START
            while (status := monitor.record(state)) is None:
                if NOW.get().due:
                    check_interruption()
                latest = monitor.last or state
                state = replace(solver.step(problem, latest), iteration=latest.iteration + 1, tol=options.tol)
    except (KeyboardInterrupt, Exception) as error:
        stop = stopped_inside(error)
        if stop is None:
            raise
        if stop is KeyboardInterrupt and not answered():
            raise KeyboardInterrupt from error
        status = Status.INTERRUPTED if stop is KeyboardInterrupt else Status.TIME_LIMIT
    return _finished(monitor, status, detail)


def _finished(monitor: Monitor, status: Status, detail: str) -> Solution:
    """Build the solution; that of an interrupted solve, where Ctrl-C was pressed since the last look."""
    try:
        if status in _SHORT:
            status = monitor.proved(status)
        solution = monitor.finish(status, detail)
        if NOW.get().due:
            check_interruption()
    except KeyboardInterrupt:
        if not answered():
            raise
        solution = monitor.finish(Status.INTERRUPTED)
    return solution
