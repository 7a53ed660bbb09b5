"""The dual of a problem with linear scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.backend.design import entries
from convexrank.backend.interruption import import_module
from convexrank.core.certificates import lower_bound, value_of
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.minorants import InBalls, rounding
from convexrank.core.problem import Problem
from convexrank.core.results import Certificate, Witness
from convexrank.data import shown
from convexrank.problems._linear_scores import LinearScores
from convexrank.problems.duals._points import DualPoints
from convexrank.regularizers import L1Ball, L2Ball, Penalty

Array = np.ndarray

# A gap that needs no better evidence.
_ENOUGH = 1e-9
# How far a minimiser of the primal is looked for where nothing bounds it, in lengths of the point that is known.
_RADIUS_FACTOR = 10.0


@dataclass(frozen=True, eq=False)
class RankingDual(DualPoints):
    r"""The dual of a problem with linear scores: weights of the rows, as even as possible, that balance the classes.

    A risk with a conjugate is :math:`R(\theta) = \max_v \langle\theta, Av+b\rangle - G(v)`. The dual of
    :math:`\min_w R(Xw) + \Omega(w)`, with its sign changed, is

    .. math:: \min_v \; G(v) + \Omega^*\bigl(-X^\top(Av+b)\bigr),
              \qquad \Omega^*(m) = \sum_j \frac{(|m_j|-\lambda_1)_+^2}{2\lambda_2},

    convex in v. Without l2 and a ball the second term is a constraint, :math:`\|X^\top(Av+b)\|_\infty\le\lambda_1`.
    For :class:`PNormPush` v is a distribution α over the positives and one, β, over the negatives, with shares a and b:

    .. math:: \max_{\alpha,\beta}\; -\mathrm{KL}(\alpha\|a) - \tfrac1p\mathrm{KL}(\beta\|b)
              - \Omega^*\bigl(X_+^\top\alpha - X_-^\top\beta\bigr),

    the most even weights under which both classes have nearly the same mean. :class:`BottomPush` divides the other
    divergence by p, :class:`TopBottomPush` has two pairs (α, β), :class:`TopPush` has no divergence of β. For
    :class:`IRPush` and :class:`RmaxPush` v has a multiplier for each positive and each negative, with equal sums; for
    :class:`ConvexRisk` and :class:`RankSVM` one for each pair; for :class:`ListNet` a distribution for each query; for
    :class:`NDCGRegression` a residual for each row; for :class:`LearnedDivergence` the values of the link, a mean of
    permutations of the targets.

    **The value has the opposite sign of the primal value**: the minimum of the primal is at least minus the objective
    of the dual at any v (weak duality), with equality at the optimum. The certificate is this gap. :meth:`weights`
    returns the weights of the rows for v. If G is strictly convex the optimum is unique, even if that of the primal is
    not. Without a penalty, the dual of a logarithmic risk has no feasible point for separable data: status INFEASIBLE,
    and
    :meth:`separation` returns the direction. Normalisation is that of the primal; rows of weight 0 have weight 0.

    Parameters
    ----------
    primal : Problem
        The problem; its risk must have a known conjugate.

    Raises
    ------
    TypeError
        When ``primal`` has no dual.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), Theorem 4 and section 11, where the dual is one of Bregman distances over
    pairs; :doc:`/formulations/ranking_dual` derives this form.

    Examples
    --------
    >>> import convexrank as cr
    >>> primal = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> dual = primal.dual()
    >>> solution = dual.solve()
    >>> round(-solution.value, 6), round(primal.solve().value, 6)
    (-0.123803, -0.123803)
    >>> dual.weights(solution).round(2).tolist()  # positives are pulled up, negatives are pushed down
    [0.6, 0.4, -0.91, -0.09]
    """

    def __post_init__(self) -> None:
        known = isinstance(self.primal, Problem) and self.primal._conjugate is not None
        if not known:
            raise TypeError(
                f"primal is {shown(self.primal)}, expected a problem with a dual, such as a PNormPush."
            )

    capabilities = frozenset({"Exact", "Certified", "HasPrimal"})

    default_solver = "through-primal"

    def dual(self) -> Any:
        """Return the primal, which is the dual of the dual."""
        return self.primal

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound value − optimum at x by weak duality: the optimum is at least minus the primal's value at any point.

        The primal is evaluated by its reference code, at the points of the witness (of the primal), at the point that
        belongs to x, or, if neither is known, at a solution.
        """
        self.primal._refuse_edited()
        v = self.check_point(x)
        value = self.objective(v)
        if not math.isfinite(value):
            return Certificate(math.inf, value, -math.inf)
        points = self._primal_points(v, witness)
        above, best = min(((self._primal_value(w), w) for w in points), key=lambda pair: pair[0])
        if witness is None and value + above > _ENOUGH * max(1.0, abs(value)):
            # of a risk with kinks the point that belongs to x proves little
            above, best = min(
                (self._primal_value(self.solved), self.solved), (above, best), key=lambda p: p[0]
            )
        noise = rounding(self.dimension + self.primal.rows) * self._terms(v)
        kind, radius, metric, penalty = "global", math.inf, "", self.primal.penalty
        if not penalty.bounded and penalty.l1 == 0:
            # rows that balance up to rounding only: a bound over a ball of w, as for the primal
            kind = "ball"
            inside = self.primal._in_units
            units: Any = 1.0 if inside is None else self.primal._column_scales
            unit = self.primal._length_scale if inside is None else inside.risk.length_scale()
            metric = "" if inside is None else inside.metric
            radius = _RADIUS_FACTOR * max(unit, float(np.linalg.norm(best / units)))
            noise += radius * float(np.linalg.norm(units * self.pull_of(v)))
        gap = value + above + noise
        gap = gap if gap >= 0.0 and math.isfinite(gap) else math.inf
        return Certificate(gap, value, lower_bound(value, gap, noise), kind, radius, metric)

    def _primal_points(self, v: Array, witness: Witness | None) -> list[Array]:
        own = self.primal_point(v)
        points = [] if own is None else [own]
        if witness is not None:
            given = np.atleast_2d(np.asarray(witness.points, dtype=np.float64))
            if given.ndim == 2 and given.shape[1] == self.primal.dimension and np.isfinite(given).all():
                points += list(given)
        return points or [self.solved]

    def _primal_value(self, w: Array) -> float:
        """The primal's value from its definition, rounded up."""
        w = self.primal.project_feasible(w)
        with np.errstate(over="ignore", invalid="ignore"):
            own = self.primal._reference_minorant(w)
            value, error = value_of(self.primal.penalty, own, w)
        return value + error if math.isfinite(value + error) else math.inf

    def _terms(self, v: Array) -> float:
        """The size of what is added up at v."""
        conjugate, penalty = self.risk_conjugate, self.primal.penalty
        # multipliers are differences from that of the risk, 1
        sizes = 1.0 + sum(
            abs(block.value(part)) + float(np.abs(part).sum())
            for block, part in zip(conjugate.blocks, conjugate.parts(v), strict=True)
        )
        if penalty.bounded:
            supremum, where = penalty.conjugate(self.pull_of(v))
            pulled = float(np.abs(self.slopes(v)) @ self.primal._row_lengths)
            sizes += abs(supremum) + pulled * float(np.linalg.norm(where))
        return sizes

    def prove(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Prove a bound in ball arithmetic; see :mod:`convexrank.proof.linear`."""
        from convexrank.proof.linear import Dual, prove_dual

        v = self.check_point(x)
        given = Witness.of(x, witness)
        best = min(self._primal_points(v, given), key=self._primal_value)
        dual = Dual(self.primal.face(InBalls), self.risk_conjugate)
        return prove_dual(type(self).__name__, dual, v, self.primal.project_feasible(best))

    def to_cvxpy(self) -> CvxpyModel:
        """Return the exact model in v."""
        import cvxpy as cp

        primal, conjugate = self.primal, self.risk_conjugate
        v = cp.Variable(self.dimension, name="v")
        value, limits = conjugate.model(v)
        rows = entries(primal.X)
        shift = np.zeros(primal.dimension) if conjugate.shift is None else rows.T @ conjugate.shift
        pull = -((rows.T @ conjugate.matrix) @ v) - shift
        term, more = conjugate_model(primal.penalty, pull, primal.dimension)
        model = cp.Problem(cp.Minimize(value + term), [*limits, *more])
        return CvxpyModel(model, {"v": v}, lifted=tuple(getattr(limits, "lifted", ())))

    _without_definition = (
        "G is the conjugate of the primal's risk, one formula for each kind of risk; its values are held against the "
        "primal's definition instead, as lower bounds and at the solutions"
    )

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        # not imported: the registry has this class as well
        registry = import_module(__name__.split(".duals")[0]).REGISTRY
        kinds: list[Any] = [kind for kind in registry.values() if issubclass(kind, LinearScores)]
        first = seed % len(kinds)
        drawn = (kind.random(seed) for kind in kinds[first:] + kinds[:first])
        primal = next(one for one in drawn if one._conjugate is not None)
        if isinstance(primal.penalty.ball, L1Ball) and not primal._attained:
            # values of that model are solves, which fail where an entropy is at its boundary
            primal = primal.changed(l1_ball=None)
        return cls(primal)


def conjugate_model(penalty: Penalty, v: Any, dimension: int) -> tuple[Any, list[Any]]:
    r"""Return :math:`\Omega^*(v)` as a cvxpy expression, and the constraints that go with it.

    Parameters
    ----------
    penalty : Penalty
        Norms and ball.
    v : cvxpy expression, shape (d,)
        An affine expression.
    dimension : int
        Number of weights d.
    """
    import cvxpy as cp

    def beyond(x: Any) -> Any:
        size = cp.abs(x)
        if penalty.nonnegative is not None:  # slopes that push a weight below 0 cost nothing
            size = cp.multiply(~penalty.nonnegative, size) + cp.multiply(penalty.nonnegative, x)
        return cp.pos(size - penalty.l1)

    if penalty.l2 > 0:
        if penalty.ball is None:
            return cp.sum_squares(beyond(v)) / (2.0 * penalty.l2), []
        if isinstance(penalty.ball, L2Ball):  # a square up to the radius, and a line beyond
            size, most = cp.norm2(beyond(v)), penalty.l2 * penalty.ball.radius
            return cp.huber(size / most, 1) * (most**2 / (2.0 * penalty.l2)), []
        # the sum of two functions has as conjugate the best division of v among theirs
        rest = cp.Variable(dimension)
        return cp.sum_squares(beyond(v - rest)) / (2.0 * penalty.l2) + _support(penalty.ball, rest), []
    if penalty.ball is not None:
        return _support(penalty.ball, beyond(v)), []
    if penalty.nonnegative is not None:
        signed = np.flatnonzero(penalty.nonnegative)
        free = np.flatnonzero(~penalty.nonnegative)
        return 0.0, [v[signed] <= penalty.l1, cp.abs(v[free]) <= penalty.l1]
    return 0.0, [cp.abs(v) <= penalty.l1] if penalty.l1 > 0 else [v == 0]


def _support(ball: L1Ball | L2Ball, v: Any) -> Any:
    import cvxpy as cp

    return ball.radius * (cp.norm2(v) if isinstance(ball, L2Ball) else cp.norm_inf(v))
