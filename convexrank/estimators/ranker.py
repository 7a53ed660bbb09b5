"""Any formulation that is declared as an expression, as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, MISSING, dataclass, fields
from typing import Any, Self

import numpy as np
from sklearn.utils import ClassifierTags, Tags

from convexrank.data import check_choice, check_kind, check_weights, shown
from convexrank.estimators._linear_ranker import SolvedRanker
from convexrank.estimators._objectives import (
    PASSED,
    check_queries,
    formulation_of,
    mean_order,
    names_of,
    own_fields,
    queries_of,
    refuse_unscored,
)
from convexrank.problems._formulation import Formulation

Array = np.ndarray

_NESTED = "formulation__"


@dataclass(eq=False, repr=False)
class Ranker(SolvedRanker):
    r"""Linear ranker that minimises a risk of your own, as a scikit-learn estimator.

    .. math:: \min_w \; R(Xw) + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1

    The risk R is that of a class derived from :class:`convexrank.Formulation`, your own or one of
    :mod:`convexrank.problems`, for two classes or grades, with or without queries. There is no intercept: a risk of
    score differences does not see one. ``predict`` returns scores, and only their order within a query is meaningful.

    Parameters of the class are parameters of the estimator as well, with ``formulation__`` before the name:
    ``set_params(formulation__count=5)`` in the place of ``params={"count": 5}``, and
    ``{"ranker__formulation__count": [5, 10]}`` in the grid of a search over a pipeline.

    In a search over folds, rows of one query must stay together and each fold needs its ``qid``: ``GroupKFold`` with
    the queries as groups, and metadata routing, as for :class:`~convexrank.RetargetingRanker`.

    Parameters
    ----------
    formulation : type or str
        A class derived from :class:`convexrank.Formulation`; for pickles, define it in a module that can be imported.
        One of the package also by its name in lower case, as ``"list_net"`` for ListNet.
    params : dict, optional
        The parameters of the class, by name; its defaults hold for the others.
    l2, l1 : float
        Strengths :math:`\lambda_2, \lambda_1` of the penalties, for features of about unit scale. The risk is a sum
        over queries: with more queries the same ``l2`` has less effect.
    features : {"linear", "thresholds", "products"}
        The columns with weights: the features, all thresholds of them (:class:`~convexrank.features.Thresholds`), or
        thresholds and products of two (:class:`~convexrank.features.Products`).
    bins : int, optional
        Largest number of thresholds of one feature: 256 by default, and 12 in products.
    monotone : dict, optional
        With thresholds: features, by name or number, in which scores must increase (1) or decrease (−1).
    solver : None, str or solver object
        As for :meth:`convexrank.Problem.solve`; None takes the default for the problem.
    tol : float
        Largest allowed certified gap, relative to max(1, \|objective\|).
    max_iter : int, optional
        Largest number of iterations; by default that of the solver.
    time_limit : float, optional
        Largest number of seconds of the solve; then the best point so far is kept, with its gap and a warning.
    warm_start : bool
        Whether to start from the weights of the previous fit, if their number fits; same answer up to ``tol``.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    coef_ : ndarray, shape (d,)
        The weights w: one per feature, or per column of ``design_``.
    design_ : Thresholds or Stacked
        With thresholds or products: the levels of the features, without rows.
    shapes_ : Shapes
        With thresholds or products: the functions of the features whose sum is the score.
    feature_importances_ : ndarray, shape (n_features,)
        Standard deviation, over the rows of fit, of what each feature adds to the scores.
    gap_, n_iter_, solution_ : float, int, Solution
        Certified bound on objective − optimum, number of iterations, and the full solution.
    n_features_in_ : int
        The number of columns of X.
    feature_names_in_ : ndarray of str
        The names of the columns, when X had names that are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV, StratifiedKFold
    >>> import convexrank as cr
    >>> from convexrank.modelling import log_mean_exp, mean_of_highest
    >>> class Top(cr.Formulation):
    ...     count: int = 10
    ...     def risk(self, f):
    ...         return log_mean_exp(-f.positive) + mean_of_highest(f.negative, self.count)
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 3))
    >>> y = X[:, 0] + 0.5 * rng.normal(size=120) > 0.5
    >>> search = GridSearchCV(cr.Ranker(Top), {"formulation__count": [1, 5, 20]}, cv=StratifiedKFold(3)).fit(X, y)
    >>> search.best_estimator_.coef_.shape, round(float(search.best_score_), 2)
    ((3,), 0.97)
    """

    formulation: Any = None
    params: Any = None
    _: KW_ONLY
    l2: float = 1e-2
    l1: float = 0.0

    def __sklearn_tags__(self) -> Tags:
        """Describe the estimator to scikit-learn: as all rankers, and y with two values suits every formulation."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, those of the formulation as ``formulation__name`` if ``deep``."""
        found = super().get_params(deep=deep)
        given = self.params if isinstance(self.params, dict) else {}
        for name, one in own_fields(self.formulation).items() if deep else ():
            default = one.default if one.default_factory is MISSING else one.default_factory()
            if (value := given.get(name, default)) is not MISSING:
                found[_NESTED + name] = value
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the formulation by ``formulation__name``.

        Parameters
        ----------
        **params : Any
            The parameters by name.

        Raises
        ------
        ValueError
            When a name is no parameter of the estimator or the formulation.
        """
        nested = {
            name.removeprefix(_NESTED): value for name, value in params.items() if name.startswith(_NESTED)
        }
        super().set_params(**{name: value for name, value in params.items() if not name.startswith(_NESTED)})
        if nested:
            for name in nested:
                check_choice(name, own_fields(self.formulation), f"a parameter in {_NESTED}...")
            self.params = {**(self.params or {}), **nested}  # a dictionary of the caller stays as it is
        return self

    def fit(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None, group: Any = None) -> Self:
        """Fit the weights.

        Parameters
        ----------
        X : array or sparse matrix, shape (n, d)
            One row for each example or document. Sparse X stays sparse.
        y : array, shape (n,)
            Two classes of any kind, of which the larger is the positive one, or grades, as the formulation needs.
        qid : array of int or str, shape (n,), QueryGroups, or None
            The query of each row, in any order; None is one query.
        sample_weight : array, shape (n,), optional
            Weights of rows, which means and totals of the risk take; a row of weight 0 is left out.
        group : array of int, shape (number of queries,), optional
            In the place of qid the sizes of the queries, whose rows follow one another, as in LightGBM.

        Raises
        ------
        ValueError, TypeError
            When the data are not finite and real, lengths differ, no query has two labels, the risk is not convex by
            its form, or a parameter is out of range. In a search that does not route ``qid`` to the score.

        Warns
        -----
        ConvergenceWarning
            When the certified gap did not meet ``tol``.
        """
        refuse_unscored(qid)
        params = self._checked_params()
        X, y = self._validated(X, y, ensure_min_samples=2)
        qid, weights = queries_of(qid, group, len(y)), check_weights(sample_weight, len(y))
        self._fitted_on_queries = qid is not None
        rows = self._designed(X, weights)
        kind = formulation_of(self.formulation)
        if weights is not None:
            if "sample_weight" not in {one.name for one in fields(kind)}:
                raise ValueError(
                    f"sample_weight is given, but {kind.__name__} has no weights of rows; leave it out."
                )
            params = {**params, "sample_weight": weights}
        problem = kind(rows, y, qid=qid, l2=self.l2, l1=self.l1, **params)
        return self._keep(self._solved(problem, self.solver))

    def _checked_params(self) -> dict[str, Any]:
        """Return the parameters of the formulation; refuse what is no formulation, and unknown names."""
        known, kind = own_fields(self.formulation), formulation_of(self.formulation)
        if isinstance(self.formulation, str):
            kind = kind or check_choice(self.formulation, names_of(Formulation), "formulation")
        if kind is None:
            raise TypeError(
                f"formulation is {shown(self.formulation)}, expected a class derived from convexrank.Formulation: "
                "class Mine(cr.Formulation) with a method risk(self, f), then Ranker(Mine)."
            )
        if self.params is None:
            return {}
        check_kind(self.params, "params", dict, f"a dictionary of the parameters of {kind.__name__}, by name")
        for name in self.params:
            if name in PASSED:
                raise ValueError(
                    f"params has {name!r}, which is an argument of Ranker or of fit; pass it there."
                )
            check_choice(name, known, "a name in params")
        return self.params

    def score(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None, group: Any = None) -> float:
        r"""Return the share of pairs with different labels that are in the right order; a tie counts one half.

        .. math:: \frac{\sum_{y_i>y_j} v_i v_j\,(1[f_i>f_j]+\frac12 1[f_i=f_j])}{\sum_{y_i>y_j} v_i v_j}

        over pairs of rows of one query with row weights v, ones by default, and the mean of that over the queries with
        such pairs; larger is better. With one query of two classes it is the area under the ROC curve.

        Parameters
        ----------
        X, y, qid, sample_weight, group : arrays
            As in :meth:`fit`; qid may be None only if it was None in fit. The weights are v.

        Raises
        ------
        ValueError
            When ``qid`` is missing although fit had one, lengths differ, or no query has two labels.
        """
        scores = self.decision_function(X)
        qid = queries_of(qid, group, len(scores))
        check_queries(qid, self._fitted_on_queries)
        labels = np.asarray(y)
        if labels.shape != scores.shape:
            raise ValueError(
                f"y has shape {labels.shape}, expected {scores.shape}, one label for each row of X."
            )
        weights = check_weights(sample_weight, len(scores))
        return mean_order(labels, scores, qid, weights)
