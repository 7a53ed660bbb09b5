"""A generalized linear model with a learned link, the Bregman divergence of chapter 4, and its method GradMaPr."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.jax_oracles import HostRisk
from convexrank.core.capabilities import Field
from convexrank.core.results import Certificate, CertificateError, Witness
from convexrank.data import (
    check_at_least,
    check_choice,
    check_positive,
    check_vector,
    keep,
    keep_checked,
    shown,
)
from convexrank.data.checks.values import LARGEST_ENTRY
from convexrank.links import Link, fit_link
from convexrank.links.fitting import HasLink, MarginalRisk, check_range, cut_off, restricted_marginal
from convexrank.links.marginal_cost import expected_targets, power_marginal, projected_targets
from convexrank.problems._linear_scores import LinearScores, RiskData
from convexrank.problems.bipartite._base import random_features
from convexrank.problems.single_index._kernel_features import centred_square_norm
from convexrank.problems.single_index._reference import (
    class_model,
    power_model,
    power_reference,
    reference_marginal,
)
from convexrank.solvers.row_faces import Lipschitz, SingleIndex

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class RankedTargets:
    """Targets, sorted once.

    Parameters
    ----------
    y : ndarray, shape (n,)
        The targets.
    """

    y: Array

    @cached_property
    def _rows(self) -> Array:
        return np.argsort(self.y, kind="stable")

    @cached_property
    def ranked(self) -> Array:
        """The targets in non-decreasing order."""
        return self.y[self._rows]

    @cached_property
    def _centred(self) -> tuple[Array, Array]:
        """Targets less their mean, by row and ranked: an offset costs digits."""
        centre = self.ranked.mean()
        return self.y - centre, self.ranked - centre

    def order(self, scores: Array) -> tuple[Array, Array]:
        """Return rows in the order of scores, equal scores in the order of their targets; and the scores so sorted."""
        order = np.argsort(scores)
        ordered = scores[order]
        # a stable sort costs several times as much: only where it matters
        if (ordered[1:] == ordered[:-1]).any():
            order = self._rows[np.argsort(scores[self._rows], kind="stable")]
        return order, np.asarray(ordered, dtype=np.float64)

    def marginal_without_smooth(self, scores: Array, strong: float | None) -> tuple[float, Array]:
        r"""Return m(θ)/n and a subgradient by row for a class without ``smooth``.

        As ⟨θ − s/2·(p + y), p − y⟩ for the link p: with many rows the cost is mostly passes over memory.
        """
        order, ordered = self.order(scores)
        (y, ranked), half, centre = self._centred, 0.5 * (strong or 0.0), ordered.mean()
        gradient = np.empty(len(y))
        gradient[order] = expected_targets(ordered - centre, ranked, strong)
        weights = scores - (centre if half == 0.0 else centre + half * y)
        if half:
            weights -= half * gradient
        gradient -= y
        value = float(weights @ gradient)
        gradient /= len(y)
        return value / len(y), gradient


class PublishedField(LinearScores):
    """Published field of a learned divergence, and its residual."""

    y: Any
    strong: Any
    smooth: Any
    oracle: Any
    output_range: Any
    _in_order: RankedTargets

    def _require(self, oracle: str, what: str) -> None:
        if self.oracle != oracle:
            raise ValueError(
                f'{what} belongs to oracle="{oracle}", not to oracle="{self.oracle}"; make a problem with that one.'
            )

    def _field(self) -> Field:
        return Field(self.field)

    def _single_index(self) -> SingleIndex:
        return SingleIndex(self.y, self.scores, self._update_direction)

    def _update_direction(self, fitted: Array, w: Array) -> Array:
        r"""Return :math:`\frac1n X^\top(s - y) + \lambda_2 w` for fitted targets s."""
        return np.asarray(self.X.T @ ((fitted - self.y) / self.rows), dtype=np.float64) + self.l2 * w

    def field(self, x: Any) -> Array:
        r"""Return the published direction :math:`\frac1n X^\top(s - y) + \lambda_2 w`, shape (d,).

        s is the projection of y on the vectors that are monotone in the scores with slopes between 1/l and 1/s, and
        equal at equal scores (4.14); with values in the output range. O(n log n). No l1: that is left to ``prox``.

        Raises
        ------
        ValueError
            With ``smooth`` and a range, where the scores spread so far that nothing satisfies both.
        """
        self._require("projection", "the published field")
        w = self.check_point(x)
        fitted, (order, ordered) = np.empty(self.rows), self._in_order.order(self.scores(w))
        bounds = -math.inf, math.inf
        # without smooth the fit stays among the targets
        if self.output_range is not None and self.smooth is not None:
            bounds = self.output_range
            spread, width = float(ordered[-1] - ordered[0]), bounds[1] - bounds[0]
            if spread / self.smooth > width:
                raise ValueError(
                    f"the published field has no value here: the scores spread over {spread:g}, so that a link with "
                    f"slopes of at least 1/smooth spreads over {spread / self.smooth:g}, and output_range is "
                    f"{width:g} wide; take shorter steps, raise smooth, leave one of the two out, or take "
                    'oracle="marginal", which cuts the link off.'
                )
        fitted[order] = projected_targets(ordered, self.y[order], self.strong, self.smooth, bounds)
        return self._update_direction(fitted, w)

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound value − optimum at x; for the published field return its residual."""
        if self.oracle == "marginal":
            return super().certificate(x, witness)
        w = self.check_point(x, "x")
        moved = w - self.prox(w - self.field(w), 1.0)
        return Certificate(float(np.linalg.norm(moved)), math.nan, -math.inf, kind="residual")


