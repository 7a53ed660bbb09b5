"""Rankers that choose the strength of a penalty, p or the share that counts, by cross-validation along paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import GroupKFold, check_cv

from convexrank.estimators._objectives import push_on_means
from convexrank.estimators._path_search import Fold, PathSearch, checked_folds
from convexrank.estimators.push import PushRanker, check_one_query
from convexrank.estimators.retargeting import RetargetingRanker

Array = np.ndarray


@dataclass(eq=False, repr=False)
class PushRankerCV(PathSearch, PushRanker):
    r"""A :class:`~convexrank.PushRanker` whose l1, l2, p, max_fpr or tau is chosen by cross-validation.

    For each fold the problem is solved for all values on the training rows, each solve starting from the previous
    solution (:func:`convexrank.path`), or of l2 all together (:func:`convexrank.solve_many`) where rows and columns are
    few, and the solutions are evaluated on the rows that the fold leaves out. The value
    with the best mean score is chosen; among equal scores the strongest penalty, the smallest p, or the largest
    share. The path on all
    rows is kept, with a certified gap at each value.

    Parameters
    ----------
    objective, price, loss, min_tpr, spectrum, bottom_weight, surrogate, beta, over, features, bins, monotone : optional
        As for :class:`~convexrank.PushRanker`. Not ``"rate_constrained"``, whose points have a threshold: search its
        rates and ``l2`` by ``GridSearchCV(PushRanker(objective="rate_constrained"), ...)``.
    min_recall, min_precision : optional
        Of no objective here.
    p, max_fpr, tau, l2, l1, solver, tol, max_iter : optional
        As for :class:`~convexrank.PushRanker`; the value of the parameter that the path follows is not used.
    tie_break, time_limit, warm_start, verbose : optional
        Options of a single fit, which must have their defaults here.
    path : {"l1", "l2", "p", "max_fpr", "tau"}
        The parameter that is chosen.
    values : sequence of float or "auto"
        The values of the parameter. For l1, ``"auto"`` means n values in geometric progression from the least value for
        which all weights are 0 down to ratio times that value.
    n, ratio : int, float
        For ``"auto"``, the number of values, and the smallest value divided by the largest.
    cv : int, splitter or iterable, optional
        The folds, as in scikit-learn; an integer, or None for five, stratifies by label.
    scoring : str or callable, optional
        The name of a measure, such as ``"precision@100"`` (:func:`convexrank.metrics.named`), or a function
        ``scoring(y, scores)``, larger is better; by default the area under the ROC curve, as in :meth:`score`. A
        fold has fewer rows than there are: ``"precision@0.02"`` is of a share of them.
    standardize : bool
        For linear features, whether to divide each column by its standard deviation before the fit, computed from the
        training rows of each fold. Then l1, l2 and ``solution_`` refer to columns of unit scale, and ``coef_`` to the
        original columns.
    n_jobs : int, optional
        Number of processes for the folds, as in scikit-learn; they are spawned, not forked.

    Attributes
    ----------
    best_value_, best_score_ : float
        The chosen value and its mean score over the folds.
    scores_ : ndarray, shape (folds, m)
        The scores; NaN where the path of a fold ended early.
    path_ : Path
        The path on all rows; its metric is the mean score. ``path_.plot()`` draws it.
    coef_, design_, classes_, gap_, n_iter_, solution_, n_features_in_, feature_names_in_ : Any
        As for :class:`~convexrank.PushRanker`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from convexrank import PushRankerCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PushRankerCV(p=4, n=4, tol=1e-6, cv=3).fit(X[:, :10], y)
    >>> round(model.best_score_, 3), model.scores_.shape, len(model.path_)
    (0.985, (3, 4), 4)
    """

    _PATHS: ClassVar[dict[str, str]] = {name: name for name in ("l1", "l2", "p", "max_fpr", "tau")}
    _OTHERS: ClassVar[dict[str, Any]] = {"push": push_on_means}

    def _queries(self, qid: Any, length: int) -> None:
        check_one_query(qid, length)

    def _folds(self, X: Any, y: Array, qid: Any) -> list[Fold]:
        splitter: Any = check_cv(self.cv, y, classifier=True)
        return checked_folds(splitter.split(X, y), len(y), self.cv)


@dataclass(eq=False, repr=False)
class RetargetingRankerCV(PathSearch, RetargetingRanker):
    r"""A :class:`~convexrank.RetargetingRanker` whose l1 or alpha is chosen by cross-validation over queries.

    As :class:`~convexrank.PushRankerCV`, but folds consist of whole queries, and the default score is the NDCG that
    :meth:`score` returns.

    Parameters
    ----------
    divergence, margin, alpha, objective, reward, bound, target_reg, score_reg, l1, offsets, normalize : optional
        As for :class:`~convexrank.RetargetingRanker`; the value of the parameter that the path follows is not used.
    loss, target, gain, gamma, smoothing, ndcg_convention, ndcg_k, features, bins, monotone : optional
        As for :class:`~convexrank.RetargetingRanker`.
    solver, tol, max_iter : optional
        As for :class:`~convexrank.RetargetingRanker`.
    time_limit, warm_start, verbose : optional
        Options of a single fit, which must have their defaults here.
    path : {"l1", "alpha"}
        The parameter that is chosen.
    values, n, ratio, standardize, n_jobs : optional
        As for :class:`~convexrank.PushRankerCV`.
    cv : int, splitter or iterable, optional
        The folds, as in scikit-learn; an integer, or None for five, is a number of folds of whole queries.
    scoring : str or callable, optional
        The name of a measure by query, such as ``"ndcg@10"``, or a function ``scoring(y, scores, qid)`` with the
        numbers of the queries, larger is better; by default the NDCG of :meth:`score`.

    Attributes
    ----------
    best_value_, best_score_, scores_, path_ : Any
        As for :class:`~convexrank.PushRankerCV`.
    coef_, design_, gap_, n_iter_, solution_, n_features_in_, feature_names_in_ : Any
        As for :class:`~convexrank.RetargetingRanker`.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import RetargetingRankerCV
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(120, 8)), np.repeat(np.arange(12), 10)
    >>> y = np.clip(np.round(X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=120)), 0, 2)
    >>> model = RetargetingRankerCV(n=3, tol=1e-6, cv=3).fit(X, y, qid)
    >>> round(model.best_score_, 2), model.scores_.shape
    (0.96, (3, 3))
    """

    _PATHS: ClassVar[dict[str, str]] = {"l1": "l1", "alpha": "l2"}

    def _folds(self, X: Any, y: Array, qid: Any) -> list[Fold]:
        count = 5 if self.cv is None else self.cv
        if isinstance(count, int | np.integer):
            groups = np.zeros(len(y)) if qid is None else qid
            if int(count) > (queries := len(np.unique(groups))):
                held = "all rows are one query" if queries == 1 else f"qid has {queries} queries"
                other = "qid, the query of each row" if queries == 1 else f"cv={queries}, or a splitter"
                raise ValueError(
                    f"cv is {count}, but {held}, of which a fold needs one at least; pass {other}."
                )
            splitter: Any = GroupKFold(int(count))
        else:
            groups, splitter = qid, check_cv(count, y)
        folds = checked_folds(splitter.split(X, y, groups), len(y), self.cv)
        for number, (train, test) in enumerate(folds):
            if qid is not None and self.scoring is None and not _has_an_order(y[test], qid[test]):
                raise ValueError(
                    f"fold {number} of cv: no query to judge by has two rows of different grades, so that all rankings "
                    "score the same. Pass fewer folds, or a splitter that spreads such queries."
                )
            if qid is not None and np.isin(qid[test], qid[train]).any():
                raise ValueError(
                    f"cv cuts a query in fold {number}, which fits some of its documents and judges others. Pass a "
                    "number of folds, or a splitter of groups such as GroupKFold."
                )
        return folds


def _has_an_order(y: Array, qid: Array) -> bool:
    """Return whether some query has rows of different grades."""
    queries, grades = (np.unique(values, return_inverse=True)[1] for values in (qid, y))
    return len(np.unique(np.c_[queries, grades], axis=0)) > len(np.unique(queries))
