"""Figures of the quality of rankings: ROC curves, and precision at the top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.data import (
    check_binary_labels,
    check_flag,
    check_integer,
    check_list,
    check_positive,
    check_vector,
    read_array,
    shown,
)
from convexrank.data.checks.values import is_integer
from convexrank.data.rankers import scores_of
from convexrank.metrics import precision_at
from convexrank.metrics.queries import tally
from convexrank.plotting.style import axes, check_mapping, label_text, sequence, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = np.ndarray


def roc(
    curves: Any, scores: Any = None, *, zoom: float | None = 0.1, rate: bool = False, ax: Any = None
) -> Axes | Array:
    r"""Draw ROC curves, and their enlarged left ends, which show the top of each list.

    The axes are those of the 2009 paper: true positives against false positives, as counts. The curve of a ranking is
    the polygon through one point for each distinct score, so a tie is a slanted piece.

    Parameters
    ----------
    curves : array-like of shape (n,), or mapping of label to (y, scores) or (estimator, X, y)
        The labels of one ranking, or the curves by label: labels and scores, or a fitted estimator and the rows and
        labels on which to judge it. A number as label is a value of p, and determines the colour.
    scores : array-like of shape (n,), optional
        The scores of one ranking, or a mapping of scores of the same rows by label; curves are then the labels.
    zoom : float or None
        Share of the negatives in the enlarged panel, in (0, 1]; None leaves that panel out.
    rate : bool
        Whether to use rates from 0 to 1 instead of counts. Required when the data sets of the curves differ in size.
    ax : Axes, or two Axes, optional
        Axes for the full and the enlarged panel, or one if zoom is None; by default a new figure.

    Returns
    -------
    Axes, or ndarray of two Axes
        One when zoom is None.

    Raises
    ------
    ValueError, TypeError
        When curves is empty, zoom is out of range, ax is not of the right number, or labels and scores do not fit.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), figures 5 to 7.

    Examples
    --------
    >>> from convexrank import plotting
    >>> full, top = plotting.roc([1, 0, 1, 0], [4, 3, 2, 1])
    >>> full.get_xlabel()
    'false positives'
    >>> import convexrank as cr
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> full, top = plotting.roc({"push": (cr.PushRanker(l2=0.1).fit(X, y), X, y)})
    >>> full.lines[0].get_ydata().tolist()
    [0, 1, 2, 2, 2]
    """
    if scores is not None:
        if isinstance(curves, Mapping):
            raise TypeError(
                "curves is a mapping, which has the scores; leave scores out, or pass labels first."
            )
        named = scores if isinstance(scores, Mapping) else {"": scores}
        positive = check_binary_labels(curves, name="curves")
        for found in named.values():
            length = len(check_vector(found, name="scores"))
            if len(positive) != length:
                raise ValueError(
                    f"scores has {length} entries and curves has {len(positive)} labels, expected as many; pass both "
                    "of the same rows."
                )
        curves = {label: (positive, found) for label, found in named.items()}
    check_mapping(curves, "curves", "{label: (y, scores)}, or labels and scores")
    curves = {label: _scored(curve) for label, curve in curves.items()}
    _check_rankings(curves, "curves")
    rate = check_flag(rate, "rate")
    if zoom is not None and check_positive(zoom, "zoom") > 1:
        raise ValueError(
            f"zoom is {zoom}, expected a share of the negatives in (0, 1], or None for no second panel."
        )
    zoom = None if zoom is None else float(zoom)
    panels = axes(ax, 1 if zoom is None else 2, (5.2, 4.4) if zoom is None else (9.6, 4.4))
    points = {label: roc_points(y, scores, rate) for label, (y, scores) in curves.items()}
    for label, style in styles(curves).items():
        for panel in panels:
            panel.plot(*points[label], label=label_text(label), **style)
    unit = " rate" if rate else "s"
    for panel in panels:
        panel.set_xlabel(f"false positive{unit}")
        panel.set_ylabel(f"true positive{unit}")
        panel.grid(alpha=0.25)
        for axis in (panel.xaxis, panel.yaxis):
            axis.get_major_locator().set_params(integer=not rate)
    widest = max(float(x[-1]) for x, _ in points.values())
    panels[0].set_title("ROC")
    if list(curves) != [""]:
        panels[0].legend(loc="lower right")
    if zoom is None:
        return panels[0]
    edge = zoom * widest
    # from where the lowest curve leaves the axis to where the highest one leaves the panel
    low = min(float(y[x == 0].max()) for x, y in points.values())
    high = max(float(np.interp(edge, x, y)) for x, y in points.values())
    margin = 0.06 * (high - low) if high > low else None
    panels[1].set_xlim(0, edge)
    if margin is not None:
        panels[1].set_ylim(low - margin, high + margin)
    panels[1].set_title(f"the first {100 * zoom:g} % of the negatives")
    return panels


def _scored(curve: Any) -> Any:
    """Labels and scores, where an estimator is given with rows and labels."""
    if not isinstance(curve, tuple | list) or len(curve) != 3:
        return curve
    estimator, X, y = curve
    return y, scores_of(estimator, X)


def _check_rankings(rankings: Mapping[Any, Any], name: str) -> None:
    for key, pair in rankings.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"{name}[{shown(key)}] is {shown(pair)}, expected a pair (y, scores).")


def roc_points(y: Any, scores: Any, rate: bool = False) -> tuple[Array, Array]:
    """Return false and true positives at every distinct score from the highest down, starting from (0, 0)."""
    counted = tally(y, scores)
    false, true = (np.concatenate([[0], c.cumsum()]) for c in (counted.negatives, counted.positives))
    return (false / false[-1], true / true[-1]) if rate else (false, true)


def precision_at_top(
    rankings: Mapping[Any, tuple[Any, Any]], fractions: Sequence[float] = (0.01, 0.05, 0.1), *, ax: Any = None
) -> Axes:
    """Draw the precision at the top of the list against p, one curve for each fraction of the list.

    The values of p are at equal distances, in the order given, so that ∞ and other methods fit on the axis.

    Parameters
    ----------
    rankings : mapping of p to (y, scores)
        Keys are numbers (∞ included) or names.
    fractions : sequence of float or int
        Shares of the list in (0, 1], or integer numbers of rows, as in :func:`convexrank.metrics.precision_at`.
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The Axes with one line for each fraction.

    Raises
    ------
    ValueError, TypeError
        When rankings or fractions are empty or out of range, or labels and scores do not fit.

    Examples
    --------
    >>> from convexrank import plotting
    >>> y = [1, 0, 1, 0]
    >>> ax = plotting.precision_at_top({1: (y, [3, 4, 2, 1]), 8: (y, [4, 3, 2, 1])}, fractions=[1, 0.5])
    >>> ax.lines[0].get_ydata().tolist()
    [0.0, 1.0]
    """
    check_mapping(rankings, "rankings", "{p: (y, scores)}")
    _check_rankings(rankings, "rankings")
    fractions = check_list(fractions, "fractions", "counts or shares")
    for place, fraction in enumerate(fractions):
        if is_integer(fraction):
            most = min(len(read_array(y, "y")) for y, _ in rankings.values())
            if check_integer(fraction, f"fractions[{place}]", 1) > most:
                raise ValueError(
                    f"fractions[{place}] is {fraction}, expected at most {most}, the number of rows."
                )
        else:
            fractions[place] = check_positive(fraction, f"fractions[{place}]")
            if fractions[place] > 1.0:
                raise ValueError(
                    f"fractions[{place}] is {fraction}, expected a share of at most 1, or an integer count of rows."
                )
    if not fractions:
        raise ValueError("fractions is empty; pass shares such as [0.01, 0.1].")
    (panel,) = axes(ax, 1, (5.6, 4.2))
    x = np.arange(len(rankings))
    # curves often coincide at precision 1: markers shrink, so that each leaves a rim of those below it
    sizes = np.linspace(9, 4, len(fractions))
    for style, size, fraction in zip(sequence(len(fractions)), sizes, fractions, strict=True):
        heights = [precision_at(y, scores, fraction) for y, scores in rankings.values()]
        count = is_integer(fraction)
        name = f"first {fraction}" if count else f"top {100 * fraction:g} %"
        panel.plot(x, heights, marker="o", markersize=size, label=name, **style)
    panel.set_xticks(x, [label_text(key, bare=True) for key in rankings])
    panel.set_xlabel("p")
    panel.set_ylabel("precision")
    panel.grid(alpha=0.25)
    panel.legend(loc="best")
    return panel
