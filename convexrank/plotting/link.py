"""The link that was learned, over the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.data import check_integer, check_vector
from convexrank.links import Link
from convexrank.plotting.style import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = np.ndarray

_DATA, _CURVE = "0.55", "#0072b2"
_MOST_POINTS = 1_000_000


def link(learned: Any, theta: Any = None, y: Any = None, *, points: int = 400, ax: Any = None) -> Axes:
    """Draw a learned link and its interval, over the data it was learned from.

    The curve is the link. The band is :meth:`~convexrank.links.Link.interval`, the range of the links that fit
    the data equally well; it does not describe the spread of the targets. An infinite band is cut off by the panel.

    Parameters
    ----------
    learned : Link or SingleIndexRegressor
        The link, such as the result of :func:`~convexrank.links.fit_link`; or a fitted
        :class:`~convexrank.SingleIndexRegressor`, or a pipeline that ends with one.
    theta, y : array, shape (n,), optional
        Scores and targets, drawn as points; both or neither. For an estimator theta is the rows, shape (n, d).
    points : int
        Number of scores at which the band is evaluated, besides the corners of the curve.
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The Axes with the band, the curve and the points.

    Raises
    ------
    ValueError, TypeError
        When learned is neither a Link nor a fitted SingleIndexRegressor, only one of theta and y is given, they do not
        fit, or points is below 2.

    Examples
    --------
    >>> from convexrank import plotting
    >>> from convexrank.links import Link
    >>> learned = Link([0.0, 1.0, 2.0], [0.0, 0.2, 1.0], strong=0.5)
    >>> ax = plotting.link(learned, [0.0, 1.0, 2.0], [0.1, 0.1, 0.9])
    >>> ax.get_xlabel()
    'score'
    >>> import convexrank as cr
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 0.1, 0.8, 1.0]
    >>> ax = plotting.link(cr.SingleIndexRegressor().fit(X, y), X, y)
    >>> len(ax.lines[0].get_xdata())
    4
    """
    if not isinstance(learned, Link):
        learned, theta = _of_estimator(learned, theta)
    if (theta is None) != (y is None):
        raise ValueError("theta and y go together: pass both, or neither.")
    if theta is not None:
        theta = check_vector(theta, name="theta")
        y = check_vector(y, len(theta), "y")
    shown = learned.knots if theta is None else theta
    grid, low, high = link_band(learned, shown, check_integer(points, "points", 2))
    (panel,) = axes(ax, 1, (5.6, 4.2))
    curve_x, curve_y = _curve(learned, grid)
    limits = _limits(curve_y if y is None else np.append(curve_y, y))
    panel.fill_between(
        grid,
        np.clip(low, *limits),
        np.clip(high, *limits),
        color=_CURVE,
        alpha=0.25,
        linewidth=0,
        label="interval",
    )
    if theta is not None:
        panel.plot(theta, y, ".", color=_DATA, markersize=4, label="data", zorder=1)
    panel.plot(curve_x, curve_y, color=_CURVE, linewidth=1.6, label="link")
    panel.set_xlim(grid[0], grid[-1])
    panel.set_ylim(*limits)
    panel.set_xlabel("score")
    panel.set_ylabel("target")
    panel.grid(alpha=0.25)
    panel.legend(loc="best")
    return panel


def _of_estimator(estimator: Any, X: Any) -> tuple[Link, Array | None]:
    """The link of a fitted estimator, and the scores of rows."""
    steps = getattr(estimator, "steps", None)
    last = steps[-1][1] if steps else estimator
    learned = getattr(last, "link_", None)
    if not isinstance(learned, Link):
        raise TypeError(
            f"learned is a {type(last).__name__}, expected a Link, or a fitted SingleIndexRegressor with its rows: "
            "plotting.link(model, X, y)."
        )
    if X is None:
        return learned, None
    try:
        return learned, last.index(estimator[:-1].transform(X) if steps and len(steps) > 1 else X)
    except (TypeError, ValueError) as error:
        raise type(error)(f"theta, the rows of {type(last).__name__}: {error}") from error


def link_band(learned: Link, shown: Array, points: int) -> tuple[Array, Array, Array]:
    """Return scores over the range shown and a little more, with corners on both sides of jumps; and the interval.

    ``shown`` are the scores that have to be in the picture, ``points`` is how many there are besides the corners.
    """
    if points > _MOST_POINTS:
        raise ValueError(
            f"points is {points}, expected at most {_MOST_POINTS}, which is more than a picture shows."
        )
    least, most = float(shown.min()), float(shown.max())
    margin = 0.05 * (most - least) or 0.5
    grid = np.linspace(least - margin, most + margin, points)
    corners = learned.corners[0]
    inside = corners[(corners > grid[0]) & (corners < grid[-1])]
    grid = np.unique(
        np.concatenate([grid, inside, np.nextafter(inside, -np.inf), np.nextafter(inside, np.inf)])
    )
    return grid, *learned.interval(grid)


def _curve(learned: Link, grid: Array) -> tuple[Array, Array]:
    """Return the corners in the picture, and the curve's ends there: jumps are vertical."""
    x, y = learned.corners
    inside = (x > grid[0]) & (x < grid[-1])
    ends = learned(grid[[0, -1]])
    return np.concatenate([grid[:1], x[inside], grid[-1:]]), np.concatenate([ends[:1], y[inside], ends[1:]])


def _limits(values: Array) -> tuple[float, float]:
    least, most = float(values.min()), float(values.max())
    margin = 0.06 * (most - least) or 0.5
    return least - margin, most + margin
