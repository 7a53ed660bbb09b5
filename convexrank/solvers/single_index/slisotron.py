"""Slisotron: Isotron whose regression is Lipschitz as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.core.loop import State
from convexrank.data import check_positive
from convexrank.projections import bounded_increments
from convexrank.solvers.single_index._field_residual import moved_state

__all__ = ["Slisotron"]

Array = np.ndarray


@dataclass(frozen=True)
class Slisotron:
    r"""Isotron with a Lipschitz isotonic regression (also called L-Isotron).

    :math:`w \leftarrow w + \frac1n\sum_i \bigl(y_i - u(\langle w, x_i\rangle)\bigr)x_i`.

    u is the least-squares fit of the targets along the scores that is non-decreasing and has slopes of at most
    ``lipschitz``, found exactly, whatever class of φ the problem has. Start at 0 and no penalty are as published; l2
    adds its gradient to the update and l1 its proximal map.

    The published guarantee: rows of norm at most 1, targets in [0, 1] around a Lipschitz link: in some round the
    squared error is close to the least one, with high probability, without fresh rows. A step costs two products with
    X, a sort and one Lipschitz regression.

    Parameters
    ----------
    lipschitz : float
        Largest slope of the link, above 0; 1 as published.

    References
    ----------
    S. M. Kakade, V. Kanade, O. Shamir and A. T. Kalai, Efficient learning of generalized linear and single index models
    with isotonic regression, NIPS 2011, algorithm 2. Compared in section 4.6 of the dissertation on learning to rank
    with Bregman divergences.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.LearnedDivergence([[0.0], [0.5], [1.0]], [0.0, 0.1, 0.9], oracle="projection")
    >>> problem.solve(cr.solvers.Slisotron()).status.name
    'CONVERGED'
    """

    lipschitz: float = 1.0

    name = "slisotron"
    requires = frozenset({"Field", "SingleIndex"})
    default_max_iter = 10_000

    def __post_init__(self) -> None:
        check_positive(self.lipschitz, "lipschitz")

    def init(self, problem: Any, x0: Array) -> State:
        """Evaluate at the start."""
        return self._at(problem, np.array(x0, dtype=np.float64))

    def step(self, problem: Any, state: State) -> State:
        """Go to the next point, found before."""
        return self._at(problem, state.memory)

    def _at(self, problem: Any, w: Array) -> State:
        scores = np.asarray(problem.scores(w), dtype=np.float64)
        order = np.argsort(scores)
        fitted = np.empty(len(scores))
        steps = self.lipschitz * np.diff(scores[order])
        fitted[order] = bounded_increments(problem.targets[order], 0.0, steps)
        return moved_state(problem, w, problem.update_direction(fitted, w), 1.0)
