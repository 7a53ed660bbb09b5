"""Queries that a search does not pass on to the score."""

from __future__ import annotations

import sys
from typing import Any

from convexrank.data import QueryGroups

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
