"""Comparison of rankers on the same rows or queries."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from convexrank.data import check_probability, check_same_index, check_vector, shown
from convexrank.data.display import counted
from convexrank.inference.arguments import (
    ASYMPTOTIC,
    How,
    Measure,
    Method,
    interval_of,
    measure_named,
    method_named,
)
from convexrank.inference.results import Comparison, Difference, Interval


def holm(p_values: list[float]) -> list[float]:
    """Adjust p-values by Holm's method, which controls the family-wise error rate.

    Parameters
    ----------
    p_values : list of float
        The p-values.

    Returns
    -------
    list of float
        The adjusted p-values, in the same order: the k-th smallest of m is multiplied by m − k + 1; the results are
        made non-decreasing and at most 1.

    Raises
    ------
    ValueError, TypeError
        When there are none, or one is no number from 0 to 1.

    References
    ----------
    S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, largest = check_vector(p_values, None, "p_values").tolist(), 0.0
    if not 0.0 <= min(adjusted) <= max(adjusted) <= 1.0:
        raise ValueError(
            f"p_values run from {min(adjusted):g} to {max(adjusted):g}, expected numbers from 0 to 1."
        )
    for rank, place in enumerate(sorted(range(len(adjusted)), key=adjusted.__getitem__)):
        largest = max(largest, min(1.0, (len(adjusted) - rank) * adjusted[place]))
        adjusted[place] = largest
    return adjusted


