"""Figures of learned functions: those of features whose sum is the score, its terms for one row, and the link."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.data import check_integer, check_kind, check_vector
from convexrank.features import Explanation, Shapes
from convexrank.features._shape_terms import Slope, StepFunction, Surface
from convexrank.features.score_cards import text_of
from convexrank.links import Link
from convexrank.plotting.style import axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = np.ndarray

_CURVE, _ABSENT, _ROWS = "#0072b2", "#d55e00", "0.6"
_COLUMNS = 4
# Share of a panel that the density of the rows takes, and in how many cells.
_FOOT, _CELLS = 0.14, 60
# Share of the range of a feature that is shown beyond its ends, where the outermost values hold.
_MARGIN = 0.04


def shapes(found: Shapes, *, most: int = 12, ax: Any = None) -> Array:
    """Draw the functions of a score in small panels, those of the largest variation first.

    Step functions and lines share their vertical axis, and surfaces their colours, so that panels can be compared. Grey
    bars below a function show the number of rows of the design with each value (with ``bins``, the rows between two
    thresholds are at the upper one). A diamond is the value for a missing feature.

    Parameters
    ----------
    found : Shapes
        The result of :func:`convexrank.shapes`.
    most : int
        Largest number of panels.
    ax : sequence of Axes, optional
        Axes for each function that is drawn, ``min(most, len(found.terms))``; by default a new figure.

    Returns
    -------
    ndarray of Axes
        The Axes of each function.

    Raises
    ------
    ValueError, TypeError
        When every function is 0, or an argument is of the wrong kind.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> from convexrank import plotting
    >>> design = cr.features.Thresholds(np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 1.0]]))
    >>> panels = plotting.shapes(cr.shapes([2.0, 1.0, -4.0], design))
    >>> [panel.get_xlabel() for panel in panels]
    ['x1', 'x0']
    """
    check_kind(found, "found", Shapes, "Shapes, which convexrank.shapes(solution) returns")
    terms = found.terms[: check_integer(most, "most", 1)]
    if not terms:
        raise ValueError("found has no function that is not 0, expected one; solve with a smaller l1.")
    wide = min(len(terms), _COLUMNS)
    panels = axes(ax, len(terms), (2.6 * wide, 2.2 * math.ceil(len(terms) / wide)), wide)
    curves = [term for term in terms if not isinstance(term, Surface)]
    heights = np.concatenate([_heights(term) for term in curves]) if curves else np.zeros(1)
    largest = max(
        (float(np.abs(term.values).max()) for term in terms if isinstance(term, Surface)), default=0.0
    )
    for panel, term in zip(panels, terms, strict=True):
        if isinstance(term, Surface):
            _surface(panel, term, largest)
            continue
        _limits(panel, heights)
        panel.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
        panel.set_xlabel(plain(term.name))
        if isinstance(term, Slope):
            ends = np.array([term.low, term.high])
            panel.plot(ends, term(ends), color=_CURVE, linewidth=1.6)
        elif term.categorical:
            _bars(panel, term)
        else:
            _steps(panel, term)
    return panels


def _heights(term: StepFunction | Slope) -> Array:
    return term(np.array([term.low, term.high])) if isinstance(term, Slope) else term.table


def _limits(panel: Any, heights: Array) -> None:
    """Leave room for the density below the lowest function."""
    low, high = float(heights.min()), float(heights.max())
    room = (high - low) or 1.0
    panel.set_ylim(low - room * (_FOOT + 0.08) / (1 - _FOOT), high + 0.06 * room)


def explanation(found: Explanation, *, most: int = 12, ax: Any = None) -> Any:
    """Draw what each feature adds to the score of one row, those of the largest size at the top.

    Parameters
    ----------
    found : Explanation
        As :meth:`PushRanker.explain <convexrank.PushRanker.explain>` returns it.
    most : int
        Largest number of bars; the others are one bar.
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The panel.

    Raises
    ------
    ValueError, TypeError
        When there is no term, or an argument is of the wrong kind.

    Examples
    --------
    >>> from convexrank import features, plotting
    >>> found = features.Explanation.of(1.5, {"age": 0.25, "city": -0.75}, {"age": 31, "city": "Rome"})
    >>> [label.get_text() for label in plotting.explanation(found).get_yticklabels()]
    ['age = 31', 'city = Rome']
    """
    check_kind(found, "found", Explanation, "an Explanation, which explain returns")
    most = check_integer(most, "most", 1)
    names = list(found.terms)
    if not names:
        raise ValueError("found has no term, expected one.")
    texts = [plain(f"{name} = {text_of(found.values[name])}"[:40]) for name in names[:most]]
    drawn = [found.terms[name] for name in names[:most]]
    if len(names) > most:
        texts.append(f"{len(names) - most} others")
        drawn.append(sum(found.terms[name] for name in names[most:]))
    drawn.reverse()  # the first is at the top
    places = np.arange(len(drawn))
    (panel,) = axes(ax, 1, (6.4, 0.8 + 0.34 * len(drawn)))
    panel.barh(places, drawn, color=[_CURVE if term >= 0 else _ABSENT for term in drawn])
    panel.set_yticks(places, texts[::-1])
    panel.axvline(0.0, color="0.4", linewidth=0.8)
    panel.set_xlabel(f"added to the mean score {found.mean:.3g}; the sum is {found.score:.3g}")
    return panel


def _edges(levels: Any) -> Array:
    """Ends of the pieces, the outermost a little beyond the rows."""
    low, high = np.nan_to_num([levels.low, levels.high])  # NaN where all rows lack a value
    margin = _MARGIN * (high - low) or 0.5
    return np.r_[low - margin, levels.cuts, high + margin]


def _steps(panel: Any, term: StepFunction) -> None:
    edges = _edges(term.levels)
    panel.stairs(term.values, edges, baseline=None, color=_CURVE, linewidth=1.6)
    panel.set_xlim(edges[0], edges[-1])
    # a row counts at the upper end of its level, the only value there where every value is a threshold
    places = np.r_[term.cuts, term.levels.high]
    counts, cells = np.histogram(
        places,
        bins=min(_CELLS, 4 * len(places)),
        range=(edges[0], edges[-1]),
        weights=term.counts[: len(places)],
    )
    _foot(panel, cells[:-1], counts, np.diff(cells), "edge")
    if term.missing is not None:
        right = edges[-1] + 0.1 * (edges[-1] - edges[0])
        panel.set_xlim(edges[0], right + 0.5 * (right - edges[-1]))
        _absent(panel, right, term.missing)


def _bars(panel: Any, term: StepFunction) -> None:
    places = np.arange(len(term.breaks))
    panel.hlines(term.values[1:], places - 0.4, places + 0.4, color=_CURVE, linewidth=2.4)
    _foot(panel, places, term.counts[1 : len(places) + 1], np.full(len(places), 0.8), "center")
    labels = [f"{name:g}" if isinstance(name, float) else plain(name) for name in term.categories]
    if term.missing is not None:
        _absent(panel, len(places), term.missing)
    panel.set_xticks(places, labels)
    panel.set_xlim(-0.6, len(places) - 0.4 + (term.missing is not None))


def _absent(panel: Any, place: float, value: float) -> None:
    panel.plot([place], [value], "D", color=_ABSENT, markersize=5)
    panel.annotate(
        "missing", (place, value), (0, 6), textcoords="offset points", ha="right", fontsize=7, color=_ABSENT
    )


def _foot(panel: Any, places: Array, counts: Array, widths: Array, align: str) -> None:
    if counts.max(initial=0) > 0:
        panel.bar(
            *(places, _FOOT * counts / counts.max(), widths),
            align=align, color=_ROWS, linewidth=0, transform=panel.get_xaxis_transform(), zorder=0,
        )  # fmt: skip


def _surface(panel: Any, term: Surface, largest: float) -> None:
    mesh = panel.pcolormesh(
        *(_edges(term.first), _edges(term.second), term.values.T),
        cmap="RdBu_r", vmin=-largest, vmax=largest,
    )  # fmt: skip
    panel.set(xlabel=plain(term.first.name), ylabel=plain(term.second.name))
    panel.figure.colorbar(mesh, ax=panel)


_DATA, _LINK = "0.55", "#0072b2"
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
    limits = _limits_of_values(curve_y if y is None else np.append(curve_y, y))
    panel.fill_between(
        grid,
        np.clip(low, *limits),
        np.clip(high, *limits),
        color=_LINK,
        alpha=0.25,
        linewidth=0,
        label="interval",
    )
    if theta is not None:
        panel.plot(theta, y, ".", color=_DATA, markersize=4, label="data", zorder=1)
    panel.plot(curve_x, curve_y, color=_LINK, linewidth=1.6, label="link")
    panel.set(xlim=(grid[0], grid[-1]), ylim=limits, xlabel="score", ylabel="target")
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


def _limits_of_values(values: Array) -> tuple[float, float]:
    least, most = float(values.min()), float(values.max())
    margin = 0.06 * (most - least) or 0.5
    return least - margin, most + margin
