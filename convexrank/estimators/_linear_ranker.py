"""Base of the estimators with a linear score: the weights ``coef_``, dense or sparse rows, repeated rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from convexrank.backend.design import by_columns, held_as, moments, one_column
from convexrank.core.capabilities import SolverLike
from convexrank.core.problem import Problem
from convexrank.core.results import Solution
from convexrank.data import (
    check_choice,
    check_flag,
    check_weights,
    read_array,
    shown,
    well_formed,
)
from convexrank.data.frames import has_other_columns, numbers_of, refuse_missing
from convexrank.features import Explanation, Products, Stacked, Thresholds, shapes
from convexrank.features._shape_terms import Surface
from convexrank.features.score_cards import one_row, values_of

Array = np.ndarray

# The columns to which the weights may belong.
_FEATURES = {name: name for name in ("linear", "thresholds", "products")}
# Most thresholds of one feature, alone and in products.
_BINS, _BINS_OF_PRODUCTS = 256, 12
# Rows that repetition may make.
_LARGEST = 1e9


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Return X in float64, with y if given, as scikit-learn checks them; errors name the argument."""
    try:
        return validate_data(estimator, well_formed(X, "X"), *y, dtype=np.float64, **options)
    except (OverflowError, TypeError, ValueError) as error:
        if y:
            refuse_missing(read_array(y[0], "y"), "y")
        kind = TypeError if isinstance(error, TypeError) else ValueError
        names, more = ("X or y", ", and a vector y of n entries") if y else ("X", "")
        hint = (
            " For a table with texts or gaps put TableEncoder() first, or pass features='thresholds'."
            if hasattr(X, "columns")
            else ""
        )
        raise kind(f"{names}: {error}; expected numbers X of shape (n, d){more}.{hint}") from error


