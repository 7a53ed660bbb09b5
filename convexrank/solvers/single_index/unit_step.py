"""The published iteration of a field, with steps of a fixed length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.core.capabilities import Field
from convexrank.data import check_positive, keep_checked
from convexrank.solvers.single_index._single_index import FixedSteps

Array = np.ndarray


@dataclass(frozen=True)
class UnitStep(FixedSteps[Field]):
    r"""Steps of a fixed length along a field, :math:`w \leftarrow w - \eta F(w)`, with the published length 1.

    With F the published field of :class:`~convexrank.problems.LearnedDivergence` these are the updates that section 4.6
    finds in Isotron (all convex φ) and in its Lipschitz variant (``strong=1``). l1 enters by its proximal map.

    The steps decrease no objective, so there is no general guarantee. For rows of norm at most 1 and targets that a
    link of the class explains, the distance to the true direction decreases; in other cases the iteration may cycle,
    and with long rows it diverges unless the length is reduced. The residual measures the progress. A step costs one
    field.

    Parameters
    ----------
    length : float
        The step η, above 0.

    References
    ----------
    Dissertation on learning to rank with Bregman divergences, section 4.6.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[0.0], [0.1], [0.2], [0.3]], [0.0, 0.3, 0.2, 0.4]
    >>> problem = cr.problems.LearnedDivergence(X, y, strong=1.0, oracle="projection", l2=0.1)
    >>> problem.solve(cr.solvers.UnitStep()).status.name
    'CONVERGED'
    """

    length: float = 1.0

    name = "unit-step"
    requires = frozenset({"Field"})

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "length")

    def direction(self, problem: Field, w: Array) -> Array:
        """Return the field."""
        return problem.field(w)
