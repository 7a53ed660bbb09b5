"""The points of a dual: what belongs to a point of the primal, what satisfies the constraints, and whether any does."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.design import entries, transposed_times
from convexrank.backend.interruption import Block
from convexrank.core.capabilities import Shape
from convexrank.core.problem import Problem
from convexrank.core.results import ConvergenceWarning, Solution, Status, Witness
from convexrank.core.separability import Separation
from convexrank.problems._declared import Declared
from convexrank.problems.duals._blocks import Conjugate
from convexrank.regularizers import Penalty
from convexrank.solvers.row_faces import HasPrimal

Array = np.ndarray

# Corrections after which a point balances the rows up to rounding.
_ROUNDS = 4


@dataclass(frozen=True)
class Nearest:
    """The weights under which the rows are most nearly balanced.

    Parameters
    ----------
    v : ndarray, shape (m,)
        The weights.
    direction : ndarray, shape (d,)
        The multipliers of the entries of Xᵀ(Av + b): a direction of length 1 in the sum of absolute values, along which
        the risk falls at the rate of the largest entry; 0 where the linear program was not solved.
    """

    v: Array
    direction: Array


def nearest(conjugate: Conjugate, X: Any, penalty: Penalty) -> Nearest:
    """Minimise the largest entry of Xᵀ(Av + b) over distributions v, a linear program.

    Parameters
    ----------
    conjugate : Conjugate
        One whose blocks are distributions.
    X : matrix, shape (n, d)
        The rows.
    penalty : Penalty
        The penalty, which determines the entries that count on one side only.
    """
    from scipy.optimize import linprog  # slow to import, and rarely needed

    products = (sparse.csr_array(entries(X)).T @ conjugate.matrix).tocsr()
    dimension = int(X.shape[1])
    signed = np.zeros(dimension, dtype=bool) if penalty.nonnegative is None else penalty.nonnegative
    count, both_sides = int(conjugate.ends[-1]), int((~signed).sum())
    entries_of_both = [products[np.flatnonzero(~signed)], -products]
    limits = both_sides + dimension
    matrix = sparse.hstack([sparse.vstack(entries_of_both), -np.ones((limits, 1))]).tocsr()
    sums = sparse.hstack([conjugate.sums, sparse.csr_array((len(conjugate.blocks), 1))])
    answer = linprog(
        np.r_[np.zeros(count), 1.0],
        A_ub=matrix,
        b_ub=np.zeros(limits),
        A_eq=sums,
        b_eq=np.ones(len(conjugate.blocks)),
        bounds=[(0.0, None)] * count + [(0.0, None)],
        method="highs",
    )
    direction = np.zeros(dimension)
    if answer.x is None:
        return Nearest(conjugate.near(np.ones(count)), direction)
    multipliers = -np.asarray(answer.ineqlin.marginals)
    direction[~signed] -= multipliers[:both_sides]
    direction += multipliers[both_sides:]
    return Nearest(conjugate.near(np.asarray(answer.x)[:-1]), direction)


def balanced(conjugate: Conjugate, X: Any, v: Array) -> Array | None:
    """Return a point near v with Xᵀ(Av + b) = 0 up to rounding; None where none is near.

    The correction is the smallest one relative to v, so that small entries change little and stay positive.
    """
    rows = entries(X)
    products = (sparse.csr_array(rows).T @ conjugate.matrix).tocsr()
    shift = np.zeros(products.shape[0]) if conjugate.shift is None else rows.T @ conjugate.shift
    scale = np.asarray(abs(products).max(axis=1).todense()).ravel()
    products = sparse.diags_array(1.0 / np.where(scale > 0.0, scale, 1.0)) @ products
    shift = shift / np.where(scale > 0.0, scale, 1.0)
    for _ in range(_ROUNDS):
        scaled = products @ sparse.diags_array(np.abs(v))
        gram, rest = (scaled @ products.T).toarray(), products @ v + shift
        ones = conjugate.sums.toarray()
        sums = ones * np.abs(v)
        joint = np.block([[gram, scaled @ ones.T], [ones @ scaled.T, sums @ ones.T]])
        step = np.linalg.lstsq(joint, np.r_[rest, np.zeros(len(ones))], rcond=1e-13)[0]
        moved = v - np.abs(v) * (np.r_[products.T @ step[: len(rest)]] + ones.T @ step[len(rest) :])
        v = conjugate.near(moved)
    close = np.abs(products @ v + shift).max(initial=0.0) <= 1e-11 * max(1.0, float(np.abs(v).sum()))
    return v if close else None


# Membership is decided up to this, as of balls.
_FEASIBLE = 1e-9
# How much smaller than l1 the slopes of a mixed point are, so that rounding does not decide.
_INSIDE = 1e-12
# A penalty without l2 whose slopes can be made smaller than l1 by less than this share has no interior to speak of.
_NO_ROOM = 1e-9
# A subgradient larger than the smallest one by this factor belongs to another region.
_STEEPEST = 1e6
# How often a direction that separates is doubled to show an infimum that is not attained.
_DOUBLINGS = 60


@dataclass(frozen=True, eq=False)
class DualPoints(Problem):
    """The points of a dual, from the conjugate of the primal's risk and the primal's penalty."""

    primal: Declared

    @cached_property
    def risk_conjugate(self) -> Any:
        """The conjugate of the primal's risk."""
        return self.primal._conjugate

    @property
    def dimension(self) -> int:
        """Number of dual variables m."""
        return int(self.risk_conjugate.ends[-1])

    @property
    def rows(self) -> int:
        """Number of dual variables: what the exact model grows with."""
        return self.dimension

    def _shape(self) -> Shape:
        # the least modulus of the blocks: above 0 where entropies or squares make the dual strictly concave
        return replace(super()._shape(), strong_convexity=self.risk_conjugate.modulus)

    def start(self) -> Array:
        """Return the dual point of w = 0."""
        return self.at(np.zeros(self.primal.dimension))

    def slopes(self, x: Any) -> Array:
        """Return the derivative of the risk in each row's score, Av + b, shape (n,), in the caller's order."""
        return self.risk_conjugate.slopes(self.check_point(x))

    def weights(self, x: Any) -> Array:
        r"""Return how much each row contributes to the ranking, shape (n,): minus :meth:`slopes`.

        Above 0 where the row is pulled up, below 0 where it is pushed down, 0 where it does not matter. With l2 alone
        :math:`w = X^\top\text{weights}/\lambda_2`.
        """
        return 0.0 - self.slopes(x)

    def pull_of(self, v: Array) -> Array:
        """Return −Xᵀ(Av + b), at which the conjugate of the penalty is taken; shape (d,)."""
        return np.asarray(transposed_times(self.primal.X, -self.risk_conjugate.slopes(v)), dtype=np.float64)

    def objective(self, w: Any) -> float:
        """Evaluate G(v) + Ω*(−Xᵀ(Av + b)) at v, the argument; infinity outside the constraints."""
        v = self.check_point(w)
        sizes = max(1.0, float(np.abs(v).max(initial=0.0)))
        if not self.risk_conjugate.violation(v) <= _FEASIBLE * sizes:
            return math.inf
        penalty = self.primal.penalty
        if penalty.bounded:
            with np.errstate(over="ignore"):
                return self.risk_conjugate.value(v) + penalty.conjugate(self.pull_of(v))[0]
        if self._excess(v) <= _FEASIBLE * (penalty.l1 or self._scale(v)):
            return self.risk_conjugate.value(v)
        return math.inf

    def _excess(self, v: Array) -> float:
        """Return the excess of the largest entry of Xᵀ(Av + b) over l1."""
        return self.primal.penalty.steepness(self.pull_of(v)) - self.primal.penalty.l1

    def _scale(self, v: Array) -> float:
        """The size of the terms that have to cancel if there is no penalty."""
        return max(float(np.abs(self.slopes(v)) @ self.primal._row_lengths), 1.0)

    # --- points that belong to each other -------------------------------------------------------------------------

    def _has_primal(self) -> HasPrimal:
        return HasPrimal(self.primal, self.at, self.beyond, self.primal_point)

    def at(self, w: Any, witness: Witness | None = None) -> Array:
        """Return the dual point of a point of the primal: the risk's gradient there, or a mixture of subgradients.

        Parameters
        ----------
        w : array, shape (d,), or Solution
            The point of the primal.
        witness : Witness, optional
            Evidence for its certificate, such as that of a Solution: points whose subgradients are mixed.

        Returns
        -------
        ndarray, shape (m,)
            A point that satisfies the constraints, where there is one.
        """
        given = w.witness if witness is None and isinstance(w, Solution) else witness
        if given is None and not self.primal._differentiable and isinstance(w, Solution):
            given = self.evidence  # one subgradient says little where there are kinks
        w = self.primal.check_point(w, "w")
        mixed, own = self._mixed(given), self.project_feasible(self._of_scores(w, 0.0))
        if mixed is None:
            return own
        # where no kink is near, the subgradient at w is better than one of a smoothed risk
        return min(self.project_feasible(mixed), own, key=self.objective)

    def _of_scores(self, w: Array, width: float) -> Array:
        scores = np.asarray(self.primal.scores(w), dtype=np.float64)
        return self.risk_conjugate.at(scores, width)

    def _mixed(self, witness: Witness | None) -> Array | None:
        """The mixture that a witness proves something with, as certificates of the primal evaluate it."""
        if witness is None:
            return None
        shares, widths = witness.shares(), witness.smoothing()
        points = np.atleast_2d(np.asarray(witness.points, dtype=np.float64))
        if shares is None or widths is None or points.shape != (len(shares), self.primal.dimension):
            return None
        used = np.flatnonzero(shares)
        parts = [
            self._of_scores(point, width)
            for point, width in zip(points[used], widths[used].tolist(), strict=True)
        ]
        # far away an exponential loss is so steep that the least share of it spoils the mixture
        sizes = np.array([float(np.abs(part).max()) for part in parts])
        kept = np.flatnonzero(sizes <= _STEEPEST * max(1.0, float(sizes.min())))
        mixed = shares[used][kept] @ np.array(parts)[kept]
        return mixed / float(shares[used][kept].sum())

    def project_feasible(self, x: Array) -> Array:
        """Return a point near x that satisfies the constraints of the blocks, and of the penalty where it has any."""
        v, penalty = self.risk_conjugate.near(np.nan_to_num(x)), self.primal.penalty
        if penalty.bounded:
            return v
        if penalty.l1 == 0:
            moved = balanced(self.risk_conjugate, self.primal.X, v)
            return self._inner if moved is None else moved
        excess = self._excess(v) + _INSIDE * penalty.l1
        if excess <= 0.0:
            return v
        room = -self._excess(self._inner)
        if room <= _NO_ROOM * penalty.l1:
            return v  # there is nothing to mix with, so that v stays outside
        share = (excess + _INSIDE * penalty.l1) / (excess + room)
        return (1.0 - share) * v + share * self._inner

    @cached_property
    def _inner(self) -> Array:
        """A point whose slopes are well below l1, or cancel: at rest where that is possible, else the nearest."""
        rest = self.risk_conjugate.rest
        return self._nearest.v if rest is None else rest

    @cached_property
    def _nearest(self) -> Nearest:
        return nearest(self.risk_conjugate, self.primal.X, self.primal.penalty)

    def primal_point(self, x: Any) -> Array | None:
        """Return the w at which the conjugate of the penalty is attained, with l2; else None."""
        penalty, v = self.primal.penalty, self.check_point(x)
        return penalty.conjugate(self.pull_of(v))[1] if penalty.l2 > 0 else None

    @cached_property
    def _solution(self) -> Solution:
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning), Block("whole"):
            # whatever was reached proves something
            return self.primal.solve(tol=1e-10)

    @property
    def solved(self) -> Array:
        """A solution of the primal: evidence where no other is known."""
        return self.beyond(self._solution.x)

    @property
    def evidence(self) -> Witness | None:
        """Evidence of a solution of the primal, for points that come without."""
        return self._solution.witness

    def beyond(self, w: Array) -> Array:
        """Return w, or a point far along it where it shows that the primal has no minimiser."""
        if self.primal._terminal_status(w) is None:
            return w
        for _ in range(_DOUBLINGS):
            if not self.primal.objective(2.0 * w) < self.primal.objective(w):
                break
            w = 2.0 * w
        return w

    def _prove_nonexistence(self) -> tuple[Status, Array, str] | None:
        """Return INFEASIBLE, a point and a direction along which the primal falls for ever; else None."""
        found = self.separation()
        if found.kind == "none":
            return None
        size = ", ".join(f"{entry:.4g}" for entry in found.direction[:8])
        more = ", ..." if len(found.direction) > 8 else ""
        detail = f"the primal falls for ever along w = [{size}{more}], see separation()"
        return Status.INFEASIBLE, self.risk_conjugate.near(np.ones(self.dimension)), detail

    def separation(self) -> Separation:
        """Return the direction along which the primal has no bound, so that the dual has no point; kind "none" if none.

        Found by a linear program; that the primal falls along it is checked by its recession.
        """
        penalty = self.primal.penalty
        if penalty.bounded or self.risk_conjugate.rest is not None:
            return Separation("none", np.zeros(self.primal.dimension))
        direction = self._nearest.direction
        largest = float(np.abs(direction).max())
        if largest > 0.0:
            direction = direction / largest
            rate = self._recession(direction)
            if rate < -_FEASIBLE * float(np.abs(self.primal.scores(direction)).max()):
                return Separation("strict", direction)
        return Separation("none", np.zeros(self.primal.dimension))

    def _recession(self, w: Array) -> float:
        """Return the slope of the primal far out along w, if its blocks are distributions."""
        scores = np.asarray(self.primal.scores(w), dtype=np.float64)
        rate = self.primal.penalty.l1 * float(np.abs(w).sum())
        for block in self.risk_conjugate.blocks:
            rate += float((block.coefficient * block.rate * scores[block.rows]).max())
        return rate
