"""Methods of coordinates: boosting one column at a time, and blocks in turn.

Boosting: the papers' coordinate descent over weak rankers.

Block coordinate descent: minimise over one block of unknowns after the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Smooth, Solvable
from convexrank.core.loop import State
from convexrank.modelling.log_sum_exps.coordinates import Line, LogSumExpCoordinates
from convexrank.solvers.row_faces import Blocks, Coordinates

Array = np.ndarray

# Edges that agree to this many digits are a tie: rounding must not decide between a ranker and its copy.
_TIE = 1e-12
# Where no minimiser exists the step ends when the slope has fallen to this fraction of its start.
_FLAT = 1e-12
# Rounds between two evaluations of the scores from scratch, so that rounding does not accumulate.
_REFRESH = 256


@dataclass(frozen=True)
class Rounds:
    """The rounds so far: an append-only record that later rounds share, so that keeping it costs O(1) per round."""

    _record: list[tuple[int, float]] = field(default_factory=list, repr=False)
    count: int = 0

    def add(self, ranker: int, alpha: float) -> Rounds:
        """Return the record with one round more; this one stays as it is."""
        record = self._record if len(self._record) == self.count else self._record[: self.count]
        record.append((ranker, alpha))
        return Rounds(record, self.count + 1)

    @property
    def rankers(self) -> Array:
        """Column numbers of the rankers chosen, in order, shape (rounds,)."""
        return np.array([ranker for ranker, _ in self._record[: self.count]], dtype=np.intp)

    @property
    def alphas(self) -> Array:
        """The steps, in order, shape (rounds,)."""
        return np.array([alpha for _, alpha in self._record[: self.count]], dtype=np.float64)


@dataclass(frozen=True)
class _Memory:
    """State between rounds; ``ranker`` and ``alpha`` are those of the last round (None and 0 at first)."""

    oracle: LogSumExpCoordinates = field(repr=False)
    scores: Array = field(repr=False)
    edges: Array = field(repr=False)
    rounds: Rounds
    ranker: int | None = None
    alpha: float = 0.0


@dataclass(frozen=True)
class Boosting:
    r"""The P-Norm Push algorithm: each round moves along the weak ranker (column of X) with the largest edge.

    .. math:: j_t \in \arg\max_j \Bigl|\sum_{ik} \tilde d_{ik}\,(h_j(x_i) - h_j(x_k))\Bigr|, \qquad
        \tilde d_{ik} = d_{ik}\Bigl(\sum_{i'} d_{i'k}\Bigr)^{p-1}, \qquad
        w_{j_t} \leftarrow w_{j_t} + \alpha_t,

    with :math:`\alpha_t` from an exact line search. Ties go to the first ranker; edges that agree to 12 digits count as
    tied. With l2 the edge and the line search are those of the whole objective.

    The weights factorise, :math:`d_{ik} = a_i b_k`, so no array of size I×K exists. A round costs two mat-vecs with X,
    one for the edges and one to check for separation, and O(n) for each evaluation in the line search, O(1) where the
    ranker has two values. The published algorithm divides d by its sum in every round; that scales all edges alike,
    so neither :math:`j_t` nor :math:`\alpha_t` depends on it. Here weights are softmaxes of the scores, computed in the
    log domain, which cannot overflow. The value reported is the problem's objective: for the push, the logarithm of
    the papers' objective divided by p and normalised, which has the same minimiser along every ranker.

    **Closed form.** For a ranker of two values u < v, without l2, and one push,

    .. math:: \alpha_t = \frac{1}{(1+p)(v-u)} \log\frac{W_+}{W_-}

    where :math:`W_+` and :math:`W_-` are the sums of :math:`\tilde d_{ik}` over the correctly and wrongly ranked pairs.
    For p = 1 and values {0, 1} this is RankBoost's step; the extension to every p is not in the papers, and is tested.

    **No minimiser along the ranker.** When a ranker misranks no pair (:math:`W_- = 0`), or ranks no pair correctly, the
    best step is infinite. The step taken is finite: it ends when the slope is at most :math:`10^{-12}` of its first
    value, or, if the objective is unbounded, when the step is so long that the column alone determines which rows have
    weight. Scores that separate the classes strictly end the run with status SEPARABLE; with ties between the classes
    the run continues, and the check for a minimiser follows at its end.

    Each round lowers the objective. With l2 > 0 it converges linearly to the minimiser; without, to the infimum.

    Parameters
    ----------
    closed_form : bool
        Whether to use the closed form if it applies; False always searches, with the same steps up to rounding.

    Notes
    -----
    The ranker and the step of each round are in the state that a callback receives: ``state.memory.ranker`` and
    ``state.memory.alpha`` for the round just done (None and 0.0 at the start), and ``state.memory.rounds.rankers``
    and ``.alphas``, arrays over all rounds so far. The callback is not called for the round that ends the run
    by convergence or separation; the objective after every round is in ``solution.trace["objective"]``.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 5, Figure 2 and equation 1; C. Rudin, Ranking with a P-Norm Push,
    COLT (2006), section 4, Figure 1; Y. Freund, R. Iyer, R. Schapire, Y. Singer, An efficient boosting algorithm for
    combining preferences, JMLR 4 (2003), for the closed form at p = 1.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> from convexrank.features import threshold_rankers
    >>> X = np.array([[3.0, 1.0], [2.5, 2.0], [0.5, 3.0], [1.0, 0.5], [2.7, 0.1], [0.2, 2.2]])
    >>> problem = cr.problems.PNormPush(threshold_rankers(X, 3), [1, 1, 1, 0, 0, 0], p=4, l2=0.01)
    >>> chosen = []
    >>> solution = problem.solve("boosting", callback=lambda state: chosen.append(state.memory.ranker))
    >>> solution.status.name, chosen[:3]
    ('CONVERGED', [None, 3, 1])
    """

    closed_form: bool = True

    name = "boosting"
    requires = frozenset({"Coordinates"})
    default_max_iter = 10_000

    def init(self, problem: Solvable, x0: Array) -> State:
        """Evaluate at the start."""
        face = problem.face(Coordinates)
        oracle = face.oracle()
        return _state(face, oracle, x0, oracle.scores(x0), Rounds())

    def step(self, problem: Solvable, state: State) -> State:
        """One round: the ranker with the largest edge, and the exact step along it."""
        memory: _Memory = state.memory
        oracle = memory.oracle
        sizes = np.abs(memory.edges)
        ranker = int(np.argmax(sizes >= (1.0 - _TIE) * sizes.max()))  # the first of those that tie
        column = oracle.column(ranker)
        line = oracle.line(memory.scores, column, float(state.x[ranker]))
        noise = oracle.precision * float(np.abs(column).max())  # rounding error of an edge
        alpha = exact_step(line, self.closed_form) if abs(float(memory.edges[ranker])) > noise else 0.0
        x = state.x.copy()
        x[ranker] += alpha
        if x[ranker] == state.x[ranker]:
            return State(state.x, state.value, state.residual, memory, stalled=True)
        rounds = memory.rounds.add(ranker, alpha)
        scores = oracle.scores(x) if rounds.count % _REFRESH == 0 else memory.scores + alpha * column
        return _state(problem.face(Coordinates), oracle, x, scores, rounds, ranker, alpha)


def _state(
    face: Coordinates,
    oracle: LogSumExpCoordinates,
    x: Array,
    scores: Array,
    rounds: Rounds,
    ranker: int | None = None,
    alpha: float = 0.0,
) -> State:
    risk, score_gradient = oracle.risk_and_score_gradient(scores)
    edges = oracle.edges(x, score_gradient)
    value = risk + 0.5 * oracle.l2 * float(x @ x)
    residual = face.gap_estimate(x, value, -edges)
    return State(x, value, residual, _Memory(oracle, scores, edges, rounds, ranker, alpha))


def exact_step(line: Line, closed_form: bool) -> float:
    """Return the minimiser along the line to full precision, or a finite step towards it where it is infinite.

    Parameters
    ----------
    line : Line
        See :class:`convexrank.modelling.log_sum_exps.coordinates.Line`.
    closed_form : bool
        Use the closed form where it holds.
    """
    slope = line.slope(0.0)
    if slope == 0.0 or (line.spread == 0.0 and line.l2 == 0.0):
        return 0.0
    sign = -math.copysign(1.0, slope)
    attained = line.l2 > 0 or line.slope_at_infinity(sign) > 0
    if attained and closed_form:
        alpha = line.closed_form()
        if alpha is not None:
            return alpha
    curvature = line.curvature(0.0)
    guess = min(abs(slope) / curvature if curvature > 0 else math.inf, line.reach)
    if not attained:
        return sign * _bounded_step(line, sign, abs(slope), guess)
    return sign * _root(line, sign, guess)


def _bounded_step(line: Line, sign: float, initial: float, guess: float) -> float:
    """Return a step after which little is left to gain, for a slope that never changes its sign."""
    step = guess
    while step < line.reach and -sign * line.slope(sign * step) > _FLAT * initial:
        check_time()
        step = min(2.0 * step, line.reach)
    return step


def _root(line: Line, sign: float, guess: float) -> float:
    """Return the positive step at which the slope in the given direction is zero, to full precision."""

    from scipy.optimize import brentq  # slow to import; the default solver does without

    def slope(step: float) -> float:
        check_time()
        return sign * line.slope(sign * step)

    low, high = 0.0, guess
    while slope(high) < 0.0:
        low, high = high, 2.0 * high
    tiny = 4 * np.finfo(np.float64).eps
    found: Any = brentq(slope, low, high, xtol=tiny * high * 1e-3, rtol=tiny, maxiter=500)
    return float(found)


@dataclass(frozen=True)
class Alternating:
    r"""Minimise over each block in turn, with the others fixed: targets, then weights with offsets, and so on.

    This is the algorithm of Figures 3.1 and 3.2 of the dissertation for monotone retargeting. The objective decreases
    with every pass. If it is convex the passes tend to the minimum at a linear rate, which is slow when the penalty is
    weak: a pass is a gradient step of the marginal in the metric of the regression, so ``lbfgs`` on the marginal needs
    far fewer steps. If it is not convex the passes tend to a stationary point that depends on the start; from a trivial
    minimum at 0 they do not move.

    A pass of retargeting costs a sort, O(n log n), and a regression: for the squared distance O(nd) once its matrix
    is known, else a few Newton steps of O(nd²).

    References
    ----------
    S. Acharyya, dissertation (2013), Figure 3.1, (3.9) to (3.11), and Figure 3.2, (3.15) and (3.16). The figures lack
    the weights of queries in (3.4); here the passes decrease the objective of the problem.

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 0.2], [0.5, 0.1], [0.2, 0.9]]
    >>> problem = cr.problems.Retargeting(X, [2, 0, 1, 1], qid=[5, 5, 5, 9], offsets=False, l2=0.01)
    >>> solution = problem.solve("alternating")
    >>> solution.status.name, solution.trace["objective"][:3].round(4).tolist()
    ('CONVERGED', [0.008, 0.0024, 0.0022])
    """

    name = "alternating"
    requires = frozenset({"Blocks", "Smooth"})
    default_max_iter = 20_000

    def init(self, problem: Smooth, x0: Array) -> State:
        """Evaluate at the start; the other blocks follow from it."""
        joint = np.zeros(problem.face(Blocks).joint_dimension)
        joint[: problem.dimension] = x0
        return self._at(problem, joint)

    def step(self, problem: Smooth, state: State) -> State:
        """Minimise over each block once."""
        joint, blocks = state.memory, problem.face(Blocks)
        for block in range(blocks.count):
            check_time()
            joint = blocks.minimized(block, joint)
        moved = self._at(problem, joint)
        if np.array_equal(moved.x, state.x):
            return State(state.x, state.value, state.residual, joint, stalled=True)
        return moved

    def _at(self, problem: Smooth, joint: Array) -> State:
        x = joint[: problem.dimension]
        value, gradient = problem.value_and_gradient(x)
        return State(x, value, problem.gap_estimate(x, value, gradient), joint)
