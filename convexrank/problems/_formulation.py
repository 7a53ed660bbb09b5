"""A formulation that is declared once, as an expression of the scores: all else is a reading of it."""

from __future__ import annotations

import inspect
import math
from dataclasses import FrozenInstanceError, dataclass, field, replace
from inspect import get_annotations
from typing import Any, ClassVar, Self, cast, dataclass_transform

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.gram import centred_gram, dense, entries, times, transposed_times, weighted_gram
from convexrank.backend.jax_oracles import shape_class
from convexrank.core.minorants import Minorant, rounding, tangent_at
from convexrank.core.results import Status
from convexrank.core.score_model import SampledCurvature, ScoreModel
from convexrank.data import (
    Chunks,
    as_groups,
    check_binary_labels,
    check_vector,
    check_weights,
    keep,
    read_array,
)
from convexrank.modelling import conjugate, curvature, recession
from convexrank.modelling.balls import as_objects, tangent_in_balls
from convexrank.modelling.certificates.pair_blocks import LISTED
from convexrank.modelling.certificates.reference import Below, Reference
from convexrank.modelling.certificates.rounding import sizes_of_terms
from convexrank.modelling.cvxpy_reading import cvxpy_model, is_nonlinear
from convexrank.modelling.expressions import Elementwise, Maximum, Node, Scores, affine
from convexrank.modelling.groups import Groups
from convexrank.modelling.inequalities import never_rising
from convexrank.modelling.jax_reading import JaxRisk
from convexrank.modelling.latex import latex
from convexrank.modelling.log_sum_exps.coordinates import LogSumExpCoordinates
from convexrank.modelling.log_sum_exps.terms import LogSumExpTerm, log_sum_exps
from convexrank.modelling.program import Program, kinks_at_zero
from convexrank.modelling.smoothing.below import below, below_in_balls
from convexrank.modelling.smoothing.programs import Smoothing, blocked_pairs, can_be_smooth, sums_pairs_only
from convexrank.problems._linear_scores import RiskData
from convexrank.problems._log_sum_exps import LogSumExps
from convexrank.problems._samples import drawn_rows, rows_of_sample
from convexrank.problems._second_order import SecondOrder
from convexrank.problems._smoothed import Smoothed
from convexrank.problems._smoothed_weights import SmoothedRisks
from convexrank.problems.duals._blocks import Conjugate, shares_of_terms
from convexrank.problems.duals._declared import DeclaredConjugate
from convexrank.problems.duals._many_pairs import MODEL, refuse_many_pairs
from convexrank.problems.out_of_memory._log_sum_exps import LogStream
from convexrank.problems.out_of_memory._queries import QuerySample, sample_of, streamed
from convexrank.problems.out_of_memory._streams import Stream, refuse_chunks

__all__ = ["Declared", "Formulation"]

Array = np.ndarray

# Second derivatives of sums over pairs are one product with all columns, up to so many pairs and products,
_PAIRS, _PRODUCTS = 2_000_000, 100_000_000
# or, under functions with curvature, a few sums over pairs for each column; smoothed sums are taken as often.
_BLOCKED, _COLUMNS = 200_000, 60
# Rows per column of a sample that only has to give a start.
_START_ROWS = 60
# What is at most this large, beside the scores, counts as 0.
_ROUNDING = 1e-13


