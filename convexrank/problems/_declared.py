"""A risk that is declared as an expression of groups of scores: all else is a reading of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, replace
from functools import partial
from inspect import get_annotations
from typing import Any, dataclass_transform

import numpy as np

from convexrank.backend.cached import LastValue, cached_property
from convexrank.backend.design import compact, entries, times, transposed_times
from convexrank.backend.jax_oracles import penalised, shape_class, with_data
from convexrank.core.capabilities import Batched
from convexrank.core.minorants import Minorant, tangent_at
from convexrank.core.results import Status
from convexrank.core.score_model import SampledCurvature, ScoreModel, ScoreProducts
from convexrank.modelling import conjugate, recession
from convexrank.modelling.certificates.reference import Below, Reference, lowered_tangent, rounded
from convexrank.modelling.certificates.rounding import LISTED
from convexrank.modelling.curvature import (
    InWeights,
    curvature,
    has_columns,
    in_differences,
    is_affordable,
    products,
)
from convexrank.modelling.cvxpy_reading import cvxpy_model, is_nonlinear
from convexrank.modelling.expressions import Node
from convexrank.modelling.hessian_products import hessian_product
from convexrank.modelling.jax_reading import JaxRisk, JaxSmoothRisk
from convexrank.modelling.language import latex
from convexrank.modelling.log_sum_exps.coordinates import LogSumExpCoordinates
from convexrank.modelling.log_sum_exps.sums import LogSumExps
from convexrank.modelling.log_sum_exps.terms import LogSumExpTerm, log_sum_exps
from convexrank.modelling.program import Program
from convexrank.modelling.recession import never_rising
from convexrank.modelling.smoothing.merging import narrowed
from convexrank.modelling.smoothing.programs import (
    Smoothed,
    Smoothing,
    can_be_smooth,
    is_cheap,
    shared_at_zero,
)
from convexrank.modelling.smoothing.shares import means_in
from convexrank.problems._linear_scores import LinearScores, RiskData
from convexrank.problems._smoothed_weights import FAR, SmoothedRisks
from convexrank.problems.duals._blocks import MODEL, refuse_many_pairs
from convexrank.problems.out_of_memory._streams import LogStream, refuse_chunks
from convexrank.solvers.row_faces import Compiled, Coordinates, HessianProducts, Smoothable

Array = np.ndarray

_READ_BY = (
    "Inside risk(f), scores are read by functions of convexrank.modelling, such as exp, mean, total and maximum; those "
    "of numpy, comparisons and indices do not apply."
)
# What is at most this large, beside the scores, counts as 0.
_ROUNDING = 1e-13


def _refuse_members(cls: type) -> None:
    """Refuse fields that have the name of something else that every formulation has."""
    fields = getattr(cls, "__dataclass_fields__", {})
    for name, kind in get_annotations(cls).items():
        hides = name not in fields and any(name in vars(base) for base in cls.__mro__[1:])
        if hides and "ClassVar" not in str(kind):
            raise TypeError(
                f"the field {name} of {cls.__name__} hides a member that problems have; give it another name, such as "
                f"my_{name}."
            )


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
class Declared(LinearScores):
    """A risk declared as an expression of groups of scores; a class states these groups by ``_groups``.

    A class that is derived becomes a frozen dataclass of its fields by itself.
    """

    #: The groups of scores that the risk is an expression of.
    _groups: Any

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if get_annotations(cls):  # without fields of its own it has those of its base
            _refuse_members(cls)
            dataclass(frozen=True, eq=False)(cls)
            # one that is decorated all the same is made again; the two below refuse to set anything
            del cls.__setattr__, cls.__delattr__

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(
            f"{name} of a {type(self).__name__} cannot be changed; take problem.changed({name}=...)."
        )

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    # --- what a formulation states --------------------------------------------------------------------------------

    def risk(self, f: Any) -> Node:
        """Return the risk as an expression of groups of scores: f.positive and f.negative, or f.rows and f.grades."""
        raise self._unstated("risk(f)", "an expression of the scores, such as mean(softplus(-f.positive))")

    def _program_of(self, groups: Any, rows: int) -> Program:
        try:
            risk = self.risk(groups)
        except (TypeError, AttributeError) as error:
            error.add_note(_READ_BY)
            raise
        if not isinstance(risk, Node):
            raise TypeError(
                f"risk(f) of {type(self).__name__} returned {type(risk).__name__}, expected an expression of scores."
            )
        return Program(risk, rows)

    @cached_property
    def program(self) -> Program:
        """The risk as a list of steps."""
        return self._program_of(self._groups, self.rows)

    @cached_property
    def _form(self) -> Program:
        """The risk for questions that its form answers."""
        return self.program

    @cached_property
    def _logarithmic(self) -> tuple[LogSumExpTerm, ...] | None:
        return log_sum_exps(self._form.root)

    @cached_property
    def _log_sum_exps(self) -> LogSumExps | None:
        """The risk as a weighted sum of log-sum-exps of rows in memory; None where it is something else."""
        terms = self._logarithmic if self._held.in_memory else None
        return None if terms is None else LogSumExps(terms, self.rows)

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """Capabilities of every problem, with those that the expression adds."""
        names = super().capabilities
        if "Smoothable" in names and self._merges_rows:
            names |= {"Mergeable"}
        compiled = "Smoothable" in names and not self._differentiable and self._held.built
        if compiled and not means_in(self.program):  # whose shares come from a loop
            names |= {"JaxSmoothable"}
        if "Smooth" in names and self._form.bends and self._held.in_memory:
            names |= {"HessianProducts", "JaxCurved"} if "JaxObjective" in names else {"HessianProducts"}
        return (
            names | {"Coordinates"} if "JaxObjective" in names and self._log_sum_exps is not None else names
        )

    # whether kinks of very many rows are solved with some of them merged
    _merges_rows = False

    # --- value and derivatives ------------------------------------------------------------------------------------

    @cached_property
    def _differentiable(self) -> bool:  # type: ignore[override]
        """Whether no atom has a kink."""
        return self._form.smooth

    @property
    def _pairwise_curvature(self) -> bool:  # type: ignore[override]
        """Whether second derivatives run over pairs."""
        return self._form.has_pairs and self._form.curved_pairs > 0

    @cached_property
    def _has_curvature(self) -> bool:  # type: ignore[override]
        """Whether second derivatives are known, and cheap enough for Newton's method."""
        form = self._form
        return form.bends and (not form.has_pairs or is_affordable(form, self.dimension))

    @cached_property
    def _states_curvature(self) -> bool:  # type: ignore[override]
        """Whether second derivatives are a diagonal and a few columns."""
        return has_columns(self._form)

    def _float_scores(self, w: Array) -> Array:
        return np.asarray(self.scores(w), dtype=np.float64)

    def _risk_and_score_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient (a subgradient) in the scores, in numpy."""
        scores = np.asarray(scores, dtype=np.float64)
        return (self._log_sum_exps or narrowed(self.program, scores)).value_and_gradient(scores)

    def _score_model(self, scores: Array) -> ScoreModel:
        """Return the risk to second order in the scores, where that is a diagonal and a few columns."""
        if not self._states_curvature:
            return super()._score_model(scores)
        scores = np.asarray(scores, dtype=np.float64)
        if self._log_sum_exps is not None:
            return self._log_sum_exps.score_model(scores)
        return ScoreModel(*curvature(self.program, scores))

    def _score_products(self, scores: Array) -> ScoreProducts:
        """Return the risk to second order in the scores, by products of its Hessian with vectors."""
        if not self._states_curvature:
            return products(self.program, scores)
        model = self._score_model(scores)
        return ScoreProducts.of(model)

    def _batched(self) -> Batched:
        from convexrank.modelling.log_sum_exps.weighted_rows import WeightedRows

        plain = isinstance(self.X, np.ndarray) and self.X.dtype == np.float64
        fits = plain and "Coordinates" in self.capabilities
        return Batched(partial(WeightedRows.of, self)) if fits else super()._batched()

    def _hessian_products(self) -> HessianProducts:
        return HessianProducts(
            self.X,
            self.l2,
            self._column_scales,
            self._row_lengths,
            self.scores,
            self._risk_and_score_gradient,
            self._score_products,
            self._gentler,
            self.gap_estimate,
        )

    def _gentler(self, most: float) -> LogSumExps:
        """Return the log-sum-exps of the risk with powers up to ``most``."""
        if self._log_sum_exps is None:
            raise TypeError(f"the risk of {type(self).__name__} is no sum of log-sum-exps.")
        return self._log_sum_exps.no_steeper_than(most)

    def second_order(self, w: Any) -> tuple[float, Array, Array]:
        """Return value, gradient and Hessian of risk + l2/2·‖w‖². O(n d²), or a sum over pairs for each column."""
        if not self._held.in_memory:
            refuse_chunks(self.X, "second derivatives")
        w = self.check_point(w)
        scores = np.asarray(self.scores(w), dtype=np.float64)
        if self._log_sum_exps is not None:
            value, pull, hessian = self._log_sum_exps.second_order(self.X, scores)
        else:  # far away a steep risk is infinite; callers check
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                value, pull, hessian = self._in_weights.second_order(scores)
        hessian.flat[:: self.dimension + 1] += self.l2
        return value + 0.5 * self.l2 * float(w @ w), pull + self.l2 * w, hessian

    def hessian(self, w: Any) -> Array:
        """Return the Hessian of risk + l2/2·‖w‖², shape (d, d). O(n d²)."""
        return self.second_order(w)[2]

    @cached_property
    def _in_weights(self) -> InWeights:
        return InWeights(self.program, self.X, self._shift is not None)

    @cached_property
    def _shift(self) -> float | None:
        if (terms := self._logarithmic) is not None:
            return float(sum([term.outer_coefficient * term.sign_times_power for term in terms]))
        return recession.shift(self._form)

    @property
    def _depends_on_differences(self) -> bool:  # type: ignore[override]
        """Whether a common shift of all scores changes nothing, up to the rounding of weights."""
        return self._shift is not None and abs(self._shift) <= _ROUNDING * self._form.count

    def hessian_product(self, w: Any, v: Any) -> Array:
        """Return the Hessian of risk + l2/2·‖w‖² at w times v, shape (d,)."""
        w, v = self.check_point(w), self.check_point(v, "v")
        if isinstance(stream := self._stream, LogStream):
            return stream.hessian_product(w, v) + self.l2 * v
        product = hessian_product(self.program, self._float_scores(w))
        image = product(np.asarray(times(self.X, v), dtype=np.float64))
        return np.asarray(transposed_times(self.X, image), dtype=np.float64) + self.l2 * v

    def _coordinates(self) -> Coordinates:
        return Coordinates(self._coordinate_oracle, self.gap_estimate)

    def _coordinate_oracle(self) -> LogSumExpCoordinates:
        """Return edges and exact line search along one weak ranker (column of X): what boosting needs.

        Raises
        ------
        ValueError
            With l1, which boosting cannot treat, and for risks that are no sums of log-sum-exps.
        """
        refuse_chunks(self.X, "edges of columns")
        if self.l1 > 0:
            raise ValueError(
                f"boosting takes no l1 penalty, got l1={self.l1}; drop it, or use another solver."
            )
        if self._log_sum_exps is None:
            raise ValueError(
                f"{type(self).__name__} with these arguments is no sum of log-sum-exps of scores, which boosting needs."
            )
        return LogSumExpCoordinates(self.X, self._log_sum_exps.terms, self.l2)

    # --- other languages ------------------------------------------------------------------------------------------

    @cached_property
    def _jax_risk(self) -> RiskData:
        """The risk as a JAX function of all scores."""
        return RiskData(JaxRisk(), JaxRisk.prepare(self.program.root), (shape_class(self.rows),))

    def _risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression, and its constraints."""
        refuse_many_pairs(self.program.pair_count, MODEL)
        return cvxpy_model(self.program.root, scores)

    def _other_risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the same with a variable for each sum that a function is taken of, which is at least the sum."""
        refuse_many_pairs(self.program.pair_count, MODEL)
        return cvxpy_model(self.program.root, scores, sums_apart=True)

    @cached_property
    def _model_is_nonlinear(self) -> bool:  # type: ignore[override]
        """Whether cvxpy's rules do not show that a function of one's own is convex."""
        return is_nonlinear(self.program)

    def formula(self) -> str:
        """Return the objective in LaTeX: as the class documents it, else by its expression."""
        documented = super().formula() if type(self).__doc__ else ""  # that of a base is about another risk
        if documented:
            for letter, own in (("g", "price"), (r"\ell", "loss")):
                sign = getattr(getattr(self, own, None), "latex", None)
                documented += rf", \qquad {letter} = {sign}" if sign else ""
        return (
            documented or latex(self.program.printed) + r" + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1"
        )

    # --- far out, and at 0 ----------------------------------------------------------------------------------------

    @cached_property
    def _attained(self) -> bool:  # type: ignore[override]
        """Whether a minimiser exists, by the form of the risk."""
        return recession.is_reached(self._form) and math.isfinite(self._risk_infimum)

    @cached_property
    def _risk_infimum(self) -> float:  # type: ignore[override]
        """A number that the risk is never below, by its form, or by multipliers without any slope."""
        return -math.inf if self._logarithmic else conjugate.infimum(self.program)

    def _far_out(self, w: Array) -> tuple[float, bool]:
        """The slope of the objective far out along w, without a penalty or with l1 alone; whether it falls for ever."""
        return recession.far_out(self.program, self._float_scores(w), self.l1 * float(np.abs(w).sum()))

    def _is_separating(self, w: Array) -> bool:
        """Return whether the risk falls for ever along w."""
        return self._far_out(w)[1]

    def _terminal_status(self, w: Array) -> Status | None:
        """Recognise an objective without a bound, and one without a minimiser."""
        if self.penalty.bounded or math.isfinite(self._risk_infimum):
            return super()._terminal_status(w)
        return Status.UNBOUNDED if self._far_out(w)[0] < 0.0 else super()._terminal_status(w)

    def _ordering(self) -> tuple[Any, Any] | None:
        """Return (A, B) with Aw + Bt ≥ 0 for some t exactly where the risk of no query ever rises along w."""
        found = never_rising(self.program)
        return None if found is None else (found[0] @ entries(self.X), found[1])

    def _prove_nonexistence(self) -> tuple[Status, Array, str] | None:
        """Look for a direction along which the risk falls for ever, by linear programming; what is found is checked."""
        found = super()._prove_nonexistence()
        if found is None or not self._far_out(found[1])[1]:
            return None
        return self._terminal_status(found[1]) or found[0], *found[1:]

    def _shared_at_zero(self) -> tuple[Array, Array, Array] | None:
        return super()._shared_at_zero() if self._differentiable else shared_at_zero(self.program)

    # --- smooth functions below a risk with kinks -----------------------------------------------------------------

    @cached_property
    def _has_smoothing(self) -> bool:  # type: ignore[override]
        """Whether all kinks, or log-sum-exps, have smoother functions below them, with cheap second derivatives."""
        if not can_be_smooth(self.program):
            return False
        # means of the highest sums look at pairs with the lower rows that count alone
        return is_cheap(self.program) or self._smoothed_risks.tops is not None

    @cached_property
    def _smoothed_risks(self) -> SmoothedRisks:
        some = self._listed_pairs if self.program.differences else None
        return SmoothedRisks(compact(self.X), Smoothing(self.program), some)

    def _listed_pairs(self) -> tuple[Callable[[Array], Array], SmoothedRisks] | None:
        """Listed pairs as rows, the differences of whose features tell second derivatives."""
        found = in_differences(self.program, self.X)
        if found is None:
            return None
        program, X = found
        return self.program.differences[0][1].entries, SmoothedRisks(X, Smoothing(program))

    def _smoothable(self) -> Smoothable:
        unit = self._smoothed_risks.smoothing.first_width
        return Smoothable(self._first_width, unit, self._smoothed, self._beside_zero)

    def _beside_zero(self, seen: tuple[Array, ...]) -> Any:
        """Return a problem that tells whether w = 0 is the minimum; by default none is known."""
        return None

    def _first_width(self) -> float:
        """A width from which on the smooth function changes slowly: by the entries of a maximum, or the margin."""
        return self._reach * self._smoothed_risks.smoothing.first_width

    @cached_property
    def _is_steep(self) -> bool:  # type: ignore[override]
        squares = None if math.isfinite(self._risk_infimum) else self._mean_squares
        return squares is not None and float(np.add.reduce(squares)) > FAR * self.l2 and self._reach > 1.0

    @cached_property
    def _reach(self) -> float:
        """How large scores may become where nothing but l2 bounds them."""
        return 1.0 if math.isfinite(self._risk_infimum) else self._smoothed_risks.reach(self.l2)

    def _smoothed(self, w: Array, width: float) -> Smoothed:
        """Return a smooth function below the risk at w, with its derivatives."""
        return self._smoothed_risks.at(self._float_scores(w), width)

    def _compiled(self) -> Compiled:
        return replace(super()._compiled(), below=self._jax_below, narrowed=self._jax_narrowed)

    def _jax_below(self, width: float) -> Any:
        """Return the smooth function of a width and l2/2·‖w‖² in JAX, as a pytree with the data."""
        smoothing = self._smoothed_risks.smoothing
        atoms = [self.program.nodes[k] for k in smoothing.widths(width)]
        data = JaxSmoothRisk.prepare(self.program.root, atoms), self._jax_widths(width)
        risk = RiskData(JaxSmoothRisk(), data, (shape_class(self.rows),))
        return penalised(risk, self._padded_columns, self.l2, 0.0)

    def _jax_narrowed(self, function: Any, width: float) -> Any:
        return with_data(function, lambda data: (data[0], self._jax_widths(width)))

    def _jax_widths(self, width: float) -> Array:
        return np.array([own for own, _ in self._smoothed_risks.smoothing.widths(width).values()])

    def _reference_below(self, scores: Array, width: float) -> tuple[float, Array]:
        """Return what the multipliers of the smooth function prove, by the conjugate of the risk itself."""
        from convexrank.modelling.certificates.below import below

        with np.errstate(over="ignore", invalid="ignore"):  # quotients by a width of almost 0
            near = self._smoothed_risks.smoothing.near(scores, width)
            offset, slopes = below(near.program, near.with_shares(scores, width), scores)
        return offset + float(slopes @ scores), slopes

    def _ball_below(self, scores: Any, width: float) -> Any:
        """Return :meth:`_reference_below` in ball arithmetic."""
        from convexrank.modelling.certificates.balls import as_objects
        from convexrank.modelling.certificates.below import below_in_balls
        from convexrank.proof.balls import ZERO, Tangent

        scores = as_objects(scores)
        smooth = self._smoothed_risks.smoothing.with_shares(scores.astype(float), width)
        offset, slopes = below_in_balls(self.program, smooth, scores)
        return Tangent(offset + (slopes * scores).sum(), list(slopes), ZERO)

    # --- very many rows in memory ---------------------------------------------------------------------------------

    @cached_property
    def _tall(self) -> LogSumExps | None:
        """The log-sum-exps of a dense X in memory with so many rows that some of them tell the curvature of all."""
        logs = self._log_sum_exps if self._held.built and self._sample_rows > 0 else None
        return logs if logs is not None and logs.is_moderate else None

    def risk_and_subgradient(self, w: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in w; for many rows of a dense X in one read of it."""
        if self._tall is not None and self._tall.one_pass is not None:
            with np.errstate(over="ignore", invalid="ignore"):  # where exponents differ too much
                found = self._tall.one_pass(self.X, w)
            if found is not None:
                self._last_scores.at(w, lambda _: found[2])
                return found[:2]
        return super().risk_and_subgradient(w)

    def _sampled_curvature(self, w: Array) -> SampledCurvature | None:
        """Return the Hessian at w of some rows, drawn by their weights in it, and what bounds that of all from below.

        None where rows are out of memory, or sampling does not pay.
        """
        if self._tall is None:
            return None
        return self._tall.sampled_curvature(self.X, self.scores(w), self._sample_rows, self.l2)

    def _reference_minorant(self, w: Array, width: float = 0.0) -> Minorant:
        """Return a linear function below the risk at w; for very many rows with a bound on the risk's curvature."""
        if self._tall is None or self.l2 == 0 or not self.penalty.smooth or width:
            return super()._reference_minorant(w, width)
        return self._tall.minorant(self.X, w)

    # --- certificates and proofs ----------------------------------------------------------------------------------

    def dual(self) -> Any:
        """Return the dual; see :meth:`convexrank.Problem.dual`."""
        refuse_many_pairs(self.program.pair_count)
        return super().dual()

    @cached_property
    def _conjugate(self) -> Any:
        """The conjugate of the risk, for the dual; None where a function has none, or nothing bounds the minimiser.

        Nor has a linear risk: of its multipliers none is to be chosen.

        Of log-sum-exps and maxima of scores the multipliers are distributions, which are known without a penalty too.
        """
        from convexrank.problems.duals._blocks import Conjugate, shares_of_terms
        from convexrank.problems.duals._declared import DeclaredConjugate

        if (terms := log_sum_exps(self.program.root, maxima=True)) is not None:
            return Conjugate(shares_of_terms(terms), self.rows, Smoothing(self.program).heat)
        if not conjugate.has_conjugate(self.program) or self.program.pair_count > LISTED:
            return None  # a multiplier for each pair does not fit into memory
        if not conjugate.sizes(self.program):
            return None
        found = DeclaredConjugate(self.program)
        return found if self.penalty.bounded or found.rest is not None else None

    @cached_property
    def _reference(self) -> Reference | LogSumExps:
        """Base of certificates: plain numpy, which shares no code with the steps that solvers run."""
        logs = self._log_sum_exps
        return logs if logs is not None and logs.is_moderate else Reference(self.program)

    def _reference_near(self, scores: Array) -> Reference | LogSumExps:
        """The same at some scores: without sums over pairs that do not count there."""
        reference = self._reference
        return reference.near(scores) if isinstance(reference, Reference) else reference

    @cached_property
    def _last_reference(self) -> LastValue:
        return LastValue()

    def _evaluated_reference(self, w: Array) -> tuple[Array, Reference, Below]:
        """Return scores, the reference of the rows that count there, and what it proves."""
        scores = np.asarray(times(self.X, w), dtype=np.float64)
        reference: Any = self._reference_near(scores)
        return scores, reference, reference.below(scores)

    def _reference_value(self, scores: Array) -> float:
        """Return the risk by plain numpy, which shares no code with the steps that solvers run."""
        return self._reference_near(scores).value(scores)

    def _reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk by plain numpy, and the slopes of its conjugate at the best multipliers."""
        with np.errstate(over="ignore", invalid="ignore"):  # far away a steep risk is infinite; callers check
            scores = np.asarray(scores, dtype=np.float64)
            return self._reference_near(scores).below(scores)[:2]

    def _minorant_of(self, w: Array, width: float, lengths: Array) -> Minorant:
        """Return a linear function below the risk by its conjugate; what that loses beyond rounding counts as a gap."""
        reference, known = self._reference, None
        if self._differentiable or not isinstance(reference, Reference):
            scores = np.asarray(times(self.X, w), dtype=np.float64)
        else:  # the tangent at a point, and what a smooth function proves there, are asked one after the other
            scores, reference, known = self._last_reference.at(w, self._evaluated_reference)
        below = reference.below if known is None else lambda _: known
        if width > 0.0 and self._has_smoothing:
            found = tangent_at(self.X, scores, lengths, partial(self._reference_below, width=width), w)
            proved = below(scores) if found.usable else None
        else:
            found, proved = lowered_tangent(self.X, scores, lengths, below, w)
        # of log-sum-exps the sizes of scores and logarithms of weights are in the bounds already
        if proved is None or isinstance(reference, LogSumExps):
            return found
        return rounded(found, reference, scores, lengths, proved)

    def _ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, for proofs; shape (n,) in and out."""
        from convexrank.modelling.certificates.balls import as_objects, tangent_in_balls
        from convexrank.proof.balls import ZERO, Tangent

        value, slope, slack = tangent_in_balls(self.program, as_objects(scores))
        return Tangent(value, list(slope), slack + ZERO)
