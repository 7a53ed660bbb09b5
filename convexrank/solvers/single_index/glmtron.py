"""GLMtron: perceptron-like updates for a known link."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.data import check_choice
from convexrank.solvers.single_index._single_index import FixedSteps, SingleIndex

Array = np.ndarray


def _identity(scores: Array) -> Array:
    return scores


def _logistic(scores: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * scores))  # does not overflow


_LINKS: dict[str, Callable[[Array], Array]] = {
    "identity": _identity,
    "logistic": _logistic,
    "tanh": np.tanh,
}


@dataclass(frozen=True)
class GLMtron(FixedSteps[SingleIndex]):
    r"""The update of a generalized linear model with unit steps.

    :math:`w \leftarrow w + \frac1n\sum_i \bigl(y_i - u(\langle w, x_i\rangle)\bigr)x_i`.

    u is a known link, which is not learned. As published, the start is 0 and there is no penalty; l2 adds its gradient
    to the update and l1 its proximal map. The update is a gradient step on the Fenchel-Young divergence of the fixed φ
    whose slope is the inverse of u, so for a 1-Lipschitz link and rows of norm at most 1 the steps converge. The
    residual of the problem measures whether the *learned* link agrees at the limit, as it does for targets that follow
    u. A step costs two products with X.

    Parameters
    ----------
    link : {"logistic", "identity", "tanh"} or callable
        The increasing function u; a callable takes the scores, shape (n,), and returns one value each.

    Raises
    ------
    ValueError, TypeError
        When the name is unknown, or a callable does not return one finite value for each score.

    References
    ----------
    S. M. Kakade, V. Kanade, O. Shamir and A. T. Kalai, Efficient learning of generalized linear and single index models
    with isotonic regression, NIPS 2011, algorithm 1. Compared in section 4.6 of the dissertation on learning to rank
    with Bregman divergences.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> X = np.array([[0.0], [0.5], [1.0]])
    >>> problem = cr.problems.LearnedDivergence(X, np.tanh(X[:, 0]), oracle="projection")
    >>> problem.solve(cr.solvers.GLMtron("tanh")).x.round(6)
    array([1.])
    """

    link: Any = "logistic"

    name = "glmtron"
    requires = frozenset({"SingleIndex"})

    def __post_init__(self) -> None:
        if not callable(self.link):
            check_choice(self.link, _LINKS, "link")

    def direction(self, problem: SingleIndex, w: Array) -> Array:
        """Return the update for the link."""
        link = self.link if callable(self.link) else _LINKS[self.link]
        scores = np.asarray(problem.scores(w), dtype=np.float64)
        fitted = np.asarray(link(scores), dtype=np.float64)
        if fitted.shape != scores.shape or not math.isfinite(float(fitted.sum())):
            raise ValueError(
                f"link returned shape {fitted.shape} with sum {fitted.sum()}, expected {len(scores)} finite values: "
                "one for each score."
            )
        return problem.update_direction(fitted, w)
