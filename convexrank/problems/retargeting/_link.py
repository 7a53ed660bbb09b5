r"""Predictions and targets from scores, for one divergence and all queries at once.

With natural parameters :math:`t = \theta + \beta`, an offset β for each query, a prediction is
:math:`(\nabla\phi)^{-1}(t)`; targets are the same function of the pooled scores. Both add up to 1 where they have to,
by an offset that is one equation a query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from convexrank.backend.interruption import check_time
from convexrank.data import QueryGroups, check_flag
from convexrank.divergences import KL, BitEntropy, Divergence, GeneralizedI, ItakuraSaito, SquaredEuclidean

Array = np.ndarray

# Newton's method needs about ten steps; what is zero, and how far infinite values are from it.
_STEPS, _ROUNDING, _HUGE = 200, 1e-14, 1e300
# What is zero of the logarithm of a sum.
_ROUNDED_SUM = 1e-13


@dataclass(frozen=True)
class TargetLink:
    """The maps between scores, predictions and targets; scores are laid out query by query.

    Parameters
    ----------
    divergence : Divergence
        A separable one, without weights.
    simplex : bool
        Whether targets are distributions.
    offsets : bool
        Whether each query has an offset; with targets on the simplex the best one makes predictions add up to 1.
    """

    divergence: Divergence
    simplex: bool
    offsets: bool

    @property
    def quadratic(self) -> bool:
        """Whether the divergence is the squared distance."""
        return isinstance(self.divergence, SquaredEuclidean)

    @property
    def adds_up(self) -> bool:
        """Whether offsets make the predictions add up to 1."""
        return self.simplex and self.offsets

    def natural(self, scores: Array, groups: QueryGroups) -> Array:
        """Return the scores with the best offset of each query, where offsets matter."""
        return self._summing_to_one(scores, groups, -np.inf) if self.adds_up else scores

    def predictions(self, natural: Array) -> Array:
        """Return the predictions of natural parameters."""
        return self.divergence._point(natural)

    def targets(self, pooled: Array, groups: QueryGroups) -> Array:
        """Return the nearest targets, from scores that are pooled along the order."""
        if not self.simplex:
            return self.divergence._point(pooled)
        return np.maximum(self.divergence._point(self._summing_to_one(pooled, groups, 0.0)), 0.0)

    def mismatch(self, targets: Array, natural: Array) -> Array:
        """Return the divergence of the prediction from the target for each row."""
        if self.quadratic:
            return 0.5 * (targets - natural) ** 2
        # the Fenchel-Young gap, which does without a prediction that may round to an end of the domain
        divergence = self.divergence
        if isinstance(divergence, GeneralizedI):
            excess = targets - divergence.shift
            gap = np.exp(natural) - excess * natural - excess - entr(excess)
        elif isinstance(divergence, BitEntropy):
            gap = np.logaddexp(0.0, natural) - targets * natural - entr(targets) - entr(1.0 - targets)
        elif isinstance(divergence, ItakuraSaito):
            gap = -np.log(-targets * natural) - 1.0 - targets * natural
        else:
            gap = divergence._phi(targets) + divergence._conjugate(natural) - targets * natural
        return np.maximum(np.asarray(gap), 0.0)

    def slopes(self, natural: Array) -> Array:
        """Return the derivative of each prediction by its natural parameter."""
        with np.errstate(divide="ignore"):
            return 1.0 / self.divergence._curvature(self.predictions(natural))

    def check_sizes(self, groups: QueryGroups) -> None:
        """Refuse queries whose targets cannot be distributions inside the domain."""
        if not self.simplex:
            return
        inside = self.divergence.domain.interior.contains(1.0 / groups.sizes)
        if not inside.all():
            place = int(np.argmin(inside))
            raise ValueError(
                f"targets leave the domain {self.divergence.domain} of {type(self.divergence).__name__}: those of the "
                f"{groups.sizes[place]} rows of query {groups.ids[place]} have to add up to 1. Pass simplex=False, "
                "or take a divergence whose domain is [0, 1] or more."
            )

    def _summing_to_one(self, scores: Array, groups: QueryGroups, floor: float) -> Array:
        """Scores with an offset for each query, so that the link of them, cut off at the floor, adds up to 1."""
        tops = groups.maxima(scores)
        below = scores - tops[groups.query]
        if self.quadratic:
            return below + _level_of_squares(below, groups, floor)[groups.query]
        if isinstance(self.divergence, GeneralizedI) and self.divergence.shift == 0:
            return below - np.log(groups.sums(np.exp(below)))[groups.query]
        middle = self.divergence._slope(1.0 / groups.sizes)
        return below + increasing_roots(self._sums(below, groups, floor), middle, _ROUNDED_SUM)[groups.query]

    def _sums(
        self, below: Array, groups: QueryGroups, floor: float
    ) -> Callable[[Array], tuple[Array, Array, Array]]:
        """The logarithm of the sum of a link is nearly straight: exponentials take one step."""
        slopes = self.divergence.dual_domain

        def sums(level: Array) -> tuple[Array, Array, Array]:
            natural = below + level[groups.query]
            # beyond the last slope the link is infinite, before the first one it is nothing
            inside, past = slopes.contains(natural), natural >= slopes.upper
            with np.errstate(all="ignore"):
                values = np.asarray(self.divergence._point(natural))
                rates = np.where(
                    inside & (values > floor), 1.0 / np.asarray(self.divergence._curvature(values)), 0.0
                )
                values = np.where(inside, values, np.where(past, np.inf, -np.inf))
                total = groups.sums(np.maximum(values, floor))
                known = total > 0.0  # some links have values below 0
                slope = np.nan_to_num(groups.sums(rates) / np.where(known, total, 1.0), posinf=0.0)
                excess = np.where(known, np.log(total), total - 1.0)
                return excess, slope, 1.0 + np.abs(level) * slope

        return sums


def _level_of_squares(below: Array, groups: QueryGroups, floor: float) -> Array:
    """The offset for which entries above the floor add up to 1: all of them, or Newton's method on a convex sum."""
    active = np.ones(len(below), dtype=bool)
    while True:
        counts = groups.sums(active.astype(np.float64))
        level = (1.0 - groups.sums(np.where(active, below, 0.0))) / counts
        still = active & (below + level[groups.query] > floor)
        if (still == active).all():
            return level
        active = still