_ORACLES = {"marginal": "the objective's own gradient", "projection": "the published field"}
# The capabilities with the published field, which is not a gradient.
_OF_A_FIELD = frozenset({"Field", "SingleIndex", "Certified"})


@dataclass(frozen=True, eq=False)
class LearnedDivergence(PublishedField):
    r"""The least Fenchel-Young divergence over a class of convex functions, learned together with the scorer.

    .. math::
        \min_w \; \frac1n \min_{\varphi \in \mathcal C} \sum_{i=1}^n
        \bigl[\varphi(y_i) + \varphi^*(\theta_i) - y_i\theta_i\bigr]
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad \theta = Xw

    where the class holds all convex φ, those that are s-strongly convex (``strong``), those that are l-smooth
    (``smooth``), or those that are both, s < l. The slope of φ* is the link: ``expected(w)`` returns its values at the
    scores. The inner minimum is a sort and an isotonic regression, O(n log n); see
    :mod:`convexrank.links.marginal_cost`. The risk is never negative, and does not change when a constant is added to
    all scores or to all targets.

    ``oracle="marginal"`` is this optimisation problem, with exact model, value, gradient and certificate. With
    ``strong`` the risk is differentiable; without ``strong`` it has kinks at tied scores, and the returned
    subgradient breaks ties of scores by the targets, independent of the order of the rows.

    ``oracle="projection"`` is the published GradMaPr: the projection of y onto the vectors that are monotone in θ, with
    the slopes of the class, less y. It is a :meth:`field`, not a gradient: for y = (2, 3, 1) and all convex φ its
    integral along a closed path of scores can be −0.75. Its certificate is a residual.

    Without ``strong``, w = 0 is always a minimiser, with value 0, because φ may be flat (in the class of all convex φ
    its slope jumps from −∞ to ∞ outside the flat part). Only a class with ``strong`` learns a scorer.

    Parameters
    ----------
    X, l2, l1, dtype : as for :class:`PNormPush`
        The data, the strengths and the precision.
    y : array, shape (n,)
        Real targets; all equal is allowed.
    strong : float, optional
        Modulus s of strong convexity of φ: the link's slope is at most 1/s.
    smooth : float, optional
        Modulus l of smoothness of φ, above ``strong``: the link's slope is at least 1/l.
    oracle : {"marginal", "projection"}
        The optimisation problem, or the published fixed-point method.
    output_range : pair of float or None, optional
        The interval of the values of the link, which must contain all targets; None omits a bound. Without ``smooth``
        the interval has no effect, because the link stays in the range of the targets. With ``smooth`` the marginal
        clips the link at the bounds: φ is l-smooth inside the interval, and infinite outside. The published field adds
        the bounds to its projection instead (section 4.2.4), and is undefined if the scores spread too far for both.
    power : float
        The exponent γ ≥ 2 of a uniformly convex class, with ``strong`` alone: all φ with
        :math:`\varphi - \tfrac s\gamma|x|^\gamma` convex, (4.6). The link is Hölder continuous with exponent 1/(γ − 1),
        (4.7). The target 0 is then a special one: a constant that is added to all targets changes the risk.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, a number is out of range, ``strong`` is not below
        ``smooth``, a target is outside the output range, or a method belongs to the other oracle.

    References
    ----------
    Dissertation on learning to rank with Bregman divergences, chapter 4: objective (4.1), GradMaPr (4.14), (4.15).

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 0.1, 0.9, 1.0]
    >>> problem = cr.problems.LearnedDivergence(X, y, strong=1.0, l2=0.01)
    >>> solution = problem.solve()
    >>> solution.status.name, round(float(solution.x[0]), 3)
    ('CONVERGED', 0.741)
    """

    y: Any
    strong: float | None = None
    smooth: float | None = None
    oracle: str = "marginal"
    output_range: Any = field(default=None, kw_only=True)
    power: float = field(default=2.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        keep(self, y=check_vector(self.y, self.X.shape[0], "y", most=LARGEST_ENTRY))
        check_choice(self.oracle, _ORACLES, "oracle")
        keep_checked(self, check_positive, "strong", "smooth")
        if self.strong is not None and self.smooth is not None and not self.strong < self.smooth:
            raise ValueError(
                f"strong is {self.strong} and smooth is {self.smooth}, expected strong < smooth: no convex function "
                "grows faster than its own upper bound; lower strong, raise smooth, or leave one of them out."
            )
        if self.output_range is not None:
            keep(self, output_range=check_range(self.output_range, self.y))
        keep(self, power=check_at_least(self.power, "power", 2.0))
        if self._beyond and (self.strong is None or self.smooth is not None or self.oracle != "marginal"):
            raise ValueError(
                f"power is {self.power} with strong={self.strong}, smooth={self.smooth} and oracle={self.oracle!r}, "
                'expected strong alone, and oracle="marginal": only that class is known beyond power=2.'
            )

    @cached_property
    def _in_order(self) -> RankedTargets:
        return RankedTargets(self.y)

    @property
    def _beyond(self) -> bool:
        """Whether the class is one beyond strong convexity."""
        return self.power != 2.0

    @classmethod
    def of_order(cls, X: Any, grades: Any, *moduli: Any, margins: Any = 1.0, **options: Any) -> Self:
        r"""Return the problem whose targets are known in order only, with margins between the grades.

        The least of all targets that are in the order of the grades, with a distance of at least the margin between
        one grade and the next, is at the margins: a wider gap never lowers the divergence, for all convex φ and for
        those that are s-strongly convex. So the problem has fixed targets, sums of margins.

        Parameters
        ----------
        X : array, shape (n, d)
            The features.
        grades : array, shape (n,)
            Grades; rows of the same grade have the same target.
        *moduli, **options : object
            ``strong`` and other arguments of the class, but for the targets, ``smooth`` and ``power``.
        margins : float or array, shape (number of grades - 1,)
            The least distance from each grade to the next, greater than 0; without margins all targets would be equal.

        Raises
        ------
        ValueError, TypeError
            As the class; when a margin is not greater than 0; with ``smooth``, ``power`` or the published field.
        """
        ranked, grade = np.unique(check_vector(grades, name="grades"), return_inverse=True)
        if len(ranked) == 1:
            raise ValueError(
                f"grades has the grade {ranked[0]:g} alone, expected two or more, of which the order is asked for."
            )
        gaps = check_vector(
            np.broadcast_to(margins, len(ranked) - 1) if np.ndim(margins) == 0 else margins, None, "margins"
        )
        if len(gaps) != len(ranked) - 1 or not (gaps > 0.0).all():
            raise ValueError(
                f"margins is {shown(margins)}, expected one number greater than 0, or {len(ranked) - 1}, one between "
                "each grade and the next."
            )
        made = cls(X, np.append(0.0, np.cumsum(gaps))[grade], *moduli, **options)
        if made.smooth is not None or made._beyond or made.oracle != "marginal":
            raise ValueError(
                "targets in order are known for all convex functions and for strong alone; leave smooth, power and "
                "oracle out."
            )
        return made

    # --- the optimisation problem ----------------------------------------------------------------------------------

    @property
    def _differentiable(self) -> bool:
        """Whether the risk is differentiable: when φ is strongly convex."""
        return self.strong is not None

    @property
    def _attained(self) -> bool:  # type: ignore[override]
        """Whether the risk reaches its infimum: it is quadratic by pieces and bounded below, with a power of 2."""
        return not self._beyond

    @property
    def _takes_chunks(self) -> bool:  # type: ignore[override]
        """Whether X may be rows out of memory: where the risk is differentiable, in two passes."""
        return self.strong is not None and self.oracle == "marginal" and not self._beyond

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """Names of the capabilities of this instance; the published field offers no objective."""
        offered = super().capabilities if self.oracle == "marginal" else _OF_A_FIELD
        if self.strong is None or self._beyond or not self._held.built:
            return offered
        return offered | {"Lipschitz"}

    @property
    def default_solver(self) -> str:
        """The fast solver that fits; for the published field the method of the source for the class."""
        if self.oracle == "marginal":
            return super().default_solver
        return "gradient" if self.strong is None else "accelerated"

    def _lipschitz(self) -> Lipschitz:
        return Lipschitz(self.lipschitz)

    @cached_property
    def lipschitz(self) -> float:
        r"""A Lipschitz constant of the gradient of the smooth part, :math:`\|CX\|_2^2/(sn) + \lambda_2`.

        C subtracts the means of the columns: the risk does not depend on them. The source claims the same for the
        published field (lemma 13 and section 4.2.4), but for the field this number is only a step length.

        Raises
        ------
        ValueError
            Without ``strong``: the gradient then jumps.
        """
        if self.strong is None or self._beyond:
            raise ValueError(
                "without strong the gradient jumps, and with a power above 2 it is steep, so that it has no Lipschitz "
                "constant; pass strong alone."
            )
        squared, rounding = centred_square_norm(self.X)
        constant = (squared + rounding) / (self.strong * self.rows) + self.l2
        return constant if constant > 0.0 else 1.0  # nothing depends on w

    def _risk_and_score_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return m(θ)/n and a subgradient in the scores."""
        self._require("marginal", "the objective")
        if self._beyond:
            value, slope = power_marginal(
                np.asarray(scores, dtype=np.float64), self.y, self.strong or 0.0, self.power
            )
            return value / self.rows, slope / self.rows
        if self.smooth is None:
            return self._in_order.marginal_without_smooth(scores, self.strong)
        n, (order, ordered) = len(self.y), self._in_order.order(scores)
        parts = ordered, self.y[order], self._in_order.ranked, self.strong, self.smooth
        value, slope = restricted_marginal(*parts, self.output_range)
        gradient = np.empty(n)
        gradient[order] = slope / n
        return value / n, gradient

    @property
    def _jax_risk(self) -> RiskData:
        """The risk as a JAX function of the scores, by a callback to the same code."""
        self._require("marginal", "the objective")
        if self._beyond:
            return RiskData(HostRisk(self._risk_and_score_gradient), (), (self.rows,))
        return RiskData(MarginalRisk(self.strong, self.smooth, self.output_range), self.y, (self.rows,))

    def expected(self, w: Any) -> Array:
        """Return the learned link at the scores, s(θ), shape (n,): y plus n times the risk's slope in the scores."""
        return self._link_at(self.scores(self.check_point(w)))

    def _link_at(self, scores: Array) -> Array:
        return len(self.y) * self._risk_and_score_gradient(scores)[1] + self.y

    def _has_link(self) -> HasLink:
        limits, is_marginal = (self.strong, self.smooth, self.output_range), self.oracle == "marginal"
        return HasLink(self.y, *limits, is_marginal, lambda w: self.scores(self.check_point(w)))

    @property
    def _conjugate(self) -> Any:
        """The conjugate of the risk, for the dual; None with ``smooth``, whose links are no means of permutations."""
        if self.oracle != "marginal" or self.smooth is not None:
            return None
        from convexrank.problems.single_index._conjugate import LinkConjugate

        return LinkConjugate(self.y, self.strong or 0.0, self.power, self._link_at)

    def link(self, w: Any, *, optimal: bool = True) -> Link:
        """Return the learned link as a curve, with its interval and φ; see :func:`convexrank.links.fit_link`."""
        if self._beyond:
            raise ValueError(
                f"power is {self.power}, and the curve of the link is known for power=2 only; expected(w) has its "
                "values at the scores."
            )
        return fit_link(self, w, optimal=optimal)

    def _risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression; with moduli it has variables of its own."""
        self._require("marginal", "the exact model")
        if self._beyond:
            return power_model(scores, self.y, self.strong or 0.0, self.power) / self.rows, []
        total, limits = class_model(scores, self.y, self.strong, self.smooth, self.output_range)
        return total / self.rows, limits

    def _reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and a subgradient in the scores, from the formulas as they stand."""
        self._require("marginal", "the objective")
        if self._beyond:
            value, slope = power_reference(scores, self.y, self.strong or 0.0, self.power)
        else:
            value, slope = reference_marginal(scores, self.y, self.strong, self.smooth, self.output_range)
        return value / self.rows, slope / self.rows

    def _ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, from the definition, for proofs; shape (n,) in and out."""
        from convexrank.proof.balls import midpoints
        from convexrank.proof.learned import LinkClass, tangent_of_bounded_links, tangent_of_links

        if self.oracle != "marginal":
            raise CertificateError(
                'oracle="projection" is a field and no optimisation problem: nothing is proved about it; make a '
                'problem with oracle="marginal".'
            )
        if self._beyond:
            from convexrank.proof.orders import tangent_of_powers

            middle = midpoints(scores)
            link = self._link_at(middle)
            return tangent_of_powers(scores, self.y, self.strong or 0.0, self.power, link)
        if self.smooth is None or (self.strong is None and self.output_range is None):
            return tangent_of_links(scores, self.y, self.strong, self.smooth)
        kind = LinkClass(self.strong, self.smooth, *(self.output_range or (-math.inf, math.inf)))
        # the link in floats is evidence, whose value is found over balls
        middle = midpoints(scores)
        order, ordered = self._in_order.order(middle)
        link = self._link_at(middle)
        kept = middle.copy()
        if self.output_range is not None:
            parts = ordered, self.y[order], self._in_order.ranked, self.strong, self.smooth
            kept[order] = cut_off(*parts, self.output_range)[0]
        return tangent_of_bounded_links(scores, self.y, kind, link, kept)

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, by another solution of the inner minimum."""
        from convexrank.problems.single_index._definition import least_divergence, least_power_divergence

        theta, y = [float(score) for score in scores], self.y.tolist()
        if self.power != 2.0:
            return least_power_divergence(theta, y, self.strong or 0.0, self.power) / len(y)
        return least_divergence(theta, y, self.strong, self.smooth, self.output_range) / len(y)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        n, kind = int(rng.integers(5, 9)), seed % 4
        X = random_features(rng, n, int(rng.integers(1, 4)), bounded=True)
        y = np.tanh(3.0 * X @ rng.normal(size=X.shape[1])) + 0.3 * rng.normal(size=n)
        if rng.random() < 0.3:
            y = np.round(y)  # equal targets
        strong = float(rng.choice([0.2, 0.5])) if kind % 2 == 0 else None
        smooth = float(rng.choice([1.0, 3.0])) if kind >= 2 else None
        return cls(X, y, strong, smooth, l2=float(rng.choice([1e-2, 0.1])), l1=float(rng.choice([0.0, 0.01])))
