"""The IR Push: a convex relative of discounted cumulative gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.gram import centred_gram, transposed_times
from convexrank.core.score_model import Curvature, ScoreModel
from convexrank.problems._linear_scores import RiskData
from convexrank.problems._pair_reference import reference_log_sum_exp
from convexrank.problems._streams import refuse_chunks
from convexrank.problems.bipartite._base import Bipartite, random_features, random_labels
from convexrank.problems.bipartite._boosting_oracle import log_sum_exp_gradient
from convexrank.problems.duals._blocks import Conjugate
from convexrank.problems.duals._loss_blocks import AgainstLevel
from convexrank.problems.duals._losses import LOGISTIC

__all__ = ["IRPush"]

Array = np.ndarray


def _risk(data: Any, positive: Any, negative: Any) -> Any:
    import jax.nn

    shares, log_negative = data
    return shares @ jax.nn.softplus(jax.nn.logsumexp(log_negative + negative) - positive)


@dataclass(frozen=True, eq=False)
class IRPush(Bipartite):
    r"""The IR Push: a discounted count of the negatives above each positive.

    .. math::
        \min_w \; \frac1I \sum_{i=1}^I \log\Bigl(1 + \sum_{k=1}^K e^{f_k-f_i}\Bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    A mean over positives of a sum over negatives (the paper has the sum over positives: :meth:`paper_value`). The
    discount log(1 + z) is concave, but log(1 + e^a) is convex, so the whole is convex. Since
    :math:`\sum_k e^{f_k-f_i} = e^{\operatorname{lse}(f_k)-f_i}`, a value costs O(I + K). Without l2 and l1,
    separable data have no minimiser: status SEPARABLE.

    Parameters
    ----------
    X, y, l2, l1, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`; with weights of rows, a weighted mean over positives and a weighted sum over
        negatives.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 7, equation (2).

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.IRPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], l2=0.1)
    >>> problem.solve().status.name
    'CONVERGED'
    """

    #: Rows out of memory take two passes: the level of the negatives comes first.
    takes_chunks = True

    @cached_property
    def jax_risk(self) -> RiskData:
        """The risk as a JAX function of the positives' and negatives' scores."""
        logs = self.padded_log_weights(self.log_positive_shares, np.log(self.negative_weights))
        return RiskData(_risk, (np.exp(logs[0]), logs[1]), self.part_sizes)

    def _chances(self, scores: Array) -> tuple[float, Array, Array, Array]:
        """The risk, first and second derivatives of its terms in the level of the negatives, and their softmax."""
        positive, negative = self.split(scores)
        level, softmax = log_sum_exp_gradient(self._log_negative_weights + negative)
        excess = level - positive
        costs = np.logaddexp(0.0, excess)
        chances = np.exp(excess - costs)
        pull = self.positive_shares * chances
        return float(self.positive_shares @ costs), pull, pull * np.exp(-costs), softmax

    @cached_property
    def _log_negative_weights(self) -> Array:
        return np.log(self.negative_weights)

    def risk_and_score_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, in numpy: nothing has to be compiled. O(n)."""
        value, pull, _, softmax = self._chances(scores)
        return value, self.join((-pull, pull.sum() * softmax))

    def second_order(self, w: Any) -> tuple[float, Array, Array]:
        r"""Return value, gradient and Hessian of risk + l2/2·‖w‖². O(n d²), in blocks of rows: X is not copied.

        With the mean m of the negatives under their softmax q, and derivatives a and curvatures b of the positives'
        terms, the Hessian of the risk is :math:`\sum_i b_i (x_i-m)(x_i-m)^\top + (\sum_i a_i) \sum_k q_k
        (x_k-m)(x_k-m)^\top`.
        """
        refuse_chunks(self.X, "second derivatives")
        w = self.check_point(w)
        value, pull, bend, softmax = self._chances(self.scores(w))
        push = pull.sum() * softmax
        sides = np.column_stack([self.join((-pull, push)), self.join((np.zeros(len(pull)), softmax))])
        slope, mean = np.asarray(transposed_times(self.X, sides), dtype=np.float64).T
        hessian = centred_gram(self.X, mean, self.join((bend, push)))
        hessian.flat[:: self.dimension + 1] += self.l2
        return value + 0.5 * self.l2 * float(w @ w), slope + self.l2 * w, hessian

    def score_model(self, scores: Array) -> ScoreModel:
        r"""Return the risk to second order in the scores.

        With the names of :meth:`second_order`, and A and B the sums of a and of b, its second derivatives are
        :math:`\operatorname{diag}(b + Aq) - A qq^\top - \tfrac1B bb^\top + B (q - \tfrac bB)(q - \tfrac bB)^\top`.
        """
        value, pull, bend, softmax = self._chances(scores)
        total, bent = float(pull.sum()), float(bend.sum())
        diagonal = self.join((bend, total * softmax))
        share = bend / bent if bent > 0.0 else bend
        nothing = np.zeros(len(softmax)), np.zeros(len(bend))
        sides = (nothing[1], softmax), (share, nothing[0]), (-share, softmax)
        columns = sparse.csc_array(np.column_stack([self.join(side) for side in sides]))
        curvature = Curvature(diagonal, columns, np.array([total, bent, -bent]))
        return ScoreModel(value, self.join((-pull, total * softmax)), curvature)

    @cached_property
    def conjugate(self) -> Conjugate:
        """The logistic loss of each positive against the log-sum-exp of the negatives."""
        sides = self.positives, self.negatives, self.positive_shares
        return Conjugate((AgainstLevel(LOGISTIC, *sides, self._log_negative_weights),), self.rows)

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression."""
        import cvxpy as cp

        negatives = cp.log_sum_exp(np.log(self.negative_weights) + scores[self.negatives])
        return self.positive_shares @ cp.logistic(negatives - scores[self.positives]), []

    def reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, in plain numpy."""
        positive, negative = self.split(scores)
        level, push = reference_log_sum_exp(np.log(self.negative_weights) + negative)
        excess = level - positive
        # the derivative of softplus, written so that neither branch overflows
        chance = np.exp(-np.logaddexp(0.0, -excess))
        pull = self.positive_shares * chance
        return float(self.positive_shares @ np.logaddexp(0.0, excess)), self.join((-pull, pull.sum() * push))

    def ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, from the definition, for proofs; shape (n,) in and out."""
        from convexrank.proof.pushes import tangent_of_discounts

        sides = (self.positives, self.positive_weights), (self.negatives, self.negative_weights)
        return tangent_of_discounts(scores, *sides)

    def paper_value(self, w: Any) -> float:
        r"""Return the paper's :math:`R_{g_{IR},\exp} = \sum_i \ln(1+\sum_k e^{-(f_i-f_k)})`, equation (2)."""
        risk, _ = self.reference_scores(self.scores(self.check_point(w)))
        return float(risk * self.positive_weights.sum())

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over pairs."""
        from math import exp, log

        f, y = [float(score) for score in scores], self.y.tolist()
        weight = [1.0] * len(f) if self.sample_weight is None else self.sample_weight.tolist()
        larger = max(y)
        positives = [i for i in range(len(f)) if y[i] == larger and weight[i] > 0.0]
        negatives = [k for k in range(len(f)) if y[k] != larger and weight[k] > 0.0]
        risk = 0.0
        for i in positives:
            # the 1 is e^0; all terms over the largest one: e^(f_k - f_i) leaves the range of floats
            top = max(0.0, max(f[k] - f[i] for k in negatives))
            total = exp(-top) + sum(weight[k] * exp(f[k] - f[i] - top) for k in negatives)
            risk += weight[i] * (top + log(total))
        return risk / sum(weight[i] for i in positives)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        X = random_features(rng, int(rng.integers(6, 60)), int(rng.integers(1, 6)))
        l1 = float(rng.choice([0.0, 0.0, 0.02]))
        return cls(X, random_labels(rng, X), l2=float(rng.choice([1e-3, 1e-1])), l1=l1)
