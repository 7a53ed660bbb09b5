"""Isotron: perceptron-like updates with an isotonic regression in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.projections import isotonic
from convexrank.solvers.single_index._single_index import FixedSteps, SingleIndex

Array = np.ndarray


@dataclass(frozen=True)
class Isotron(FixedSteps[SingleIndex]):
    r"""Isotron on all rows each time.

    :math:`w \leftarrow w + \frac1n\sum_i \bigl(y_i - u(\langle w, x_i\rangle)\bigr)x_i`.

    u is the isotonic regression of the targets along the scores :math:`\langle w, x_i\rangle`, equal scores pooled; its
    slope is not bounded, for any class of φ of the problem. As published, the start is 0 and there is no penalty; l2
    adds its gradient to the update and l1 its proximal map.

    The published guarantee is for new rows in every round, with rows of norm at most 1 and a Lipschitz link: some round
    then has a small squared error. For one sample, as here, only the residual is known. A step costs two products with
    X, a sort and an isotonic regression.

    References
    ----------
    A. T. Kalai and R. Sastry, The Isotron algorithm: high-dimensional isotonic regression, COLT 2009, figure 1.
    Compared in section 4.6 of the dissertation on learning to rank with Bregman divergences.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.LearnedDivergence([[0.0], [0.5], [1.0]], [0.0, 0.1, 0.9], oracle="projection")
    >>> problem.solve(cr.solvers.Isotron()).iterations
    1
    """

    name = "isotron"
    requires = frozenset({"SingleIndex"})

    def direction(self, problem: SingleIndex, w: Array) -> Array:
        """Return the update for the isotonic regression."""
        return problem.update_direction(isotonic(problem.targets, order=problem.scores(w)), w)
