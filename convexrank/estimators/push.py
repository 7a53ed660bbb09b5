"""The push family as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import ClassifierTags, Tags

from convexrank.backend.interruption import as_a_whole
from convexrank.backend.progress import warn_caller
from convexrank.core.capabilities import Advice
from convexrank.core.problem import Problem
from convexrank.core.results import ConvergenceWarning
from convexrank.data import QueryGroups, check_binary_labels, check_choice, check_weights
from convexrank.estimators._linear_ranker import SolvedRanker, own_parameters
from convexrank.estimators._objectives import (
    check_formulation,
    check_queries,
    feasible_rates,
    given_to,
    mean_order,
    push_on_means,
    refuse_unscored,
    several_queries,
)
from convexrank.estimators.held_out import checksum, promised_threshold
from convexrank.inference import Threshold
from convexrank.metrics import auc
from convexrank.problems import RateConstrained, RmaxPush, TopPush
from convexrank.problems.bipartite._base import Bipartite

Array = np.ndarray


@dataclass(eq=False, repr=False)
class PushRanker(SolvedRanker):
    r"""Linear ranker for binary labels that concentrates on the top of the list, as a scikit-learn estimator.

    It fits a linear score f = Xw, without an intercept (which would cancel in every pair), by minimising

    .. math::
        R(Xw) + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1 .

    With I positives i and K negatives k, the risk R of ``objective="push"`` is

    ================================== ======================================================================
    arguments                          R
    ================================== ======================================================================
    ``loss="exponential"``             :class:`~convexrank.problems.PNormPush`:
                                       :math:`\frac1p\log\frac1K\sum_k(\frac1I\sum_i e^{-(f_i-f_k)})^p`
    the same, ``p=inf``                :class:`~convexrank.problems.TopPush`, the limit
    another loss                       :class:`~convexrank.problems.Push` on means:
                                       :math:`\frac1K\sum_k(\frac1I\sum_i \ell(f_i-f_k))^p`
    the same, ``p=inf``                :class:`~convexrank.problems.RmaxPush`
    ``price=g``                        :class:`~convexrank.problems.Push`, outer mean:
                                       :math:`\frac1K\sum_k g(\sum_i \ell(f_i-f_k))`
    ================================== ======================================================================

    Other objectives are the formulations for two classes, by the name of the class in lower case: ``"partial_auc"`` is
    :class:`~convexrank.problems.PartialAUC`, ``"spectral_push"`` :class:`~convexrank.problems.SpectralPush`. They take
    those of the following parameters that the class has; :doc:`/best_of_a_list` compares them.
    ``"rate_constrained"`` is :class:`~convexrank.problems.RateConstrained`: a threshold belongs to its scores, and the
    rule "score above threshold" keeps the rate on the rows of the fit.

    With means over pairs, l2 and l1 keep their meaning when the number of rows changes, as in cross-validation.

    With several queries in ``qid`` the risk is the sum of those of the queries, each with its own positives and
    negatives: with more queries the same ``l2`` has less effect. In a search over folds, rows of one query stay
    together and each fold needs its ``qid``: as for :class:`~convexrank.RetargetingRanker`.

    A ranker is not a classifier: the objective does not define a threshold between the classes, so ``predict`` returns
    scores, as in the rankers of LightGBM and XGBoost. Two consequences: First, scikit-learn does not stratify folds by
    itself. Pass ``cv=StratifiedKFold(...)`` when positives are few or the rows are sorted by label. Second, any measure
    of a ranking can be a scorer, as in ``scoring=cr.metrics.scorer("precision@0.01")``; scikit-learn's names such as
    ``"roc_auc"``, which require a classifier, are accepted for rankers from scikit-learn 1.9 on.

    Parameters
    ----------
    p : float
        The power p of the push, greater than 0. With ``inf`` only the highest negative has a cost; p = 1 is RankBoost's
        objective. A loss other than the exponential needs p ≥ 1. Not used together with a price.
    objective : str
        ``"push"`` for the table above, the name of a formulation for two classes, or ``"rate_constrained"``.
    price : Price, float or str, optional
        A price g from :mod:`convexrank.prices`, applied to the sum over positives as in the paper.
    loss : Loss or str, optional
        ``"exponential"``, ``"logistic"``, ``"hinge"``, ``"squared_hinge"`` or a loss object; by default the exponential
        for a push, and that of the class for other objectives.
    max_fpr, min_recall, min_precision, min_tpr, spectrum, bottom_weight, tau, surrogate, beta, over : optional
        Parameters of other objectives, as in their classes; by default those of the class. A rate as a constraint needs
        exactly one of the first three, ``l2`` above 0, and rows in memory.
    l2, l1 : float
        Strengths :math:`\lambda_2, \lambda_1` of the penalties, for features of about unit scale: standardise first. If
        both are zero, separable data have no minimiser; fit then warns and keeps the separating direction.
    features : {"linear", "thresholds", "products"}
        The columns with weights: the features, all thresholds of them (:class:`~convexrank.features.Thresholds`), or
        thresholds and products of two (:class:`~convexrank.features.Products`). Scores are then piecewise constant in
        each feature or pair, X is dense, NaN has a separate level, and ``l1`` makes most weights 0. With thresholds,
        columns of a data frame with texts or of a categorical type are categories, each value with a weight.
    bins : int, optional
        Largest number of thresholds of one feature: 256 by default, and 12 in products.
    monotone : dict, optional
        With thresholds: features, by name or number, in which scores must increase (1) or decrease (−1).
    tie_break : {None, "limit"}
        With p = ∞ the minimum is often w = 0, and a fit warns. ``"limit"`` then returns the limit of the solutions'
        directions as p grows; see :meth:`TopPush.at_limit <convexrank.problems.TopPush.at_limit>`.
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
    classes_ : ndarray, shape (2,)
        The two labels, sorted; the second is the positive class.
    positive_class_ : label
        The label of the positive class, the larger of the two labels.
    threshold_ : float
        With ``objective="rate_constrained"``: rows with a higher score are predicted positive.
    rates_ : Rates
        With it: false positive rate, recall and precision of that rule on the rows of fit.
    gap_, n_iter_, solution_ : float, int, Solution
        Certified bound on objective − optimum, number of iterations, and the full solution;
        ``solution_.certificate`` names the kind of the bound.
    n_features_in_ : int
        The number of columns of X.
    feature_names_in_ : ndarray of str
        The names of the columns, when X had names that are all strings.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), sections 2 and 5.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import GridSearchCV, StratifiedKFold
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from convexrank import PushRanker
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), PushRanker())
    >>> search = GridSearchCV(model, {"pushranker__p": [1, 8]}, cv=StratifiedKFold(3)).fit(X[:, :6], y)
    >>> round(float(search.best_score_), 2)
    0.98
    """

    p: float = 4.0
    _: KW_ONLY
    objective: Any = "push"
    price: Any = None
    loss: Any = None
    max_fpr: float | None = None
    min_recall: float | None = None
    min_precision: float | None = None
    min_tpr: float | None = None
    spectrum: Any = None
    bottom_weight: float | None = None
    tau: float | None = None
    surrogate: Any = None
    beta: float | None = None
    over: str | None = None
    l2: float = 1e-2
    l1: float = 0.0
    tie_break: Any = None

    #: What is no formulation for two classes by itself.
    _OTHERS: ClassVar[dict[str, Any]] = {"push": push_on_means, "rate_constrained": feasible_rates}

    def __sklearn_tags__(self) -> Tags:
        """Describe the estimator to scikit-learn: as all rankers, and y is binary."""
        tags = super().__sklearn_tags__()
        # scikit-learn has no tag for rankers; this is its one way to say "y has two values". estimator_type, which
        # is_classifier reads, stays None.
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags

    @as_a_whole
    def fit(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> Self:
        """Fit the weights.

        Parameters
        ----------
        X : array, sparse matrix, Chunks or DaskRows, shape (n, d)
            One row for each example. Sparse X stays sparse; :class:`~convexrank.data.Chunks` stay out of memory,
            :class:`~convexrank.data.DaskRows` on the workers of Dask, for the solvers that need products alone.
        y : array, shape (n,)
            Two classes: {0, 1}, {−1, +1}, booleans, or two strings; the larger is the positive class.
        qid : array, shape (n,), optional
            Query of each row, in any order: each query is a list of its own. One that lacks a class contributes
            nothing. None is one list.
        sample_weight : array, shape (n,), optional
            Weights of rows; a row of weight 2 counts as two rows, a row of weight 0 is left out.

        Raises
        ------
        ValueError, TypeError
            When the data are not finite and real, lengths differ, y does not have two classes, no query has both, a
            parameter is out of range, or no point satisfies a constraint (INFEASIBLE, with what proves it).
        KeyboardInterrupt
            When Ctrl-C is pressed, at the next step of the solve.

        Warns
        -----
        ConvergenceWarning
            When the certified gap did not meet ``tol``.
        """
        if self.tie_break is not None:
            check_choice(self.tie_break, {"limit": ""}, "tie_break")
        X, y = self._rows(X, y)
        problem = self._made(X, y, qid, sample_weight)
        for name in ("threshold_", "rates_"):  # of an earlier fit
            vars(self).pop(name, None)
        if isinstance(problem, RateConstrained):
            solution = self._solved(problem, self.solver)
            self._keep(solution, solution.x[:-1])
            self.threshold_ = float(solution.x[-1])
            self.rates_ = problem.rates(self.solution_)
            return self
        if self.tie_break is None or not isinstance(problem, TopPush | RmaxPush):
            return self._keep(self._solved(problem, self.solver))
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            solution = self._solved(problem, self.solver)
        if problem.face(Advice).remark(solution):
            return self._keep(self._solved(problem.at_limit()))
        if not solution.converged:
            warn_caller(f"{type(self).__name__}: {solution.message}", ConvergenceWarning)
        return self._keep(solution)

    def _rows(self, X: Any, y: Any) -> tuple[Any, Array]:
        """Return checked rows and labels; keep the two labels."""
        X, y = self._validated(X, y)
        try:
            check_binary_labels(y)
        except ValueError as error:
            if y.dtype != object and len(np.unique(y)) > 2:
                raise ValueError(
                    f"{error} For graded documents of queries use RetargetingRanker().fit(X, y, qid)."
                ) from error
            raise
        self.classes_ = np.unique(y)
        self.positive_class_ = self.classes_[1]
        self._fitted_rows = checksum(X, y == self.positive_class_)
        return X, y

    def _made(self, X: Any, y: Array, qid: Any, sample_weight: Any) -> Problem:
        """Return the problem on checked rows."""
        lists = several_queries(qid, len(y))
        if lists is not None:
            refuse_unscored(qid)
        self._fitted_on_queries = lists is not None
        weights = check_weights(sample_weight, len(y))
        return self._problem(self._designed(X, weights), check_binary_labels(y), lists, weights)

    def _problem(self, X: Any, positive: Array, lists: QueryGroups | None, weights: Array | None) -> Problem:
        """Return the problem that the parameters name."""
        made = check_formulation(self.objective, Bipartite, "objective", **self._OTHERS)
        given = given_to(made, self, ("l1", *_OF_OBJECTIVES))
        return made(X, positive, l2=self.l2, qid=lists, sample_weight=weights, **given)

    def threshold_for(
        self,
        X: Any,
        y: Any,
        *,
        max_fpr: float | None = None,
        min_precision: float | None = None,
        min_recall: float | None = None,
        confidence: float = 0.95,
    ) -> Threshold:
        """Return a threshold of the scores that keeps a promise on new rows.

        **The rows must not be rows of** :meth:`fit`; only the whole data of the fit are recognised, with a warning.
        :class:`~convexrank.PromisedThresholdClassifier` holds rows out by itself.

        Parameters
        ----------
        X, y : arrays, shapes (n, d) and (n,)
            Rows that were not in the fit, and their labels.
        max_fpr, min_precision, min_recall, confidence : float
            The promise, exactly one rate, and its probability; see :func:`convexrank.inference.threshold`.

        Returns
        -------
        Threshold
            The threshold, the promise as a sentence, and the number of rows it needed.

        Raises
        ------
        ValueError, TypeError
            As :func:`convexrank.inference.threshold`, and when y has labels that the fit did not see.

        Warns
        -----
        UserWarning
            When the rows are those of the fit.
        """
        promise = {"max_fpr": max_fpr, "min_precision": min_precision, "min_recall": min_recall}
        return promised_threshold(self, X, y, self._fitted_rows, **promise, confidence=confidence)

    def score(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> float:
        r"""Return the area under the ROC curve; a tie counts one half.

        .. math:: \frac{\sum_{i,k} v_i v_k\,(1[f_i>f_k]+\frac12 1[f_i=f_k])}{\sum_{i,k} v_i v_k}

        over positives i and negatives k with row weights v, ones by default; larger is better. With several queries it
        is the mean over those with both classes. The AUC gives no special weight to the top; for that, use a scorer
        made from :func:`convexrank.metrics.precision_at` or another measure.

        Parameters
        ----------
        X, y, qid, sample_weight : arrays
            As in :meth:`fit`; y must have both labels of the fit, and qid several queries if it had there. The weights
            are v.

        Raises
        ------
        ValueError
            When y lacks one of the two classes (as in a fold without positives), or has another label; when ``qid`` is
            missing although the fit had one, or no query has both classes.
        """
        return self._measure(y, self.decision_function(X), qid, sample_weight)

    def _measure(self, y: Any, scores: Array, qid: Any, sample_weight: Any) -> float:
        """Return what :meth:`score` does, for scores."""
        lists = several_queries(qid, len(scores))
        check_queries(qid, self._fitted_on_queries)
        labels = np.asarray(y)
        found = np.unique(labels)
        if not np.array_equal(found, self.classes_):
            hint = (
                "; stratify the folds, cv=StratifiedKFold(...)" if np.isin(found, self.classes_).all() else ""
            )
            raise ValueError(
                f"y has the labels {found[:5].tolist()}, expected both of {self.classes_.tolist()}: the area under "
                f"the ROC curve compares positives with negatives{hint}."
            )
        weights = check_weights(sample_weight, len(scores))
        if lists is None and weights is None:
            return auc(labels, scores)
        if weights is not None and not all(weights[labels == one].any() for one in found):
            raise ValueError("sample_weight leaves no positive or no negative; give each class some weight.")
        return mean_order(labels, scores, lists, weights)


# Parameters that an objective may have.
_OF_OBJECTIVES = own_parameters(PushRanker, "objective", "l2", "l1", "tie_break")
