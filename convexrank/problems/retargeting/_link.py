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

from convexrank.data import QueryGroups, check_flag
from convexrank.divergences import KL, BitEntropy, Divergence, GeneralizedI, ItakuraSaito, SquaredEuclidean

Array = np.ndarray

# Newton's method needs about ten; halving, every so often, ends where it fails.
_STEPS, _PATIENCE = 400, 6
_ROUNDING = 1e-13


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
        return below + _level(self._sums(below, groups, floor), middle, -groups.minima(below))[groups.query]

    def _sums(
        self, below: Array, groups: QueryGroups, floor: float
    ) -> Callable[[Array], tuple[Array, Array]]:
        slopes = self.divergence.dual_domain

        def sums(level: Array) -> tuple[Array, Array]:
            natural = below + level[groups.query]
            # beyond the last slope the link is infinite, before the first one it is nothing
            inside, past = slopes.contains(natural), natural >= slopes.upper
            with np.errstate(all="ignore"):
                values = np.asarray(self.divergence._point(natural))
                rates = np.where(
                    inside & (values > floor), 1.0 / np.asarray(self.divergence._curvature(values)), 0.0
                )
                values = np.where(inside, values, np.where(past, np.inf, -np.inf))
            return groups.sums(np.maximum(values, floor)), groups.sums(rates)

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


def _level(sums: Callable[[Array], tuple[Array, Array]], start: Array, width: Array) -> Array:
    """Find where each increasing sum passes 1: Newton's method in a bracket, which is halved where it is slow."""
    low, high, level = start, start + width, start
    done = np.zeros(len(start), dtype=bool)
    for count in range(_STEPS):
        total, rate = sums(level)
        short = total < 1.0
        low, high = np.where(short, level, low), np.where(short, high, level)
        with np.errstate(all="ignore"):
            # the logarithm of the sum of a link is nearly straight: exponentials take one step
            excess = np.where(total > 0, total * np.log(total), total - 1.0)
            newton = level - excess / rate
        trusted = (newton >= low) & (newton <= high) & (count % _PATIENCE < _PATIENCE - 1)
        proposed = np.where(trusted, newton, 0.5 * (low + high))
        still = np.abs(proposed - level) <= _ROUNDING * np.maximum(1.0, np.abs(level))
        level = np.where(done, level, proposed)
        done |= still
        if done.all():
            break
    return level


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
