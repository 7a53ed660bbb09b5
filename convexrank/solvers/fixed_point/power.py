"""Iteration of a map to its fixed point: the linear or nonlinear power method."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convexrank.core.capabilities import FixedPoint
from convexrank.core.loop import State

Array = np.ndarray

# Rounding ends the descent: this many steps without a new shortest one, and the iteration stands still.
_PATIENCE = 40
# Where the map is not known to contract, steps may get longer for a while.
_LONGER_PATIENCE = 400


@dataclass(frozen=True)
class Power:
    r"""Apply the map again and again, :math:`x_{k+1} = F(x_k)`.

    A contraction with factor θ in the problem's metric converges at that rate from any start, with

    .. math:: d(x_k, x^*) \le \frac{\theta}{1-\theta}\, d(x_k, x_{k-1}),

    which is the reported residual. A map with factor 1 may converge as well; then the residual is the length of
    the step, and the certificate states its kind. A step costs one evaluation of the map.

    References
    ----------
    S. Banach, Sur les opérations dans les ensembles abstraits, Fundamenta Mathematicae 3 (1922), section 2, theorem 6.

    Examples
    --------
    >>> import convexrank as cr
    >>> sorted(cr.solvers.Power().requires)
    ['FixedPoint']
    """

    name = "power"
    requires = frozenset({"FixedPoint"})
    default_max_iter = 100_000

    def init(self, problem: FixedPoint, x0: Array) -> State:
        """Start; nothing is known about the error yet."""
        return State(x0, math.nan, math.inf, (math.inf, 0))

    def step(self, problem: FixedPoint, state: State) -> State:
        """Apply the map once."""
        image = problem.apply_map(state.x)
        length, factor = problem.distance(image, state.x), problem.modulus
        residual = length * factor / (1.0 - factor) if factor < 1.0 else length
        shortest, since = state.memory
        since = 0 if length < shortest else since + 1
        memory = (min(shortest, length), since)
        patience = _PATIENCE if factor < 1.0 else _LONGER_PATIENCE
        return State(image, math.nan, residual, memory, stalled=since >= patience or length == 0.0)
