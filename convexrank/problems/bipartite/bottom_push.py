"""Concentrating on the bottom of the list, or on both ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.jax_oracles import log_sum_exp
from convexrank.data import check_nonnegative, check_positive
from convexrank.problems._linear_scores import RiskData
from convexrank.problems.bipartite._base import LogForm, log_mean_exp_gradient, random_features, random_labels
from convexrank.problems.bipartite._boosting_oracle import LogSumExpTerm

__all__ = ["BottomPush", "TopBottomPush"]

Array = np.ndarray


def _bottom(p: Any, log_positive: Any, log_negative: Any, positive: Any, negative: Any) -> Any:
    return log_sum_exp(log_positive - p * positive) / p + log_sum_exp(log_negative + negative)


def _bottom_risk(data: Any, positive: Any, negative: Any) -> Any:
    p, log_positive, log_negative = data
    return _bottom(p, log_positive, log_negative, positive, negative)


def _both_risk(data: Any, positive: Any, negative: Any) -> Any:
    p, bottom_weight, log_positive, log_negative = data
    top = log_sum_exp(log_positive - positive) + log_sum_exp(log_negative + p * negative) / p
    return top + bottom_weight * _bottom(p, log_positive, log_negative, positive, negative)


class _Bottom(LogForm):
    """What the two share."""

    def _bottom_terms(self, p: float, weight: float) -> tuple[LogSumExpTerm, ...]:
        return (
            LogSumExpTerm(self.positives, -p, weight / p, self.log_positive_shares),
            LogSumExpTerm(self.negatives, 1.0, weight, self.log_negative_shares),
        )

    def _reference_bottom(self, p: float, scores: Array) -> tuple[float, Array]:
        positive, negative = self.split(scores)
        low, pull = log_mean_exp_gradient(-p * positive, self.log_positive_shares)
        high, push = log_mean_exp_gradient(negative, self.log_negative_shares)
        return low / p + high, self.join((-pull, push))

    def _bottom_model(self, p: float, scores: Any) -> Any:
        import cvxpy as cp

        positive = cp.log_sum_exp(self.log_positive_shares - p * scores[self.positives])
        return positive / p + cp.log_sum_exp(self.log_negative_shares + scores[self.negatives])


@dataclass(frozen=True, eq=False)
class BottomPush(_Bottom):
    r"""Pull the worst positives up from the bottom of the list: the P-Norm Push with the roles exchanged.

    .. math::
        \min_w \; \frac1p \log\Bigl[\frac1I \sum_{i=1}^I \Bigl(\frac1K \sum_{k=1}^K e^{-(f_i-f_k)}\Bigr)^p\Bigr]
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    Means over positives (i) and negatives (k); convex for p > 0. It factorises like :class:`PNormPush`:
    :math:`\frac1p\log\frac1I\sum_i e^{-pf_i} + \log\frac1K\sum_k e^{f_k}`, O(I + K) a value. Its risk equals that of
    ``PNormPush(-X, 1 - y, p)``.

    Parameters
    ----------
    X : array, sparse array or JAX array, shape (n, d)
        One row an example; no intercept.
    y : array, shape (n,)
        Two classes; the larger label is positive.
    p : float
        The strength of the pull, greater than 0.
    l2, l1 : float
        Strengths.
    sample_weight : array, shape (n,), optional
        Row weights; the means become weighted means.
    dtype : {"float64", "float32"}
        Precision of the data.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 7, "Concentrating on the Bottom".

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.BottomPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=2, l2=0.1)
    >>> problem.solve().status.name
    'CONVERGED'
    """

    p: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", check_positive(self.p, "p"))
        super().__post_init__()

    @property
    def terms(self) -> tuple[LogSumExpTerm, ...]:
        """The two log-sum-exps of the risk."""
        return self._bottom_terms(self.p, 1.0)

    @cached_property
    def risk(self) -> RiskData:
        """The risk as a JAX function of the positives' and negatives' scores."""
        weights = self.padded_log_weights(self.log_positive_shares, self.log_negative_shares)
        return RiskData(_bottom_risk, (np.asarray(self.p, self.X.dtype), *weights), self.part_sizes)

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression."""
        return self._bottom_model(self.p, scores), []

    def reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, in plain numpy."""
        return self._reference_bottom(self.p, scores)

    def paper_value(self, w: Any) -> float:
        r"""Return the paper's :math:`R^{Bottom}_{p,\exp} = \sum_i(\sum_k e^{-(f_i-f_k)})^p` (section 7)."""
        risk, _ = self.reference_scores(self.scores(self.check_point(w)))
        counts = self.p * np.log(self.negative_weights.sum()) + np.log(self.positive_weights.sum())
        with np.errstate(over="ignore"):
            return float(np.exp(self.p * risk + counts))

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        X = random_features(rng, int(rng.integers(6, 60)), int(rng.integers(1, 6)))
        p = float(rng.choice([1.0, 2.0, 8.0, 64.0]))
        l1 = float(rng.choice([0.0, 0.0, 0.02]))
        return cls(X, random_labels(rng, X), p=p, l2=float(rng.choice([1e-3, 1e-1])), l1=l1)


