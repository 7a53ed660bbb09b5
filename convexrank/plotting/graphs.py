"""Ranks of a graph, their intervals, and the graph itself."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.consensus import ScoreIntervals
from convexrank.core.results import Solution
from convexrank.data import check_integer, check_nodes, check_real_array, check_vector, in_node_order, shown
from convexrank.data.nodes import numbers_of
from convexrank.graphs import Graph
from convexrank.plotting.layout import places
from convexrank.plotting.style import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["graph", "intervals", "ranks"]

Array = np.ndarray

_SURE, _TIED = "#0072b2", "#e69f00"
# Larger graphs are a tangle.
_MOST_NODES = 60
# Areas of nodes, and widths of links, in points.
_SMALLEST, _LARGEST, _THIN, _THICK = 40.0, 900.0, 0.7, 2.6


def ranks(solution: Solution, *, top: int = 15, ax: Any = None) -> Axes:
    """Draw the first nodes with their ranks, the certified error of each, and which of them may be in another order.

    A bar is blue where the certificate proves the order of the node and those beside it, the first that is not drawn
    included, and orange otherwise: within a group of orange bars that a bracket joins, the order is not known.

    Parameters
    ----------
    solution : Solution
        Of :class:`~convexrank.problems.PageRank` with one personalization, or of
        :class:`~convexrank.problems.LpqRank` with p < q.
    top : int
        So many nodes at most.
    ax : Axes, optional
        By default a new figure.

    Returns
    -------
    Axes
        The Axes.

    Raises
    ------
    TypeError, ValueError
        When ``solution`` is none of a problem with a certified order.

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
    limit = check_integer(top, "top", 1)
    x, bounds = solution.x, problem.score_intervals(solution)
    order = np.argsort(-x, kind="stable")
    apart = [
        len(problem.proved_top(x[order[place : place + 2]], solution.gap, 1)) == 1
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
    if not isinstance(solution, Solution):
        raise TypeError(f"solution is {shown(solution)}, expected a Solution: what problem.solve() returned.")
    problem = solution.instance
    if problem is None or "Ordered" not in problem.capabilities:
        kind = "a problem that it no longer knows" if problem is None else type(problem).__name__
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
    panel.set_yticks(rows, [str(name) for name in names.tolist()])
    panel.set_ylim(len(rows) - 0.4, -0.6)
    panel.grid(axis="x", alpha=0.25)
    panel.set_axisbelow(True)


def intervals(bounds: ScoreIntervals, *, scores: Any = None, top: int = 30, ax: Any = None) -> Axes:
    """Draw the interval of each node's score, the highest first.

    Parameters
    ----------
    bounds : ScoreIntervals
        Of :func:`convexrank.consensus.score_intervals`, or of the method ``score_intervals`` of a rank.
    scores : array-like, shape (m,), optional
        A score for each node of ``bounds``, drawn as a point; a dictionary or a Series goes by name. They also give the
        order, which otherwise the middles of the intervals give.
    top : int
        So many nodes at most.
    ax : Axes, optional
        By default a new figure.

    Returns
    -------
    Axes
        The Axes.

    Raises
    ------
    TypeError, ValueError
        When ``bounds`` has no intervals, or ``scores`` no finite number for each.

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


def graph(
    graph: Graph, ranks: Any = None, *, marked: Any = None, positions: Any = None, ax: Any = None
) -> Axes:
    """Draw a small graph: the area of a node is its rank, the width of a link its weight.

    Parameters
    ----------
    graph : Graph
        At most 60 nodes.
    ranks : array-like, shape (n,), optional
        A number of at least 0 for each node, or a Solution; a Series goes by name. All nodes are alike without.
    marked : sequence, optional
        Nodes in another colour, by name or number; or n booleans.
    positions : array-like, shape (n, 2), or mapping, optional
        Where the nodes are; what networkx's layouts return is fine. By default distances on paper are like distances
        in the graph.
    ax : Axes, optional
        By default a new figure.

    Returns
    -------
    Axes
        The Axes.

    Raises
    ------
    TypeError, ValueError
        When the graph is none or too large, or an argument does not fit it.

    Examples
    --------
    >>> import convexrank as cr
    >>> from convexrank import plotting
    >>> farm = cr.graphs.small_farm()
    >>> axes = plotting.graph(farm, cr.pagerank(farm), marked=["6", "7", "8", "9"])
    >>> [text.get_text() for text in axes.texts if text.get_text()]
    ['1', '2', '3', '4', '5', '6', '7', '8', '9']
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"graph is a {type(graph).__name__}, expected a convexrank.Graph.")
    if graph.n > _MOST_NODES:
        raise ValueError(
            f"graph has {graph.n} nodes, expected at most {_MOST_NODES} to be seen apart; draw the first ranks with "
            "plotting.ranks, or a part of the graph."
        )
    areas, chosen = _areas(graph, ranks), _marked(graph, marked)
    where = places(graph) if positions is None else _positions(graph, positions)
    panel = axes(ax, 1, (6.4, 5.2))[0]
    _links(panel, graph, where, np.sqrt(areas / np.pi))
    colours = [_TIED if one else _SURE for one in chosen]
    panel.scatter(*where.T, s=areas, c=colours, edgecolors="white", linewidths=1.0, zorder=3)
    names = graph.names or range(graph.n)
    for name, spot, radius in zip(names, where, np.sqrt(areas / np.pi), strict=True):
        _label(panel, str(name), spot, float(radius))
    panel.margins(0.12)
    panel.set_axis_off()
    return panel


