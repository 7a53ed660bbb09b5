"""The push for any list of pairs, not only for pairs of a positive and a negative."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy import sparse

from convexrank import losses, prices
from convexrank.backend.cached import cached_property
from convexrank.backend.jax_oracles import pad, shape_class
from convexrank.data import check_pairs, keep
from convexrank.problems._linear_scores import RiskData
from convexrank.problems._pair_reference import reference_derivatives
from convexrank.problems._price_models import PriceModel
from convexrank.problems._second_order import SecondOrder
from convexrank.problems.bipartite._base import random_features
from convexrank.problems.bipartite.push import check_price_fits, is_flat_at_zero, random_price_and_loss

__all__ = ["CrucialPairs"]

Array = np.ndarray

# One log-sum-exp atom for each lower row: cvxpy takes long to compile more of them than this.
_ATOMS = 200


@dataclass(frozen=True)
class _PairSums:
    """Σ_k g(Σ_{i above k} ℓ(f_i − f_k)) over a list of pairs. Hashable by loss and price."""

    loss: losses.Loss
    price: prices.Price

    def __call__(self, data: Any, scores: Any) -> Any:
        import jax
        import jax.numpy as jnp

        better, worse, group, pair_mask, group_mask = data
        differences = jnp.where(pair_mask, scores[better] - scores[worse], 0.0)
        count = group_mask.shape[0]
        if not self.loss.factorises:
            sums = jax.ops.segment_sum(jnp.where(pair_mask, self.loss(differences), 0.0), group, count)
            return jnp.where(group_mask, self.price.g(jnp.where(group_mask, sums, 1.0)), 0.0).sum()
        top = jax.lax.stop_gradient(jax.ops.segment_max(-differences, group, count))
        top = jnp.where(jnp.isfinite(top), top, 0.0)
        terms = jnp.where(pair_mask, jnp.exp(-differences - top[group]), 0.0)
        sums = jnp.where(group_mask, jax.ops.segment_sum(terms, group, count), 1.0)
        levels = jnp.where(group_mask, jnp.log(sums) + top, 0.0)
        return jnp.where(group_mask, self.price.h(levels), 0.0).sum()


@dataclass(frozen=True, eq=False)
class CrucialPairs(SecondOrder):
    r"""The push objective for a given list of pairs; in each pair one row should rank above the other.

    .. math::
        \min_w \; \sum_{k} g\Bigl(\sum_{i:\,(i,k)\in\text{pairs}} \ell(f_i - f_k)\Bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    The outer sum is over rows k that are the lower row of some pair. A repeated pair counts repeatedly. Convex under
    the same conditions as :class:`Push`, which is the case of all positive–negative pairs. A value costs O(m) for m
    pairs.

    Parameters
    ----------
    X, l2, l1, dtype : as for :class:`PNormPush`
        The data, the strengths and the precision.
    pairs : array of int, shape (m, 2)
        Row numbers; the first of each pair should rank above the second.
    price, loss : as for :class:`Push`
        The price and the loss, as objects or by name.

    Raises
    ------
    ValueError, TypeError
        When X is not a finite real matrix, a pair is out of range or ranks a row above itself, a number is out of
        range, or price and loss do not make a convex objective.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 7, "Crucial Pairs Formulation".

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    >>> problem = cr.problems.CrucialPairs(X, [[0, 1], [2, 1]], price=2, loss="logistic", l2=0.1)
    >>> problem.solve().status.name
    'CONVERGED'
    """

    pairs: Any
    price: Any = field(default="identity")
    loss: Any = field(default="exponential")

    def __post_init__(self) -> None:
        super().__post_init__()
        keep(self, pairs=check_pairs(self.pairs, self.X.shape[0]))
        keep(self, price=prices.resolve(self.price), loss=losses.resolve(self.loss))
        check_price_fits(self.price, self.loss)

    depends_on_differences = True

    @property
    def differentiable(self) -> bool:
        """Whether loss and price are both differentiable."""
        return self.loss.smooth and getattr(self.price, "smooth", True)

    @property
    def smooth_at_zero(self) -> bool:
        """Whether the price is differentiable and the loss is at 0: the hinge is, its kink is at 1."""
        return (self.loss.smooth or isinstance(self.loss, losses.Hinge)) and getattr(
            self.price, "smooth", True
        )

    @cached_property
    def _groups(self) -> tuple[int, Array]:
        """Number of distinct lower rows, and the one of each pair, numbered from 0."""
        rows, group = np.unique(self.pairs[:, 1], return_inverse=True)
        return len(rows), group.ravel()

    @cached_property
    def jax_risk(self) -> RiskData:
        """The risk as a JAX function of all scores."""
        count, group = self._groups
        pair_size, group_size = shape_class(len(self.pairs)), shape_class(count)
        padded = [pad(values, pair_size) for values in (self.pairs[:, 0], self.pairs[:, 1], group)]
        masks = np.arange(pair_size) < len(self.pairs), np.arange(group_size) < count
        return RiskData(_PairSums(self.loss, self.price), (*padded, *masks), (shape_class(self.X.shape[0]),))

    def join(self, parts: tuple[Array, ...]) -> Array:
        """Return the gradient in all scores."""
        return parts[0][: self.X.shape[0]]

    @cached_property
    def _incidence(self) -> Any:
        count, group = self._groups
        entries = np.ones(len(group)), (group, np.arange(len(group)))
        return sparse.csr_array(entries, shape=(count, len(group)))

    @property
    def model_is_nonlinear(self) -> bool:
        """Whether the price is beyond cvxpy's rules; that it is convex has been checked on a grid."""
        return self._priced.form == "nonlinear"

    @cached_property
    def _priced(self) -> PriceModel:
        in_log = self._groups[0] <= _ATOMS or not self.price.convex
        return PriceModel.of(self.price, self.loss, in_log)

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression."""
        return self._risk_model(scores, self._priced)

    def other_risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the same with a variable for each sum of losses, which is at least the sum."""
        return self._risk_model(scores, self._priced.other)

    def _risk_model(self, scores: Any, priced: PriceModel) -> tuple[Any, list[Any]]:
        import cvxpy as cp

        count, group = self._groups
        differences, sizes = (
            scores[self.pairs[:, 0]] - scores[self.pairs[:, 1]],
            np.bincount(group, minlength=count),
        )
        if priced.in_log:
            levels = [cp.log_sum_exp(-differences[np.flatnonzero(group == k)]) for k in range(count)]
            costs, limits = priced.state(cp.hstack(levels), np.log(sizes), len(self.pairs))
        else:
            sums, at_zero = self._incidence @ self.loss(differences), sizes * float(self.loss(0.0))
            costs, limits = priced.state(sums, at_zero, len(self.pairs))
        return cp.sum(costs), limits

    def reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and a subgradient in the scores, in plain numpy."""
        count, group = self._groups
        better, worse = self.pairs.T
        differences = scores[better] - scores[worse]
        if self.loss.factorises:
            top = np.full(count, -np.inf)
            np.maximum.at(top, group, -differences)
            terms = np.exp(-differences - top[group])
            sums = np.bincount(group, terms, count)
            values, slopes = reference_derivatives(self.price.h, np.log(sums) + top)
            pull = -(slopes / sums)[group] * terms
        else:
            pair_values, pair_slopes = reference_derivatives(self.loss, differences)
            values, slopes = reference_derivatives(self.price.g, np.bincount(group, pair_values, count))
            pull = slopes[group] * pair_slopes
        gradient = np.bincount(better, pull, len(scores)) - np.bincount(worse, pull, len(scores))
        return float(values.sum()), gradient

    def ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, from the definition, for proofs; shape (n,) in and out."""
        from convexrank.proof.pairs import tangent_of_groups

        return tangent_of_groups(scores, self.price, self.loss, *self.pairs.T)

    @property
    def attained(self) -> bool:
        """Whether separable data have a minimiser: the loss, or a price that is flat near 0, reaches its infimum."""
        return self.loss.attained or is_flat_at_zero(self.price)

    def is_separating(self, w: Array) -> bool:
        """Whether every pair is ranked strictly in the right order."""
        scores = self.scores(w)
        return bool((scores[self.pairs[:, 0]] > scores[self.pairs[:, 1]]).all())

    def ordering(self) -> tuple[Any, Any]:
        """Return the constraint f_i ≥ f_k of every pair."""
        return self.X[self.pairs[:, 0]] - self.X[self.pairs[:, 1]], np.zeros((len(self.pairs), 0))

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over the pairs."""
        from math import exp, log

        from convexrank.problems._plain import loss_of, price_of, price_of_exp

        f, pairs = [float(score) for score in scores], self.pairs.tolist()
        loss, price, price_of_power = loss_of(self.loss), price_of(self.price), price_of_exp(self.price)
        above: dict[int, list[int]] = {}
        for i, k in pairs:
            above.setdefault(k, []).append(i)
        risk = 0.0
        for k, rows in above.items():
            if isinstance(self.loss, losses.Exponential):
                # the logarithm of the sum of e^-(f_i - f_k): the price may be finite where the sum is not
                top = max(f[k] - f[i] for i in rows)
                risk += price_of_power(top + log(sum(exp(f[k] - f[i] - top) for i in rows)))
            else:
                risk += price(sum(loss(f[i] - f[k]) for i in rows))
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        rows = int(rng.integers(5, 25))
        X = random_features(rng, rows, int(rng.integers(1, 5)), bounded=True)
        first = rng.integers(rows, size=int(rng.integers(3, 60)))
        pairs = np.column_stack([first, (first + rng.integers(1, rows, size=len(first))) % rows])
        price, loss = random_price_and_loss(rng, [])
        l1 = float(rng.choice([0.0, 0.0, 0.3]))
        return cls(X, pairs, price, loss, l2=float(rng.choice([0.1, 3.0])), l1=l1)
