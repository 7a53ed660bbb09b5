"""The learned divergence with scores from a kernel instead of features."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.core.certificates import lower_bound
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.loop import Method, Options, is_iterative
from convexrank.core.minorants import InBalls, rounding
from convexrank.core.problem import Problem
from convexrank.core.results import Certificate, Witness
from convexrank.data import check_kernel, check_matrix, check_positive, keep, keep_checked
from convexrank.links import fit_link
from convexrank.problems.single_index._kernel_features import FeatureSpace, random_kernel
from convexrank.problems.single_index.learned_divergence import LearnedDivergence
from convexrank.regularizers import Penalty
from convexrank.solvers.row_faces import Compiled, prox_on_device
from convexrank.solvers.through_another import ChangeOfVariables

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class KernelLearnedDivergence(Problem):
    r"""A learned divergence whose scores are linear in the feature space of a kernel.

    .. math::
        \min_\alpha \; \frac1n \min_{\varphi \in \mathcal C} \sum_{i=1}^n
        \bigl[\varphi(y_i) + \varphi^*(\theta_i) - y_i\theta_i\bigr]
        + \frac{\lambda_2}{2}\,\alpha^\top K\alpha, \qquad \theta = K\alpha,

    where the class holds the convex φ that are s-strongly convex (``strong``), and l-smooth (``smooth``) if that is
    given. With :math:`K = XX^\top` it is :class:`LearnedDivergence` at :math:`w = X^\top\alpha`, with the same values.
    One minimiser is :math:`\alpha = (y - s)/(n\lambda_2)`, where s are the fitted values. When K is singular there are
    other minimisers with the same scores; the solvers return the one without a component in the null space of K.

    The solvers run in orthonormal coordinates of the feature space, where the problem is as well conditioned as a
    linear problem: :attr:`linear` is that problem. The exact model is in α and K.

    Parameters
    ----------
    K : array, shape (n, n)
        Kernel matrix of the rows: symmetric, and positive semidefinite up to rounding. It may be singular. A sparse
        matrix is made dense.
    y : array, shape (n,)
        Real targets.
    strong : float
        Modulus s of strong convexity of φ: the link's slope is at most 1/s. Without it α = 0 would be a minimiser.
    smooth : float, optional
        Modulus l of smoothness of φ, above ``strong``: the link's slope is at least 1/l.
    l2 : float
        Strength of the penalty, greater than 0.
    output_range : pair of float or None, optional
        Least and largest value of the link, as in :class:`LearnedDivergence`.

    Raises
    ------
    ValueError, TypeError
        When K is not square, not symmetric, or has a negative eigenvalue, which the message states; when lengths
        differ, or a number is out of range.

    Notes
    -----
    O(n³) once, for the eigenvalues; then O(n·rank) per step.

    References
    ----------
    Dissertation on learning to rank with Bregman divergences, section 4.2.3.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> x, y = np.array([0.0, 1.0, 2.0, 3.0]), [0.0, 1.0, 1.0, 0.0]
    >>> kernel = lambda a, b: np.exp(-((a[:, None] - b) ** 2))
    >>> problem = cr.problems.KernelLearnedDivergence(kernel(x, x), y, strong=1.0, l2=0.01)
    >>> solution = problem.solve()
    >>> solution.status.name, problem.predict(kernel(np.array([1.5]), x), solution).round(1).tolist()
    ('CONVERGED', [1.0])
    """

    K: Any
    y: Any
    strong: float
    smooth: float | None = None
    l2: float = field(kw_only=True)
    output_range: tuple[float | None, float | None] | None = field(default=None, kw_only=True)
    _space: FeatureSpace = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "l2")
        if self.strong is None:
            raise ValueError(
                "strong is None; without it the link may jump and no score is learned: pass a number, the largest "
                "slope of the link being 1/strong."
            )
        matrix, values, vectors = check_kernel(self.K)
        keep(self, K=matrix, _space=FeatureSpace.of(values, vectors))
        made = self.linear
        keep(self, **{name: getattr(made, name) for name in ("y", "strong", "smooth", "output_range")})

    @cached_property
    def linear(self) -> LearnedDivergence:
        """The same problem with features: orthonormal coordinates in the feature space of the kernel."""
        moduli = self.strong, self.smooth
        return LearnedDivergence(
            self._space.features, self.y, *moduli, l2=self.l2, output_range=self.output_range
        )

    def coordinates(self, x: Any) -> Array:
        """Return the weights of :attr:`linear` that give the same scores as α."""
        return self.linear.X.T @ self.check_point(x)

    def coefficients(self, weights: Array) -> Array:
        """Return the α with the same scores as weights of :attr:`linear`, and no part in the null space of K."""
        return self._space.inverse @ weights

    capabilities = frozenset({"Exact", "Smooth", "JaxObjective", "Proximal", "JaxProximal", "Certified"})

    @property
    def dimension(self) -> int:
        """Number of coefficients n."""
        return len(self.y)

    @property
    def rows(self) -> int:
        """Number of examples n."""
        return len(self.y)

    default_solver = "lbfgs"  # quasi-Newton in the coordinates of the feature space

    def _adapted(self, solver: Method, options: Options | None) -> Method:
        """Return the solver on :attr:`linear`, its states in α; the exact one stays with α and K."""
        if not is_iterative(solver):
            return solver
        return ChangeOfVariables(solver, self.linear, self.coordinates, self.coefficients)

    # --- value and gradient ----------------------------------------------------------------------------------------

    def value_and_gradient(self, w: Any) -> tuple[float, Array]:
        """Return the objective at α and its gradient K(∇R(Kα) + l2·α), shape (n,)."""
        alpha = self.check_point(w, "w")
        scores = self.K @ alpha
        value, slope = self.linear._risk_and_score_gradient(scores)
        return value + 0.5 * self.l2 * float(alpha @ scores), self.K @ (slope + self.l2 * alpha)

    def jax_objective(self) -> Callable[[Any], Any]:
        """Return the objective as a JAX function of α, a pytree."""
        from jax.tree_util import Partial

        return Partial(_at_coefficients, self.linear.jax_objective(), self.linear.X)

    def _compiled(self) -> Compiled:
        prox = partial(prox_on_device, Penalty())
        return Compiled(self.jax_objective, self.jax_objective, prox, "float64", self.rows)

    def smooth_value_and_gradient(self, w: Array) -> tuple[float, Array]:
        """Return the same: all of it is smooth."""
        return self.value_and_gradient(w)

    def nonsmooth_value(self, w: Array) -> float:
        """Return 0: all of it is smooth."""
        return 0.0

    def gap_estimate(self, w: Array, value: float, gradient: Array) -> float:
        """Estimate value − optimum at α from the gradient there, in the coordinates of the feature space."""
        inner = gradient @ self._space.inverse
        return min(float(inner @ inner) / (2.0 * self.l2), value)

    def objective(self, w: Any) -> float:
        """Evaluate the objective at α."""
        return self.value_and_gradient(w)[0]

    def gradient(self, w: Any) -> Array:
        """Return the gradient of the objective, shape (n,)."""
        return self.value_and_gradient(w)[1]

    def expected(self, x: Any) -> Array:
        """Return the learned link at the scores of the rows, shape (n,)."""
        return self.linear.expected(self.coordinates(x))

    # --- exact model and certificate -------------------------------------------------------------------------------

    def to_cvxpy(self) -> CvxpyModel:
        """Return the exact model in α and K."""
        import cvxpy as cp

        alpha = cp.Variable(self.dimension, name="alpha")
        risk, constraints = self.linear._risk_model(self.K @ alpha)
        term = 0.5 * self.l2 * cp.quad_form(alpha, cp.psd_wrap(self.K))
        return CvxpyModel(cp.Problem(cp.Minimize(risk + term), constraints), {"alpha": alpha})

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        r"""Bound value − optimum at α by the duality gap.

        With u a subgradient of the risk at Kα, the dual value :math:`-R^*(u) - u^\top Ku/(2\lambda_2)` is below the
        optimum, and the gap is :math:`(\lambda_2\alpha+u)^\top K(\lambda_2\alpha+u)/(2\lambda_2)`: no eigenvalue
        enters. Risk and subgradient come from the formulas as they stand, not from the oracle.
        """
        alpha = self.check_point(x)
        scores = self.K @ alpha
        risk, slope = self.linear._reference_scores(scores)
        value = risk + 0.5 * self.l2 * float(alpha @ scores)
        if not math.isfinite(value):
            return Certificate(math.inf, value, -math.inf)
        residual = self.l2 * alpha + slope
        product = self.K @ residual
        # the rounding of residual and products; K is positive semi-definite, so |K_ij|² ≤ K_ii K_jj
        relative, lengths = rounding(2 * self.dimension), np.sqrt(np.abs(np.diag(self.K)))
        size = self.l2 * np.abs(alpha) + np.abs(slope)
        lost = 2.0 * float(size @ np.abs(product)) + float(np.abs(residual) @ lengths) ** 2
        lost = relative * (lost + relative * float(size @ lengths) ** 2)
        gap = (max(float(residual @ product), 0.0) + lost) / (2.0 * self.l2) + relative * abs(risk)
        gap = min(gap, value * (1.0 + relative)) if value > 0 else gap  # the objective is never negative
        error = relative * (abs(risk) + float(size @ lengths) * float(np.abs(alpha) @ lengths))
        return Certificate(gap, value, max(lower_bound(value, gap, error), 0.0))

    def prove(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Prove the same bound in ball arithmetic; see :mod:`convexrank.proof.learned`. O(n³) balls."""
        from convexrank.proof.learned import prove_kernel

        risk = self.linear.face(InBalls)
        return prove_kernel(type(self).__name__, self.K, self.l2, risk, self.check_point(x))

    # --- prediction ------------------------------------------------------------------------------------------------

    def scores_at(self, rows: Any, x: Any) -> Array:
        """Return the scores of new examples, shape (m,).

        Parameters
        ----------
        rows : array, shape (m, n)
            Kernel values between the new examples and those of the problem.
        x : array of shape (n,) or Solution
            The coefficients α.
        """
        rows = check_matrix(rows, "rows")
        if rows.shape[1] != self.dimension:
            raise ValueError(
                f"rows has shape {rows.shape}, expected (m, {self.dimension}): one column per example of the problem; "
                "pass kernel(new, old)."
            )
        return np.asarray(rows @ self.check_point(x))

    def predict(self, rows: Any, x: Any) -> Array:
        """Return the learned link at :meth:`scores_at`; :func:`convexrank.links.fit_link` has its intervals, too."""
        return fit_link(self.linear, self.coordinates(x))(self.scores_at(rows, x))

    def definition(self, x: Array) -> float:
        """Return the objective at α once more, by loops over K and another solution of the inner minimum."""
        from convexrank.problems.single_index._definition import least_divergence

        K, y, alpha = self.K.tolist(), self.y.tolist(), [float(entry) for entry in x]
        theta = [0.0 + sum(K[i][j] * alpha[j] for j in range(len(y))) for i in range(len(y))]
        limits: Any = self.output_range
        least = least_divergence(theta, y, self.strong, self.smooth, limits)
        norm = sum(alpha[i] * theta[i] for i in range(len(y)))
        return least / len(y) + 0.5 * self.l2 * norm

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        n, kind = int(rng.integers(5, 9)), seed % 3
        X, K = random_kernel(rng, n, kind)
        y = np.tanh(X[:, 0] + X[:, 0] ** 2 - X[:, 1]) + 0.2 * rng.normal(size=n)
        smooth = float(rng.choice([2.0, 5.0])) if rng.random() < 0.5 else None
        return cls(K, y, float(rng.choice([0.3, 1.0])), smooth, l2=float(rng.choice([0.01, 0.1])))


def _at_coefficients(objective: Callable[[Any], Any], features: Any, alpha: Any) -> Any:
    """The objective of the linear problem at Fᵀα."""
    return objective(features.T @ alpha)
