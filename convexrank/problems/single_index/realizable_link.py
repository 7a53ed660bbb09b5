r"""Linear scores with an unknown monotone link that fits the targets exactly: a feasibility problem.

The scores that a monotone link with bounded slopes maps exactly to given targets, and what can be proved of them.

Scores θ and targets y lie on one such link, y = g(θ) with slopes between 1/l and 1/s, exactly when

.. math:: s\,(y_j-y_i) \;\le\; \theta_j-\theta_i \;\le\; l\,(y_j-y_i) \qquad\text{for all } y_i < y_j ,

and equal targets have equal scores if l is finite. Then neighbours among the distinct targets suffice: a chain of
bounded increments. Without l a link may be flat, rows of equal target are free among themselves, and only the largest
score of one target and the smallest of the next are tied. The set is a polyhedron, unbounded, and a constant may be
added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.design import is_sparse, row_lengths
from convexrank.core.capabilities import Feasibility
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.problem import Problem
from convexrank.core.results import Certificate, Status, Witness
from convexrank.data import check_matrix, check_positive, check_vector, keep, keep_checked
from convexrank.data.checks.values import LARGEST_ENTRY
from convexrank.solvers.row_faces import SplitFeasibility

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class RealizableScores:
    """The scores that are realizable for the targets.

    Parameters
    ----------
    targets : ndarray, shape (n,)
        The targets y.
    strong : float
        The modulus s, at least 0.
    smooth : float
        The modulus l, above s; may be infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank.problems.single_index.realizable_link import RealizableScores
    >>> scores = RealizableScores(np.array([0.0, 1.0, 3.0]), strong=1.0, smooth=2.0)
    >>> scores.nearest(np.array([0.0, 0.0, 3.0])).round(12).tolist()
    [-0.5, 0.5, 3.0]
    """

    targets: Array
    strong: float
    smooth: float

    @cached_property
    def _levels(self) -> tuple[Array, Array, Array]:
        """The distinct targets, the level of each row, and the number of rows of each level."""
        return np.unique(self.targets, return_inverse=True, return_counts=True)

    @cached_property
    def chained(self) -> bool:
        """Whether all rows of a level have one score: because their targets need it, or because there is one row."""
        return math.isfinite(self.smooth) or len(self._levels[0]) == len(self.targets)

    @cached_property
    def steps(self) -> tuple[Array, Array]:
        """Bounds of the increment from each level to the next, shape (levels − 1,)."""
        gaps = np.diff(self._levels[0])
        return self.strong * gaps, self.smooth * gaps

    def nearest(self, scores: Array) -> Array:
        """Return the projection of the scores, by one bounded-increment regression. O(n log n)."""
        from convexrank.projections import bounded_increments  # slow to import

        levels, level, counts = self._levels
        if self.chained:
            means = np.bincount(level, scores) / counts
            return bounded_increments(means, *self.steps, weights=counts.astype(np.float64))[level]
        # rows of equal target keep the order of their scores
        order = np.lexsort((scores, level))
        lower = self.strong * np.diff(levels[level[order]])
        fitted = np.empty_like(scores)
        fitted[order] = bounded_increments(scores[order], lower, np.inf)
        return fitted

    def inside(self, scores: Array) -> Array:
        """Return a member near the scores by running through the levels once: no projection, but plainly a member."""
        levels, level, counts = self._levels
        low, high = self.steps
        if self.chained:
            means = np.bincount(level, scores) / counts
            climbed = np.cumsum(np.clip(np.diff(means), low, high))
            return (means[0] + np.r_[0.0, climbed])[level]
        # above every score of the levels below, by the least increments: a running maximum once those are taken off
        floor = self.strong * (levels - levels[0])
        highest = np.full(len(levels), -np.inf)
        np.maximum.at(highest, level, scores)
        before = np.r_[-np.inf, np.maximum.accumulate(highest - floor)[:-1]]
        return np.maximum(scores, (before + floor)[level])

    def violation(self, scores: Array) -> float:
        """Return the root mean square by which the scores must be moved: their distance from the set over √n.

        The compiled projection is not taken on trust: its answer is moved inside first, so that a wrong one could only
        give too large a number.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            moved = scores - self.inside(self.nearest(scores))
            return float(np.linalg.norm(moved)) / math.sqrt(len(scores))

    def support(self, direction: Array, reach: float) -> tuple[Array, float, float]:
        r"""Bound ⟨u, θ⟩ from below over all realizable θ, by the multipliers of the increments.

        Write U for the sums of u over all levels above a step. Then :math:`\langle u,\theta\rangle = \sum_k U_k
        (\theta_{k+1}-\theta_k)` is at least :math:`\sum_k U_k^+ \mathrm{low}_k - U_k^- \mathrm{high}_k`. Without l no U
        may be negative, nor may it become so by the rows of a level that pull down; what is negative by rounding is
        charged with the size of the scores.

        Parameters
        ----------
        direction : ndarray, shape (n,)
            The vector u; its mean is taken off.
        reach : float
            Twice a bound on the size of a score.

        Returns
        -------
        ndarray, float, float
            The direction used, the bound, and how far rounding may have moved it.
        """
        levels, level, _ = self._levels
        u = direction - direction.mean()
        sums = np.bincount(level, u, minlength=len(levels))
        above = np.cumsum(sums[::-1])[::-1][1:]
        low, high = self.steps
        size = float(np.abs(u).sum())
        spread = float(levels[-1] - levels[0])
        if math.isfinite(self.smooth):
            bound = float(np.where(above > 0, low, high) @ above)
            extent = self.smooth * spread
        else:
            down = np.bincount(level, np.minimum(u, 0.0), minlength=len(levels))
            short = max(0.0, -float((np.r_[above, 0.0] + down).min()))
            extent = self.strong * spread + reach
            bound = self.strong * float(u @ (self.targets - self.targets.mean())) - short * extent
        rounding = 4.0 * (len(u) + 8) * np.finfo(float).eps * size * (extent + reach)
        return u, bound, rounding


