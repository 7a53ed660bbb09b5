"""Regression with an unknown increasing link, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from convexrank.backend.design import held_as, is_sparse, moments
from convexrank.backend.interruption import as_a_whole
from convexrank.backend.progress import warn_caller
from convexrank.core.capabilities import SolverLike
from convexrank.core.results import ConvergenceWarning, Solution, Status
from convexrank.data import (
    check_choice,
    check_flag,
    check_integer,
    check_interval,
    check_nonnegative,
    check_positive,
    check_probability,
    check_vector,
)
from convexrank.data.messages import renamed
from convexrank.estimators._linear_ranker import LinearEstimator, check_counts
from convexrank.estimators.held_out import checksum, conformal_reach
from convexrank.links import fit_link
from convexrank.problems import LearnedDivergence
from convexrank.solvers import Accelerated
from convexrank.solvers.single_index import UnitStep

Array = np.ndarray

# Steps along the published field before the first turn to those without momentum, and in all.
_TURN, _MAX_ITER = 500, 20_000
# Columns of standard deviations that differ by more are worth a word where a fit took many steps, or did not converge.
_UNEVEN, _MANY = 10.0, 1000
# Factors of the scale of the features that strong="cv" tries.
_FACTORS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)


@dataclass(eq=False, repr=False)
class SingleIndexRegressor(RegressorMixin, LinearEstimator):
    r"""Regression :math:`y \approx g(Xw)` with weights w and an increasing link g learned together.

    This is a generalized linear model with an unknown increasing link. The fit is
    :class:`~convexrank.problems.LearnedDivergence`, in one of two senses:

    * ``oracle="projection"`` (default): the published fixed point (GradMaPr, with momentum),
      :math:`\frac1n X^\top(g(Xw) - y) + \lambda_2 w = 0`, where g is the least-squares fit of the targets among the
      links of the class. There is no objective; ``gap_`` is a residual.
    * ``oracle="marginal"``: the minimum of the published objective (4.1), with a certified gap. With noise in the
      targets it prefers a linear link, and tends to ordinary least squares. Choose it for data that a link of the
      class explains, or to obtain the optimum itself.

    The slopes of the links are in [1/``smooth``, 1/``strong``]. Without ``smooth`` only the product ``l2`` · ``strong``
    has an effect on predictions: another ``strong`` with the same product scales w and the link. So it is enough to
    cross-validate one of the two. Without ``strong`` the marginal has the minimiser w = 0, with value 0, and learns
    nothing; the default is therefore ``"scale"``.

    Predictions do not change when a constant is added to a feature or, with ``"scale"``, when all features are
    multiplied by a constant. If the targets are multiplied by a constant, so are the predictions. There is no
    intercept: the link absorbs it.

    Parameters
    ----------
    oracle : {"projection", "marginal"}
        The published fixed point, or the minimum of the objective.
    strong : "scale", "cv", float, None, or list of float
        Modulus s of strong convexity: the slope of the link is at most 1/s. ``"scale"`` is the mean variance of the
        features, 1 when they are standardised. A list is cross-validated; ``"cv"`` is a list from 0.001 to 100 times
        the scale.
    smooth : float, optional
        Modulus l of smoothness, above ``strong``: the slope of the link is at least 1/l.
    l2 : float or list of float
        Strength :math:`\lambda_2` of the penalty, for features of about equal scale: standardise first. A list is
        cross-validated.
    output_range : pair of float or None, optional
        Least and largest prediction, such as (0, 1). Without ``smooth`` predictions are clipped, which does not change
        the fit; with ``smooth`` the range is part of the formulation, and must contain all targets.
    cv : int, splitter or iterable
        Folds for the cross-validation, as in scikit-learn; not used when there is one candidate. An integer means folds
        of shuffled rows, with a fixed seed; contiguous folds of a sorted file would test extrapolation.
    solver : None, str or solver object
        As for :meth:`convexrank.Problem.solve`; None means the default for the problem, and for the projection with
        ``strong`` steps with momentum and, if these do not converge, without momentum.
    tol : float
        Tolerance on gap or residual, relative to the scale of the data.
    max_iter : int, optional
        Largest number of iterations; by default that of the solver.
    time_limit : float, optional
        Largest number of seconds of each solve; then the best point so far is kept, with its gap and a warning.
    warm_start : bool
        Whether to start from the weights of the previous fit, if their number fits; not used in a cross-validation.
    verbose : bool
        Whether to show a progress bar for the last solve.

    Attributes
    ----------
    coef_ : ndarray, shape (d,)
        The weights w.
    link_ : Link
        The link: a curve, its interval, its inverse, and φ; see :class:`convexrank.links.Link`.
    strong_, l2_ : float
        The moduli used, after scaling and cross-validation.
    cv_results_ : dict of str to ndarray
        ``"strong"``, ``"l2"`` and ``"mean_squared_error"`` of each candidate; only after a cross-validation.
    gap_, n_iter_, solution_ : float, int, Solution
        Certified gap or residual, number of iterations, and the full solution;
        ``solution_.certificate`` names the kind of the gap.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of features seen by fit, and their names when X had names that are all strings.

    References
    ----------
    Dissertation on learning to rank with Bregman divergences, chapter 4.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import SingleIndexRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = np.tanh(3 * X @ [1.0, -1.0, 0.0]) + 0.1 * rng.normal(size=300)
    >>> model = SingleIndexRegressor().fit(X[:200], y[:200])
    >>> round(model.score(X[200:], y[200:]), 2)
    0.98
    >>> model.link_interval(X[200:203]).shape
    (3, 2)
    """

    oracle: str = "projection"
    _: KW_ONLY
    strong: Any = "scale"
    smooth: float | None = None
    l2: Any = 1e-4
    output_range: Any = None
    cv: Any = 5
    solver: SolverLike = None
    tol: float = 1e-8
    max_iter: int | None = None
    time_limit: float | None = None
    warm_start: bool = False
    verbose: bool = False

    @as_a_whole
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit weights and link.

        Parameters
        ----------
        X : array or sparse matrix, shape (n, d)
            One row for each example. Sparse X stays sparse.
        y : array, shape (n,)
            Real targets.
        sample_weight : array of whole numbers, shape (n,), optional
            Number of copies of each row, 0 to leave it out; the formulation has no other weights.

        Raises
        ------
        ValueError, TypeError
            When the data are not finite and real, lengths differ, weights are not whole numbers, or a parameter is out
            of range.
        KeyboardInterrupt
            When Ctrl-C is pressed, at the next step of the solve.

        Warns
        -----
        ConvergenceWarning
            When gap or residual did not meet ``tol``, or columns of very different scale took many steps.
        """
        X, y = self._validated(X, y, y_numeric=True)
        counts = check_counts(sample_weight, len(y))
        rows = slice(None) if counts is None else np.repeat(np.arange(len(y)), counts)
        y = np.asarray(y, dtype=np.float64)
        self._fitted_rows = checksum(X, y)
        X, y = X[rows], y[rows]
        X = X if held_as(X).built else X.toarray()  # rows of Chunks are in memory, of DaskRows they are not
        check_choice(self.oracle, {"projection": "", "marginal": ""}, "oracle")
        output_range = check_interval(
            (None, None) if self.output_range is None else self.output_range, "output_range"
        )
        self.__dict__.pop("cv_results_", None)
        candidates = self._candidates(X)
        if len(candidates) > 1:
            self.cv_results_ = self._cross_validate(X, y, candidates)
            candidates = [candidates[int(np.argmin(self.cv_results_["mean_squared_error"]))]]
        self.strong_, self.l2_ = candidates[0]
        verbose = check_flag(self.verbose, "verbose")
        problem, solution = self._solve(X, y, self.strong_, self.l2_, self._start(X.shape[1]), verbose)
        slow = solution.status is Status.MAX_ITER or solution.iterations > _MANY
        if slow and (ratio := _spread(X)) > _UNEVEN:
            warn_caller(
                f"X has columns whose standard deviations differ by a factor of {ratio:.3g}, so that many steps are "
                "needed and the penalty treats columns unevenly; standardise first, as "
                "make_pipeline(StandardScaler(), SingleIndexRegressor()) does.",
                ConvergenceWarning,
            )
        self.link_ = replace(fit_link(problem, solution), output_range=output_range)
        return self._keep(solution)

    def _candidates(self, X: Any) -> list[tuple[float | None, float]]:
        """Return the pairs (strong, l2) to choose from, those that allow the least first."""
        scale = _mean_variance(X) or 1.0
        named = {"scale": [scale], "cv": [scale * factor for factor in _FACTORS]}
        if isinstance(self.strong, str):
            strong = check_choice(self.strong, named, "strong")
        elif self.strong is None:
            strong = [None]
        else:
            strong = [check_positive(value, "strong") for value in _several(self.strong, "strong")]
        strengths = [check_nonnegative(value, "l2") for value in _several(self.l2, "l2")]
        pairs = [(s, l2) for s in strong for l2 in strengths]
        return sorted(pairs, key=lambda pair: (pair[0] or 0.0) * pair[1], reverse=True)

    def _solve(
        self, X: Any, y: Array, strong: float | None, l2: float, x0: Array | None, verbose: bool = False
    ) -> tuple[LearnedDivergence, Solution]:
        # without smooth a range does not change the fit, and noisy targets may leave it
        within = None if self.smooth is None else self.output_range
        problem = LearnedDivergence(X, y, strong, self.smooth, self.oracle, l2=l2, output_range=within)
        unit = float(y.std())
        # what a residual is measured in, and the objective for targets of small scale
        unit = (
            unit * _mean_variance(X) ** 0.5
            if self.oracle == "projection"
            else min(1.0, unit**2 * (strong or 1.0))
        )
        tol = check_positive(self.tol, "tol") * (unit or 1.0)
        options: dict[str, Any] = {"tol": tol, "verbose": verbose}
        if self.solver is None and self.oracle == "projection" and strong is not None:
            return problem, self._solve_field(problem, x0, options)
        limits = {"max_iter": self.max_iter, "time_limit": self.time_limit}
        return problem, problem.solve(self.solver, x0=x0, **limits, **options)

    def _solve_field(self, problem: LearnedDivergence, x0: Array | None, options: dict[str, Any]) -> Solution:
        """Take turns between steps with momentum, which may go round in circles, and without, which crawl."""
        limit = _MAX_ITER if self.max_iter is None else check_integer(self.max_iter, "max_iter", 1)
        limit_s = left = None if self.time_limit is None else check_positive(self.time_limit, "time_limit")
        solvers, turn, done, seconds = (Accelerated(), UnitStep(1.0 / problem.lipschitz)), 0, 0, 0.0
        while True:
            steps = min(_TURN * 2 ** (turn // 2), limit - done)
            last = done + steps == limit
            with warnings.catch_warnings():
                if not last:
                    warnings.filterwarnings("ignore", ".*: (MAX_ITER|FAILED):", ConvergenceWarning)
                solution = problem.solve(solvers[turn % 2], max_iter=steps, x0=x0, time_limit=left, **options)
            x0, turn = solution.x, turn + 1
            done, seconds = done + solution.iterations, seconds + solution.seconds
            left = None if limit_s is None else max(limit_s - seconds, 1e-3)
            if last or solution.status not in (Status.MAX_ITER, Status.FAILED):
                return replace(solution, iterations=done, seconds=seconds)

    def _cross_validate(
        self, X: Any, y: Array, candidates: list[tuple[float | None, float]]
    ) -> dict[str, Array]:
        """Return the mean squared error of every candidate, over all rows that are ever held out."""
        from sklearn.model_selection import KFold, check_cv

        errors, held_out = np.zeros(len(candidates)), 0
        # files are often sorted, and stretches of them would judge how a candidate extrapolates
        shuffled = isinstance(self.cv, int) and not isinstance(self.cv, bool)
        folds: Any = (
            KFold(self.cv, shuffle=True, random_state=0)
            if shuffled
            else check_cv(self.cv, y, classifier=False)
        )
        for train, test in folds.split(X, y):
            start, before = None, None
            held_out += len(test)
            for place, (strong, l2) in enumerate(candidates):
                if start is not None and strong is not None and before is not None:
                    start = start * (strong / before)  # weights are in units of strong
                with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
                    # the last fit is the one that has to converge
                    problem, solution = self._solve(X[train], y[train], strong, l2, start)
                start, before = solution.x, strong
                predicted = fit_link(problem, solution)(X[test] @ solution.x)
                errors[place] += float(np.sum((predicted - y[test]) ** 2))
        moduli, strengths = zip(*candidates, strict=True)
        return {
            "strong": np.array(moduli, dtype=np.float64),
            "l2": np.array(strengths),
            "mean_squared_error": errors / held_out,
        }

    def index(self, X: Any) -> Array:
        """Return the single index Xw, shape (n,): the scores that ``link_`` takes."""
        return self._linear_scores(X)

    def predict(self, X: Any) -> Array:
        """Return the link at the index, g(Xw), shape (n,), inside :meth:`link_interval`."""
        index = self.index(X)
        return self.link_(index)

    def link_interval(self, X: Any) -> Array:
        """Return the interval of the values of all links of the class that fit as well as this one.

        It is not a confidence interval and ignores noise: at a fitted row its width is 0. For intervals of new
        responses see :meth:`conformal_interval`; for the formula see :meth:`convexrank.links.Link.interval`.

        Returns
        -------
        ndarray, shape (n, 2)
            Lower and upper ends; infinite where the link is unbounded.
        """
        index = self.index(X)
        return np.stack(self.link_.interval(index), axis=-1)

    predict_interval = renamed(link_interval, "predict_interval", "0.3")

    def conformal_interval(self, X: Any, X_calibration: Any, y_calibration: Any, level: float = 0.9) -> Array:
        r"""Return intervals that contain a new response with at least this probability, by split conformal prediction.

        **The calibration rows must not be rows of** :meth:`fit`: their errors are too small, and so are the intervals.
        Only the whole data of the fit are recognised, with a warning.

        For m rows that were not in the fit, let q be the :math:`\lceil (m+1)\,\text{level} \rceil`-th smallest of their
        errors :math:`|y_i - g(X_i w)|`. The interval is :math:`g(Xw) \pm q`. If these rows and a new row are
        exchangeable, the interval contains the new response with probability at least ``level``, on average over
        calibration rows and new rows, for any noise and even for a wrong model; without ties the probability is at most
        ``level`` + 1/(m + 1). All intervals have the same width.

        Parameters
        ----------
        X : array, shape (n, d)
            Rows to predict.
        X_calibration, y_calibration : arrays, shapes (m, d) and (m,)
            Rows that were not in :meth:`fit`.
        level : float
            The probability, between 0 and 1.

        Returns
        -------
        ndarray, shape (n, 2)
            Lower and upper ends; infinite if there are too few rows for the level, m < level/(1 − level).

        Raises
        ------
        ValueError, TypeError
            When rows or responses are not finite or do not fit, or the level is out of range.

        Warns
        -----
        UserWarning
            When the calibration data are the data of the fit.

        References
        ----------
        J. Lei, M. G'Sell, A. Rinaldo, R. Tibshirani, L. Wasserman, Distribution-free predictive inference for
        regression, JASA 113 (2018), algorithm 2 and theorem 2.
        """
        level = check_probability(level, "level")
        rows = self._validated(X_calibration, reset=False)
        expected = self.predict(X_calibration)
        y = check_vector(y_calibration, len(expected), "y_calibration")
        if checksum(rows, y) == self._fitted_rows:
            warnings.warn(
                f"X_calibration and y_calibration are the {len(y)} rows of fit, expected rows that fit did not see: "
                "the intervals are too narrow; split the data, and fit on one part only.",
                UserWarning,
                stacklevel=2,
            )
        reach = conformal_reach(np.abs(y - expected), level)
        predicted = self.predict(X)
        return np.stack([predicted - reach, predicted + reach], axis=-1)


def _several(value: Any, name: str) -> list[Any]:
    """Read one candidate or several."""
    listed = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)
    several = list(value) if listed else [value]
    if not several:
        raise ValueError(f"{name} is an empty list, expected a number or candidates to choose from.")
    return several


def _spread(X: Any) -> float:
    """Return the largest standard deviation of a column over the least that is not 0; 1 for sparse X."""
    sizes = np.ones(1) if is_sparse(X) else moments(X)[1]
    sizes = sizes[sizes > 0.0]
    return float(sizes.max() / sizes.min()) if len(sizes) else 1.0


def _mean_variance(X: Any) -> float:
    """Return the mean variance of the columns; sparse X is not made dense."""
    return float(np.mean(moments(X)[1] ** 2))
