"""PageRank for networkx: ``networkx.pagerank(graph, backend="convexrank")``, found by networkx when both are installed.

Nothing is imported here that networkx itself does not need, since it loads this module with itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from convexrank.backend.interruption import as_a_whole

if TYPE_CHECKING:
    from convexrank.graphs import Graph

__all__ = [
    "HeldGraph",
    "can_run",
    "convert_from_nx",
    "convert_to_nx",
    "information",
    "pagerank",
    "should_run",
]


def information() -> dict[str, Any]:
    """Return what networkx says of this backend in its documentation."""
    return {
        "backend_name": "convexrank",
        "project": "convexrank",
        "package": "convexrank",
        "short_summary": "PageRank whose `tol` bounds the true error.",
        "functions": {
            "pagerank": {
                "additional_docs": "`tol` bounds the true L1 error of the ranks; an iteration sweeps over the nodes.",
                "extra_parameters": {},
            }
        },
    }


@dataclass(frozen=True, eq=False)
class HeldGraph:
    """A networkx graph in flat arrays.

    Parameters
    ----------
    nodes : tuple
        The nodes in networkx's order.
    graph : Graph or None
        The edges; None without nodes.
    """

    nodes: tuple[Any, ...]
    graph: Graph | None

    __networkx_backend__ = "convexrank"

    def weights(self, given: Mapping[Any, float] | None) -> Any:
        """Return weights by node as an array, nodes that are not named with weight 0, as networkx reads them."""
        import numpy as np

        if given is None:
            return None
        found = np.array([given.get(node, 0.0) for node in self.nodes], dtype=np.float64)
        if not found.any():
            raise ZeroDivisionError(
                "weights of nodes are 0 everywhere; give at least one node a positive weight."
            )
        return found


def convert_from_nx(graph: Any, *, edge_attrs: Mapping[str, Any] | None = None, **_: Any) -> HeldGraph:
    """Return a networkx graph in flat arrays.

    Parameters
    ----------
    graph : networkx.Graph or one of its kinds
        The graph; an undirected edge goes both ways, and weights of parallel edges add up.
    edge_attrs : dict, optional
        The attribute that is the weight, with its default 1; all weights are 1 without it.
    **_
        What else networkx would preserve; ranks need none of it.

    Returns
    -------
    HeldGraph
        The edges.
    """
    from convexrank.graphs import Graph

    weight = next(iter(edge_attrs)) if edge_attrs else None
    nodes = tuple(graph)
    return HeldGraph(nodes, Graph.from_networkx(graph, weight=weight) if nodes else None)


def convert_to_nx(value: Any, **_: Any) -> Any:
    """Return a result, which is a dictionary as networkx's own."""
    return value


def can_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a function of networkx is here."""
    return name == "pagerank"


def should_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether it pays to convert the graph."""
    return True


@as_a_whole
def pagerank(
    G: HeldGraph,
    alpha: float = 0.85,
    personalization: Mapping[Any, float] | None = None,
    max_iter: int = 100,
    tol: float = 1e-6,
    nstart: Mapping[Any, float] | None = None,
    weight: str | None = "weight",
    dangling: Mapping[Any, float] | None = None,
) -> dict[Any, float]:
    """Return PageRank by node; arguments are networkx's, but ``tol`` bounds the true error.

    Parameters
    ----------
    G : HeldGraph
        The graph.
    alpha : float
        Probability of following a link.
    personalization : dict, optional
        Weights of restarts by node.
    max_iter : int
        Largest number of sweeps.
    tol : float
        The largest L1 error of the ranks; networkx's own stops at a change of ``len(G) * tol``.
    nstart : dict, optional
        Ranks to start from.
    weight : str or None
        The attribute that is the weight, which the conversion has read.
    dangling : dict, optional
        Where nodes without links send their rank; as the personalization says by default.

    Returns
    -------
    dict
        The ranks, which sum to 1.

    Raises
    ------
    networkx.PowerIterationFailedConvergence
        When ``max_iter`` sweeps do not reach ``tol``.
    ZeroDivisionError
        When weights of nodes are 0 everywhere, as in networkx.

    Examples
    --------
    >>> import networkx as nx
    >>> from convexrank import networkx_backend
    >>> held = networkx_backend.convert_from_nx(nx.path_graph(3), edge_attrs={"weight": 1})
    >>> ranks = networkx_backend.pagerank(held, tol=1e-10)
    >>> [round(rank, 4) for rank in ranks.values()]
    [0.2568, 0.4865, 0.2568]
    """
    import warnings

    from networkx import PowerIterationFailedConvergence

    from convexrank.core.results import ConvergenceWarning
    from convexrank.problems import PageRank

    if G.graph is None:
        return {}
    own = G.weights(dangling)
    problem = PageRank(G.graph, alpha, G.weights(personalization), "teleport" if own is None else own)
    start = G.weights(nstart)
    if max_iter < 1:
        raise PowerIterationFailedConvergence(max_iter)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # what follows is an error
        solution = problem.solve(
            x0=None if start is None else start / start.sum(), tol=tol, max_iter=max_iter
        )
    if not solution.converged:
        raise PowerIterationFailedConvergence(max_iter)
    return dict(zip(G.nodes, solution.x.tolist(), strict=True))
