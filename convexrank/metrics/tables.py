"""The names of measures, in one table, and the comparison of several rankings of the same queries by them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from convexrank.data import check_choice, check_flag, check_same_index, check_vector, shown
from convexrank.data.groups import QueryGroups, as_groups
from convexrank.data.nodes import pandas
from convexrank.metrics.gain import average_reciprocal_rank, dcg, ndcg
from convexrank.metrics.push import auc, partial_auc
from convexrank.metrics.top import (
    mean_average_precision,
    mean_reciprocal_rank,
    positives_at_top,
    precision_at,
    recall_at,
    recall_at_precision,
)

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
    given = options if qid is None else {**options, "qid": qid}
    lacking = [name for name in given if name not in inspect.signature(of).parameters]
    if lacking:
        raise TypeError(
            f"{of.__name__} takes no {lacking[0]}; leave it out, of a scorer by set_score_request({lacking[0]}=False), "
            "or take a measure that has it."
        )
    return of(y, s, **given)


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


Array = np.ndarray

_MEASURES = ("NDCG@5", "NDCG@10", "MAP", "MRR")
# Names of rankings are cut here, so that four measures take 80 columns.
_NAME, _CELL = 18, 15


@dataclass(frozen=True, eq=False)
class MetricsTable:
    r"""Measures of several rankings, query by query; its string is a table.

    The standard error of a mean over m queries is :math:`s/\sqrt m` with the standard deviation s of the m values
    (divisor m − 1); NaN for one query. Differences are computed query by query, so that the difficulty of a query for
    all rankings cancels: their standard error is usually much smaller than that of the means.

    Parameters
    ----------
    names, measures : tuple of str
        Names of the rankings and of the measures.
    values : ndarray, shape (rankings, measures, queries)
        The measure on each query; NaN where it is not defined.
    baseline : str
        Name of the ranking that is subtracted in differences.

    Examples
    --------
    >>> from convexrank import metrics
    >>> y, qid = [1, 0, 0, 1, 2, 0], [7, 7, 7, 8, 8, 8]
    >>> found = metrics.table({"good": [3, 2, 1, 2, 3, 1], "bad": [1, 2, 3, 1, 2, 3]}, y, qid)
    >>> found.mean[:, -1].round(3).tolist()
    [1.0, 0.417]
    """

    names: tuple[str, ...]
    measures: tuple[str, ...]
    values: Array
    baseline: str

    @property
    def mean(self) -> Array:
        """Mean over the queries on which the measure is defined, shape (rankings, measures)."""
        return _mean(self.values)

    @property
    def counts(self) -> Array:
        """Number of queries on which the measure is defined, shape (rankings, measures)."""
        return (~np.isnan(self.values)).sum(axis=-1)

    @property
    def standard_error(self) -> Array:
        """Standard errors of the means, shape (rankings, measures)."""
        return _standard_error(self.values)

    @property
    def differences(self) -> Array:
        """Difference between each ranking and the baseline on each query, shape (rankings, measures, queries)."""
        return self.values - self.values[self.names.index(self.baseline)]

    @property
    def difference(self) -> Array:
        """Mean of the differences, shape (rankings, measures)."""
        return _mean(self.differences)

    @property
    def difference_error(self) -> Array:
        """Standard errors of the mean differences, shape (rankings, measures)."""
        return _standard_error(self.differences)

    def to_dict(self) -> dict[str, Any]:
        """Return all means, differences and errors by ranking and measure, as plain data for JSON."""
        parts = {
            "mean": self.mean,
            "standard_error": self.standard_error,
            "difference": self.difference,
            "difference_error": self.difference_error,
        }
        return {
            name: {
                measure: {
                    part: None if np.isnan(found[i, j]) else float(found[i, j])
                    for part, found in parts.items()
                }
                for j, measure in enumerate(self.measures)
            }
            for i, name in enumerate(self.names)
        }

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row for each ranking and measure."""
        rows = [
            {"ranking": name, "measure": measure, **numbers}
            for name, by_measure in self.to_dict().items()
            for measure, numbers in by_measure.items()
        ]
        return pandas().DataFrame(rows)

    def __str__(self) -> str:
        head = " " * _NAME + "".join(f"{_short(name, _CELL - 2):>{_CELL}}" for name in self.measures)
        lines = [f"{self.values.shape[2]} queries: mean over queries ± standard error", head]
        counts = self.counts.min(axis=0)
        if (counts < self.values.shape[2]).any():  # no query without a relevant row has an NDCG
            lines.append(f"{'queries with it':<{_NAME}}" + "".join(f"{count:>{_CELL}}" for count in counts))
        for i, name in enumerate(self.names):
            lines.append(_line(name, self.mean[i], self.standard_error[i], ".3f"))
        others = [i for i, name in enumerate(self.names) if name != self.baseline]
        if others:
            lines.append(f"difference to {self.baseline}, query by query ± standard error")
        for i in others:
            lines.append(_line(self.names[i], self.difference[i], self.difference_error[i], "+.3f"))
        return "\n".join(lines)


