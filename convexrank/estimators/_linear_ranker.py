"""Base of the estimators with a linear score: the weights ``coef_``, dense or sparse rows, repeated rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from convexrank.core.problem import Problem
from convexrank.core.results import Solution
from convexrank.data import Chunks, check_choice, check_flag, check_weights, read_array, well_formed
from convexrank.features import Products, Stacked, Thresholds

Array = np.ndarray

# The columns to which the weights may belong.
_FEATURES = {name: name for name in ("linear", "thresholds", "products")}
# Most thresholds of one feature, alone and in products.
_BINS, _BINS_OF_PRODUCTS = 256, 12
# Rows that repetition may make.
_LARGEST = 1e9


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Return X in float64, with y if given, as scikit-learn checks them; errors name the argument."""
    if sparse.issparse(X):
        X = well_formed(X, "X")
    try:
        return validate_data(estimator, X, *y, dtype=np.float64, **options)
    except (OverflowError, TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        names, more = ("X or y", ", and a vector y of n entries") if y else ("X", "")
        raise kind(f"{names}: {error}; expected numbers X of shape (n, d){more}.") from error


class LinearEstimator(BaseEstimator):
    """An estimator with one linear score Xw. Subclasses are dataclasses: their fields are the constructor."""

    coef_: Array
    #: How columns become columns of weights, where weights are not those of the features themselves.
    features: Any = "linear"
    bins: int | None = None
    monotone: Any = None
    #: How problems are solved, where a subclass lets the caller say so.
    solver: Any = None
    tol: float = 1e-8
    max_iter: int | None = None
    time_limit: float | None = None
    warm_start: bool = False
    verbose: bool = False

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
        """Return finite X, dense or CSR, with y if given, as scikit-learn checks them; Chunks as they are."""
        if isinstance(X, Chunks):
            return self._streamed(X, *y, **options)
        if not self._is_linear:
            return validated(self, X, *y, ensure_all_finite="allow-nan", **options)
        return validated(self, X, *y, accept_sparse="csr", **options)

    def _streamed(self, X: Chunks, *y: Any, reset: bool = True, **_: Any) -> Any:
        """Return rows out of memory, which were checked when they were seen first, and their labels."""
        if not self._is_linear:
            raise TypeError(
                f"X is {X!r}, rows out of memory, of which features={self.features!r} would need the quantiles; pass "
                "features='linear', or a sample of the rows in memory, such as chunks[::100]."
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
        design: Any = Thresholds(X, self.bins or _BINS, self.monotone, names=names, sample_weight=weights)
        if self.features == "products":
            pairs = Products(X, self.bins or _BINS_OF_PRODUCTS, names=names, sample_weight=weights)
            design = Stacked([design, pairs])
        self.design_ = design[np.arange(0)]
        return design

    def _solved(self, problem: Problem, solver: Any = None) -> Solution:
        """Solve as the parameters say; with ``warm_start`` from the weights of the fit before, where they fit."""
        return problem.solve(
            solver,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            x0=self._start(problem.dimension),
            progress=check_flag(self.verbose, "verbose"),
        )

    def _start(self, dimension: int) -> Array | None:
        """Return the weights of the fit before, where ``warm_start`` asks for them and they fit."""
        before = getattr(self, "coef_", None) if check_flag(self.warm_start, "warm_start") else None
        return before if before is not None and len(before) == dimension else None

    def _keep(self, solution: Solution) -> Self:
        """Set the fitted attributes; refuse a solution that would predict NaN."""
        if not np.isfinite(solution.x).all():
            raise ValueError(
                f"no point with a finite objective was found ({solution.message}); the parameters, the weights or the "
                "features are too large: divide them by a common factor."
            )
        self.solution_ = solution
        self.coef_ = solution.x
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
    solver: Any = None
    tol: float = 1e-8
    max_iter: int | None = None
    time_limit: float | None = None
    warm_start: bool = False
    verbose: bool = False


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
