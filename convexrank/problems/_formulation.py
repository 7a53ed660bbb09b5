"""A formulation that is declared once, as an expression of the scores: all else is a reading of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, dataclass_transform

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.gram import centred_gram, dense, entries, times, transposed_times
from convexrank.backend.jax_oracles import shape_class
from convexrank.core.minorants import Minorant, rounding, tangent_at
from convexrank.core.results import Status
from convexrank.core.score_model import ScoreModel
from convexrank.data import as_groups, check_vector, check_weights, keep, read_array
from convexrank.modelling import conjugate, curvature, recession
from convexrank.modelling.balls import as_objects, tangent_in_balls
from convexrank.modelling.cvxpy_reading import cvxpy_model, is_nonlinear
from convexrank.modelling.expressions import Node
from convexrank.modelling.groups import Groups
from convexrank.modelling.inequalities import never_rising
from convexrank.modelling.jax_reading import JaxRisk
from convexrank.modelling.kernels.plain import PlainPairs
from convexrank.modelling.language import Numpy, read
from convexrank.modelling.latex import latex
from convexrank.modelling.program import Program
from convexrank.modelling.rounding import sizes_of_terms
from convexrank.problems._linear_scores import RiskData
from convexrank.problems._second_order import SecondOrder
from convexrank.problems._streams import refuse_chunks
from convexrank.problems.duals._declared import DeclaredConjugate
from convexrank.problems.duals._loss_blocks import MODEL, refuse_many_pairs

__all__ = ["Declared", "Formulation"]

Array = np.ndarray

# Second derivatives of sums over pairs take a few sums over pairs for each column: pairs, and pairs times columns.
_PAIRS, _PRODUCTS = 2_000_000, 100_000_000
# Beyond so many pairs certificates list none, and take the tangent with sums over pairs in plain numpy.
_LISTED = 10_000
# What is at most this large, beside the scores, counts as 0.
_ROUNDING = 1e-13


class Declared(SecondOrder):
    """A risk declared as an expression of groups of scores; a class states the groups by ``_declare``."""

    def _declare(self, groups: Any) -> None:
        """Keep the groups of scores, and refuse an expression that is not convex: here, not at the first solve."""
        self.__dict__["_groups"] = groups
        _ = self.program

    @property
    def groups(self) -> Any:
        """The groups of scores that the risk is an expression of."""
        return self.__dict__["_groups"]

    # --- what a formulation states --------------------------------------------------------------------------------

    def risk(self, f: Any) -> Node:
        """Return the risk as an expression of groups of scores: f.positive and f.negative, or f.rows and f.grades."""
        raise self._unstated("risk(f)", "an expression of the scores, such as mean(softplus(-f.positive))")

    #: The risk at scores by plain loops, ``definition(scores) -> float``: a second statement that verify compares.
    definition: ClassVar[Callable[..., float] | None] = None

    # --- readings -------------------------------------------------------------------------------------------------

    @cached_property
    def program(self) -> Program:
        """The risk as a list of steps."""
        risk = self.risk(self.groups)
        if not isinstance(risk, Node):
            raise TypeError(
                f"risk(f) of {type(self).__name__} returned {type(risk).__name__}, expected an expression of scores."
            )
        return Program(risk, self.rows)

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        """Whether no atom has a kink."""
        return self.program.smooth

    @cached_property
    def smooth_at_zero(self) -> bool:  # type: ignore[override]
        """Whether no atom has a kink at scores of 0."""
        return self.program.smooth_at(np.zeros(self.rows))

    @property
    def pairwise_curvature(self) -> bool:  # type: ignore[override]
        """Whether second derivatives run over pairs."""
        return self.program.curved_pairs > 0

    @property
    def has_curvature(self) -> bool:
        """Whether second derivatives are known, and cheap enough for Newton's method."""
        if not curvature.has_second_derivatives(self.program):
            return False
        pairs = self.program.curved_pairs
        return pairs <= _PAIRS and pairs * self.dimension <= _PRODUCTS

    @property
    def states_curvature(self) -> bool:  # type: ignore[override]
        """Whether second derivatives are a diagonal and a few columns."""
        return curvature.has_columns(self.program)

    @cached_property
    def attained(self) -> bool:  # type: ignore[override]
        """Whether a minimiser exists, by the form of the risk."""
        return recession.is_reached(self.program) and math.isfinite(self.risk_infimum)

    @cached_property
    def risk_infimum(self) -> float:  # type: ignore[override]
        """A number that the risk is never below, by its form."""
        return recession.infimum(self.program)

    def _slope_far_out(self, w: Array) -> float:
        """The slope of the objective far out along w, without a penalty or with l1 alone; 0 within rounding of 0."""
        scores = np.asarray(self.scores(w), dtype=np.float64)
        slope = recession.recession(self.program, scores) + self.l1 * float(np.abs(w).sum())
        return slope if abs(slope) > _ROUNDING * float(np.abs(scores).max(initial=0.0)) else 0.0

    def is_separating(self, w: Array) -> bool:
        """Whether the risk falls for ever along w: its slope far out is below 0, or is 0 and never reached."""
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
        if found is None or not self.is_separating(found[1]):
            return None
        return self.terminal_status(found[1]) or found[0], *found[1:]

    def risk_and_score_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient (a subgradient) in the scores, in numpy."""
        return self.program.value_and_gradient(np.asarray(scores, dtype=np.float64))

    def score_model(self, scores: Array) -> ScoreModel:
        """Return the risk to second order in the scores, where that is a diagonal and a few columns."""
        if not self.states_curvature:
            return super().score_model(scores)
        return ScoreModel(*curvature.curvature(self.program, np.asarray(scores, dtype=np.float64)))

    def second_order(self, w: Any) -> tuple[float, Array, Array]:
        """Return value, gradient and Hessian of risk + l2/2·‖w‖². O(n d²), or a sum over pairs for each column."""
        refuse_chunks(self.X, "second derivatives")
        w = self.check_point(w)
        scores = np.asarray(self.scores(w), dtype=np.float64)
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
        hessian.flat[:: self.dimension + 1] += self.l2
        return value + 0.5 * self.l2 * float(w @ w), pull + self.l2 * w, hessian

    def _second_order(self, scores: Array) -> tuple[float, Array, Array]:
        """The risk, Xᵀg and XᵀHX from a diagonal and columns, about a common centre.

        Where H does not see a shift of all scores, an offset of the features cannot cancel then.
        """
        value, slope, found = curvature.second_derivatives(self.program, scores)
        whole = float(found.diagonal.sum()) if self._shift is not None else 0.0
        shares = found.diagonal / whole if whole > 0.0 else np.zeros_like(found.diagonal)
        if found.count == 1:  # one read of X
            listed, parts = found.listed()
            columns, rates = np.array([slope, shares, *listed]), np.concatenate([[0.0, 0.0], *parts])
            images = np.asarray(transposed_times(self.X, columns.T), dtype=np.float64).T
            pull, centre = images[0], images[1]
            wholes = np.add.reduce(columns, axis=1)
        else:
            columns, rates = found.collected()
            vectors = transposed_times(self.X, np.array([slope, shares]).T)
            pull, centre = np.asarray(vectors, dtype=np.float64).T
            images, wholes = dense(columns.T @ entries(self.X)), np.asarray(columns.sum(axis=0)).ravel()
        apart = images - np.outer(wholes, centre)
        return value, pull, centred_gram(self.X, centre, found.diagonal) - apart.T @ (rates[:, None] * apart)

    @cached_property
    def _shift(self) -> float | None:
        return recession.shift(self.program)

    @property
    def depends_on_differences(self) -> bool:  # type: ignore[override]
        """Whether a common shift of all scores changes nothing, up to the rounding of weights."""
        return self._shift is not None and abs(self._shift) <= _ROUNDING * self.program.count

    def hessian_product(self, w: Any, v: Any) -> Array:
        """Return the Hessian of risk + l2/2·‖w‖² at w times v, shape (d,)."""
        w, v = self.check_point(w), self.check_point(v, "v")
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
        """Return the objective in LaTeX."""
        return latex(self.program.root) + r" + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1"

    # --- certificates and proofs ----------------------------------------------------------------------------------

    @cached_property
    def _lists_multipliers(self) -> bool:
        """Whether the conjugate is known, and its multipliers, one for each pair, are few."""
        return conjugate.has_conjugate(self.program) and self.program.pair_count <= _LISTED

    @cached_property
    def _plain_program(self) -> Program:
        """The risk with sums over pairs that share no code with those that solvers run."""
        return Program(self.program.root, self.rows, lambda node: partial(PlainPairs, node))

    @cached_property
    def conjugate(self) -> DeclaredConjugate | None:
        """The conjugate of the risk, for the dual; None where a function has none, or nothing bounds the minimiser."""
        if not conjugate.has_conjugate(self.program):
            return None
        found = DeclaredConjugate(self.program)
        return found if self.penalty.bounded or found.rest is not None else None

    def reference_value(self, scores: Array) -> float:
        """Return the risk by plain numpy, which shares no code with the steps that solvers run."""
        return float(read(self.program.root, Numpy(), scores).sum())

    def reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk by plain numpy, and the slopes of its conjugate at the best multipliers."""
        value, slopes, _ = self._below(np.asarray(scores, dtype=np.float64))
        return value, slopes

    def _below(self, scores: Array) -> tuple[float, Array, float]:
        """The risk, the slopes of a linear function below it, and that function at scores of 0."""
        if not self._lists_multipliers:
            value, slopes = self._plain_program.value_and_gradient(scores)
            return value, slopes, value - float(slopes @ scores)
        value = self.reference_value(scores)
        found = conjugate.multipliers(self.program, scores)
        cost, slopes = conjugate.conjugate(self.program, language := Numpy(), found)
        if not language.violation <= _ROUNDING:
            return value, slopes, -math.inf
        return value, slopes, -float(cost)

    def minorant_of(self, w: Array, width: float, lengths: Array) -> Minorant:
        """Return a linear function below the risk by its conjugate; what that loses beyond rounding counts as a gap."""
        offsets: list[float] = []

        def risk(scores: Array) -> tuple[float, Array]:
            value, slopes, offset = self._below(scores)
            offsets.append(offset)
            return value, slopes

        scores = np.asarray(times(self.X, w), dtype=np.float64)
        found = tangent_at(self.X, scores, lengths, risk, w)
        if not offsets or not found.usable:
            return found
        return self._rounded(found.lowered_to(offsets[0]), scores, lengths)

    def _rounded(self, found: Minorant, scores: Array, lengths: Array) -> Minorant:
        """Widen bounds on rounding where terms cancel; beyond what each node may add, that counts as a gap."""
        whole, pulls = sizes_of_terms(self.program, scores)
        relative = rounding(len(scores) + self.dimension)
        excess = relative * whole - len(self.program.nodes) * found.risk_error
        if not excess > 0.0:
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

    Where the expression has a conjugate and at most five million pairs, certificates take their lower bound from it:
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
        dataclass(frozen=True, eq=False)(cls)

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = self.X.shape[0]
        labels = read_array(self.y, "y")
        if labels.dtype.kind in "iuf":
            labels = check_vector(labels, rows, "y")
        elif labels.shape != (rows,):
            raise ValueError(f"y has shape {labels.shape}, expected ({rows},), one label for each row of X.")
        groups = as_groups(self.qid, rows)
        keep(self, y=labels, sample_weight=check_weights(self.sample_weight, rows))
        self._declare(Groups(labels, groups, self.sample_weight))

    @property
    def row_counts(self) -> Array | None:
        """The weights of the rows."""
        return self.sample_weight
