"""The general objective of the push papers: any price, any loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank import losses, prices
from convexrank.backend import jax_oracles
from convexrank.backend.cached import cached_property
from convexrank.backend.jax_oracles import pad
from convexrank.data import keep
from convexrank.pair_sums.positive_negative import BlockedPairs, polynomial_push
from convexrank.problems._linear_scores import RiskData
from convexrank.problems._pair_reference import reference_derivatives, reference_log_sum_exp, reference_push
from convexrank.problems._price_models import PriceModel
from convexrank.problems.bipartite._base import Bipartite, random_features, random_labels
from convexrank.problems.duals._loss_blocks import MODEL, refuse_many_pairs

__all__ = ["Push", "check_price_fits", "is_flat_at_zero", "random_price_and_loss"]

Array = np.ndarray

# Objectives beyond this have no digits left for a gap.
_TOO_STEEP = 1e12
# Up to this many pairs second derivatives are affordable.
_FEW_PAIRS = 2_000_000


def check_price_fits(price: prices.Price, loss: losses.Loss) -> None:
    """Refuse a price whose objective would not be convex with this loss."""
    if loss.factorises and not price.log_convex:
        raise ValueError(
            f"{price!r} does not make a convex objective: with the exponential loss h(a) = g(exp a) must be convex."
        )
    if not loss.factorises and not price.convex:
        raise ValueError(
            f"{price!r} does not make a convex objective with {loss!r}: g itself must be convex there. "
            "Use the exponential loss (only h(a) = g(exp a) must be convex) or a convex price."
        )


def is_flat_at_zero(price: prices.Price) -> bool:
    """Whether small sums cost nothing more than 0 does, so that a finite w can reach the infimum."""
    return bool(
        jax_oracles.derivatives(price.g, np.array([0.0]))[0]
        == jax_oracles.derivatives(price.g, np.array([1e-4]))[0]
    )


def random_price_and_loss(
    rng: np.random.Generator, convex_prices: list[prices.Price]
) -> tuple[prices.Price, losses.Loss]:
    """Draw a loss and a price that fits it; some prices are only for losses that do not factorise."""
    kinds: tuple[type[losses.Loss], ...] = (
        losses.Exponential, losses.Logistic, losses.Hinge, losses.SquaredHinge,
    )  # fmt: skip
    loss = kinds[int(rng.integers(4))]()
    choices = [prices.Identity(), prices.Power(2.0), prices.Power(3.0)]
    choices += [prices.LogOnePlus()] if loss.factorises else convex_prices
    return choices[int(rng.integers(len(choices)))], loss


@dataclass(frozen=True)
class _ExponentialPush:
    """Σ_k v_k h(lse_i(−f_i) + f_k): the exponential loss factorises. Hashable by its price."""

    price: prices.Price

    def __call__(self, data: Any, positive: Any, negative: Any) -> Any:
        import jax.nn
        import jax.numpy as jnp

        log_positive, negative_weights = data
        level = jax.nn.logsumexp(log_positive - positive)
        # padding has weight 0; give it a harmless argument, since 0 · inf would be NaN
        arguments = jnp.where(negative_weights > 0, level + negative, 0.0)
        return negative_weights @ jnp.broadcast_to(self.price.h(arguments), negative.shape)


@dataclass(frozen=True, eq=False)
class Push(Bipartite):
    r"""The push papers' general objective, for any price g and loss ℓ.

    .. math::
        \min_w \; \sum_{k=1}^K g\Bigl(\sum_{i=1}^I \ell(f_i - f_k)\Bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    Sums, not means, as in the paper: the value grows with I and K, and l2 must be chosen on that scale. Convex when ℓ
    is convex and g convex and non-decreasing; with the exponential loss it is enough that :math:`h(a) = g(e^a)` is
    convex.

    Cost of a value: O(I + K) with the exponential loss; O((I+K) log(I+K)) with hinge and squared hinge, any price;
    O(I·K) time with bounded memory otherwise. With steep prices and the exponential loss the sums leave the range of
    floating point; :class:`PNormPush` is the same objective for powers, in a form that cannot overflow.

    Parameters
    ----------
    X, y, l2, l1, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`; weights are like repeated rows: both sums become weighted sums.
    price : Price, float or str
        A price object, a number p for ``prices.Power(p)``, or a name: identity, log_one_plus, exp.
    loss : Loss or str
        A loss object or a name: exponential, logistic, hinge, squared_hinge.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`; also when price and loss do not make a convex objective.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 2.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0]
    >>> problem = cr.problems.Push(X, y, price=2, loss="squared_hinge", l2=0.1)
    >>> problem.solve().status.name
    'CONVERGED'
    """

    price: Any
    loss: Any = "exponential"

    def __post_init__(self) -> None:
        keep(self, price=prices.resolve(self.price), loss=losses.resolve(self.loss))
        check_price_fits(self.price, self.loss)
        super().__post_init__()

    @property
    def differentiable(self) -> bool:
        """Whether loss and price are both differentiable."""
        return self.loss.smooth and getattr(self.price, "smooth", True)

    @property
    def smooth_at_zero(self) -> bool:
        """Whether the price, and the loss at 0, are differentiable; the hinge is, because its kink is at 1."""
        return (self.loss.smooth or isinstance(self.loss, losses.Hinge)) and getattr(
            self.price, "smooth", True
        )

    @property
    def takes_chunks(self) -> bool:  # type: ignore[override]
        """Whether X may be rows out of memory, in two passes; only if the loss factorises."""
        return self.loss.factorises

    @property
    def _pairs(self) -> int:
        return len(self.positives) * len(self.negatives)

    @property
    def has_curvature(self) -> bool:
        """Whether Newton's method is possible; second derivatives must not need too many pairs."""
        return self.differentiable and (self.loss.factorises or self._pairs <= _FEW_PAIRS)

    @property
    def pairwise_curvature(self) -> bool:  # type: ignore[override]
        """Whether second derivatives are sums over all pairs; not if the loss factorises."""
        return not self.loss.factorises

    #: No sample is drawn: far from the minimiser sums of powers bend otherwise than near it.
    sample_rows = 0  # type: ignore[assignment]

    @cached_property
    def jax_risk(self) -> RiskData:
        """The risk as a JAX function of the positives' and negatives' scores."""
        sizes, kind = self.part_sizes, self.X.dtype
        weights = pad(self.negative_weights.astype(kind), sizes[1])
        if self.loss.factorises:
            logs = pad(np.log(self.positive_weights).astype(kind), sizes[0], -np.inf)
            return RiskData(_ExponentialPush(self.price), (logs, weights), sizes)
        positive_weights = pad(self.positive_weights.astype(kind), sizes[0])
        return RiskData(BlockedPairs(self.loss, self.price.g), (positive_weights, weights), sizes)

    def risk_and_score_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, by the fastest sum over pairs that the loss allows."""
        if self.loss.polynomial is None:
            return super().risk_and_score_gradient(scores)
        positive, negative = self.split(scores)
        weights = self.positive_weights, self.negative_weights
        value, up, down = polynomial_push(self.loss.polynomial, self.price, positive, negative, *weights)
        return value, self.join((up, down))

    @property
    def model_is_nonlinear(self) -> bool:
        """Whether cvxpy's rules do not show that the price is convex; then convexity was tested on a grid."""
        return self._priced.form == "nonlinear"

    @cached_property
    def _priced(self) -> PriceModel:
        return PriceModel.of(self.price, self.loss)

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression: O(I + K) terms with the exponential loss, else one for each pair."""
        return self._risk_model(scores, self._priced)

    def other_risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the same with a variable for each sum of losses, which is at least the sum."""
        return self._risk_model(scores, self._priced.other)

    def _risk_model(self, scores: Any, priced: PriceModel) -> tuple[Any, list[Any]]:
        import cvxpy as cp

        if self.loss.factorises:
            level = cp.log_sum_exp(np.log(self.positive_weights) - scores[self.positives])
            argument, at_zero = level + scores[self.negatives], float(np.log(self.positive_weights.sum()))
            terms = len(self.negatives)
        else:
            terms = self._pairs
            refuse_many_pairs(terms, MODEL)
            shape = len(self.negatives), len(self.positives)
            better, worse = np.tile(self.positives, shape[0]), np.repeat(self.negatives, shape[1])
            pair_losses = cp.reshape(self.loss(scores[better] - scores[worse]), shape, order="C")
            argument = pair_losses @ self.positive_weights
            at_zero = float(self.positive_weights.sum()) * float(self.loss(0.0))
        costs, limits = priced.state(argument, at_zero, terms)
        return cp.sum(self.negative_weights @ costs), limits

    def reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and a subgradient in the scores: sorted, or from the double sum where no sort helps."""
        positive, negative = self.split(scores)
        weights = self.positive_weights, self.negative_weights
        if self.loss.factorises:
            level, pull = reference_log_sum_exp(np.log(weights[0]) - positive)
            values, slopes = reference_derivatives(self.price.h, level + negative)
            push = weights[1] * slopes
            return float(weights[1] @ values), self.join((-push.sum() * pull, push))
        value, up, down = reference_push(self.loss, self.price.g, positive, negative, *weights)
        return value, self.join((up, down))

    def ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, from the definition, for proofs; shape (n,) in and out."""
        from convexrank.proof.pushes import tangent_of_prices

        sides = (self.positives, self.positive_weights), (self.negatives, self.negative_weights)
        return tangent_of_prices(scores, self.price, self.loss, *sides)

    @property
    def attained(self) -> bool:
        """Whether separable data have a minimiser: the loss, or a price that is flat near 0, reaches its infimum."""
        return self.loss.attained or is_flat_at_zero(self.price)

    def remark(self, x: Array) -> str:
        """Return a remark if the sums of a steep price exceed the precision of floats."""
        if not isinstance(self.price, prices.ExpPrice) or not self.objective(x) > _TOO_STEEP:
            return ""
        total = float(self.positive_weights.sum())
        return (
            f"the price exp({self.price.scale:g} r) of a sum over {total:g} positives is too steep for floating point "
            f"numbers; pass prices.ExpPrice(1/I) = prices.ExpPrice({1.0 / total:.3g}), or row weights of 1/I"
        )

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over pairs."""
        from math import exp, log

        from convexrank.problems._plain import loss_of, price_of, price_of_exp

        f, y = [float(score) for score in scores], self.y.tolist()
        weight = [1.0] * len(f) if self.sample_weight is None else self.sample_weight.tolist()
        larger = max(y)
        positives = [i for i in range(len(f)) if y[i] == larger and weight[i] > 0.0]
        negatives = [k for k in range(len(f)) if y[k] != larger and weight[k] > 0.0]
        loss, price, price_of_power = loss_of(self.loss), price_of(self.price), price_of_exp(self.price)
        risk = 0.0
        for k in negatives:
            if isinstance(self.loss, losses.Exponential):
                # the logarithm of the sum of e^-(f_i - f_k): the price may be finite where the sum is not
                top = max(f[k] - f[i] for i in positives)
                total = sum(weight[i] * exp(f[k] - f[i] - top) for i in positives)
                risk += weight[k] * price_of_power(top + log(total))
            else:
                risk += weight[k] * price(sum(weight[i] * loss(f[i] - f[k]) for i in positives))
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        X = random_features(rng, int(rng.integers(6, 24)), int(rng.integers(1, 5)), bounded=True)
        price, loss = random_price_and_loss(rng, [prices.ExpPrice(0.1)])
        l1 = float(rng.choice([0.0, 0.0, 0.3]))
        return cls(X, random_labels(rng, X), price, loss, l2=float(rng.choice([0.1, 3.0])), l1=l1)
