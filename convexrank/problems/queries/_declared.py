"""Base of the formulations by query that are declared as an expression of graded rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data import QueryGroups, as_groups, check_vector, keep
from convexrank.data.gains import gains
from convexrank.data.recorded import Recorded, plain, recorded
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
        """Where the rows of a query stand in the layout."""
        return slice(*self.groups.offsets[query : query + 2].tolist())


def exact_gains(grades: Recorded, gain: str) -> Any:
    """Return what grades are worth, 2^y − 1 or y; refuse those without a gain."""
    gains(plain(grades), gain)
    return np.expm1(grades * np.log(recorded(2.0))) if gain == "exp2" else grades
