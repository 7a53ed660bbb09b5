"""The solutions of many problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.core.many.members import Members
from convexrank.core.paths import SolutionSequence
from convexrank.core.results import Solution, Status
from convexrank.data.nodes import pandas

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Solutions(SolutionSequence):
    """Solutions of problems that differ in parameters or in weights of rows, in the order in which these were given.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        What was varied, by name: arrays whose first axis is that of the problems.
    solutions : sequence of Solution
        The solution of each problem, with its certificate and its status. Of problems that were solved together it is
        made, and so is the problem, when it is asked for; values, gaps and statuses are there before.
    seconds : float
        Wall time of all of them together.
    together : int
        How many met the tolerance by the method that solves them together; the others were solved one by one.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[1.0, 0.2], [2.0, 0.1], [1.5, 0.9], [0.0, 0.4]], [1, 1, 0, 0]
    >>> solutions = cr.solve_many(cr.problems.PNormPush(X, y, p=4), l2=[1.0, 0.1])
    >>> solutions.coefficients.shape, solutions[1].status.name
    ((2, 2), 'CONVERGED')
    """

    parameters: Mapping[str, Array] = field(repr=False)
    solutions: Sequence[Solution] = field(repr=False)
    seconds: float = 0.0
    together: int = 0

    def __repr__(self) -> str:
        counts = Counter(status.name for status in self.statuses)
        ends = ", ".join(f"{count} {name}" for name, count in counts.most_common())
        varied = ", ".join(self.parameters)
        return (
            f"Solutions: {len(self)} problems over {varied}: {ends}, gaps up to {self.gaps.max():.1g} "
            f"({self.seconds:.2g} s)"
        )

    @cached_property
    def _members(self) -> Members:
        found = self.solutions
        return found if isinstance(found, Members) else Members.of(found)

    @property
    def coefficients(self) -> Array:
        """The weights, shape (B, d)."""
        return self._members.points.copy()

    @property
    def values(self) -> Array:
        """The objectives, shape (B,)."""
        return self._members.values.copy()

    @property
    def gaps(self) -> Array:
        """The certified gaps, shape (B,)."""
        return self._members.gaps.copy()

    @property
    def statuses(self) -> tuple[Status, ...]:
        """The status of each."""
        return self._members.statuses

    @property
    def converged(self) -> Array:
        """Whether each certified gap meets the tolerance, shape (B,)."""
        return np.array([status is Status.CONVERGED for status in self.statuses])

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row per problem: parameters that are numbers, value, gap and status."""
        numbers = {name: values for name, values in self.parameters.items() if values.ndim == 1}
        return pandas().DataFrame(
            {
                **numbers,
                "value": self.values,
                "gap": self.gaps,
                "status": [status.name for status in self.statuses],
                "seconds": self._members.seconds,
            }
        )
