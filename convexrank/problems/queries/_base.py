"""Base classes of problems over queries: rows grouped once, queries without an order left out, random instances."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.design import dense
from convexrank.backend.interruption import check_time
from convexrank.backend.jax_oracles import HostRisk
from convexrank.core.results import Certificate, Witness
from convexrank.data import QueryGroups, as_groups, check_vector, keep
from convexrank.data.fields import Recorded, plain, recorded
from convexrank.data.groups import gains
from convexrank.modelling import log_mean_exp, mean
from convexrank.modelling.expressions import Node
from convexrank.modelling.groups import Groups
from convexrank.problems._formulation import Formulation
from convexrank.problems._linear_scores import LinearScores, RiskData
from convexrank.problems.bipartite._base import random_features
from convexrank.problems.out_of_memory._queries import QueryStream, goes_in_order, sample_of
from convexrank.problems.out_of_memory._streams import Portion
from convexrank.solvers.row_faces import Sample

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class QueryPortion(Portion):
    """Some queries: the problem with their rows alone."""

    problem: QueryScores

    def contributions(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return the sum over the queries and its gradient."""
        value, gradient = self.problem._risk_and_score_gradient(scores)
        return np.ones(1), np.array([value]), gradient[None]

    def reference(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return the same from the definition."""
        value, gradient = self.problem._reference_scores(scores)
        return np.ones(1), np.array([value]), gradient[None]


class ScoresStream(QueryStream):
    """Evaluates such a problem piece by piece."""

    def portion(self, first: int, last: int, rows: slice) -> QueryPortion:
        """Return the problem of these queries."""
        return QueryPortion(_restricted_to_rows(self.problem, first, last, rows))


def _restricted_to_rows(whole: QueryScores, first: int, last: int, rows: slice) -> QueryScores:
    """The problem with some queries alone, without their features."""
    made, groups = object.__new__(type(whole)), whole.groups
    part = slice(int(groups.offsets[first]), int(groups.offsets[last]))
    for name in type(whole).__dataclass_fields__:
        made.__dict__[name] = whole.__dict__[name]
    made.__dict__.update(
        X=np.empty((rows.stop - rows.start, 0)),
        y=whole.y[rows],
        qid=None,
        levels=whole.levels,
        groups=QueryGroups.from_sizes(groups.sizes[first:last]),
        idle_queries=0,
        _rows=whole._rows[part] - rows.start,
    )
    if made.__dict__.get("center") is not None:
        made.__dict__["center"] = made.__dict__["center"][rows]
    return made


@dataclass(frozen=True, eq=False)
class QueryScores(LinearScores):
    """Base of the problems whose risk is a sum over queries of a function of the query's scores.

    Rows are laid out query by query, once. A query with one row, or whose rows all have the same grade, has no
    order: it is left out, and contributes nothing.
    """

    y: Any
    qid: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = self.X.shape[0]
        keep(self, y=check_vector(self.y, rows, "y"))
        groups = as_groups(self.qid, rows)
        if self.qid is not None and not isinstance(self.qid, QueryGroups):
            keep(self, qid=np.asarray(self.qid))
        grades = groups.gather(self.y)
        asks = groups.maxima(grades) > groups.minima(grades)
        if not asks.any():
            raise ValueError(
                f"none of the {len(groups)} queries has two rows of different grades, so there is nothing to rank; "
                "pass y with more grades, and check that y and qid describe the same rows."
            )
        rows_that_count, counting = counting_rows(groups, asks)
        keep(self, _rows=rows_that_count, groups=counting, idle_queries=len(groups) - len(counting))

    def _data_notes(self) -> list[str]:
        """Return the number of queries, and of those that have nothing to rank."""
        if "groups" not in self.__dict__:
            return []
        return notes_of(len(self.groups), self.idle_queries)

    @cached_property
    def _stream(self) -> ScoresStream | None:
        """The evaluator of rows out of memory in one pass, if the rows of each query are adjacent; else None."""
        in_order = not self._held.in_memory and goes_in_order(*self._by_query, self.X.most_rows)
        return ScoresStream(self) if in_order else None

    def _sample(self) -> Sample | None:
        """Return the problem of some of the queries of tall rows out of memory, in memory; else None."""
        return None if self._held.in_memory else sample_of(self)

    @property
    def _by_query(self) -> tuple[Array, Array]:
        """The rows that count, query by query, and where each query begins and the last ends."""
        return self._rows, self.groups.offsets

    @property
    def groups(self) -> QueryGroups:
        """The queries that count; their rows in the order of ``_split``."""
        return self.__dict__["groups"]

    @property
    def idle_queries(self) -> int:
        """Number of queries without an order."""
        return self.__dict__["idle_queries"]

    @property
    def _rows(self) -> Array:
        """Number of the row at each place of the layout."""
        return self.__dict__["_rows"]

    @cached_property
    def grades(self) -> Array:
        """The grades of the rows that count, query by query."""
        return self.y[self._rows]

    @cached_property
    def levels(self) -> Array:
        """All grades, ascending."""
        return np.unique(self.y)

    def _split(self, scores: Array) -> tuple[Array, ...]:
        """Return the scores of the rows that count, query by query."""
        return (scores[self._rows],)

    def _join(self, parts: tuple[Array, ...]) -> Array:
        """Return the gradient in all scores: zero for rows of idle queries."""
        gradient = np.zeros(self.X.shape[0])
        gradient[self._rows] = parts[0][: len(self._rows)]
        return gradient

    def query_oracle(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient (a subgradient) in the scores, both laid out query by query."""
        raise NotImplementedError

    @cached_property
    def _jax_risk(self) -> RiskData:
        """The risk as a JAX function of the scores: by a callback to the oracle, where there is no other."""
        return RiskData(HostRisk(self.query_oracle), (), (self.groups.rows,))

    def reference_query(self, query: int, scores: Array) -> tuple[float, Array]:
        """Return the term of one query, and a subgradient in its scores, from the definition."""
        raise NotImplementedError

    def _risk_and_score_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, all queries at once."""
        value, gradient = self.query_oracle(self._split(np.asarray(scores, dtype=np.float64))[0])
        return value, self._join((gradient,))

    def _reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and a subgradient in the scores, query after query."""
        ordered, slopes, value = self._split(scores)[0], [], 0.0
        for query, part in enumerate(self.groups.slices):
            check_time()
            one, slope = self.reference_query(query, ordered[part])
            value += one
            slopes.append(slope)
        return float(value), self._join((np.concatenate(slopes),))

    def gap_estimate(self, w: Array, value: float, gradient: Array) -> float:
        """Return an estimate of value − optimum, or the length of the gradient: what solvers watch."""
        return super().gap_estimate(w, value, gradient) if self._convex else float(np.linalg.norm(gradient))

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound value − optimum at x; for a risk that is not convex, return the length of the gradient: a residual."""
        if self._convex:
            return super().certificate(x, witness)
        w = self.check_point(x, "x")
        value, gradient = self._reference_risk(w)
        residual = float(np.linalg.norm(gradient + self.l2 * w))
        return Certificate(residual, value + self.penalty.value(w), -np.inf, "residual")

    def _queries(self) -> list[tuple[Array, Array]]:
        """Row numbers and grades of each query that counts."""
        return [(self._rows[part], self.grades[part]) for part in self.groups.slices]

    @cached_property
    def rows_of_queries(self) -> Any:
        """The features of the rows that count, query by query."""
        in_order = len(self._rows) == self.rows and (np.diff(self._rows) == 1).all()
        return self.X if in_order else self.X[self._rows]

    @cached_property
    def _dense_rows(self) -> Array:
        return dense(self.rows_of_queries)

    def _ordered(self, w: Array) -> Array:
        return self._split(np.asarray(self.scores(w), dtype=np.float64))[0]


def counting_rows(groups: QueryGroups, asks: Array) -> tuple[Array, QueryGroups]:
    """Return the rows of the queries that have an order, query by query, and these queries."""
    return groups.repeated(np.repeat(asks.astype(np.int64), groups.sizes))


def notes_of(count: int, idle: int) -> list[str]:
    """Return how many queries there are, and how many of them have nothing to rank, in words."""
    words = [f"{idle} without an order"] if idle else []
    return [f"{count} {'query' if count == 1 else 'queries'}", *words]


def query_sums(groups: QueryGroups, values: Array, rows: Any) -> Any:
    """Return the sums over each query of its rows times values, shape (m, d); sparse where the rows are."""
    return sparse.csr_array((values, groups.order, groups.offsets), shape=(len(groups), groups.rows)) @ rows


def random_queries(rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Draw a few short queries in mixed order, idle ones among them: features, grades, and ids of either kind."""
    sizes = rng.integers(1, 9, size=int(rng.integers(2, 6)))
    sizes[0] = max(int(sizes[0]), 3)
    X = random_features(rng, int(sizes.sum()), int(rng.integers(1, 5)), bounded=True)
    signal = X @ rng.normal(size=X.shape[1])
    noisy = signal / max(float(signal.std()), 1e-12) + rng.normal(size=len(X))
    y = np.clip(np.round(noisy + 0.5), 0, int(rng.integers(1, 4)))
    y[:2] = 0.0, 1.0  # so that the first query has something to rank
    qid = np.repeat(rng.permutation(len(sizes)) + 10, sizes)
    order = rng.permutation(len(X))
    ids = np.array([f"q{number}" for number in qid]) if rng.random() < 0.3 else qid
    return X[order], y[order], ids[order]


def drawn_queries(seed: int) -> tuple[np.random.Generator, Array, Array, Array]:
    """Return a generator, and the queries that it drew first."""
    rng = np.random.default_rng(seed)
    return rng, *random_queries(rng)


class GradedQueries(Formulation):
    """Rows with grades, query by query, without weights. A query without an order contributes nothing."""

    qid: Any = None
    sample_weight: ClassVar[None] = None  # type: ignore[misc]  # no argument of these

    _labels_are = "grades"

    def _checked_labels(self, rows: int) -> Array:
        return check_vector(self.y, rows, "y")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.qid is not None and not isinstance(self.qid, QueryGroups):
            keep(self, qid=np.asarray(self.qid))

    def _data_notes(self) -> list[str]:
        return notes_of(self._groups.count, self._groups.idle) if "_groups" in self.__dict__ else []

    @cached_property
    def groups(self) -> QueryGroups:
        """The queries that count, their rows laid out query by query."""
        return counting_rows(as_groups(self.qid, self.rows), self._groups.asks)[1]

    @property
    def idle_queries(self) -> int:
        """Number of queries without an order."""
        return self._groups.idle

    @property
    def grades(self) -> Array:
        """The grades of the rows that count, query by query."""
        return self._groups.grades

    def rows_of_query(self, query: int) -> slice:
        """Slice of the rows of a query in the layout."""
        return slice(*self.groups.offsets[query : query + 2].tolist())


class TopProbabilities(GradedQueries):
    """The divergence of the softmax of the scores from a distribution that the grades give, query by query."""

    normalize: bool = field(default=False, kw_only=True)

    _risk_infimum = 0.0  # type: ignore[assignment]  # divergences are never negative

    def _worth(self, f: Groups) -> Any:
        """Return what the distributions are proportional to."""
        raise NotImplementedError

    def risk(self, f: Groups) -> Node:
        """The divergence of each query, its terms beside the uniform distribution, so that they are small."""
        axis, q = f.rows.axis, self._distributions(f)
        entropy = axis.sums(q * np.log((q + (q == 0.0)) * axis.spread(axis.sizes)))
        divergence = log_mean_exp(f.rows) - mean(f.rows, self._worth(f)) + entropy
        return divergence / recorded(axis.sizes) if self.normalize else divergence

    def _distributions(self, f: Groups) -> Recorded:
        worth, axis = self._worth(f), f.rows.axis
        return worth / axis.spread(axis.sums(worth))

    @property
    def distributions(self) -> Array:
        """The target distribution of each query, query by query."""
        return plain(self._distributions(self._groups))

    @property
    def query_weights(self) -> Array:
        """One, or one over the number of rows."""
        return 1.0 / self.groups.sizes if self.normalize else np.ones(len(self.groups))


def exact_gains(grades: Recorded, gain: str) -> Any:
    """Return what grades are worth, 2^y − 1 or y; refuse those without a gain."""
    gains(plain(grades), gain)
    return np.expm1(grades * np.log(recorded(2.0))) if gain == "exp2" else grades
