r"""A smooth function below the risks in which the highest negative alone pays.

The maximum over negatives is replaced by :math:`m_\mu = \max_{\beta\in\Delta} \langle\beta, f\rangle - \frac\mu2\|\beta\|^2`,
whose β is the projection of f/μ onto the simplex; a hinge, by :math:`\max_{0\le\lambda\le1} \lambda(1-z) - \frac\mu2\lambda^2`.
Both are below what they replace. The risks increase with the maximum, so they stay below and convex.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank import losses
from convexrank.backend.gram import centred_gram, times, transposed_times
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
        The function at the margins; and that less the gradient's part.
    pull : ndarray, shape (I,)
        What the gradient is with the sign changed: at least 0.
    bend : ndarray, shape (I,)
        Curvatures: the Hessian is their diagonal, less pull pullᵀ where ``balanced``.
    drift : ndarray, shape (I,)
        The derivative of the pull in the width, margins held.
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


def mean_loss(loss: Any, margins: Array, shares: Array, width: float) -> Outer:
    """Return Σ a ℓ(z) for the losses of this package; the hinge is smoothed."""
    short = 1.0 - margins
    if isinstance(loss, losses.Hinge):
        most = min(width, 1.0)
        part = np.clip(short / most, 0.0, 1.0)
        inside = (short > 0.0) & (short < most)
        value = float(shares @ (part * short - 0.5 * most * part * part))
        drift = np.where(inside & (width <= 1.0), -shares * part / most, 0.0)
        risk = lambda z: float(shares @ np.maximum(1.0 - z, 0.0))  # noqa: E731
        offset = float(shares @ part)
        return Outer(risk, value, offset, shares * part, shares * inside / most, drift, balanced=False)
    rule = _RULES[type(loss)]
    values, slopes, bends = rule(loss, margins)
    risk = lambda z: float(shares @ rule(loss, z)[0])  # noqa: E731
    offset = float(shares @ (values - slopes * margins))
    still = np.zeros(len(shares))
    return Outer(risk, float(shares @ values), offset, -shares * slopes, shares * bends, still, balanced=False)


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
    places = places[np.argsort(-below[places], kind="stable")]
    falling = below[places]
    levels = (np.cumsum(falling) - 1.0) / np.arange(1, len(falling) + 1)
    count = int(np.flatnonzero(falling > levels)[-1]) + 1
    return places[:count], falling[:count] - levels[count - 1]


def smoothed_top(
    X: Any,
    positives: Array,
    negatives: Array,
    scores: Array,
    width: float,
    outer: Callable[[Array], Outer],
) -> Smoothed:
    """Return the smooth function of the scores Xw.

    Parameters
    ----------
    X : matrix, shape (n, d)
        The features, dense or sparse.
    positives, negatives : ndarray of int
        Their rows.
    scores : ndarray, shape (n,)
        The scores Xw.
    width : float
        The width μ.
    outer : callable
        Takes margins over the maximum to an :class:`Outer`.
    """
    high, low = scores[positives], scores[negatives]
    places, shares = highest_share(low, width)
    rows = negatives[places]
    size = float(shares @ shares)
    top = float(shares @ low[places]) - 0.5 * width * size
    found = outer(high - top)
    total = float(found.pull.sum())
    # as the maximum falls by ‖β‖²/2 with the width, all margins rise
    moved = found.drift - (0.0 if found.balanced else 0.5 * size * found.bend)
    pushed = np.zeros((len(scores), 3))
    pushed[rows, 0] = shares
    pushed[positives, 1] = found.pull
    pushed[positives, 2] = moved
    pushed[rows, 2] -= moved.sum() * shares + total / width * (1.0 / len(rows) - shares)
    means = np.asarray(transposed_times(X, pushed), dtype=np.float64)
    mean, pulled, drift = means.T
    # curvature of the outer function about the mean of what it is measured against
    centre = pulled if found.balanced else mean
    stiff = total / width

    def product(v: Array) -> Array:
        image = np.asarray(times(X, v), dtype=np.float64)
        back = np.zeros(len(scores))
        turned = found.bend * (image[positives] - centre @ v)
        back[positives] = turned
        part = image[rows]
        back[rows] += stiff * (part - part.mean())
        return np.asarray(transposed_times(X, back), dtype=np.float64) - turned.sum() * centre

    def matrix() -> Array:
        middle = np.asarray(X[rows].mean(axis=0), dtype=np.float64).ravel()
        curved = found.bend > 0.0
        hessian = centred_gram(X[positives[curved]], centre, found.bend[curved])
        return hessian + centred_gram(X[rows], middle, np.full(len(rows), stiff))

    return Smoothed(
        risk=found.risk(high - low.max()),
        value=found.value,
        offset=found.offset,
        slope=total * mean - pulled,
        drift=-drift,
        product=product,
        matrix=matrix,
    )
