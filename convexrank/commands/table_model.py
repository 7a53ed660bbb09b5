"""A ranker of the rows of a table, as the commands keep it: labels and the one put first, the encoder, the weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import joblib
import numpy as np
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from convexrank.commands.outcome import LENGTH
from convexrank.data import check_choice, check_integer, did_you_mean, shown
from convexrank.data.display import counted
from convexrank.estimators import PushRanker, TableEncoder
from convexrank.estimators.tables import is_gap
from convexrank.inference import Interval, auc_interval, precision_at_interval
from convexrank.metrics import precision_at

Array = np.ndarray
Columns = dict[str, Array]

# The words for yes that say by themselves which rows are wanted, each with its no.
_YES = {"yes": "no", "y": "n", "true": "false", "t": "f"}


@dataclass(frozen=True)
class Labels:
    """A column of labels, the value of wanted rows, and all values that it had in the fit."""

    column: str
    positive: str
    known: tuple[str, ...]

    @classmethod
    def of(cls, columns: Columns, column: str, positive: str | None) -> Self:
        """Read the labels of the rows of a fit.

        Raises
        ------
        ValueError
            When there is no such column, a row has no label, all have the same, two are the same but for spelling, or
            it has to be said which is wanted.
        """
        known = np.unique(labels_of(columns, column)).tolist()
        _refuse_twins(column, known)
        if len(known) < 2:
            raise ValueError(
                f"{column} is {known[0]!r} in all of the {len(columns[column])} rows, expected two values or more; "
                "there is nothing to learn from one."
            )
        if positive is not None:
            return cls(column, check_choice(positive, {k: k for k in known}, "positive"), tuple(known))
        wanted = _says_yes(known)
        if wanted is None:
            raise ValueError(
                f"{column} has {len(known)} values, {shown(known[:5])}, expected two numbers, or yes and no; say which "
                "is to come first, above all others: positive=VALUE (--positive VALUE)."
            )
        return cls(column, wanted, tuple(known))

    def wanted(self, columns: Columns) -> Array:
        """Return which rows have the value that is put first.

        Raises
        ------
        ValueError
            When a row has no label, or, of two values in the fit, another.
        """
        found = labels_of(columns, self.column)
        strange = sorted(set(found.tolist()) - set(self.known))
        if strange and len(self.known) == 2:
            raise ValueError(
                f"{self.column} has {shown(strange[:5])} in {int(np.isin(found, strange).sum())} of {len(found)} rows, "
                f"expected {shown(list(self.known))} as in the fit; write the labels alike."
            )
        return found == self.positive

    def to_measure(self, columns: Columns, top: int | None, where: str) -> tuple[Array, int]:
        """Return which rows are wanted, and the length of the list that is measured on them.

        Where none is given it is LENGTH, or of fewer rows as many as are wanted.

        Raises
        ------
        ValueError
            When there are no labels, fewer rows than the list is to have, or one class.
        """
        if self.column not in columns:
            raise ValueError(
                f"label is {self.column!r}{did_you_mean(self.column, columns)}, which is no column of {where}; "
                "expected the labels there, to measure a list (`convexrank predict` ranks rows without)."
            )
        y = self.wanted(columns)
        if not 0 < y.sum() < len(y):
            raise ValueError(
                f"{self.column} is {self.positive!r} in {int(y.sum())} of {len(y)} rows ({where}), expected some, and "
                "not all, to measure a list; take a table with rows of both kinds (of a fit: --test TABLE)."
            )
        if top is None:
            return y, LENGTH if len(y) >= LENGTH else int(y.sum())
        top = check_integer(top, "top", 1)
        if top > len(y):
            raise ValueError(
                f"top is {top}, expected at most the number of rows, {len(y)} ({where}): --top {len(y)}."
            )
        return y, top


def _says_yes(known: list[str]) -> str | None:
    """Return the larger of two numbers, or yes of yes and no; None where labels do not say it."""
    if len(known) != 2:
        return None
    try:
        return max(known, key=float)
    except ValueError:
        pairs = (known, known[::-1])
        return next((yes for yes, no in pairs if _YES.get(yes.lower()) == no.lower()), None)


def _refuse_twins(column: str, known: list[str]) -> None:
    """Refuse labels such as Yes and yes, or 1 and 1.0."""
    first: dict[Any, str] = {}
    for label in known:
        twin = first.setdefault(_meant(label), label)
        if twin != label:
            raise ValueError(
                f"{column} has {twin!r} and {label!r}, expected one spelling of each label; write them alike."
            )


def _meant(label: str) -> float | str:
    try:
        return float(label)
    except ValueError:
        return label.casefold()


def labels_of(columns: Columns, label: str) -> Array:
    """Return the column of labels as strings; a gap is refused, but "none" may be a label."""
    check_choice(label, dict.fromkeys(columns), "label")
    missing = [
        place for place, entry in enumerate(columns[label]) if is_gap(entry) and str(entry).lower() != "none"
    ]
    if missing:
        raise ValueError(
            f"{label} has no value in {counted(len(missing), 'rows')}, the first is row {missing[0] + 1}, with "
            f"{columns[label][missing[0]]!r}; expected a label in each: leave out the rows without."
        )
    return columns[label].astype(str)


# What a search tries; p = 1 is bipartite ranking without a push, and other objectives have no p.
_SEARCHED = {"p": [1.0, 4.0, 16.0], "l2": [1e-4, 1e-3, 1e-2, 1e-1]}
_FOLDS = 5


@dataclass(frozen=True)
class TableModel:
    """A fitted ranker of rows, and which value of which column it puts first."""

    labels: Labels
    encoder: TableEncoder
    ranker: PushRanker
    baseline: LogisticRegression
    chosen: dict[str, float] = field(default_factory=dict)

    def scores(self, columns: Columns) -> Array:
        """Return the scores of rows."""
        return np.asarray(self.ranker.predict(self.encoder.transform(columns)))

    def scores_of_baseline(self, columns: Columns) -> Array:
        """Return the scores of rows by logistic regression."""
        return np.asarray(self.baseline.decision_function(self.encoder.transform(columns)))

    def contributions(self, columns: Columns) -> dict[str, Array]:
        """Return what each column adds to the scores of rows."""
        return self.encoder.contributions(self.ranker.coef_, columns)

    def spreads(self, columns: Columns) -> dict[str, float]:
        """Return the standard deviation over rows of what each column adds to scores, the largest first."""
        spreads = {name: float(np.std(part)) for name, part in self.contributions(columns).items()}
        return dict(sorted(spreads.items(), key=lambda item: -item[1]))


@dataclass(frozen=True)
class Measured:
    """A model on rows that it was not fitted to, beside logistic regression on the same features."""

    rows: int
    positives: int
    top: int
    precision: Interval
    auc: Interval
    baseline: float
    only_here: int
    only_there: int

    @property
    def p_value(self) -> float:
        """Return the p-value of a sign test on the wanted rows that only one of the lists has."""
        count = self.only_here + self.only_there
        return float(binomtest(self.only_here, count).pvalue) if count else 1.0


def fitted(
    columns: Columns,
    labels: Labels,
    encoder: TableEncoder,
    options: dict[str, Any],
    share: float | None = None,
) -> TableModel:
    """Fit the ranker and logistic regression to rows with a label.

    With a share, p and l2 that are no options are chosen by the precision of so long lists in five folds.
    """
    y, features = labels.wanted(columns), without(columns, labels.column)
    if not features:
        raise ValueError(f"the table has no column beside {labels.column}, expected columns to learn from.")
    encoded = encoder.fit(features).transform(features)
    baseline = LogisticRegression(max_iter=1000).fit(encoded, y)
    ranker: Any = PushRanker(**options)
    given = {*options, "p"} if {"objective", "price"} & set(options) else set(options)
    grid = {name: values for name, values in _SEARCHED.items() if name not in given}
    if share is not None and grid:
        fewest = int(min(y.sum(), len(y) - y.sum()))
        if fewest < _FOLDS:
            raise ValueError(
                f"a search has {fewest} rows of one kind of label, expected {_FOLDS} or more, one for each fold; leave "
                "--search out, or take more rows."
            )
        measure = make_scorer(precision_at, k=min(share, 1.0))
        found = GridSearchCV(ranker, grid, scoring=measure, cv=StratifiedKFold(_FOLDS)).fit(encoded, y)
        return TableModel(labels, encoder, found.best_estimator_, baseline, found.best_params_)
    return TableModel(labels, encoder, ranker.fit(encoded, y), baseline)


def measured(model: TableModel, columns: Columns, y: Array, top: int) -> Measured:
    """Measure a model on rows of which y says whether they are wanted."""
    scores, others = model.scores(columns), model.scores_of_baseline(columns)
    first, second = (np.argsort(-values, kind="stable")[:top] for values in (scores, others))
    return Measured(
        len(y),
        int(y.sum()),
        top,
        precision_at_interval(y, scores, top),
        auc_interval(y, scores),
        precision_at(y, others, top),
        int(y[np.setdiff1d(first, second)].sum()),
        int(y[np.setdiff1d(second, first)].sum()),
    )


def without(columns: Columns, label: str) -> Columns:
    """Return all columns but one."""
    return {name: column for name, column in columns.items() if name != label}


def load(path: str) -> TableModel:
    """Read a model.

    Raises
    ------
    ValueError
        When the file holds something else.
    """
    try:
        found = joblib.load(path)
    except OSError:
        raise
    except Exception as error:
        raise ValueError(
            f"{path} is no model of `convexrank fit --save` ({type(error).__name__}: {error})."
        ) from error
    if not isinstance(found, TableModel):
        raise ValueError(
            f"{path} holds a {type(found).__name__}, expected a model of `convexrank fit --save`."
        )
    return found
