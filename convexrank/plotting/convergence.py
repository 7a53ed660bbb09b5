"""Figures of solvers and weights: gaps, theoretical rates, paths; intervals and selection under resampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.core.paths import Path
from convexrank.core.results import Solution
from convexrank.data import check_choice, check_integer, check_kind, check_list
from convexrank.inference.weights import SelectionFrequencies, WeightIntervals
from convexrank.plotting.style import axes, check_mapping, label_text, list_down, names_of, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = np.ndarray


def trace(
    solutions: Solution | Mapping[Any, Solution], *, against: str = "iteration", ax: Any = None
) -> Array:
    """Draw objective and gap (logarithmic) against iteration or time.

    The gap is the solver's own estimate; its last entry is the gap of the certificate. If the certificate
    bounds a residual or a distance instead, the label of the axis names it. A problem without objective has only
    the second panel.

    Entries that are zero or not finite cannot be drawn on a logarithmic axis and are left out.

    Parameters
    ----------
    solutions : Solution, or mapping of label to Solution
        The solutions. A number as label is a value of p.
    against : {"iteration", "seconds"}
        The horizontal axis.
    ax : two Axes, optional
        Axes for the objective and for the gap; by default a new figure.

    Returns
    -------
    ndarray of two Axes
        Axes of the objective, and of the gap.

    Raises
    ------
    ValueError, TypeError
        When there is no solution, ``against`` is unknown, or ax does not hold two Axes.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> objective, gap = cr.plotting.trace(problem.solve())
    >>> gap.get_yscale()
    'log'
    """
    named = {solutions.solver: solutions} if isinstance(solutions, Solution) else solutions
    check_mapping(named, "solutions", "a Solution or {label: Solution}", Solution)
    label = check_choice(against, {"iteration": "iteration", "seconds": "seconds"}, "against")
    panels = axes(ax, 2, (9.6, 3.8))
    for key, style in styles(named).items():
        solution = named[key]
        objective, gap = solution.trace["objective"], solution.trace["gap"]
        x = np.arange(len(objective)) if against == "iteration" else solution.trace["seconds"]
        drawn = np.isfinite(gap) & (gap > 0)
        style = style | {"marker": ".", "markersize": 5 if len(objective) <= 60 else 0}
        if len(objective) == 1:  # the exact solver keeps one entry, which a line would not show
            style["markersize"] = 9
        if np.isfinite(objective).any():
            panels[0].plot(x, objective, label=label_text(key), **style)
        panels[1].plot(x[drawn], gap[drawn], label=label_text(key), **style)
    panels[1].set_yscale("log")
    if not panels[0].lines:
        panels[0].text(0.5, 0.5, "no objective", ha="center", va="center", transform=panels[0].transAxes)
    kinds = sorted({_measures(solution.certificate.kind) for solution in named.values()})
    for panel, title in zip(panels, ("objective", " or ".join(kinds)), strict=True):
        panel.set(xlabel=label, ylabel=title)
        panel.grid(alpha=0.25)
        panel.xaxis.get_major_locator().set_params(integer=against == "iteration")
    panels[1].legend(loc="best")
    return panels


def _measures(kind: str) -> str:
    """The quantity that certificates of a kind bound, in a word."""
    return "gap" if kind in ("global", "ball") else kind


_GUIDES: dict[str, Callable[[Array], Array]] = {
    "1/t": lambda t: 1.0 / t,
    "log t/t": lambda t: np.log(t) / t,
    "1/sqrt t": lambda t: 1.0 / np.sqrt(t),
}

# Guides pass through the middle of the gaps of this round, and begin there.
_ANCHOR = 10


def rates(
    solutions: Solution | Mapping[Any, Solution],
    *,
    guides: Sequence[str] = ("1/t", "log t/t"),
    ax: Any = None,
) -> Any:
    """Draw gaps against rounds, both logarithmic, with rates as lines: the rate 1/t has slope −1.

    Guides start at round 10, at the geometric mean of the gaps there; only their slopes are meaningful. The last entry
    of a trace is the gap of the certificate, which may be smaller than that of the method. This entry is left out, and
    so are entries that are not positive.

    Parameters
    ----------
    solutions : Solution, or mapping of label to Solution
        The solutions, with more than 10 rounds.
    guides : sequence of {"1/t", "log t/t", "1/sqrt t"}
        Rates to draw for comparison.
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The panel.

    Raises
    ------
    ValueError, TypeError
        When there is no solution, none has more than 10 rounds, or a guide is unknown.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    >>> solution = cr.problems.PageRankGame(graph, "kl").solve("no-regret-play")
    >>> panel = cr.plotting.rates(solution)
    >>> panel.get_xscale(), len(panel.lines)
    ('log', 3)
    """
    named = {solutions.solver: solutions} if isinstance(solutions, Solution) else solutions
    check_mapping(named, "solutions", "a Solution or {label: Solution}", Solution)
    shapes = {
        guide: check_choice(guide, _GUIDES, "guides") for guide in check_list(guides, "guides", "names")
    }
    traces = {key: np.asarray(solution.trace["gap"][:-1]) for key, solution in named.items()}
    anchors = [gap[_ANCHOR] for gap in traces.values() if len(gap) > _ANCHOR and 0 < gap[_ANCHOR] < np.inf]
    if not anchors:
        raise ValueError(
            f"no solution has more than {_ANCHOR} rounds; pass a smaller tol or a larger max_iter."
        )
    panel = axes(ax, 1, (6.4, 4.2))[0]
    for key, style in styles(named).items():
        gap = traces[key]
        t = np.arange(len(gap))
        drawn = (t > 0) & np.isfinite(gap) & (gap > 0)
        panel.plot(t[drawn], gap[drawn], label=label_text(key), **style)
    last = max(map(len, traces.values())) - 1
    t = np.geomspace(_ANCHOR, max(last, _ANCHOR + 1), 100)
    level = float(np.exp(np.mean(np.log(anchors))))
    for (guide, shape), dashes in zip(shapes.items(), ("--", ":", "-."), strict=False):
        panel.plot(
            t, level * shape(t) / shape(t[:1]), label=guide, color="0.6", linestyle=dashes, linewidth=1.2
        )
    panel.set(xscale="log", yscale="log", xlabel="round", ylabel="gap")
    panel.grid(alpha=0.25)
    panel.legend(loc="best")
    return panel


def weights_and_gaps(path: Path, *, ax: Any = None, most: int = 20) -> Array:
    """Draw a path; see :meth:`convexrank.Path.plot`."""
    count, most = 2 + (path.metric is not None), check_integer(most, "most", 1)
    panels = axes(ax, count, (6.0, 2.0 + 1.6 * count), 1)
    for panel in panels[:-1] if ax is None else ():
        panel.sharex(panels[-1])
        panel.tick_params(labelbottom=False)
    weights = path.coefficients.reshape(len(path), -1)
    for place in np.argsort(-np.abs(weights).max(axis=0))[:most]:
        panels[0].plot(path.values, weights[:, place], linewidth=1.2)
    panels[0].set_ylabel("rank" if path.parameter == "alpha" else "weight")
    panels[1].plot(path.values, np.maximum(path.gaps, np.finfo(float).tiny), "k.-", linewidth=1.0)
    panels[1].set(ylabel="certified gap", yscale="log")
    if path.metric is not None:
        panels[2].plot(path.values, path.metric, "k.-", linewidth=1.0)
        panels[2].set_ylabel("metric")
    if path.values.min() > 0 and path.parameter != "alpha":
        for panel in panels:
            panel.set_xscale("log")
    panels[-1].set_xlabel(path.parameter)
    if path.parameter in ("l1", "l2"):
        panels[0].invert_xaxis()
    return panels


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
    limit, given = check_integer(top, "top", 1), names_of(names, len(found.estimate), "column")
    order = np.argsort(-np.abs(found.estimate), kind="stable")[:limit]
    panel = axes(ax, 1, (5.2, 0.28 * len(order) + 1.2))[0]
    lower, upper = found.lower, found.upper
    for place, column in enumerate(order.tolist()):
        color = _UNSURE if lower[column] <= 0.0 <= upper[column] else _SURE
        panel.plot([lower[column], upper[column]], [place, place], color=color, linewidth=2.0)
        panel.plot([found.estimate[column]], [place], "o", color=color, markersize=4.0)
    list_down(panel, [given[column] for column in order.tolist()])
    panel.set(xlabel=f"weight, {100 * found.level:g} % over resamples", ylabel="column")
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
    limit, given = check_integer(top, "top", 1), names_of(names, found.frequencies.shape[1], "column")
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


def _refuse_other(found: Any, kind: type, function: str) -> None:
    check_kind(found, "found", kind, f"what convexrank.inference.{function} returns")
