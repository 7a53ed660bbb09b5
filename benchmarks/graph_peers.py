"""PageRank by other packages: those that are installed, each with its own graph ready and every core to use."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["PEERS", "installed", "peers"]

Run = Callable[[float], Any]


def peers(graph: Any, alpha: float, slow: bool) -> dict[str, Run]:
    """Return functions that compute PageRank until an iteration changes it by less than their argument (L1 norm)."""
    return {name: PEERS[name](graph, alpha) for name in installed(slow)}


def installed(slow: bool) -> list[str]:
    """Return the names of the packages that are here; networkx among them only where ``slow`` ones are asked for."""
    needs = {
        "igraph (PRPACK)": ("igraph",),
        "GraphBLAS, power": ("graphblas", "suitesparse_graphblas"),
        "NetworKit": ("networkit",),
        "networkx": ("networkx",),
    }
    return [
        name for name in PEERS if (slow or name != "networkx") and all(map(find_spec, needs.get(name, ())))
    ]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _scipy(graph: Any, alpha: float) -> Run:
    n, dangling = graph.n, graph.dangling
    weights = 1.0 if graph.weights is None else graph.weights
    shares = weights / graph.out_weight[graph.sources]
    matrix = sparse.csr_array((shares, np.asarray(graph.sources), np.asarray(graph.offsets)), shape=(n, n))

    def run(change: float) -> Any:
        x = np.full(n, 1.0 / n)
        while True:
            new = alpha * (matrix @ x + x[dangling].sum() / n) + (1.0 - alpha) / n
            if np.abs(new - x).sum() < change:
                return new
            x = new

    return run


def _igraph(graph: Any, alpha: float) -> Run:
    """Return its default method, which takes no tolerance: 1e-10, inside."""
    import igraph

    source, target, _ = graph.edges()
    other = igraph.Graph(n=graph.n, edges=np.stack([source, target], axis=1), directed=True)
    return lambda _: np.array(other.pagerank(damping=alpha))


def _graphblas(graph: Any, alpha: float) -> Run:
    import graphblas as gb

    n = graph.n
    gb.ss.config["nthreads"] = _cores()
    matrix = gb.Matrix.ss.import_csr(
        nrows=n, ncols=n, indptr=graph.offsets.astype(np.uint64), col_indices=graph.sources.astype(np.uint64),
        values=np.array([1.0]), is_iso=True, sorted_cols=True,
    )  # fmt: skip
    out = graph.out_weight
    share = gb.Vector.from_dense(np.divide(alpha, out, out=np.zeros(n), where=out > 0.0))
    lost = gb.Vector.from_coo(graph.dangling, alpha / n, size=n, dtype=float)

    def run(change: float) -> Any:
        x = gb.Vector.from_dense(np.full(n, 1.0 / n))
        while True:
            outflow = x.ewise_mult(lost, gb.binary.times).reduce(gb.monoid.plus).new().value or 0.0
            sent = x.ewise_mult(share, gb.binary.times).new()
            new = gb.Vector.from_scalar((1.0 - alpha) / n + outflow, n)
            new(accum=gb.binary.plus) << gb.semiring.plus_second(matrix @ sent)
            step = new.ewise_mult(x, gb.binary.minus).new()
            x = new
            if step.apply(gb.unary.abs).reduce(gb.monoid.plus).new().value < change:
                return x.to_dense()

    return run


def _networkit(graph: Any, alpha: float) -> Run:
    import networkit

    networkit.setNumberOfThreads(_cores())
    source, target, _ = graph.edges()
    ends = (source.astype(np.uint64), target.astype(np.uint64))
    other = networkit.graph.GraphFromCoo(ends, n=graph.n, weighted=False, directed=True)
    sinks = networkit.centrality.SinkHandling.DistributeSinks

    def run(change: float) -> Any:
        method = networkit.centrality.PageRank(other, alpha, change, distributeSinks=sinks)
        method.norm = networkit.centrality.Norm.L1_NORM
        method.run()
        ranks = np.array(method.scores())
        return ranks / ranks.sum()

    return run


def _networkx(graph: Any, alpha: float) -> Run:
    import networkx

    source, target, _ = graph.edges()
    other = networkx.DiGraph()
    other.add_nodes_from(range(graph.n))
    other.add_edges_from(zip(source.tolist(), target.tolist(), strict=True))
    # its tolerance is multiplied by the number of nodes
    solve = partial(networkx.pagerank, other, alpha, max_iter=1000)
    return lambda change: np.array(list(solve(tol=change / graph.n).values()))


PEERS: dict[str, Callable[[Any, float], Run]] = {
    "scipy, power": _scipy,
    "igraph (PRPACK)": _igraph,
    "GraphBLAS, power": _graphblas,
    "NetworKit": _networkit,
    "networkx": _networkx,
}
