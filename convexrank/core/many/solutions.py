"""The solutions of many problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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
    solutions : tuple of Solution
        The solution of each problem, with its certificate and its status.
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
    solutions: tuple[Solution, ...] = field(repr=False)
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

    @property
    def values(self) -> Array:
        """The objectives, shape (B,)."""
        return np.array([solution.value for solution in self.solutions])

    @property
    def statuses(self) -> tuple[Status, ...]:
        """The status of each."""
        return tuple(solution.status for solution in self.solutions)

    @property
    def converged(self) -> Array:
        """Whether each certified gap meets the tolerance, shape (B,)."""
        return np.array([solution.converged for solution in self.solutions])

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row per problem: parameters that are numbers, value, gap and status."""
        numbers = {name: values for name, values in self.parameters.items() if values.ndim == 1}
        return pandas().DataFrame(
            {
                **numbers,
                "value": self.values,
                "gap": self.gaps,
                "status": [status.name for status in self.statuses],
                "seconds": [solution.seconds for solution in self.solutions],
            }
        )
