r"""A bound on the push risk of all of a family, and the sizes of families: coverings, and subsets cut by halfspaces.

It is uniform over the positives, and Chernoff's for the negatives. Let F be the distribution function of a positive's
score and :math:`F_I` that of the I positives of the sample. With probability at least 1 − δ/2, :math:`F \le F_I + ε`
everywhere, with :math:`ε = \sqrt{\ln(2/δ)/(2I)}` (Dvoretzky, Kiefer, Wolfowitz and Massart). Given the positives, the K
numbers :math:`\min(1, F_I(f_k)+ε)^p` are independent and in [0, 1], and the Chernoff bound for their mean holds with
probability at least 1 − δ/2. Together

.. math:: R_p(f)^p \;=\; \mathrm E\,F(f_k)^p \;\le\;
          \mathrm{kl}^{-1}\Bigl(\tfrac1K\sum_k \min(1, F_I(f_k)+ε)^p,\; \tfrac1K\ln\tfrac2δ\Bigr),

where :math:`\mathrm{kl}^{-1}(q, c)` is the largest mean whose Kullback–Leibler divergence from q is at most c. The
bound contains no power of ε; such powers make the published bounds vacuous.

*Families.* For N functions ln N is added to ln(2/δ), twice. For a family with a cover in :math:`L_\infty`, take balls
of radius θ/4: where f is within θ/4 of the centre g, :math:`f_i \le f_k` implies :math:`g_i \le g_k + θ/2`, which
implies :math:`f_i \le f_k + θ`. So the bound for the N(θ/4) centres, at margin θ/2, is a bound for f in terms of its
heights at margin θ; nothing of ε is spent on the cover. For all linear scores no margin is needed: both the heights
and, given the positives, the increasing function of them are mixtures of halfspaces, so uniform deviations over
halfspaces (:meth:`convexrank.bounds.Halfspaces.deviation`) replace both steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.special import gammaln, logsumexp

from convexrank.data import (
    check_at_least,
    check_integer,
    check_nonnegative,
    check_positive,
    check_probability,
    keep_checked,
    shown,
)
from convexrank.inference.finite_sample.betting import farthest
from convexrank.metrics import heights
from convexrank.metrics import push_risk as empirical_push_risk
from convexrank.metrics.queries import tally

__all__ = [
    "Bound",
    "Covering",
    "FiniteFamily",
    "Halfspaces",
    "NormBall",
    "as_covering",
    "chernoff",
    "push_risk",
]


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


@dataclass(frozen=True)
class Bound:
    """A bound, with its terms.

    Parameters
    ----------
    value : float
        The bound, even if it is above the trivial value.
    pieces : dict of str to float
        The terms of the bound, by name.
    source : str
        The statement with its number in the paper, or the place of its derivation.
    limit : float
        The trivial value, which the bounded quantity never exceeds.
    refuted : bool
        Whether the statement fails for some data; then the value is not a valid bound.
    note : str
        The error in the statement, or its assumptions.

    Examples
    --------
    >>> from convexrank import bounds
    >>> family = bounds.Halfspaces(1)
    >>> few = bounds.push_risk([1, 0, 1, 0], [2.0, 1.0, 0.5, 0.0], p=4, delta=0.05, covering=family)
    >>> print(f"{few.value:.2f}", few.vacuous, few.source)
    1.27 True convexrank.bounds.push_sample, halfspaces
    """

    value: float
    pieces: dict[str, float]
    source: str
    limit: float = 1.0
    refuted: bool = False
    note: str = field(default="", repr=False)

    @property
    def vacuous(self) -> bool:
        """Whether the bound is not informative: it is not below the trivial value."""
        return not self.value < self.limit


def push_risk(y: Any, s: Any, p: float, delta: float, *, theta: float = 0.0, covering: Any = 1) -> Bound:
    r"""Bound the true push risk of a ranker from its sample, for one ranker or for all of a family at once.

    With probability at least 1 − δ over independent positives and negatives,

    .. math:: R_p(f)^p \le \mathrm{kl}^{-1}\Bigl(\tfrac1K\sum_k \min(1, h^θ_k+ε)^p,\; \tfrac1K\ln\tfrac{2N}δ\Bigr),
              \qquad ε = \sqrt{\tfrac{\ln(2N/δ)}{2I}}, \quad N = \mathcal N(\mathcal F, θ/4)

    for all f of the family at once, :math:`h^θ_k` the share of positives at or below :math:`s_k + θ`. The derivation
    is in :mod:`convexrank.bounds.push_sample`.

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.
    p : float
        Power, at least 1.
    delta : float
        The probability of failure, between 0 and 1.
    theta : float
        The margin, at least 0, in units of the scores; greater than 0 for a cover of an infinite family.
    covering : float, FiniteFamily, NormBall, Covering or Halfspaces
        The family from which the ranker was chosen: 1 for rows to which the ranker was not fitted; N for a choice among
        N rankers; ``NormBall`` for the training rows, if the weights and the rows are in the balls;
        ``Halfspaces`` for the training rows and linear scores with any weights.

    Returns
    -------
    Bound
        Bound on the risk :math:`R_p`, from 0 to 1. ``pieces``: the empirical risk at the margin, the ε of the
        positives, and the logarithm of the size of the family.

    Raises
    ------
    ValueError, TypeError
        As all measures; when p is below 1, delta is not between 0 and 1, or an infinite family has no margin.

    Notes
    -----
    O(n log n). To report the best bound of k margins or k values of p, use delta/k.

    References
    ----------
    Massart, The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality, Annals of Probability 18 (1990).

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import bounds
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(2000) < 400
    >>> s = rng.normal(size=2000) + 1.5 * y
    >>> held_out = bounds.push_risk(y, s, p=4, delta=0.05)
    >>> print(f"{held_out.pieces['empirical']:.2f} {held_out.value:.2f}")
    0.37 0.45
    """
    power, failure = check_at_least(p, "p", 1.0), check_probability(delta, "delta")
    margin = check_nonnegative(theta, "theta")
    counted = tally(y, s)
    positives, negatives = int(counted.positives.sum()), int(counted.negatives.sum())
    height = heights(y, s, margin) / positives
    empirical = empirical_push_risk(y, s, power, margin)
    if isinstance(covering, Halfspaces):
        eps = covering.deviation(positives, failure / 2.0)
        beyond = covering.deviation(negatives, failure / 2.0)
        raised = float(np.mean(np.minimum(1.0, height + eps) ** power)) + beyond
        pieces = {"empirical": empirical, "eps_positives": eps, "eps_negatives": beyond}
        return Bound(raised ** (1.0 / power), pieces, "convexrank.bounds.push_sample, halfspaces")
    family = as_covering(covering, "covering")
    if margin == 0.0 and not isinstance(family, FiniteFamily):
        raise ValueError("theta is 0, expected a margin greater than 0: without one no finite cover serves.")
    log_size = family.log_number(margin / 4.0)
    log_odds = log_size + math.log(2.0 / failure)
    eps = math.sqrt(log_odds / (2.0 * positives))
    mean = float(np.mean(np.minimum(1.0, height + eps) ** power))
    value = chernoff(min(mean, 1.0), log_odds / negatives) ** (1.0 / power)
    pieces = {"empirical": empirical, "eps_positives": eps, "log_covering": log_size}
    return Bound(value, pieces, "convexrank.bounds.push_sample")


def chernoff(mean: float, rate: float) -> float:
    """Return the largest m in [mean, 1] with mean·ln(mean/m) + (1 − mean)·ln((1 − mean)/(1 − m)) at most ``rate``."""
    return farthest(min(mean, 1.0), 1.0, rate)
