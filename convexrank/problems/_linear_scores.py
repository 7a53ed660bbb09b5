"""Base class of problems with linear scores: scores Xw, the penalty, and the capabilities that follow from a risk."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from typing import Any, Self, cast

import numpy as np

from convexrank.backend import jax_oracles
from convexrank.backend.cached import LastValue, cached_property, hand_over, preset
from convexrank.backend.design import (
    Held,
    entries,
    held_as,
    in_units,
    row_lengths,
    squares_times,
    times,
    transposed_times,
)
from convexrank.backend.interruption import Block
from convexrank.backend.jax_oracles import RiskData, uses_jax
from convexrank.core.capabilities import Method, Modelled, Shape
from convexrank.core.certificates import FOR_ALL, certificate_radius, certify, evidence_at
from convexrank.core.cvxpy_model import CvxpyModel, model_of_scores
from convexrank.core.loop import Options, Solver, is_iterative
from convexrank.core.minorants import InBalls, LinearRisk, Minorant, tangent
from convexrank.core.problem import Problem
from convexrank.core.results import Certificate, CertificateError, Status, Witness
from convexrank.core.score_model import SampledCurvature, ScoreModel
from convexrank.core.separability import find_separation
from convexrank.data import (
    check_choice,
    check_flags,
    check_matrix,
    check_nonnegative,
    keep,
    keep_checked,
    shown,
)
from convexrank.data.checks.values import LARGEST_ENTRY
from convexrank.data.shards.local import arguments_of, asked_of
from convexrank.problems._conditioning import (
    MOST_BUILT,
    ColumnsInUnits,
    InUnits,
    SpanOfRows,
    centred,
    columns_are_alike,
    long,
    units_of,
    units_of_columns,
    units_of_steps,
    weak_beyond,
)
from convexrank.problems._largest_l1 import least_steepness, proved_zeros
from convexrank.problems._solver_choice import Choice, choose
from convexrank.problems.out_of_memory._streams import Stream, check_chunks
from convexrank.regularizers import Penalty
from convexrank.solvers.row_faces import Columns, Columnwise, Compiled, Sampled, ScoreRisk, prox_on_device
from convexrank.solvers.through_another import ChangeOfVariables

Array = np.ndarray
_DTYPES = {"float64": np.float64, "float32": np.float32}
# What a weak penalty does not prove to this precision is shown within a ball.
_CERTAIN = 1e-9
# From this size of a risk on it matters how l2 compares with the features alone.
_COUNTS = 2e9
# From this size on the scores that a risk is about are large: those of losses of margins are about 1.
_LARGE_SCALE = 100.0

# A loss e^(-z) is below 1e-5 of its size at 0 beyond this difference of scores.
_SPREAD = 12.0
# Columns larger than others by more than this lose all digits of what l2 costs for their weights.
_FAR_LARGER = 2.0**24


@dataclass(frozen=True, eq=False)
class LinearScores(Problem):
    r"""Base of the problems :math:`\min_w R(Xw) + \tfrac{\lambda_2}{2}\|w\|^2 + \lambda_1\|w\|_1`.

    A formulation gives its risk R three times, and the verifier compares the three: as a JAX function
    (``_jax_risk``), as a cvxpy expression (``_risk_model``), and as plain numpy with a subgradient
    (``_reference_scores``), on which certificates rest.
    """

    X: Any
    l2: float = field(default=0.0, kw_only=True)
    l1: float = field(default=0.0, kw_only=True)
    dtype: str = field(default="float64", kw_only=True)

    def __post_init__(self) -> None:
        kind = check_choice(self.dtype, _DTYPES, "dtype")
        if uses_jax(self.X):
            from convexrank.solvers.jitted.devices import home_of

            preset(self, _home=home_of(*vars(self).values()))
        keep(self, X=check_matrix(self.X, dtype=kind, most=LARGEST_ENTRY))
        check_flags(self)
        keep_checked(self, check_nonnegative, "l2", "l1")
        if not self._held.in_memory:
            self.X.check_same_arguments(type(self).__name__, partial(arguments_of, self))
            keep(self, _over_processes=True)
            check_chunks(self, self.X, self._takes_chunks, bool(self.l1 or self.l2))
        if not self._held.built and not self._takes_designs:
            raise TypeError(
                f"X is {shown(self.X)}, but {type(self).__name__} works on a matrix; pass X.toarray()."
            )
        if not self._held.built and self.l1 == 0 and self.l2 == 0:
            raise ValueError(
                f"X is {shown(self.X)}, which separates nearly all data, and both l1 and l2 are 0, so that there would "
                "be no minimiser; give l1 (problem.l1_max() tells where all weights are 0)."
            )

    # --- what a formulation states --------------------------------------------------------------------------------

    #: Whether the risk is differentiable.
    _differentiable = True

    #: Whether the risk is convex.
    _convex = True

    #: Whether X may be a design that is never built.
    _takes_designs = True

    #: Whether X may be :class:`convexrank.data.Chunks`, rows out of memory.
    _takes_chunks = False

    @cached_property
    def _stream(self) -> Stream | None:
        """The evaluator of rows out of memory in one pass; None if X or all n scores are in memory."""
        return None

    #: Whether ``_score_model`` has the curvature of the risk.
    _states_curvature = False

    #: A number that the risk is never below.
    _risk_infimum = 0.0

    @property
    def _jax_risk(self) -> RiskData:
        """The risk as a JAX function of the (padded) parts of the scores."""
        raise self._unstated("_jax_risk", "a RiskData, what the fast solvers run")

    def _split(self, scores: Array) -> tuple[Array, ...]:
        """Cut a score vector into the parts that the risk takes."""
        return (scores,)

    def _join(self, parts: tuple[Array, ...]) -> Array:
        """Put gradients with respect to the (padded) parts together again: the transpose of ``_split``."""
        return parts[0][: self.rows]

    def _risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression of the scores, and constraints that go with it."""
        raise self._unstated("_risk_model(scores)", "a cvxpy expression and a list of constraints")

    def _reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and one subgradient in the scores, in plain numpy from the definition."""
        raise self._unstated("_reference_scores(scores)", "the risk and one subgradient, in plain numpy")

    #: Whether a risk has smoother functions below it: the members ``smoothed`` and ``_reference_below``.
    _has_smoothing = False

    #: Whether a differentiable risk has almost kinks, so large are scores that nothing but a small l2 bounds.
    _is_steep = False

    def _reference_below(self, scores: Array, width: float) -> tuple[float, Array]:
        """Return a linear function below the risk: its value at the scores, and its slope, in plain numpy.

        Its multipliers are those of the risk smoothed by the width. By default the tangent, whatever the width.
        """
        return self._reference_scores(scores)

    #: Whether the risk reaches its infimum on separable data (hinge-like losses do).
    _attained = False

    def _is_separating(self, w: Array) -> bool:
        """Return whether the scores Xw rank every pair strictly as asked."""
        return False

    def _ordering(self) -> tuple[Any, Any] | None:
        """Return (A, B) such that (w, t) ranks no pair wrongly exactly when Aw + Bt ≥ 0, t auxiliary thresholds.

        None if no such inequalities are known; then linear programming proves nothing.
        """
        return None

    # --- what follows ---------------------------------------------------------------------------------------------

    #: A constraint on w, if the problem has one.
    _ball = None

    @cached_property
    def penalty(self) -> Penalty:
        """The part of the objective that depends on w alone."""
        nonnegative = None if self._held.built else self._held.nonnegative
        return Penalty(self.l2, self.l1, self._ball, nonnegative)

    #: Whether the exact model is convex by a theorem only, and goes to a nonlinear solver.
    _model_is_nonlinear = False

    @cached_property
    def _held(self) -> Held:
        return held_as(self.X)

    @property
    def rows(self) -> int:
        """Number of examples n."""
        return int(self.X.shape[0])

    @cached_property
    def dimension(self) -> int:
        """Number of weights d."""
        return int(self.X.shape[1])

    #: Whether the risk depends on differences of scores only, so that an offset of the features has no effect.
    _depends_on_differences = False

    @cached_property
    def _centred(self) -> Self | None:
        """The same objective with more digits, of rows without a large offset that all share; None if there is none."""
        plain = isinstance(self.X, np.ndarray) and self.X.dtype == np.float64
        if not plain or not self._depends_on_differences or self._mean_squares is None:
            return None
        rows = centred(self.X, self._mean_squares)
        made = None if rows is None else self.changed(X=rows)
        if made is not None:
            preset(made, _centred=None)
        return made

    def _adapted(self, solver: Method, options: Options | None) -> Method:
        """Return the method on the problem in better conditioned features, where there are such; else as it is."""
        if options is not None and not self._held.in_memory:
            asked = partial(asked_of, solver, options)
            self.X.check_same_arguments(f"{type(self).__name__}.solve({solver.name!r})", asked)
        if not is_iterative(solver):
            return solver
        base = self if self._centred is None else self._centred
        if "Smoothable" in solver.requires and (span := base._span) is not None:
            fewer = self.changed(X=span.rows)
            inner = cast("Solver[Any]", fewer._adapted(solver, None))
            return ChangeOfVariables(inner, fewer, span.enter, span.leave)
        if not self._held.built:
            return solver
        penalised = self.l1 > 0 or (self.l2 > 0 and not self._differentiable)
        if penalised and self._ball is None and solver.requires <= ColumnsInUnits.OFFERED:
            each = None if "Field" in self.capabilities else units_of_columns(base._column_scales)
            if each is not None:
                scaled = ColumnsInUnits(base, base.X, base._risk_model, each)
                return ChangeOfVariables(solver, scaled, lambda w: w / each, lambda v: v * each)
        # methods for differentiable objectives take account of units by themselves
        found = None if self._differentiable and self.l1 == 0 else base._in_steps
        if found is None:
            return solver if base is self else ChangeOfVariables(solver, base, np.copy, np.copy)
        units, scaled = found
        return ChangeOfVariables(solver, scaled, lambda w: w / units, lambda v: v * units)

    @cached_property
    def _span(self) -> SpanOfRows | None:
        """A space that has the minimiser for any labels and strengths of l2; None where no smaller one is known."""
        fits = (
            "Smoothable" in self.capabilities and self.dtype == "float64" and self.penalty.nonnegative is None
        )
        return SpanOfRows.of(self.X) if fits else None

    @cached_property
    def _in_steps(self) -> tuple[Array, Self] | None:
        """Units in which steps are taken, and the problem in these; None where those of the features will do."""
        units = units_of_steps(self.penalty, self._column_scales)
        return None if units is None else (units, self._times(units))

    def _times(self, units: Array) -> Self:
        """Return the same problem as one of v = w/units, with the same values."""
        before, unit = self._steps_before, float(units[0])
        known = before[1] if before is not None and np.array_equal(before[0], units) else None
        X = in_units(self.X, units) if known is None else known.X
        made = self.changed(X=X, l2=self.penalty.l2 * unit * unit, l1=self.penalty.l1 * unit)
        if self._mean_squares is not None:
            preset(made, _mean_squares=self._mean_squares * units**2)
        if known is not None:
            hand_over(known, made, "_columns", "_row_lengths")
        return made

    @cached_property
    def _steps_before(self) -> tuple[Array, Self] | None:
        """The same of the problem with these features that this one was made of, such as the last one of a path."""
        return None

    def _shape(self) -> Shape:
        return Shape(self._scales_of_steps, self.l2 if self._convex else 0.0, self._risk_infimum)

    def _other_risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression in the other form of the model; by default as in the first."""
        return self._risk_model(scores)

    def _modelled(self) -> Modelled:
        # interior points solve some instances in the form with a variable for the scores only; w = 0 is feasible
        return Modelled(partial(self.to_cvxpy, explicit_scores=True), self._model_is_nonlinear, True)

    def _timed(self, seconds: float | None) -> AbstractContextManager[float | None]:
        return self._held.ending_after(seconds)

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """Names of the capabilities of this instance."""
        if not self._convex:
            return frozenset({"Smooth", "JaxObjective", "Certified"})
        smooth, built = self.penalty.smooth, self._held.built
        in_memory, differentiable = self._held.in_memory, self._differentiable
        offered = {
            "Convex": True,
            "Certified": True,
            "Exact": in_memory,
            "Proximal": differentiable,
            "Smooth": differentiable and smooth,
            "Sampled": differentiable and smooth,
            "JaxObjective": differentiable and smooth and built,
            "JaxProximal": differentiable and built and in_memory,
            "TwiceDifferentiable": differentiable and smooth and built and self._has_curvature,
            "Columnwise": differentiable and in_memory and self.penalty.ball is None and not smooth,
            "SmoothBelow": not (differentiable and smooth) and self._is_smoothed,
            "Smoothable": smooth
            and self.l2 > 0
            and (not differentiable or self._is_steep)
            and self._is_smoothed,
        }
        return frozenset(compress(offered, offered.values()))

    @property
    def _is_smoothed(self) -> bool:
        """Whether smooth functions below are known, and the rows of X that they take; a small design is built."""
        if not self._held.in_memory or not (self._held.built or self.rows * self.dimension <= MOST_BUILT):
            return False
        return self._has_smoothing

    @property
    def default_solver(self) -> str:
        """The fast solver that fits: newton, lbfgs, working-sets, accelerated, continuation or bundle."""
        return self._choice.solver

    @cached_property
    def _choice(self) -> Choice:
        return choose(
            self.X,
            self.capabilities,
            pairwise_curvature=self._pairwise_curvature,
            sample_rows=self._sample_rows,
            states_curvature=self._states_curvature,
            columns_differ=self._columns_differ,
        )

    @property
    def _columns_differ(self) -> bool:
        """Whether some columns are so large beside a risk with kinks that l2 is rounding for their weights."""
        if self._differentiable or not (self._held.built and self._held.in_memory and self.l2 > 0):
            return False
        units = units_of_columns((self if self._centred is None else self._centred)._column_scales)
        return units is not None and float(units.max()) > _FAR_LARGER * float(units.min())

    def _default_reason(self) -> str:
        """Reason for the default solver; nothing where a formulation has a default of its own."""
        return self._choice.reason if self._choice.solver == self.default_solver else ""

    #: Whether there are second derivatives that are cheap enough for Newton's method.
    _has_curvature = False

    #: Whether second derivatives run over all pairs, and gradients over rows.
    _pairwise_curvature = False

    #: The rows of a sample that tells the shape of the objective; 0 where none is drawn.
    _sample_rows = 0

    def _sample(self) -> Any:
        """Return the problem of a sample of the rows; None where it does not pay."""
        return None

    def _sampled_curvature(self, w: Array) -> SampledCurvature | None:
        """Return what some rows tell of the Hessian at w; None where that does not pay, or a sample tells it."""
        return None

    def _sampled(self) -> Sampled:
        def reference(w: Array) -> tuple[float, Array]:
            value, slope = self._reference_risk(w)
            return value + 0.5 * self.l2 * float(w @ w), slope + self.l2 * w

        return Sampled(self._sample, self._sampled_curvature, reference)

    def check_point(self, x: Any, name: str = "w") -> Array:
        """Return w as a vector of the right length; for a Solution its point."""
        # what solvers pass, many times: finite, of the right kind
        if type(x) is np.ndarray and x.dtype == np.float64 and x.shape == (self.dimension,):
            if math.isfinite(float(x @ x)):
                return x
        return super().check_point(x, name)

    def scores(self, w: Array) -> Array:
        """Return the scores Xw, read-only; those of the last w are kept, because several members use them in turn."""
        return self._last_scores.at(w, partial(times, self.X))

    @cached_property
    def _last_scores(self) -> LastValue:
        return LastValue()

    def _risk_and_score_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, from the compiled oracle."""
        risk = self._jax_risk
        # in float64 for data of all types: the product with X magnifies the rounding of scores and slopes
        parts = tuple(
            jax_oracles.pad(part.astype(np.float64, copy=False), size)
            for part, size in zip(self._split(scores), risk.sizes, strict=True)
        )
        value, gradients = jax_oracles.value_and_gradient(risk.function, risk.data, parts)
        return value, self._join(gradients)

    def _score_risk(self) -> ScoreRisk:
        return ScoreRisk(self._risk_and_score_gradient, self._reference_scores)

    def _score_model(self, scores: Array) -> ScoreModel:
        """Return the risk to second order in the scores; without curvature where a formulation states none."""
        return ScoreModel(*self._risk_and_score_gradient(scores))

    def changed(self, **values: Any) -> Self:
        """Return the same problem with other parameters; what follows from X alone is not computed again."""
        made = super().changed(**values)
        if values.keys().isdisjoint({"X", "dtype"}):
            hand_over(self, made, "_columns", "_row_lengths", "_home", "_span")
            preset(made, _steps_before=vars(self).get("_in_steps") or self._steps_before)
            if values.keys() <= {"l1", "l2"}:
                hand_over(self, made, "_mean_squares")
            if type(self)._split is LinearScores._split:  # the labels are no part of it
                hand_over(self, made, "_padded_columns")
            if "_centred" in vars(self):
                preset(made, _centred=None if self._centred is None else self._centred.changed(**values))
        return made

    @cached_property
    def _columns(self) -> Columns:
        return Columns(self.X)

    def _columnwise(self) -> Columnwise:
        return Columnwise(
            self.X,
            self._row_lengths,
            self._score_model,
            self.penalty,
            self._columns,
            self._risk_infimum,
            self.gap_estimate,
            self._terminal_status,
        )

    def _shared_at_zero(self) -> tuple[Array, Array, Array] | None:
        """Rows that share the slope of the highest at scores of 0, none without a kink, the most of each, its query.

        None if they are not known.
        """
        none = np.zeros(0, dtype=np.intp)
        return (none, np.zeros(0), none) if self._differentiable else None

    def l1_max(self) -> float:
        r"""Return the smallest :math:`\lambda_1` whose minimiser is w = 0: :math:`\min_u \|X^\top u\|_\infty`.

        The minimum is over the subgradients u of the risk at scores of 0. A risk that is smooth there has only one,
        also a hinge, whose kink is elsewhere. If rows share a maximum, or a mean of the highest, a linear program with
        an unknown for each of these rows decides, of all queries together. Neither l2 nor a ball has an effect. Among
        weights that must be at least 0, only those that would increase are included.

        Raises
        ------
        ValueError
            When the risk is not convex, or its subgradients at 0 are not known.
        """
        shared = self._shared_at_zero() if self._convex else None
        if shared is not None and not len(shared[0]):
            slope = self.risk_and_subgradient(np.zeros(self.dimension))[1]
            return max(self.penalty.steepness(-slope), 0.0)
        if shared is None or not self._held.in_memory:
            raise ValueError(
                f"l1_max is not known for {type(self).__name__} with these arguments: its risk is not convex, or has a "
                "kink at scores of 0 whose subgradients are not stated; solve it for several l1 instead."
            )
        pull = self._reference_scores(np.zeros(self.rows))[1]
        return least_steepness(self.X, pull, *shared, self.penalty)

    def zero_weights(self, x: Any, witness: Witness | None = None) -> Array:
        r"""Return which weights are proved to be 0 at every minimiser, by the gap at x: gap-safe screening.

        A weight is 0 where the slope of the risk along its column stays below :math:`\lambda_1` by more than that
        slope can be from the one at a minimiser. The smaller the gap, the more is proved. O(nd). The source of
        :mod:`convexrank.problems._largest_l1` derives the radius.

        Parameters
        ----------
        x : array or Solution
            A point; a solution includes its witness.
        witness : Witness, optional
            Evidence for a bound without a ball.

        Returns
        -------
        ndarray of bool, shape (d,)
            False where nothing is proved: everywhere without l1, with a ball, for rows out of memory, where only a
            bound over a ball is known, and for risks other than sums of log-sum-exps of scores and squares of them.

        Examples
        --------
        >>> import convexrank as cr
        >>> X = [[1.0, 0.1], [2.0, -0.1], [1.5, 0.2], [0.0, -0.2]]
        >>> problem = cr.problems.PNormPush(X, [1, 1, 0, 0], p=1, l1=0.1)
        >>> problem.zero_weights(problem.solve()).tolist()
        [False, True]
        """
        w, given = self.check_point(x, "x"), Witness.of(x, witness)
        if self.l1 == 0 or self.penalty.ball is not None or not self._held.in_memory:
            return np.zeros(self.dimension, dtype=bool)
        return proved_zeros(self._linear_risk(), self._columnwise(), w, given)

    def risk_and_subgradient(self, w: Array) -> tuple[float, Array]:
        """Return the risk and a subgradient with respect to w."""
        if self._stream is not None:
            return self._stream.risk_and_subgradient(w)
        with np.errstate(over="ignore", invalid="ignore"):  # far away a steep risk is infinite; callers check
            value, gradient = self._risk_and_score_gradient(self.scores(w))
            return value, np.asarray(transposed_times(self.X, gradient), dtype=np.float64)

    def smooth_value_and_gradient(self, w: Array) -> tuple[float, Array]:
        """Return risk + l2/2·‖w‖² and its gradient."""
        value, gradient = self.risk_and_subgradient(w)
        return value + 0.5 * self.l2 * float(w @ w), gradient + self.l2 * w

    def value_and_gradient(self, w: Any) -> tuple[float, Array]:
        """Return the objective and its gradient; l1 and balls have none, see ``prox``.

        Raises
        ------
        ValueError
            When the objective is not differentiable as a whole.
        """
        if "Smooth" not in self.capabilities:
            raise ValueError(
                f"{type(self).__name__} with these arguments is not differentiable; use smooth_value_and_gradient "
                "and prox, or risk_and_subgradient."
            )
        return self.smooth_value_and_gradient(self.check_point(w))

    def gradient(self, w: Any) -> Array:
        """Return the gradient of the objective, shape (d,)."""
        return self.value_and_gradient(w)[1]

    @cached_property
    def _padded_columns(self) -> tuple[Any, ...]:
        """The transpose of X cut and padded like the scores, on JAX's device."""
        return jax_oracles.padded_columns(self._split(entries(self.X)), self._jax_risk.sizes)

    def prox(self, v: Array, step: float) -> Array:
        """Proximal map of l1 and the ball."""
        return self.penalty.prox(v, step)

    def nonsmooth_value(self, w: Array) -> float:
        """Return the part of the objective that is not smooth: l1 and the ball."""
        return replace(self.penalty, l2=0.0).value(w)

    def project_feasible(self, x: Array) -> Array:
        """Return the nearest feasible point; conic solvers violate constraints by their tolerance."""
        return self.penalty.prox(x, 0.0)

    def gap_estimate(self, w: Array, value: float, gradient: Array) -> float:
        """Estimate value − optimum from the gradient of the smooth part, at no cost, for solvers."""
        if self._in_units is not None:
            return self._in_units.gap_estimate(w, value, gradient)
        penalty, radius = self.penalty, math.inf
        if not penalty.bounded:
            radius = certificate_radius(penalty, self._risk_infimum, w, value, self._length_scale)[1]
        found = penalty.gap(w, self.l2 * w - gradient, radius)
        if not (value > self._weak_beyond and self._is_weak_beside(value)):
            return found
        return min(found, self._with_a_ball.gap_estimate(w, value, gradient))

    def objective(self, w: Any) -> float:
        """Evaluate the objective at w; infinity outside a ball constraint."""
        w, stream = self.check_point(w), self._stream
        if self._centred is not None:
            return self._centred.objective(w)
        with np.errstate(over="ignore", invalid="ignore"):  # far away a steep risk is infinite
            at_scores = stream is None
            found = (
                self._risk_and_score_gradient(self.scores(w)) if at_scores else stream.risk_and_subgradient(w)
            )
        return found[0] + self.penalty.value(w)

    def jax_objective(self) -> Callable[[Any], Any]:
        """Return the objective as a JAX function of w, with the data on JAX's default device and without the ball.

        Call it inside ``jax.enable_x64(True)`` to keep float64. The function is a pytree, whose leaves are the data
        and penalties: a program that takes it as an argument serves all problems of one shape class.
        """
        return jax_oracles.penalised(self._jax_risk, self._padded_columns, self.l2, self.l1)

    def _jax_smooth(self) -> Callable[[Any], Any]:
        return jax_oracles.penalised(self._jax_risk, self._padded_columns, self.l2, 0.0)

    def _compiled(self) -> Compiled:
        prox = partial(prox_on_device, self.penalty)
        return Compiled(self.jax_objective, self._jax_smooth, prox, self.dtype, self.rows)

    def to_cvxpy(self, explicit_scores: bool = False) -> CvxpyModel:
        """Return the exact model.

        Parameters
        ----------
        explicit_scores : bool
            Whether the scores are a separate variable, equal to Xw by a constraint. An interior-point method may fail
            on one of the two forms of a problem and solve the other.

        Returns
        -------
        CvxpyModel
            ``.problem`` (a cvxpy.Problem whose value is the objective) and ``.variables["w"]``.

        Raises
        ------
        ValueError
            When the problem is not convex: then no model of it can be solved exactly.
        """
        if not self._convex:
            raise ValueError(
                f"{type(self).__name__} with these arguments is not convex, so it has no exact model."
            )
        risk = self._other_risk_model if explicit_scores else self._risk_model
        return model_of_scores(
            entries(self.X), risk, self.penalty, apart=explicit_scores, nonlinear=self._model_is_nonlinear
        )

    def _linear_risk(self) -> LinearRisk:
        return LinearRisk(
            self.penalty,
            self.dimension,
            self._differentiable,
            self._risk_infimum,
            lambda: self._length_scale,
            self._reference_minorant,
        )

    def _reference_risk(self, w: Array) -> tuple[float, Array]:
        """Return the risk and a subgradient in w from the definition, for certificates."""
        with np.errstate(over="ignore", invalid="ignore"):  # far away a steep risk is infinite; callers check
            found = self._reference_minorant(w)
        return found.risk, found.slope

    def _reference_minorant(self, w: Array, width: float = 0.0) -> Minorant:
        """Return a tangent of the risk at w from the definition, with its rounding, for certificates."""
        if self._stream is None:
            return self._minorant_of(w, width, self._row_lengths)
        return self._stream.minorant(w)

    def _minorant_of(self, w: Array, width: float, lengths: Array) -> Minorant:
        """Return the tangent at w, or what a smoothed risk proves there; rounding is for rows of these lengths."""
        below = partial(self._reference_below, width=width) if width > 0.0 else self._reference_scores
        return tangent(self.X, lengths, below, w)

    @cached_property
    def _length_scale(self) -> float:
        """A large length of w in the units of the features: scores are of size 1 in each column, or 100 altogether.

        Where the risk is about larger scores they are as many times larger.
        """
        longest = float(self._row_lengths.max()) if self._held.in_memory else self.X.longest
        return self._score_scale * long(longest, float(self._column_scales.max()))

    @cached_property
    def _score_scale(self) -> float:
        """The size of scores that the risk is about where that is large, as with large targets; else 1.

        It is how far all scores have to move for the risk where they are 0 to fall by its own size.
        """
        if self._stream is not None:  # a rank sees its own rows alone; a penalty bounds w there
            return 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            risk, slope = self._risk_and_score_gradient(np.zeros(self.rows))
            scale = risk / float(np.abs(slope).sum()) if slope.any() else 1.0
        return scale if _LARGE_SCALE < scale < math.inf else 1.0

    @property
    def _row_counts(self) -> Array | None:
        """Weights of the rows, shape (n,); None if all weights are equal."""
        return None

    @cached_property
    def _mean_squares(self) -> Array | None:
        """The mean square of each column; None where those of a design are unknown."""
        if not self._held.built:
            return self.X.mean_squares
        counts = self._row_counts
        return squares_times(self.X, counts) / (self.rows if counts is None else counts.sum())

    @cached_property
    def _column_scales(self) -> Array:
        """Units of the unknowns that equalise their effects on scores and penalty, powers of two; 1 for designs."""
        squares = self._mean_squares
        return np.ones(self.dimension) if squares is None else units_of(squares + self.l2)

    @cached_property
    def _scales_of_steps(self) -> Array:
        """The same beside the risk where all scores are equal, which counts where l2 is more than a column."""
        squares = self._mean_squares
        if squares is None or not self._held.in_memory or self.l2 <= float(squares.min()):
            return self._column_scales
        return self._scales_beside(self._size)

    @cached_property
    def _size(self) -> float:
        """The risk where all scores are equal; at least 1."""
        size = self.objective(np.zeros(self.dimension))
        return size if 1.0 < size < math.inf else 1.0

    def _scales_beside(self, size: float) -> Array:
        """Return the units for a risk of some size."""
        squares = self._mean_squares
        return np.ones(self.dimension) if squares is None else units_of(squares + self.l2 / size)

    @cached_property
    def _row_lengths(self) -> Array:
        """Euclidean lengths of the rows of X, shape (n,)."""
        return row_lengths(self.X)

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound value − optimum at x; see :mod:`convexrank.core.certificates`."""
        self._refuse_edited()
        w, problem = self.check_point(x, "x"), self if self._centred is None else self._centred
        given = None if witness is None else Witness.of(w, witness)
        if problem._in_units is not None:
            return problem._in_units.certificate(w, given)
        found = certify(problem._linear_risk(), w, given)
        enough = _CERTAIN * max(1.0, abs(found.value))
        if found.gap <= enough or not found.value > problem._weak_beyond:
            return found
        if not problem._is_weak_beside(found.value):  # asked last: it may evaluate the risk
            return found
        ball = problem._with_a_ball
        near = ball.certificate(w, given)
        if near.gap > enough and given is not None and not (self._differentiable or given.is_smoothed):
            # rounding decides on which side of a kink a point of the solver lies; here others are looked for
            near = min(near, ball.certificate(w, None), key=lambda one: one.gap)
        return near if near.gap <= enough or FOR_ALL * near.gap < found.gap else found

    @cached_property
    def _in_units(self) -> InUnits | None:
        """The problem with a ball of w/units; None if a penalty bounds w, or the columns have similar sizes."""
        penalty = self.penalty
        if penalty.bounded or not penalty.smooth or not self._held.built:
            return None
        return None if columns_are_alike(self._column_scales) else self._made_in_units()

    @cached_property
    def _weak_beyond(self) -> float:
        """The value beside which the penalty is weak and magnifies rounding, so that a ball as of none proves more."""
        if self._stream is not None or self.penalty.ball is not None:
            return math.inf
        return self._weak_beyond_of(self.penalty)

    def _weak_beyond_of(self, penalty: Penalty) -> float:
        found = weak_beyond(penalty, self._column_scales)
        # units of the features alone: those with l2 are the same where it does not count beside these
        return found if found < _COUNTS else weak_beyond(penalty, self._scales_beside(math.inf))

    def _is_weak_beside(self, value: float) -> bool:
        """Whether a penalty that is weak beside a value is so in units of the scores that the risk is about."""
        unit = self._score_scale
        return unit == 1.0 or value / unit**2 > self._weak_beyond_of(
            replace(self.penalty, l1=self.penalty.l1 / unit)
        )

    @cached_property
    def _with_a_ball(self) -> InUnits:
        """The problem with a ball, without penalties that are weak beside the risk where all scores are equal."""
        return self._made_in_units(max(self._size / self._score_scale**2, 1.0))

    def _made_in_units(self, size: float = 1.0) -> InUnits:
        scales = self._scales_beside(size)
        return InUnits(self._linear_risk(), self.X, scales, self._minorant_of, size, self._score_scale)

    def _in_balls(self) -> InBalls:
        def dual() -> Any:
            known = self._conjugate
            return None if known is None or known.rest is not None else self.dual()

        risk, with_l1 = self._linear_risk(), lambda l1: self.changed(l1=l1)
        return InBalls(self.X, risk, self._ball_tangent, self._ball_below, dual, with_l1)

    def _ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, from the definition, for proofs; shape (n,) in and out."""
        raise CertificateError(
            f"{type(self).__name__} has no form in balls (a method _ball_tangent), so that nothing is proved about it."
        )

    def _ball_below(self, scores: Any, width: float) -> Any:
        """Return :meth:`_reference_below` in ball arithmetic, by default the tangent."""
        return self._ball_tangent(scores)

    def _as_tangents(self, x: Array, witness: Witness | None) -> Witness | None:
        """Leave out evidence of smoothed risks: the bundle method has tangents, or a certificate finds some."""
        kinks = not self._differentiable
        if witness.is_smoothed if witness is not None else kinks:
            from convexrank.solvers.descent.bundle import Bundle

            with Block("whole"):
                found = self.solve(Bundle(newton=False), x0=x)
            witness = found.witness or evidence_at(self._linear_risk(), found.x)
        from convexrank.proof.linear import off_kinks

        return off_kinks(self._linear_risk(), witness) if kinks else witness

    def prove(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Prove a bound on value − optimum at x; see :mod:`convexrank.proof`."""
        if not self._held.in_memory:
            raise CertificateError(
                f"X is {self.X!r}, rows out of memory, which proofs in ball arithmetic do not read."
            )
        from convexrank.proof.linear import prove_linear

        given = Witness.of(x, witness)
        return prove_linear(self, self.check_point(x, "x"), given)

    @property
    def _unpenalised(self) -> bool:
        return not self.penalty.bounded and self.l1 == 0

    def _terminal_status(self, w: Array) -> Status | None:
        """Recognise separable data: without a penalty, a separating w shows that no minimiser exists."""
        if self._centred is not None:
            return self._centred._terminal_status(w)
        return (
            Status.SEPARABLE if self._unpenalised and not self._attained and self._is_separating(w) else None
        )

    def _may_lack_minimiser(self, w: Array) -> bool:
        """Return whether scores of a converged point differ so much that the minimiser may be at infinity."""
        if not self._unpenalised or self._attained:
            return False
        scores = self.scores(w)
        return float(scores.max() - scores.min()) > _SPREAD

    def _prove_nonexistence(self) -> tuple[Status, Array, str] | None:
        """Look for a separating direction by linear programming; see :mod:`convexrank.core.separability`."""
        weak = self._unpenalised or not (
            self.penalty.bounded or math.isfinite(self._risk_infimum) or not self._held.built
        )
        ordering = self._ordering() if weak and not self._attained else None
        if ordering is None:
            return None
        found = find_separation(*ordering)
        if found.kind != "none" and not self._unpenalised:  # l1 may hold what falls along the direction
            status = self._terminal_status(found.direction)
            return None if status is None else (status, found.direction, "shown by linear programming")
        if found.kind == "strict":
            return Status.SEPARABLE, found.direction, "shown by linear programming"
        # if the risk has a maximum, a direction that does not change the maximum may cost nothing
        if found.kind == "quasi" and self._differentiable:
            detail = "quasi-separable (some pairs only tie), by linear programming"
            return Status.SEPARABLE, found.direction, detail
        return None
