"""Pushes that concentrate on the bottom of the list, or on both ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.jax_oracles import log_sum_exp
from convexrank.data import check_nonnegative, check_positive, keep_checked
from convexrank.problems._linear_scores import RiskData
from convexrank.problems._pair_reference import reference_log_sum_exp
from convexrank.problems.bipartite._base import random_features, random_labels
from convexrank.problems.bipartite._boosting_oracle import LogSumExpTerm
from convexrank.problems.bipartite._log_form import LogForm, ReferenceLevel

__all__ = ["BottomPush", "TopBottomPush"]

Array = np.ndarray


def _powers(a: Any, b: Any, log_shares: Any, positive: Any, negative: Any) -> Any:
    of_positives, of_negatives = log_shares
    return log_sum_exp(of_positives - a * positive) / a + log_sum_exp(of_negatives + b * negative) / b


def _bottom_risk(data: Any, positive: Any, negative: Any) -> Any:
    return _powers(data[0], 1.0, data[1:], positive, negative)


def _both_risk(data: Any, positive: Any, negative: Any) -> Any:
    p, bottom_weight, *log_shares = data
    top = _powers(1.0, p, log_shares, positive, negative)
    return top + bottom_weight * _powers(p, 1.0, log_shares, positive, negative)


class _Powers(LogForm):
    """The p-norm form with powers a of the positives and b of the negatives: the push is (1, p), the pull (p, 1)."""

    def _power_terms(self, a: float, b: float, weight: float = 1.0) -> tuple[LogSumExpTerm, ...]:
        return (
            LogSumExpTerm(self.positives, -a, weight / a, self.log_positive_shares),
            LogSumExpTerm(self.negatives, b, weight / b, self.log_negative_shares),
        )

    def _power_reference(
        self, a: float, b: float, scores: Array, weight: float = 1.0
    ) -> list[ReferenceLevel]:
        positive, negative = self.split(scores)
        low, pull = reference_log_sum_exp(self.log_positive_shares - a * positive)
        high, push = reference_log_sum_exp(self.log_negative_shares + b * negative)
        of_positives = weight / a, low, self.positives, -a * pull
        return [of_positives, (weight / b, high, self.negatives, b * push)]

    def _powers(self, a: float, b: float, factor: float = 1.0) -> list[Any]:
        from convexrank.proof.pushes import Power

        low = Power(self.positives, self.positive_weights, -a, factor)
        return [low, Power(self.negatives, self.negative_weights, b, factor)]

    def _power_model(self, a: float, b: float, scores: Any) -> Any:
        import cvxpy as cp

        positive = cp.log_sum_exp(self.log_positive_shares - a * scores[self.positives])
        return positive / a + cp.log_sum_exp(self.log_negative_shares + b * scores[self.negatives]) / b


@dataclass(frozen=True, eq=False)
class BottomPush(_Powers):
    r"""Pull the worst positives up from the bottom of the list: the P-Norm Push with the roles exchanged.

    .. math::
        \min_w \; \frac1p \log\Bigl[\frac1I \sum_{i=1}^I \Bigl(\frac1K \sum_{k=1}^K e^{-(f_i-f_k)}\Bigr)^p\Bigr]
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    Means over positives (i) and negatives (k); convex for p > 0. It factorises like :class:`PNormPush`:
    :math:`\frac1p\log\frac1I\sum_i e^{-pf_i} + \log\frac1K\sum_k e^{f_k}`, O(I + K) per value. Its risk equals that of
    ``PNormPush(-X, 1 - y, p)``.

    Parameters
    ----------
    X, y, l2, l1, sample_weight, dtype : as for :class:`PNormPush`
        The data, the strengths, weights of rows and precision.
    p : float
        The strength of the pull, greater than 0.

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
        keep_checked(self, check_positive, "p")
        super().__post_init__()

    @cached_property
    def terms(self) -> tuple[LogSumExpTerm, ...]:
        """The two log-sum-exps of the risk."""
        return self._power_terms(self.p, 1.0)

    @cached_property
    def jax_risk(self) -> RiskData:
        """The risk as a JAX function of the positives' and negatives' scores."""
        weights = self.padded_log_weights(self.log_positive_shares, self.log_negative_shares)
        return RiskData(_bottom_risk, (np.asarray(self.p, self.X.dtype), *weights), self.part_sizes)

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression."""
        return self._power_model(self.p, 1.0, scores), []

    def reference_levels(self, scores: Array) -> list[ReferenceLevel]:
        """Return the two log-sum-exps of the risk in plain numpy: factor, value, rows, and gradient in their scores."""
        return self._power_reference(self.p, 1.0, scores)

    def ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, from the definition, for proofs; shape (n,) in and out."""
        from convexrank.proof.pushes import tangent_of_powers

        return tangent_of_powers(scores, self._powers(self.p, 1.0))

    def paper_value(self, w: Any) -> float:
        r"""Return the paper's :math:`R^{Bottom}_{p,\exp} = \sum_i(\sum_k e^{-(f_i-f_k)})^p` (section 7)."""
        risk, _ = self.reference_scores(self.scores(self.check_point(w)))
        counts = self.p * np.log(self.negative_weights.sum()) + np.log(self.positive_weights.sum())
        with np.errstate(over="ignore"):
            return float(np.exp(self.p * risk + counts))

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over pairs."""
        from math import exp, log

        f, y = [float(score) for score in scores], self.y.tolist()
        weight = [1.0] * len(f) if self.sample_weight is None else self.sample_weight.tolist()
        larger = max(y)
        positives = [i for i in range(len(f)) if y[i] == larger and weight[i] > 0.0]
        negatives = [k for k in range(len(f)) if y[k] != larger and weight[k] > 0.0]
        # in logarithms, each sum over its largest term: powers of sums of exponentials leave the range of floats
        powers = []
        for i in positives:
            top = max(f[k] - f[i] for k in negatives)
            total = sum(weight[k] * exp(f[k] - f[i] - top) for k in negatives)
            powers.append(self.p * (top + log(total / sum(weight[k] for k in negatives))))
        top = max(powers)
        total = sum(weight[i] * exp(value - top) for i, value in zip(positives, powers, strict=True))
        return (top + log(total / sum(weight[i] for i in positives))) / self.p

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        X = random_features(rng, int(rng.integers(6, 60)), int(rng.integers(1, 6)))
        p = float(rng.choice([1.0, 2.0, 8.0, 64.0]))
        l1 = float(rng.choice([0.0, 0.0, 0.02]))
        return cls(X, random_labels(rng, X), p=p, l2=float(rng.choice([1e-3, 1e-1])), l1=l1)


@dataclass(frozen=True, eq=False)
class TopBottomPush(_Powers):
    r"""Push at the top and pull at the bottom at once: :class:`PNormPush` plus a multiple of :class:`BottomPush`.

    .. math::
        \min_w \; \frac1p \log\frac1K \sum_k \Bigl(\frac1I \sum_i e^{-(f_i-f_k)}\Bigr)^p
        + \beta\,\frac1p \log\frac1I \sum_i \Bigl(\frac1K \sum_k e^{-(f_i-f_k)}\Bigr)^p
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1

    The paper adds the two objectives themselves; here their normalised logarithms are added, so that β weighs two
    quantities of the same size and nothing overflows. The minimisers differ from those of the paper's sum, by a
    reweighting that depends on the data. Convex for p > 0, O(I + K) per value.

    Parameters
    ----------
    X, y, l2, l1, sample_weight, dtype : as for :class:`PNormPush`
        The data, the strengths, weights of rows and precision.
    p : float
        The power of both terms, greater than 0.
    bottom_weight : float
        The factor β, at least 0.

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
        keep_checked(self, check_positive, "p")
        keep_checked(self, check_nonnegative, "bottom_weight")
        super().__post_init__()

    @cached_property
    def terms(self) -> tuple[LogSumExpTerm, ...]:
        """The two log-sum-exps of the push, and the two of the pull unless its weight is 0."""
        pull = self._power_terms(self.p, 1.0, self.bottom_weight) if self.bottom_weight else ()
        return self._power_terms(1.0, self.p) + pull

    @cached_property
    def jax_risk(self) -> RiskData:
        """The risk as a JAX function of the positives' and negatives' scores."""
        weights = self.padded_log_weights(self.log_positive_shares, self.log_negative_shares)
        scalars = np.asarray(self.p, self.X.dtype), np.asarray(self.bottom_weight, self.X.dtype)
        return RiskData(_both_risk, (*scalars, *weights), self.part_sizes)

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression."""
        top = self._power_model(1.0, self.p, scores)
        return top + self.bottom_weight * self._power_model(self.p, 1.0, scores), []

    def reference_levels(self, scores: Array) -> list[ReferenceLevel]:
        """Return the log-sum-exps of the risk in plain numpy: factor, value, rows, and gradient in their scores."""
        bottom = self._power_reference(self.p, 1.0, scores, self.bottom_weight)
        return self._power_reference(1.0, self.p, scores) + bottom

    def ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, from the definition, for proofs; shape (n,) in and out."""
        from convexrank.proof.pushes import tangent_of_powers

        bottom = self._powers(self.p, 1.0, self.bottom_weight)
        return tangent_of_powers(scores, [*self._powers(1.0, self.p), *bottom])

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over pairs."""
        from math import exp, log

        f, y = [float(score) for score in scores], self.y.tolist()
        weight = [1.0] * len(f) if self.sample_weight is None else self.sample_weight.tolist()
        larger = max(y)
        positives = [i for i in range(len(f)) if y[i] == larger and weight[i] > 0.0]
        negatives = [k for k in range(len(f)) if y[k] != larger and weight[k] > 0.0]
        # in logarithms, each sum over its largest term: powers of sums of exponentials leave the range of floats
        powers = []
        for k in negatives:
            top = max(f[k] - f[i] for i in positives)
            total = sum(weight[i] * exp(f[k] - f[i] - top) for i in positives)
            powers.append(self.p * (top + log(total / sum(weight[i] for i in positives))))
        top = max(powers)
        total = sum(weight[k] * exp(value - top) for k, value in zip(negatives, powers, strict=True))
        push = (top + log(total / sum(weight[k] for k in negatives))) / self.p
        powers = []
        for i in positives:
            top = max(f[k] - f[i] for k in negatives)
            total = sum(weight[k] * exp(f[k] - f[i] - top) for k in negatives)
            powers.append(self.p * (top + log(total / sum(weight[k] for k in negatives))))
        top = max(powers)
        total = sum(weight[i] * exp(value - top) for i, value in zip(positives, powers, strict=True))
        pull = (top + log(total / sum(weight[i] for i in positives))) / self.p
        return push + self.bottom_weight * pull

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        X = random_features(rng, int(rng.integers(6, 60)), int(rng.integers(1, 6)))
        p, weight = float(rng.choice([1.0, 2.0, 8.0, 64.0])), float(rng.choice([0.0, 0.3, 3.0]))
        l1 = float(rng.choice([0.0, 0.0, 0.02]))
        return cls(X, random_labels(rng, X), p, weight, l2=float(rng.choice([1e-3, 1e-1])), l1=l1)