# Newton's method on a convex decreasing function, from its left: it climbs to the root and needs a handful of steps.
_STEPS = 100


@dataclass(frozen=True, eq=False)
class ImageOfBall:
    r"""The set :math:`\{Xw : \|w\|_2 \le r\}`, an ellipsoid with its inside.

    X is factorised once, O(nd·min(n, d)) when dense; a sparse X is not touched, only the smaller of its two Gram
    matrices is made. Every projection after that costs two products with X and a root of one equation.

    Parameters
    ----------
    X : ndarray or sparse array, shape (n, d)
        Features.
    radius : float
        The radius r.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank.problems.single_index.realizable_link import ImageOfBall
    >>> ImageOfBall(np.eye(2), 1.0).nearest_weights(np.array([3.0, 4.0])).round(12).tolist()
    [0.6, 0.8]
    """

    X: Any
    radius: float

    @cached_property
    def _factors(self) -> tuple[Array, Array]:
        """Singular values of X above rounding, and the right singular vectors as columns."""
        n, d = self.X.shape
        if is_sparse(self.X):
            small = self.X @ self.X.T if n < d else self.X.T @ self.X
            squares, vectors = np.linalg.eigh(np.asarray(small.todense(), dtype=np.float64))
            kept = squares > max(n, d) * np.finfo(float).eps * max(float(squares[-1]), 0.0)
            values, vectors = np.sqrt(squares[kept]), vectors[:, kept]
            return values, np.asarray(self.X.T @ vectors) / values if n < d else vectors
        # the triangular factor has the same singular values, and is small
        tall = np.linalg.qr(self.X, mode="r") if n > d else self.X
        _, values, rows = np.linalg.svd(np.asarray(tall, dtype=np.float64), full_matrices=False)
        kept = values > max(n, d) * np.finfo(float).eps * values.max(initial=0.0)
        return values[kept], rows[kept].T

    def nearest_weights(self, scores: Array) -> Array:
        """Return the w in the ball, of least length, whose scores Xw are nearest to the given ones."""
        values, vectors = self._factors
        pull = vectors.T @ np.asarray(self.X.T @ scores, dtype=np.float64)
        free = pull / values**2
        if float(np.linalg.norm(free)) <= self.radius:
            return vectors @ free
        shrunk = pull / (values**2 + self._multiplier(values**2, pull))
        # the root is good to rounding; the constraint is to hold all the same
        return vectors @ (shrunk * min(1.0, self.radius / float(np.linalg.norm(shrunk))))

    def _multiplier(self, squares: Array, pull: Array) -> float:
        """Return μ > 0 with Σ (pull / (squares + μ))² = r²: Newton on 1/r − 1/‖·‖, which is nearly linear in μ."""
        multiplier = 0.0
        for _ in range(_STEPS):
            part = pull / (squares + multiplier)
            length = float(np.linalg.norm(part))
            slope = float(part @ (part / (squares + multiplier)))
            step = (length / self.radius - 1.0) * length**2 / slope
            multiplier += step
            if not step > 1e-15 * multiplier:
                break
        return multiplier


