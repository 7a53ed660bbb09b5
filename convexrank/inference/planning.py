"""Sample sizes for intervals of a given width."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import bdtrik

from convexrank.data import check_at_least, check_choice, check_positive, check_probability
from convexrank.inference.arguments import How, method_for, method_named, student_interval
from convexrank.inference.finite_sample.betting import mean_bounds, share_lower
from convexrank.inference.finite_sample.disjoint import rare_bounds, systems_of
from convexrank.inference.finite_sample.pairings import auc_bounds
from convexrank.inference.results import SampleSize
from convexrank.inference.two_classes import PushRisk
from convexrank.metrics.tables import parsed

Array = np.ndarray

_MOST = 2**53
# The least mean of powers that the grid of heights, which ends at 1 - 1e-12, tells from 0.
_LEAST_MEAN = 1e-11
# Most rows of a class for which an exact width of the AUC is computed.
_LARGEST = 5000
# Draws of tuples or groups over which the width of a push risk is averaged, and sizes of rows from one to twice it.
_DRAWS, _STEPS = 8, 4


def _student_width(value: float, variance: float, freedom: float, alpha: float) -> float:
    if freedom < 1:
        return math.inf
    low, high = student_interval(value, math.sqrt(variance), freedom, alpha)
    return high - low


@dataclass(frozen=True)
class _Pairs:
    """The AUC; n counts positives."""

    ratio: float

    def exact(self, n: int, value: float, alpha: float) -> float:
        return _exact_width(self, n, value, alpha)

    def width(self, n: int, value: float, alpha: float) -> float:
        """Width where the ROC curve is u^a, as of exponential scores, and the rows stand at its quantiles."""
        others = math.ceil(self.ratio * n)
        up = ((np.arange(n) + 0.5) / n) ** (value / (1.0 - value))
        above = np.searchsorted((np.arange(others) + 0.5) / others, up)  # negatives above each positive
        hits = np.zeros(n + others, dtype=np.int64)
        hits[above + np.arange(n)] = 1
        low, high = auc_bounds(hits, np.ones_like(hits), alpha)
        return high - low

    def asymptotic(self, n: int, value: float, alpha: float) -> float:
        """Hanley and McNeil's variance, of exponential scores."""
        others = math.ceil(self.ratio * n)
        up, down = value / (2 - value) - value**2, 2 * value**2 / (1 + value) - value**2
        variance = (value * (1 - value) + (n - 1) * up + (others - 1) * down) / (n * others)
        return _student_width(value, variance, min(n, others) - 1, alpha)

    def sizes(self, n: int) -> dict[str, int]:
        return {"positives": n, "negatives": math.ceil(self.ratio * n)}


@dataclass(frozen=True)
class _Push:
    """The push risk, with heights that have a power law; n counts positives."""

    p: float
    ratio: float

    def _heights(self, value: float) -> tuple[Array, Array, Array]:
        """Return U on a grid that is dense at 1, heights H = U^c with the p-norm ``value`` there, and weights."""
        edges = np.append(1.0 - np.logspace(0, -12, 4096), 1.0)
        u = (edges[1:] + edges[:-1]) / 2
        if value**self.p < _LEAST_MEAN:
            raise ValueError(
                f"estimate is {value:g}, expected at least {_LEAST_MEAN ** (1.0 / self.p):.3g} for p={self.p:g}: no "
                "variance is known below; pass a smaller p, or method='exact'."
            )
        return u, u ** self.power(value), np.diff(edges)

    def power(self, value: float) -> float:
        """Return c, from 1 / (1 + cp) = value^p."""
        with np.errstate(over="ignore"):  # then all heights are 0
            return float(np.expm1(-self.p * math.log(value)) / self.p)

    def exact(self, n: int, value: float, alpha: float) -> float:
        """Width, interpolated between sizes of a geometric grid: a search among noisy widths would find their least."""
        start = 1 << (n.bit_length() - 1)
        sizes = [start]
        if n > start:
            sizes = sorted({round(start * 2.0 ** (step / _STEPS)) for step in range(_STEPS + 1)})
        widths = np.minimum.accumulate([_exact_width(self, size, value, alpha) for size in sizes])
        return math.exp(float(np.interp(math.log(n), np.log(sizes), np.log(widths))))

    def width(self, n: int, value: float, alpha: float) -> float:
        """Mean width over some draws of tuples or groups, where the rows stand at the quantiles."""
        others = math.ceil(self.ratio * n)
        heights = ((np.arange(others) + 0.5) / others) ** self.power(value)
        measure, label = PushRisk(self.p), np.repeat([1, 0], [n, others])
        scores = np.concatenate([(np.arange(n) + 0.5) / n, heights])
        ranked = measure.read(label, scores).ranked(scores)
        if (tuples := measure.tuples_below(ranked)) is None:
            lows = [measure.lower(ranked, alpha, draw) for draw in range(_DRAWS)]
            highs = [measure.upper(ranked, alpha)]
        else:  # other numbers for the levels give other draws
            moved = [
                replace(tuples, samples=tuple(side + more for side in tuples.samples))
                for more in range(_DRAWS)
            ]
            lows, highs = np.transpose([rare_bounds(one, alpha) for one in moved]) ** (1.0 / self.p)
        return float(np.mean(highs) - np.mean(lows))

    def asymptotic(self, n: int, value: float, alpha: float) -> float:
        others, (u, heights, weights) = math.ceil(self.ratio * n), self._heights(value)
        powers = heights**self.p
        mean = float(weights @ powers)
        # for a positive with F(s) = u: the mean of H^(p−1) over the negatives with H ≥ u
        slopes = np.append((weights * heights ** (self.p - 1))[::-1].cumsum()[::-1], 0.0)
        reached = slopes[np.searchsorted(heights, u)]
        at_positives = float(weights @ (reached - weights @ reached) ** 2) / mean**2
        at_negatives = float(weights @ (powers - mean) ** 2) / (self.p * mean) ** 2
        variance = value**2 * (at_negatives / others + at_positives / n)
        return _student_width(value, variance, min(n, others) - 1, alpha)

    def sizes(self, n: int) -> dict[str, int]:
        return {"positives": n, "negatives": math.ceil(self.ratio * n)}


