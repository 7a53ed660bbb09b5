"""Slisotron: Isotron with a Lipschitz isotonic regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.data import check_positive, keep_checked
from convexrank.projections import bounded_increments
from convexrank.solvers.single_index._single_index import FixedSteps, SingleIndex

Array = np.ndarray


@dataclass(frozen=True)
class Slisotron(FixedSteps[SingleIndex]):
    r"""Isotron with a Lipschitz isotonic regression (also called L-Isotron).

    :math:`w \leftarrow w + \frac1n\sum_i \bigl(y_i - u(\langle w, x_i\rangle)\bigr)x_i`.

    u is the least-squares fit of the targets along the scores that is non-decreasing and has slopes of at most
    ``lipschitz``, computed exactly, for any class of φ of the problem. As published, the start is 0 and there is no
    penalty; l2 adds its gradient to the update and l1 its proximal map.

    The published guarantee is for rows of norm at most 1 and targets in [0, 1] around a Lipschitz link: in some round
    the squared error is close to the least one, with high probability, without new rows. A step costs two products with
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
    requires = frozenset({"SingleIndex"})

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "lipschitz")

    def direction(self, problem: SingleIndex, w: Array) -> Array:
        """Return the update for the Lipschitz isotonic regression."""
        scores = np.asarray(problem.scores(w), dtype=np.float64)
        order = np.argsort(scores)
        fitted = np.empty(len(scores))
        steps = self.lipschitz * np.diff(scores[order])
        fitted[order] = bounded_increments(problem.targets[order], 0.0, steps)
        return problem.update_direction(fitted, w)
