"""Base of the formulations by query that are declared as an expression of graded rows."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data import QueryGroups, as_groups, check_vector, keep
from convexrank.data.gains import gains
from convexrank.data.recorded import Recorded, plain, recorded
from convexrank.modelling import log_mean_exp, total
from convexrank.modelling.expressions import Node
from convexrank.modelling.groups import Groups
from convexrank.problems._formulation import Formulation
from convexrank.problems.queries._base import counting_rows, notes_of

Array = np.ndarray


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

    def stretch(self, query: int) -> slice:
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
        divergence = log_mean_exp(f.rows) - total(f.rows, q) + entropy
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
