"""Methods for links: steps of a fixed length, and points in two sets.

Perceptron-like methods for one linear score: steps of a fixed length along a direction that is not a gradient.

Methods for a common point of two convex sets, by projections on each in turn or on both at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.core.capabilities import Feasibility, Field, Solvable
from convexrank.core.loop import State
from convexrank.data import check_choice, check_positive, keep_checked
from convexrank.projections import bounded_increments, isotonic
from convexrank.solvers.descent.first_order import residual_of
from convexrank.solvers.row_faces import SingleIndex, SplitFeasibility

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


def _logistic(scores: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * scores))  # does not overflow


_LINKS: dict[str, Callable[[Array], Array]] = {
    "identity": np.positive,
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


def state_near(problem: Solvable, point: Array, memory: Any = None) -> State:
    """Return the state at the x whose image is nearest to a point."""
    x = problem.face(SplitFeasibility).recover(point)
    return State(x, np.nan, problem.face(Feasibility).violation(x), memory)


@dataclass(frozen=True)
class ADMM:
    r"""Projections onto both sets with a running sum of their differences: ADMM on the sum of the two indicators.

    .. math:: a \leftarrow P_{\mathcal C}(\theta - u), \qquad \theta \leftarrow P_{X\mathcal W}(a + u), \qquad
              u \leftarrow u + a - \theta

    There is no step size, because indicators have no scale. When the sets do not meet, u grows without bound along the
    gap between them, while θ converges to a nearest point.

    References
    ----------
    S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein, Found. Trends Mach. Learn. 3 (2011), section 5; H. H. Bauschke
    and W. M. Moursi, Math. Program. 164 (2017), for sets that do not meet.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.RealizableLink([[0.0], [1.0], [2.0]], [0.0, 0.5, 0.7], radius=3.0, strong=1.0)
    >>> problem.solve("admm").status.name
    'CONVERGED'
    """

    name = "admm"
    requires = frozenset({"Feasibility", "SplitFeasibility"})
    default_max_iter = 100_000

    def init(self, problem: Solvable, x0: Array) -> State:
        """Start at the point of the second set nearest to the scores of x0, with u = 0."""
        sets = problem.face(SplitFeasibility)
        x = sets.recover(sets.lift(x0))
        return State(x, np.nan, problem.face(Feasibility).violation(x), (sets.lift(x), np.zeros(())))

    def step(self, problem: Solvable, state: State) -> State:
        """One projection onto each set, and the multipliers."""
        (point, multipliers), sets = state.memory, problem.face(SplitFeasibility)
        other = sets.project(point - multipliers)
        x = sets.recover(other + multipliers)
        point = sets.lift(x)
        return State(x, np.nan, problem.face(Feasibility).violation(x), (point, multipliers + other - point))


@dataclass(frozen=True)
class SequentialProjections:
    r"""Project onto the two sets in turn: Bregman's sequential method with the squared Euclidean distance.

    .. math:: \theta \leftarrow P_{X\mathcal W}\bigl(P_{\mathcal C}(\theta)\bigr)

    Converges to a common point if there is one; otherwise to a pair of nearest points, one of each set. The rate is
    linear in the end if the polyhedron meets the relative interior of the other set; if the sets only touch, it may be
    as slow as 1/k.

    References
    ----------
    L. M. Bregman, USSR Comput. Math. Math. Phys. 7 (1967); H. H. Bauschke and J. M. Borwein, SIAM Review 38 (1996).

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.RealizableLink([[0.0], [1.0], [2.0]], [0.0, 0.5, 0.7], radius=3.0, strong=1.0)
    >>> problem.solve("sequential-projections").status.name
    'CONVERGED'
    """

    name = "sequential-projections"
    requires = frozenset({"Feasibility", "SplitFeasibility"})
    default_max_iter = 100_000

    def init(self, problem: Solvable, x0: Array) -> State:
        """Start at the point of the second set nearest to the scores of x0."""
        return state_near(problem, problem.face(SplitFeasibility).lift(x0))

    def step(self, problem: Solvable, state: State) -> State:
        """One projection onto each set."""
        sets = problem.face(SplitFeasibility)
        return state_near(problem, sets.project(sets.lift(state.x)))


@dataclass(frozen=True)
class ParallelProjections:
    r"""Project onto both sets and average: Bregman's parallel method with the squared Euclidean distance.

    .. math:: \theta \leftarrow \tau P_{\mathcal C}(\theta) + (1-\tau) P_{X\mathcal W}(\theta)

    This is a gradient step on the weighted sum of the two squared distances. It converges to a common point if there is
    one; otherwise to a minimiser of that sum, which lies between two nearest points.

    Parameters
    ----------
    share : float
        The weight τ of the first set, between 0 and 1.

    References
    ----------
    Y. Censor and S. A. Zenios, Parallel Optimization, Oxford University Press (1997).

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.RealizableLink([[0.0], [1.0], [2.0]], [0.0, 0.5, 0.7], radius=3.0, strong=1.0)
    >>> problem.solve(cr.solvers.ParallelProjections(share=0.7)).status.name
    'CONVERGED'
    """

    share: float = 0.5

    name = "parallel-projections"
    requires = frozenset({"Feasibility", "SplitFeasibility"})
    default_max_iter = 100_000

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "share")
        if not self.share < 1.0:
            raise ValueError(
                f"share is {self.share}, expected a number between 0 and 1: both sets need a weight."
            )

    def init(self, problem: Solvable, x0: Array) -> State:
        """Start at the scores of x0."""
        point = problem.face(SplitFeasibility).lift(x0)
        return state_near(problem, point, point)

    def step(self, problem: Solvable, state: State) -> State:
        """Average the two projections of the present point."""
        sets = problem.face(SplitFeasibility)
        other = sets.lift(state.x)
        point = other + self.share * (sets.project(state.memory) - other)
        return state_near(problem, point, point)
