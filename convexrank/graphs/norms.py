r"""The map of the L_{p,q} rank, :math:`r_i \mapsto \|(a_{ij} r_j)_j\|_p^{\theta}`, weak links in one of three places.

All powers are taken relative to the largest, once a node and not once an edge; sums that fall out of the range of
floating point are done again in logarithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from convexrank.graphs.build import cuts, each_range
from convexrank.graphs.graph import Graph

__all__ = ["NormMap"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class NormMap:
    """The map, and what it needs of the graph.

    Parameters
    ----------
    graph : Graph
        The graph.
    p : float
        The norm, at least 1; may be infinite.
    theta : float
        The degree of homogeneity.
    alpha : float
        Weight of the links.
    weak_links : str or None
        "inside", "entry", "outside", or None for none at all, where dangling nodes send nothing.
    degrees : ndarray, shape (n,)
        What a node's weight is divided by; 0 for a dangling one.
    """

    graph: Graph
    p: float
    theta: float
    alpha: float
    weak_links: str | None
    degrees: Array

    @property
    def _weak(self) -> float:
        """The entry b of a weak link."""
        return (1.0 - self.alpha) / self.graph.n

    def _log_entries(self, weight: Array | float, degree: Array) -> Array:
        """Logarithm of the entry of a link, less (in the p-th power) the weak link that lies beneath it."""
        factor = 1.0 if self.weak_links in ("outside", None) else self.alpha
        with np.errstate(divide="ignore", invalid="ignore"):
            link = factor * weight / degree
            if self.weak_links != "inside":
                return np.log(link)
            if math.isinf(self.p):
                return np.log(link + self._weak)
            # ((a + b)^p − b^p)^(1/p) = (a + b)·(1 − (b/(a + b))^p)^(1/p)
            beneath = -self.p * np.log1p(link / self._weak)
            return np.log(link + self._weak) + np.log(-np.expm1(beneath)) / self.p

    @cached_property
    def _node_entries(self) -> Array:
        """Logarithm of a node's largest entry; −infinity for a dangling node."""
        heaviest = np.ones(self.graph.n)
        if self.graph.weights is not None:
            heaviest = np.zeros(self.graph.n)
            np.maximum.at(heaviest, self.graph.sources, self.graph.weights)
        entries = self._log_entries(heaviest, self.degrees)
        entries[self.graph.dangling] = -np.inf
        return entries

    @cached_property
    def _edge_factors(self) -> Array:
        """The p-th power (for p = ∞ the first) of each entry relative to the largest of its source."""
        if self.graph.weights is None:
            return np.empty(0)
        logs = self._edge_logs(slice(None)) - self._node_entries[self.graph.sources]
        return np.exp(logs if math.isinf(self.p) else self.p * logs)

    def _edge_logs(self, edges: slice | Array) -> Array:
        sources = self.graph.sources[edges]
        if self.graph.weights is None:
            return self._node_entries[sources]
        return self._log_entries(self.graph.weights[edges], self.degrees[sources])

    def _common_logs(self, r: Array) -> list[Array]:
        """Logarithms of the entries that every node has, whatever its links."""
        dangling = self.graph.dangling
        n, weak = self.graph.n, self._weak
        if self.weak_links is None:
            return []
        with np.errstate(divide="ignore"):
            if self.weak_links == "inside":
                entry = np.full(n, weak)
                entry[dangling] = self.alpha / n + weak
                return [np.log(entry) + np.log(r)]
            if self.weak_links == "entry":
                return [np.log(self.alpha * r[dangling] / n), np.array([np.log(weak * r.sum())])]
            return [np.log(r[dangling] / n)]

    def __call__(self, r: Array) -> Array:
        """Return the image of r, not normalised. O(n + m)."""
        return self._finite(r) if math.isfinite(self.p) else self._infinite(r)

    def _constant(self, r: Array) -> float:
        return self._weak * float(r.sum()) ** self.theta if self.weak_links == "outside" else 0.0

    @property
    def _factor(self) -> float:
        return self.alpha if self.weak_links == "outside" else 1.0

    def _finite(self, r: Array) -> Array:
        from convexrank.graphs import norm_kernels as kernels

        n, p, graph = self.graph.n, self.p, self.graph
        bounds, sent, out = cuts(graph.offsets), np.empty(n), np.empty(n)
        log_common = log_sum([p * part for part in self._common_logs(r)])
        tops = each_range(kernels.logarithms, bounds, r, self._node_entries, p, sent)
        top = max(*tops, log_common)
        if top == -np.inf:
            return np.full(n, self._constant(r))
        each_range(kernels.powers, bounds, sent, top)
        common, shared = math.exp(log_common - top), log_common > -np.inf
        each_range(
            kernels.finish, bounds, graph.offsets, graph.sources, self._edge_factors, sent, common, shared, top,
            self.theta / p, self._factor, self._constant(r), out,
        )  # fmt: skip
        lost = np.flatnonzero(out < 0.0)
        if len(lost):
            total = np.logaddexp(log_common, self._row_logs(r, lost))
            out[lost] = self._factor * np.exp(self.theta / p * total) + self._constant(r)
        return out

    def _row_logs(self, r: Array, rows: Array) -> Array:
        """Logarithm of the sum of p-th powers over the edges into some rows, term by term."""
        offsets = self.graph.offsets
        lengths = offsets[rows + 1] - offsets[rows]
        ends = np.cumsum(lengths)
        edges = np.arange(ends[-1]) + np.repeat(offsets[rows] - ends + lengths, lengths)
        sources = self.graph.sources[edges]
        with np.errstate(divide="ignore"):
            logs = self.p * (self._edge_logs(edges) + np.log(r[sources]))
        return log_sums(logs, np.concatenate([[0], ends]))

    def _infinite(self, r: Array) -> Array:
        from convexrank.graphs import norm_kernels as kernels

        graph, out = self.graph, np.empty(self.graph.n)
        sent = np.exp(self._node_entries) * r
        each_range(
            kernels.largest, cuts(graph.offsets), graph.offsets, graph.sources, self._edge_factors, sent, out
        )
        common = math.exp(
            max((float(part.max()) for part in self._common_logs(r) if len(part)), default=-math.inf)
        )
        np.maximum(out, common, out=out)
        return self._factor * out**self.theta + self._constant(r)


def log_sum(parts: list[Array]) -> float:
    """Return the logarithm of the sum of exponentials of all entries.

    Parameters
    ----------
    parts : list of ndarray
        Logarithms; −infinity is a zero.

    Returns
    -------
    float
        The logarithm; −infinity for none.
    """
    values = np.concatenate([np.empty(0), *parts])
    top = values.max(initial=-np.inf)
    return float(top) if top == -np.inf else float(top + np.log(np.exp(values - top).sum()))


def log_sums(logs: Array, offsets: Array) -> Array:
    """Return the logarithm of the sum of exponentials over each range of a vector.

    Parameters
    ----------
    logs : ndarray
        Logarithms; −infinity is a zero.
    offsets : ndarray of int, shape (k + 1,)
        Ends of the ranges.

    Returns
    -------
    ndarray, shape (k,)
        The logarithms; −infinity for an empty range.
    """
    lengths = np.diff(offsets)
    out, filled = np.full(len(lengths), -np.inf), lengths > 0
    if filled.any():
        starts = offsets[:-1][filled]
        tops = np.maximum.reduceat(logs, starts)
        safe = np.where(np.isfinite(tops), tops, 0.0)
        sums = np.add.reduceat(np.exp(logs - np.repeat(safe, lengths[filled])), starts)
        with np.errstate(divide="ignore"):
            out[filled] = safe + np.log(sums)
    return out