def compare(
    y: Any,
    s1: Any,
    s2: Any = None,
    metric: str = "auc",
    *,
    p: float | None = None,
    k: int | float | None = None,
    max_fpr: float | None = None,
    qid: Any = None,
    convention: Any = None,
    method: How = "auto",
    level: float = 0.95,
    sample_weight: Any = None,
    groups: Any = None,
    baseline: Any = None,
) -> Difference | Comparison:
    r"""Difference of a measure between rankers on the same rows, with interval and p-value.

    The comparison is paired, so that the difficulty of rows for both rankers cancels. ``"asymptotic"``: the
    contributions of each row (or query) to both measures are subtracted before their variance is taken, for the AUC
    DeLong's test, with Student's interval and test. ``"exact"``: for NDCG and MAP bounds by betting on the differences
    of the queries, for the AUC and the ranking risk by betting over systems of disjoint pairs, which are drawn with a
    seed that depends on the rows alone (Ramdas and Manole, arXiv:2304.02611). For other measures the
    exact intervals of both rankers, with half of the error each, are subtracted: that leaves out the pairing, and the
    p-value is rounded up to one of a few.

    By default intervals of differences are asymptotic, and those of the measure of each ranker are what its function,
    such as `auc_interval`, returns: exact bounds of one measure are little wider; those of a difference depend on the
    pairs that are drawn, and for other measures than the AUC and means over queries they are much wider.

    Several rankers are compared in pairs, or each with a baseline, and p-values are adjusted by Holm's method. The
    intervals are not adjusted: each interval has the given level separately.

    Parameters
    ----------
    y : array-like, shape (n,)
        Labels, as the measure takes them.
    s1, s2 : array-like, shape (n,)
        Scores of two rankers that do not depend on these rows. For several rankers, s1 is a mapping of names to scores,
        and s2 is omitted.
    metric : {"auc", "partial_auc", "push_risk", "precision_at", "recall_at", "ranking_risk", "ndcg", "map"}
        The measure; a number behind it is its option, as in ``"precision@100"``.
    p, k, max_fpr, qid, convention : float, int, float, array-like, Convention
        The options of the measure, as in its function for one ranker.
    method : {"auto", "asymptotic", "exact"}
        Method for large samples, or for every sample size; ``"auto"`` as above.
    level : float
        Probability that an interval contains the difference, in (0, 1).
    sample_weight, groups : array-like, shape (n,), optional
        As for `auc_interval`.
    baseline : object, optional
        With several rankers, the name of the ranker that the others are compared with; by default all pairs are
        compared.

    Returns
    -------
    Difference or Comparison
        The difference first minus second; with several rankers all differences.

    Raises
    ------
    ValueError, TypeError
        As the function for one ranker; when both rankers order the rows in the same way; when an option does not belong
        to the measure; when there are fewer than two rankers, or no ranker with the name of the baseline.

    References
    ----------
    E. DeLong, D. DeLong, D. Clarke-Pearson, Biometrics 44 (1988); S. Holm, Scandinavian Journal of Statistics 6 (1979).

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [900, 100])
    >>> s = y + random.normal(size=1000)
    >>> compare(y, s, s + random.normal(size=1000))
    Difference(auc, s1 − s2 = +0.1014 in [+0.0540, +0.1487], level 95 %, asymptotic, p = 4.39e-05)
    """
    how, sure = method_named(method), check_probability(level, "level")
    apart = how or ASYMPTOTIC
    measure = measure_named(metric, p=p, k=k, max_fpr=max_fpr, qid=qid, convention=convention)
    if qid is not None and groups is not None:
        raise ValueError("groups: queries are the groups of this measure; leave groups out.")
    if s2 is not None:
        if isinstance(s1, Mapping):
            raise TypeError("s1 is a mapping of several rankers, expected scores beside s2; leave s2 out.")
        if baseline is not None:
            raise ValueError("baseline is for several rankers, as a mapping in s1; leave baseline out.")
        rankers, names = {"s1": s1, "s2": s2}, {"s1": "s1", "s2": "s2"}
    else:
        rankers = _several(s1)
        names = {label: f"s1[{label!r}]" for label in rankers}
    check_same_index(y=y, **{names[label]: scores for label, scores in rankers.items()})
    sample = measure.read(y, next(iter(rankers.values())), sample_weight, groups)
    ranked = {label: sample.ranked(scores, names[label]) for label, scores in rankers.items()}
    if s2 is not None:
        return _difference(measure, apart, sure, ("s1", "s2"), (ranked["s1"], ranked["s2"]), "s1 and s2")
    pairs = list(combinations(rankers, 2))
    if baseline is not None:
        if baseline not in list(rankers):
            raise ValueError(
                f"baseline is {shown(baseline)}, expected one of: {', '.join(map(str, rankers))}."
            )
        pairs = [(label, baseline) for label in rankers if label != baseline]
    found = [
        _difference(
            measure,
            apart,
            sure,
            pair,
            (ranked[pair[0]], ranked[pair[1]]),
            " and ".join(names[label] for label in pair),
        )
        for pair in pairs
    ]
    adjusted = holm([difference.p_value for difference in found])
    return Comparison(
        {label: interval_of(measure, order, how, sure) for label, order in ranked.items()},
        tuple(
            Difference(one.first, one.second, one.interval, one.p_value, corrected)
            for one, corrected in zip(found, adjusted, strict=True)
        ),
    )


def _several(rankers: Any) -> dict[Any, Any]:
    """Return a mapping of at least two rankers."""
    if not isinstance(rankers, Mapping):
        raise TypeError("s2 is not given, expected scores beside s1, or a mapping of names to scores as s1.")
    if len(rankers) < 2:
        raise ValueError(f"s1 names {counted(len(rankers), 'rankers')}, expected at least 2 to compare.")
    return dict(rankers)


def _difference(
    measure: Measure, how: Method, level: float, pair: tuple[Any, Any], ranked: tuple[Any, Any], names: str
) -> Difference:
    """Compare two rankers."""
    first, second = ranked
    lower, upper, p_value = how.difference(measure, first, second, 1.0 - level, names)
    value = measure.value(first) - measure.value(second)
    shift = measure.shown(0.0)  # differences of an affine map
    ends = [measure.shown(end) - shift for end in (value, lower, upper)]
    most = measure.shown(1.0) - shift
    sizes = first.rows.sizes
    interval = Interval(ends[0], ends[1], ends[2], level, how.name, measure.name, sizes, (-most, most))
    return Difference(pair[0], pair[1], interval, p_value, p_value)
