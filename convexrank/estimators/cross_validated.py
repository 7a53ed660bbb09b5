"""Rankers that choose the strength of a penalty, p or the share that counts, by cross-validation along paths."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.model_selection import GroupKFold, check_cv

from convexrank.backend.design import held_as, in_units, moments
from convexrank.backend.interruption import as_a_whole
from convexrank.backend.progress import warn_caller
from convexrank.core.capabilities import Batched
from convexrank.core.many import solve_many
from convexrank.core.paths import Path, path
from convexrank.core.problem import Problem
from convexrank.core.results import ConvergenceWarning
from convexrank.data import (
    as_groups,
    check_choice,
    check_flag,
    check_integer,
    check_matrix,
    check_weights,
    shown,
)
from convexrank.data.checks.values import LARGEST_ENTRY
from convexrank.estimators._linear_ranker import SolvedRanker
from convexrank.estimators._objectives import push_on_means, several_queries
from convexrank.estimators.push import PushRanker
from convexrank.estimators.retargeting import RetargetingRanker
from convexrank.metrics import named

Array = np.ndarray
Fold = tuple[Array, Array]

# Most processes below those that a machine has, as joblib counts from -1 down.
_MOST = 10_000
# Parameters of a single fit.
_ONE_FIT = ("tie_break", "time_limit", "warm_start", "verbose")
# Rows times the square of columns up to which many l2 are solved together: then each solve takes less than what is
# done for it beside.
_TOGETHER = 4_000_000
# Parameters that are strengths of a penalty.
_STRENGTHS = ("l1", "l2", "alpha")
# Attributes that making a problem leaves on the estimator.
_LEFT = ("design_", "_with_rows", "_fitted_on_queries")


@dataclass(eq=False, repr=False, kw_only=True)
class PathSearch(SolvedRanker):
    """A ranker that chooses one of its parameters; mixed into one that says what problem it solves."""

    path: str = "l1"
    values: Any = "auto"
    n: int = 50
    ratio: float = 1e-2
    cv: Any = None
    scoring: Any = None
    standardize: bool = True
    n_jobs: int | None = None

    #: What a path may follow, by the name of the estimator's parameter: the name of the problem's.
    _PATHS: ClassVar[dict[str, str]] = {}

    # What the ranker states.
    _rows: ClassVar[Callable[..., Any]]
    _made: ClassVar[Callable[..., Any]]
    _measure: ClassVar[Callable[..., float]]
    _folds: ClassVar[Callable[..., list[Fold]]]

    @as_a_whole
    def fit(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> Self:
        """Solve along the path on all rows and on the rows of each fold; keep the value that is best on the others.

        Parameters
        ----------
        X, y, qid, sample_weight : arrays
            As for the ranker without cross-validation. Weights count in the fits, the scales and the default score.

        Raises
        ------
        ValueError, TypeError
            As there, with the number of the fold where one is at fault; when the path, its values, or the folds are not
            what was expected.
        KeyboardInterrupt
            When Ctrl-C is pressed, at the next step of the solve.

        Warns
        -----
        ConvergenceWarning
            When the certified gap at the chosen value did not meet ``tol``.
        """
        check_choice(self.path, self._PATHS, "path")
        for name in _ONE_FIT:
            value, default = getattr(self, name, None), getattr(type(self), name, None)
            if not (value is default or (isinstance(value, bool | int | str) and value == default)):
                raise ValueError(
                    f"{name} is {shown(getattr(self, name))}, which paths do not use, expected its default; pass it to "
                    "the ranker without cross-validation, fitted again with the chosen value."
                )
        check_flag(self.standardize, "standardize")
        if self.n_jobs is not None and not 0 < abs(check_integer(self.n_jobs, "n_jobs", -_MOST)) <= _MOST:
            raise ValueError(
                f"n_jobs is {self.n_jobs}, expected a number of processes, -1 for one per core, or None."
            )
        if held_as(X).sample:
            raise TypeError(
                f"X is {X!r}, rows out of memory, of which no folds are made; search on a sample in memory, "
                f"such as {held_as(X).sample}, and fit the ranker without cross-validation on all of them."
            )
        X, y = self._rows(X, y)
        weights = check_weights(sample_weight, len(y))
        qid = self._queries(qid, len(y))
        data, scoring = (X, y, qid, weights), _measure_of(self.scoring, qid)
        problem, scales, made = _problem_of(self, data)
        followed = _along(self, problem, self.values)
        vars(self).update({name: value for name, value in vars(made).items() if name in _LEFT})
        self.scores_ = np.array(self._judged(data, followed.values, scoring))
        means = self.scores_.mean(axis=0)
        if np.isnan(means).all():
            raise ValueError(
                "no value has a solution and a score in every fold: give larger values, or fewer folds."
            )
        best = int(np.nanargmax(means))
        self.path_ = replace(followed, metric=means)
        self.best_value_, self.best_score_ = followed.values[best].item(), float(means[best])
        solution = followed[best]
        if not solution.converged:
            warn_caller(f"{type(self).__name__}: {solution.message}", ConvergenceWarning)
        self._keep(solution)
        if scales is not None:
            self.coef_ = solution.x / scales
        return self

    def _queries(self, qid: Any, length: int) -> Array | None:
        """Return the number of the query of each row, in the order of the rows; None where none are given."""
        if qid is None:
            return None
        groups = as_groups(qid, length)
        return groups.spread(groups.query)

    def _judged(self, data: tuple[Any, ...], values: Array, scoring: Any) -> list[Array]:
        """Return the score of each value on the rows that a fold leaves out, one vector per fold."""
        from joblib import Parallel, delayed

        X, y, qid, _ = data
        known = np.asarray(y.tolist()) if y.dtype == object else y  # folds depend on the kind of labels
        try:
            folds = self._folds(X, known, qid)
        except (ValueError, TypeError) as error:  # scikit-learn's do not say what they are about
            own = str(error).startswith("cv ")
            raise error if own else type(error)(f"cv is {shown(self.cv)}: {error}") from error
        tasks = (delayed(_scores_of)(self, data, fold, values, scoring, k) for k, fold in enumerate(folds))
        found: Any = Parallel(n_jobs=self.n_jobs)(tasks)
        return list(found)


def _measure_of(scoring: Any, qid: Any) -> Any:
    """Return the function that judges scores, given itself or by name; None for that of the estimator."""
    if isinstance(scoring, str):
        return named(scoring, by_query=qid is not None)
    if scoring is not None and not callable(scoring):
        raise TypeError(
            f"scoring is {shown(scoring)}, expected a function of y and scores, the name of a measure such as "
            "'precision@100', or None."
        )
    return scoring


def checked_folds(folds: Any, rows: int, cv: Any) -> list[Fold]:
    """Return pairs of row numbers, or refuse what is none."""
    checked = []
    for fold in folds:
        pair = tuple(map(np.asarray, fold))
        if len(pair) != 2 or any(
            part.ndim != 1 or part.dtype.kind not in "iu" or not ((-rows <= part) & (part < rows)).all()
            for part in pair
        ):
            raise TypeError(
                f"cv is {shown(cv)}, expected a number of folds, a splitter, or pairs (train, test) of arrays of row "
                f"numbers below {rows}."
            )
        checked.append((pair[0], pair[1]))
    return checked


def _problem_of(model: PathSearch, data: tuple[Any, ...]) -> tuple[Any, Array | None, PathSearch]:
    """Return the problem on some rows, what columns were divided by, and the estimator that made it."""
    X, y, qid, weights = data
    made = copy.copy(model)
    # replaced along the path: a strength that is not 0, and of what an objective may lack the default
    default = getattr(type(model), model.path)
    setattr(made, model.path, 1.0 if model.path in _STRENGTHS else default)
    scales = None
    if model.standardize and model._is_linear:
        deviations = moments(check_matrix(X, most=LARGEST_ENTRY), weights)[1]
        scales = np.where(deviations > 0.0, deviations, 1.0)
    return made._made(_divided(X, scales), y, qid, weights), scales, made


def _along(model: PathSearch, problem: Problem, values: Any) -> Path:
    """Return the path."""
    options: dict[str, Any] = {model._PATHS[model.path]: values}
    return path(
        problem,
        n=model.n,
        ratio=model.ratio,
        solver=model.solver,
        tol=model.tol,
        max_iter=model.max_iter,
        **options,
    )


def _is_together(model: PathSearch, problem: Problem, values: Array) -> bool:
    """Return whether all values of l2 are solved together, and in less time than one after the other."""
    if model._PATHS[model.path] != "l2" or not (model.solver is None and model.max_iter is None):
        return False
    small = problem.rows * problem.dimension**2 <= _TOGETHER
    return small and problem.face(Batched).members(None, np.asarray(values)) is not None


def _scores_along(model: PathSearch, problem: Problem, values: Array, rows: Any) -> Any:
    """Return the scores of rows for each value, fewer where the path ends before."""
    if not _is_together(model, problem, values):
        return _along(model, problem, values).scores(rows)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        # as on a path, where the status of each point is kept and nobody is told
        found = solve_many(problem, l2=values, tol=model.tol)
    return found.coefficients @ rows.T


def _scores_of(
    model: PathSearch,
    data: tuple[Any, ...],
    fold: tuple[Array, Array],
    values: Array,
    scoring: Any,
    number: int,
) -> Array:
    """Return the score of each value of a path on the rows of one fold; NaN beyond the end of the path."""
    train, test = ([None if part is None else part[rows] for part in data] for rows in fold)
    found = np.full(len(values), np.nan)
    try:
        problem, scales, _ = _problem_of(model, tuple(train))
        X, y, qid, weights = test
        for place, scores in enumerate(_scores_along(model, problem, values, _divided(X, scales))):
            if scoring is None:
                found[place] = model._measure(y, scores, qid, weights)
            else:
                found[place] = scoring(y, scores) if qid is None else scoring(y, scores, qid)
    except ValueError as error:
        raise ValueError(f"fold {number} of cv: {error}") from error
    return found


def _divided(X: Any, scales: Array | None) -> Any:
    return X if scales is None else in_units(X, 1.0 / scales)


@dataclass(eq=False, repr=False)
class PushRankerCV(PathSearch, PushRanker):
    r"""A :class:`~convexrank.PushRanker` whose l1, l2, p, max_fpr, tau or spectrum is chosen by cross-validation.

    For each fold the problem is solved for all values on the training rows, each solve starting from the previous
    solution (:func:`convexrank.path`), or of l2 all together (:func:`convexrank.solve_many`) where rows and columns are
    few, and the solutions are evaluated on the rows that the fold leaves out. The value
    with the best mean score is chosen; among equal scores the strongest penalty, the smallest p, or the largest
    share. The path on all
    rows is kept, with a certified gap at each value.

    Parameters
    ----------
    objective, price, loss, min_tpr, bottom_weight, surrogate, beta, over, features, bins, monotone : optional
        As for :class:`~convexrank.PushRanker`. Not ``"rate_constrained"``, whose points have a threshold: search its
        rates and ``l2`` by ``GridSearchCV(PushRanker(objective="rate_constrained"), ...)``.
    min_recall, min_precision : optional
        Of no objective here.
    p, max_fpr, tau, spectrum, l2, l1, solver, tol, max_iter : optional
        As for :class:`~convexrank.PushRanker`; the value of the parameter that the path follows is not used.
    tie_break, time_limit, warm_start, verbose : optional
        Options of a single fit, which must have their defaults here.
    path : {"l1", "l2", "p", "max_fpr", "tau", "spectrum"}
        The parameter that is chosen; of spectra the share, or the number, of the highest negatives.
    values : sequence of float or "auto"
        The values of the parameter. For l1, ``"auto"`` means n values in geometric progression from the least value for
        which all weights are 0 down to ratio times that value.
    n, ratio : int, float
        For ``"auto"``, the number of values, and the smallest value divided by the largest.
    cv : int, splitter or iterable, optional
        The folds, as in scikit-learn; an integer, or None for five, stratifies by label, and with several queries is a
        number of folds of whole ones.
    scoring : str or callable, optional
        The name of a measure, such as ``"precision@100"`` (:func:`convexrank.metrics.named`), or a function
        ``scoring(y, scores)``, with several queries ``scoring(y, scores, qid)``, larger is better; by default the area
        under the ROC curve, as in :meth:`score`. A fold has fewer rows than there are: ``"precision@0.02"`` is of a
        share of them.
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

    _PATHS: ClassVar[dict[str, str]] = {
        name: name for name in ("l1", "l2", "p", "max_fpr", "tau", "spectrum")
    }
    _OTHERS: ClassVar[dict[str, Any]] = {"push": push_on_means}

    def _queries(self, qid: Any, length: int) -> Array | None:
        return None if several_queries(qid, length) is None else super()._queries(qid, length)

    def _folds(self, X: Any, y: Array, qid: Any) -> list[Fold]:
        if qid is not None:
            return _folds_of_queries(self, X, y, qid)
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
        return _folds_of_queries(self, X, y, qid)


def _folds_of_queries(model: PathSearch, X: Any, y: Array, qid: Any) -> list[Fold]:
    """Return folds of whole queries, each with some query to judge by."""
    count = 5 if model.cv is None else model.cv
    if isinstance(count, int | np.integer):
        groups = np.zeros(len(y)) if qid is None else qid
        if int(count) > (queries := len(np.unique(groups))):
            held = "all rows are one query" if queries == 1 else f"qid has {queries} queries"
            other = "qid, the query of each row" if queries == 1 else f"cv={queries}, or a splitter"
            raise ValueError(f"cv is {count}, but {held}, of which a fold needs one at least; pass {other}.")
        splitter: Any = GroupKFold(int(count))
    else:
        groups, splitter = qid, check_cv(count, y)
    folds = checked_folds(splitter.split(X, y, groups), len(y), model.cv)
    for number, (train, test) in enumerate(folds):
        if qid is not None and model.scoring is None and not _has_an_order(y[test], qid[test]):
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
