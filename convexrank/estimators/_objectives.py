"""Objectives of rankers by name, and the routing of queries.

Formulations by name with their parameters, and margins that leave targets room, as estimators take them.

Queries that a search does not pass on to the score.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from dataclasses import Field, fields
from inspect import Parameter, signature
from typing import Any

import numpy as np

from convexrank import losses, prices
from convexrank.core.problem import Problem
from convexrank.data import QueryGroups, as_groups, check_choice, check_positive, shown
from convexrank.divergences import Divergence, SquaredEuclidean
from convexrank.metrics.queries import pair_order
from convexrank.problems import REGISTRY, PNormPush, Push, RateConstrained, RmaxPush, TopPush
from convexrank.problems._formulation import Formulation
from convexrank.problems.margin_retargeting._joint_cost import bounds_within, check_bound, check_divergence

Array = np.ndarray

# What the estimators themselves pass to a formulation.
PASSED = frozenset({"X", "y", "qid", "sample_weight", "l2", "l1"})

# Where a word of the name of a class begins: PartialAUC is partial_auc.
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NAMES = {_WORDS.sub("_", name).lower(): name for name in REGISTRY}


def names_of(kind: type[Formulation]) -> dict[str, Any]:
    """Return the classes of the registry that derive from a class, by their names in lower case."""
    found = {name: REGISTRY[place] for name, place in _NAMES.items()}
    return {name: one for name, one in found.items() if issubclass(one, kind)}


def formulation_of(given: Any, kind: type[Formulation] = Formulation) -> Any:
    """Return the class that derives from ``kind``, given itself or by name; None where there is none.

    Examples
    --------
    >>> formulation_of("partial_auc").__name__
    'PartialAUC'
    """
    found = REGISTRY[_NAMES[given]] if isinstance(given, str) and given in _NAMES else given
    return found if isinstance(found, type) and issubclass(found, kind) else None


def check_formulation(given: Any, kind: type[Formulation], argument: str, **others: Any) -> Any:
    """Return the class of a name, or what another name stands for.

    Raises
    ------
    ValueError
        When no formulation of that kind has the name.
    """
    if isinstance(given, str) and given in others:  # no other class is looked at
        return others[given]
    found = formulation_of(given, kind) if isinstance(given, str) else None
    return found or check_choice(given, names_of(kind) | others, argument)


def own_fields(formulation: Any) -> dict[str, Field[Any]]:
    """Return the fields of a class, or its name, that are parameters of its own; none of what is no formulation."""
    found = formulation_of(formulation)
    if found is None:
        return {}
    return {one.name: one for one in fields(found) if one.init and one.name not in PASSED}


def given_to(made: Any, ranker: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return those parameters of an estimator that what its objective stands for takes; None is the default there.

    Raises
    ------
    ValueError
        When another of them is not the default of the estimator.
    """
    takes, given = signature(made).parameters, {}
    for name in names:
        value, default = getattr(ranker, name), getattr(type(ranker), name)
        if name in takes:
            left_out = value is None and takes[name].default is not Parameter.empty
            given |= {} if left_out else {name: value}
        elif not (value is default or (isinstance(value, int | float | str) and value == default)):
            raise ValueError(
                f"{name} is {shown(value)}, but objective={ranker.objective!r} has no such parameter; leave it out."
            )
    return given


def push_on_means(
    X: Any,
    positive: Array,
    p: Any,
    price: Any = None,
    loss: Any = "exponential",
    *,
    qid: QueryGroups | None,
    sample_weight: Any,
    l2: float,
    l1: float,
) -> Problem:
    """Return the push that p, a price and a loss name, on means."""
    loss = losses.resolve(loss)
    penalty: dict[str, Any] = {"l2": l2, "l1": l1, "qid": qid}
    if price is not None:
        scaled = _shares(positive, qid, sample_weight, of_positives=False)
        return Push(X, positive, price, loss, sample_weight=scaled, **penalty)
    p = check_positive(p, "p", infinite=True)
    exponential = isinstance(loss, losses.Exponential)
    if exponential and math.isfinite(p):
        return PNormPush(X, positive, p, sample_weight=sample_weight, **penalty)
    if exponential:
        return TopPush(X, positive, sample_weight=sample_weight, **penalty)
    if math.isinf(p):
        return RmaxPush(X, positive, loss, sample_weight=sample_weight, **penalty)
    scaled = _shares(positive, qid, sample_weight, of_positives=True)
    return Push(X, positive, prices.Power(p), loss, sample_weight=scaled, **penalty)


