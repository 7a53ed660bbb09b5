r"""An informative bound on the push risk: uniform over the positives, Chernoff for the negatives.

Let F be the distribution function of a positive's score and :math:`F_I` that of the I positives of the sample. With
probability at least 1 − δ/2, :math:`F \le F_I + ε` everywhere, with :math:`ε = \sqrt{\ln(2/δ)/(2I)}` (Dvoretzky,
Kiefer, Wolfowitz and Massart). Given the positives, the K numbers :math:`\min(1, F_I(f_k)+ε)^p` are independent and in
[0, 1], and the Chernoff bound for their mean holds with probability at least 1 − δ/2. Together

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
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convexrank.bounds.coverings import FiniteFamily, Halfspaces, as_covering
from convexrank.data import check_at_least, check_nonnegative, check_probability
from convexrank.metrics import heights
from convexrank.metrics import push_risk as empirical_push_risk
from convexrank.metrics.queries import tally

__all__ = ["Bound", "chernoff", "push_risk"]


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
    if mean >= 1.0:
        return 1.0
    low, high = mean, 1.0
    while low < (middle := 0.5 * (low + high)) < high:
        first = mean * math.log(mean / middle) if mean > 0.0 else 0.0
        second = (1.0 - mean) * (math.log1p(-mean) - math.log1p(-middle))
        low, high = (middle, high) if first + second <= rate else (low, middle)
    return high
