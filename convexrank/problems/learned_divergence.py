"""A generalized linear model whose link is learned with it: the Bregman divergence of chapter 4."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from convexrank.data import check_choice, check_positive, check_vector
from convexrank.problem import Certificate, CvxpyModel, Witness
from convexrank.problems.bipartite import random_features
from convexrank.problems.linear import LinearScores, RiskData
from convexrank.problems.marginals import MarginalRisk, marginal, projected_targets

__all__ = ["LearnedDivergence"]

Array = np.ndarray

_ORACLES = {"marginal": "the objective's own gradient", "projection": "the published field"}
# What a solver can do with the published field, which is not the gradient of anything.
_OF_A_FIELD = frozenset({"Field", "Certified"})
# The reference alternates two regressions, which contracts by strong / smooth each time.
_ROUNDS = 100_000


@dataclass(frozen=True, eq=False)
class LearnedDivergence(LinearScores):
    r"""The least Fenchel-Young divergence over a class of convex functions, learned together with the scorer.

    .. math::
        \min_w \; \frac1n \min_{\varphi \in \mathcal C} \sum_{i=1}^n
        \bigl[\varphi(y_i) + \varphi^*(\theta_i) - y_i\theta_i\bigr]
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad \theta = Xw

    where the class holds all convex φ, those that are s-strongly convex (``strong``), those that are l-smooth
    (``smooth``), or those that are both, s < l. The slope of φ* is the link: ``expected(w)`` returns its values at the
    scores. The inner minimum is a sort and an isotonic regression, O(n log n); see
    :mod:`convexrank.problems.marginals`. The risk is never negative, and does not change when a constant is added to
    all scores or to all targets.

    ``oracle="marginal"`` is this optimisation problem, with exact model, value, gradient and certificate. With
    ``strong`` the risk is differentiable; without it, it has kinks where scores are tied, and the returned
    subgradient is the one that breaks ties of scores by the targets, whatever the order of the rows.

    ``oracle="projection"`` is the published GradMaPr: the projection of y on the vectors that are monotone in θ, with
    the slopes the class allows, less y. It is offered as a :meth:`field`, not as a gradient, because it is not one: for
    y = (2, 3, 1) and all convex φ its integral round a closed path of scores can be −0.75. Its certificate is a
    residual.

    Without ``strong``, w = 0 is always a minimiser, with value 0: φ may then be flat (its slope jumps from
    −∞ to ∞ around it in the class of all convex φ). Only a class with ``strong`` learns a scorer.

    Parameters
    ----------
    X : array, sparse array or JAX array, shape (n, d)
        One row an example; no intercept.
    y : array, shape (n,)
        Real targets; all equal is allowed.
    strong : float, optional
        Modulus s of strong convexity of φ: the link's slope is at most 1/s.
    smooth : float, optional
        Modulus l of smoothness of φ, above ``strong``: the link's slope is at least 1/l.
    oracle : {"marginal", "projection"}
        The optimisation problem, or the published fixed-point method.
    l2, l1 : float
        Strengths.
    dtype : {"float64", "float32"}
        Precision of the data.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, a number is out of range, ``strong`` is not below
        ``smooth``, or something is asked of the other oracle.

    References
    ----------
    Dissertation on learning to rank with Bregman divergences, chapter 4: objective (4.1), GradMaPr (4.14), (4.15).

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 0.1, 0.9, 1.0]
    >>> problem = cr.problems.LearnedDivergence(X, y, strong=1.0, l2=0.01)
    >>> solution = problem.solve()
    >>> solution.status.name, bool(solution.x[0] > 0)
    ('CONVERGED', True)
    """

    y: Any
    strong: float | None = None
    smooth: float | None = None
    oracle: str = "marginal"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "y", check_vector(self.y, self.X.shape[0], "y"))
        check_choice(self.oracle, _ORACLES, "oracle")
        for name in ("strong", "smooth"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_positive(getattr(self, name), name))
        if self.strong is not None and self.smooth is not None and not self.strong < self.smooth:
            raise ValueError(
                f"strong is {self.strong} and smooth is {self.smooth}, expected strong < smooth: no convex function "
                "grows faster than its own upper bound; lower strong, raise smooth, or leave one of them out."
            )

    # --- the scores in order ---------------------------------------------------------------------------------------

    @cached_property
    def _by_target(self) -> Array:
        return np.argsort(self.y, kind="stable")

    @cached_property
    def _ranked(self) -> Array:
        return self.y[self._by_target]

    def _order(self, scores: Array) -> tuple[Array, Array]:
        """Rows in the order of the scores, equal scores in the order of their targets; and the scores so sorted."""
        order = np.argsort(scores)
        ordered = scores[order]
        if (
            ordered[1:] == ordered[:-1]
        ).any():  # a stable sort costs several times as much: only where it matters
            order = self._by_target[np.argsort(scores[self._by_target], kind="stable")]
        return order, np.asarray(ordered, dtype=np.float64)

    # --- the optimisation problem ----------------------------------------------------------------------------------

    @property
    def differentiable(self) -> bool:
        """Whether the risk is differentiable: when φ is strongly convex."""
        return self.strong is not None

    @property
    def has_curvature(self) -> bool:
        """No: the gradient has kinks."""
        return False

    @property
    def attained(self) -> bool:
        """Yes: a convex function that is quadratic by pieces and bounded below has a minimiser."""
        return True

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of the capabilities of this instance; the published field offers no objective."""
        return super().capabilities if self.oracle == "marginal" else _OF_A_FIELD

    def _require(self, oracle: str, what: str) -> None:
        if self.oracle != oracle:
            raise ValueError(
                f'{what} belongs to oracle="{oracle}", not to oracle="{self.oracle}"; make a problem with that one.'
            )

    def risk_and_score_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return m(θ)/n and a subgradient in the scores."""
        self._require("marginal", "the objective")
        n, (order, ordered) = len(self.y), self._order(scores)
        value, slope = marginal(ordered, self.y[order], self._ranked, self.strong, self.smooth)
        gradient = np.empty(n)
        gradient[order] = slope / n
        return value / n, gradient

    @property
    def risk(self) -> RiskData:
        """The risk as a JAX function of the scores, by a callback to the same kernel."""
        self._require("marginal", "the objective")
        return RiskData(MarginalRisk(self.strong, self.smooth), self.y, (len(self.y),))

    def expected(self, w: Any) -> Array:
        """Return the learned link at the scores, s(θ), shape (n,): y plus n times the risk's slope in the scores."""
        return len(self.y) * self.risk_and_score_gradient(self.scores(self.check_point(w)))[1] + self.y

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression; with moduli it has variables of its own.

        Where u is one of them, ⟨sorted u, sorted v⟩ plus squares is the dearest assignment of the costs
        ½(√k·u_i + v_j/√k)², stated by the dual of the assignment problem.
        """
        import cvxpy as cp

        self._require("marginal", "the exact model")
        n, y = len(self.y), self.y - self.y.mean()
        linear = -(y @ scores)
        if self.strong is None:
            v, base, envelope = scores, 0.0, 0.0
        else:
            v, base = cp.Variable(n, name="v"), self.strong
            envelope = cp.sum_squares(scores - v) / (2.0 * base) + 0.5 * base * float(y @ y)
        if self.smooth is None:
            return (cp.dotsort(v, y) + envelope + linear) / n, []
        k, row, column = self.smooth - base, np.ones((1, n)), np.ones((n, 1))
        u, a, b = cp.Variable((n, 1), name="u"), cp.Variable((n, 1), name="a"), cp.Variable((1, n), name="b")
        costs = 0.5 * cp.square(math.sqrt(k) * u @ row + column @ cp.reshape(v, (1, n), "C") / math.sqrt(k))
        total = cp.sum(a) + cp.sum(b) + 0.5 * k * float(y @ y) - k * (y @ u[:, 0])
        return (total + envelope + linear) / n, [a @ row + column @ b >= costs]

    def reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and a subgradient in the scores, from the formulas as they stand."""
        self._require("marginal", "the objective")
        n, order = len(self.y), np.lexsort((self.y, scores))
        theta, y = scores - scores.mean(), self.y - self.y.mean()
        t, ranked = theta[order], np.sort(y)
        if self.smooth is None:
            u, v = ranked, t if self.strong is None else _pool(t - self.strong * ranked)
        else:
            u, v = _alternate(t, ranked, self.strong, self.smooth)
        s, k = self.strong, (self.smooth or math.inf) - (self.strong or 0.0)
        value = float(u @ v) - float(theta @ y)
        slope = u if s is None else (t - v) / s
        if math.isfinite(k):
            value += 0.5 * k * float(np.sum((u - ranked) ** 2)) + float(v @ v) / (2.0 * k)
            slope = u + v / k if s is None else slope
        if s is not None:
            value += float(np.sum((t - v) ** 2)) / (2.0 * s) + 0.5 * s * float(y @ y)
        gradient = np.empty(n)
        gradient[order] = slope
        return value / n, (gradient - y) / n

    # --- the published method --------------------------------------------------------------------------------------

    def field(self, x: Any) -> Array:
        r"""Return the published direction :math:`\frac1n X^\top(s - y) + \lambda_2 w`, shape (d,).

        s is the projection of y on the vectors that are monotone in the scores with slopes between 1/l and 1/s, and
        equal at equal scores (4.14). O(n log n). No l1: that is left to ``prox``.
        """
        self._require("projection", "the published field")
        w = self.check_point(x)
        n, (order, ordered) = len(self.y), self._order(self.scores(w))
        targets, pull = self.y[order], np.empty(n)
        pull[order] = projected_targets(ordered, targets, self.strong, self.smooth) - targets
        return np.asarray(self.X.T @ (pull / n), dtype=np.float64) + self.l2 * w

    def hessian(self, w: Any) -> Array:
        """Refuse: the gradient is linear by pieces, and has kinks between them."""
        raise ValueError(
            "LearnedDivergence has no Hessian: its gradient is linear by pieces; use gradient, or solver lbfgs."
        )

    def to_cvxpy(self, explicit_scores: bool = False) -> CvxpyModel:
        """Return the exact model; see :meth:`LinearScores.to_cvxpy`."""
        self._require("marginal", "the exact model")
        return super().to_cvxpy(explicit_scores)

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound value − optimum at x; for the published field its residual, and called so."""
        if self.oracle == "marginal":
            return super().certificate(x, witness)
        w = self.check_point(x, "x")
        moved = w - self.prox(w - self.field(w), 1.0)
        return Certificate(float(np.linalg.norm(moved)), math.nan, -math.inf, kind="residual")

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        n, kind = int(rng.integers(5, 9)), seed % 4
        X = random_features(rng, n, int(rng.integers(1, 4)))
        X = X / max(float(np.abs(X).max()), 1.0)
        y = np.tanh(3.0 * X @ rng.normal(size=X.shape[1])) + 0.3 * rng.normal(size=n)
        if rng.random() < 0.3:
            y = np.round(y)  # equal targets
        strong = float(rng.choice([0.2, 0.5])) if kind % 2 == 0 else None
        smooth = float(rng.choice([1.0, 3.0])) if kind >= 2 else None
        return cls(X, y, strong, smooth, l2=float(rng.choice([1e-2, 0.1])), l1=float(rng.choice([0.0, 0.01])))


def _pool(values: Array) -> Array:
    from scipy.optimize import isotonic_regression  # slow to import

    return -isotonic_regression(-values, increasing=False).x


def _alternate(t: Array, ranked: Array, s: float | None, smooth: float) -> tuple[Array, Array]:
    """Minimise over u and v in turn."""
    if s is None:
        return _pool(ranked - t / smooth), t
    k, v = smooth - s, t
    for _ in range(_ROUNDS):
        u = _pool(ranked - v / k)
        before, v = v, k / smooth * _pool(t - s * u)
        if float(np.abs(v - before).max()) <= 1e-15 * float(np.abs(t).max() + s * np.abs(ranked).max()):
            break
    return u, v
