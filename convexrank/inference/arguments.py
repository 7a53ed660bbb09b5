"""Measures and methods from the arguments of a caller: names and options are checked here, and become an interval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from convexrank.data import (
    check_at_least,
    check_choice,
    check_flag,
    check_integer,
    check_positive,
    check_probability,
    check_real,
    shown,
)
from convexrank.inference.graded import NDCG, MeanAveragePrecision, RankingRisk
from convexrank.inference.methods import Measure, Method, method_for, method_named
from convexrank.inference.results import Interval
from convexrank.inference.top_of_list import PrecisionAt, RecallAt
from convexrank.inference.two_classes import AUC, PartialAUC, PushRisk
from convexrank.metrics.conventions import CONVEXRANK, Convention
from convexrank.metrics.tables import parsed

How = Literal["auto", "exact", "asymptotic"]


def measured(
    measure: Measure, y: Any, s: Any, method: Any, level: Any, sample_weight: Any = None, groups: Any = None
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
    if not isinstance(convention, Convention):
        raise TypeError(
            f"convention is {shown(convention)}, expected one of convexrank.metrics.conventions, such as LETOR4."
        )
    return convention


def ndcg_measure(qid: Any, k: Any, convention: Any = CONVEXRANK) -> NDCG:
    """Check the arguments, and return the measure."""
    return NDCG(_checked(convention), None if k is None else check_integer(k, "k", 1), qid)


def map_measure(qid: Any, threshold: Any = 0.0, convention: Any = CONVEXRANK) -> MeanAveragePrecision:
    """Check the arguments, and return the measure."""
    return MeanAveragePrecision(_checked(convention), check_real(threshold, "threshold"), qid)


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
