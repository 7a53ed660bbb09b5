"""A rate as a constraint: the best recall at a false positive rate that holds on the sample, and the like."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.design import dense, held_as, times
from convexrank.core.capabilities import Modelled
from convexrank.core.results import Solution, Status
from convexrank.data import (
    check_binary_labels,
    check_matrix,
    check_positive,
    check_probability,
    check_weights,
    keep,
    shown,
)
from convexrank.data.checks.values import LARGEST_ENTRY
from convexrank.problems._conditioning import MOST_BUILT
from convexrank.problems.bipartite._base import random_features, random_labels
from convexrank.problems.constrained._base import (
    HingeConstrained,
    Infeasibility,
    WeightedHinges,
    balanced,
    least_left_side,
)

__all__ = ["RateConstrained"]

Array = np.ndarray

# From so many rows on linear programming takes longer than the package's own methods.
_MANY = 5_000
# The penalty with which a point inside is looked for first, in that of the problem.
_WEAK = 1e-5

_RATES = ("max_fpr", "min_recall", "min_precision")


@dataclass(frozen=True, eq=False)
class RateConstrained(HingeConstrained):
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
        The features in memory, and labels of two classes. Thresholds and products are built: up to 1.6e7 entries, and
        none of them monotone.
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
    E. Eban, M. Schain, A. Mackey, A. Gordon, R. A. Saurous and G. Elidan, Scalable learning of non-decomposable
    objectives, AISTATS (2017), bounds of the rates by hinges.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[2.0], [0.5], [1.0], [0.0]], [1, 1, 0, 0]
    >>> problem = cr.problems.RateConstrained(X, y, max_fpr=0.5, l2=0.1)
    >>> solution = problem.solve()
    >>> round(solution.value, 4), problem.rates(solution)
    (0.85, Rates(fpr=0.0, recall=0.5, precision=1.0))
    """

    max_fpr: float | None = field(default=None, kw_only=True)
    min_recall: float | None = field(default=None, kw_only=True)
    min_precision: float | None = field(default=None, kw_only=True)

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
        _check_in_memory(X)
        keep(self, X=X, sample_weight=check_weights(self.sample_weight, X.shape[0]))
        keep(self, y=check_binary_labels(self.y, X.shape[0]))
        # a class without weight is refused here
        WeightedHinges(X, self.y, l2=self.l2, sample_weight=self.sample_weight)

    # --- the two sides ---------------------------------------------------------------------------------------------

    def _modelled(self) -> Modelled:
        # without a bound on the precision some threshold alone satisfies the constraint
        return Modelled(always_feasible=self.min_precision is None)

    @cached_property
    def limit(self) -> tuple[Fraction, Fraction, Fraction]:
        """Exact (A, C, B) of the constraint :math:`A\\sum_i w_i(1-f_i+b)_+ + C\\sum_k w_k(1+f_k-b)_+ \\le B`."""
        positive, negative = self._sums
        if self.max_fpr is not None:
            return Fraction(0), Fraction(1), Fraction(self.max_fpr) * negative
        if self.min_recall is not None:
            return Fraction(1), Fraction(0), (1 - Fraction(self.min_recall)) * positive
        share = Fraction(self.min_precision or 0.0)
        return 1 - share, share, (1 - share) * positive

    @property
    def goal(self) -> tuple[float, float]:
        """The objective's weights of P and N."""
        return (0.0, 1.0) if self.min_recall is not None else (1.0, 0.0)

    def rates(self, x: Any) -> Rates:
        """Return false positive rate, recall and precision of the rule f > b on the rows."""
        predicted = times(self._features, self.check_point(x)) > 0.0
        hits, alarms = (float(self._weights[predicted & side].sum()) for side in (self.y, ~self.y))
        positive, negative = (float(size) for size in self._sums)
        precision = hits / (hits + alarms) if hits + alarms else math.nan
        return Rates(alarms / negative, hits / positive, precision)

    # --- points inside ---------------------------------------------------------------------------------------------

    def interior(self) -> Array | None:
        """Return a point that satisfies the constraint strictly; None where none is found."""
        return self._interior

    @cached_property
    def _interior(self) -> Array | None:
        if self.min_precision is None:
            x = np.zeros(self.dimension)
            x[-1] = -1.0 if self.max_fpr is None else 1.0
            return x
        if self.rows >= _MANY:  # a penalty makes it easier, and most often leaves room
            x = self._penalized(_WEAK * min(self.l2, 1.0)).x
            if self.excess(x) < -1e-9:
                return x
        x = self._lowest
        return x if self.excess(x) < -1e-9 else None

    # --- where no point satisfies the constraint -------------------------------------------------------------------

    @cached_property
    def _system(self) -> tuple[Array, Array, Array]:
        """Rows that count in the constraint, their signed features, and their weights in it."""
        above, below, _ = self.limit
        caps = np.where(self.y, float(above), float(below)) * self._weights
        kept = np.flatnonzero(caps > 0.0)
        rows = dense(self._features[kept])
        return kept, rows * np.where(self.y[kept], 1.0, -1.0)[:, None], caps[kept]

    @cached_property
    def _program(self) -> tuple[Array, Array]:
        return least_left_side(*self._system[1:])

    @cached_property
    def _of_left_side(self) -> Solution:
        """The minimum of the left side over the limit, by the package's own methods."""
        return self._penalized(0.0)

    def _penalized(self, l2: float) -> Solution:
        first, second = self._left
        return self._hinges.changed(u=float(first), v=float(second), l2=l2).solve()

    @property
    def _lowest(self) -> Array:
        """The point with the least left side."""
        return self._program[1] if self.rows < _MANY else self._of_left_side.x

    @property
    def _largest(self) -> Array:
        """Multipliers with the largest sum, of the rows that count."""
        kept, _, caps = self._system
        if self.rows < _MANY:
            return self._program[0]
        return np.clip(np.abs(self._of_left_side.weights[kept]) * float(self.limit[2]), 0.0, caps)

    def infeasibility(self) -> Infeasibility:
        """Return multipliers of the rows that bound the left side of the constraint from below, over all w and b.

        Linear programming finds them, or from 5 000 rows on the dual of the left side. Where the bound is above the
        limit, no point satisfies the constraint; then it is made exact in rational numbers, if that is possible.
        """
        kept, rows, caps = self._system
        found, limit = self._largest, self.limit[2]
        least = float(found.sum()) / float(limit)
        multipliers = np.zeros(self.rows)
        multipliers[kept] = found
        return Infeasibility(multipliers, least, least > 1.0 and balanced(rows, caps, found, limit))

    def _prove_nonexistence(self) -> tuple[Status, Array, str] | None:
        """Return INFEASIBLE, a point and a reason where multipliers of the rows exclude every point; else None."""
        if self.min_precision is None or self._interior is not None:
            return None
        found = self.infeasibility()
        if found.least <= 1.0 + 1e-9:
            return None
        word = "proved in rational numbers" if found.proved else "not proved in rational numbers"
        detail = f"the left side is at least {found.least:.4g} times the limit, {word}; see infeasibility()"
        return Status.INFEASIBLE, self._lowest, detail

    # --- the exact model, and the second statement -------------------------------------------------------------------

    def definition(self, x: Array) -> float:
        """Return the objective at (w, b) once more, by loops over rows; infinity where the constraint is violated."""
        rows = dense(self.X).tolist()
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


def _check_in_memory(X: Any) -> None:
    """Refuse rows out of memory, and what cannot be built beside a column for the threshold."""
    held, (rows, columns) = held_as(X), X.shape
    if not held.in_memory or not (held.built or rows * columns <= MOST_BUILT):
        raise TypeError(
            f"X is {shown(X)} of shape ({rows}, {columns}), expected a matrix in memory, or a design of at most "
            f"{MOST_BUILT} entries; take fewer rows or bins, or another objective."
        )
    if held.nonnegative is not None:
        raise TypeError(
            f"X is {shown(X)} with monotone columns, whose weights are at least 0; RateConstrained has no signs: leave "
            "monotone out, or take another objective."
        )


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
