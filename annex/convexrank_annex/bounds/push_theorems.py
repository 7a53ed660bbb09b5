r"""The published bounds on the push risk: Theorem 2 of the 2005 report, Theorems 2 and 3 of the 2009 paper.

With I positives, K negatives, the empirical risk with margin θ (:func:`convexrank.metrics.push_risk`) and the true
one without, the probability that some f of the family has :math:`R_p(f) > R^\theta_p(f) + ε` is at most

.. math:: 2\,\mathcal N\bigl(\mathcal F, \tfrac{εθ}8\bigr) \Bigl[ \exp\Bigl(-2K\max\bigl\{\tfrac{ε^2}{16}
          R_{p;\min}^{2(p-1)}, \bigl(\tfrac ε4\bigr)^{2p}\bigr\}\Bigr)
          + \exp\Bigl(-\tfrac{ε^2}8 I\; [+ \ln K]\Bigr)\Bigr]

The paper's ln K, from a union bound over the K negatives, is not needed: a height, as a function of the score of the
negative, is a distribution function of the positives' scores (with a margin, a mixture of shifted ones), and the
inequality of Dvoretzky, Kiefer, Wolfowitz and Massart bounds all of them at once by the same
:math:`2e^{-ε^2I/8}`. The report has no ln K, without a reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.bounds.push_sample import Bound, Covering, FiniteFamily, as_covering
from convexrank.data import (
    check_at_least,
    check_flag,
    check_integer,
    check_nonnegative,
    check_positive,
    check_probability,
)

__all__ = ["push"]

_LARGEST_SIZE = 2**62
_REPORT = "P-Norm Push report (2005), Theorem 2"
_FIRST = "P-Norm Push (2009), Theorem 2"
_SECOND = "P-Norm Push (2009), Theorem 3"


@dataclass(frozen=True)
class _Theorem:
    """The fixed parameters of the three theorems while one of I, K, eps is sought."""

    p: float
    theta: float
    covering: Covering
    least_risk: float
    log_K: bool

    def logs(self, I: float, K: float, eps: float) -> dict[str, float]:  # noqa: E741
        """Logarithms of the covering number and of the two terms in brackets."""
        radius = eps * self.theta / 8.0  # both may be too large for a float: infinite is right then
        by_power = 2.0 * self.p * math.log(eps / 4.0)
        by_risk = (
            2.0 * math.log(eps / 4.0) + 2.0 * (self.p - 1.0) * math.log(self.least_risk)
            if self.least_risk > 0.0
            else -math.inf
        )
        return {
            "log_covering": self.covering.log_number(radius),
            "log_negatives": -2.0 * _exponential(max(by_power, by_risk) + math.log(K)),
            "log_positives": -(eps * eps) * I / 8.0 + (math.log(K) if self.log_K else 0.0),
        }

    def log_failure(self, I: float, K: float, eps: float) -> float:  # noqa: E741
        """Logarithm of the bound on the probability of failure."""
        logs = self.logs(I, K, eps)
        both = float(np.logaddexp(logs["log_negatives"], logs["log_positives"]))
        return math.log(2.0) + logs["log_covering"] + both

    @property
    def source(self) -> str:
        if self.log_K:
            return _SECOND if self.least_risk > 0.0 else _FIRST
        return f"{_SECOND}, without ln K" if self.least_risk > 0.0 else _REPORT


def push(
    I: int | None,  # noqa: E741
    K: int | None,
    p: float,
    eps: float | None = None,
    theta: float = 0.0,
    covering: Any = 1,
    *,
    delta: float | None = None,
    least_risk: float = 0.0,
    log_K: bool = False,
) -> Bound:
    r"""Bound the push risk of all functions of a family by their risk with a margin, as the papers do.

    With probability at least 1 − δ all f of the family have :math:`R_p(f) \le R^\theta_p(f) + ε`; the formula is in
    :mod:`convexrank_annex.bounds.push_theorems`. Of I, K, eps and delta the one that is None is computed from the
    others.

    The statements hold, but are weak: with p = 4 and a thousand negatives ε is above 1 for a single function.
    :func:`convexrank.bounds.push_risk` is an informative bound.

    Parameters
    ----------
    I, K : int
        Number of positives and of negatives in the sample, at least 1.
    p : float
        Power, at least 1.
    eps : float
        The largest difference of the true risk and the empirical risk, greater than 0.
    theta : float
        The margin, at least 0; greater than 0 for an infinite family.
    covering : float, FiniteFamily, NormBall or Covering
        The family of functions, or their number: 1 for a function that does not depend on the sample.
    delta : float
        The probability of failure, between 0 and 1.
    least_risk : float
        A lower bound on the true risk of all functions of the family: Theorem 3. With 0 it is Theorem 2.
    log_K : bool
        Whether to include the ln K of the 2009 paper; the bound holds without it.

    Returns
    -------
    Bound
        The argument that was None: a bound on the probability of failure, with ``limit`` 1; a bound eps, with ``limit``
        1, the largest risk; or the smallest I or K, infinite if no number suffices. ``pieces`` has the logarithms of
        the covering number and of the two terms.

    Raises
    ------
    ValueError, TypeError
        When none or more than one of I, K, eps and delta are None, one is out of its range, or an infinite family has
        no margin.

    Notes
    -----
    A bound on the probability is decreasing in eps and I, and in K without ln K; with ln K it increases again for very
    large K, and the smallest K is searched in the range where it decreases. The inverses are computed by bisection.

    References
    ----------
    Rudin, Ranking with a P-Norm Push, technical report TR2005-874, New York University (2005), Theorem 2.

    Rudin, The P-Norm Push, Journal of Machine Learning Research 10 (2009), Theorems 2 and 3.

    Examples
    --------
    A single function: what 10 000 positives and negatives say at p = 1, and what they do not at p = 4.

    >>> from convexrank import bounds
    >>> round(bounds.push(10_000, 10_000, 1, delta=0.05).value, 4)
    0.0592
    >>> round(bounds.push(10_000, 10_000, 4, delta=0.05).value, 2)
    1.37
    >>> round(bounds.push(10_000, None, 4, eps=0.5, delta=0.05).value)  # negatives that p = 4 would take
    30944564
    """
    arguments = {"I": I, "K": K, "eps": eps, "delta": delta}
    unknown = [name for name, value in arguments.items() if value is None]
    if len(unknown) != 1:
        raise ValueError(
            f"of I, K, eps and delta {len(unknown)} are None ({', '.join(unknown) or 'none'}), expected exactly one: "
            "the one that is sought."
        )
    known = {name: _READ[name](value, name) for name, value in arguments.items() if value is not None}
    theorem = _theorem(p, theta, covering, least_risk, log_K)
    if unknown == ["delta"]:
        found, limit = _exponential(theorem.log_failure(**known)), 1.0
    else:
        log_delta = math.log(known.pop("delta"))
        found, limit = _SOLVE[unknown[0]](theorem, log_delta, **known)
        known[unknown[0]] = found
    pieces = theorem.logs(**known) if math.isfinite(found) or unknown == ["delta"] else {}
    return Bound(found, pieces, theorem.source, limit=limit)


def _theorem(p: Any, theta: Any, covering: Any, least_risk: Any, log_K: Any) -> _Theorem:
    power, family = check_at_least(p, "p", 1.0), as_covering(covering, "covering")
    margin, least = check_nonnegative(theta, "theta"), check_nonnegative(least_risk, "least_risk")
    if least > 1.0:
        raise ValueError(f"least_risk is {least_risk}, expected a risk, from 0 to 1.")
    if margin == 0.0 and not isinstance(family, FiniteFamily):
        raise ValueError("theta is 0, expected a margin greater than 0: without one no finite cover serves.")
    return _Theorem(power, margin, family, least, check_flag(log_K, "log_K"))


def _smallest_eps(theorem: _Theorem, log_delta: float, I: float, K: float) -> tuple[float, float]:  # noqa: E741
    low, high = 0.0, 1.0
    while theorem.log_failure(I, K, high) > log_delta:
        low, high = high, 2.0 * high
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (low, middle) if theorem.log_failure(I, K, middle) <= log_delta else (middle, high)
    return high, 1.0


def _smallest_positives(theorem: _Theorem, log_delta: float, K: float, eps: float) -> tuple[float, float]:
    return _smallest(lambda size: theorem.log_failure(size, K, eps), log_delta, _LARGEST_SIZE), math.inf


def _smallest_negatives(theorem: _Theorem, log_delta: float, I: float, eps: float) -> tuple[float, float]:  # noqa: E741
    most = _LARGEST_SIZE
    if theorem.log_K:
        # e^(-aK) + K e^(-b), convex in K, falls until a e^(-aK) = e^(-b)
        a = -theorem.logs(I, 1.0, eps)["log_negatives"]
        turn = (eps * eps * I / 8.0 + math.log(a)) / a if a > 0.0 else math.inf
        most = max(1, math.ceil(turn)) if turn < _LARGEST_SIZE else _LARGEST_SIZE
        if most > 1 and theorem.log_failure(I, float(most), eps) > theorem.log_failure(I, most - 1.0, eps):
            most -= 1
    return _smallest(lambda size: theorem.log_failure(I, size, eps), log_delta, most), math.inf


def _smallest(log_failure: Callable[[float], float], log_delta: float, most: int) -> float:
    """Return the smallest integer that suffices, of a function that falls until ``most``; infinity if none does."""
    if log_failure(float(most)) > log_delta:
        return math.inf
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if log_failure(float(middle)) <= log_delta else (middle, high)
    return float(high)


_READ = {
    "I": lambda value, name: float(check_integer(value, name, 1)),
    "K": lambda value, name: float(check_integer(value, name, 1)),
    "eps": check_positive,
    "delta": check_probability,
}
_SOLVE = {"eps": _smallest_eps, "I": _smallest_positives, "K": _smallest_negatives}


def _exponential(log_value: float) -> float:
    """Return the exponential; infinity where it is above the largest float."""
    return math.exp(log_value) if log_value < 709.0 else math.inf
