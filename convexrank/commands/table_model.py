"""A ranker of the rows of a table, as the commands keep it: the label, the encoder and the weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import joblib
import numpy as np
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from convexrank.commands.table_labels import Columns, Labels
from convexrank.estimators import PushRanker, TableEncoder
from convexrank.inference import Interval, auc_interval, precision_at_interval
from convexrank.metrics import precision_at

# What a search tries; p = 1 is bipartite ranking without a push, and other objectives have no p.
_SEARCHED = {"p": [1.0, 4.0, 16.0], "l2": [1e-4, 1e-3, 1e-2, 1e-1]}
_FOLDS = 5

Array = np.ndarray


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
    return Measured(
        len(y),
        int(y.sum()),
        top,
        precision_at_interval(y, scores, top),
        auc_interval(y, scores),
        precision_at(y, others, top),
        *_only_one_has(y, scores, others, top),
    )


def _only_one_has(y: Array, scores: Array, others: Array, top: int) -> tuple[int, int]:
    """Return how many wanted rows only the first list has, and how many only the second."""
    first, second = (np.argsort(-values, kind="stable")[:top] for values in (scores, others))
    return int(y[np.setdiff1d(first, second)].sum()), int(y[np.setdiff1d(second, first)].sum())


def without(columns: Columns, label: str) -> Columns:
    """Return all columns but one."""
    return {name: column for name, column in columns.items() if name != label}


def save(model: TableModel, path: str) -> None:
    """Write a model by joblib."""
    joblib.dump(model, path)


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
