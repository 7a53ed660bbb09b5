"""The solutions of many problems."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, overload

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.core.capabilities import Solvable, value_at
from convexrank.core.paths import SolutionSequence
from convexrank.core.results import Certificate, Solution, Status, found_at
from convexrank.data.nodes import pandas

Array = np.ndarray


class Members(Sequence[Solution]):
    """Solutions that meet the tolerance together, and others.

    Parameters
    ----------
    points : ndarray, shape (B, d)
        The points.
    bounds : sequence of three ndarrays, shape (B,)
        What their certificates say: values, gaps and lower bounds.
    others : mapping of int to Solution
        By place, the solutions that were found otherwise; those of all other places have CONVERGED together.
    problem : callable or None
        Returns the problem of a place; None where problems are not kept.
    name : str
        The class of the problems.
    seconds : float
        Wall time of a member's share of what was done together.
    late : sequence of int
        Places that no time was left for: their points are where a solve would have begun.
    """

    def __init__(
        self,
        points: Array,
        bounds: Sequence[Array],
        others: dict[int, Solution],
        problem: Callable[[int], Any] | None = None,
        name: str = "",
        seconds: float = 0.0,
        late: Sequence[int] = (),
    ) -> None:
        self.points, self._late = points, frozenset(late)
        self.values, self.gaps, self.lower_bounds = bounds
        for place, solution in others.items():
            self.points[place], self.values[place], self.gaps[place] = (
                solution.x,
                solution.value,
                solution.gap,
            )
        self._made, self._others = dict(others), frozenset(others)
        self._problem, self._name, self._seconds = problem, name, seconds

    @classmethod
    def of(cls, solutions: Iterable[Solution]) -> Self:
        """Return solutions that exist already."""
        made = dict(enumerate(solutions))
        points = np.array([solution.x for solution in made.values()])
        empty = np.empty(len(made))
        return cls(points, (empty, empty.copy(), empty.copy()), made)

    @property
    def statuses(self) -> tuple[Status, ...]:
        """The status of each."""
        ends = dict.fromkeys(self._late, Status.TIME_LIMIT)
        ends |= {place: self._made[place].status for place in self._others}
        return tuple(ends.get(place, Status.CONVERGED) for place in range(len(self)))

    @property
    def seconds(self) -> list[float]:
        """Wall time of each."""
        others = self._others
        return [self._made[place].seconds if place in others else self._seconds for place in range(len(self))]

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, place: int) -> Solution: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Solution, ...]: ...
    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple(self[each] for each in range(*place.indices(len(self))))
        number = range(len(self))[place]
        if number not in self._made:
            self._made[number] = self._solution(number)
        return self._made[number]

    def _solution(self, place: int) -> Solution:
        x, name = self.points[place], self._name
        gap, value, lower = (float(each[place]) for each in (self.gaps, self.values, self.lower_bounds))
        problem = None if self._problem is None else self._problem(place)
        if place in self._late:
            value = value_at(problem, x) if problem is not None and math.isnan(value) else value
            return too_late(x, Certificate(gap, value, lower), problem, name)
        return met_at(x, Certificate(gap, value, lower), self._seconds, problem, name)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the problems out, as each solution does."""
        made = {place: self._made[place] for place in self._others}
        return {**self.__dict__, "_made": made, "_problem": None}


def too_late(x: Array, certificate: Certificate, problem: Solvable | None, name: str) -> Solution:
    """Return the solution of a problem that no time was left for, at the point at which it would have begun."""
    status = Status.TIME_LIMIT
    return found_at(x, certificate, status, status.message, 0.0, problem, name)


def met_at(
    x: Array, certificate: Certificate, seconds: float, problem: Solvable | None, name: str
) -> Solution:
    """Return the solution at a point that was found together with others and meets the tolerance."""
    message = f"{Status.CONVERGED.message} ({certificate}); solved together with others"
    return found_at(x, certificate, Status.CONVERGED, message, seconds, problem, name)


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
        """The objectives, shape (B,); NaN where no time was left to evaluate one."""
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
