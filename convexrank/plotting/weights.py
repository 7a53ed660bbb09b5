"""Figures of weights under resampling: intervals, and how often columns are selected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.data import check_integer, check_list, shown
from convexrank.inference.weights import SelectionFrequencies, WeightIntervals
from convexrank.plotting.style import axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SURE, _UNSURE = "#0072b2", "#999999"


def weight_intervals(
    found: WeightIntervals, *, top: int = 20, names: Sequence[Any] | None = None, ax: Any = None
) -> Axes:
    """Draw weights with their bootstrap intervals; those whose interval contains 0 are grey.

    Parameters
    ----------
    found : WeightIntervals
        The result of :func:`convexrank.inference.bootstrap_weights`.
    top : int
        Largest number of weights: those with the largest absolute estimates.
    names : sequence, optional
        A name for each column; by default its number.
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The Axes with the figure.

    Raises
    ------
    ValueError
        When ``names`` has another length.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> problem = cr.problems.PNormPush(X, X[:, 0] > 0.5, p=2, l2=0.1)
    >>> axes = cr.plotting.weight_intervals(cr.inference.bootstrap_weights(problem, 20, seed=0))
    >>> axes.get_yticklabels()[0].get_text()
    '0'
    """
    _refuse_other(found, WeightIntervals, "bootstrap_weights")
    limit, given = check_integer(top, "top", 1), _names(names, len(found.estimate))
    order = np.argsort(-np.abs(found.estimate), kind="stable")[:limit]
    panel = axes(ax, 1, (5.2, 0.28 * len(order) + 1.2))[0]
    lower, upper = found.lower, found.upper
    for place, column in enumerate(order.tolist()):
        color = _UNSURE if lower[column] <= 0.0 <= upper[column] else _SURE
        panel.plot([lower[column], upper[column]], [place, place], color=color, linewidth=2.0)
        panel.plot([found.estimate[column]], [place], "o", color=color, markersize=4.0)
    panel.set_yticks(np.arange(len(order)), [given[column] for column in order.tolist()])
    panel.invert_yaxis()
    panel.axvline(0.0, color="black", linewidth=0.8)
    panel.set(xlabel=f"weight, {100 * found.level:g} % over resamples", ylabel="column")
    panel.grid(axis="x", alpha=0.25)
    return panel


def selection_frequencies(
    found: SelectionFrequencies,
    *,
    threshold: float = 0.8,
    top: int = 20,
    names: Sequence[Any] | None = None,
    ax: Any = None,
) -> Axes:
    """Draw the share of the halves in which each column is selected against l1; columns below the threshold are grey.

    Parameters
    ----------
    found : SelectionFrequencies
        The result of :func:`convexrank.inference.stability_selection`.
    threshold : float
        The share from which on a column counts as selected, above 0.5.
    top : int
        Largest number of columns with a name in the legend, of those that are selected.
    names : sequence, optional
        A name for each column; by default its number.
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The Axes with the figure.

    Raises
    ------
    ValueError
        When ``names`` has another length, or the threshold is not above 0.5.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> problem = cr.problems.PNormPush(X, X[:, 0] > 0.5, p=2, l1=0.1, l2=0.1)
    >>> found = cr.inference.stability_selection(problem, l1=[0.3, 0.1], pairs=5, seed=0)
    >>> cr.plotting.selection_frequencies(found).get_xlabel()
    'l1'
    """
    _refuse_other(found, SelectionFrequencies, "stability_selection")
    limit, given = check_integer(top, "top", 1), _names(names, found.frequencies.shape[1])
    chosen = found.selected(threshold)
    panel = axes(ax, 1, (5.2, 3.4))[0]
    for column in range(found.frequencies.shape[1]):
        if column not in chosen:
            panel.plot(found.l1, found.frequencies[:, column], color=_UNSURE, linewidth=0.7, alpha=0.6)
    best = chosen[np.argsort(-found.highest[chosen], kind="stable")]
    for place, column in enumerate(best.tolist()):
        label = given[column] if place < limit else None
        panel.plot(found.l1, found.frequencies[:, column], linewidth=1.6, label=label)
    panel.axhline(threshold, color="black", linewidth=0.8, linestyle="--")
    panel.set(xscale="log", xlabel="l1", ylabel="share of halves", ylim=(-0.03, 1.03))
    panel.invert_xaxis()
    if len(best):
        panel.legend(fontsize="small")
    return panel


def _names(names: Sequence[Any] | None, count: int) -> list[str]:
    given = list(range(count)) if names is None else check_list(names, "names", "names of columns")
    if len(given) != count:
        raise ValueError(f"names has {len(given)} entries, expected {count}: one for each column of X.")
    return [plain(name) for name in given]


def _refuse_other(found: Any, kind: type, function: str) -> None:
    if not isinstance(found, kind):
        raise TypeError(f"found is {shown(found)}, expected what convexrank.inference.{function} returns.")
