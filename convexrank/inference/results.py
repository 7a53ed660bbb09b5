"""Results of the functions for inference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convexrank.data import check_real
from convexrank.data.display import counted

Array = np.ndarray

# Share of the range of a measure from which on an interval says nothing: ends come near the range, and do not reach it.
_VACUOUS = 0.999


def _digits(value: float) -> str:
    return f"{value:.4f}"


def percent(share: float) -> str:
    """Return a share in per cent, with all digits that a caller would write: .9999999 is not 100 %."""
    return f"{100 * share:.12g} %"


@dataclass(frozen=True)
class Interval:
    """A confidence interval of one number.

    Parameters
    ----------
    estimate, lower, upper : float
        The measure on the sample, and the ends of the interval.
    level : float
        The probability that the interval contains the measure of the population: a lower bound for exact intervals,
        approximate for asymptotic ones.
    method : str
        ``"exact"`` or ``"asymptotic"``.
    metric : str
        Name of the measure.
    sizes : dict of str to int
        Numbers of positives, negatives, rows, queries or groups.
    limits : tuple of float
        The least and the largest value that the measure can have.

    Examples
    --------
    >>> from convexrank import inference
    >>> found = inference.auc_interval([1, 0, 1, 0, 1, 0], [6, 5, 4, 3, 2, 1])
    >>> found
    Interval(auc = 0.6667 in [0.1609, 0.9870], level 95 %, exact, 3 positives, 3 negatives)
    >>> 0.5 in found, found.vacuous, round(found.width, 2)
    (True, False, 0.83)
    """

    estimate: float
    lower: float
    upper: float
    level: float
    method: str
    metric: str
    sizes: dict[str, int] = field(default_factory=dict)
    limits: tuple[float, float] = field(default=(0.0, 1.0), repr=False)

    @property
    def width(self) -> float:
        """Upper end minus lower end."""
        return self.upper - self.lower

    @property
    def vacuous(self) -> bool:
        """Whether the interval covers at least 99.9 % of the range of the measure, and so is not informative."""
        return self.width >= _VACUOUS * (self.limits[1] - self.limits[0])

    def __contains__(self, value: Any) -> bool:
        return self.lower <= check_real(value, "value") <= self.upper

    def __repr__(self) -> str:
        sizes = "".join(f", {counted(count, what)}" for what, count in self.sizes.items())
        empty = ", vacuous" if self.vacuous else ""
        return (
            f"Interval({self.metric} = {_digits(self.estimate)} in [{_digits(self.lower)}, {_digits(self.upper)}], "
            f"level {percent(self.level)}, {self.method}{sizes}{empty})"
        )


@dataclass(frozen=True)
class Difference:
    """Difference of a measure between two rankers on the same rows or queries.

    Parameters
    ----------
    first, second : object
        The names of the two rankers.
    interval : Interval
        Interval for the measure of the first minus the measure of the second.
    p_value : float
        Two-sided p-value of the hypothesis that there is no difference.
    adjusted : float
        The p-value after Holm's correction for the number of comparisons.

    Examples
    --------
    >>> from convexrank import inference
    >>> y, s = [1, 1, 1, 0, 0, 0, 0], [7, 5, 3, 6, 4, 2, 1]
    >>> found = inference.compare(y, s, [1, 6, 5, 4, 3, 7, 2], method="exact")
    >>> round(found.interval.estimate, 4), 0.0 in found.interval
    (0.25, True)
    """

    first: Any
    second: Any
    interval: Interval
    p_value: float
    adjusted: float

    @property
    def significant(self) -> bool:
        """Whether the adjusted p-value is at most 1 − level."""
        return self.adjusted <= 1.0 - self.interval.level

    def __repr__(self) -> str:
        found = self.interval
        adjusted = f", adjusted {self.adjusted:.3g}" if self.adjusted != self.p_value else ""
        return (
            f"Difference({found.metric}, {self.first} − {self.second} = {found.estimate:+z.4f} in "
            f"[{found.lower:+z.4f}, {found.upper:+z.4f}], level {percent(found.level)}, {found.method}, "
            f"p = {self.p_value:.3g}{adjusted})"
        )


@dataclass(frozen=True)
class Comparison:
    """Comparison of several rankers on the same rows or queries.

    Parameters
    ----------
    intervals : dict
        The interval of each ranker's measure, each at the given level separately.
    differences : tuple of Difference
        The pairs that were compared, in the order of the rankers.

    Examples
    --------
    >>> from convexrank import inference
    >>> y = [1, 1, 1, 0, 0, 0, 0]
    >>> rankers = {"a": [7, 5, 3, 6, 4, 2, 1], "b": [1, 6, 5, 4, 3, 7, 2], "c": [4, 7, 1, 3, 6, 5, 2]}
    >>> found = inference.compare(y, rankers, method="exact")
    >>> [(pair.first, pair.second) for pair in found.differences]
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """

    intervals: dict[Any, Interval]
    differences: tuple[Difference, ...]

    def __repr__(self) -> str:
        lines = [f"{name}: {found!r}" for name, found in self.intervals.items()]
        return "\n".join(["Comparison", *lines, *map(repr, self.differences)])


@dataclass(frozen=True, eq=False)
class Band:
    """A curve with a simultaneous band for the whole true curve.

    Parameters
    ----------
    x : ndarray, shape (m,)
        Points at which the band is given: false positive rates, or recalls.
    estimate, lower, upper : ndarray, shape (m,)
        The curve on the sample, and the ends of the band.
    level : float
        A lower bound on the probability that the whole true curve is in the band.
    axes : tuple of str
        Names of x and of the curve.
    sizes : dict of str to int
        Numbers of positives and negatives.

    Examples
    --------
    >>> from convexrank import inference
    >>> inference.roc_band([1, 0] * 50, range(100))
    Band(true positive rate against false positive rate, level 95 %, 50 positives, 50 negatives)
    """

    x: Array
    estimate: Array
    lower: Array
    upper: Array
    level: float
    axes: tuple[str, str]
    sizes: dict[str, int]

    def __repr__(self) -> str:
        sizes = "".join(f", {counted(count, what)}" for what, count in self.sizes.items())
        return f"Band({self.axes[1]} against {self.axes[0]}, level {percent(self.level)}{sizes})"


@dataclass(frozen=True)
class SampleSize:
    """Sample size for an interval of a given width.

    Parameters
    ----------
    metric : str
        Name of the measure.
    method : str
        ``"exact"`` or ``"asymptotic"``.
    width, estimate, level : float
        The width of the interval, the assumed value of the measure, and the level.
    sizes : dict of str to int
        The required numbers of positives, negatives, rows or queries.

    Examples
    --------
    >>> from convexrank import inference
    >>> inference.sample_size("map", 0.1, estimate=0.5).sizes
    {'queries': 411}
    """

    metric: str
    method: str
    width: float
    estimate: float
    level: float
    sizes: dict[str, int]
