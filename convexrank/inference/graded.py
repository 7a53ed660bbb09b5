"""Measures of graded labels: the ranking risk, a U-statistic over rows, and NDCG and MAP, means over queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from convexrank.data import check_same_index, check_vector
from convexrank.data.groups import QueryGroups, as_groups
from convexrank.inference.finite_sample.betting import mean_bounds
from convexrank.inference.finite_sample.disjoint import Disjoint, share_bounds
from convexrank.inference.rows import Guide, Rows, cluster_numbers
from convexrank.metrics.conventions import Convention
from convexrank.metrics.risk import TIE_COSTS, losses_of_ranks, read_ranks
from convexrank.metrics.tuples import Tuples

Array = np.ndarray
Bounds = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Values:
    """One value for each row or query, and how many of them are independent.

    Parameters
    ----------
    rows : Rows
        The rows, or the queries that count, as units of the sample.
    known : object
        What the measure has read of labels and scores, for its tuples.
    evaluated : callable
        Returns their values, in [0, 1], which m-ary risks need for large samples only.
    """

    rows: Rows
    known: Any
    evaluated: Callable[[], Array]

    @cached_property
    def values(self) -> Array:
        """Their values."""
        return self.evaluated()


Evaluate = Callable[[Array, Any, Any, str], tuple[int, Any, Callable[[], Array]]]


@dataclass(frozen=True, eq=False)
class Graded:
    """Graded rows, before they are ranked.

    ``evaluate`` checks the scores, and returns the number of units, what ``tuples`` needs, and the values when called.
    """

    evaluate: Evaluate
    y: Array
    qid: QueryGroups | None
    cluster: Array | None
    unit: str

    def ranked(self, s: Any, name: str = "s") -> Values:
        """Evaluate the scores, in O(n log n)."""
        n, known, evaluated = self.evaluate(self.y, s, self.qid, name)
        everything = np.ones(n, dtype=bool)
        rows = Rows(
            np.zeros(n, dtype=np.int64), (self.unit,), np.full(n, 1.0 / n), self.cluster, False, everything
        )
        return Values(rows, known, evaluated)


def _refuse_weights(sample_weight: Any, unit: str) -> None:
    if sample_weight is not None:
        raise ValueError(f"sample_weight: this measure counts {unit} alike; leave sample_weight out.")


class _MeanOfUnits:
    """Measures that are the mean of one number for each row or query."""

    #: In how many places of the tuples a unit is: what its number counts in Hoeffding's decomposition.
    places: ClassVar[int] = 1

    def shown(self, value: float) -> float:
        """Return the value as it is."""
        return value

    def value(self, ranked: Values) -> float:
        """Return the mean."""
        return float(ranked.values.mean())

    def influence(self, ranked: Values) -> Array:
        """Return the leading term of Hoeffding's decomposition."""
        return self.places * (ranked.values - ranked.values.mean()) / len(ranked.values)

    def guide(self, ranked: Values) -> Guide:
        """Return what an asymptotic interval needs."""
        return {ranked.rows.names[0]: (float(len(ranked.rows.stratum)), 100.0)}


@dataclass(frozen=True)
class RankingRisk(_MeanOfUnits):
    """Share of pairs of rows in the wrong order: a U-statistic of one sample."""

    ties: str
    antisymmetric: bool = False

    name = "ranking_risk"
    places: ClassVar[int] = 2

    def read(self, y: Any, s: Any, sample_weight: Any = None, groups: Any = None) -> Graded:
        """Read labels and groups."""
        _refuse_weights(sample_weight, "pairs of rows")
        check_same_index(y=y, s=s, groups=groups)
        labels = check_vector(y, name="y")
        cluster = None if groups is None else cluster_numbers(groups, len(labels))
        return Graded(self.values, labels, None, cluster, "rows")

    def values(self, y: Array, s: Array, qid: Any, name: str) -> tuple[int, Any, Callable[[], Array]]:
        """Return the number of rows, ranks, and for each row the share of the pairs with it in the wrong order."""
        del qid
        ranks = read_ranks(y, s, name, antisymmetric=self.antisymmetric)
        return len(y), ranks, lambda: losses_of_ranks(*ranks, TIE_COSTS[self.ties]) / (len(y) - 1)

    def tuples(self, ranked: Values) -> Disjoint:
        """Return the pairs of rows: by labels and scores, or by their numbers for a rule on pairs."""
        labels, scores = ranked.known
        if scores.ndim == 2:
            known = np.array([labels, scores.sum(axis=1), np.arange(len(labels))])
            return Disjoint((known,), (2,), partial(self._cost_of_rule, scores))
        return Disjoint((np.array([labels, scores], dtype=np.int32),), (2,), self._cost)

    def _cost(self, rows: list[Array]) -> Array:
        asked, got = rows[0] - rows[1]
        return (asked * np.sign(got) < 0) + TIE_COSTS[self.ties] * ((asked != 0) & (got == 0))

    def _cost_of_rule(self, rule: Array, rows: list[Array]) -> Array:
        """Return the mean for both orders of each pair."""
        i, j = (row[2].astype(np.intp) for row in rows)
        asked, cost = rows[0][0] - rows[1][0], TIE_COSTS[self.ties]
        got = np.array([rule[i, j], -rule[j, i]])
        return ((asked * got < 0.0) + cost * ((asked != 0.0) & (got == 0.0))).mean(axis=0)

    def exact(self, ranked: Values, alpha: float) -> Bounds:
        """Return the bounds of systems of disjoint tuples."""
        return share_bounds(self.tuples(ranked), alpha)