def table(
    scores: Mapping[str, Any],
    y: Any,
    qid: Any = None,
    *,
    measures: Mapping[str, Callable[..., Any]] | Sequence[str] | None = None,
    baseline: str | None = None,
) -> MetricsTable:
    """Compare rankings of the same queries: means with standard errors, and differences query by query.

    Parameters
    ----------
    scores : mapping of str to array-like, shape (n,)
        The scores of each ranking by its name; rows with higher scores are nearer the top.
    y : array-like, shape (n,)
        Grades; larger is more relevant.
    qid : array-like, shape (n,), QueryGroups or None
        The query of each row.
    measures : sequence of str, or mapping of str to callable, optional
        Names of measures by query, see :func:`named`, or functions ``f(y, s, qid, per_query=True)`` by name; by
        default NDCG at 5 and 10, mean average precision and mean reciprocal rank.
    baseline : str, optional
        The ranking that the others are compared with; the first by default.

    Returns
    -------
    MetricsTable
        Its string is the table; the attributes ``mean``, ``standard_error`` and ``difference`` have the numbers.

    Raises
    ------
    ValueError, TypeError
        When there is no ranking, lengths differ, data are not finite, the baseline is unknown, or a measure is defined
        on no query.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import metrics
    >>> rng = np.random.default_rng(0)
    >>> qid, y = np.repeat(np.arange(50), 20), rng.integers(0, 3, 1000)
    >>> good, poor = y + rng.normal(size=1000), y + 3 * rng.normal(size=1000)
    >>> print(metrics.table({"poor": poor, "good": good}, y, qid))
    50 queries: mean over queries ± standard error
                               NDCG@5        NDCG@10            MAP            MRR
    poor                0.600 ± 0.028  0.661 ± 0.020  0.815 ± 0.016  0.903 ± 0.030
    good                0.850 ± 0.019  0.875 ± 0.012  0.938 ± 0.008  1.000 ± 0.000
    difference to poor, query by query ± standard error
    good               +0.249 ± 0.034 +0.214 ± 0.023 +0.122 ± 0.015 +0.097 ± 0.030
    """
    if not isinstance(scores, Mapping):
        raise TypeError(
            f"scores is a {type(scores).__name__}, expected a dictionary of scores by name, such as {{'mine': s}}."
        )
    if not scores:
        raise ValueError("scores is empty, expected the scores of at least one ranking by its name.")
    listed = {f"scores[{name!r}]": given for name, given in scores.items()}
    check_same_index(y=y, qid=None if isinstance(qid, QueryGroups) else qid, **listed)
    grades = check_vector(y, name="y")
    groups = as_groups(qid, len(grades))
    chosen: Any = _MEASURES if measures is None else measures
    if isinstance(chosen, list | tuple) and all(isinstance(name, str) for name in chosen):
        try:
            chosen = {name: named(name, by_query=True) for name in chosen}
        except ValueError as error:
            raise ValueError(f"measures: {error}") from error
    if not isinstance(chosen, Mapping) or not chosen or not all(map(callable, chosen.values())):
        raise TypeError(
            f"measures is {shown(measures)}, expected names of measures, functions by name, or None."
        )
    names = {str(name): name for name in scores}
    if len(names) < len(scores):
        raise ValueError(f"scores has the names {shown(list(scores))}, expected names that read differently.")
    first = next(iter(names)) if baseline is None else baseline
    check_choice(first, names, "baseline")
    values = []
    for name, key in names.items():
        found = check_vector(scores[key], len(grades), f"scores[{name!r}]")
        values.append([measure(grades, found, groups, per_query=True) for measure in chosen.values()])
        lacking = [str(name) for name, each in zip(chosen, values[-1], strict=True) if np.isnan(each).all()]
        if lacking:
            raise ValueError(
                f"y has no query on which {lacking[0]} is defined for {name!r}; expected grades above 0 in some query, "
                "or measures with empty=0."
            )
    return MetricsTable(tuple(names), tuple(map(str, chosen)), np.array(values), first)


def _mean(values: Array) -> Array:
    known = ~np.isnan(values)
    count = known.sum(axis=-1)
    total = np.where(known, values, 0.0).sum(axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _standard_error(values: Array) -> Array:
    known = ~np.isnan(values)
    count = known.sum(axis=-1)
    squares = np.where(known, values - _mean(values)[..., None], 0.0) ** 2
    return np.where(
        count > 1, np.sqrt(squares.sum(axis=-1) / np.maximum(count - 1, 1) / np.maximum(count, 1)), np.nan
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _line(name: str, means: Array, errors: Array, form: str) -> str:
    cells = (f"{mean:{form}} ± {error:.3f}" for mean, error in zip(means, errors, strict=True))
    return f"{_short(name, _NAME - 1):<{_NAME}}" + "".join(f"{cell:>{_CELL}}" for cell in cells)
