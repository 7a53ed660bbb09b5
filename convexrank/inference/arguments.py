"""Measures and methods from the arguments of a caller: names and options are checked here, and become an interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from scipy.special import expit, logit, stdtr, stdtrit

from convexrank.backend.progress import warn_caller
from convexrank.data import (
    check_at_least,
    check_choice,
    check_flag,
    check_integer,
    check_kind,
    check_positive,
    check_probability,
    check_real,
    shown,
)
from convexrank.inference.finite_sample.betting import two_sided
from convexrank.inference.finite_sample.disjoint import difference_bounds
from convexrank.inference.graded import NDCG, MeanAveragePrecision, RankingRisk
from convexrank.inference.results import Interval
from convexrank.inference.rows import Guide, Rows
from convexrank.inference.two_classes import AUC, PartialAUC, PrecisionAt, PushRisk, RecallAt
from convexrank.metrics.conventions import CONVEXRANK, Convention
from convexrank.metrics.tables import parsed

# Shares that differ by less are equal, but for rounding.
_ROUNDING = 1e-12
# P-values from two intervals are alpha times powers of this number, down to so many.
_STEP, _STEPS = 8.0, 6


class Measure(Protocol):
    """The members of a measure that a method uses; values are in [0, 1]."""

    @property
    def name(self) -> str:
        """Name of the measure."""
        ...

    def read(self, y: Any, s: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Read labels, weights and groups."""
        ...

    def value(self, ranked: Any) -> float:
        """Return the value on the sample."""
        ...

    def influence(self, ranked: Any) -> Any:
        """Return the contribution of each unit to the error of the value."""
        ...

    def guide(self, ranked: Any) -> Guide:
        """Return what an asymptotic interval needs of the sample."""
        ...

    def exact(self, ranked: Any, alpha: float) -> tuple[float, float]:
        """Return bounds that hold together with probability 1 − alpha."""
        ...

    def shown(self, value: float) -> float:
        """Turn a value into the requested quantity, by an increasing affine map."""
        ...


@dataclass(frozen=True)
class Exact:
    """Bounds that hold for every sample size and distribution of independent rows."""

    name: str = "exact"

    def bounds(self, measure: Measure, ranked: Any, alpha: float) -> tuple[float, float]:
        """Return the bounds of the measure."""
        ranked.rows.require_plain()
        return measure.exact(ranked, alpha)

    def difference(
        self, measure: Measure, first: Any, second: Any, alpha: float, names: str
    ) -> tuple[float, float, float]:
        """Return bounds of the difference, and the p-value of none.

        Over queries it is by betting, and so it is for tuples of rows, over systems of disjoint ones; for other
        measures the intervals of both rankers are subtracted.
        """
        del names
        first.rows.require_plain()
        paired, tuples = (getattr(measure, name, None) for name in ("paired", "tuples"))
        if paired is not None:
            low, high, p_value = two_sided(paired(first, second), alpha)
            return 2.0 * low - 1.0, 2.0 * high - 1.0, p_value
        if tuples is None:
            return _apart(measure, first, second, alpha)
        return difference_bounds(tuples(first).minus(tuples(second)), alpha)


def _apart(measure: Measure, first: Any, second: Any, alpha: float) -> tuple[float, float, float]:
    """Subtract two intervals with half of the error each; the p-value is one of a ladder of errors that has alpha."""

    def ends(error: float) -> tuple[float, float]:
        (low, high), (least, most) = (measure.exact(one, error / 2.0) for one in (first, second))
        return max(low - most, -1.0), min(high - least, 1.0)

    def apart(low: float, high: float) -> bool:
        return low > 0.0 or high < 0.0

    found, p_value = ends(alpha), alpha
    if apart(*found):
        least = alpha / _STEP**_STEPS
        if apart(*ends(least)):  # of many rows at once
            return *found, least
        while apart(*ends(p_value / _STEP)):
            p_value /= _STEP
        return *found, p_value
    while (p_value := min(_STEP * p_value, 1.0)) < 1.0 and not apart(*ends(p_value)):
        pass
    return *found, p_value


