"""Stochastic gradient steps by query: one query per step, with or without variance reduction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Proximal
from convexrank.core.loop import State
from convexrank.data import check_flag, check_integer, keep_checked
from convexrank.solvers.row_faces import FiniteSum

Array = np.ndarray


@dataclass(frozen=True)
class StochasticGradient:
    r"""Steps along the gradient of one term of the risk, drawn at random: one query at a time.

    With :math:`R = \sum_q f_q` and the last computed gradient :math:`g_q` of each term,

    .. math::
        w \leftarrow \operatorname{prox}\Bigl(w - \eta\Bigl[\tfrac{1}{p_q}\bigl(\nabla f_q(w) - g_q\bigr)
        + \textstyle\sum_k g_k + \lambda_2 w\Bigr]\Bigr), \qquad
        \eta = \Bigl(3 \max_q \tfrac{L_q}{p_q} + \lambda_2\Bigr)^{-1}

    (SAGA), where term q has the probability :math:`p_q`, a mean of the uniform probability and one in proportion to the
    constants :math:`L_q`. The expected distance to the minimum falls at a linear rate with ``l2``.

    ``variance_reduction=False`` is the method of the source: steps of length :math:`1/(\lambda_2 (t + t_0))` along
    :math:`\tfrac{1}{p_q}\nabla f_q(w) + \lambda_2 w`, and the mean of the points with weights t. The source claims a
    linear rate; the rate is :math:`O(1/t)`, the best possible with such steps. This method needs l2.

    One iteration is a pass: as many steps as there are terms, and one full gradient for the gap. Memory is one
    gradient per term. The same seed gives the same steps.

    Parameters
    ----------
    seed : int
        Seed of the random draws.
    variance_reduction : bool
        Whether to use SAGA, which stores the last gradient of each term.

    References
    ----------
    A. Defazio, F. Bach, S. Lacoste-Julien, SAGA, NIPS (2014). A. Rakhlin, O. Shamir, K. Sridharan, Making gradient
    descent optimal for strongly convex stochastic optimization, ICML (2012). S. Acharyya, dissertation (2013), section
    3.4.6.

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.9]]
    >>> problem = cr.problems.MarginRetargeting(X, [2, 0, 1, 0], [5, 5, 9, 9], margin=1.0, l2=0.1)
    >>> problem.solve(cr.solvers.StochasticGradient(seed=1)).status.name
    'CONVERGED'
    """

    seed: int = 0
    variance_reduction: bool = True

    name = "stochastic-gradient"
    requires = frozenset({"FiniteSum", "Proximal"})
    default_max_iter = 20_000

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "seed", minimum=0)
        keep_checked(self, check_flag, "variance_reduction")

    def init(self, problem: Proximal, x0: Array) -> State:
        """Evaluate at the start; all terms once."""
        terms = problem.face(FiniteSum)
        if not self.variance_reduction and terms.l2 <= 0:
            raise ValueError(
                "variance_reduction=False takes steps of length 1/(l2·t), and l2 is 0; pass l2 > 0."
            )
        constants = terms.constants()
        even = np.full(len(constants), 1.0 / len(constants))
        shares = constants / constants.sum() if constants.sum() > 0 else even
        chances = 0.5 * (even + shares)
        x = problem.prox(np.array(x0, dtype=np.float64), 0.0)
        steepest = float((constants / chances).max())
        memory = _Memory(x, terms.gradients(x), chances, steepest, 0, np.zeros_like(x), 0.0)
        return _at(problem, x, memory)

    def step(self, problem: Proximal, state: State) -> State:
        """One pass: as many steps as terms."""
        rng = np.random.default_rng((self.seed, state.iteration))
        chances = state.memory.chances
        drawn = rng.choice(len(chances), size=len(chances), p=chances)
        return (self._reduced if self.variance_reduction else self._plain)(problem, state.memory, drawn)

    def _reduced(self, problem: Proximal, memory: _Memory, drawn: Array) -> State:
        w, seen, terms = memory.w, memory.seen.copy(), problem.face(FiniteSum)
        total, length = seen.sum(axis=0), 1.0 / (3.0 * memory.steepest + terms.l2)
        for term in drawn:
            check_time()
            change = terms.gradient(int(term), w) - seen[term]
            direction = change / memory.chances[term] + total + terms.l2 * w
            w = problem.prox(w - length * direction, length)
            seen[term] += change
            total += change
        steps = memory.steps + len(drawn)
        after = _Memory(w, seen, memory.chances, memory.steepest, steps, memory.mean, memory.weight)
        return _at(problem, w, after)

    def _plain(self, problem: Proximal, memory: _Memory, drawn: Array) -> State:
        w, mean, weight, steps = memory.w, memory.mean, memory.weight, memory.steps
        terms = problem.face(FiniteSum)
        delay = memory.steepest / terms.l2
        for term in drawn:
            check_time()
            steps += 1
            length = 1.0 / (terms.l2 * (steps + delay))
            direction = terms.gradient(int(term), w) / memory.chances[term] + terms.l2 * w
            w = problem.prox(w - length * direction, length)
            weight += steps
            mean = mean + (steps / weight) * (w - mean)
        after = _Memory(w, memory.seen, memory.chances, memory.steepest, steps, mean, weight)
        return _at(problem, mean, after)


@dataclass(frozen=True)
class _Memory:
    """The point, the last gradients seen, the chances of the terms, and the mean of the points so far."""

    w: Array
    seen: Array
    chances: Array
    steepest: float
    steps: int
    mean: Array
    weight: float


def _at(problem: Proximal, x: Array, memory: _Memory) -> State:
    smooth, gradient = problem.smooth_value_and_gradient(x)
    value = smooth + problem.nonsmooth_value(x)
    return State(x, value, problem.gap_estimate(x, value, gradient), memory)
