r"""The least l1 at which w = 0 is a minimiser, and weights that are 0 at every minimiser.

A gap proves the latter: the rule of gap-safe screening, with a local radius. Let u be a point of the dual whose bound
leaves a gap ε, and u* the dual solution. The dual of a sum of log-sum-exps :math:`\sum_m \tfrac{c_m}{t_m}
\operatorname{lse}(t_m \cdot)` is a sum of relative entropies, so that the distributions α and α* of the terms have
:math:`\sum_m \tfrac{c_m}{t_m} \mathrm{KL}(\alpha_m\|\alpha^*_m) \le \varepsilon`. Pinsker's inequality then bounds
:math:`|x_j^\top(u - u^*)|` by the range of a column, wherever the weight of α is. With the mean μ* of a column under
α*, its mean m under α and its range ρ, more follows, for 0 < λ ≤ c/ρ and c < 1:

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
from typing import Any

import numpy as np
from scipy import optimize, sparse

from convexrank.backend.design import entries, held_as, picks, scaled, squares_times, times, transposed_times
from convexrank.core.certificates import certificate_radius, own_gap, value_of, witness_bound
from convexrank.core.minorants import EPS, LinearRisk, rounding
from convexrank.core.results import Witness
from convexrank.core.score_model import movement
from convexrank.regularizers import Penalty
from convexrank.solvers.row_faces import Columnwise

Array = np.ndarray

# A sum of slopes below this share of the largest slopes is rounding.
_ROUNDING = 1e-12


def least_steepness(
    rows: Any, pull: Array, shared: Array, most: Array, query: Array, penalty: Penalty
) -> float:
    r"""Return :math:`\min_u \|X^\top u\|_\infty` over the subgradients u of a risk at scores of 0.

    All subgradients give the shared rows of a query the same sum, in any distribution that gives none too large a
    share. So the minimum is a linear program with one unknown per shared row. The result is evaluated at the answer of
    the program: for this l1, w = 0 is a minimiser, whatever the tolerance of the program.

    Parameters
    ----------
    rows : matrix or design, shape (n, d)
        The features X.
    pull : ndarray, shape (n,)
        One subgradient in the scores.
    shared : ndarray of int, shape (m,)
        Rows that share the sum of their entries of the subgradient in any way, with those of the same query.
    most : ndarray, shape (m,)
        The largest share of each of them.
    query : ndarray of int, shape (m,)
        The query of each of them.
    penalty : Penalty
        Among weights that must be at least 0, only those count that would increase.
    """
    query, fixed = np.unique(query, return_inverse=True)[1].ravel(), pull.copy()
    fixed[shared] = 0.0

    def whole(x: Array) -> Array:
        """The sum over the query of each of them."""
        return np.bincount(query, x)[query]

    base = np.asarray(transposed_times(rows, fixed), dtype=np.float64)
    points = entries(rows[shared])
    columns: Any = sparse.csr_array(scaled(points, whole(pull[shared])).T, dtype=np.float64)
    unit = max(penalty.steepness(base), float(np.abs(columns.data).max(initial=0.0)))
    if unit == 0.0:
        return 0.0
    free = np.flatnonzero(
        np.ones(len(base), dtype=bool) if penalty.nonnegative is None else ~penalty.nonnegative
    )
    # a weight that would increase has a negative slope; for free weights both signs count
    sides = sparse.vstack([-columns, columns[free]], format="csr") / unit
    limits = np.concatenate([base, -base[free]]) / unit
    below = sparse.hstack([sides, np.full((len(limits), 1), -1.0)], format="csr")
    found = optimize.linprog(
        np.append(np.zeros(len(shared)), 1.0),
        A_ub=below,
        b_ub=limits,
        A_eq=sparse.hstack([picks(query, query.max() + 1).T, np.zeros((query.max() + 1, 1))], format="csr"),
        b_eq=np.ones(query.max() + 1),
        bounds=np.column_stack([np.zeros(len(shared) + 1), np.append(most, np.inf)]),
        method="highs",
    )
    if found.status != 0:
        raise ValueError(
            f"the largest l1 that matters was not found: {found.message} Pass values of l1 instead."
        )
    parts = np.maximum(found.x[:-1], 0.0)
    parts /= whole(parts)
    # towards shares that are surely allowed, until none is too large by the tolerance of the program
    allowed, over = most / whole(most), parts > most
    room = ((most - allowed)[over] / (parts - allowed)[over]).min(initial=1.0)
    slope = base + columns @ (allowed + room * (parts - allowed))
    steepest = max(penalty.steepness(-slope), 0.0)
    return steepest if steepest > _ROUNDING * unit else 0.0


def proved_zeros(risk: LinearRisk, rows: Columnwise, w: Array, witness: Witness | None) -> Array:
    """Return which weights are 0 at every minimiser, shape (d,); none where the curvature of the dual is not known."""
    penalty, found = risk.penalty, _evidence(risk, rows, w, witness)
    bends_and_ranges = _sizes(rows, found[1]) if found is not None else None
    if found is None or bends_and_ranges is None:
        return np.zeros(risk.dimension, dtype=bool)
    pull, _, steepness, gap = found
    slopes = np.asarray(transposed_times(rows.X, pull), dtype=np.float64)
    reach = movement(*bends_and_ranges, steepness, gap) * (1.0 + 64.0 * EPS)
    reach += rounding(len(pull) + len(w)) * float(np.abs(pull) @ rows.row_lengths)
    steep = np.abs(slopes)
    if penalty.nonnegative is not None:
        steep = np.where(penalty.nonnegative, -slopes, steep)
    return steep + reach < penalty.l1 * (1.0 - 8.0 * EPS)


def _evidence(
    risk: LinearRisk, rows: Columnwise, w: Array, witness: Witness | None
) -> tuple[Array, Array, float, float] | None:
    """A dual point, the diagonal of the curvature there, the steepness of the terms, and the gap that it leaves."""
    penalty, own = risk.penalty, risk.minorant(w, 0.0)
    value, error = value_of(penalty, own, w)
    points, shares, gap = w[None, :], np.ones(1), math.inf
    if penalty.bounded or math.isfinite(risk.risk_infimum):
        _, radius = certificate_radius(penalty, risk.risk_infimum, w, value + error, risk.length_scale())
        gap = own_gap(risk, own, w, radius)
    elif witness is not None:
        lower, everywhere = witness_bound(risk, witness, math.inf)
        if everywhere and math.isfinite(lower):
            points = np.atleast_2d(np.asarray(witness.points, dtype=np.float64))
            shares = np.asarray(witness.weights)
            gap = value - lower + error
    if not 0.0 <= gap < math.inf:
        return None
    models = [rows.model(np.asarray(times(rows.X, point), dtype=np.float64)) for point in points]
    curvatures = [model.curvature for model in models]
    steepness = max(math.inf if one is None else one.steepness for one in curvatures)
    if not math.isfinite(steepness):
        return None
    shares = shares / shares.sum()
    pull = sum(share * model.gradient for share, model in zip(shares, models, strict=True))
    # the curvature of an entropy is linear in the distribution, and distributions are mixed like gradients; the
    # products that the terms subtract are left out
    diagonal = sum(
        share * one.diagonal for share, one in zip(shares, curvatures, strict=True) if one is not None
    )
    return np.asarray(pull), np.asarray(diagonal), steepness, gap


def _sizes(rows: Columnwise, diagonal: Array) -> tuple[Array, Array] | None:
    """An upper bound on the curvature along each column, and the range of its entries."""
    X = rows.X
    if not held_as(X).built:
        # indicators, perhaps with a sign; other designs are left alone
        return None if X.mean_squares is not None else (np.abs(X.T @ diagonal), np.ones(X.shape[1]))
    sizes = rows.columns.sizes
    return None if sizes is None else (squares_times(X, diagonal), sizes.ranges)
