r"""Sizes of families of functions: coverings in :math:`L_\infty`, and subsets cut out by halfspaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.special import gammaln, logsumexp

from convexrank.data import check_at_least, check_integer, check_positive, keep_checked, shown

__all__ = ["Covering", "FiniteFamily", "Halfspaces", "NormBall", "as_covering"]


@runtime_checkable
class Covering(Protocol):
    """A family of scoring functions with a finite number of balls that cover it."""

    def log_number(self, radius: float) -> float:
        """Return the logarithm of a number of balls of this radius that cover the family."""
        ...


@dataclass(frozen=True)
class FiniteFamily:
    """A finite number of scoring functions, chosen before the sample is seen.

    Parameters
    ----------
    size : float
        Number of functions, at least 1.

    Examples
    --------
    >>> from convexrank import bounds
    >>> bounds.FiniteFamily(1).log_number(0.1)
    0.0
    """

    size: float = 1.0

    def __post_init__(self) -> None:
        keep_checked(self, check_at_least, "size", least=1.0)

    def log_number(self, radius: float) -> float:
        """Return the logarithm of the size; the radius has no effect."""
        return math.log(self.size)


@dataclass(frozen=True)
class NormBall:
    r"""Linear scores with bounded weights: x ↦ ⟨w, x⟩ with ‖w‖ ≤ B, over rows with ‖x‖ ≤ R in the dual norm.

    .. math:: \mathcal N(r) \le (1 + 2BR/r)^d, \qquad \mathcal N(r) = 1 \text{ for } r \ge BR

    in the largest difference of scores over such rows, for every pair of dual norms: that difference is at most
    R‖w − w′‖, and balls of half the radius around separated weights fit into a slightly larger ball.

    Parameters
    ----------
    dimension : int
        Number of features d.
    bound : float
        Largest norm B of the weights; finite.
    reach : float
        Largest dual norm R of a row in the population (not only in the sample); finite.

    Examples
    --------
    >>> from convexrank import bounds
    >>> ball = bounds.NormBall(dimension=10, bound=1.0, reach=1.0)
    >>> round(ball.log_number(0.1), 3), ball.log_number(1.0)
    (30.445, 0.0)
    """

    dimension: int
    bound: float
    reach: float

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "dimension", minimum=1)
        keep_checked(self, check_positive, "bound", "reach")

    def log_number(self, radius: float) -> float:
        """Return the logarithm of the number of balls, at most d ln(1 + 2BR/r)."""
        radius = check_positive(radius, "radius", infinite=True)
        if self.bound >= radius / self.reach:
            ratio = self.bound / radius * self.reach
            return self.dimension * math.log1p(2.0 * ratio) if ratio > 1.0 else 0.0
        return 0.0


@dataclass(frozen=True)
class Halfspaces:
    r"""All linear scores of d features, whatever their weights and without a margin.

    A linear score and a level cut a halfspace out of the features, and N points have at most
    :math:`2\sum_{j=0}^{d}\binom{N-1}{j}` subsets that a halfspace cuts out (Cover 1965).

    Parameters
    ----------
    dimension : int
        Number of features d.

    Examples
    --------
    >>> import math
    >>> from convexrank import bounds
    >>> round(math.exp(bounds.Halfspaces(1).log_subsets(3)))  # three points on a line: all but two of eight
    6
    """

    dimension: int

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "dimension", minimum=1)

    def log_subsets(self, points: float) -> float:
        """Return the logarithm of the largest number of subsets of this number of points."""
        points = check_at_least(points, "points", 1.0)
        return math.log(2.0) + log_binomials(points - 1.0, self.dimension)

    def deviation(self, n: int, delta: float) -> float:
        r"""Bound how far the share of a sample in a halfspace is below its probability, for all halfspaces at once.

        With a second sample of m rows, :math:`0<a<1` and ε > 0, the probability that some halfspace has a share more
        than ε below its probability is at most

        .. math:: \Pi(n+m)\,\exp\Bigl(-2n\bigl(\tfrac{m(1-a)ε}{n+m}\bigr)^2\Bigr) \Big/ \bigl(1-e^{-2m a^2ε^2}\bigr):

        if the share of the first sample in a halfspace is more than ε too small, the share of the second sample is
        within aε of the probability except with probability :math:`e^{-2ma^2ε^2}`; and given the union of both samples,
        the first is drawn from it without replacement, so that Hoeffding's inequality applies. The value is the
        smallest ε found over a grid of m and a.
        """
        rows, log_delta = float(check_integer(n, "n", 1)), math.log(check_positive(delta, "delta"))
        best = math.inf
        for times in (10.0, 3.0, 30.0, 1.0, 100.0, 300.0):
            log_subsets = self.log_subsets((1.0 + times) * rows)
            for share in (0.05, 0.1, 0.02, 0.2, 0.01, 0.3):

                def fails(
                    eps: float, times: float = times, share: float = share, logs: float = log_subsets
                ) -> bool:
                    missed = -math.expm1(-2.0 * times * rows * (share * eps) ** 2)
                    exponent = 2.0 * rows * (times * (1.0 - share) * eps / (1.0 + times)) ** 2
                    return missed <= 0.0 or logs - exponent - math.log(missed) > log_delta

                if not fails(best):
                    best = _least(fails, best)
        return best


def _least(fails: Callable[[float], bool], most: float) -> float:
    """Return the least number that does not fail, of a decreasing condition; ``most`` does not."""
    low, high = 0.0, min(1.0, most)
    while fails(high):
        low, high = high, min(2.0 * high, most)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high


def log_binomials(n: float, most: int) -> float:
    """Return the logarithm of the number of subsets of n things with at most so many elements."""
    if n <= most:
        return n * math.log(2.0)
    chosen = np.arange(most + 1.0)
    return float(np.asarray(logsumexp(gammaln(n + 1.0) - gammaln(chosen + 1.0) - gammaln(n - chosen + 1.0))))


def as_covering(covering: Any, name: str) -> Covering:
    """Accept a family of functions, or the number of them."""
    if isinstance(covering, Covering) and not isinstance(covering, type):
        return covering
    if isinstance(covering, str | bytes) or hasattr(covering, "__len__") or isinstance(covering, type | None):
        raise TypeError(
            f"{name} is {shown(covering)}, expected the number of functions, or a family such as bounds.NormBall."
        )
    return FiniteFamily(check_at_least(covering, name, 1.0))
