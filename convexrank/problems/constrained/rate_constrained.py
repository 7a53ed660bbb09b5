"""A rate as a constraint: the best recall at a false positive rate that holds on the sample, and the like."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.gram import times
from convexrank.core.certificates import lower_bound
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.minorants import rounding
from convexrank.core.problem import Problem
from convexrank.core.results import Certificate, CertificateError, Status, Witness
from convexrank.data import (
    check_binary_labels,
    check_matrix,
    check_positive,
    check_probability,
    check_weights,
    keep,
)
from convexrank.data.checks.values import LARGEST_ENTRY
from convexrank.problems.bipartite._base import random_features, random_labels
from convexrank.problems.constrained._lagrangian import WeightedHinges
from convexrank.problems.constrained._multipliers import Infeasibility, balanced, least_left_side

__all__ = ["RateConstrained"]

Array = np.ndarray

_RATES = ("max_fpr", "min_recall", "min_precision")
# A point satisfies the constraint up to rounding within this, relative to the limit; points that are moved inside stay
# that far from it, so that proofs in rational numbers find them inside.
_ROUNDING, _MARGIN = 1e-12, 1e-11
# Bisections of a segment.
_HALVES = 60


@dataclass(frozen=True, eq=False)
class RateConstrained(Problem):
    r"""Linear scores and a threshold with a rate that holds on the sample: at most so many false positives.

    .. math::
        \min_{w,b} \; P + \frac{\lambda_2}{2}\bigl(\|w\|_2^2 + b^2\bigr)
        \quad\text{subject to}\quad N \le \alpha, \qquad
        P = \frac1I \sum_{i=1}^I (1 - f_i + b)_+, \quad N = \frac1K \sum_{k=1}^K (1 + f_k - b)_+, \quad f = Xw

    for ``max_fpr`` α. A row is predicted to be positive if f > b. The mean N is at least the share of the negatives
    with f ≥ b, the false positive rate, and P that of the positives with f ≤ b. So **every point that satisfies the
    constraint has a false positive rate of at most α on these rows.** For ``min_recall`` ρ the two change places:
    minimise N subject to P ≤ 1 − ρ. For ``min_precision`` q minimise P subject to
    :math:`(1-q)\,I\,P + q\,K\,N \le (1-q)\,I`, which bounds the precision, because there are at least I(1 − P) true
    positives and at most KN false ones. Means over the rows of a class.

    Convex; with ``l2`` the minimiser is unique, and a point is (w, b), with b as the last entry. The threshold is
    penalised like a weight of a column of ones. A constraint on the false positive rate, or on recall, can always be
    met. One on precision often cannot, because hinges are well above the indicators that they bound: the status is then
    INFEASIBLE, and :meth:`infeasibility` has multipliers of the rows that prove it.

    Parameters
    ----------
    X, y : as for :class:`PNormPush`
        The features, an array or a sparse array, and labels of two classes.
    max_fpr, min_recall, min_precision : float
        The limit, between 0 and 1; exactly one of the three.
    l2 : float
        Strength of the penalty, greater than 0.
    sample_weight : array, shape (n,), optional
        Weights of rows, as for :class:`PNormPush`; rates are weighted as well.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, a class is missing, not exactly one limit is given, or a
        number is out of range.

    References
    ----------
    E. Eban, M. Schain, A. Mackey, A. Gordon, R. Rifkin and G. Elidan, Scalable learning of non-decomposable objectives,
    AISTATS (2017), bounds of the rates by hinges.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[2.0], [0.5], [1.0], [0.0]], [1, 1, 0, 0]
    >>> problem = cr.problems.RateConstrained(X, y, max_fpr=0.5, l2=0.1)
    >>> solution = problem.solve()
    >>> round(solution.value, 4), problem.rates(solution)
    (0.9063, Rates(fpr=0.0, recall=0.5, precision=1.0))
    """

    X: Any
    y: Any
    max_fpr: float | None = field(default=None, kw_only=True)
    min_recall: float | None = field(default=None, kw_only=True)
    min_precision: float | None = field(default=None, kw_only=True)
    l2: float = field(kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given = [name for name in _RATES if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"{' and '.join(given) or 'no limit'} given, expected exactly one of {', '.join(_RATES)}; solve a "
                "problem for each limit."
            )
        keep(self, **{given[0]: check_probability(getattr(self, given[0]), given[0])})
        keep(self, l2=check_positive(self.l2, "l2"))
        X = check_matrix(self.X, most=LARGEST_ENTRY)
        if not (isinstance(X, np.ndarray) or sparse.issparse(X)):
            raise TypeError(f"X is {X!r}, expected a matrix; pass X.toarray().")
        keep(self, X=X, sample_weight=check_weights(self.sample_weight, X.shape[0]))
        keep(self, y=check_binary_labels(self.y, X.shape[0]))
        _ = self.lagrangian(0.0)  # a class without weight is refused here

    # --- the two sides ---------------------------------------------------------------------------------------------

    capabilities = frozenset({"Exact", "Certified", "Constrained"})
    default_solver = "multiplier-search"
    default_reason = "one constraint, a problem without it for each multiplier"

    @property
    def dimension(self) -> int:
        """Number of weights, and the threshold."""
        return int(self.X.shape[1]) + 1

    @property
    def rows(self) -> int:
        """Number of examples n."""
        return int(self.X.shape[0])

    @property
    def strong_convexity(self) -> float:
        """The modulus that l2 gives."""
        return self.l2

    @property
    def always_feasible(self) -> bool:
        """Whether some threshold alone satisfies the constraint."""
        return self.min_precision is None

    @cached_property
    def _features(self) -> Any:
        """The features, and −1 for the threshold."""
        column = -np.ones((self.rows, 1))
        if isinstance(self.X, np.ndarray):
            return np.hstack([self.X, column])
        return sparse.csr_array(sparse.hstack([self.X, sparse.csr_array(column)]))

    @cached_property
    def _weights(self) -> Array:
        return np.ones(self.rows) if self.sample_weight is None else self.sample_weight

    @cached_property
    def _sums(self) -> tuple[Fraction, Fraction]:
        """The weights of both classes, exactly."""
        return tuple(
            sum((Fraction(weight) for weight in self._weights[side].tolist()), Fraction())
            for side in (self.y, ~self.y)
        )  # type: ignore[return-value]

    @cached_property
    def _limit(self) -> tuple[Fraction, Fraction, Fraction]:
        """Exact (A, C, B) of the constraint :math:`A\\sum_i w_i(1-f_i+b)_+ + C\\sum_k w_k(1+f_k-b)_+ \\le B`."""
        positive, negative = self._sums
        if self.max_fpr is not None:
            return Fraction(0), Fraction(1), Fraction(self.max_fpr) * negative
        if self.min_recall is not None:
            return Fraction(1), Fraction(0), (1 - Fraction(self.min_recall)) * positive
        share = Fraction(self.min_precision or 0.0)
        return 1 - share, share, (1 - share) * positive

    @cached_property
    def _left(self) -> tuple[Fraction, Fraction]:
        """Exact (a, c) of the constraint aP + cN ≤ 1."""
        (above, below, limit), (positive, negative) = self._limit, self._sums
        return above * positive / limit, below * negative / limit

    @property
    def _goal(self) -> tuple[float, float]:
        """The objective's weights of P and N."""
        return (0.0, 1.0) if self.min_recall is not None else (1.0, 0.0)

    def _means(self, x: Array) -> tuple[float, float]:
        """P and N."""
        scores, weights = times(self._features, x), self._weights
        sides = (self.y, 1.0 - scores), (~self.y, 1.0 + scores)
        return tuple(float(np.average(np.maximum(z[s], 0.0), weights=weights[s])) for s, z in sides)  # type: ignore[return-value]

    def excess(self, x: Array) -> float:
        """Return aP + cN − 1, the left side of the constraint over its limit, less 1."""
        (upper, lower), (a, c) = self._means(x), self._left
        return float(a) * upper + float(c) * lower - 1.0

    def rates(self, x: Any) -> Rates:
        """Return false positive rate, recall and precision of the rule f > b on the rows."""
        predicted = times(self._features, self.check_point(x)) > 0.0
        hits, alarms = (float(self._weights[predicted & side].sum()) for side in (self.y, ~self.y))
        positive, negative = (float(size) for size in self._sums)
        precision = hits / (hits + alarms) if hits + alarms else math.nan
        return Rates(alarms / negative, hits / positive, precision)

    def objective(self, w: Any) -> float:
        """Evaluate the objective; infinity where the constraint is violated by more than rounding."""
        x = self.check_point(w, "w")
        if self.excess(x) > _ROUNDING * (1.0 + self.rows**0.5):
            return math.inf
        return float(np.dot(self._goal, self._means(x))) + 0.5 * self.l2 * float(x @ x)

    # --- points inside ---------------------------------------------------------------------------------------------

    def interior(self) -> Array | None:
        """Return a point that satisfies the constraint strictly; None where linear programming finds none."""
        return self._interior

    @cached_property
    def _interior(self) -> Array | None:
        if self.min_precision is None:
            x = np.zeros(self.dimension)
            x[-1] = -1.0 if self.max_fpr is None else 1.0
            return x
        x = self._extreme[1]
        return x if self.excess(x) < -1e-9 else None

    def between(self, inside: Array, outside: Array) -> Array:
        """Return the point of the segment nearest to the second end that satisfies the constraint."""
        low, high = 0.0, 1.0
        if self.excess(outside) <= -_MARGIN:
            return outside
        for _ in range(_HALVES):
            middle = 0.5 * (low + high)
            low, high = (
                (middle, high)
                if self.excess(inside + middle * (outside - inside)) <= -_MARGIN
                else (low, middle)
            )
        return inside + low * (outside - inside)

    def project_feasible(self, x: Array) -> Array:
        """Return x moved towards a point inside until it satisfies the constraint; unchanged where there is none."""
        inside = self._interior
        return x if inside is None else self.between(inside, x)

    # --- certificate and proof -------------------------------------------------------------------------------------

    def lagrangian(self, multiplier: float) -> WeightedHinges:
        """Return the problem without the constraint, with the multiplier times its left side in the objective."""
        u, v = (goal + multiplier * float(left) for goal, left in zip(self._goal, self._left, strict=True))
        return WeightedHinges(self._features, self.y, u, v, l2=self.l2, sample_weight=self.sample_weight)

    def dual_value(self, multiplier: float, least: float) -> float:
        """Return the lower bound that follows from one of the Lagrangian, rounded down."""
        return (
            math.nextafter(least - float(self._covering(multiplier)), -math.inf)
            if math.isfinite(least)
            else -math.inf
        )

    def _covering(self, multiplier: float) -> Fraction:
        """An exact multiplier whose weights of P and N are at least those of the Lagrangian, which are rounded."""
        made = self.lagrangian(multiplier)
        parts = zip((made.u, made.v), self._goal, self._left, strict=True)
        return max(
            ((Fraction(weight) - Fraction(goal)) / left for weight, goal, left in parts if left),
            default=Fraction(),
        )

    @cached_property
    def _found(self) -> Witness | None:
        return self.solve(self.default_solver).witness

    def _read(self, witness: Witness | None) -> tuple[float, Array, Witness | None]:
        """The multiplier, a point, and the evidence for the Lagrangian."""
        given = self._found if witness is None else witness
        points = np.zeros((1, self.dimension + 1)) if given is None else np.atleast_2d(given.points)
        if points.shape[1] != self.dimension + 1:
            raise ValueError(
                f"witness has points of length {points.shape[1]}, expected {self.dimension + 1}: weights, threshold "
                "and the multiplier."
            )
        multiplier = max(float(points[0, -1]), 0.0)
        if given is None or len(points) == 1:
            return multiplier, points[0, :-1], None
        widths = None if given.widths is None else given.widths[1:]
        return multiplier, points[0, :-1], Witness(points[1:, :-1], given.weights[1:], widths)

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound value − optimum at x: the least value of the Lagrangian, at any multiplier, is a lower bound."""
        x = self.check_point(x)
        value = self.objective(x)
        if not math.isfinite(value):
            return Certificate(math.inf, value, -math.inf)
        multiplier, near, given = self._read(witness)
        least = self.lagrangian(multiplier).certificate(near, given).lower_bound
        error = rounding(self.rows + self.dimension) * (1.0 + abs(value) + float(np.abs(x).sum()))
        gap = max(value - self.dual_value(multiplier, least), 0.0) + error
        return Certificate(gap, value, lower_bound(value, gap, error))

    def prove(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Prove that x satisfies the constraint, in rational numbers, and a bound on value − optimum.

        The value is exact; the bound of the Lagrangian is proved in ball arithmetic.
        """
        given = Witness.of(x, witness)
        x = self.check_point(x)
        upper, lower = self._exact_sums(x)
        above, below, limit = self._limit
        if above * upper + below * lower > limit:
            raise CertificateError("x violates the constraint, so that nothing is proved about it.")
        (positive, negative), (first, second) = self._sums, self._goal
        norm = sum((Fraction(entry) ** 2 for entry in x.tolist()), Fraction())
        value = (
            Fraction(first) * upper / positive
            + Fraction(second) * lower / negative
            + Fraction(self.l2) / 2 * norm
        )
        multiplier, near, inner = self._read(given)
        least = Fraction(self.lagrangian(multiplier).prove(near, inner).lower_bound) - self._covering(
            multiplier
        )
        gap = math.nextafter(float(max(value - least, 0)), math.inf)
        return Certificate(gap, float(value), math.nextafter(float(least), -math.inf), proved=True)

    def _exact_sums(self, x: Array) -> tuple[Fraction, Fraction]:
        """The sums of weights times hinges of both classes, exactly."""
        exact = [Fraction(entry) for entry in x.tolist()]
        sums = [Fraction(), Fraction()]
        rows = self._features if isinstance(self._features, np.ndarray) else self._features.toarray()
        for row, label, weight in zip(rows.tolist(), self.y.tolist(), self._weights.tolist(), strict=True):
            score = sum((Fraction(a) * b for a, b in zip(row, exact, strict=True) if a), Fraction())
            sums[not label] += Fraction(weight) * max(1 - score if label else 1 + score, Fraction())
        return sums[0], sums[1]

    # --- where no point satisfies the constraint -------------------------------------------------------------------

    @cached_property
    def _system(self) -> tuple[Array, Array, Array]:
        """Which rows count in the constraint, their signed features, and their weights in it."""
        above, below, _ = self._limit
        caps = np.where(self.y, float(above), float(below)) * self._weights
        kept = np.flatnonzero(caps > 0.0)
        rows = self._features[kept]
        rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
        return kept, rows * np.where(self.y[kept], 1.0, -1.0)[:, None], caps[kept]

    @cached_property
    def _extreme(self) -> tuple[Array, Array]:
        return least_left_side(*self._system[1:])

    def infeasibility(self) -> Infeasibility:
        """Return multipliers of the rows that bound the left side of the constraint from below, over all w and b.

        Linear programming finds them. Where the bound is above the limit, no point satisfies the constraint; then it is
        made exact in rational numbers, if that is possible.
        """
        kept, rows, caps = self._system
        found, limit = self._extreme[0], self._limit[2]
        least = float(found.sum()) / float(limit)
        multipliers = np.zeros(self.rows)
        multipliers[kept] = found
        return Infeasibility(multipliers, least, least > 1.0 and balanced(rows, caps, found, limit))

    def prove_nonexistence(self) -> tuple[Status, Array, str] | None:
        """Say, after a solve that failed, that multipliers of the rows exclude every point."""
        if self.min_precision is None or self._interior is not None:
            return None
        found = self.infeasibility()
        if found.least <= 1.0 + 1e-9:
            return None
        word = "proved in rational numbers" if found.proved else "by linear programming"
        detail = f"the left side is at least {found.least:.4g} times the limit, {word}; see infeasibility()"
        return Status.INFEASIBLE, self._extreme[1], detail

    # --- the exact model, and the second statement -------------------------------------------------------------------

    def to_cvxpy(self) -> CvxpyModel:
        """Return the exact model in (w, b)."""
        import cvxpy as cp

        x = cp.Variable(self.dimension, name="x")
        scores, shares = self._features @ x, []
        for side, sign in ((self.y, 1.0), (~self.y, -1.0)):
            rows = np.flatnonzero(side)
            shares.append(
                (self._weights[rows] / self._weights[rows].sum()) @ cp.pos(1.0 - sign * scores[rows])
            )
        (first, second), (a, c) = self._goal, (float(left) for left in self._left)
        limit = a * shares[0] + c * shares[1] <= 1.0
        goal = first * shares[0] + second * shares[1] + 0.5 * self.l2 * cp.sum_squares(x)

        def evidence() -> Witness:
            return Witness(np.append(x.value, float(limit.dual_value))[None, :], np.ones(1))

        return CvxpyModel(cp.Problem(cp.Minimize(goal), [limit]), {"x": x}, evidence=evidence)

    def definition(self, x: Array) -> float:
        """Return the objective at (w, b) once more, by loops over rows; infinity where the constraint is violated."""
        rows = self.X.tolist() if isinstance(self.X, np.ndarray) else self.X.toarray().tolist()
        *w, b = [float(entry) for entry in x]
        weight = [1.0] * len(rows) if self.sample_weight is None else self.sample_weight.tolist()
        missed = alarms = positive = negative = 0.0
        for row, label, share in zip(rows, self.y.tolist(), weight, strict=True):
            f = sum(entry * slope for entry, slope in zip(row, w, strict=True))
            if label:
                positive, missed = positive + share, missed + share * max(0.0, 1.0 - f + b)
            else:
                negative, alarms = negative + share, alarms + share * max(0.0, 1.0 + f - b)
        penalty = self.l2 / 2.0 * (sum(slope * slope for slope in w) + b * b)
        if self.max_fpr is not None:
            goal, left, right = missed / positive, alarms / negative, self.max_fpr
        elif self.min_recall is not None:
            goal, left, right = alarms / negative, missed / positive, 1.0 - self.min_recall
        else:
            q = self.min_precision or 0.0
            goal, left, right = missed / positive, (1.0 - q) * missed + q * alarms, (1.0 - q) * positive
        return goal + penalty if left <= right * (1.0 + 1e-10) else math.inf

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        X = random_features(rng, int(rng.integers(6, 40)), int(rng.integers(1, 5)))
        name = _RATES[int(rng.integers(3))]
        limit = (
            float(rng.choice([0.05, 0.2, 0.5])) if name == "max_fpr" else float(rng.choice([0.2, 0.5, 0.9]))
        )
        return cls(X, random_labels(rng, X), l2=float(rng.choice([1e-2, 1e-1])), **{name: limit})


@dataclass(frozen=True)
class Rates:
    """Rates of a rule on the rows.

    Parameters
    ----------
    fpr, recall, precision : float
        Shares of the negatives and of the positives that are predicted to be positive, and of positives among these
        predictions; precision is NaN where there are none.
    """

    fpr: float
    recall: float
    precision: float
