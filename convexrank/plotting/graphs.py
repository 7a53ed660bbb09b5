"""Figures of the ranks of a graph, and of their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.consensus import ScoreIntervals
from convexrank.core.capabilities import Ordered
from convexrank.core.results import Solution, check_solution
from convexrank.data import check_integer, check_vector, in_node_order, shown
from convexrank.data.nodes import numbers_of
from convexrank.plotting.style import axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = np.ndarray

_SURE, _TIED = "#0072b2", "#e69f00"


def ranks(solution: Solution, *, top: int = 15, ax: Any = None) -> Axes:
    """Draw the first nodes with their ranks and certified errors, and mark nodes whose order is not proved.

    A bar is blue if the certificate proves the order of the node and its neighbours in the list, including the first
    node that is not drawn. Otherwise the bar is orange, and a bracket joins the nodes whose order is not known.

    Parameters
    ----------
    solution : Solution
        A solution of :class:`~convexrank.problems.PageRank` with one personalization, or of
        :class:`~convexrank.problems.LpqRank` with p < q.
    top : int
        Largest number of nodes.
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The Axes with the figure.

    Raises
    ------
    TypeError, ValueError
        When ``solution`` does not belong to a problem with a certified order.

    Examples
    --------
    >>> import convexrank as cr
    >>> from convexrank import plotting
    >>> web = cr.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0], names=["ann", "bob", "cat"])
    >>> axes = plotting.ranks(cr.problems.PageRank(web).solve(), top=2)
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['cat', 'ann']
    """
    problem = _ordered(solution)
    proved_top = problem.face(Ordered).proved_top
    limit = check_integer(top, "top", 1)
    x, bounds = solution.x, problem.score_intervals(solution)
    order = np.argsort(-x, kind="stable")
    apart = [
        len(proved_top(x[order[place : place + 2]], solution.gap, 1)) == 1
        for place in range(min(limit, len(x) - 1))
    ]
    order = order[:limit]
    # before the first there is nothing, and nothing behind the last of all
    edges = [True, *apart, True][: len(order) + 1]
    sure = [above and below for above, below in pairwise(edges)]
    panel = axes(ax, 1, (5.6, 0.28 * len(order) + 1.3))[0]
    rows = np.arange(len(order))
    ends = np.maximum([x[order] - bounds.lower[order], bounds.upper[order] - x[order]], 0.0)
    panel.barh(rows, x[order], color=[_SURE if one else _TIED for one in sure], height=0.72)
    panel.errorbar(x[order], rows, xerr=ends, fmt="none", ecolor="black", elinewidth=1.2, capsize=3)
    _brackets(panel, edges, float(bounds.upper[order].max()))
    _name_rows(panel, rows, bounds.nodes[order])
    panel.set_xlabel(f"rank (each within {float(ends.max()):.1g})")
    panel.set_xlim(0.0, None)
    return panel


def _ordered(solution: Any) -> Any:
    problem = check_solution(solution).instance
    if problem is None or "Ordered" not in problem.capabilities:
        kind = "an unknown problem" if problem is None else type(problem).__name__
        raise ValueError(
            f"solution is of {kind}, expected one of PageRank with one personalization or of LpqRank with p < q: their "
            "certificates bound each rank."
        )
    return problem


def _brackets(panel: Any, edges: list[bool], longest: float) -> None:
    """Join the rows whose order is not known, to the right of the bars; a group that goes on has an open end."""
    place, last = 1.04 * longest, len(edges) - 1
    starts = [row for row in range(last) if edges[row]]
    for first, stop in pairwise([*starts, last]):
        goes_on = stop == last and not edges[last]
        if stop - first > 1 or goes_on:
            end = stop - (0.4 if goes_on else 0.7)
            panel.plot([place, place], [first - 0.3, end], color=_TIED, linewidth=2.0)
    if not all(edges):
        panel.plot([], [], color=_TIED, linewidth=6.0, label="order not proved")
        panel.plot([], [], color=_SURE, linewidth=6.0, label="order proved")
        panel.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False)


def _name_rows(panel: Any, rows: Array, names: Array) -> None:
    panel.set_yticks(rows, [plain(name) for name in names.tolist()])
    panel.set_ylim(len(rows) - 0.4, -0.6)
    panel.grid(axis="x", alpha=0.25)
    panel.set_axisbelow(True)


def intervals(bounds: ScoreIntervals, *, scores: Any = None, top: int = 30, ax: Any = None) -> Axes:
    """Draw the interval of each node's score, the highest first.

    Parameters
    ----------
    bounds : ScoreIntervals
        The result of :func:`convexrank.consensus.score_intervals`, or of the method ``score_intervals`` of a rank.
    scores : array-like, shape (m,), optional
        A score for each node of ``bounds``, drawn as a point; a dictionary or a Series is matched by name. The nodes
        are sorted by these scores; without them, by the middles of the intervals.
    top : int
        Largest number of nodes.
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The Axes with the figure.

    Raises
    ------
    TypeError, ValueError
        When ``bounds`` are not intervals, or ``scores`` lack a finite number for a node.

    Examples
    --------
    >>> import convexrank as cr
    >>> from convexrank import plotting
    >>> web = cr.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0], names=["ann", "bob", "cat"])
    >>> bounds = cr.consensus.score_intervals(cr.consensus.Polytopes.around(web, 0.2))
    >>> axes = plotting.intervals(bounds, scores=web.named(cr.pagerank(web)))
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['cat', 'ann', 'bob']
    """
    if not isinstance(bounds, ScoreIntervals) or not len(bounds.nodes):
        raise TypeError(f"bounds is {shown(bounds)}, expected ScoreIntervals of at least one node.")
    limit = check_integer(top, "top", 1)
    points = None if scores is None else _by_node(scores, bounds.nodes)
    order = np.argsort(-(bounds.lower + bounds.upper if points is None else points), kind="stable")[:limit]
    panel = axes(ax, 1, (5.6, 0.28 * len(order) + 1.3))[0]
    rows = np.arange(len(order))
    panel.hlines(rows, bounds.lower[order], bounds.upper[order], color=_SURE, alpha=0.45, linewidth=7.0)
    if points is not None:
        panel.plot(points[order], rows, "o", color="black", markersize=4.5)
    _name_rows(panel, rows, bounds.nodes[order])
    panel.set_xlabel(f"score (bar: least to greatest{'' if points is None else '; point: the one given'})")
    return panel


def _by_node(values: Any, nodes: Array) -> Array:
    known, values = tuple(nodes.tolist()), values.x if isinstance(values, Solution) else values
    if isinstance(values, Mapping):
        ordered = np.full(len(known), np.nan)
        wanted = {key: value for key, value in values.items() if key in set(known)}
        ordered[numbers_of(known, wanted, "scores")] = list(wanted.values())
        if np.isnan(ordered).any():
            raise ValueError(
                f"scores has no entry, expected a number, for the node {known[int(np.isnan(ordered).argmax())]!r}."
            )
        return ordered
    ordered = in_node_order(values, len(known), known, "scores", whole=True)
    return check_vector(ordered, len(known), "scores", each="node")
