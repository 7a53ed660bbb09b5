r"""A smooth function below the risks in which the highest negative alone counts.

The maximum over negatives is replaced by that of ⟨β, f⟩ − ½μ‖β‖² over the simplex, whose β is the projection of f/μ; a
hinge, by the maximum of λ(1 − z) − ½μλ² over λ in [0, 1]. Both are below what they replace. The risks increase with the
maximum, so they stay below and convex.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from convexrank import losses
from convexrank.backend.gram import gram_of_rows, squares_times, times, transposed_times
from convexrank.problems._smoothed import Smoothed

__all__ = ["KNOWN_LOSSES", "Outer", "highest_share", "log_mean", "mean_loss", "smoothed_top"]

Array = np.ndarray


@dataclass(frozen=True)
class Outer:
    """A smooth function of the positives' margins z over the maximum, decreasing in each.

    Parameters
    ----------
    risk : callable
        Takes margins to the risk without smoothing.
    value, offset : float
        The function at the margins, and the constant of its tangent there.
    pull : ndarray, shape (I,)
        Minus the gradient, at least 0.
    bend : ndarray, shape (I,)
        Curvatures: the Hessian is their diagonal, less pull pullᵀ where ``balanced``.
    drift : ndarray, shape (I,)
        The derivative of the pull in the width at fixed margins.
    balanced : bool
        Whether the pull sums to 1 whatever the margins are.
    """

    risk: Callable[[Array], float]
    value: float
    offset: float
    pull: Array
    bend: Array
    drift: Array
    balanced: bool


def log_mean(margins: Array, log_shares: Array) -> Outer:
    """Return log Σ a e^(−z)."""

    def level(z: Array) -> tuple[float, Array]:
        exponents = log_shares - z
        top = exponents.max()
        masses = np.exp(exponents - top)
        whole = masses.sum()
        return float(top + np.log(whole)), masses / whole

    value, pull = level(margins)
    offset = value + float(pull @ margins)
    return Outer(lambda z: level(z)[0], value, offset, pull, pull, np.zeros(len(pull)), balanced=True)


def mean_loss(loss: Any, margins: Array, shares: Array, width: float, narrower: float) -> Outer:
    """Return Σ a ℓ(z) for the losses of this package; the hinge is smoothed, over a width so many times narrower."""
    short = 1.0 - margins
    if isinstance(loss, losses.Hinge):
        most = min(width / narrower, 1.0)
        part = np.clip(short / most, 0.0, 1.0)
        inside = (short > 0.0) & (short < most)
        value = float(shares @ (part * short - 0.5 * most * part * part))
        drift = np.where(inside & (width <= narrower), -shares * part / width, 0.0)
        risk = lambda z: float(shares @ np.maximum(1.0 - z, 0.0))  # noqa: E731
        offset = float(shares @ part)
        return Outer(risk, value, offset, shares * part, shares * inside / most, drift, balanced=False)
    rule = _RULES[type(loss)]
    values, slopes, bends = rule(loss, margins)
    risk = lambda z: float(shares @ rule(loss, z)[0])  # noqa: E731
    offset = float(shares @ (values - slopes * margins))
    still = np.zeros(len(shares))
    return Outer(
        risk, float(shares @ values), offset, -shares * slopes, shares * bends, still, balanced=False
    )


def _squared_hinge(_: Any, z: Array) -> tuple[Array, Array, Array]:
    short = np.maximum(1.0 - z, 0.0)
    return short**2, -2.0 * short, 2.0 * (short > 0.0)


def _exponential(_: Any, z: Array) -> tuple[Array, Array, Array]:
    value = np.exp(-z)
    return value, -value, value


def _logistic(loss: Any, z: Array) -> tuple[Array, Array, Array]:
    scale = 1.0 / np.log(loss.base)
    share = np.exp(-np.logaddexp(0.0, z))
    return scale * np.logaddexp(0.0, -z), -scale * share, scale * share * (1.0 - share)


_RULES: dict[type, Callable[[Any, Array], tuple[Array, Array, Array]]] = {
    losses.SquaredHinge: _squared_hinge,
    losses.Exponential: _exponential,
    losses.Logistic: _logistic,
}
#: The losses that :func:`mean_loss` knows.
KNOWN_LOSSES = (losses.Hinge, *_RULES)


def highest_share(scores: Array, width: float) -> tuple[Array, Array]:
    """Return the places where the projection of f/μ onto the simplex is positive, and its entries there."""
    below = (scores - scores.max()) / width
    places = np.flatnonzero(below > -1.0)  # no entry is above 1, so the others are 0
    while (
        True
    ):  # Michelot's algorithm: entries that are not above the level are dropped, which raises the level
        level = (float(below[places].sum()) - 1.0) / len(places)
        above = below[places] > level
        if above.all():
            return places, below[places] - level
        places = places[above]


@dataclass(frozen=True)
class Top:
    """The smooth function at scores.

    Parameters
    ----------
    high, low : ndarray
        Scores of positives and negatives.
    width : float
        The width.
    outer : callable
        Takes margins over the maximum to an :class:`Outer`.
    """

    high: Array
    low: Array
    width: float
    outer: Callable[[Array], Outer]

    def __post_init__(self) -> None:
        places, shares = highest_share(self.low, self.width)
        level = float(shares @ self.low[places]) - 0.5 * self.width * float(shares @ shares)
        found = self.outer(self.high - level)
        self.__dict__.update(places=places, shares=shares, found=found, total=float(found.pull.sum()))

    places: Array = field(init=False)
    shares: Array = field(init=False)
    found: Outer = field(init=False)
    total: float = field(init=False)

    def along(self, high: Array, low: Array) -> Callable[[float], tuple[float, float]]:
        """Return value and derivative as a function of the length of a step with these scores."""

        def at(length: float) -> tuple[float, float]:
            there = Top(self.high + length * high, self.low + length * low, self.width, self.outer)
            rise = there.total * float(there.shares @ low[there.places]) - float(there.found.pull @ high)
            return there.found.value, rise

        return at


@dataclass(frozen=True)
class _InWeights:
    """The smooth function as a function of w, by products of X with its derivatives in the scores."""

    X: Any
    positives: Array
    rows: Array
    top: Top

    def pulled(self, on_positives: Array | float, on_rows: Array | float) -> Array:
        """Return Xᵀu for u on the positives and on the highest negatives."""
        u = np.zeros(self.X.shape[0])
        u[self.positives] = on_positives
        u[self.rows] = on_rows
        return np.asarray(transposed_times(self.X, u), dtype=np.float64)

    @property
    def centre(self) -> Array:
        """The mean row about which the curvature of the outer function is taken."""
        found = self.top.found
        return self.pulled(found.pull, 0.0) if found.balanced else self.pulled(0.0, self.top.shares)

    @property
    def stiffness(self) -> float:
        """The curvature of the smoothed maximum."""
        return self.top.total / self.top.width

    def slope(self) -> Array:
        """Return the gradient."""
        return self.pulled(-self.top.found.pull, self.top.total * self.top.shares)

    def drift(self) -> Array:
        """Return the derivative of the gradient in the width."""
        top, found = self.top, self.top.found
        # as the maximum falls by ‖β‖²/2 with the width, all margins rise
        rise = 0.0 if found.balanced else 0.5 * float(top.shares @ top.shares)
        moved = found.drift - rise * found.bend
        return self.pulled(
            -moved, moved.sum() * top.shares + self.stiffness * (1.0 / len(self.rows) - top.shares)
        )

    def product(self) -> Callable[[Array], Array]:
        """Return the product with the Hessian, from the rows with curvature only."""
        some, bend, centre = self._bent, self.top.found.bend, self.centre
        curved = bend > 0.0
        bend, count = bend[curved], int(curved.sum())

        def product(v: Array) -> Array:
            image = np.asarray(times(some, v), dtype=np.float64)
            turned, part = bend * (image[:count] - centre @ v), image[count:]
            back = np.concatenate([turned, self.stiffness * (part - part.mean())])
            return np.asarray(transposed_times(some, back), dtype=np.float64) - turned.sum() * centre

        return product

    @cached_property
    def _bent(self) -> Any:
        """The positives with curvature, and the highest negatives."""
        return self.X[np.concatenate([self.positives[self.top.found.bend > 0.0], self.rows])]

    def diagonal(self) -> Array:
        """Return the diagonal of the Hessian."""
        bend, centre, count = self.top.found.bend, self.centre, len(self.rows)
        weights = np.concatenate([bend[bend > 0.0], np.full(count, self.stiffness)])
        about_zero = (
            squares_times(self._bent, weights) - self.stiffness * count * self.pulled(0.0, 1.0 / count) ** 2
        )
        moved = bend.sum() * centre**2 - 2.0 * centre * self.pulled(bend, 0.0)
        return np.maximum(about_zero + moved, 0.0)

    def matrix(self) -> Array:
        """Return the Hessian."""
        bend, share = self.top.found.bend, 1.0 / len(self.rows)
        curved = bend > 0.0
        middle = self.pulled(0.0, share)
        hessian = gram_of_rows(self.X, self.positives[curved], bend[curved], self.centre)
        return hessian + gram_of_rows(self.X, self.rows, np.full(len(self.rows), self.stiffness), middle)

    def along(self, direction: Array, negatives: Array) -> Callable[[float], tuple[float, float]]:
        """Return value and derivative on a line."""
        image = np.asarray(times(self.X, direction), dtype=np.float64)
        return self.top.along(image[self.positives], image[negatives])


def smoothed_top(
    X: Any, positives: Array, negatives: Array, scores: Array, width: float, outer: Any
) -> Smoothed:
    """Return the smooth function of w at the scores Xw; the outer function takes margins to an :class:`Outer`."""
    top = Top(scores[positives], scores[negatives], width, outer)
    inside = _InWeights(X, positives, negatives[top.places], top)
    return Smoothed(
        risk=top.found.risk(top.high - top.low.max()),
        value=top.found.value,
        offset=top.found.offset,
        slope=inside.slope(),
        drift=inside.drift,
        product=inside.product,
        diagonal=inside.diagonal,
        matrix=inside.matrix,
        along=lambda direction: inside.along(direction, negatives),
    )