def increasing_roots(
    evaluate: Callable[[Array], tuple[Array, Array, Array]], start: Array, rounding: float = _ROUNDING
) -> Array:
    """Find a root of each of many non-decreasing functions, by Newton's method inside brackets.

    Parameters
    ----------
    evaluate : callable
        Takes one number for each function; returns the values, the slopes, and the size of what the values are a
        difference of: values are zero up to the rounding of that.
    start : ndarray, shape (m,)
        Where to begin; returned where it is a root.
    rounding : float
        How small a value is zero, as a share of that size.

    Returns
    -------
    ndarray, shape (m,)
        The roots.
    """
    x = start.astype(np.float64, copy=True)
    low, high = np.full_like(x, -np.inf), np.full_like(x, np.inf)
    reach, last = np.ones_like(x), np.full_like(x, np.inf)
    for step in range(_STEPS):
        check_time()
        values, slopes, sizes = evaluate(x)
        open_ = np.abs(values) > rounding * np.minimum(sizes, _HUGE)
        low = np.where(open_ & (values < 0), np.maximum(low, x), low)
        high = np.where(open_ & (values > 0), np.minimum(high, x), high)
        if not open_.any():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = x - values / slopes
            middle = 0.5 * (low + high)
        inside = (slopes > 0) & (moved > low) & (moved < high) & (np.abs(moved - x) < 1e3 * reach)
        # where three steps did not bring the value down to a hundredth, the bracket is halved, or widened
        slow = (step % 3 == 2) & ~(np.abs(values) <= 0.01 * last)
        fallback = np.where(np.isfinite(middle), middle, x - np.sign(values) * reach)
        following = np.where(inside & ~slow, moved, fallback)
        stuck = np.isfinite(middle) & ((middle <= low) | (middle >= high))
        reach = np.where(np.isfinite(middle), reach, 2.0 * reach)
        last = np.abs(values) if step % 3 == 2 else last
        x = np.where(open_ & ~stuck, following, x)
        if not (open_ & ~stuck).any():
            break
    return x


def target_link(divergence: Divergence, simplex: bool, offsets: bool | None) -> TargetLink:
    """Return the maps, or refuse arguments that do not fit.

    Parameters
    ----------
    divergence : Divergence
        The divergence.
    simplex : bool
        Whether targets are distributions; those of KL always are.
    offsets : bool or None
        Whether each query has an offset; None takes the useful default.

    Raises
    ------
    ValueError
        For weights, and for offsets that make the problem trivial or are needed and refused.
    """
    name = type(divergence).__name__
    if divergence.weights is not None:
        raise ValueError(
            f"divergence is {name} with weights, expected one without: weights belong to the entries of one vector, "
            "and queries have different lengths."
        )
    if isinstance(divergence, KL):  # the I-divergence of distributions; an offset is without effect there
        return TargetLink(GeneralizedI(), True, True)
    quadratic = isinstance(divergence, SquaredEuclidean)
    offsets = simplex or quadratic if offsets is None else check_flag(offsets, "offsets")
    if offsets and not (simplex or quadratic):
        raise ValueError(
            f"offsets with simplex=False make {name} void: an offset without end takes the cost of every w to 0. Pass "
            "simplex=True or offsets=False."
        )
    slopes = divergence.dual_domain
    if not (simplex and offsets) and (np.isfinite(slopes.lower) or np.isfinite(slopes.upper)):
        raise ValueError(
            f"scores leave the slopes {slopes} of {name}: only offsets can keep them there. Pass simplex=True and "
            "leave offsets out."
        )
    return TargetLink(divergence, simplex, offsets)