@dataclass(frozen=True, eq=False)
class RealizableLink(Problem):
    r"""Find weights for which a monotone link with bounded slopes maps the scores exactly to the targets.

    .. math::
        \text{find } w:\quad \|w\|_2 \le r, \qquad
        s\,(y_j-y_i) \;\le\; \theta_j-\theta_i \;\le\; l\,(y_j-y_i) \quad\text{whenever } y_i \le y_j,
        \qquad \theta = Xw .

    These are the scores for which some link y = g(θ) has slopes between 1/l and 1/s. Without ``smooth`` the link may be
    flat: then the scores of rows with equal targets are free; with ``smooth`` they must be equal. Without ``strong``
    the link may jump, and w = 0 satisfies all constraints: only problems with ``strong`` learn a scorer.

    The problem is to find a common point of two convex sets: the realizable scores, whose projection is one
    bounded-increment regression, and the ellipsoid of the scores Xw of the ball, whose projection is least squares with
    a bound on the length. There is no objective but a :meth:`violation`, the root mean square of the least change of
    the scores that makes them realizable. If the constraints are infeasible, the status is INFEASIBLE, and a
    :meth:`separation` proves it.

    Parameters
    ----------
    X : array, sparse array or JAX array, shape (n, d)
        The features, one row per example; no intercept, because a constant added to all scores has no effect.
    y : array, shape (n,)
        Real targets; equal ones are allowed.
    radius : float
        Bound r on the length of w, greater than 0.
    strong : float, optional
        Modulus s: the link's slope is at most 1/s.
    smooth : float, optional
        Modulus l, above ``strong``: the link's slope is at least 1/l.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, a number is out of range, or ``strong`` is not below
        ``smooth``.

    Notes
    -----
    O(nd·min(n, d)) once, then O(nd + n log n) per iteration.

    References
    ----------
    Dissertation on learning to rank with Bregman divergences, section 4.4: (4.21). The source has one symbol for
    the slopes of the link and of its inverse; the constraints on scores use those of the inverse.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 0.5, 0.8, 1.0]
    >>> problem = cr.problems.RealizableLink(X, y, radius=5.0, strong=1.0)
    >>> solution = problem.solve()
    >>> solution
    Solution: CONVERGED (admm, 6 steps, 0.018 s), violation 0 certified (root mean square of scores)
    """

    X: Any
    y: Any
    radius: float
    strong: float | None = None
    smooth: float | None = None

    def __post_init__(self) -> None:
        keep(self, X=check_matrix(self.X, most=LARGEST_ENTRY))
        keep(self, y=check_vector(self.y, self.X.shape[0], "y", most=LARGEST_ENTRY))
        keep_checked(self, check_positive, "radius", "strong", "smooth")
        if self.strong is not None and self.smooth is not None and not self.strong < self.smooth:
            raise ValueError(
                f"strong is {self.strong} and smooth is {self.smooth}, expected strong < smooth: slopes lie between "
                "1/smooth and 1/strong; lower strong, raise smooth, or leave one of them out."
            )

    capabilities = frozenset({"Exact", "Feasibility", "SplitFeasibility", "Certified"})

    @property
    def dimension(self) -> int:
        """Number of weights d."""
        return int(self.X.shape[1])

    @property
    def rows(self) -> int:
        """Number of examples n."""
        return int(self.X.shape[0])

    default_solver = "admm"

    # --- the two sets ----------------------------------------------------------------------------------------------

    @cached_property
    def _realizable(self) -> RealizableScores:
        smooth = math.inf if self.smooth is None else self.smooth
        return RealizableScores(self.y, self.strong or 0.0, smooth)

    @cached_property
    def _reached(self) -> ImageOfBall:
        return ImageOfBall(self.X, self.radius)

    def _feasibility(self) -> Feasibility:
        return Feasibility(self.violation)

    def _split_feasibility(self) -> SplitFeasibility:
        return SplitFeasibility(self.lift, self.recover, self.project)

    def lift(self, x: Array) -> Array:
        """Return the scores Xw, shape (n,): the point that belongs to w."""
        return np.asarray(self.X @ x, dtype=np.float64)

    def recover(self, point: Array) -> Array:
        """Return the w in the ball whose scores are nearest to a point, the shortest one where there are several."""
        return self._reached.nearest_weights(point)

    def project(self, point: Array) -> Array:
        """Return the realizable scores nearest to a point."""
        return self._realizable.nearest(point)

    def project_feasible(self, x: Array) -> Array:
        """Return the nearest point of the ball."""
        length = float(np.linalg.norm(x))
        return x if length <= self.radius else x * (self.radius / length)

    # --- what can be said of a point -------------------------------------------------------------------------------

    def violation(self, x: Any) -> float:
        """Return the root mean square of the least change of the scores that makes them realizable.

        If the excess of the length of w over the radius is larger, return that; 0 when x satisfies all constraints.
        """
        w = self.check_point(x, "w")
        return max(self._realizable.violation(self.lift(w)), float(np.linalg.norm(w)) - self.radius)

    def separation(self, x: Any) -> tuple[Array, float]:
        r"""Prove that the constraints are infeasible, from the remaining gap at x.

        For u, the realizable scores nearest to Xw less Xw, a hyperplane lies between the two sets when
        :math:`\min_{\theta\text{ realizable}}\langle u,\theta\rangle > r\,\|X^\top u\|_2`. The left side is evaluated
        by multipliers of the increments, not by the projection, and rounding is taken off.

        Parameters
        ----------
        x : array, shape (d,)
            The point; the proof succeeds near points of least violation.

        Returns
        -------
        ndarray of shape (n,), float
            The normal u, and a lower bound on the violation of every w in the ball; 0 when nothing is proved.
        """
        scores = self.lift(self.check_point(x, "w"))
        reach = 2.0 * self.radius * self._longest_row
        u, least, rounding = self._realizable.support(self.project(scores) - scores, reach)
        length = float(np.linalg.norm(u))
        most = self.radius * float(np.linalg.norm(self.X.T @ u))
        margin = least - most - rounding
        return u, margin / (length * math.sqrt(len(u))) if margin > 0 else 0.0

    @cached_property
    def _longest_row(self) -> float:
        return float(row_lengths(self.X).max())

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Return the violation at x, with a proved lower bound on the least possible violation."""
        self._refuse_edited()
        most, least = self.violation(x), self.separation(x)[1]
        return Certificate(most, math.nan, least, "violation", metric="root mean square of scores")

    def _terminal_status(self, w: Array) -> Status | None:
        """Recognise by a separating hyperplane that nothing satisfies the constraints."""
        return Status.INFEASIBLE if self.separation(w)[1] > 0 else None

    def to_cvxpy(self) -> CvxpyModel:
        """Return the exact model: constraints on w, with a threshold between two targets, and nothing to minimise."""
        import cvxpy as cp

        w = cp.Variable(self.dimension, name="w")
        levels, level = np.unique(self.y, return_inverse=True)
        smallest, largest = (cp.Variable(len(levels), name=name) for name in ("smallest", "largest"))
        scores, gaps = self.X @ w, np.diff(levels)
        limits = [cp.norm2(w) <= self.radius, scores >= smallest[level], scores <= largest[level]]
        if len(levels) > 1:
            limits.append(smallest[1:] - largest[:-1] >= (self.strong or 0.0) * gaps)
            if self.smooth is not None:
                limits.append(largest[1:] - smallest[:-1] <= self.smooth * gaps)
        if self.smooth is not None:
            limits.append(largest == smallest)
        variables = {"w": w, "smallest": smallest, "largest": largest}
        return CvxpyModel(cp.Problem(cp.Minimize(0), limits), variables)

    def definition(self, x: Array) -> float:
        """Return the violation at w once more: constraints pair by pair, and the nearest scores by least squares."""
        from scipy.optimize import nnls

        w = [float(entry) for entry in x]
        theta, y = [float(score) for score in self.X @ np.asarray(w)], self.y.tolist()
        n, rows, least = len(y), [], []
        for i in range(n):
            for j in range(n):
                if i == j or y[i] > y[j]:
                    continue
                rising = [(k == j) - (k == i) for k in range(n)]
                if y[i] < y[j]:
                    rows.append(rising)
                    least.append((self.strong or 0.0) * (y[j] - y[i]) - (theta[j] - theta[i]))
                if self.smooth is not None:
                    rows.append([-sign for sign in rising])
                    least.append((theta[j] - theta[i]) - self.smooth * (y[j] - y[i]))
        change = 0.0
        if max(least, default=0.0) > 0.0:
            # the shortest z with Gz ≥ h, from the residual r of Eu = e_(n+1) for u ≥ 0, E = (G, h)ᵀ: Lawson and Hanson
            scale = max(least)
            E = np.array([[*row, h / scale] for row, h in zip(rows, least, strict=True)], dtype=np.float64).T
            u, _ = nnls(E, np.eye(n + 1)[n])
            residual = E @ u - np.eye(n + 1)[n]
            change = scale * math.hypot(*(residual[:n] / residual[n])) / math.sqrt(n)
        return max(change, math.hypot(*w) - self.radius)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance, three in four of them satisfiable; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        n, kind = int(rng.integers(4, 8)), seed % 4
        X, w = rng.normal(size=(n, int(rng.integers(2, 5)))), rng.normal(size=4)
        scores = X @ w[: X.shape[1]]
        y = scores / 2.0 + 0.4 * np.tanh(scores)  # slopes between 0.5 and 0.9
        if kind == 2:
            y = np.maximum(y, float(np.median(y)))  # a flat part: equal targets
        if kind == 3:
            y[np.argsort(y)[[0, -1]]] *= -1.0
            X = X[:, :1]
        smooth = 4.0 if rng.random() < 0.5 and kind != 2 else None
        return cls(X, y, 2.0 * float(np.linalg.norm(w)), strong=0.5, smooth=smooth)
