r"""Weights that are 0 at every minimiser, proved by a gap: the rule of gap-safe screening, with a local radius.

Let u be a point of the dual whose bound leaves a gap ε, and u* the dual solution. The dual of a sum of log-sum-exps
:math:`\sum_m \tfrac{c_m}{t_m} \operatorname{lse}(t_m \cdot)` is a sum of relative entropies, so that the distributions
α and α* of the terms have :math:`\sum_m \tfrac{c_m}{t_m} \mathrm{KL}(\alpha_m\|\alpha^*_m) \le \varepsilon`. Pinsker's
inequality then bounds :math:`|x_j^\top(u - u^*)|` by the range of a column, wherever the weight of α is. With the mean
μ* of a column under α*, its mean m under α and its range ρ, more follows, for 0 < λ ≤ c/ρ and c < 1:

.. math:: \mathrm{KL}(\alpha\|\alpha^*) \ge
          -\log(1 - \lambda(\mu^* - m)) + \sum_i \alpha_i \log(1 - \lambda(x_{ij} - m))
          \ge \lambda(\mu^* - m) - \kappa(c) \lambda^2 \operatorname{Var}_\alpha(x_j), \qquad
          \kappa(c) = \frac{-\log(1 - c) - c}{c^2}.

Over all terms, with :math:`V_j = x_j^\top H x_j`, H the second derivatives at α, and t the largest of the :math:`t_m`,

.. math:: |x_j^\top(u - u^*)| \le \varepsilon/\tau + \kappa(\tau \rho t)\, \tau V_j
          \quad\text{for every } 0 < \tau < 1/(\rho t),

about :math:`\sqrt{2 \varepsilon V_j}` where ε is small. For squares t is 0, and this is the radius of strong concavity.
A weight whose slope stays below :math:`\lambda_1` by this much is 0 (E. Ndiaye and others, Gap safe screening rules for
sparsity enforcing penalties, JMLR 18, 2017).
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from convexrank.backend.design import Design
from convexrank.backend.gram import squares_times, times, transposed_times
from convexrank.core.certificates import LinearRisk, certificate_radius, own_gap, witness_bound
from convexrank.core.minorants import EPS, rounding
from convexrank.core.results import Witness
from convexrank.core.score_model import ScoreModel
from convexrank.data import Chunks

__all__ = ["movement", "proved_zeros"]

Array = np.ndarray

# The largest c of the bound; where the gap is large a larger one would gain little.
_LARGEST_SHARE = 0.5


class _Scored(LinearRisk, Protocol):
    """What the rule needs of a problem, beside what certificates do."""

    @property
    def X(self) -> Any:
        """The examples, shape (n, d)."""
        ...

    @property
    def row_lengths(self) -> Array:
        """Euclidean lengths of the rows of X, shape (n,)."""
        ...

    def score_model(self, scores: Array) -> ScoreModel:
        """Return the risk to second order in the scores."""
        ...


def movement(bends: Array, ranges: Array, steepness: float, gap: float) -> Array:
    """Bound how far the slope of each column is from that at the dual solution.

    Parameters
    ----------
    bends : ndarray, shape (d,)
        The curvature of the risk along each column, or more.
    ranges : ndarray, shape (d,)
        The largest entry of each column less its smallest.
    steepness : float
        The largest factor of scores in a log-sum-exp; 0 for squares.
    gap : float
        What the dual point leaves between the bounds.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        most = _LARGEST_SHARE / (ranges * steepness)
        length = np.minimum(np.sqrt(2.0 * gap / bends), most)
        share = np.where(np.isfinite(length), length * ranges * steepness, 0.0)
        kappa = np.where(share > 1e-4, (-np.log1p(-share) - share) / share**2, 0.5 + share)
        return np.where(np.isfinite(length), gap / length + kappa * length * bends, 0.0)


def proved_zeros(problem: _Scored, w: Array, witness: Witness | None) -> Array:
    """Return which weights are 0 at every minimiser, shape (d,); none where the curvature of the dual is not known."""
    penalty, none = problem.penalty, np.zeros(problem.dimension, dtype=bool)
    if penalty.l1 == 0 or penalty.ball is not None or isinstance(problem.X, Chunks):
        return none
    found = _evidence(problem, w, witness)
    bends_and_ranges = _sizes(problem.X, found[1]) if found is not None else None
    if found is None or bends_and_ranges is None:
        return none
    pull, _, steepness, gap = found
    slopes = np.asarray(transposed_times(problem.X, pull), dtype=np.float64)
    reach = movement(*bends_and_ranges, steepness, gap) * (1.0 + 64.0 * EPS)
    reach += rounding(len(pull) + len(w)) * float(np.abs(pull) @ problem.row_lengths)
    steep = (
        np.abs(slopes)
        if penalty.nonnegative is None
        else np.where(penalty.nonnegative, -slopes, np.abs(slopes))
    )
    return steep + reach < penalty.l1 * (1.0 - 8.0 * EPS)


def _evidence(
    problem: _Scored, w: Array, witness: Witness | None
) -> tuple[Array, Array, float, float] | None:
    """A dual point, the diagonal of the curvature there, the steepness of the terms, and the gap that it leaves."""
    penalty, own = problem.penalty, problem.reference_minorant(w)
    value = own.risk + penalty.value(w)
    points, shares, gap = w[None, :], np.ones(1), math.inf
    if penalty.bounded or math.isfinite(problem.risk_infimum):
        _, radius = certificate_radius(penalty, problem.risk_infimum, w, value, problem.unit)
        gap = own_gap(problem, own, w, radius)
    elif witness is not None:
        lower, everywhere = witness_bound(problem, witness, math.inf)
        if everywhere and math.isfinite(lower):
            points, shares = (
                np.atleast_2d(np.asarray(witness.points, dtype=np.float64)),
                np.asarray(witness.weights),
            )
            gap = value - lower + own.risk_error + 4.0 * EPS * abs(value)
    if not 0.0 <= gap < math.inf:
        return None
    models = [problem.score_model(np.asarray(times(problem.X, point), dtype=np.float64)) for point in points]
    curvatures = [model.curvature for model in models]
    steepness = max(math.inf if one is None else one.steepness for one in curvatures)
    if not math.isfinite(steepness):
        return None
    shares = shares / shares.sum()
    pull = sum(share * model.gradient for share, model in zip(shares, models, strict=True))
    # entropies bend by the distributions, which are mixed as the gradients are; what terms take away is left out
    diagonal = sum(
        share * one.diagonal for share, one in zip(shares, curvatures, strict=True) if one is not None
    )
    return np.asarray(pull), np.asarray(diagonal), steepness, gap


def _sizes(X: Any, diagonal: Array) -> tuple[Array, Array] | None:
    """The curvature along each column, or more, and the range of its entries."""
    if isinstance(X, Design):
        # indicators, perhaps with a sign; other designs are left alone
        return None if X.mean_squares is not None else (np.abs(X.T @ diagonal), np.ones(X.shape[1]))
    if sparse.issparse(X):
        columns = X.tocsc()
        ends = [
            np.asarray(end.toarray(), dtype=np.float64).ravel()
            for end in (columns.max(axis=0), columns.min(axis=0))
        ]
    else:
        ends = [X.max(axis=0).astype(np.float64), X.min(axis=0).astype(np.float64)]
    return squares_times(X, diagonal), ends[0] - ends[1]
