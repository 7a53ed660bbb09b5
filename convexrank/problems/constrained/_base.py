r"""A risk of hinges with a constraint on hinges: Lagrangian, certificate, proof, exact model; and no feasible point.

Multipliers prove that no point satisfies a constraint on hinges. For :math:`0 \le m_r \le c_r` with :math:`\sum_r m_r
a_r = 0`, every z has

.. math:: \sum_r c_r (1 - \langle a_r, z\rangle)_+ \ge \sum_r m_r (1 - \langle a_r, z\rangle) = \sum_r m_r.

A linear program finds the largest sum, or with many rows the dual of the least left side. The answer balances up to
rounding; the balance is made exact in rational numbers by moving a few multipliers that are inside of their limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import qr
from scipy.optimize import brentq, linprog, minimize
from scipy.special import expit

from convexrank import losses
from convexrank.backend.cached import cached_property, preset
from convexrank.backend.design import compact, dense, is_sparse, times
from convexrank.core.capabilities import Advice, Shape
from convexrank.core.certificates import lower_bound
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.minorants import rounding
from convexrank.core.problem import Problem, dual_solution
from convexrank.core.results import Certificate, CertificateError, Solution, Witness
from convexrank.modelling import Groups, Node, apply, mean
from convexrank.problems.bipartite._base import Bipartite
from convexrank.solvers.row_faces import Constrained

Array = np.ndarray

# The share of multipliers inside of their limits that is mixed in, so that there is room to move them.
_INSIDE = 1e-7

# Newton steps to the most even multipliers, and the share of the limits that is left of their balance.
_NEWTON_STEPS, _BALANCED = 50, 1e-12

# Binary digits of a number.
_DIGITS = 53

# Pivots below this share of the largest are of columns that depend on others.
_RANK = 1e-11


@dataclass(frozen=True, eq=False)
class Infeasibility:
    """Statement of multipliers of the rows about the left side of a constraint.

    Parameters
    ----------
    multipliers : ndarray, shape (n,)
        Multipliers of the rows, at least 0, with :math:`\\sum_r m_r a_r = 0`.
    least : float
        Their sum over the limit: the left side is at least this many times the limit. Above 1 no point satisfies the
        constraint.
    proved : bool
        Whether multipliers that differ from these by rounding balance exactly, in rational numbers, and prove it.
    """

    multipliers: Array
    least: float
    proved: bool


def least_left_side(rows: Array, caps: Array) -> tuple[Array, Array]:
    """Return multipliers with the largest sum, and the point z with the least left side, by linear programming."""
    unit = _units(rows)
    found = linprog(
        -np.ones(len(rows)),
        A_eq=(rows * unit).T,
        b_eq=np.zeros(rows.shape[1]),
        bounds=np.column_stack([0.0 * caps, caps]),
    )
    if found.x is None:
        raise ValueError(
            f"the linear program of the constraint failed ({found.message}); scale the features."
        )
    return np.clip(found.x, 0.0, caps), -np.asarray(found.eqlin.marginals) * unit


def balanced(rows: Array, caps: Array, multipliers: Array, limit: Fraction) -> bool:
    """Return whether multipliers near these, with more room, balance exactly and add up to more than the limit."""
    scaled = rows * _units(rows)
    mixed = np.clip((1.0 - _INSIDE) * multipliers + _INSIDE * _most_even(scaled, caps), 0.0, caps)
    room = np.minimum(mixed, caps - mixed)
    triangle, columns = _pivots((scaled * room[:, None]).T)
    steps = np.abs(np.diag(triangle))
    rank = int((steps > _RANK * steps.max(initial=0.0)).sum())
    chosen = columns[:rank]
    kept = _pivots(scaled[chosen])[1][:rank]
    # whole numbers: of the rows, and of the multipliers over a power of 2
    (whole, _), (given, places) = whole_numbers(rows), whole_numbers(mixed)
    sums = given @ whole
    change = _solved(
        [[Fraction(whole[r, j]) for r in chosen] for j in kept],
        [Fraction(-sums[j], 1 << places) for j in kept],
    )
    if change is None:
        return False
    rest = Fraction(1, 1 << places) * sums + np.array(change, dtype=object) @ whole[chosen]
    moved = [
        0 <= Fraction(float(mixed[r])) + step <= Fraction(float(caps[r]))
        for r, step in zip(chosen, change, strict=True)
    ]
    return all(moved) and not any(rest) and Fraction(given.sum(), 1 << places) + sum(change) > limit


def _most_even(rows: Array, caps: Array) -> Array:
    """The balanced multipliers of largest entropy: logistic shares of their limits, all inside of these."""

    def shares(z: Array) -> Array:
        return caps * expit(rows @ z)

    found = minimize(
        lambda z: float(caps @ np.logaddexp(0.0, rows @ z)),
        np.zeros(rows.shape[1]),
        jac=lambda z: rows.T @ shares(z),
        hess=lambda z: (rows.T * (shares(z) * expit(-(rows @ z)))) @ rows,
        method="trust-exact",
        options={"maxiter": _NEWTON_STEPS, "gtol": _BALANCED * float(caps.sum())},
    )
    return shares(found.x)


def whole_numbers(values: Array) -> tuple[Any, int]:
    """Return whole numbers and p, such that over two to the power of p they are the values."""
    mantissas, exponents = np.frexp(np.asarray(values, dtype=np.float64))
    least = int(np.min(exponents, where=mantissas != 0.0, initial=_DIGITS))
    shifts = np.where(mantissas != 0.0, exponents - least, 0)
    whole = (mantissas * 2.0**_DIGITS).astype(np.int64).astype(object)
    return whole << shifts.astype(object), _DIGITS - least


def _units(rows: Array) -> Array:
    """The inverse of the largest entry of each column, 1 where there is none."""
    size = np.abs(rows).max(axis=0)
    return 1.0 / np.where(size > 0.0, size, 1.0)


def _pivots(matrix: Array) -> tuple[Array, Array]:
    """The triangle of a QR decomposition, and the order of its columns: the most independent first."""
    found: Any = qr(matrix, mode="r", pivoting=True)
    return found


def _solved(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction] | None:
    """Solve a square system exactly; None where it is singular."""
    system = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    for step in range(len(system)):
        pivot = max(range(step, len(system)), key=lambda r: abs(system[r][step]))
        if not system[pivot][step]:
            return None
        system[step], system[pivot] = system[pivot], system[step]
        first = system[step]
        for r, row in enumerate(system):
            if r != step and row[step]:
                factor = row[step] / first[step]
                system[r] = [x - factor * top for x, top in zip(row, first, strict=True)]
    return [row[-1] / row[step] for step, row in enumerate(system)]


_HINGE = losses.Hinge().phi


class WeightedHinges(Bipartite):
    r"""The risk :math:`u\,\tfrac1I\sum_i(1-f_i)_+ + v\,\tfrac1K\sum_k(1+f_k)_+`, u and v not both 0.

    Parameters
    ----------
    X, y, l2, l1, qid, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`.
    u, v : float
        The weights of the two means, at least 0.
    """

    u: float = 1.0
    v: float = 1.0

    def risk(self, f: Groups) -> Node:
        """The means of both classes with their weights; one of weight 0 is left out."""
        parts = (self.u, -f.positive), (self.v, f.negative)
        first, *more = [mean(apply(_HINGE, scores)) * weight for weight, scores in parts if weight > 0.0]
        return first + more[0] if more else first


# A point satisfies the constraint up to rounding within this, relative to the limit; points that are moved inside stay
# that far from it, so that proofs in rational numbers find them inside.
_ROUNDING, _MARGIN = 1e-12, 1e-11
# A larger multiplier is no evidence.
_LARGEST = 1e15
# How close a point of a segment is to the limit, in lengths of the segment.
_CLOSE = 1e-15


@dataclass(frozen=True, eq=False)
class HingeConstrained(Problem):
    """Minimise a mean of hinges of one class and a penalty, subject to a limit on a sum of hinges of both.

    A formulation gives :attr:`limit` and :attr:`goal`. Labels are flags, and a point is (w, b).
    """

    X: Any
    y: Any
    l2: float = field(kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)

    @property
    def limit(self) -> tuple[Fraction, Fraction, Fraction]:
        """Exact (A, C, B) of the constraint :math:`A\\sum_i w_i(1-f_i+b)_+ + C\\sum_k w_k(1+f_k-b)_+ \\le B`."""
        raise self._unstated("limit", "three exact numbers")

    @property
    def goal(self) -> tuple[float, float]:
        """The objective's weights of P and N, the means of the hinges of both classes."""
        raise self._unstated("goal", "two numbers")

    def interior(self) -> Array | None:
        """Return a point that satisfies the constraint strictly; None where none is found."""
        raise self._unstated("interior()", "a point or None")

    capabilities = frozenset({"Exact", "Certified", "Constrained"})
    default_solver = "multiplier-search"

    def _default_reason(self) -> str:
        return "one constraint, a problem without it for each multiplier"

    @property
    def dimension(self) -> int:
        """Number of weights, and the threshold."""
        return int(self.X.shape[1]) + 1

    @property
    def rows(self) -> int:
        """Number of examples n."""
        return int(self.X.shape[0])

    def _shape(self) -> Shape:
        return replace(super()._shape(), strong_convexity=self.l2)

    @cached_property
    def _features(self) -> Any:
        """The features, of a design as well, and −1 for the threshold."""
        X, column = compact(self.X), -np.ones((self.rows, 1))
        if is_sparse(X):
            return sparse.csr_array(sparse.hstack([X, sparse.csr_array(column)]))
        return np.hstack([X, column])

    @cached_property
    def _weights(self) -> Array:
        return np.ones(self.rows) if self.sample_weight is None else self.sample_weight

    @cached_property
    def _sums(self) -> tuple[Fraction, Fraction]:
        """The weights of both classes, exactly."""
        whole, places = whole_numbers(self._weights)
        return tuple(Fraction(whole[side].sum(), 1 << places) for side in (self.y, ~self.y))  # type: ignore[return-value]

    @cached_property
    def _left(self) -> tuple[Fraction, Fraction]:
        """Exact (a, c) of the constraint aP + cN ≤ 1."""
        (above, below, limit), (positive, negative) = self.limit, self._sums
        return above * positive / limit, below * negative / limit

    @cached_property
    def _shares(self) -> tuple[tuple[Array, Array, float], ...]:
        """Of both classes: its rows, their weights over the sum, and the sign of their scores in the hinge."""
        sides = (np.flatnonzero(self.y), -1.0), (np.flatnonzero(~self.y), 1.0)
        return tuple((rows, self._weights[rows] / self._weights[rows].sum(), sign) for rows, sign in sides)

    def _means(self, scores: Array) -> tuple[float, float]:
        """P and N, by the scores less the threshold."""
        return tuple(
            float(share @ np.maximum(1.0 + sign * scores[rows], 0.0)) for rows, share, sign in self._shares
        )  # type: ignore[return-value]

    def _constrained(self) -> Constrained:
        return Constrained(self.excess, self.lagrangian, self.interior, self.dual_value, self.between)

    def excess(self, x: Array) -> float:
        """Return aP + cN − 1, the left side of the constraint over its limit, less 1."""
        return self._excess_of(times(self._features, x))

    def _excess_of(self, scores: Array) -> float:
        (upper, lower), (a, c) = self._means(scores), self._left
        return float(a) * upper + float(c) * lower - 1.0

    def objective(self, w: Any) -> float:
        """Evaluate the objective; infinity where the constraint is violated by more than rounding."""
        x = self.check_point(w, "w")
        scores = times(self._features, x)
        if self._excess_of(scores) > _ROUNDING * (1.0 + self.rows**0.5):
            return math.inf
        return float(np.dot(self.goal, self._means(scores))) + 0.5 * self.l2 * float(x @ x)

    def between(self, inside: Array, outside: Array) -> Array:
        """Return the point of the segment nearest to the second end that satisfies the constraint."""
        first, last = times(self._features, inside), times(self._features, outside)

        def above(t: float) -> float:
            return self._excess_of(first + t * (last - first)) + _MARGIN

        if above(1.0) <= 0.0:
            return outside
        if above(0.0) >= 0.0:
            return inside
        found: Any = brentq(above, 0.0, 1.0, xtol=_CLOSE, disp=False)
        t, back = float(found), _CLOSE
        # the scores of the point itself are rounded in another way
        while self.excess(x := inside + t * (outside - inside)) > -_MARGIN and t > 0.0:
            t, back = max(t - back, 0.0), 2.0 * back
        return x

    def project_feasible(self, x: Array) -> Array:
        """Return x moved towards a point inside until it satisfies the constraint; unchanged where there is none."""
        inside = self.interior()
        return x if inside is None else self.between(inside, x)

    # --- certificate and proof -------------------------------------------------------------------------------------

    def lagrangian(self, multiplier: float) -> WeightedHinges:
        """Return the problem without the constraint, with the multiplier times its left side in the objective."""
        u, v = (goal + multiplier * float(left) for goal, left in zip(self.goal, self._left, strict=True))
        return self._hinges.changed(u=u, v=v)

    @cached_property
    def _hinges(self) -> WeightedHinges:
        """The problem of which all others are made, with what follows from the features alone."""
        made = WeightedHinges(self._features, self.y, l2=self.l2, sample_weight=self.sample_weight)
        preset(made, _span=made._span)  # asked for here, so that all that are made of it have it
        return made

    def dual_value(self, multiplier: float, least: float) -> float:
        """Return the lower bound that follows from one of the Lagrangian, rounded down."""
        if math.isfinite(least):
            return math.nextafter(least - float(self._covering(multiplier)), -math.inf)
        return -math.inf

    def _covering(self, multiplier: float) -> Fraction:
        """An exact multiplier whose weights of P and N are at least those of the Lagrangian, which are rounded."""
        made = self.lagrangian(multiplier)
        parts = zip((made.u, made.v), self.goal, self._left, strict=True)
        return max(
            ((Fraction(weight) - Fraction(goal)) / left for weight, goal, left in parts if left),
            default=Fraction(),
        )

    def _advice(self) -> Advice:
        return replace(super()._advice(), seeks_evidence=False)

    @cached_property
    def _found(self) -> Witness | None:
        return self.solve(self.default_solver).witness

    def _read(self, witness: Witness | None) -> tuple[float, Array, Witness | None]:
        """The multiplier, a point, and the evidence for the Lagrangian; what is no evidence proves what 0 does."""
        given = self._found if witness is None else witness
        points = np.empty((0, 0)) if given is None else np.atleast_2d(given.points)
        usable = points.ndim == 2 and points.shape[1] == self.dimension + 1 and np.isfinite(points).all()
        if given is None or not usable or not 0.0 <= (multiplier := float(points[0, -1])) <= _LARGEST:
            return 0.0, np.zeros(self.dimension), None
        widths = None if given.widths is None else given.widths[1:]
        rest = None if len(points) == 1 else Witness(points[1:, :-1], given.weights[1:], widths)
        return multiplier, points[0, :-1], rest

    def multiplier(self, solution: Solution | None = None) -> float:
        """Return the multiplier μ of the constraint aP + cN ≤ 1 with which the bound of a solution is proved.

        Parameters
        ----------
        solution : Solution, optional
            A solution of this problem; by default one is found.
        """
        return self._read(None if solution is None else solution.witness)[0]

    def dual(self, multiplier: float | None = None) -> Any:
        """Return the dual of the Lagrangian, the problem with μ(aP + cN) in the objective in place of the constraint.

        For every μ the minimum is at least minus the minimum of this dual, less μ; at the best μ it is equal. The dual
        variables are the multipliers of the hinges; ``solution.weights`` has those of the rows.

        Parameters
        ----------
        multiplier : float, optional
            The multiplier μ, at least 0; by default the best one, of a solve.
        """
        return self.lagrangian(self.multiplier() if multiplier is None else multiplier).dual()

    def _dual_solution(self, solution: Solution) -> Solution:
        multiplier, near, rest = self._read(solution.witness)
        made = self.lagrangian(multiplier)
        found = replace(solution, x=near, value=made.objective(near), witness=rest, instance=made)
        return dual_solution(made.dual(), found)

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound value − optimum at x: the least value of the Lagrangian, at any multiplier, is a lower bound."""
        x = self.check_point(x)
        value = self.objective(x)
        if not math.isfinite(value):
            return Certificate(math.inf, value, -math.inf)
        multiplier, near, given = self._read(witness)
        found = self.lagrangian(multiplier).certificate(near, given)
        error = rounding(self.rows + self.dimension) * (1.0 + abs(value) + float(np.abs(x).sum()))
        gap = max(value - self.dual_value(multiplier, found.lower_bound), 0.0) + error
        return Certificate(gap, value, lower_bound(value, gap, error), found.kind, found.radius, found.metric)

    def prove(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Prove that x satisfies the constraint, in rational numbers, and a bound on value − optimum.

        The value is exact; the bound of the Lagrangian is proved in ball arithmetic.
        """
        given = Witness.of(x, witness)
        x = self.check_point(x)
        upper, lower = self._exact_sums(x)
        above, below, limit = self.limit
        if above * upper + below * lower > limit:
            raise CertificateError("x violates the constraint, so that nothing is proved about it.")
        (positive, negative), (first, second) = self._sums, self.goal
        norm = sum((Fraction(entry) ** 2 for entry in x.tolist()), Fraction())
        risk = Fraction(first) * upper / positive + Fraction(second) * lower / negative
        value = risk + Fraction(self.l2) / 2 * norm
        multiplier, near, inner = self._read(given)
        proved = self.lagrangian(multiplier).prove(near, inner).lower_bound
        least = Fraction(proved) - self._covering(multiplier)
        gap = math.nextafter(float(max(value - least, 0)), math.inf)
        return Certificate(gap, float(value), math.nextafter(float(least), -math.inf), proved=True)

    def _exact_sums(self, x: Array) -> tuple[Fraction, Fraction]:
        """The sums of weights times hinges of both classes, exactly."""
        (rows, places), (point, more) = whole_numbers(dense(self._features)), whole_numbers(x)
        weights, last = whole_numbers(self._weights)
        one, scores = 1 << (places + more), rows @ point
        hinges = np.maximum(one + np.where(self.y, -scores, scores), 0) * weights
        return tuple(Fraction(hinges[side].sum(), one << last) for side in (self.y, ~self.y))  # type: ignore[return-value]

    def to_cvxpy(self) -> CvxpyModel:
        """Return the exact model in (w, b)."""
        import cvxpy as cp

        x = cp.Variable(self.dimension, name="x")
        scores = self._features @ x
        shares = [share @ cp.pos(1.0 + sign * scores[rows]) for rows, share, sign in self._shares]
        (first, second), (a, c) = self.goal, (float(left) for left in self._left)
        limit = a * shares[0] + c * shares[1] <= 1.0
        goal = first * shares[0] + second * shares[1] + 0.5 * self.l2 * cp.sum_squares(x)

        def evidence() -> Witness:
            return Witness(np.append(np.asarray(x.value), float(limit.dual_value))[None, :], np.ones(1))

        return CvxpyModel(cp.Problem(cp.Minimize(goal), [limit]), {"x": x}, evidence=evidence)