@dataclass(frozen=True)
class Asymptotic:
    """Student's interval from the variance of the units' contributions; of a single measure on the logistic scale."""

    name: str = "asymptotic"

    def bounds(self, measure: Measure, ranked: Any, alpha: float) -> tuple[float, float]:
        """Return the ends of the interval."""
        error, freedom = ranked.rows.spread(measure.influence(ranked))
        _warn_outside_the_guide(measure, ranked)
        value, trials = measure.value(ranked), getattr(measure, "trials", None)
        if trials is not None and min(value, 1.0 - value) < _ROUNDING:
            # a share of 0 or 1, whose logit is infinite: Clopper and Pearson's bound
            end = (alpha / 2) ** (1.0 / ranked.rows.effective(trials(ranked)))
            return (end, 1.0) if value > 0.5 else (0.0, 1.0 - end)
        return student_interval(value, error, freedom, alpha)

    def difference(
        self, measure: Measure, first: Any, second: Any, alpha: float, names: str
    ) -> tuple[float, float, float]:
        """Return Student's interval and test of the difference, paired by rows."""
        moved = measure.influence(first) - measure.influence(second)
        error, freedom = first.rows.spread(moved, names)
        for ranked in (first, second):
            _warn_outside_the_guide(measure, ranked)
        difference = measure.value(first) - measure.value(second)
        half = -float(stdtrit(freedom, alpha / 2)) * error
        p_value = 2.0 * float(stdtr(freedom, -abs(difference) / error))
        return max(difference - half, -1.0), min(difference + half, 1.0), p_value


def _warn_outside_the_guide(measure: Measure, ranked: Any) -> None:
    """Warn where intervals for large samples hold the truth less often than they should."""
    guide = measure.guide(ranked) | ranked.rows.guide()
    short = [
        f"{has:.3g} {what} (at least {needs:.3g})" for what, (has, needs) in guide.items() if has < needs
    ]
    if short:
        warn_caller(
            f"{measure.name}: the sample is too small for an asymptotic interval, which may hold the truth much less "
            f"often than its level: {', '.join(short)}; pass more rows, or method='exact'."
        )


def student_interval(value: float, error: float, freedom: float, alpha: float) -> tuple[float, float]:
    """Return an interval inside (0, 1) that is symmetric on the logistic scale."""
    centre = float(logit(value))
    # stdtrit at 1 − alpha/2 would lose the digits of a small alpha
    half = -float(stdtrit(freedom, alpha / 2)) * error / (value * (1.0 - value))
    return float(expit(centre - half)), float(expit(centre + half))


#: A way to intervals and tests.
Method = Exact | Asymptotic
_EXACT, ASYMPTOTIC = Exact(), Asymptotic()
_METHODS: dict[str, Method | None] = {"auto": None, "exact": _EXACT, "asymptotic": ASYMPTOTIC}


def method_named(name: Any) -> Method | None:
    """Look a method up by its name; None is the one that suits the sample."""
    return check_choice(name, _METHODS, "method")


def method_for(how: Method | None, rows: Rows | None = None) -> Method:
    """Return the method of one measure: exact unless another is asked for, or rows have weights or groups."""
    if how is not None:
        return how
    return _EXACT if rows is None or (not rows.weighted and rows.cluster is None) else ASYMPTOTIC


How = Literal["auto", "exact", "asymptotic"]


def measured(
    measure: Measure, y: Any, s: Any, method: How, level: Any, sample_weight: Any = None, groups: Any = None
) -> Interval:
    """Read the sample, evaluate the measure and ask the method for the ends."""
    how, sure = method_named(method), check_probability(level, "level")
    return interval_of(measure, measure.read(y, s, sample_weight, groups).ranked(s), how, sure)