def _areas(graph: Graph, ranks: Any) -> Array:
    if ranks is None:
        return np.full(graph.n, 0.25 * _LARGEST)
    ranks = ranks.x if isinstance(ranks, Solution) else ranks
    values = check_vector(
        in_node_order(ranks, graph.n, graph.names, "ranks", whole=True), graph.n, "ranks", each="node"
    )
    if values.min() < 0.0 or not values.any():
        raise ValueError("ranks has negative values, or none above 0; expected sizes of at least 0.")
    return np.maximum(_LARGEST * values / values.max(), _SMALLEST)


def _marked(graph: Graph, marked: Any) -> Array:
    flags = np.asarray(marked) if marked is not None else np.zeros(graph.n, dtype=bool)
    if flags.dtype.kind == "b" and flags.shape == (graph.n,):
        return flags
    chosen = np.zeros(graph.n, dtype=bool)
    chosen[check_nodes(marked, graph.n, "marked", graph.names)] = True
    return chosen


def _positions(graph: Graph, positions: Any) -> Array:
    if isinstance(positions, Mapping):
        names = tuple(graph.names or range(graph.n))
        absent = [name for name in names if name not in positions]
        if absent:
            raise ValueError(
                f"positions has no place for the node {absent[0]!r}, expected a point (x, y) for each."
            )
        positions = [positions[name] for name in names]
    where = check_real_array(positions, "positions")
    if where.shape != (graph.n, 2) or not np.isfinite(where).all():
        raise ValueError(
            f"positions has shape {where.shape}, expected ({graph.n}, 2), finite: a point for each node."
        )
    return where


def _links(panel: Any, graph: Graph, where: Array, radii: Array) -> None:
    source, target, weight = graph.edges()
    both = set(zip(source.tolist(), target.tolist(), strict=True))
    widths = _THIN + (_THICK - _THIN) * (weight / weight.max() if graph.weights is not None else 0.3)
    for a, b, width in zip(
        source.tolist(), target.tolist(), np.broadcast_to(widths, len(source)), strict=True
    ):
        if a == b:
            _loop(panel, where[a], float(radii[a]), float(width))
            continue
        bend = 0.16 if (b, a) in both else 0.0
        panel.annotate(
            "", where[b], where[a], zorder=2,
            arrowprops={
                "arrowstyle": "-|>", "color": "0.45", "linewidth": float(width), "alpha": 0.8, "mutation_scale": 9.0,
                "shrinkA": float(radii[a]), "shrinkB": float(radii[b]) + 1.0, "connectionstyle": f"arc3,rad={bend}",
            },
        )  # fmt: skip


def _loop(panel: Any, spot: Array, radius: float, width: float) -> None:
    """A ring behind the node, up to the left."""
    from matplotlib.transforms import offset_copy

    shift = 0.75 * radius + 2.0
    moved = offset_copy(panel.transData, panel.figure, x=-shift, y=shift, units="points")
    panel.plot(
        *spot, "o", transform=moved, markersize=1.2 * radius + 4.0, markerfacecolor="none", markeredgecolor="0.45",
        markeredgewidth=width, zorder=1,
    )  # fmt: skip


def _label(panel: Any, name: str, spot: Array, radius: float) -> None:
    from matplotlib.patheffects import withStroke

    panel.annotate(
        name, spot, (0.0, -radius - 2.0), textcoords="offset points", ha="center", va="top", fontsize=8.5, zorder=4,
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
    )  # fmt: skip