def feasible_rates(
    X: Any,
    positive: Array,
    max_fpr: float | None = None,
    min_recall: float | None = None,
    min_precision: float | None = None,
    *,
    qid: QueryGroups | None,
    sample_weight: Any,
    l2: float,
) -> RateConstrained:
    """Return the problem with a rate as a constraint; refuse one whose constraint no point satisfies.

    Raises
    ------
    ValueError
        For several queries, or when no point satisfies the constraint, with what proves it.
    """
    if qid is not None:
        raise ValueError(
            f"qid names {len(qid)} queries, but objective='rate_constrained' has one threshold for all rows; leave qid "
            "out, or take another objective."
        )
    limits = {"max_fpr": max_fpr, "min_recall": min_recall, "min_precision": min_precision}
    problem = RateConstrained(X, positive, l2=l2, sample_weight=sample_weight, **limits)
    if problem.interior() is not None:
        return problem
    found = problem.infeasibility()
    word = "proved in rational numbers" if found.proved else "by linear programming"
    raise ValueError(
        f"INFEASIBLE: no weights and threshold keep min_precision={min_precision} on these rows. The hinges that bound "
        f"it are at least {found.least:.4g} times as large as allowed, {word}. Pass a lower min_precision, or fit "
        "another objective and choose its threshold on other rows by threshold_for(X, y, min_precision=...)."
    )


def _shares(positive: Array, qid: QueryGroups | None, weights: Array | None, of_positives: bool) -> Array:
    """Scale row weights to sum to one over the negatives of a query, and over its positives too if asked."""
    shares = np.ones(len(positive)) if weights is None else weights.copy()
    query = np.zeros(len(positive), dtype=np.intp) if qid is None else qid.spread(qid.query)
    for rows in (~positive, positive) if of_positives else (~positive,):
        totals = np.bincount(query[rows], shares[rows], minlength=int(query.max()) + 1)
        totals[totals == 0.0] = 1.0  # a class without weight is reported by the problem
        shares[rows] /= totals[query[rows]]
    return shares


# The margin is 1 if that is at most the first share of the largest feasible margin, else the second share of it.
_MOST, _SHARE = 0.9, 0.5


def feasible_options(divergence: Any, bound: Any, y: Array, groups: QueryGroups) -> dict[str, Any]:
    """Return ``margin``, and ``bound`` where none was given and one is needed, for targets of these grades."""
    found = check_divergence(divergence)
    if isinstance(found, SquaredEuclidean) and bound is None:
        return {"margin": 1.0}
    ranks, totals = _ranks(y, groups)
    steps = max(int(ranks.max(initial=0)), 1)
    options: dict[str, Any] = {}
    low, high = bounds_within(found, check_bound(bound))
    if bound is None and found.strong_convexity(low, high) <= 0.0:
        high = 2.0 * (1.0 + steps)
        options["bound"] = (None, high)
    # without any room no margin is feasible, and the problem says which bound and query are to blame
    room = max(min((high - low) / steps, _room_of_sums(found, low, groups, totals)), 0.0)
    return {**options, "margin": 1.0 if room * _MOST >= 1.0 else _SHARE * room}


def _room_of_sums(divergence: Divergence, low: float, groups: QueryGroups, totals: Array) -> float:
    """Return the largest margin that leaves the targets of each query the sum that they have to keep."""
    if divergence.total is None:
        return math.inf
    room, needed = divergence.total - low * np.asarray(groups.sizes), totals > 0
    return float(np.min(room[needed] / totals[needed], initial=math.inf))


def _ranks(y: Array, groups: QueryGroups) -> tuple[Array, Array]:
    """Return how many lower grades of its query each row is above, query by query, and the sum over each query."""
    grades = groups.gather(y)
    distinct, place = np.unique(np.stack([groups.query, grades]), axis=1, return_inverse=True)
    first = np.searchsorted(distinct[0], np.arange(len(groups)))
    ranks = place.ravel() - first[groups.query]
    return ranks, np.bincount(groups.query, ranks, len(groups))