def interval_of(measure: Measure, ranked: Any, wanted: Method | None, level: float) -> Interval:
    """Return the interval of what is read and ranked."""
    value, how = measure.value(ranked), method_for(wanted, ranked.rows)
    lower, upper = how.bounds(measure, ranked, 1.0 - level)
    ends = [measure.shown(end) for end in (value, min(lower, value), max(upper, value))]
    limits = measure.shown(0.0), measure.shown(1.0)
    return Interval(ends[0], ends[1], ends[2], level, how.name, measure.name, ranked.rows.sizes, limits)


def push_measure(p: Any) -> PushRisk:
    """Check p, and return the measure."""
    return PushRisk(check_at_least(p, "p", 1.0))


def partial_measure(max_fpr: Any, standardize: Any = False) -> PartialAUC:
    """Check the limit, and return the measure."""
    limit = check_positive(max_fpr, "max_fpr")
    if limit > 1.0:
        raise ValueError(f"max_fpr is {shown(max_fpr)}, expected a rate in (0, 1]; pass 0.05 for 5 %.")
    return PartialAUC(limit, check_flag(standardize, "standardize"))


def risk_measure(ties: Any = "half", antisymmetric: Any = False) -> RankingRisk:
    """Check the cost of ties, and return the measure."""
    cost = check_choice(ties, {name: name for name in ("half", "strict", "misrank")}, "ties")
    return RankingRisk(cost, check_flag(antisymmetric, "antisymmetric"))


def _checked(convention: Any) -> Convention:
    check_kind(convention, "convention", Convention, "one of convexrank.metrics.conventions, such as LETOR4")
    return convention


def ndcg_measure(qid: Any, k: Any, convention: Any = CONVEXRANK) -> NDCG:
    """Check the arguments, and return the measure."""
    return NDCG(_checked(convention), qid, None if k is None else check_integer(k, "k", 1))


def map_measure(qid: Any, threshold: Any = 0.0, convention: Any = CONVEXRANK) -> MeanAveragePrecision:
    """Check the arguments, and return the measure."""
    return MeanAveragePrecision(_checked(convention), qid, check_real(threshold, "threshold"))


# For each name what it takes, the options that it must have, and those that it may have.
_NAMED: dict[str, tuple[Callable[..., Measure], tuple[str, ...], tuple[str, ...]]] = {
    "auc": (AUC, (), ()),
    "partial_auc": (partial_measure, ("max_fpr",), ()),
    "push_risk": (push_measure, ("p",), ()),
    "precision_at": (PrecisionAt, ("k",), ()),
    "recall_at": (RecallAt, ("k",), ()),
    "ranking_risk": (risk_measure, (), ()),
    "ndcg": (ndcg_measure, ("qid",), ("k", "convention")),
    "map": (map_measure, ("qid",), ("convention",)),
}


def measure_named(name: Any, **options: Any) -> Measure:
    """Return the measure of a name; options that are None were not given.

    Raises
    ------
    ValueError
        When the name is unknown, or an option is missing or not one of the measure.
    """
    base, numbers = parsed(name)
    make, required, optional = check_choice(base, _NAMED, "metric")
    given = {option: value for option, value in options.items() if value is not None}
    given |= _behind(name, numbers, [*required, *optional], given)
    for option in required:
        if option not in given:
            raise ValueError(
                f"{option} is not given, expected a value for metric={name!r}; pass {option}=...."
            )
    for option in given:
        if option not in (*required, *optional):
            raise ValueError(f"{option} is no option of metric={name!r}; leave {option} out.")
    return make(
        **({option: given.get(option) for option in optional if option in given or option == "k"} | given)
    )


def _behind(
    name: str, numbers: tuple[int | float, ...], takes: list[str], given: dict[str, Any]
) -> dict[str, Any]:
    """Return the number of a name such as precision@100 as the option that it is."""
    for option in ("k", "max_fpr", "p") if numbers else ():
        if option in takes and option not in given:
            return {option: numbers[0]}
    if numbers:
        raise ValueError(
            f"metric is {name!r}, with a number that is no option of it, or given twice; leave @ out."
        )
    return {}
