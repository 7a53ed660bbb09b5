r"""Populations of ranking on finitely many points, with exact risks: the statements of the 2006 paper without sampling.

A row is at the point x with probability :math:`π_x`, and its label is

* ±1, and 1 with probability :math:`η_x`: the bipartite problem (Example 1), or
* real, :math:`m_x + σ_x ε` with ε standard normal (Example 2, section 5.3; σ = 0: without noise, section 5.2).

With :math:`ρ_+(x,x')=P\{Y>Y'\mid x,x'\}`, and ρ₋ likewise, a rule that ranks x above x′ has the risk
:math:`L(r)=\sum π_xπ_{x'}\,(1[r=1]\,ρ_-+1[r=-1]\,ρ_+)`, and the least is :math:`L^*=\mathrm E\min(ρ_+,ρ_-)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr, owens_t

from convexrank.data import check_integer, check_real_array, check_vector, check_weights, keep

__all__ = ["RankingModel"]

Array = np.ndarray

# Means and standard deviations beyond this, or below its inverse, have squares that leave the range of floats.
_LARGEST = 1e75


@dataclass(frozen=True, eq=False)
class RankingModel:
    r"""A population on n points, given by ``eta``, or by ``m`` with ``sigma``.

    A *rule* is a vector of scores or a matrix. With scores, the point with the larger score is ranked above; points
    with equal scores are ranked in either order with probability one half. A matrix r of ±1 has r[x, x'] = 1 where x,
    drawn first, is ranked above x'. The paper's rule :math:`2\cdot1[s(x)\ge s(x')]-1` is wrong for one order of a tied
    pair, and so has the same risk as the scores.

    Parameters
    ----------
    eta : array, shape (n,), optional
        Probability of the label 1 at each point.
    m : array, shape (n,), optional
        Mean label at each point.
    sigma : float or array, shape (n,), optional
        Standard deviation of the labels: all greater than 0, or 0 everywhere (the default).
    weights : array, shape (n,), optional
        Probability of each point, up to a common factor; all equal by default.

    Raises
    ------
    ValueError, TypeError
        If both or neither of eta and m are given, or a value is out of its range.

    Notes
    -----
    Risks take O(n²) time; variances take O(n²) time for ``eta``, and O(n³) with noise. Nothing is sampled.

    References
    ----------
    Clémençon, Lugosi and Vayatis, Ranking and empirical minimization of U-statistics (2006), sections 2 to 5.

    Examples
    --------
    >>> from convexrank.population import RankingModel
    >>> model = RankingModel(eta=[0.1, 0.5, 0.9])
    >>> round(model.optimal_risk, 6), round(model.excess_risk([3, 2, 1]), 6)
    (0.072222, 0.355556)
    >>> bound = model.noise_constant(1.0) * model.excess_risk([3, 2, 1])
    >>> print(f"{model.variance([3, 2, 1]):.4f} <= {bound:.4f}")
    0.0306 <= 0.5926
    >>> round(RankingModel(m=[0.0, 1.0], sigma=[1.0, 2.0]).optimal_risk, 6)
    0.41368
    """

    eta: Array | None = None
    m: Array | None = None
    sigma: Array | None = None
    weights: Array | None = None

    def __post_init__(self) -> None:
        if (self.eta is None) == (self.m is None):
            both = "neither" if self.eta is None else "both"
            raise ValueError(
                f"of eta and m {both} are given, expected one: shares of positives, or means of labels."
            )
        name = "m" if self.eta is None else "eta"
        values = check_vector(self.m if self.eta is None else self.eta, name=name)
        if self.eta is not None:
            if self.sigma is not None:
                raise ValueError("sigma is for m; leave it out with eta.")
            if not ((values >= 0.0) & (values <= 1.0)).all():
                raise ValueError("eta has entries that are not between 0 and 1, expected probabilities.")
            keep(self, eta=values)
        else:
            if float(np.abs(values).max()) > _LARGEST:
                raise ValueError(
                    f"m has an entry beyond {_LARGEST:g}; pass means in other units, and sigma, too."
                )
            keep(self, m=values, sigma=_spread(self.sigma, len(values)))
        given = check_weights(self.weights, len(values), "weights")
        shares = np.ones(len(values)) if given is None else given
        keep(self, weights=shares / shares.sum())

    @property
    def optimal_risk(self) -> float:
        r"""The least risk of any rule, :math:`L^*=\mathrm E\min(ρ_+,ρ_-)` (Proposition 1)."""
        above, below = self._chances
        return self._mean(np.minimum(above, below))

    def risk(self, rule: Any) -> float:
        """Return the ranking risk L(r), the probability that two labels differ and are in the wrong order."""
        above, below = self._chances
        up = self._up(rule)
        return self._mean(up * below + (1.0 - up) * above)

    def excess_risk(self, rule: Any) -> float:
        r"""Return :math:`Λ(r) = L(r) - L^*`, computed as a mean over pairs, without cancellation."""
        above, below = self._chances
        up = self._up(rule)
        lost = np.where(above >= below, 1.0 - up, up)
        return self._mean(np.abs(above - below) * lost)

    def auc(self, scores: Any) -> float:
        """Return the area under the ROC curve of scores, for ``eta``; a tie counts one half."""
        if self.eta is None:
            raise ValueError("eta is None, expected shares of positives: the AUC needs two classes.")
        share = float(np.asarray(self.weights) @ self.eta)
        if not 0.0 < share < 1.0:
            raise ValueError(f"eta gives positives the share {share:g}, expected both classes.")
        up = self._up(check_vector(scores, self._size, "scores"))
        pairs = np.outer(self.eta, 1.0 - self.eta)
        return self._mean(up * pairs) / (share * (1.0 - share))

    def variance(self, rule: Any) -> float:
        r"""Return Var h_r(X, Y), :math:`h_r(x,y)=\mathrm Eq_r((x,y),(X',Y'))-Λ(r)`, the variance of Assumption 4.

        The kernel :math:`q_r` is the loss of the rule on a pair less the loss of the optimal rule, made symmetric.
        Where :math:`ρ_+=ρ_-`, both orders are optimal; there the optimal rule is taken to agree with r.
        """
        above, below = self._chances
        change = np.where(above == below, 0.0, self._up(rule) - (above > below))
        return self._projected_variance(change, -change)

    def risk_variance(self, rule: Any) -> float:
        r"""Return :math:`s^2=\mathrm{Var}\,P\{Z\,r(X,X')<0\mid X,Y\}`: n Var L_n tends to 4s²."""
        up = self._up(rule)
        return self._projected_variance(up, 1.0 - up)

    def estimate_variance(self, rule: Any, n: int) -> float:
        r"""Return the exact variance of the U-statistic over n rows, :math:`\tfrac{4(n-2)s^2+2v}{n(n-1)}`.

        With :math:`s^2` of ``risk_variance`` and v the variance of the loss of a pair (Hoeffding's decomposition).
        """
        rows = check_integer(n, "n", 2)
        above, below = self._chances
        up = self._up(rule)
        pair = self._mean(up**2 * below + (1.0 - up) ** 2 * above) - self.risk(rule) ** 2
        return (4.0 * (rows - 2) * self.risk_variance(rule) + 2.0 * pair) / (rows * (rows - 1))

    def noise_constant(self, alpha: float, of: str = "excess") -> float:
        r"""Return the c of a noise assumption, :math:`\sup_x \mathrm E_{X'}\,d(x,X')^{-α}`.

        Pairs with d = 0, such as a point with itself, are left out: they add nothing to the excess risk of a rule, and
        the proofs do not need them.

        Parameters
        ----------
        alpha : float
            The exponent, from 0 to 1.
        of : {"excess", "delta"}
            The distance d. ``"excess"`` is :math:`|ρ_+-ρ_-|`, which is :math:`|η-η'|` in (2) and
            :math:`2Φ(|Δ|)-1` with noise; the bound holds with this distance. ``"delta"`` is the absolute value of
            :math:`Δ=(m-m')/\sqrt{σ^2+σ'^2}`, of (4), for which Proposition 9 fails.

        Returns
        -------
        float
            The constant; :math:`\mathrm{Var}\,h_r\le cΛ(r)^α` for ``"excess"``.
        """
        exponent = float(check_vector([alpha], 1, "alpha")[0])
        if not 0.0 <= exponent <= 1.0:
            raise ValueError(f"alpha is {alpha}, expected an exponent from 0 to 1.")
        if of not in ("excess", "delta"):
            raise ValueError(f"of is {of!r}, expected one of: delta, excess.")
        if of == "delta" and (self.sigma is None or not self.sigma.any()):
            raise ValueError('of is "delta", expected a model with m and sigma greater than 0.')
        above, below = self._chances
        distance = np.abs(self._delta) if of == "delta" else np.abs(above - below)
        apart = distance > 0.0
        powers = np.where(apart, np.where(apart, distance, 1.0) ** -exponent, 0.0)
        shares = np.asarray(self.weights)
        return float((powers @ shares)[shares > 0.0].max())

    @property
    def _size(self) -> int:
        return len(np.asarray(self.weights))

    @cached_property
    def _noise(self) -> Array | None:
        """The standard deviations where there is noise."""
        return self.sigma if self.sigma is not None and self.sigma.any() else None

    @cached_property
    def _delta(self) -> Array:
        """(m − m')/√(σ² + σ'²), shape (n, n), of a model with noise."""
        means, spread = np.asarray(self.m), np.asarray(self._noise)
        return (means[:, None] - means) / np.hypot(spread[:, None], spread)

    @cached_property
    def _chances(self) -> tuple[Array, Array]:
        """ρ₊ and ρ₋, shape (n, n)."""
        if self._noise is not None:
            return ndtr(self._delta), ndtr(-self._delta)
        if self.eta is not None:
            above = np.outer(self.eta, 1.0 - self.eta)
        else:
            means = np.asarray(self.m)
            above = (means[:, None] > means).astype(np.float64)
        return above, above.T.copy()

    def _mean(self, values: Array) -> float:
        shares = np.asarray(self.weights)
        return float(shares @ values @ shares)

    def _up(self, rule: Any) -> Array:
        """How likely x is ranked above x', over both orders in which a pair is drawn, shape (n, n)."""
        given = check_real_array(rule, "rule")
        if given.ndim == 1:
            scores = check_vector(given, self._size, "rule", each="point")
            return 0.5 + 0.5 * (scores[:, None] > scores) - 0.5 * (scores[:, None] < scores)
        if given.shape != (self._size, self._size) or not np.isin(given, (-1, 1)).all():
            raise ValueError(
                f"rule has shape {given.shape}, expected {self._size} scores, or a matrix of ±1 of that many rows and "
                "columns."
            )
        return 0.5 + 0.25 * (given.astype(np.float64) - given.T)

    def _projected_variance(self, up: Array, down: Array) -> float:
        r"""Variance of :math:`\sum_{x'}π_{x'}(u_{xx'}P\{Y'>y\mid x'\}+d_{xx'}P\{Y'<y\mid x'\})` over (x, y)."""
        shares = np.asarray(self.weights)
        if self._noise is not None:
            # P{Y' > y} and P{Y' < y} add up to 1: the sum of both coefficients, a constant here, does not vary
            change = 0.5 * (up - down)
            above, below = self._chances
            return self._noisy_moment(change * shares) - self._mean(change * (below - above)) ** 2
        if self.eta is not None:
            chances = np.stack([self.eta, 1.0 - self.eta])
            values = np.stack([down @ (shares * (1.0 - self.eta)), up @ (shares * self.eta)])
        else:
            above, below = self._chances
            chances = np.ones((1, self._size))
            values = ((up * below + down * above) @ shares)[None]
        chances = chances * shares
        return float(np.sum(chances * (values - np.sum(chances * values)) ** 2))

    def _noisy_moment(self, coefficients: Array) -> float:
        r"""Mean over (x, y) of the square of :math:`\sum_{x'}c_{xx'}(2P\{Y'>y\mid x'\}-1)`, by Owen's T."""
        total, variances = 0.0, np.asarray(self._noise) ** 2
        for x, share in enumerate(np.asarray(self.weights)):
            own = variances[x]
            # both correlations of Y' - Y with Y'' - Y, and what they lack of 1
            joint = np.outer(own + variances, own + variances)
            rest = np.sqrt(
                (own * np.add.outer(variances, variances) + np.outer(variances, variances)) / joint
            )
            # beyond 40 standard deviations nothing is left
            products = _sign_product(np.clip(-self._delta[x], -40.0, 40.0), own / np.sqrt(joint), rest)
            total += share * float(coefficients[x] @ products @ coefficients[x])
        return total


def _sign_product(h: Array, correlation: Array, rest: Array) -> Array:
    r"""E sgn(U)sgn(V) for normal U, V of variance 1, means h_i and h_j, and a correlation ρ; ``rest`` is √(1 − ρ²)."""
    first, second = np.broadcast_arrays(h[:, None], h[None])

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope = (second - correlation * first) / (first * rest)
    at_zero = np.where(second == 0.0, rest / (1.0 + correlation), np.copysign(np.inf, second))
    half = owens_t(first, np.where(first == 0.0, at_zero, slope))
    opposite = (first * second < 0.0) | ((first * second == 0.0) & (first + second < 0.0))
    return 1.0 - 4.0 * (half + half.T) - 2.0 * opposite


def _spread(sigma: Any, length: int) -> Array:
    """Return one standard deviation for each point: all greater than 0, or all 0."""
    given = check_real_array(0.0 if sigma is None else sigma, "sigma")
    values = check_vector(np.full(length, given) if given.ndim == 0 else given, length, "sigma", each="point")
    least, most = float(values.min()), float(values.max())
    if (least or most) and not 1.0 / _LARGEST <= least <= most <= _LARGEST:
        raise ValueError(
            f"sigma has entries from {least:g} to {most:g}, expected all from {1.0 / _LARGEST:g} to {_LARGEST:g}, or "
            "all 0."
        )
    return values