@dataclass(frozen=True, eq=False)
class TopBottomPush(_Bottom):
    r"""Push at the top and pull at the bottom at once: :class:`PNormPush` plus a multiple of :class:`BottomPush`.

    .. math::
        \min_w \; \frac1p \log\frac1K \sum_k \Bigl(\frac1I \sum_i e^{-(f_i-f_k)}\Bigr)^p
        + \beta\,\frac1p \log\frac1I \sum_i \Bigl(\frac1K \sum_k e^{-(f_i-f_k)}\Bigr)^p
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1

    The paper adds the two objectives themselves; here their normalised logarithms are added, so that β weighs two
    quantities of the same size and nothing overflows. The minimisers differ from those of the paper's sum, by a
    reweighting that depends on the data. Convex for p > 0, O(I + K) a value.

    Parameters
    ----------
    X : array, sparse array or JAX array, shape (n, d)
        One row an example; no intercept.
    y : array, shape (n,)
        Two classes; the larger label is positive.
    p : float
        The strength of both, greater than 0.
    bottom_weight : float
        The factor β, at least 0.
    l2, l1 : float
        Strengths.
    sample_weight : array, shape (n,), optional
        Row weights; the means become weighted means.
    dtype : {"float64", "float32"}
        Precision of the data.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 7, "Concentrating on the Bottom", last sentence.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.TopBottomPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], 2, 0.5, l2=0.1)
    >>> problem.solve().status.name
    'CONVERGED'
    """

    p: float
    bottom_weight: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", check_positive(self.p, "p"))
        object.__setattr__(self, "bottom_weight", check_nonnegative(self.bottom_weight, "bottom_weight"))
        super().__post_init__()

    @property
    def terms(self) -> tuple[LogSumExpTerm, ...]:
        """The two log-sum-exps of the push, and the two of the pull unless its weight is 0."""
        top = (
            LogSumExpTerm(self.positives, -1.0, 1.0, self.log_positive_shares),
            LogSumExpTerm(self.negatives, self.p, 1.0 / self.p, self.log_negative_shares),
        )
        return top + (self._bottom_terms(self.p, self.bottom_weight) if self.bottom_weight else ())

    @cached_property
    def risk(self) -> RiskData:
        """The risk as a JAX function of the positives' and negatives' scores."""
        weights = self.padded_log_weights(self.log_positive_shares, self.log_negative_shares)
        scalars = np.asarray(self.p, self.X.dtype), np.asarray(self.bottom_weight, self.X.dtype)
        return RiskData(_both_risk, (*scalars, *weights), self.part_sizes)

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression."""
        import cvxpy as cp

        positive = cp.log_sum_exp(self.log_positive_shares - scores[self.positives])
        negative = cp.log_sum_exp(self.log_negative_shares + self.p * scores[self.negatives])
        return positive + negative / self.p + self.bottom_weight * self._bottom_model(self.p, scores), []

    def reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, in plain numpy."""
        positive, negative = self.split(scores)
        low, pull = log_mean_exp_gradient(-positive, self.log_positive_shares)
        high, push = log_mean_exp_gradient(self.p * negative, self.log_negative_shares)
        bottom, slope = self._reference_bottom(self.p, scores)
        value = low + high / self.p + self.bottom_weight * bottom
        return value, self.join((-pull, push)) + self.bottom_weight * slope

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        X = random_features(rng, int(rng.integers(6, 60)), int(rng.integers(1, 6)))
        p, weight = float(rng.choice([1.0, 2.0, 8.0, 64.0])), float(rng.choice([0.0, 0.3, 3.0]))
        l1 = float(rng.choice([0.0, 0.0, 0.02]))
        return cls(X, random_labels(rng, X), p, weight, l2=float(rng.choice([1e-3, 1e-1])), l1=l1)
