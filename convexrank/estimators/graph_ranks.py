"""Certified ranks of a graph in one line; the problems behind them have more options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

import numpy as np
from scipy import sparse

from convexrank.backend.interruption import as_a_whole
from convexrank.core.results import Certificate
from convexrank.data import check_flag, check_positive, check_same_index, check_vector, in_node_order, shown
from convexrank.graphs import Graph
from convexrank.graphs.transition import by_topic
from convexrank.problems import LpqRank, PageRank

__all__ = ["antitrust_rank", "combined_rank", "lpq_rank", "pagerank", "trust_rank"]

Array = np.ndarray


def _graph(graph: Any) -> Graph:
    if isinstance(graph, Graph):
        return graph
    if hasattr(graph, "is_directed") and hasattr(graph, "edges"):
        return Graph.from_networkx(graph)
    if sparse.issparse(graph):
        if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
            raise ValueError(f"graph has shape {graph.shape}, expected a square matrix (n, n).")
        return Graph.from_scipy(graph)
    raise TypeError(
        f"graph is a {type(graph).__name__}, expected a Graph, a networkx graph or a scipy sparse matrix; for a file "
        "see Graph.read, for edges Graph.from_edges, for a data frame Graph.from_pandas, and wrap a dense matrix in "
        "scipy.sparse.csr_array."
    )


def _given(graph: Graph, ranks: Array, named: bool) -> Any:
    """Ranks as they are asked for."""
    if not check_flag(named, "named"):
        return ranks
    if ranks.ndim > 1:
        raise ValueError(f"named is True for {ranks.shape[1]} ranks at once, expected one personalization.")
    return graph.named(ranks)


@overload
def pagerank(
    graph: Any, alpha: float = ..., personalization: Any = ..., *, dangling: Any = ..., tol: float = ...,
    named: Literal[False] = ...,
) -> Array: ...  # fmt: skip
@overload
def pagerank(
    graph: Any, alpha: float = ..., personalization: Any = ..., *, dangling: Any = ..., tol: float = ...,
    named: Literal[True],
) -> dict[Any, float]: ...  # fmt: skip
@as_a_whole
def pagerank(
    graph: Any,
    alpha: float = 0.85,
    personalization: Any = None,
    *,
    dangling: Any = "teleport",
    tol: float = 1e-10,
    named: bool = False,
) -> Any:
    """Return PageRank, with a true L1 error of at most ``tol``.

    Parameters
    ----------
    graph : Graph, networkx graph, or scipy sparse matrix
        The graph; of a networkx graph the order of its nodes is kept.
    alpha : float
        Probability of following a link.
    personalization : array-like, optional
        The distribution of restarts: ids, names, or n weights; a pandas Series of weights with its own index is
        matched by that index. An (n, k) array or DataFrame gives k ranks at once, and so does a dictionary from topics
        to nodes, ``{"sport": ["a", "b"], "news": ["c"]}``, or to dictionaries of weights.
    dangling : {"teleport", "uniform", "drop"} or array-like
        How dangling nodes distribute rank; a distribution, or a dictionary of weights, is given as one personalization.
    tol : float
        The largest L1 error.
    named : bool
        Whether to return a dictionary by the names of the nodes, as networkx does; not for (n, k) arrays.

    Returns
    -------
    ndarray, shape (n,) or (n, k), or dict
        The ranks, which sum to 1; ``graph.named(ranks)`` and ``graph.series(ranks)`` return them by name. Of topics, a
        dictionary with the ranks of each.

    Examples
    --------
    >>> import convexrank as cr
    >>> cr.pagerank(cr.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0])).round(4).tolist()
    [0.3878, 0.2148, 0.3974]
    """
    made = _graph(graph)
    topics = by_topic(made.n, made.names, personalization, "personalization")
    if topics is None:
        return _given(made, PageRank(made, alpha, personalization, dangling).solve(tol=tol).x, named)
    ranks = PageRank(made, alpha, topics[1], dangling).solve(tol=tol).x
    return {topic: _given(made, column, named) for topic, column in zip(topics[0], ranks.T, strict=True)}


def check_ranks(
    ranks: Any, graph: Any, alpha: float = 0.85, personalization: Any = None, *, dangling: Any = "teleport"
) -> Certificate:
    """Bound the error of a PageRank vector that any package has computed, in one product with the links.

    Parameters
    ----------
    ranks : array-like, shape (n,), dict, Series or data frame
        The vector, as networkx, igraph, rustworkx or cuGraph return it; a dictionary or Series by the names of nodes,
        a frame with a column ``vertex`` and one of ranks.
    graph : Graph, networkx graph, or scipy sparse matrix
        The graph.
    alpha, personalization, dangling : float, array-like, str or array-like
        As for :func:`pagerank`; packages differ in what they do with nodes without links.

    Returns
    -------
    Certificate
        ``gap`` is a bound on the L1 distance to PageRank. The entries are not divided by their sum: divide first where
        a package does not.

    Raises
    ------
    ValueError, TypeError
        When there is not one finite number for each node, or the arguments of :func:`pagerank` are wrong.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0])
    >>> print(cr.check_ranks([0.4, 0.2, 0.4], graph))
    the distance to the solution is at most 0.267 (L1 norm)
    """
    made = _graph(graph)
    if hasattr(ranks, "columns"):
        ranks = _by_vertex(ranks)
    if isinstance(ranks, Mapping):
        names = range(made.n) if made.names is None else made.names
        lost = [name for name in names if name not in ranks]
        if lost or len(ranks) > made.n:
            raise ValueError(
                f"ranks has {len(ranks)} entries, expected one for each of the {made.n} nodes"
                + (f"; there is none for {shown(lost[0])}." if lost else ".")
            )
        ranks = [ranks[name] for name in names]
    vector = in_node_order(ranks, made.n, made.names, "ranks", whole=True)
    return PageRank(made, alpha, personalization, dangling).certificate(check_vector(vector, made.n, "ranks"))


def _by_vertex(frame: Any) -> dict[Any, Any]:
    """Ranks by vertex of a data frame as cuGraph returns it: of pandas, or of what can become one."""
    held = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    names = sorted(held.columns, key=lambda name: name != "vertex")
    if len(names) != 2 or names[0] != "vertex":
        raise ValueError(
            f"ranks is a data frame with the columns {shown(names)}, expected 'vertex' and one of ranks; pass others "
            "as a Series by node."
        )
    vertices, ranks = (held[name].tolist() for name in names)
    found = dict(zip(vertices, ranks, strict=True))
    if len(found) < len(vertices):
        twice = next(vertex for vertex in found if vertices.count(vertex) > 1)
        raise ValueError(f"ranks has the vertex {shown(twice)} twice, expected one row for each node.")
    return found


@overload
def lpq_rank(
    graph: Any, p: float = ..., q: float = ..., alpha: float = ..., *, weak_links: str = ..., tol: float = ...,
    named: Literal[False] = ...,
) -> Array: ...  # fmt: skip
@overload
def lpq_rank(
    graph: Any, p: float = ..., q: float = ..., alpha: float = ..., *, weak_links: str = ..., tol: float = ...,
    named: Literal[True],
) -> dict[Any, float]: ...  # fmt: skip
@as_a_whole
def lpq_rank(
    graph: Any,
    p: float = 4.0,
    q: float = 4.8,
    alpha: float = 0.85,
    *,
    weak_links: str = "inside",
    tol: float = 1e-8,
    named: bool = False,
) -> Any:
    """Return the L_{p,q} rank; every ratio of two ranks is right up to a factor e^tol.

    Parameters
    ----------
    graph : Graph, networkx graph, or scipy sparse matrix
        The graph.
    p, q : float
        The norms, at least 1, with p < q.
    alpha : float
        Weight of the links.
    weak_links : {"inside", "outside", "entry"}
        The place of the weak links in the equation; see :class:`~convexrank.problems.LpqRank`.
    tol : float
        The largest error in Hilbert's metric.
    named : bool
        Whether to return a dictionary by the names of the nodes.

    Returns
    -------
    ndarray, shape (n,), or dict
        The ranks, which sum to 1.

    Examples
    --------
    >>> import convexrank as cr
    >>> cr.lpq_rank(cr.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0]), p=2, q=4).round(4).tolist()
    [0.3692, 0.2733, 0.3575]
    """
    made = _graph(graph)
    return _given(made, LpqRank(made, p, q, alpha, weak_links).solve(tol=tol).x, named)


@overload
def trust_rank(
    graph: Any, seeds: Any, alpha: float = ..., *, tol: float = ...,
    named: Literal[False] = ...,
) -> Array: ...  # fmt: skip
@overload
def trust_rank(
    graph: Any, seeds: Any, alpha: float = ..., *, tol: float = ...,
    named: Literal[True],
) -> dict[Any, float]: ...  # fmt: skip
@as_a_whole
def trust_rank(
    graph: Any, seeds: Any, alpha: float = 0.85, *, tol: float = 1e-10, named: bool = False
) -> Any:
    """Return trust that flows from good seeds along the links; nodes that they do not reach have no trust.

    Parameters
    ----------
    graph : Graph, networkx graph, or scipy sparse matrix
        The graph.
    seeds : array-like
        Good nodes: ids, names, or n weights.
    alpha : float
        Factor by which trust decreases with each link.
    tol : float
        The largest L1 error.
    named : bool
        Whether to return a dictionary by the names of the nodes.

    Returns
    -------
    ndarray, shape (n,), or dict
        Trust, which sums to 1 less the loss at dangling nodes.

    Examples
    --------
    >>> import convexrank as cr
    >>> cr.trust_rank(cr.Graph.from_edges([0, 1, 3], [1, 2, 2]), [0], alpha=0.5).round(4).tolist()
    [0.5, 0.25, 0.125, 0.0]
    """
    made = _graph(graph)
    return _given(made, PageRank(made, alpha, made.seeds(seeds), "drop").solve(tol=tol).x, named)


@overload
def antitrust_rank(
    graph: Any, seeds: Any, alpha: float = ..., *, tol: float = ...,
    named: Literal[False] = ...,
) -> Array: ...  # fmt: skip
@overload
def antitrust_rank(
    graph: Any, seeds: Any, alpha: float = ..., *, tol: float = ...,
    named: Literal[True],
) -> dict[Any, float]: ...  # fmt: skip
@as_a_whole
def antitrust_rank(
    graph: Any, seeds: Any, alpha: float = 0.85, *, tol: float = 1e-10, named: bool = False
) -> Any:
    """Return distrust that flows from bad seeds against the links, to the pages that lead to them.

    Parameters
    ----------
    graph, seeds, alpha, tol, named : Graph, array-like, float, float, bool
        As for :func:`trust_rank`; the seeds are bad nodes.

    Returns
    -------
    ndarray, shape (n,), or dict
        Distrust.

    Examples
    --------
    >>> import convexrank as cr
    >>> cr.antitrust_rank(cr.Graph.from_edges([0, 1, 3], [1, 2, 2]), [2], alpha=0.5).round(4).tolist()
    [0.0625, 0.125, 0.5, 0.125]
    """
    made = _graph(graph).reversed()
    return _given(made, trust_rank(made, seeds, alpha, tol=tol), named)


def combined_rank(rank: Any, trust: Any, distrust: Any, kappa: float | None = None) -> Array:
    r"""Return a rank scaled by its share of trust, :math:`r_i (r_{+i} + \kappa/2)/(r_{+i} + r_{-i} + \kappa)`.

    The paper has κ = 0, which gives 0/0 for nodes with neither trust nor distrust.

    Parameters
    ----------
    rank, trust, distrust : array-like, shape (n,)
        Non-negative numbers for each node. Two pandas Series with different indexes are refused.
    kappa : float, optional
        The constant κ, the assumed sum of trust and distrust of an unknown page; 1/n by default.

    Returns
    -------
    ndarray, shape (n,)
        The combined rank, summing to 1.

    References
    ----------
    Dissertation on learning to rank, section 6.3.

    Examples
    --------
    >>> import convexrank as cr
    >>> cr.combined_rank([0.5, 0.5], [1.0, 0.0], [0.0, 0.0], kappa=1.0).round(4).tolist()
    [0.6, 0.4]
    """
    check_same_index(rank=rank, trust=trust, distrust=distrust)
    r = check_vector(rank, None, "rank")
    parts = [r, check_vector(trust, len(r), "trust"), check_vector(distrust, len(r), "distrust")]
    for values, name in zip(parts, ("rank", "trust", "distrust"), strict=True):
        if values.min() < 0.0:
            raise ValueError(
                f"{name} is {values.min():g} at {int(np.argmin(values))}, expected values of at least 0."
            )
    half = 0.5 * (1.0 / len(r) if kappa is None else check_positive(kappa, "kappa"))
    scaled = r * (parts[1] + half) / (parts[1] + parts[2] + 2.0 * half)
    if not scaled.any():
        raise ValueError("rank is zero everywhere, expected a score above 0.")
    return scaled / scaled.sum()