@dataclass(frozen=True)
class _Queries:
    """A mean over queries."""

    sd: float | None

    ratio = 0.0  # no units of another kind

    def exact(self, n: int, value: float, alpha: float) -> float:
        return _exact_width(self, n, value, alpha)

    def width(self, n: int, value: float, alpha: float) -> float:
        """Width for two values, of which one is 0 or 1 where no others have this standard deviation."""
        sd = math.sqrt(value * (1 - value)) if self.sd is None else self.sd
        low, high = max(value - sd, 0.0), min(value + sd, 1.0)
        if low == 0.0:
            high = min(value + sd**2 / value, 1.0)
        elif high == 1.0:
            low = max(value - sd**2 / (1 - value), 0.0)
        share = (value - low) / (high - low)
        many = np.floor((np.arange(n) + 1) * share + 0.5) - np.floor(np.arange(n) * share + 0.5)
        ends = mean_bounds(low + (high - low) * many, alpha)
        return float(ends[1] - ends[0])

    def asymptotic(self, n: int, value: float, alpha: float) -> float:
        variance = value * (1 - value) if self.sd is None else self.sd**2
        return _student_width(value, variance / n, n - 1, alpha)

    def sizes(self, n: int) -> dict[str, int]:
        return {"queries": n}


@dataclass(frozen=True)
class _Risk:
    """The ranking risk; n counts pairs of rows."""

    sd: float | None

    def _variance(self, value: float) -> float:
        """Variance of the risk times the number of rows; of normal labels and scores it is Kendall's tau's."""
        if self.sd is not None:
            return self.sd**2
        return 1 / 9 - (2 / math.pi * math.asin(math.cos(math.pi * value) / 2)) ** 2

    def exact(self, n: int, value: float, alpha: float) -> float:
        """Width where the losses of the systems are binomial numbers, with the variance that the risk leaves them."""
        systems, mean = systems_of(n), n * value
        spread = max(value * (1.0 - value) - self._variance(value) / 2, 1e-9 * value)
        chance = 1.0 - spread / value
        ends = [float(bdtrik(one, mean / chance, chance)) for one in (0.5 / systems, 1.0 - 0.5 / systems)]
        fewest, most = max(ends[0], 0.0), min(ends[1], float(n))
        low, high = (float(share_lower(lost, n, alpha / (2 * systems))) for lost in (most, n - fewest))
        return 1.0 - high - low

    def asymptotic(self, n: int, value: float, alpha: float) -> float:
        return _student_width(value, self._variance(value) / (2 * n), 2 * n - 1, alpha)

    def sizes(self, n: int) -> dict[str, int]:
        return {"rows": 2 * n}