@dataclass(frozen=True)
class MaryRisk(RankingRisk):
    """Mean loss of the orders of m rows: a U-statistic of order m."""

    visits: Tuples = field(kw_only=True)

    name = "m_ary_risk"

    def values(self, y: Array, s: Any, qid: Any, name: str) -> tuple[int, Any, Callable[[], Array]]:
        """Return the number of rows, labels and scores, and for each row the mean loss of the m-tuples with it."""
        del qid
        s = self.visits.read_scores(y, s, name)
        return len(y), (y, s), lambda: self.visits.row_losses(y, s, name)

    def value(self, ranked: Values) -> float:
        """Return the risk."""
        return self.visits.mean_loss(*ranked.known)

    def influence(self, ranked: Values) -> Array:
        """Return the leading term of Hoeffding's decomposition: each row is in m places of a tuple."""
        return self.visits.m * (ranked.values - ranked.values.mean()) / len(ranked.values)

    def tuples(self, ranked: Values) -> Disjoint:
        """Return the tuples, by the numbers and the labels of their rows."""
        y, s = ranked.known
        visits, beside = self.visits, () if callable(s) else (np.asarray(s, dtype=np.float64)[None],)

        def cost(rows: list[Array]) -> Array:
            labels = np.array([row[1] for row in rows])
            if beside:
                return visits.losses(labels, np.array([row[2] for row in rows]))
            return visits.losses_of_rule(labels, s, np.array([row[0] for row in rows]).astype(np.intp))

        return Disjoint((np.array([np.arange(len(y)), y]),), (visits.m,), cost, visits.rounds, beside)


@dataclass(frozen=True)
class _OverQueries(_MeanOfUnits):
    """Means over independent queries."""

    convention: Convention
    qid: Any

    def read(self, y: Any, s: Any, sample_weight: Any = None, groups: Any = None) -> Graded:
        """Read grades and queries."""
        _refuse_weights(sample_weight, "queries")
        del groups
        check_same_index(y=y, s=s, qid=None if isinstance(self.qid, QueryGroups) else self.qid)
        grades = check_vector(y, name="y")
        return Graded(self.values, grades, as_groups(self.qid, len(grades), required=True), None, "queries")

    def per_query(self, y: Array, s: Array, qid: Any) -> Array:
        """Return the value of each query; NaN for those that do not count."""
        raise NotImplementedError

    def values(self, y: Array, s: Array, qid: Any, name: str) -> tuple[int, Any, Callable[[], Array]]:
        """Return the number of queries that count, and their values."""
        found = _of_counting(self.per_query(y, check_vector(s, len(y), name), qid))
        return len(found), None, lambda: found

    def paired(self, first: Values, second: Values) -> Array:
        """Return the differences of the queries, moved to [0, 1]."""
        return (1.0 + first.values - second.values) / 2.0

    def exact(self, ranked: Values, alpha: float) -> Bounds:
        """Return the bounds of betting."""
        return mean_bounds(ranked.values, alpha)


def _of_counting(values: Array) -> Array:
    """Return the values of the queries that count, if they are shares."""
    kept = values[~np.isnan(values)]
    if len(kept) == 0:
        raise ValueError(
            "y has no query with a relevant row, so there is nothing to average; pass grades above 0."
        )
    if kept.min() < 0.0 or kept.max() > 1.0 + 1e-9:
        raise ValueError(
            f"y: a query has the value {kept[np.argmax(np.abs(kept - 0.5))]:g}, expected one in [0, 1]; pass grades of "
            "at least 0."
        )
    return np.minimum(kept, 1.0)


@dataclass(frozen=True)
class NDCG(_OverQueries):
    """Mean over queries of the normalised discounted gain."""

    k: int | None

    name = "ndcg"

    def per_query(self, y: Array, s: Array, qid: Any) -> Array:
        """Return the value of each query."""
        return self.convention.ndcg(y, s, qid, self.k, per_query=True)


@dataclass(frozen=True)
class MeanAveragePrecision(_OverQueries):
    """Mean over queries of the average precision."""

    threshold: float

    name = "map"

    def per_query(self, y: Array, s: Array, qid: Any) -> Array:
        """Return the value of each query."""
        return self.convention.mean_average_precision(y, s, qid, threshold=self.threshold, per_query=True)