_HOW_TO_ROUTE = (
    "In a search write sklearn.set_config(enable_metadata_routing=True), "
    "ranker.set_fit_request(qid=True).set_score_request(qid=True), and "
    "search.fit(X, y, qid=qid, groups=qid)."
)


def refuse_unscored(qid: Any) -> None:
    """Refuse to be fitted with queries by a search that will not give them to ``score``.

    A score that fails is a warning with a traceback for each fold and candidate, and the search goes on to choose among
    NaN. Fits that all fail are one error. Where scikit-learn's inside looks different, the score refuses, as ever.

    Raises
    ------
    ValueError
        When scikit-learn fits and scores, by the estimator's own score, and has no qid for it.
    """
    frame = sys._getframe(1) if qid is not None else None
    while frame is not None:
        if frame.f_code.co_name == "_fit_and_score" and frame.f_globals.get("__name__", "").startswith(
            "sklearn."
        ):
            known = frame.f_locals
            own = type(known.get("scorer")).__name__ == "_PassthroughScorer"
            if own and "qid" not in (known.get("score_params") or {}):
                raise ValueError(f"qid reaches fit, but not score, which needs it. {_HOW_TO_ROUTE}")
            return
        frame = frame.f_back


def refuse_unrouted(qid: Any) -> None:
    """Refuse to be fitted without queries by a search that splits rows by groups.

    All rows would be one query, which is another problem, and its scores look plausible. Where fits are in processes of
    their own, nothing is seen there; then the last fit, on all rows, refuses.

    Raises
    ------
    ValueError
        When scikit-learn splits by groups and gives the fit no qid.
    """
    frame = sys._getframe(1) if qid is None else None
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("sklearn.model_selection."):
            splitter = getattr(frame.f_locals.get("routed_params"), "splitter", None)
            if (getattr(splitter, "split", None) or {}).get("groups") is not None:
                raise ValueError(
                    "the search splits rows by groups, but fit has no qid: all rows would be one query. "
                    f"{_HOW_TO_ROUTE} If all rows are one query, pass qid=np.zeros(len(y)) so."
                )
        frame = frame.f_back


def queries_of(qid: Any, group: Any, length: int) -> Any:
    """Return the queries of rows, given themselves or as sizes of queries one after the other.

    Raises
    ------
    ValueError
        When both are given, or the sizes do not add up to the number of rows.
    """
    if group is None:
        return qid
    if qid is not None:
        raise ValueError("qid and group both tell the queries of the rows, expected one of them.")
    return QueryGroups.from_sizes(group, length, name="group")


def several_queries(qid: Any, length: int) -> QueryGroups | None:
    """Return the queries of rows; None for one list.

    Raises
    ------
    ValueError, TypeError
        When there is not one query for each row.
    """
    groups = as_groups(qid, length)
    return groups if len(groups) > 1 else None


def mean_order(y: Array, scores: Array, qid: Any, weights: Array | None) -> float:
    """Return the share of pairs with different labels in the right order, the mean over queries with such pairs.

    Raises
    ------
    ValueError
        When no query has such pairs.
    """
    right, pairs = pair_order(y, scores, as_groups(qid, len(scores)), weights)
    if not pairs.any():
        raise ValueError(
            "y has no query with two rows of different labels and positive weight, so that there is nothing to "
            "judge; pass rows of both labels, in a search by cv=StratifiedKFold(...), or GroupKFold of queries."
        )
    return float((right[pairs > 0] / pairs[pairs > 0]).mean())


def check_queries(qid: Any, fitted_on_queries: bool) -> None:
    """Refuse a score without queries after a fit with them.

    Raises
    ------
    ValueError
        When ``qid`` is None although fit had one.
    """
    if qid is None and fitted_on_queries:
        raise ValueError(
            "qid is not given, but fit was given one: without it all rows count as one query, which is another "
            f"measure. Pass qid. {_HOW_TO_ROUTE}"
        )
