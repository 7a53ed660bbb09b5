"""Figures of the ranks of a graph and their intervals, of a small graph, and of the rows that determine a ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.csgraph import shortest_path

from convexrank.consensus import ScoreIntervals
from convexrank.core.capabilities import Ordered
from convexrank.core.results import Solution, check_solution
from convexrank.data import (
    check_integer,
    check_nodes,
    check_real_array,
    check_vector,
    in_node_order,
    read_array,
    shown,
)
from convexrank.data.nodes import numbers_of
from convexrank.graphs import Graph
from convexrank.plotting.style import axes, list_down, names_of, plain
from convexrank.problems import RankingDual

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
    panel.set(xlabel=f"rank (each within {float(ends.max()):.1g})", xlim=(0.0, None))
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
        ordered, names = np.full(len(known), np.nan), frozenset(known)
        wanted = {key: value for key, value in values.items() if key in names}
        ordered[numbers_of(known, wanted, "scores")] = check_real_array(list(wanted.values()), "scores")
        if np.isnan(ordered).any():
            raise ValueError(
                f"scores has no entry, expected a number, for the node {known[int(np.isnan(ordered).argmax())]!r}."
            )
        values = ordered
    ordered = in_node_order(values, len(known), known, "scores", whole=True)
    return check_vector(ordered, len(known), "scores", each="node")


_NODE, _MARKED = "#0072b2", "#e69f00"

# Larger graphs are a tangle.
_MOST_NODES = 60

# Areas of nodes, and widths of links, in points.
_SMALLEST, _LARGEST, _THIN, _THICK = 40.0, 900.0, 0.7, 2.6

# Rounds of the method; the stress of sixty nodes hardly falls after half of them.
_ROUNDS = 300

# Nodes of different parts are this much farther apart than any two of one part.
_APART = 1.5

# How far nodes at one place are moved apart, in links.
_JITTER = 1e-3


def graph(
    graph: Graph, ranks: Any = None, *, marked: Any = None, positions: Any = None, ax: Any = None
) -> Axes:
    """Draw a small graph: the area of a node is its rank, the width of a link its weight.

    Parameters
    ----------
    graph : Graph
        The graph, with at most 60 nodes.
    ranks : array-like, shape (n,), optional
        A number of at least 0 for each node, or a Solution; a Series is matched by name. By default all nodes have the
        same area.
    marked : sequence, optional
        Nodes that are drawn in another colour, by name or number; or n booleans.
    positions : array-like, shape (n, 2), or mapping, optional
        The positions of the nodes, also as returned by networkx's layouts. By default distances in the figure
        approximate distances in the graph.
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The Axes with the figure.

    Raises
    ------
    TypeError, ValueError
        When ``graph`` is not a Graph or has too many nodes, or an argument does not fit it.

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
    colours = [_MARKED if one else _NODE for one in chosen]
    panel.scatter(*where.T, s=areas, c=colours, edgecolors="white", linewidths=1.0, zorder=3)
    names = graph.names or range(graph.n)
    for name, spot, radius in zip(names, where, np.sqrt(areas / np.pi), strict=True):
        _label(panel, plain(name), spot, float(radius))
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
    flags = np.zeros(graph.n, dtype=bool) if marked is None else read_array(marked, "marked")
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


def places(graph: Graph) -> Array:
    r"""Return a point of the unit square for each node, shape (n, 2), by stress majorisation.

    It lowers :math:`\sum_{i<j} (\|x_i - x_j\| - d_{ij})^2 / d_{ij}^2`, with d the number of links between two nodes in
    either direction, by the step of de Leeuw, which never raises it. The start is classical scaling, the best plane for
    all distances, with nodes at one place moved apart by a fixed seed.

    References
    ----------
    E. R. Gansner, Y. Koren, S. North, Graph drawing by stress majorization, Graph Drawing (2004).
    """
    n = graph.n
    if n == 1:
        return np.full((1, 2), 0.5)
    distances = shortest_path(graph.to_scipy(), directed=False, unweighted=True)
    finite = np.isfinite(distances)
    distances[~finite] = distances[finite].max() + _APART
    weights = np.divide(1.0, distances**2, out=np.zeros_like(distances), where=distances > 0.0)
    inverse = np.linalg.pinv(_laplacian(weights))
    x = _projected(distances) + _JITTER * np.random.default_rng(0).normal(size=(n, 2))
    for _ in range(_ROUNDS):
        gaps = np.linalg.norm(x[:, None] - x[None], axis=2)
        pulls = np.divide(weights * distances, gaps, out=np.zeros_like(gaps), where=gaps > 0.0)
        x = inverse @ (_laplacian(pulls) @ x)
    x = x - x.mean(axis=0)
    x = x @ np.linalg.svd(x)[2].T  # the longer side goes across
    return 0.5 + 0.5 * x / max(float(np.abs(x).max()), 1e-12)


def _projected(distances: Array) -> Array:
    """Points in the plane whose products are nearest to those that the distances would have."""
    centred = distances**2 - (distances**2).mean(axis=0)
    values, vectors = np.linalg.eigh(-0.5 * (centred - centred.mean(axis=1, keepdims=True)))
    return vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))


def _laplacian(weights: Array) -> Array:
    return np.diag(weights.sum(axis=1)) - weights


_UP, _DOWN = "#0072b2", "#d55e00"


def influence(
    solution: Solution, *, top: int = 15, names: Sequence[Any] | None = None, ax: Any = None
) -> Axes:
    """Draw the rows with the largest dual weights: bars to the right pull a row up, bars to the left push it down.

    A weight is the force of the row on the scores (:attr:`convexrank.Solution.weights`). Rows of weight 0 are not
    drawn: without them the solution is the same.

    Parameters
    ----------
    solution : Solution
        A solution of a problem with a dual, or of the dual itself.
    top : int
        Largest number of rows.
    names : sequence, optional
        A name for each row of X; by default the number of the row.
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The Axes with the figure.

    Raises
    ------
    TypeError, ValueError
        When ``solution`` is not a Solution, its problem has no dual, or ``names`` has another length.

    Examples
    --------
    >>> import convexrank as cr
    >>> from convexrank import plotting
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> axes = plotting.influence(problem.solve(), top=3)
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['2', '0', '1']
    """
    check_solution(solution)
    limit = check_integer(top, "top", 1)
    instance = solution.instance
    weights = instance.weights(solution) if isinstance(instance, RankingDual) else solution.weights
    given = names_of(names, len(weights), "row")
    order = np.argsort(-np.abs(weights), kind="stable")[:limit]
    order = order[weights[order] != 0.0]
    panel = axes(ax, 1, (5.2, 0.28 * len(order) + 1.2))[0]
    places = np.arange(len(order))
    panel.barh(places, weights[order], color=np.where(weights[order] > 0.0, _UP, _DOWN))
    list_down(panel, [given[row] for row in order.tolist()])
    panel.set(xlabel="dual weight (right: pulled up)", ylabel="row")
    return panel