class Declared(SecondOrder):
    """A risk declared as an expression of groups of scores; a class states these groups by ``_groups``."""

    #: The groups of scores that the risk is an expression of.
    _groups: Any

    # --- what a formulation states --------------------------------------------------------------------------------

    def risk(self, f: Any) -> Node:
        """Return the risk as an expression of groups of scores: f.positive and f.negative, or f.rows and f.grades."""
        raise self._unstated("risk(f)", "an expression of the scores, such as mean(softplus(-f.positive))")

    # --- readings -------------------------------------------------------------------------------------------------

    def _program_of(self, groups: Any, rows: int) -> Program:
        risk = self.risk(groups)
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
    def form(self) -> Program:
        """The risk for questions that its form answers."""
        return self.program

    @cached_property
    def differentiable(self) -> bool:  # type: ignore[override]
        """Whether no atom has a kink."""
        return self.form.smooth

    @property
    def pairwise_curvature(self) -> bool:  # type: ignore[override]
        """Whether second derivatives run over pairs."""
        return self.form.curved_pairs > 0

    @cached_property
    def has_curvature(self) -> bool:
        """Whether second derivatives are known, and cheap enough for Newton's method."""
        if not self.form.bends or not self.form.has_pairs:
            return self.form.bends
        pairs, columns = self.form.curved_pairs, self.dimension
        if curvature.has_pair_hessian(self.form):
            return pairs <= _PAIRS and pairs * columns <= _PRODUCTS
        return not pairs or (pairs <= _BLOCKED and columns <= _COLUMNS)

    @cached_property
    def states_curvature(self) -> bool:  # type: ignore[override]
        """Whether second derivatives are a diagonal and a few columns."""
        return curvature.has_columns(self.form)

    @cached_property
    def attained(self) -> bool:  # type: ignore[override]
        """Whether a minimiser exists, by the form of the risk."""
        return recession.is_reached(self.form) and math.isfinite(self.risk_infimum)

    @cached_property
    def risk_infimum(self) -> float:  # type: ignore[override]
        """A number that the risk is never below, by its form, or by multipliers without any slope."""
        if self._logarithmic:
            return -math.inf
        found = recession.infimum(self.program)
        if math.isfinite(found) or self.program.has_pairs or not conjugate.has_conjugate(self.program):
            return found
        resting = conjugate.resting(self.program)
        return found if resting is None else -resting[1] - _ROUNDING * (1.0 + abs(resting[1]))

    def _slope_far_out(self, w: Array) -> float:
        """The slope of the objective far out along w, without a penalty or with l1 alone; 0 within rounding of 0."""
        scores = np.asarray(self.scores(w), dtype=np.float64)
        slope = recession.recession(self.program, scores) + self.l1 * float(np.abs(w).sum())
        return slope if abs(slope) > _ROUNDING * float(np.abs(scores).max(initial=0.0)) else 0.0

    def is_separating(self, w: Array) -> bool:
        """Whether the risk falls for ever along w."""
        return self._falls(w)

    def _falls(self, w: Array) -> bool:
        """Whether the slope of the risk far out along w is below 0, or is 0 and never reached."""
        slope, scores = self._slope_far_out(w), np.asarray(self.scores(w), dtype=np.float64)
        if slope != 0.0:
            return slope < 0.0
        return recession.falls(self.program, scores, _ROUNDING * float(np.abs(scores).max(initial=0.0)))

    def terminal_status(self, w: Array) -> Status | None:
        """Recognise an objective without a bound, and one without a minimiser."""
        if self.penalty.bounded or math.isfinite(self.risk_infimum):
            return super().terminal_status(w)
        return Status.UNBOUNDED if self._slope_far_out(w) < 0.0 else super().terminal_status(w)

    def ordering(self) -> tuple[Any, Any] | None:
        """Return (A, B) with Aw + Bt ≥ 0 for some t exactly where the risk never rises along w."""
        found = never_rising(self.program)
        return None if found is None else (found[0] @ entries(self.X), found[1])

    def prove_nonexistence(self) -> tuple[Status, Array, str] | None:
        """Look for a direction along which the risk falls for ever, by linear programming; what is found is checked."""
        found = super().prove_nonexistence()
        if found is None or not self._falls(found[1]):
            return None
        return self.terminal_status(found[1]) or found[0], *found[1:]

    def risk_and_score_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient (a subgradient) in the scores, in numpy."""
        scores, logs = np.asarray(scores, dtype=np.float64), self.log_sum_exps
        return (self.program if logs is None else logs).value_and_gradient(scores)

    def score_model(self, scores: Array) -> ScoreModel:
        """Return the risk to second order in the scores, where that is a diagonal and a few columns."""
        if not self.states_curvature:
            return super().score_model(scores)
        if self.log_sum_exps is not None:
            return self.log_sum_exps.score_model(np.asarray(scores, dtype=np.float64))
        return ScoreModel(*curvature.curvature(self.program, np.asarray(scores, dtype=np.float64)))

    def second_order(self, w: Any) -> tuple[float, Array, Array]:
        """Return value, gradient and Hessian of risk + l2/2·‖w‖². O(n d²), or a sum over pairs for each column."""
        if isinstance(self.X, Chunks):
            refuse_chunks(self.X, "second derivatives")
        w = self.check_point(w)
        scores = np.asarray(self.scores(w), dtype=np.float64)
        if self.log_sum_exps is not None:
            value, pull, hessian = self.log_sum_exps.second_order(self.X, scores)
        else:  # far away a steep risk is infinite; callers check
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                value, pull, hessian = self._risk_to_second_order(scores)
        hessian.flat[:: self.dimension + 1] += self.l2
        return value + 0.5 * self.l2 * float(w @ w), pull + self.l2 * w, hessian

    def _risk_to_second_order(self, scores: Array) -> tuple[float, Array, Array]:
        """The risk, and its gradient and Hessian in w."""
        if self.states_curvature:
            value, pull, hessian = self._second_order(scores)
        else:
            X = np.asarray(dense(self.X), dtype=np.float64)
            if curvature.has_pair_hessian(self.program):
                value, slope, hessian = curvature.pair_hessian(self.program, scores, X)
            else:
                value, slope = self.program.value_and_gradient(scores)
                product = curvature.hessian_product(self.program, scores)
                hessian = np.stack([product(column) for column in X.T]) @ X
            hessian = 0.5 * (hessian + hessian.T)
            pull = np.asarray(transposed_times(self.X, slope), dtype=np.float64)
        return value, pull, hessian

    def _second_order(self, scores: Array) -> tuple[float, Array, Array]:
        """The risk, Xᵀg and XᵀHX from a diagonal and columns, about a common centre.

        Where H does not see a shift of all scores, an offset of the features cannot cancel then.
        """
        if self._still is not None:
            value, slope = self.program.value_and_gradient(scores)
            return value, np.asarray(transposed_times(self.X, slope), dtype=np.float64), self._still.copy()
        value, slope, found = curvature.second_derivatives(self.program, scores)
        hessian, pull = self._hessian(slope, found)
        return value, pull, hessian

    @cached_property
    def _still(self) -> Array | None:
        """XᵀHX of a quadratic risk, which is the same everywhere; None of another."""
        found = curvature.constant(self.program)
        return None if found is None else self._hessian(np.zeros(self.rows), found)[0]

    def _hessian(self, slope: Array, found: curvature.Columns) -> tuple[Array, Array]:
        if self._shift is None and not found.products:
            return weighted_gram(entries(self.X), found.diagonal), np.asarray(
                transposed_times(self.X, slope), dtype=np.float64
            )
        vectors = [slope, found.diagonal]
        if found.count == 1:  # one read of X
            listed, parts = found.listed()
            columns, rates = np.array(vectors + listed), np.array(parts).reshape(-1, 1)
            images = np.asarray(transposed_times(self.X, columns.T), dtype=np.float64).T
            wholes = np.add.reduce(columns, axis=1)
            (pull, pulled), images, whole, wholes = images[:2], images[2:], wholes[1], wholes[2:, None]
        else:
            columns, rates = found.collected()
            pull, pulled = np.asarray(transposed_times(self.X, np.array(vectors).T), dtype=np.float64).T
            images = dense(columns @ entries(self.X))
            wholes = np.add.reduceat(columns.data, columns.indptr[:-1]) if len(rates) else rates
            whole, wholes, rates = found.diagonal.sum(), wholes[:, None], rates[:, None]
        centre = pulled / whole if self._shift is not None and whole > 0.0 else np.zeros_like(pulled)
        apart = images - wholes * centre
        return centred_gram(self.X, centre, found.diagonal) - apart.T @ (rates * apart), pull

    @cached_property
    def _shift(self) -> float | None:
        if (terms := self._logarithmic) is not None:
            return float(sum([term.outer_coefficient * term.sign_times_power for term in terms]))
        return recession.shift(self.form)

    @property
    def depends_on_differences(self) -> bool:  # type: ignore[override]
        """Whether a common shift of all scores changes nothing, up to the rounding of weights."""
        return self._shift is not None and abs(self._shift) <= _ROUNDING * self.form.count

    def hessian_product(self, w: Any, v: Any) -> Array:
        """Return the Hessian of risk + l2/2·‖w‖² at w times v, shape (d,)."""
        w, v = self.check_point(w), self.check_point(v, "v")
        if isinstance(stream := self.stream, LogStream):
            bends = LogSumExps(stream.terms, self.rows).rates[1]
            return bends @ stream.spread(w, v).products + self.l2 * v
        product = curvature.hessian_product(self.program, np.asarray(self.scores(w), dtype=np.float64))
        image = product(np.asarray(times(self.X, v), dtype=np.float64))
        return np.asarray(transposed_times(self.X, image), dtype=np.float64) + self.l2 * v

    @cached_property
    def jax_risk(self) -> RiskData:
        """The risk as a JAX function of all scores."""
        return RiskData(JaxRisk(), JaxRisk.prepare(self.program.root), (shape_class(self.rows),))

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression, and its constraints."""
        refuse_many_pairs(self.program.pair_count, MODEL)
        return cvxpy_model(self.program.root, scores)

    def other_risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the same with a variable for each sum that a function is taken of, which is at least the sum."""
        refuse_many_pairs(self.program.pair_count, MODEL)
        return cvxpy_model(self.program.root, scores, sums_apart=True)

    @cached_property
    def model_is_nonlinear(self) -> bool:  # type: ignore[override]
        """Whether cvxpy's rules do not show that a function of one's own is convex."""
        return is_nonlinear(self.program)

    def formula(self) -> str:
        """Return the objective in LaTeX: as the class documents it, else by its expression."""
        own = inspect.getdoc(type(self)) not in (inspect.getdoc(Declared), inspect.getdoc(Formulation))
        documented = super().formula() if own else ""
        return documented or latex(self.program.root) + r" + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1"

    @property
    def smooth_at_zero(self) -> bool:
        """Whether the risk is differentiable at scores of 0; the hinge is, because its kink is elsewhere."""
        return self.differentiable or not kinks_at_zero(self.program)

    @property
    def shared_at_zero(self) -> Array | None:
        """Rows that share the slope of a maximum arbitrarily if all scores are 0; None if they are not known."""
        kinks = kinks_at_zero(self.program)
        node = kinks[0] if len(kinks) == 1 else None
        if not isinstance(node, Maximum) or not isinstance(affine(node.x).args[0], Scores):
            return None
        return node.over.rows if self.program.count == 1 and len(affine(node.x).terms) == 1 else None

    # --- smooth functions below a risk with kinks -----------------------------------------------------------------

    @cached_property
    def has_smoothing(self) -> bool:  # type: ignore[override]
        """Whether every kink has a smooth function below it, and second derivatives of that are cheap enough."""
        return can_be_smooth(self.program) and (
            sums_pairs_only(self.program) or blocked_pairs(self.program) <= _BLOCKED
        )

    @cached_property
    def _smoothing(self) -> Smoothing:
        return Smoothing(self.program)

    @cached_property
    def _smoothed_risks(self) -> SmoothedRisks:
        return SmoothedRisks(self.X, self._smoothing)

    @property
    def first_width(self) -> float:
        """A width from which on the smooth function changes slowly: by the entries of a maximum, or the margin."""
        return self._smoothing.first_width

    def smoothed(self, w: Array, width: float) -> Smoothed:
        """Return a smooth function below the risk at w, with its derivatives."""
        return self._smoothed_risks.at(np.asarray(self.scores(w), dtype=np.float64), width)

    def reference_below(self, scores: Array, width: float) -> tuple[float, Array]:
        """Return what the multipliers of the smooth function prove, by the conjugate of the risk itself."""
        with np.errstate(over="ignore", invalid="ignore"):  # quotients by a width of almost 0
            offset, slopes = below(self.program, self._smoothing.at(width), scores)
        return offset + float(slopes @ scores), slopes

    def ball_below(self, scores: Any, width: float) -> Any:
        """Return :meth:`reference_below` in ball arithmetic."""
        from convexrank.proof.balls import ZERO, Tangent

        scores = as_objects(scores)
        offset, slopes = below_in_balls(self.program, self._smoothing.at(width), scores)
        return Tangent(offset + (slopes * scores).sum(), list(slopes), ZERO)

    # --- sums of log-sum-exps -------------------------------------------------------------------------------------

    @cached_property
    def log_sum_exps(self) -> LogSumExps | None:
        """The risk as a weighted sum of log-sum-exps of rows in memory; None where it is something else."""
        terms = None if isinstance(self.X, Chunks) else self._logarithmic
        return None if terms is None else LogSumExps(terms, self.rows)

    @cached_property
    def _logarithmic(self) -> tuple[LogSumExpTerm, ...] | None:
        return log_sum_exps(self.form.root)

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """As for every problem with second derivatives, and Coordinates for log-sum-exps without l1."""
        names = super().capabilities
        return names | {"Coordinates"} if "JaxObjective" in names and self.log_sum_exps is not None else names

    def coordinates(self) -> LogSumExpCoordinates:
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
        if self.log_sum_exps is None:
            raise ValueError(
                f"{type(self).__name__} with these arguments is no sum of log-sum-exps of scores, which boosting needs."
            )
        return LogSumExpCoordinates(self.X, self.log_sum_exps.terms, self.l2)

    @cached_property
    def _is_tall(self) -> bool:
        """Whether X is dense, in memory, and has so many rows that some of them tell the curvature of all."""
        logs = self.log_sum_exps
        return (
            isinstance(self.X, np.ndarray) and self.sample_rows > 0 and logs is not None and logs.is_moderate
        )

    def risk_and_subgradient(self, w: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in w; for many rows of a dense X in one read of it."""
        logs = self.log_sum_exps if self._is_tall else None
        if logs is None or logs.one_pass is None:
            return super().risk_and_subgradient(w)
        with np.errstate(over="ignore", invalid="ignore"):  # where exponents differ too much
            found = logs.one_pass(self.X, w)
        if found is None:
            return super().risk_and_subgradient(w)
        value, gradient, scores = found
        self._keep_scores(w, scores)
        return value, gradient

    def sampled_curvature(self, w: Array) -> SampledCurvature | None:
        """Return the Hessian at w of some rows, drawn by their weights in it, and what bounds that of all from below.

        None where rows are out of memory, or sampling does not pay.
        """
        if not self._is_tall or self.log_sum_exps is None:
            return None
        return self.log_sum_exps.sampled_curvature(self.X, self.scores(w), self.sample_rows, self.l2)

    def reference_minorant(self, w: Array, width: float = 0.0) -> Minorant:
        """Return a linear function below the risk at w; for very many rows with a bound on the risk's curvature."""
        if self.l2 == 0 or not self.penalty.smooth or not self._is_tall or self.log_sum_exps is None:
            return super().reference_minorant(w, width)
        return self.log_sum_exps.minorant(self.X, w)

    def reference_value_and_gradient(self, w: Array) -> tuple[float, Array]:
        """Return the objective and its gradient from the definition; the certificate at w uses them again."""
        found = self.reference_minorant(w)
        return found.risk + 0.5 * self.l2 * float(w @ w), found.slope + self.l2 * w

    # --- certificates and proofs ----------------------------------------------------------------------------------

    def dual(self) -> Any:
        """Return the dual; see :meth:`convexrank.Problem.dual`."""
        refuse_many_pairs(self.program.pair_count)
        return super().dual()

    @cached_property
    def conjugate(self) -> Conjugate | DeclaredConjugate | None:
        """The conjugate of the risk, for the dual; None where a function has none, or nothing bounds the minimiser.

        Of log-sum-exps and maxima of scores the multipliers are distributions, which are known without a penalty too.
        """
        if (terms := log_sum_exps(self.program.root, maxima=True)) is not None:
            return Conjugate(shares_of_terms(terms), self.rows)
        if not conjugate.has_conjugate(self.program) or self.program.pair_count > LISTED:
            return None  # a multiplier for each pair does not fit into memory
        found = DeclaredConjugate(self.program)
        return found if self.penalty.bounded or found.rest is not None else None

    @cached_property
    def _reference(self) -> Reference | LogSumExps:
        """What certificates rest on: plain numpy, which shares no code with the steps that solvers run."""
        logs = self.log_sum_exps
        return logs if logs is not None and logs.is_moderate else Reference(self.program)

    def reference_value(self, scores: Array) -> float:
        """Return the risk by plain numpy, which shares no code with the steps that solvers run."""
        return self._reference.value(scores)

    def reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk by plain numpy, and the slopes of its conjugate at the best multipliers."""
        with np.errstate(over="ignore", invalid="ignore"):  # far away a steep risk is infinite; callers check
            return self._reference.below(np.asarray(scores, dtype=np.float64))[:2]

    def minorant_of(self, w: Array, width: float, lengths: Array) -> Minorant:
        """Return a linear function below the risk by its conjugate; what that loses beyond rounding counts as a gap."""
        if width > 0.0 and self.has_smoothing:
            found, scores = super().minorant_of(w, width, lengths), np.asarray(times(self.X, w), np.float64)
            return self._rounded(found, scores, lengths) if found.usable else found
        proved: list[Below] = []

        def risk(scores: Array) -> tuple[float, Array]:
            proved.append(self._reference.below(scores))
            return proved[0][:2]

        scores = np.asarray(times(self.X, w), dtype=np.float64)
        found = tangent_at(self.X, scores, lengths, risk, w)
        if not math.isfinite(found.risk):
            return found
        found = found.lowered_to(proved[0].offset)
        # of log-sum-exps the sizes of scores and logarithms of weights are in the bounds already
        if isinstance(self._reference, LogSumExps):
            return found
        return self._rounded(found, scores, lengths, proved[0])

    def _rounded(
        self, found: Minorant, scores: Array, lengths: Array, below: Below | None = None
    ) -> Minorant:
        """Widen bounds on rounding where terms cancel; beyond what each node may add, that counts as a gap."""
        reference = cast(Reference, self._reference)
        below = reference.below(scores) if below is None else below
        relative, sizes = rounding(len(scores) + self.dimension), reference.sizes
        enough = len(self.program.nodes) * found.risk_error
        # the error is relative to the largest score, and more
        if (
            relative * sizes.most(found.risk_error / relative, below.values, below.multipliers, below.parts)
            <= enough
        ):
            return found
        largest = float(np.abs(scores).max())
        if relative * sizes.most(largest, below.values, below.multipliers, below.parts) <= enough:
            return found
        whole, pulls = sizes_of_terms(self.program, below.values, below.parts)
        if not relative * whole > enough:
            return found
        return replace(
            found,
            lag=found.lag + 2.0 * relative * whole,
            risk_error=relative * whole,
            offset_error=2.0 * relative * whole,
            slope_error=relative * float(pulls @ lengths),
        )

    def ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, for proofs; shape (n,) in and out."""
        from convexrank.proof.balls import ZERO, Tangent

        value, slope, slack = tangent_in_balls(self.program, as_objects(scores))
        return Tangent(value, list(slope), slack + ZERO)


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True, eq=False)
class Formulation(Declared):
    r"""A ranking risk of your own, declared once as an expression of the scores.

    .. math:: \min_w \; R(Xw) + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1

    Derive a class, and state the risk R in :meth:`risk` with the atoms of :mod:`convexrank.modelling`. Everything else
    is a reading of that expression: value, gradient and second derivatives for the fast solvers, the exact model in
    cvxpy, the function in JAX, the certificate, the proof in ball arithmetic, and the formula. An expression that is
    not convex by its form is refused when the problem is made; the message names the place. Fields of the class are
    parameters; it becomes a frozen dataclass by itself.

    A proof is about the expression with its coefficients as they are, floats: of 1/p it takes the nearest float.
    Functions are exact, among them powers and logarithms of any base.

    Where the expression has a conjugate, certificates take their lower bound from it:
    at multipliers that satisfy its constraints, so that a wrong gradient makes the gap larger, but not false. All
    readings share the expression. Only a second statement can check that it is the formula that you mean: give
    ``definition``, the formula as plain loops over the scores, and :func:`convexrank.verify` compares the two.
    Without it the verifier compares the readings, among them the exact model, with one another.

    Parameters
    ----------
    X : array or sparse array, shape (n, d)
        The features, one row per example.
    y : array, shape (n,)
        Labels: two classes of any kind for ``f.positive`` and ``f.negative``; grades for ``f.rows`` and ``f.grades``.
    qid : array of int or str, shape (n,), QueryGroups, or None
        The query of each row; the risk is the sum over queries. One without two different labels contributes nothing.
    sample_weight : array, shape (n,), optional
        Weights of rows, which means and totals take; rows of weight 0 are left out.
    l2, l1 : float
        Strengths :math:`\lambda_2, \lambda_1` of the penalties.
    dtype : {"float64", "float32"}
        Precision of the data.

    Raises
    ------
    TypeError
        When the risk is not convex by its form.
    ValueError, TypeError
        When the data are not finite and real, lengths differ, no query has two labels, or a number is out of range.

    Examples
    --------
    The mean of the ten highest negatives in the place of the maximum:

    >>> import numpy as np
    >>> import convexrank as cr
    >>> from convexrank.modelling import log_mean_exp, mean_of_highest
    >>> class TopTen(cr.Formulation):
    ...     count: int = 10
    ...     def risk(self, f):
    ...         return log_mean_exp(-f.positive) + mean_of_highest(f.negative, self.count)
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 3)), np.arange(60) % 3 == 0
    >>> problem = TopTen(X, y, count=5, l2=0.1)
    >>> solution = problem.solve()
    >>> print(f"{solution.status.name}, {abs(solution.value - problem.solve('exact').value):.0e}")
    CONVERGED, ...
    """

    y: Any
    qid: Any = field(default=None, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if get_annotations(cls):  # without fields of its own it has those of its base
            dataclass(frozen=True, eq=False)(cls)
            # one that is decorated all the same is made again; the base refuses to set anything
            del cls.__setattr__, cls.__delattr__

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = self.X.shape[0]
        keep(self, sample_weight=check_weights(self.sample_weight, rows))
        keep(self, y=self._checked_labels(rows))
        self.__dict__["_query_groups"] = None if self.qid is None else as_groups(self.qid, rows)
        # an expression that is not convex is refused here, not at the first solve
        _ = self.log_sum_exps

    #: What messages call the labels.
    _labels_are: ClassVar[str] = "labels"

    def _checked_labels(self, rows: int) -> Array:
        labels = read_array(self.y, "y")
        if labels.dtype.kind in "iuf":
            return check_vector(labels, rows, "y")
        if labels.shape != (rows,):
            raise ValueError(f"y has shape {labels.shape}, expected ({rows},), one label for each row of X.")
        return labels

    @cached_property
    def _groups(self) -> Groups:
        return Groups(self.y, self.__dict__["_query_groups"], self.sample_weight, name=self._labels_are)

    @cached_property
    def form(self) -> Program:
        """The risk for questions that its form answers: of rows out of memory that of two of them."""
        if not isinstance(self.X, Chunks) or self.__dict__["_query_groups"] is not None:
            return self.program
        some = self._two_rows()
        weights = None if self.sample_weight is None else self.sample_weight[some]
        return self._program_of(Groups(self.y[some], None, weights), len(some))

    def _two_rows(self) -> Array:
        """Two rows with different labels that count."""
        counts = np.broadcast_to(True, self.rows) if self.sample_weight is None else self.sample_weight > 0.0
        first = int(np.argmax(counts))
        return np.array([first, int(np.argmax(counts & (self.y != self.y[first])))])

    @property
    def row_counts(self) -> Array | None:
        """The weights of the rows."""
        return self.sample_weight

    # --- rows out of memory ---------------------------------------------------------------------------------------

    takes_chunks = True

    @property
    def by_query(self) -> tuple[Array, Array]:
        """The rows that count, query by query, and where each query begins and the last ends."""
        return self._groups.by_query

    @cached_property
    def stream(self) -> Stream | None:
        """The evaluator of rows out of memory in one pass; None if X or all n scores are in memory."""
        if not isinstance(self.X, Chunks):
            return None
        if self.__dict__["_query_groups"] is not None:
            return streamed(self)
        return None if self._logarithmic is None else LogStream(self, self._terms_of)

    def _terms_of(self, rows: slice) -> tuple[LogSumExpTerm, ...]:
        """The log-sum-exps of some rows, with their shares of all rows."""
        weights = None if self.sample_weight is None else self.sample_weight[rows]
        found = log_sum_exps(self.risk(Groups.part(self._positives[rows], weights)), self._totals)
        if found is None:
            raise TypeError(f"the risk of {type(self).__name__} has another form for a part of the rows.")
        return found

    @cached_property
    def _positives(self) -> Array:
        return check_binary_labels(self.y, self.rows)

    @cached_property
    def _totals(self) -> dict[str, float]:
        """The total weight of each group."""
        counts, positives = self.sample_weight, self._positives
        whole = float(self.rows if counts is None else counts.sum())
        upper = float(np.count_nonzero(positives) if counts is None else counts @ positives)
        return {"positive": upper, "negative": whole - upper, "rows": whole}

    @cached_property
    def sample_rows(self) -> int:  # type: ignore[override]
        """Number of rows of a sample that approximates the objective, for dense data with many rows; else 0.

        None is drawn where slopes are not bounded: far from the minimiser sums of powers bend otherwise than near it.
        """
        wanted = rows_of_sample(self.X)
        by_query = self.__dict__["_query_groups"] is not None
        if not wanted or by_query or not self.has_curvature or self.pairwise_curvature:
            return 0
        functions = [node.function for node in self.form.nodes if isinstance(node, Elementwise)]
        return 0 if any(math.isinf(function.most) for function in functions) else wanted

    @property
    def _start_rows(self) -> int:
        """Rows of the sample that gives the start; in memory those that give the Hessian are drawn again."""
        wanted = self.sample_rows
        return min(wanted, _START_ROWS * self.dimension) if self.log_sum_exps is not None else wanted

    def sample(self) -> Self | QuerySample | None:
        """Return the problem of a sample, at most half of each class; its rows are weighted accordingly."""
        if self.__dict__["_query_groups"] is not None:
            return sample_of(self) if isinstance(self.X, Chunks) else None
        if not (wanted := self._start_rows):
            return None
        counted = True if self.sample_weight is None else self.sample_weight > 0
        classes = [np.flatnonzero(self._positives & counted), np.flatnonzero(~self._positives & counted)]
        parts = drawn_rows(classes, wanted)
        some = np.concatenate([rows for rows, _ in parts])
        counts = np.concatenate([np.full(len(rows), each) for rows, each in parts])
        weights = counts if self.sample_weight is None else counts * self.sample_weight[some]
        return self.changed(X=self.X[some], y=self.y[some], sample_weight=weights)


def _is_frozen(self: Formulation, name: str, *value: Any) -> None:
    raise FrozenInstanceError(
        f"{name} of a {type(self).__name__} cannot be changed; take problem.changed({name}=...)."
    )


# also for the fields of classes that are derived without a decorator
for _name in ("__setattr__", "__delattr__"):
    setattr(Formulation, _name, _is_frozen)
