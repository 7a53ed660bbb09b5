"""The push with only the worst negative: R_max with any convex loss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from convexrank import losses
from convexrank.backend.cached import cached_property
from convexrank.backend.jax_oracles import pad
from convexrank.data import keep
from convexrank.problems._linear_scores import RiskData
from convexrank.problems._pair_reference import reference_derivatives
from convexrank.problems._smoothed import Smoothed
from convexrank.problems._smoothed_reference import reference_highest
from convexrank.problems.bipartite._base import Bipartite, random_features, random_labels
from convexrank.problems.bipartite._smoothed_top import KNOWN_LOSSES, mean_loss, smoothed_top
from convexrank.problems.bipartite._trivial_top import limit_problem, trivial_remark
from convexrank.problems.bipartite.p_norm_push import PNormPush
from convexrank.problems.duals._blocks import Conjugate
from convexrank.problems.duals._loss_blocks import AgainstLevel
from convexrank.problems.duals._losses import loss_conjugate

__all__ = ["RmaxPush"]

Array = np.ndarray

# A hinge is smoothed over a width so many times smaller than the maximum's, over which hundreds of negatives may share
# it: so that what smoothing costs falls at about the same rate in both.
_NARROWER = 30.0


@dataclass(frozen=True)
class _Rmax:
    """Mean loss of the positives against the highest negative. Hashable by its loss."""

    loss: losses.Loss

    def __call__(self, data: Any, positive: Any, negative: Any) -> Any:
        import jax.numpy as jnp

        shares, mask = data
        top = jnp.max(negative + mask)
        # padding has share 0; give it a harmless argument, since 0 · inf would be NaN
        differences = jnp.where(shares > 0, positive - top, 0.0)
        return shares @ self.loss(differences)


@dataclass(frozen=True, eq=False)
class RmaxPush(Bipartite):
    r"""The largest mean loss of any negative.

    .. math::
        \min_w \; \max_k \frac1I \sum_{i=1}^I \ell(f_i - f_k)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    A convex upper bound on R_max / I, the share of positives at or below the highest negative. The loss does not
    increase, so the highest negative has the largest mean loss, and the maximum is :math:`\frac1I\sum_i \ell(f_i -
    \max_k f_k)`, O(I + K). Not smooth. With the hinge loss and no l2 it is a linear program. With the exponential loss
    it is the exponential of :class:`TopPush`'s risk.

    Parameters
    ----------
    X, y, l2, l1, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`; the weight of a negative has an effect only if it is zero.
    loss : Loss or str
        A loss object or a name: hinge, logistic, exponential, squared_hinge.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 2 (R_max) and section 9.2.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.RmaxPush([[1.5], [2.0], [1.0], [0.0]], [1, 1, 0, 0], "hinge", l2=0.1)
    >>> problem.solve().status.name
    'CONVERGED'
    """

    loss: Any = "hinge"

    def __post_init__(self) -> None:
        keep(self, loss=losses.resolve(self.loss))
        super().__post_init__()

    differentiable = False  # the maximum over negatives has kinks

    @property
    def shared_at_zero(self) -> Array | None:
        """The negatives: all are the highest; None of a loss that may have a kink at 0."""
        return self.negatives if self.loss.smooth or isinstance(self.loss, losses.Hinge) else None

    @cached_property
    def jax_risk(self) -> RiskData:
        """The risk as a JAX function of the positives' and negatives' scores."""
        sizes, kind = self.part_sizes, self.X.dtype
        mask = pad(np.zeros(len(self.negatives), kind), sizes[1], -np.inf)
        return RiskData(_Rmax(self.loss), (pad(self.positive_shares.astype(kind), sizes[0]), mask), sizes)

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression."""
        import cvxpy as cp

        return self.positive_shares @ self.loss(scores[self.positives] - cp.max(scores[self.negatives])), []

    def reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and a subgradient in the scores, in plain numpy."""
        positive, negative = self.split(scores)
        values, slopes = reference_derivatives(self.loss, positive - negative.max())
        pull = self.positive_shares * slopes
        highest = negative == negative.max()
        return float(self.positive_shares @ values), self.join((pull, -pull.sum() * highest / highest.sum()))

    @cached_property
    def conjugate(self) -> Conjugate | None:
        """Multipliers of the positives' losses, and of the negatives that share the maximum; None of other losses."""
        found = loss_conjugate(self.loss)
        if found is None:
            return None
        sides = self.positives, self.negatives, self.positive_shares
        return Conjugate((AgainstLevel(found, *sides, None, _NARROWER),), self.rows)

    @property
    def has_smoothing(self) -> bool:
        """Whether the loss is one of this package; of another no second derivatives are known."""
        return type(self.loss) in KNOWN_LOSSES

    @property
    def first_width(self) -> float:
        """A width at which all negatives have their share of the maximum while scores are below 1."""
        return float(len(self.negatives))

    def smoothed(self, w: Array, width: float) -> Smoothed:
        """Return a smooth function below the risk at w, with its derivatives."""
        rows, scores = (self.positives, self.negatives), np.asarray(self.scores(w), dtype=np.float64)
        outer = partial(mean_loss, self.loss, shares=self.positive_shares, width=width, narrower=_NARROWER)
        return smoothed_top(self.X, *rows, scores, width, outer)

    def reference_below(self, scores: Array, width: float) -> tuple[float, Array]:
        """Return a linear function below the risk: negatives near the highest share its part, by a projection."""
        positive, negative = self.split(scores)
        share = reference_highest(negative, width)
        # any threshold gives a tangent of the loss, and the maximum is at least the mean of shares
        size = float(share @ share)
        margins = positive - (float(share @ negative) - 0.5 * width * size)
        values, slopes = reference_derivatives(self.loss, margins)
        if isinstance(self.loss, losses.Hinge):
            # any part from 0 to 1 of a hinge's slope is that of a line below it
            part = np.clip((1.0 - margins) / min(width / _NARROWER, 1.0), 0.0, 1.0)
            values, slopes = part * (1.0 - margins), -part
        pull = self.positive_shares * slopes
        lifted = values + slopes * (positive - float(share @ negative) - margins)
        return float(self.positive_shares @ lifted), self.join((pull, -pull.sum() * share))

    def ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, from the definition, for proofs; shape (n,) in and out."""
        from convexrank.proof.pushes import tangent_of_worst

        return tangent_of_worst(scores, self.loss, (self.positives, self.positive_weights), self.negatives)

    def ball_below(self, scores: Any, width: float) -> Any:
        """Return :meth:`reference_below` in ball arithmetic."""
        from convexrank.proof.pushes import below_worst

        sides = (self.positives, self.positive_weights), self.negatives
        return below_worst(scores, self.loss, *sides, width, min(width / _NARROWER, 1.0))

    @property
    def attained(self) -> bool:
        """Whether the loss reaches its infimum, so that separable data have a minimiser."""
        return self.loss.attained

    def remark(self, x: Array) -> str:
        """Say so where the minimum is w = 0."""
        return trivial_remark(self, x)

    def at_limit(self) -> PNormPush:
        r"""Return the problem that decides where the minimum is w = 0: the limit of PNormPush's directions, p → ∞.

        As p grows, the minimiser of :class:`PNormPush` goes to 0 there like v/p, and its direction to that of

        .. math:: \min_v \; \log \tfrac1K \sum_k e^{\langle v, x_k \rangle} - \langle v, \bar x\rangle

        with the mean positive :math:`\bar x`. It has no penalty: l2 and l1 vanish in the limit.

        Returns
        -------
        PNormPush
            With p = 1, one positive row, the mean, and the negatives; its weights score the rows of this problem.
        """
        return limit_problem(self)

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over pairs."""
        from convexrank.problems._plain import loss_of

        f, y = [float(score) for score in scores], self.y.tolist()
        weight = [1.0] * len(f) if self.sample_weight is None else self.sample_weight.tolist()
        larger = max(y)
        positives = [i for i in range(len(f)) if y[i] == larger and weight[i] > 0.0]
        negatives = [k for k in range(len(f)) if y[k] != larger and weight[k] > 0.0]
        loss, means = loss_of(self.loss), []
        for k in negatives:
            total = sum(weight[i] * loss(f[i] - f[k]) for i in positives)
            means.append(total / sum(weight[i] for i in positives))
        return max(means)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        X = random_features(rng, int(rng.integers(6, 60)), int(rng.integers(1, 6)))
        loss = ["exponential", "logistic", "hinge", "squared_hinge"][int(rng.integers(4))]
        l1 = float(rng.choice([0.0, 0.0, 0.02]))
        return cls(X, random_labels(rng, X), loss, l2=float(rng.choice([1e-2, 1e-1])), l1=l1)
