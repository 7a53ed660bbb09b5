"""Margin-equipped monotone retargeting as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from convexrank.backend.design import held_as
from convexrank.backend.interruption import as_a_whole
from convexrank.backend.progress import warn_caller
from convexrank.core.problem import Problem
from convexrank.data import QueryGroups, as_groups, check_choice, check_nonnegative, check_vector
from convexrank.estimators._linear_ranker import SolvedRanker, check_counts, own_parameters
from convexrank.estimators._objectives import (
    check_formulation,
    check_queries,
    feasible_options,
    given_to,
    queries_of,
    refuse_unrouted,
    refuse_unscored,
)
from convexrank.estimators.held_out import checksum, promised_lists
from convexrank.inference import Lists
from convexrank.metrics.conventions import CONVEXRANK, LETOR3, LETOR4, SKLEARN, Convention
from convexrank.problems.margin_retargeting.margin_retargeting import MarginRetargeting
from convexrank.problems.queries._base import GradedQueries
from convexrank.problems.queries.rank_cosine import RankCosine

Array = np.ndarray

# From so many rows on, grades without queries are worth a word; more different values are no grades.
_MANY_ROWS, _FEW_GRADES = 500, 10
_CONVENTIONS = {"convexrank": CONVEXRANK, "scikit-learn": SKLEARN, "letor3": LETOR3, "letor4": LETOR4}


@dataclass(eq=False, repr=False)
class RetargetingRanker(SolvedRanker):
    r"""Linear ranker for graded queries by regression on optimised targets, as a scikit-learn estimator.

    Grades define an order, not numbers. So the scores :math:`s_i = X_i w` of query i are fitted to targets
    :math:`r_i` that are optimised together with w, among all that keep the order of the grades with a margin:

    .. math::
        \min_{w,\beta,r} \; &\sum_{i} \frac{1}{|V_i|}\, D_\varphi\bigl(r_i \,\big\|\,
        (\nabla\varphi)^{-1}(X_i w + \beta_i)\bigr) + \frac{\alpha}{2}\|w\|_2^2 \\
        \text{subject to} \; &r_{ij} \ge r_{ik} + t \;\text{ where } y_{ij} \text{ is the grade next above } y_{ik} .

    For divergences other than the squared distance this cost is not jointly convex. Then the terms of (3.17) are added,
    by default with the least constants that make the cost convex, and targets must stay in the domain, which requires
    small margins and a ``bound``. This is :class:`~convexrank.problems.MarginRetargeting`; the fit is its minimum, with
    a certified gap. There is no intercept: a constant cancels in each query, unless ``offsets=False``. A query with one
    row, or one grade, contributes nothing.

    Other objectives are the formulations of graded queries, by the name of the class in lower case: ``"list_net"``,
    ``"list_mle"``, ``"xendcg"``, ``"ndcg_regression"``, ``"rank_svm"``, and ``"rank_cosine"``, which is not convex.

    A ranker is neither a classifier nor a regressor: ``predict`` returns scores, and only their order within a query is
    meaningful. Pass ``qid`` to :meth:`fit` and :meth:`score`. In a search over folds, rows of one query must stay
    together and each fold needs its ``qid``: ``GroupKFold`` with the queries as groups, and metadata routing, as in the
    example.

    Parameters
    ----------
    divergence : str or Divergence
        ``"squared"``, ``"generalized_i"``, ``"bit_entropy"``, ``"kl"``, or an object of
        :mod:`convexrank.divergences`.
    margin : "auto", float, tuple of float, callable or None
        The margin t between documents of neighbouring grades: one number, a number for each step of the grades, or a
        function of the rank. ``"auto"`` is 1 if that is feasible, else half of the largest margin that bounds or the
        sum of the targets allow in every query. For the squared distance and ``alpha=0``, one margin for all steps
        changes only the scale of w, and not the ranking.
    objective : str
        ``"retargeting"`` for the problem above, or the name of a formulation of graded queries. ``margin``, ``reward``,
        ``bound``, ``target_reg`` and ``score_reg`` are of the first alone.
    alpha : float
        Strength :math:`\alpha` of the penalty, for features of about unit scale. The loss is a sum over queries, not a
        mean: with more queries the same ``alpha`` has less effect.
    reward, bound, target_reg, score_reg : float, tuple, callable or None
        As in :class:`~convexrank.problems.MarginRetargeting`; None means its default. With ``margin="auto"`` and a
        divergence that needs an upper bound, the bound None means twice the sum of the margins.
    l1 : float
        Strength of the penalty ``l1·‖w‖₁`` in addition to ``alpha``; it makes some weights exactly 0.
    offsets : bool
        Whether each query has its own offset :math:`\beta_i`; otherwise the offset is 0. The option has an effect only
        with two bounds, or with ``target_reg`` or ``score_reg``, which divergences other than the squared distance
        need.
    normalize : bool
        Whether to divide the term of each query by its number of rows, or of pairs in ``"rank_svm"``.
    loss, target, gain, gamma, smoothing : optional
        Parameters of other objectives, as in their classes; by default those of the class.
    ndcg_convention : {"convexrank", "scikit-learn", "letor3", "letor4"} or Convention
        The convention of the NDCG that :meth:`score` returns; ``str(model.convention)`` describes it.
    ndcg_k : int, optional
        The cut-off of that NDCG; by default whole lists count.
    features : {"linear", "thresholds", "products"}
        The columns with weights: the features, all thresholds of them (:class:`~convexrank.features.Thresholds`), or
        thresholds and products of two (:class:`~convexrank.features.Products`). Scores are then piecewise constant in
        each feature or pair, X is dense, NaN has a separate level, and ``l1`` makes most weights 0.
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
        Certified bound on objective − optimum, number of iterations, and the full solution;
        ``solution_.certificate`` names the kind of the bound.
    n_features_in_ : int
        The number of columns of X.
    feature_names_in_ : ndarray of str
        The names of the columns, when X had names that are all strings.

    References
    ----------
    S. Acharyya, dissertation (2013), sections 3.4.1 to 3.4.5, (3.17) to (3.24).

    Examples
    --------
    >>> import numpy as np
    >>> import sklearn
    >>> from sklearn.model_selection import GridSearchCV, GroupKFold
    >>> from convexrank import RetargetingRanker
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(120, 3)), np.repeat(np.arange(12), 10)
    >>> y = np.clip(np.round(X @ [1.0, -1.0, 0.0] + 0.5 * rng.normal(size=120)), 0, 2)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     ranker = RetargetingRanker(ndcg_k=5).set_fit_request(qid=True).set_score_request(qid=True)
    ...     search = GridSearchCV(ranker, {"alpha": [0.01, 1.0]}, cv=GroupKFold(3))
    ...     _ = search.fit(X, y, qid=qid, groups=qid)
    >>> round(float(search.best_score_), 2), search.best_estimator_.coef_.shape
    (0.95, (3,))
    >>> print(search.best_estimator_.convention)
    convexrank: gain 2^y - 1, discount 1/log2(1 + rank), ties averaged, queries without relevant rows
    are skipped, ...
    """

    divergence: Any = "squared"
    margin: Any = "auto"
    alpha: float = 1e-2
    _: KW_ONLY
    objective: Any = "retargeting"
    reward: Any = None
    bound: Any = None
    target_reg: Any = None
    score_reg: Any = None
    l1: float = 0.0
    offsets: bool = True
    normalize: bool = True
    loss: Any = None
    target: Any = None
    gain: Any = None
    gamma: float | None = None
    smoothing: float | None = None
    ndcg_convention: Any = "convexrank"
    ndcg_k: int | None = None

    #: What is no declared formulation of graded queries by itself.
    _OTHERS: ClassVar[dict[str, Any]] = {"retargeting": MarginRetargeting, "rank_cosine": RankCosine}

    @property
    def convention(self) -> Convention:
        """The convention of the NDCG that :meth:`score` returns; ``print`` it beside the number."""
        if isinstance(self.ndcg_convention, Convention):
            return self.ndcg_convention
        return check_choice(self.ndcg_convention, _CONVENTIONS, "ndcg_convention")

    @as_a_whole
    def fit(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None, group: Any = None) -> Self:
        """Fit the weights.

        Parameters
        ----------
        X : array, sparse matrix or Chunks, shape (n, d)
            One row for each document. Sparse X stays sparse; :class:`~convexrank.data.Chunks` stay out of memory.
        y : array, shape (n,)
            Grades; larger is more relevant, and only their order has an effect.
        qid : array of int or str, shape (n,), QueryGroups, or None
            The query of each row, in any order; None is one query.
        sample_weight : array of whole numbers, shape (n,), optional
            Number of copies of each row, 0 to leave it out; the formulation has no other weights.
        group : array of int, shape (number of queries,), optional
            In the place of qid the sizes of the queries, whose rows follow one another, as in LightGBM.

        Raises
        ------
        ValueError, TypeError
            When the data are not finite and real, lengths differ, no query has two different grades, weights are not
            whole numbers, or a parameter is out of range. In a search that does not route ``qid`` to the score.
        KeyboardInterrupt
            When Ctrl-C is pressed, at the next step of the solve.

        Warns
        -----
        ConvergenceWarning
            When the certified gap did not meet ``tol``.
        UserWarning
            When there is no ``qid`` although many rows have grades.
        """
        refuse_unscored(qid)
        X, y = self._rows(X, y)
        qid = queries_of(qid, group, len(y))
        refuse_unrouted(qid)
        if qid is None:
            _warn_of_one_query(y)
        problem = self._made(X, y, qid, sample_weight)
        return self._keep(self._solved(problem, self.solver))

    def _rows(self, X: Any, y: Any) -> tuple[Any, Array]:
        """Return checked rows and grades."""
        _ = self.convention  # refused here, not after the fit
        X, y = self._validated(X, y, y_numeric=True, ensure_min_samples=2)
        y = check_vector(y, name="y")
        self._fitted_rows = checksum(X, y)
        return X, y

    def _made(self, X: Any, y: Array, qid: Any, sample_weight: Any) -> Problem:
        """Return the problem on checked rows."""
        self._fitted_on_queries = qid is not None
        if not held_as(X).in_memory:
            if sample_weight is not None:
                raise ValueError(
                    f"sample_weight is given, but X is {X!r}, rows out of memory, which are not repeated; leave it out."
                )
            return self._problem(self._designed(X), y, qid)
        rows, queries = _repeated(qid, sample_weight, len(y))
        return self._problem(self._designed(X[rows]), y[rows], queries)

    def _problem(self, X: Any, y: Array, queries: Any) -> Problem:
        """Return the problem that the parameters name."""
        made = check_formulation(self.objective, GradedQueries, "objective", **self._OTHERS)
        given = given_to(made, self, ("l1", *_OF_OBJECTIVES))
        if made is MarginRetargeting:
            given["margin"] = self.margin  # None is none
            if isinstance(self.margin, str):
                check_choice(self.margin, {"auto": ""}, "margin")
                given |= feasible_options(self.divergence, self.bound, y, queries)
        return made(X, y, qid=queries, l2=check_nonnegative(self.alpha, "alpha"), **given)

    def lists_with(
        self,
        X: Any,
        qid: Any,
        held_out: tuple[Any, Any, Any],
        *,
        max_missed: float | None = None,
        max_ndcg_loss: float | None = None,
        max_false: float | None = None,
    ) -> Lists:
        """Return lists for new queries, of a length that keeps a promise about them.

        **The held-out queries must not be queries of** :meth:`fit`; only the whole data of the fit are recognised, with
        a warning.

        Parameters
        ----------
        X, qid : arrays, shapes (n, d) and (n,)
            The documents of new queries.
        held_out : tuple of X, y and qid
            Documents, grades and queries that were not in the fit.
        max_missed, max_ndcg_loss, max_false : float
            The promise, exactly one; see :func:`convexrank.inference.list_length`.

        Returns
        -------
        Lists
            For each new query the rows in its list, best first, and the promise.

        Raises
        ------
        ValueError, TypeError
            As :func:`convexrank.inference.list_length`; when ``held_out`` is not a triple, or rows do not fit.

        Warns
        -----
        UserWarning
            When the held-out rows are those of the fit.
        """
        promise = {"max_missed": max_missed, "max_ndcg_loss": max_ndcg_loss, "max_false": max_false}
        return promised_lists(self, X, qid, held_out, self._fitted_rows, **promise)

    def score(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None, group: Any = None) -> float:
        r"""Return NDCG in the convention that ``ndcg_convention`` and ``ndcg_k`` name: a mean over queries.

        By default gains are 2^y − 1, discounts 1/log2(1 + rank), ties are averaged over all orders, and
        queries without a grade above 0 are skipped; from 0 to 1, larger is better. See :func:`convexrank.metrics.ndcg`.

        Parameters
        ----------
        X, y, qid, sample_weight, group : arrays
            As in :meth:`fit`. Grades must be at least 0; qid may be None only if it was None in fit.

        Raises
        ------
        ValueError, TypeError
            When ``qid`` is missing although fit had one, lengths differ, grades are negative or not finite, or no
            query has a relevant row.
        """
        scores = self.decision_function(X)
        return self._measure(y, scores, queries_of(qid, group, len(scores)), sample_weight)

    def _measure(self, y: Any, scores: Array, qid: Any, sample_weight: Any) -> float:
        """Return what :meth:`score` does, for scores."""
        check_queries(qid, self._fitted_on_queries)
        grades = check_vector(y, len(scores), "y")
        rows, queries = _repeated(qid, sample_weight, len(grades))
        return float(self.convention.ndcg(grades[rows], scores[rows], queries, self.ndcg_k))


def _warn_of_one_query(y: Array) -> None:
    """Warn where many graded rows without queries are probably those of many queries."""
    grades = np.unique(y)
    if len(y) >= _MANY_ROWS and 2 < len(grades) <= _FEW_GRADES and np.array_equal(grades, np.round(grades)):
        warn_caller(
            # no numbers: in a search the same words are shown once
            "qid is None, so that all rows, which have grades, are one query; pass fit(X, y, qid) with the query of "
            "each row, or qid=np.zeros(len(y)) if one is meant."
        )


def _repeated(qid: Any, sample_weight: Any, length: int) -> tuple[Any, QueryGroups]:
    """Return which rows count, each as often as it does, and their queries."""
    groups = as_groups(qid, length)
    counts = check_counts(sample_weight, length)
    if counts is None:
        return slice(None), groups
    return groups.repeated(groups.gather(counts))


# Parameters that an objective may have.
_OF_OBJECTIVES = own_parameters(RetargetingRanker, "objective", "alpha", "l1", "ndcg_convention", "ndcg_k")
