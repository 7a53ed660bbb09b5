"""One table of names of measures, which mean the same wherever a measure is named."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from convexrank.data import check_choice, check_flag, shown
from convexrank.metrics.gain import average_reciprocal_rank, dcg, ndcg
from convexrank.metrics.relevance import mean_average_precision, mean_reciprocal_rank
from convexrank.metrics.roc import auc, partial_auc
from convexrank.metrics.top import positives_at_top, precision_at, recall_at, recall_at_precision

# For each name the measure, and the option that the number behind @ is; larger is better for all of them.
_NAMES: dict[str, tuple[Callable[..., Any], str]] = {
    "auc": (auc, ""),
    "average_reciprocal_rank": (average_reciprocal_rank, ""),
    "dcg": (dcg, ""),
    "map": (mean_average_precision, ""),
    "mrr": (mean_reciprocal_rank, ""),
    "ndcg": (ndcg, "k"),
    "partial_auc": (partial_auc, "max_fpr"),
    "positives_at_top": (positives_at_top, ""),
    "precision_at": (precision_at, "k"),
    "recall_at": (recall_at, "k"),
    "recall_at_precision": (recall_at_precision, "min_precision"),
}
# Measures whose number may be left out, and those that take queries.
_WITHOUT = frozenset({"ndcg"})
_BY_QUERY = frozenset({"map", "mrr", "ndcg", "precision_at"})


def named(name: str, by_query: bool = False) -> Callable[..., Any]:
    """Return the measure of a name, such as ``"precision@100"``: a function of labels and scores.

    ========================= =============================================================================
    name                      measure
    ========================= =============================================================================
    auc                       :func:`auc`
    partial_auc\\@0.05         :func:`partial_auc` up to that false positive rate
    precision\\@100            :func:`precision_at`, of so many rows; ``precision@0.01`` of a share of the rows
    recall\\@100               :func:`recall_at`, likewise
    recall_at_precision\\@0.9  :func:`recall_at_precision`, with at least that precision
    positives_at_top          :func:`positives_at_top`
    dcg                       :func:`dcg`
    average_reciprocal_rank   :func:`average_reciprocal_rank`
    ndcg\\@10, ndcg            :func:`ndcg` of the first ten rows, or of whole lists
    map, mrr                  :func:`mean_average_precision`, :func:`mean_reciprocal_rank`
    ========================= =============================================================================

    These names are those of ``scoring`` in :class:`~convexrank.PushRankerCV` and
    :class:`~convexrank.RetargetingRankerCV`, of ``measures`` in :func:`table`, and of ``metric`` in
    :func:`convexrank.inference.compare`. Capital letters make no difference. For searches of scikit-learn pass
    ``scoring=scorer("precision@100")``, see :func:`scorer`.

    Parameters
    ----------
    name : str
        The name, with the number behind it.
    by_query : bool
        Whether the function has to take the queries of the rows as its third argument.

    Returns
    -------
    callable
        A function of y and scores, and of qid where the measure is one by query; larger is better.

    Raises
    ------
    ValueError, TypeError
        When the name is unknown, its number is missing or no number, or the measure does not take queries.

    Examples
    --------
    >>> from convexrank import metrics
    >>> metrics.named("precision@2")([1, 0, 1, 0], [4, 3, 2, 1])
    0.5
    """
    by_query = check_flag(by_query, "by_query")
    found, options = parsed(name)
    function, option = check_choice(found, _NAMES, "the name of a measure")
    if option and not options and found not in _WITHOUT:
        raise ValueError(f"{name!r} has no number for {option}, expected one behind @; write {name}@VALUE.")
    if options and not option:
        raise ValueError(f"{name!r} has a number, but {found} takes none; write {found}.")
    if by_query and found not in _BY_QUERY:
        raise ValueError(
            f"{name!r} is a measure of one list, expected one by query: {', '.join(sorted(_BY_QUERY))}."
        )
    return partial(_value, of=function, **dict(zip([option], options, strict=False)))


def scorer(name: str) -> Any:
    """Return the measure of a name as a scorer of scikit-learn, for ``scoring`` of its searches.

    Models are judged by their ``decision_function``, else by the probability of the second class, else by what they
    predict, so that rankers, classifiers and regressors compare on the same rows. scikit-learn has no public way to add
    names of one's own to those that it knows, hence a function.

    Parameters
    ----------
    name : str
        The name, as in :func:`named`.

    Returns
    -------
    callable
        A function of a fitted model, X and y. With queries, or weights where the measure takes them, let
        ``set_score_request(qid=True)`` or ``(sample_weight=True)`` route them.

    Raises
    ------
    ValueError, TypeError
        When the name is none of a measure.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import GridSearchCV
    >>> import convexrank as cr
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranker = cr.PushRanker(features="thresholds", bins=8, l2=1e-2)
    >>> search = GridSearchCV(ranker, {"p": [1, 8]}, scoring=cr.metrics.scorer("precision@20"), cv=3)
    >>> round(float(search.fit(X, y).best_score_), 2)
    1.0
    """
    from sklearn.metrics import make_scorer

    ways: Any = ("decision_function", "predict_proba", "predict")
    return make_scorer(named(name), response_method=ways)


def _value(y: Any, s: Any, qid: Any = None, *, of: Callable[..., Any], **options: Any) -> Any:
    """Return a measure of labels and scores, and of queries where they are given, which is no third argument of all."""
    return of(y, s, **options) if qid is None else of(y, s, qid=qid, **options)


def parsed(name: Any) -> tuple[Any, tuple[int | float, ...]]:
    """Return the name of a measure and the number behind @, if there is one: of precision@100, precision_at and 100.

    Raises
    ------
    ValueError
        When what is behind @ is no number.
    """
    if not isinstance(name, str):
        return name, ()
    base, at, text = name.strip().lower().partition("@")
    base = f"{base}_at" if f"{base}_at" in _NAMES else base
    if not at:
        return base, ()
    for kind in (int, float):
        try:
            return base, (kind(text),)
        except ValueError:
            continue
    raise ValueError(
        f"the name {shown(name)} has {shown(text)} behind @, expected a number, as in precision@100."
    )