def sample_size(
    metric: str,
    width: float,
    *,
    estimate: float,
    p: float | None = None,
    negatives_per_positive: float = 1.0,
    sd: float | None = None,
    method: How = "auto",
    level: float = 0.95,
) -> SampleSize:
    r"""Smallest sample for which the interval at this estimate has at most the given width.

    The function makes an assumption where the width depends on more than the estimate: for the AUC exponential scores
    (Hanley and McNeil's variance); for the push risk heights with a power law, :math:`H = U^c` with U uniform; for a
    mean over queries the standard deviation ``sd``, or the largest one that is possible with the estimate; for the
    ranking risk ``sd``, or that of normal labels and scores.

    Parameters
    ----------
    metric : {"auc", "push_risk", "ranking_risk", "ndcg", "map"}
        The measure.
    width : float
        Upper end minus lower end, in (0, 1).
    estimate : float
        The value that the sample is expected to have, in (0, 1).
    p : float, optional
        The norm of the push risk, at least 1.
    negatives_per_positive : float
        The ratio K / I, for the AUC and the push risk.
    sd : float, optional
        Standard deviation of the values of queries; for the ranking risk, the standard deviation of twice the share of
        misranked pairs of a row.
    method, level : str, float
        As for `auc_interval`.

    Returns
    -------
    SampleSize
        The numbers of positives and negatives, of rows, or of queries.

    Raises
    ------
    ValueError, TypeError
        When the measure is unknown, an option does not belong to it, or a number is out of its range.

    References
    ----------
    J. Hanley, B. McNeil, The meaning and use of the area under a ROC curve, Radiology 143 (1982). F. Esscher, On a
    method of determining correlation from the ranks of the variates, Skandinavisk Aktuarietidskrift 7 (1924), for the
    variance of Kendall's tau.

    Examples
    --------
    >>> sample_size("auc", 0.1, estimate=0.8, method="asymptotic").sizes
    {'positives': 154, 'negatives': 154}
    >>> sample_size("auc", 0.1, estimate=0.8).sizes
    {'positives': 259, 'negatives': 259}
    """
    how, alpha = method_for(method_named(method)), 1.0 - check_probability(level, "level")
    wanted, value = check_probability(width, "width"), check_probability(estimate, "estimate")
    plan = _planned(metric, p, negatives_per_positive, sd)
    width_with = {"exact": plan.exact, "asymptotic": plan.asymptotic}[how.name]
    n = _smallest(lambda units: width_with(units, value, alpha) <= wanted)
    return SampleSize(metric, how.name, wanted, value, 1.0 - alpha, plan.sizes(n))


Plan = _Pairs | _Push | _Risk | _Queries
# For each measure its plan, from the ratio of the classes, and p or sd; and which of the latter two it takes.
_PLANS: dict[str, tuple[Callable[[float, float | None], Plan], str]] = {
    "auc": (lambda ratio, option: _Pairs(ratio), ""),
    "push_risk": (lambda ratio, p: _Push(check_at_least(p, "p", 1.0), ratio), "p"),
    "ranking_risk": (lambda ratio, sd: _Risk(sd), "sd"),
    "ndcg": (lambda ratio, sd: _Queries(sd), "sd"),
    "map": (lambda ratio, sd: _Queries(sd), "sd"),
}


def _exact_width(plan: _Pairs | _Push | _Queries, n: int, value: float, alpha: float) -> float:
    """Return the width with n units."""
    scale = max(1.0, n / _LARGEST, math.ceil(plan.ratio * n) / _LARGEST)  # beyond, it falls like the root
    return _width(plan, max(round(n / scale), 1), value, alpha) / math.sqrt(scale)


@lru_cache(maxsize=256)
def _width(plan: _Pairs | _Push | _Queries, n: int, value: float, alpha: float) -> float:
    """Return the width with so few units; a search beyond the largest asks for the same one each time."""
    return plan.width(n, value, alpha)


def _planned(metric: str, p: float | None, ratio: float, sd: float | None) -> Plan:
    """Check the options, and return the plan of a measure."""
    base, numbers = parsed(metric)
    make, takes = check_choice(base, _PLANS, "metric")
    p = numbers[0] if numbers and p is None else p
    options = {"p": p, "sd": None if sd is None else check_positive(sd, "sd")}
    for option, given in options.items():
        if given is not None and option != takes:
            raise ValueError(f"{option} is no option of metric={metric!r}; leave {option} out.")
    if takes == "p" and p is None:
        raise ValueError("p is not given, expected a norm of at least 1 for metric='push_risk'; pass p=....")
    if check_positive(ratio, "negatives_per_positive") > _LARGEST:
        raise ValueError(
            f"negatives_per_positive is {ratio}, expected at most {_LARGEST}; with so many negatives the positives "
            f"alone decide, so pass {_LARGEST}."
        )
    return make(float(ratio), options.get(takes))


def _smallest(enough: Callable[[int], bool]) -> int:
    """Return the smallest number of units that is enough; more are enough, too."""
    high = 1
    while not enough(high):
        high *= 2
        if high > _MOST:
            raise ValueError(
                "width is so small that more than 2**53 units would be needed; pass a larger one."
            )
    return bisect_left(range(high), True, high // 2 + 1, key=enough)  # half of it is not enough, or 0
