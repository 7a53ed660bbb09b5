r"""Fast rates under Assumption 4, :math:`\mathrm{Var}(h_r) \le cΛ(r)^α`: Theorem 5, and the constant c of given rules.

Theorem 5 leaves a universal constant open. Its other quantities can be computed: Rademacher chaoses of the degenerate
parts :math:`\widehat h_r` for finitely many rules, and the fixed point ρ of the modulus φ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.bounds.push_sample import Bound
from convexrank.data import (
    check_at_least,
    check_integer,
    check_nonnegative,
    check_positive,
    check_probability,
    check_vector,
    read_array,
)
from convexrank.inference import Interval
from convexrank.inference.finite_sample.betting import mean_lower, mean_upper
from convexrank_annex.bounds.rademacher import MOST_DRAWS

__all__ = ["RademacherChaos", "chaos_rate", "noise_constant", "rademacher_chaos"]

Array = np.ndarray

_PAPER = "Ranking and empirical minimization of U-statistics (2006)"
# Entries of the matrix of pairs in memory at a time.
_BLOCK = 1 << 22


@dataclass(frozen=True)
class RademacherChaos:
    """The three Rademacher chaoses of Theorem 5, as means over random signs.

    Parameters
    ----------
    quadratic, linear, largest : float
        EZ, EU and EM: largest quadratic form in the signs, largest norm and largest entry of a product with them.
    n : int
        Number of rows.
    draws : int
        Number of draws of signs; 0 for bounds.

    Raises
    ------
    ValueError, TypeError
        When a number is negative or not finite.

    Examples
    --------
    >>> from convexrank import bounds
    >>> bounds.RademacherChaos(50.0, 20.0, 7.0, n=100, draws=0).quadratic
    50.0
    """

    quadratic: float
    linear: float
    largest: float
    n: int
    draws: int

    def __post_init__(self) -> None:
        for name in ("quadratic", "linear", "largest"):
            object.__setattr__(self, name, check_nonnegative(getattr(self, name), name))
        object.__setattr__(self, "n", check_integer(self.n, "n", 1))
        object.__setattr__(self, "draws", check_integer(self.draws, "draws", 0))


def rademacher_chaos(kernels: Any, *, draws: int = 100, seed: int = 0) -> RademacherChaos:
    r"""Rademacher chaoses of finitely many rules: EZ, EU and EM of Theorem 5, given the rows.

    .. math:: Z = \max_r |ε^\top H_r ε|, \qquad U = \max_r \|H_r^\top ε\|_2, \qquad M = \max_r \|H_r^\top ε\|_\infty

    Parameters
    ----------
    kernels : array-like, shape (rules, n, n)
        The degenerate parts :math:`\widehat h_r` of all pairs of rows, symmetric.
    draws : int
        Number of random vectors of signs, at least 1.
    seed : int
        Seed of the signs.

    Returns
    -------
    RademacherChaos
        Means over the draws.

    Raises
    ------
    ValueError, TypeError
        When the kernels are no stack of square matrices of finite numbers, or an option is out of its range.

    Notes
    -----
    O(draws · rules · n²).

    References
    ----------
    Clémençon, Lugosi and Vayatis (2006), before Theorem 5.

    Examples
    --------
    >>> from convexrank import bounds
    >>> bounds.rademacher_chaos([[[0.0, 1.0], [1.0, 0.0]]], draws=10).largest
    1.0
    """
    stack = read_array(kernels, "kernels")
    if (
        stack.ndim != 3
        or stack.shape[1] != stack.shape[2]
        or 0 in stack.shape
        or stack.dtype.kind not in "biuf"
    ):
        raise ValueError(
            f"kernels has shape {stack.shape}, expected (rules, n, n): one matrix for each rule."
        )
    stack = stack.astype(np.float64)
    if not np.isfinite(stack).all():
        raise ValueError("kernels contains NaN or infinity, expected finite numbers.")
    count, n = check_integer(draws, "draws", 1), stack.shape[1]
    if count > MOST_DRAWS:
        raise ValueError(f"draws is {count}, expected at most {MOST_DRAWS}: the error is small long before.")
    rng = np.random.default_rng(check_integer(seed, "seed", 0))
    totals = np.zeros(3)
    for _ in range(count):
        sign = rng.choice([-1.0, 1.0], size=n)
        products = np.einsum("i,rij->rj", sign, stack)
        totals += [
            np.abs(products @ sign).max(),
            np.linalg.norm(products, axis=1).max(),
            np.abs(products).max(),
        ]
    quadratic, linear, largest = (totals / count).tolist()
    return RademacherChaos(quadratic, linear, largest, n, count)


def chaos_rate(
    chaos: RademacherChaos,
    delta: float,
    alpha: float,
    modulus: Callable[[float], float],
    *,
    constant: float,
    approximation: float = 0.0,
) -> Bound:
    r"""Return the right side of Theorem 5, in which the paper leaves a universal constant C open.

    .. math:: L(r_n) - L^* \le 2\bigl(\inf_r L(r) - L^*\bigr) + C\Bigl(\frac{\mathrm EZ}{n^2}
              + \frac{\mathrm EU\sqrt{\ln(1/δ)}}{n^2} + \frac{\mathrm EM\ln(1/δ)}{n^2} + \frac{\ln(1/δ)}n
              + ρ^2\ln(1/δ)\Bigr), \qquad \sqrt nρ^2 = φ(ρ^α)

    Parameters
    ----------
    chaos : RademacherChaos
        The chaoses, from :func:`rademacher_chaos` or from bounds on them.
    delta : float
        The probability of failure, between 0 and 1.
    alpha : float
        The exponent of the noise, from 0 to 1.
    modulus : callable
        The function φ: it does not fall, φ(x)/x does not grow, and φ(1) ≥ 1.
    constant : float
        The unknown constant C. The result is a rate, for comparisons with other n or α.
    approximation : float
        The difference between the risk of the best rule of the class and the optimal risk.

    Returns
    -------
    Bound
        The right side. ``pieces``: the approximation, the degenerate part, and the part of ρ.

    Raises
    ------
    ValueError, TypeError
        When an argument is out of its range.

    References
    ----------
    Clémençon, Lugosi and Vayatis (2006), Theorem 5.

    Examples
    --------
    >>> from convexrank import bounds
    >>> for n in (100, 10_000):
    ...     chaos = bounds.RademacherChaos(5.0 * n, 2.2 * n, 2.2 * n**0.5, n, 0)  # a class of VC dimension 5
    ...     print(f"{bounds.chaos_rate(chaos, 0.05, 1.0, lambda x: 2.2 * x, constant=1.0).value:.4f}")
    0.2696
    0.0026
    """
    if not isinstance(chaos, RademacherChaos):
        raise TypeError(f"chaos is a {type(chaos).__name__}, expected a RademacherChaos.")
    if not callable(modulus):
        raise TypeError(
            f"modulus is a {type(modulus).__name__}, expected a function such as lambda x: 2 * x."
        )
    n, log_odds = chaos.n, -math.log(check_probability(delta, "delta"))
    exponent = _exponent(alpha)
    check_at_least(modulus(1.0), "modulus(1)", 1.0)
    rho = _fixed_point(lambda x: math.sqrt(modulus(x**exponent) / math.sqrt(n)))
    degenerate = chaos.quadratic + chaos.linear * math.sqrt(log_odds) + chaos.largest * log_odds
    factor = check_positive(constant, "constant")
    pieces = {
        "approximation": 2.0 * check_nonnegative(approximation, "approximation"),
        "degenerate": factor * (degenerate / n**2 + log_odds / n),
        "rate": factor * rho * rho * log_odds,
    }
    note = "A bound only with the constant of the theorem, which the paper does not state."
    return Bound(sum(pieces.values()), pieces, f"{_PAPER}, Theorem 5", note=note)


def noise_constant(y: Any, scores: Any, best: Any, alpha: float, delta: float = 0.05) -> Interval:
    r"""Interval for the constant that Assumption 4 needs at a rule, from rows: Var(h) / Λ^α.

    Λ is the excess of the rule's ranking risk over that of ``best``, and h(x) that of the pairs of one row, less its
    mean. Assumption 4 asks for one constant for all rules of a class, with the optimal rule as ``best``: the largest
    lower end over rules is a lower bound on it. Where the excess may be 0 the upper end is infinite.

    Both parts are U-statistics of bounded terms, over pairs and over triples of rows. Chernoff's bound with ⌊n/2⌋ and
    ⌊n/3⌋ independent terms is exact for every sample size.

    Parameters
    ----------
    y, scores, best : array-like, shape (n,)
        Labels, scores of the rule, and scores of the best rule; neither rule depends on these rows.
    alpha : float
        The exponent, from 0 to 1.
    delta : float
        The probability of failure, between 0 and 1.

    Returns
    -------
    Interval
        The ratio on the sample, infinite where the sample's excess is not positive, and its ends.

    Raises
    ------
    ValueError, TypeError
        When the rows are fewer than three or not usable, or an option is out of its range.

    Notes
    -----
    O(n²) time, in blocks of rows.

    References
    ----------
    Clémençon, Lugosi and Vayatis (2006), Assumption 4; appendix 1 for the inequality.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import bounds
    >>> random = np.random.default_rng(0)
    >>> x = random.normal(size=2000)
    >>> found = bounds.noise_constant(x + random.normal(size=2000), random.normal(size=2000), x, 1.0)
    >>> print(f"{found.estimate:.3f}, at least {found.lower:.3f}, at most {found.upper:.3f}")
    0.170, at least 0.000, at most 1.227
    """
    exponent, failure = _exponent(alpha), check_probability(delta, "delta") / 4.0
    labels = check_vector(y, None, "y")
    n = len(labels)
    if n < 3:
        raise ValueError(f"y has {n} rows, expected at least three: the variance is over triples.")
    sums, squares = _excess_of_rows(labels, check_vector(scores, n, "scores"), check_vector(best, n, "best"))
    excess = float(sums.sum()) / (n * (n - 1))
    product = float((sums * sums - squares).sum()) / (n * (n - 1.0) * (n - 2.0))
    # terms from −1 to 1
    low, high = (2.0 * end(0.5 * (1.0 + excess), n // 2, failure) - 1.0 for end in (mean_lower, mean_upper))
    least, most = (
        2.0 * end(0.5 * (1.0 + product), n // 3, failure) - 1.0 for end in (mean_lower, mean_upper)
    )
    variance = (max(least - max(low * low, high * high), 0.0), max(most - max(low, -high, 0.0) ** 2, 0.0))
    return Interval(
        _ratio(max(product - excess * excess, 0.0), excess, exponent),
        _ratio(variance[0], max(high, 0.0), exponent),
        _ratio(variance[1], low, exponent),
        1.0 - 4.0 * failure,
        "exact",
        "noise constant",
        {"rows": n},
        (0.0, math.inf),
    )


def _excess_of_rows(labels: Array, scores: Array, best: Array) -> tuple[Array, Array]:
    """Return for each row the sum, over all others, of the difference of both rules' losses, and that of squares."""
    n = len(labels)
    sums, squares = np.empty(n), np.empty(n)
    each = max(1, _BLOCK // n)
    for start in range(0, n, each):
        rows = slice(start, start + each)
        order = np.sign(np.subtract.outer(labels[rows], labels))
        lost = [order * np.sign(np.subtract.outer(s[rows], s)) < 0 for s in (scores, best)]
        change = lost[0].astype(np.float64) - lost[1]
        sums[rows], squares[rows] = change.sum(axis=1), np.abs(change).sum(axis=1)
    return sums, squares


def _ratio(variance: float, excess: float, alpha: float) -> float:
    if alpha == 0.0:
        return variance
    return variance / excess**alpha if excess > 0.0 else math.inf


def _exponent(alpha: Any) -> float:
    exponent = check_nonnegative(alpha, "alpha")
    if exponent > 1.0:
        raise ValueError(f"alpha is {alpha}, expected an exponent from 0 to 1.")
    return exponent


def _fixed_point(update: Callable[[float], float]) -> float:
    """Return where x is its update, by bisection of the logarithm: above it the update is smaller than x."""
    low, high = 1e-100, 1e100
    while low < (middle := math.sqrt(low * high)) < high:
        low, high = (middle, high) if update(middle) > middle else (low, middle)
    return high
