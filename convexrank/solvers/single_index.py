"""Perceptron-like methods for one linear score: steps of a fixed length along a direction that is not a gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.core.capabilities import Field, Solvable
from convexrank.core.loop import State
from convexrank.data import check_choice, check_positive, keep_checked
from convexrank.projections import bounded_increments, isotonic
from convexrank.solvers.descent.first_order import residual_of
from convexrank.solvers.row_faces import SingleIndex

Array = np.ndarray


class FixedSteps:
    """A method by its direction and the length of its steps, with the state at each point."""

    default_max_iter = 10_000
    length = 1.0

    def direction(self, problem: Solvable, w: Array) -> Array:
        """Return what a unit step subtracts from w."""
        raise NotImplementedError

    def init(self, problem: Solvable, x0: Array) -> State:
        """Evaluate the direction at the start."""
        return self._at(problem, np.array(x0, dtype=np.float64))

    def step(self, problem: Solvable, state: State) -> State:
        """Take the next point, found before."""
        return self._at(problem, state.memory)

    def _at(self, problem: Solvable, w: Array) -> State:
        """The state at w, with the next point as its memory; stalled where the method does not move."""
        direction = self.direction(problem, w)
        following = problem.prox(w - self.length * direction, self.length)
        stalled = bool(np.array_equal(following, w))
        return State(w, math.nan, residual_of(problem, w, direction), following, stalled=stalled)


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
class GLMtron(FixedSteps):
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
    requires = frozenset({"Field", "SingleIndex"})

    def __post_init__(self) -> None:
        if not callable(self.link):
            check_choice(self.link, _LINKS, "link")

    def direction(self, problem: Solvable, w: Array) -> Array:
        """Return the update for the link."""
        link, rows = self.link if callable(self.link) else _LINKS[self.link], problem.face(SingleIndex)
        scores = np.asarray(rows.scores(w), dtype=np.float64)
        fitted = np.asarray(link(scores), dtype=np.float64)
        if fitted.shape != scores.shape or not math.isfinite(float(fitted.sum())):
            raise ValueError(
                f"link returned shape {fitted.shape} with sum {fitted.sum()}, expected {len(scores)} finite values: "
                "one for each score."
            )
        return rows.update_direction(fitted, w)


@dataclass(frozen=True)
class Isotron(FixedSteps):
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
    requires = frozenset({"Field", "SingleIndex"})

    def direction(self, problem: Solvable, w: Array) -> Array:
        """Return the update for the isotonic regression."""
        rows = problem.face(SingleIndex)
        return rows.update_direction(isotonic(rows.targets, order=rows.scores(w)), w)


@dataclass(frozen=True)
class Slisotron(FixedSteps):
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
    requires = frozenset({"Field", "SingleIndex"})

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "lipschitz")

    def direction(self, problem: Solvable, w: Array) -> Array:
        """Return the update for the Lipschitz isotonic regression."""
        rows = problem.face(SingleIndex)
        scores = np.asarray(rows.scores(w), dtype=np.float64)
        order = np.argsort(scores)
        fitted = np.empty(len(scores))
        steps = self.lipschitz * np.diff(scores[order])
        fitted[order] = bounded_increments(rows.targets[order], 0.0, steps)
        return rows.update_direction(fitted, w)


@dataclass(frozen=True)
class UnitStep(FixedSteps):
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

    def direction(self, problem: Solvable, w: Array) -> Array:
        """Return the field."""
        return problem.face(Field).direction(w)
