r"""Rows out of memory: each piece's part in a risk, merged to value, gradient and certificate; and of log-sum-exps.

Rows out of memory: what each piece contributes to a risk, merged to value, gradient and certificate in one pass.

A risk that is a sum over rows or queries is a sum over pieces. One made of log-sum-exps of groups of rows is not, but
each log-sum-exp is one of those of the pieces, and its gradient their mean with the softmax as weights:

.. math::
    L = \log\sum_k e^{L_k}, \qquad \nabla L = \sum_k e^{L_k - L}\,\nabla L_k .

Merging is associative, so that pieces may come in any grouping: of one process after the other, then of all processes
in the order of their ranks, by compensated sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.design import held_as, row_lengths
from convexrank.core.minorants import EPS, Minorant, rounding
from convexrank.data import Chunks
from convexrank.data.chunks.pieces import scores_of, sums_of
from convexrank.data.shards.local import compensated_sum
from convexrank.modelling.groups import Groups
from convexrank.modelling.log_sum_exps.sums import LogSumExps
from convexrank.modelling.log_sum_exps.terms import LogSumExpTerm, log_sum_exp_gradient, log_sum_exps

Array = np.ndarray

# About so many rows tell whether a part of them has the same terms, up to this rounding.
_TOLD, _SAME = 1 << 12, 1e-9


def check_chunks(problem: object, X: Chunks, taken: bool, penalised: bool) -> None:
    """Refuse rows out of memory where a formulation does not decompose, or has no penalty that gives a minimiser."""
    name = type(problem).__name__
    if not taken:
        raise TypeError(
            f"X is {X!r}, rows out of memory, but {name} with these arguments does not decompose over pieces of them. "
            f"What does, some with certain arguments: {', '.join(_takers(type(problem)))}, and every "
            "convexrank.Formulation. Or pass a sample of the rows in memory, such as chunks[::100]."
        )
    if not penalised:
        raise ValueError(
            f"X is {X!r}, rows out of memory, and both l1 and l2 are 0: whether a minimiser exists is found by linear "
            "programming on all rows at once; give l2, however small."
        )


def _takers(cls: type) -> list[str]:
    """Names of the formulations that take rows out of memory, by what their classes say: those that are loaded."""
    first = next(one for one in reversed(cls.__mro__) if hasattr(one, "_takes_chunks"))
    found, left = set(), [first]
    while left:
        one = left.pop()
        left += one.__subclasses__()
        # what draws instances of itself is a formulation, other classes are bases
        if "random" in vars(one) and one._takes_chunks and one.__module__.startswith("convexrank."):
            found.add(one.__name__)
    return sorted(found)


def refuse_chunks(X: Any, what: str) -> None:
    """Refuse what is not computed for rows out of memory, and say what is."""
    if not held_as(X).in_memory:
        raise TypeError(
            f"X is {X!r}, rows out of memory, for which {what} are not computed; values, gradients, certificates and "
            "solve are. Take a sample of the rows in memory for them, such as chunks[::100] with the labels of these."
        )


@dataclass(frozen=True, eq=False)
class Sums:
    """The contribution of some rows to m sums of functions of the scores s.

    Parameters
    ----------
    values : ndarray, shape (m,)
        The sums.
    slopes : ndarray, shape (m, d)
        Their gradients Xᵀu in w, where u is the gradient in the scores.
    sizes : ndarray, shape (m, 3)
        For each sum, u·s, Σ|u|(1 + |s|) and Σ|u|‖x‖, which a certificate needs; zeros if no certificate is wanted.
    highest : float
        The largest \\|s\\|.
    """

    values: Array
    slopes: Array
    sizes: Array
    highest: float

    #: Whether values are logarithms, whose rounding is a relative error of the shares.
    are_logarithms = False

    def merged(self, other: Self) -> Self:
        """Return the contribution of both sets of rows together."""
        return self._weighted(self.values + other.values, np.ones(1), other, np.ones(1))

    @classmethod
    def of_ranks(cls, parts: list[Self]) -> Self:
        """Return what the rows of all ranks contribute together."""
        return cls._combined(parts, np.ones((len(parts), len(parts[0].values))), None)

    @classmethod
    def _combined(cls, parts: list[Self], shares: Array, values: Array | None) -> Self:
        if len(parts) == 1:
            return parts[0]
        weights = shares[:, :, None]
        return cls(
            compensated_sum(np.array([part.values for part in parts])) if values is None else values,
            compensated_sum(weights * np.array([part.slopes for part in parts])),
            compensated_sum(weights * np.array([part.sizes for part in parts])),
            max(part.highest for part in parts),
        )

    def packed(self) -> Array:
        """Return all as one vector."""
        return np.concatenate(([self.highest], self.values, self.sizes.ravel(), self.slopes.ravel()))

    @classmethod
    def unpacked(cls, vector: Array, count: int) -> Self:
        """Return the contribution to this number of sums from its packed form."""
        values, sizes, slopes = np.split(vector[1:], [count, 4 * count])
        return cls(values, slopes.reshape(count, -1), sizes.reshape(count, 3), float(vector[0]))

    def _weighted(self, values: Array, own: Array, other: Self, its: Array) -> Self:
        return type(self)(
            values,
            own[:, None] * self.slopes + its[:, None] * other.slopes,
            own[:, None] * self.sizes + its[:, None] * other.sizes,
            max(self.highest, other.highest),
        )


@dataclass(frozen=True, eq=False)
class LogSums(Sums):
    """The same for m log-sum-exps, minus infinity for one without rows."""

    are_logarithms = True

    def merged(self, other: Self) -> Self:
        """Return the log-sum-exps of all rows: gradients weigh as much as their rows do."""
        values = np.logaddexp(self.values, other.values)
        level = np.where(np.isneginf(values), 0.0, values)
        return self._weighted(values, np.exp(self.values - level), other, np.exp(other.values - level))

    @classmethod
    def of_ranks(cls, parts: list[Self]) -> Self:
        """Return the log-sum-exps of the rows of all ranks."""
        values, shares = shared(np.array([part.values for part in parts]))
        return cls._combined(parts, shares, values)


def shared(found: Array) -> tuple[Array, Array]:
    """Return the log-sum-exps (m,) of those of K parts (K, m), and the shares of the parts in them (K, m)."""
    highest = found.max(axis=0)
    level = np.where(np.isneginf(highest), 0.0, highest)
    # infinite values are no reason to stop; callers check them
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.exp(found - level)
        total = compensated_sum(shares)
        return level + np.log(total), shares / np.where(total > 0.0, total, 1.0)


class Portion:
    """A piece as a formulation sees it: functions of its scores."""

    def contributions(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return factors (m,), values (m,) and gradients in the scores (m, r), from the code that solvers run."""
        raise NotImplementedError

    def reference(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return the same from the definition: what certificates rest on."""
        raise NotImplementedError


class Stream:
    """Evaluates a problem piece by piece. A subclass defines the pieces, and how they merge.

    Parameters
    ----------
    problem : LinearScores
        The problem, whose X are Chunks.
    """

    #: What pieces contribute.
    kind: type[Sums] = Sums

    def __init__(self, problem: Any) -> None:
        self.problem = problem
        self._last: tuple[Array, tuple[float, Array]] | None = None

    def portions(self) -> Iterator[tuple[Portion, Any]]:
        """Yield the pieces once: as the formulation sees them, and their rows."""
        raise NotImplementedError

    def risk_and_subgradient(self, w: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in w: one pass, or none for the last w again."""
        if self._last is None or not np.array_equal(self._last[0], w):
            factors, total = self._total(w, reference=False)
            self._last = w.copy(), (float(factors @ total.values), factors @ total.slopes)
        value, slope = self._last[1]
        return value, slope.copy()

    def minorant(self, w: Array) -> Minorant:
        """Return the tangent at w from the definition, with bounds on its rounding: one pass."""
        with np.errstate(over="ignore", invalid="ignore"):
            factors, total = self._total(w, reference=True)
            value, weights = float(factors @ total.values), np.abs(factors)
            if not math.isfinite(value + total.highest * total.highest):
                return Minorant(math.inf, math.nan, np.zeros(len(w)), math.inf, math.inf, math.inf)
            rows, columns = self.problem.X.shape
            relative = rounding(rows + columns)
            along = float(factors @ total.sizes[:, 0])
            moved, reach = (weights @ total.sizes[:, 1:]).tolist()
            error = relative * (abs(value) + total.highest + moved)
            slope_error = relative * reach
            if total.are_logarithms:
                # a logarithm that is off by a rounding of its size moves all shares by that factor
                shaken = EPS * weights * np.abs(total.values)
                error += float(shaken @ total.sizes[:, 1])
                slope_error += float(shaken @ total.sizes[:, 2])
            slope = factors @ total.slopes
        found = Minorant(value, value - along, slope, error, 2.0 * error, slope_error)
        return found.lowered_to(found.offset - self.lost(total))

    def lost(self, total: Sums) -> float:
        """Return how far what pieces prove together lies below the tangent."""
        return 0.0

    def count(self, reference: bool) -> int:
        """Return the number of sums to which each piece contributes."""
        return 1

    def _total(self, w: Array, reference: bool) -> tuple[Array, Sums]:
        """Return factors, and what the rows of all ranks contribute."""
        count, columns = self.count(reference), len(w)
        # whether there are rows, the factors, and the sums; a rank without rows knows no factors
        length = 2 + count * (5 + columns)

        def packed() -> Array:
            found = self._own(w, reference)
            if found is None:
                return np.zeros(length)
            factors, total = found
            return np.concatenate(([1.0], factors, total.packed()))

        rows = self.problem.X.allgather(packed, length, w.tobytes() + bytes([reference]))
        rows = rows[rows[:, 0] > 0.0]
        if not len(rows):
            raise ValueError("there are no rows.")
        parts = [self.kind.unpacked(row[1 + count :], count) for row in rows]
        return rows[0, 1 : 1 + count], self.kind.of_ranks(parts)

    def _own(self, w: Array, reference: bool) -> tuple[Array, Sums] | None:
        """Return factors, and what the rows of this rank contribute; None where it has none that count."""
        factors, total = np.zeros(0), None
        for portion, X in self.portions():
            # far away a steep risk is infinite; callers check
            with np.errstate(over="ignore", invalid="ignore"):
                scores = scores_of(X, w)
                factors, values, pulls = (portion.reference if reference else portion.contributions)(scores)
                part = self._part(X, scores, values, pulls, reference)
                total = part if total is None else total.merged(part)
        return None if total is None else (factors, total)

    def _part(self, X: Any, scores: Array, values: Array, pulls: Array, reference: bool) -> Sums:
        slopes = np.zeros((len(values), X.shape[1]))  # values after the last gradient have none
        slopes[: len(pulls)] = sums_of(X, pulls)
        sizes, highest = np.zeros((len(values), 3)), 0.0
        if reference:
            extents = np.abs(pulls)
            highest = float(np.abs(scores).max())
            sizes[: len(pulls)] = np.column_stack(
                [pulls @ scores, extents @ (1.0 + np.abs(scores)), extents @ row_lengths(X)]
            )
        return self.kind(values, slopes, sizes, highest)


@dataclass(frozen=True, eq=False)
class LogPortion(Portion):
    """A piece: its log-sum-exps, with the shares of its rows of all rows."""

    terms: tuple[LogSumExpTerm, ...]

    def contributions(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return factors, values and gradients of the log-sum-exps."""
        values, pulls = np.empty(len(self.terms)), np.zeros((len(self.terms), len(scores)))
        for place, term in enumerate(self.terms):
            values[place], shares = log_sum_exp_gradient(term.exponents(scores))
            shares *= term.sign_times_power
            pulls[place, term.rows] = shares
        return np.array([term.outer_coefficient for term in self.terms]), values, pulls

    def reference(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return the same by code that no solver runs."""
        levels = LogSumExps(self.terms, len(scores)).levels(scores)
        pulls = np.zeros((len(levels), len(scores)))
        for place, (term, _, shares) in enumerate(levels):
            pulls[place, term.rows] = term.sign_times_power * shares
        factors = np.array([term.outer_coefficient for term in self.terms])
        return factors, np.array([level for _, level, _ in levels]), pulls


@dataclass(frozen=True, eq=False)
class Spread:
    """Moments of log-sum-exps: values (m,), means of rows (m, d) and of rows times v (m,), covariances times v (m, d).

    The weights of the rows are their softmax. Parts are merged about the common mean, where nothing cancels.
    """

    values: Array
    means: Array
    along: Array
    products: Array

    @classmethod
    def of(cls, terms: tuple[LogSumExpTerm, ...], X: Any, w: Array, v: Array) -> Spread:
        """Return the moments of the rows of one matrix."""
        scores, steps = (np.asarray(X @ vector, dtype=np.float64) for vector in (w, v))
        found = []
        for term in terms:
            value, shares = log_sum_exp_gradient(term.exponents(scores))
            rows, weights, apart = term.rows, np.zeros(len(scores)), np.zeros(len(scores))
            along = float(shares @ steps[rows])
            weights[rows], apart[rows] = shares, shares * (steps[rows] - along)
            found.append((value, np.asarray(X.T @ weights), along, np.asarray(X.T @ apart)))
        return cls(*(np.array(column, dtype=np.float64) for column in zip(*found, strict=True)))

    @classmethod
    def together(cls, parts: list[Spread]) -> Spread:
        """Return the moments of the rows of all parts."""
        values, shares = shared(np.array([part.values for part in parts]))
        all_means = np.array([part.means for part in parts])
        all_along = np.array([part.along for part in parts])
        means, along = compensated_sum(shares[:, :, None] * all_means), compensated_sum(shares * all_along)
        apart = (all_means - means) * (all_along - along)[:, :, None]
        products = np.array([part.products for part in parts]) + apart
        return cls(values, means, along, compensated_sum(shares[:, :, None] * products))

    def packed(self) -> Array:
        """Return all as one vector."""
        return np.concatenate((self.values, self.along, self.means.ravel(), self.products.ravel()))

    @classmethod
    def unpacked(cls, vector: Array, count: int) -> Spread:
        """Return the moments of this number of log-sum-exps from their packed form."""
        values, along, rest = np.split(vector, [count, 2 * count])
        means, products = rest.reshape(2, count, -1)
        return cls(values, means, along, products)


class LogStream(Stream):
    """Evaluates a problem whose risk is a weighted sum of log-sum-exps, piece by piece.

    Parameters
    ----------
    problem : Formulation
        The problem, whose X are Chunks.
    """

    kind = LogSums

    def _terms(self, rows: slice | Array, totals: dict[str, float] | None) -> tuple[LogSumExpTerm, ...]:
        """The log-sum-exps of some rows, with their shares of all rows."""
        whole = self.problem
        weights = None if whole.sample_weight is None else whole.sample_weight[rows]
        groups = Groups.part(whole.y[rows], whole._positives[rows], weights)
        found = log_sum_exps(whole.risk(groups), totals)
        if found is None:
            raise TypeError(f"the risk of {type(whole).__name__} has another form for a part of the rows.")
        return found

    def is_sum(self) -> bool:
        """Whether rows have the same terms in a part, which may lack a class, as among all; some of them tell."""
        rows = len(self.problem.y)
        some = np.union1d(np.arange(0, rows, max(1, rows // _TOLD)), self.problem._two_rows())
        try:
            half, upper = np.arange(len(some)) >= len(some) // 2, self.problem._positives[some]
            whole, totals = self._terms(some, None), self._totals_of(some)
            return all(
                _alike(self._terms(some[part], totals), whole, part, len(some))
                for part in (half, upper, ~upper)
            )
        except (ArithmeticError, IndexError, TypeError, ValueError):  # of one that cannot be asked of a part
            return False

    @cached_property
    def _totals(self) -> dict[str, float]:
        """The total weight of each group."""
        return self._totals_of(slice(None))

    def _totals_of(self, rows: slice | Array) -> dict[str, float]:
        counts, positives = self.problem.sample_weight, self.problem._positives[rows]
        counts = None if counts is None else counts[rows]
        whole = float(len(positives) if counts is None else counts.sum())
        upper = float(np.count_nonzero(positives) if counts is None else counts @ positives)
        return {"positive": upper, "negative": whole - upper, "rows": whole}

    @cached_property
    def terms(self) -> tuple[LogSumExpTerm, ...]:
        """The log-sum-exps of the first row: their factors and powers are those of all."""
        return self._terms(slice(0, 1), self._totals)

    def count(self, reference: bool) -> int:
        """Return how many log-sum-exps there are."""
        return len(self.terms)

    def hessian_product(self, w: Array, v: Array) -> Array:
        """Return the Hessian of the risk at w times v: one pass."""
        return LogSumExps(self.terms, len(self.problem.y)).rates[1] @ self.spread(w, v).products

    def spread(self, w: Array, v: Array) -> Spread:
        """Return the moments of all rows for a product of the Hessian with v: one pass."""
        count, columns = len(self.terms), len(w)

        def packed() -> Array:
            total = None
            for portion, X in self.portions():
                part = Spread.of(portion.terms, X, w, v)
                total = part if total is None else Spread.together([total, part])
            if total is None:  # of no rows
                return np.concatenate((np.full(count, -np.inf), np.zeros(count * (1 + 2 * columns))))
            return total.packed()

        rows = self.problem.X.allgather(packed, 2 * count * (1 + columns), w.tobytes() + v.tobytes())
        return Spread.together([Spread.unpacked(row, count) for row in rows])

    def portions(self) -> Iterator[tuple[LogPortion, Any]]:
        """Yield the pieces once.

        Yields
        ------
        tuple of LogPortion and matrix
            A piece.

        Raises
        ------
        TypeError
            When factors of the risk depend on which rows it is evaluated for.
        """
        for piece in self.problem.X.pieces():
            portion = LogPortion(self._terms(piece.rows, self._totals))
            if _factors(portion.terms) != _factors(self.terms):
                raise TypeError(
                    f"{self.problem.X!r} are rows out of memory, but the factors of the risk depend on the rows that "
                    "f holds; write them with means and totals, or as parameters of the formulation."
                )
            yield portion, piece.X


def _alike(
    part: tuple[LogSumExpTerm, ...], whole: tuple[LogSumExpTerm, ...], rows: Array, count: int
) -> bool:
    """Whether the terms of a part of the rows, a mask of so many, are those of all."""
    if _factors(part) != _factors(whole):
        return False
    places = np.flatnonzero(rows)
    for one, other in zip(part, whole, strict=True):
        logs = np.full(count, np.nan)
        logs[other.rows] = other.log_weights
        if not np.allclose(logs[places[one.rows]], one.log_weights, rtol=_SAME, atol=_SAME):
            return False
    return True


def _factors(terms: tuple[LogSumExpTerm, ...]) -> list[tuple[float, float]]:
    return [(term.outer_coefficient, term.sign_times_power) for term in terms]


def log_streamed(problem: Any) -> LogStream | None:
    """Return the evaluator of a declared formulation in one pass, where it is a sum of log-sum-exps of its rows.

    Parameters
    ----------
    problem : Formulation
        The problem, whose X are Chunks.
    """
    found = LogStream(problem)
    return found if log_sum_exps(problem._of_two_rows.root) is not None and found.is_sum() else None
