r"""Bounds on the ranking risk :math:`L(r) = P\{Z\,r(X,X')<0\}` from the U-statistic :math:`L_n(r)` over n rows.

A U-statistic is a mean over permutations of means of :math:`m=\lfloor n/2\rfloor` independent pairs, so, by Jensen's
inequality, all bounds on the moment generating function of such a mean hold for it: Hoeffding's, Bernstein's and
Chernoff's, with m in place of n. For a class of rules the supremum of :math:`L-L_n` is at most
:math:`2\,\mathrm E R_n` in the mean, by symmetrization of the pairs, and another row changes :math:`L_n` by at most
2/n, so that bounded differences give :math:`\sqrt{2\ln(1/δ)/n}`.

For the empirical minimiser r_n and the best rule r* of the class,
:math:`L(r_n)-L(r^*) \le \sup_r(L-L_n)(r) + (L_n-L)(r^*)`: the second term has mean 0, and both together change by at
most 4/n with another row. That is the sharper form of Corollary 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from convexrank.bounds.push_sample import Bound, chernoff
from convexrank.data import (
    check_at_least,
    check_choice,
    check_flag,
    check_integer,
    check_nonnegative,
    check_positive,
    check_probability,
    shown,
)
from convexrank_annex.bounds.rademacher import RademacherAverage, expected_average

__all__ = ["excess_risk", "fast_rate", "ranking_risk"]

_PAPER = "Ranking and empirical minimization of U-statistics (2006)"


def ranking_risk(
    empirical: float,
    n: int,
    delta: float,
    method: str = "hoeffding",
    *,
    rules: float = 1,
    variance: float | None = None,
    complexity: float | RademacherAverage | None = None,
) -> Bound:
    r"""Bound the ranking risk by its estimate, for one rule, for a number of rules, or for a class of them.

    With probability at least 1 − δ, with :math:`m=\lfloor n/2\rfloor` and N rules, at once for all of them,

    .. math:: L &\le L_n + \sqrt{\tfrac{\ln(N/δ)}{2m}}, \qquad
              L \le L_n + \tfrac{c}{3} + \sqrt{\tfrac{c^2}9 + 2cσ^2},\ c=\tfrac{\ln(N/δ)}m, \\
              L &\le \mathrm{kl}^{-1}(L_n, c), \qquad L \le L_n + 2\,\mathrm ER_n + \sqrt{\tfrac{2\ln(1/δ)}n} .

    Parameters
    ----------
    empirical : float
        The estimate L_n, from 0 to 1, as :func:`convexrank.metrics.ranking_risk` computes it.
    n : int
        Number of rows, at least 2.
    delta : float
        The probability of failure, between 0 and 1.
    method : {"hoeffding", "bernstein", "chernoff", "rademacher"}
        The first three methods are for rules that do not depend on the rows; "chernoff" is the sharpest of them unless
        the variance is known. "rademacher" is for all rules of a class.
    rules : float
        For the first three methods: the number of rules among which the best was chosen.
    variance : float, optional
        For "bernstein": the variance of the loss of a pair, from 0 to 1/4. By default L(1 − L), which is never below
        the variance, and the inequality is solved for L.
    complexity : float or RademacherAverage
        For "rademacher": the expected Rademacher average of the losses, or a bound on it. An average that was computed
        from the rows takes half of δ for its deviation from the expectation, which is added.

    Returns
    -------
    Bound
        Bound on L(r). ``pieces``: the estimate, and the terms that are added to it.

    Raises
    ------
    ValueError, TypeError
        When an argument is out of its range, or belongs to another method.

    References
    ----------
    Clémençon, Lugosi and Vayatis (2006), appendix 1 (Hoeffding; (5)); section 3 for the class.

    Examples
    --------
    >>> from convexrank import bounds
    >>> for method in ("hoeffding", "bernstein", "chernoff"):
    ...     print(f"{method:10s} {bounds.ranking_risk(0.05, 2000, 0.05, method).value:.4f}")
    hoeffding  0.0887
    bernstein  0.0709
    chernoff   0.0687
    """
    bound = check_choice(method, _METHODS, "method")
    risk = check_nonnegative(empirical, "empirical")
    if risk > 1.0:
        raise ValueError(f"empirical is {empirical}, expected a risk, from 0 to 1.")
    rows, failure = check_integer(n, "n", 2), check_probability(delta, "delta")
    if (complexity is None) == (method == "rademacher"):
        raise ValueError(
            f'complexity is {shown(complexity)} with method="{method}", expected a Rademacher average for '
            '"rademacher", and None else.'
        )
    if variance is not None and method != "bernstein":
        raise ValueError(f'variance is for method="bernstein"; leave it out with "{method}".')
    if complexity is not None:
        if rules != 1:
            raise ValueError('rules is for finitely many; with method="rademacher" leave it at 1.')
        average, left = expected_average(complexity, failure)
        return bound(risk, rows, left, average)
    rate = (math.log(check_at_least(rules, "rules", 1.0)) - math.log(failure)) / (rows // 2)
    return bound(risk, rate, None if variance is None else _variance(variance))


def excess_risk(
    n: int, delta: float, complexity: float | RademacherAverage, *, published: bool = False
) -> Bound:
    r"""Bound the excess risk of the empirical minimiser of the ranking risk over the best of its class: Corollary 3.

    .. math:: L(r_n) - \inf_r L(r) \le 4\,\mathrm ER_n + 4\sqrt{\tfrac{\ln(1/δ)}{n-1}}
              \quad\text{(published)}, \qquad
              \le 2\,\mathrm ER_n + 2\sqrt{\tfrac{2\ln(1/δ)}n} \quad\text{(here)}

    The corollary holds, although the display before it fails: see :ref:`findings-bounds`.

    Parameters
    ----------
    n : int
        Number of rows, at least 2.
    delta : float
        The probability of failure, between 0 and 1.
    complexity : float or RademacherAverage
        The expected Rademacher average of the losses of the class, or a bound on it. An average that was computed from
        the rows takes half of δ for its deviation from the expectation, which is added.
    published : bool
        Whether to use the constants of the paper.

    Returns
    -------
    Bound
        Bound on the excess risk. ``pieces``: the complexity and the deviation.

    Raises
    ------
    ValueError, TypeError
        When an argument is out of its range.

    References
    ----------
    Clémençon, Lugosi and Vayatis (2006), Corollary 3; derived in :mod:`convexrank_annex.bounds.ranking`.

    Examples
    --------
    >>> from convexrank import bounds
    >>> vc = bounds.rademacher_vc(19_020, 10)
    >>> [round(bounds.excess_risk(19_020, 0.05, vc, published=flag).value, 2) for flag in (True, False)]
    [0.56, 0.29]
    """
    rows, failure = check_integer(n, "n", 2), check_probability(delta, "delta")
    average, left = expected_average(complexity, failure)
    log_odds = -math.log(left)
    if check_flag(published, "published"):
        pieces = {"complexity": 4.0 * average, "deviation": 4.0 * math.sqrt(log_odds / (rows - 1))}
        return Bound(sum(pieces.values()), pieces, f"{_PAPER}, Corollary 3")
    pieces = {"complexity": 2.0 * average, "deviation": 2.0 * math.sqrt(2.0 * log_odds / rows)}
    return Bound(
        sum(pieces.values()), pieces, "convexrank_annex.bounds.ranking, Corollary 3 with smaller constants"
    )


def fast_rate(
    n: int, delta: float, dimension: int, alpha: float, *, constant: float, approximation: float = 0.0
) -> Bound:
    r"""Return the rate of Corollary 6, in which the paper leaves a universal constant C open.

    .. math:: L(r_n) - L^* \le 2\bigl(\inf_r L(r) - L^*\bigr) + C \Bigl(\frac{V\ln(n/δ)}n\Bigr)^{1/(2-α)}

    Parameters
    ----------
    n : int
        Number of rows, at least 2.
    delta : float
        The probability of failure, between 0 and 1.
    dimension : int
        The VC dimension V of the rules, at least 1.
    alpha : float
        The exponent of the noise (Assumption 4), from 0 to 1: 1 without noise, 0 without any assumption.
    constant : float
        The unknown constant C. The result is a rate, for comparisons with other n or α.
    approximation : float
        The difference between the risk of the best rule of the class and the optimal risk.

    Returns
    -------
    Bound
        The right side. ``pieces``: the approximation and the rate.

    Raises
    ------
    ValueError, TypeError
        When an argument is out of its range.

    References
    ----------
    Clémençon, Lugosi and Vayatis (2006), Corollary 6.

    Examples
    --------
    >>> from convexrank import bounds
    >>> rates = [bounds.fast_rate(10_000, 0.05, 10, alpha, constant=1.0).value for alpha in (0.0, 0.5, 1.0)]
    >>> [round(rate, 4) for rate in rates]
    [0.1105, 0.053, 0.0122]
    """
    rows, failure = check_integer(n, "n", 2), check_probability(delta, "delta")
    most, exponent = check_integer(dimension, "dimension", 1), check_nonnegative(alpha, "alpha")
    if exponent > 1.0:
        raise ValueError(f"alpha is {alpha}, expected an exponent from 0 to 1.")
    rate = (most * (math.log(rows) - math.log(failure)) / rows) ** (1.0 / (2.0 - exponent))
    pieces = {
        "approximation": 2.0 * check_nonnegative(approximation, "approximation"),
        "rate": check_positive(constant, "constant") * rate,
    }
    note = "A bound only with the constant of the corollary, which the paper does not state."
    return Bound(sum(pieces.values()), pieces, f"{_PAPER}, Corollary 6", note=note)


def _variance(variance: Any) -> float:
    value = check_nonnegative(variance, "variance")
    if value > 0.25:
        raise ValueError(
            f"variance is {variance}, expected at most 1/4, as the loss of a pair is from 0 to 1."
        )
    return value


def _hoeffding(risk: float, rate: float, variance: float | None) -> Bound:
    deviation = math.sqrt(0.5 * rate)
    pieces = {"empirical": risk, "deviation": deviation}
    return Bound(risk + deviation, pieces, f"{_PAPER}, appendix 1, Hoeffding's inequality")


def _bernstein(risk: float, rate: float, variance: float | None) -> Bound:
    def deviation(spread: float) -> float:
        return rate / 3.0 + math.sqrt(rate * rate / 9.0 + 2.0 * spread * rate)

    if variance is None:
        # L - deviation(L(1-L)) is convex, and at most L_n at L = L_n: the L that are possible are an interval
        low, high = risk, 1.0
        if high - deviation(0.0) > risk:
            while low < (middle := 0.5 * (low + high)) < high:
                possible = middle - deviation(middle * (1.0 - middle)) <= risk
                low, high = (middle, high) if possible else (low, middle)
        value = high
    else:
        value = risk + deviation(variance)
    pieces = {"empirical": risk, "deviation": value - risk}
    return Bound(value, pieces, f"{_PAPER}, (5), Bernstein's inequality")


def _chernoff(risk: float, rate: float, variance: float | None) -> Bound:
    value = chernoff(risk, rate)
    return Bound(
        value,
        {"empirical": risk, "deviation": value - risk},
        "convexrank_annex.bounds.ranking, Chernoff's bound",
    )


def _rademacher(risk: float, rows: int, failure: float, average: float) -> Bound:
    pieces = {
        "empirical": risk,
        "complexity": 2.0 * average,
        "deviation": math.sqrt(-2.0 * math.log(failure) / rows),
    }
    return Bound(
        sum(pieces.values()), pieces, "convexrank_annex.bounds.ranking, bounded differences of the supremum"
    )


_METHODS: dict[str, Callable[..., Bound]] = {
    "hoeffding": _hoeffding,
    "bernstein": _bernstein,
    "chernoff": _chernoff,
    "rademacher": _rademacher,
}