class LinearEstimator(BaseEstimator):
    """An estimator with one linear score Xw. Subclasses are dataclasses: their fields are the constructor."""

    coef_: Array
    design_: Any
    #: How columns become columns of weights, where weights are not those of the features themselves.
    features: Any = "linear"
    warm_start: bool = False

    def __sklearn_tags__(self) -> Tags:
        """Describe the estimator to scikit-learn: sparse X, y needed, neither classifier nor regressor."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self._is_linear
        tags.input_tags.allow_nan = not self._is_linear
        return tags

    @property
    def _is_linear(self) -> bool:
        """Whether the weights are those of the features themselves."""
        check_choice(self.features, _FEATURES, "features")
        return self.features == "linear"

    def _validated(self, X: Any, *y: Any, **options: Any) -> Any:
        """Return finite X, dense or CSR, with y if given, as scikit-learn checks them; rows out of memory unchanged."""
        for name, one in zip(("X", "y"), (X, *y), strict=False):
            if np.ma.is_masked(one):  # scikit-learn would drop the mask
                read_array(one, name)
        if held_as(X).sample:
            return self._streamed(X, *y, **options)
        if not self._is_linear:
            return self._levelled(X, *y, **options)
        return validated(self, X, *y, accept_sparse="csr", **options)

    def _levelled(self, X: Any, *y: Any, reset: bool = True, **options: Any) -> Any:
        """Return rows as numbers, of data frames with the numbers of categories, and y if given."""
        known = None if reset else getattr(self, "_words", None)
        if not (has_other_columns(X) or (known and hasattr(X, "columns"))):
            if known:
                raise ValueError(f"X is {shown(X)}, expected a data frame: the fit saw categories in it.")
            self._words = {}
            return validated(self, X, *y, ensure_all_finite="allow-nan", reset=reset, **options)
        if not reset and not known:
            numbers_of(X, {})  # refuses texts in columns of numbers by name
        validate_data(self, X, skip_check_array=True, reset=reset)  # names and number of columns
        matrix, self._words = numbers_of(X, known)
        check: Any = check_X_y if y else check_array
        try:
            return check(
                matrix, *y, dtype=np.float64, ensure_all_finite="allow-nan", estimator=self, **options
            )
        except ValueError as error:
            if y:
                refuse_missing(read_array(y[0], "y"), "y")
            raise ValueError(f"X or y: {error}") from error

    def _streamed(self, X: Any, *y: Any, reset: bool = True, **_: Any) -> Any:
        """Return rows out of memory, which were checked when they were seen first, and their labels."""
        if not self._is_linear:
            raise TypeError(
                f"X is {X!r}, rows out of memory, of which features={self.features!r} would need the quantiles; pass "
                f"features='linear', or a sample of the rows in memory, such as {held_as(X).sample}."
            )
        if reset:
            self.n_features_in_ = X.shape[1]
            vars(self).pop("feature_names_in_", None)  # of an earlier fit
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} columns, expected {self.n_features_in_}, as fit saw.")
        if not y:
            return X
        return X, read_array(X.y if y[0] is None else y[0], "y")

    def _linear_scores(self, X: Any) -> Array:
        """Return Xw for rows like those that the estimator was fitted on."""
        check_is_fitted(self, "coef_")
        rows = self._validated(X, reset=False)
        return (rows if self._is_linear else self.design_.transform(rows)) @ self.coef_

    def _start(self, dimension: int) -> Array | None:
        """Return the point of the fit before, where ``warm_start`` asks for it and it fits."""
        before = getattr(self, "solution_", None) if check_flag(self.warm_start, "warm_start") else None
        return before.x if before is not None and len(before.x) == dimension else None

    def _keep(self, solution: Solution, weights: Array | None = None) -> Self:
        """Set the fitted attributes, by default all entries as weights; refuse a solution that would predict NaN."""
        if not np.isfinite(solution.x).all():
            raise ValueError(
                f"no point with a finite objective was found ({solution.message}); the parameters, the weights or the "
                "features are too large: divide them by a common factor."
            )
        self.solution_ = solution
        self.coef_ = solution.x if weights is None else weights
        self.n_iter_ = solution.iterations
        self.gap_ = solution.gap
        return self


class LinearRanker(LinearEstimator):
    """A linear estimator whose predictions are the scores themselves."""

    def decision_function(self, X: Any) -> Array:
        """Return the scores Xw; rows with higher scores are nearer the top.

        Parameters
        ----------
        X : array or sparse matrix, shape (n, d)
            One row for each example or document.

        Returns
        -------
        ndarray, shape (n,)
            The scores. Only their order within a list is meaningful.
        """
        return self._linear_scores(X)

    def predict(self, X: Any) -> Array:
        """Return the scores Xw, the same as :meth:`decision_function`; they are neither labels nor grades."""
        return self.decision_function(X)


@dataclass(eq=False, repr=False, kw_only=True)
class SolvedRanker(LinearRanker):
    """A ranker that solves a problem: the columns that it has weights for, and how it is solved."""

    features: Any = "linear"
    bins: int | None = None
    monotone: Any = None
    solver: SolverLike = None
    tol: float = 1e-8
    max_iter: int | None = None
    time_limit: float | None = None
    warm_start: bool = False
    verbose: bool = False

    @property
    def feature_importances_(self) -> Array:
        """Share of each feature in the movement of the scores, shape (n_features,).

        The standard deviation, over the rows of fit, of what it adds; with products, over its pairs as well.
        """
        check_is_fitted(self, "coef_")
        if self._is_linear:
            return np.abs(self.coef_) * self._moments()[1]
        found = np.zeros(self.n_features_in_)
        for term in (*self.shapes_.functions, *self.shapes_.surfaces):
            for place in term.columns if isinstance(term, Surface) else (term.column,):
                found[place] += term.deviation
        return found

    def contributions(self, X: Any) -> dict[str, Array]:
        r"""Return what each feature adds to the scores of rows, beside the mean score of the rows of fit.

        .. math:: c_{ij} = w_j (x_{ij} - \bar x_j), \qquad f_i = \bar f + \sum_j c_{ij}.

        With ``features="thresholds"`` it is the function of the feature, whose mean is 0; with products pairs of
        features have terms of their own.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, d)
            The rows, as in :meth:`predict`.

        Returns
        -------
        dict of str to ndarray, shape (n,)
            The terms by the name of the feature; x0, x1, … where features had no names.

        Raises
        ------
        ValueError, TypeError
            When rows do not fit, or the fit was to rows out of memory, whose means are not kept.
        """
        check_is_fitted(self, "coef_")
        rows = self._validated(X, reset=False)
        if not self._is_linear:
            return self.shapes_.contributions(rows)
        means, stored = self._moments()[0], by_columns(rows)
        return {
            name: self.coef_[j] * (one_column(stored, j) - means[j]) for j, name in enumerate(self._names())
        }

    def explain(self, X: Any) -> Explanation:
        """Explain the score of one row: the mean score of the rows of fit, and what each feature adds to it.

        Parameters
        ----------
        X : array or data frame, shape (1, d), array of shape (d,) or Series
            The row.

        Returns
        -------
        Explanation
            Its string is a table; :func:`convexrank.plotting.explanation` draws it.

        Raises
        ------
        ValueError, TypeError
            When X is not one row, or as :meth:`contributions`.

        Examples
        --------
        >>> import numpy as np
        >>> import convexrank as cr
        >>> X, y = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 6.0], [3.0, 4.0]]), [0, 1, 0, 1]
        >>> print(cr.PushRanker(p=1, l2=0.1).fit(X, y).explain(X[3]))
        score -10.76, +6.861 from the mean of the rows of fit
        x1     +4.081  4
        x0     +2.781  3
        """
        row = one_row(X)
        terms = {name: float(part[0]) for name, part in self.contributions(row).items()}
        return Explanation.of(float(self.decision_function(row)[0]), terms, values_of(row, self._names()))

    def _names(self) -> list[str]:
        """The names of the features."""
        given = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if given is None else list(map(str, given))

    def _moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation of the columns of the rows of fit."""
        if self._columns_of_fit is None:
            raise ValueError(
                "the fit was to rows out of memory, whose means are not kept; fit a sample of them in memory for "
                "explanations."
            )
        return self._columns_of_fit

    def _designed(self, X: Any, weights: Any = None) -> Any:
        """Return what the coefficients belong to: X, or a design made of weighted rows, of which the levels are kept.

        Raises
        ------
        ValueError, TypeError
            When ``features`` is no known name, or ``bins`` or ``monotone`` do not fit.
        """
        if self._is_linear:
            if self.bins is not None or self.monotone is not None:
                raise ValueError(
                    "bins and monotone describe thresholds, but features is 'linear'; pass features='thresholds'."
                )
            return X
        names = getattr(self, "feature_names_in_", None)
        words = getattr(self, "_words", {})
        design: Any = Thresholds(
            X, self.bins or _BINS, self.monotone, words, names=names, sample_weight=weights
        )
        if self.features == "products" and words:
            named = [design.levels[j].name for j in words]
            raise ValueError(
                f"X has categories in the columns {shown(named)}, of which no products are made; pass "
                "features='thresholds', or leave them out."
            )
        if self.features == "products":
            pairs = Products(X, self.bins or _BINS_OF_PRODUCTS, names=names, sample_weight=weights)
            design = Stacked([design, pairs])
        self.design_, self._with_rows = design[np.arange(0)], design
        return design

    def _solved(self, problem: Problem, solver: SolverLike = None) -> Solution:
        """Solve as the parameters say; with ``warm_start`` from the weights of the fit before, where they fit."""
        return problem.solve(
            solver,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            x0=self._start(problem.dimension),
            verbose=check_flag(self.verbose, "verbose"),
        )

    def _validated(self, X: Any, *y: Any, **options: Any) -> Any:
        found = super()._validated(X, *y, **options)
        if y and self._is_linear:
            self._columns_of_fit = None if held_as(X).sample else moments(found[0])
        return found

    def _keep(self, solution: Solution, weights: Array | None = None) -> Self:
        super()._keep(solution, weights)
        if not self._is_linear:
            self.shapes_ = shapes(self.coef_, vars(self).pop("_with_rows"))
        return self


def check_counts(sample_weight: Any, length: int) -> Array | None:
    """Return how often each row counts, for formulations without weights; None where each counts once.

    Raises
    ------
    ValueError, TypeError
        When the weights are not whole numbers of at least 0, one for each row.
    """
    weights = check_weights(sample_weight, length)
    if weights is None:
        return None
    if weights.sum() > _LARGEST:
        raise ValueError(
            f"sample_weight asks for {weights.sum():.3g} rows in all, more than {_LARGEST:.0e}: the formulation has no "
            "weights, a row can only be repeated. Divide the weights by a common factor, or leave them out."
        )
    counts = weights.astype(np.int64)
    if (counts != weights).any():
        i = int(np.argmax(counts != weights))
        raise ValueError(
            f"sample_weight[{i}] is {weights[i]:g}, expected whole numbers: the formulation has no weights, a row can "
            "only be repeated. Scale the weights and round them, or leave them out."
        )
    return counts


def own_parameters(ranker: type[SolvedRanker], *others: str) -> list[str]:
    """Return the parameters of a ranker that not all rankers have, but those named."""
    others = (*others, *(one.name for one in fields(SolvedRanker)))
    return [one.name for one in fields(ranker) if one.name not in others]
