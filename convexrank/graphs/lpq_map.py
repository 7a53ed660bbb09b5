r"""The map of the L_{p,q} rank, :math:`r_i \mapsto \|(a_{ij} r_j)_j\|_p^{\theta}`, weak links in one of three places.

All powers are taken relative to the largest, once for each node and not for each edge; sums that fall out of the range
of floating point are done again in logarithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.graphs.build import cuts, each_range
from convexrank.graphs.edge_blocks import EdgeBlock, each_block
from convexrank.graphs.graph import Graph

Array = np.ndarray

# A sum below this, of terms of at most 1, may have lost terms to underflow: it is done again in logarithms.
TINY = 1e-200
# Edges whose entries are computed at a time: what is made on the way stays in the cache.
_PIECE = 1 << 14


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
            # ((a + b)^p − b^p)^(1/p) = (a + b)·(1 − (b/(a + b))^p)^(1/p); what is beneath a strong link is no more
            # than half, so that nothing cancels, and numpy's log and exp take several numbers at a time
            link /= self._weak
            whole = np.log(link + 1.0) if np.min(link, initial=1.0) >= 1.0 else np.log1p(link)
            beneath = np.exp(-self.p * whole)
            strong = np.max(beneath, initial=0.0) <= 0.5
            beneath = np.log(1.0 - beneath) if strong else np.log(-np.expm1(-self.p * whole))
            return np.log(self._weak) + whole + beneath / self.p

    @cached_property
    def _node_entries(self) -> Array:
        """Logarithm of a node's largest entry; −infinity for a dangling node."""
        heaviest = np.ones(self.graph.n)
        if self.graph.weights is not None:
            heaviest = np.zeros(self.graph.n)
            for block in self.graph.blocks():
                np.maximum.at(heaviest, block.sources, 1.0 if block.weights is None else block.weights)
        entries = self._log_entries(heaviest, self.degrees)
        entries[self.graph.dangling] = -np.inf
        return entries

    @cached_property
    def edge_factors(self) -> Array:
        """The p-th power (for p = ∞ the first) of each entry relative to the largest of its source."""
        graph, weights = self.graph, self.graph.weights
        if weights is None:
            return np.empty(0)
        factors, _ = np.empty(graph.m), self._node_entries  # once, before there are threads

        def fill(first: int, last: int) -> None:
            ends = graph.offsets[[first, last]].tolist()
            for start in range(ends[0], ends[1], _PIECE):
                some = slice(start, min(start + _PIECE, ends[1]))
                factors[some] = self._factors(graph.sources[some], weights[some])

        each_range(fill, cuts(graph.offsets))
        return factors

    def _factors(self, sources: Array, weights: Array) -> Array:
        return np.exp(self._log_factors(sources, weights))

    def _log_factors(self, sources: Array, weights: Array | None) -> Array:
        largest = self._node_entries[
            sources
        ]  # −infinity where α is 0 or its product underflows: so are all entries
        logs = self._edge_logs(sources, weights) - np.where(largest > -np.inf, largest, 0.0)
        return logs if math.isinf(self.p) else self.p * logs

    def log_factors(self, edges: slice) -> Array:
        """Return logarithms of p-th powers (for p = ∞ the first) of entries relative to the largest of their source."""
        return self._log_factors(*self._ends(edges))

    def _ends(self, edges: slice | Array) -> tuple[Array, Array | None]:
        """Sources of some edges, and their weights."""
        weights = self.graph.weights
        return self.graph.sources[edges], None if weights is None else weights[edges]

    @property
    def log_entries(self) -> tuple[Array, Array]:
        """Logarithms of each node's largest entry, and of the one that it has everywhere; −infinity for none."""
        if self.weak_links == "inside":
            return self._node_entries, self._weak_entries
        everywhere = np.full(self.graph.n, -np.inf)
        if self.weak_links is not None:
            share = self.alpha if self.weak_links == "entry" else 1.0
            with np.errstate(divide="ignore"):
                everywhere[self.graph.dangling] = np.log(share / self.graph.n)
        return self._node_entries, everywhere

    @property
    def log_constants(self) -> tuple[float, float, float]:
        """Logarithms of the entry of the sum of all ranks, of the norm's factor, and of the constant beside it."""
        with np.errstate(divide="ignore"):
            weak, alpha = float(np.log(self._weak)), float(np.log(self.alpha))
        if self.weak_links == "outside":
            return -math.inf, alpha, weak
        return (weak if self.weak_links == "entry" else -math.inf), 0.0, -math.inf

    def _gather(self, function: Any, block: EdgeBlock, sent: Array, out: Array) -> None:
        """Call a compiled loop over the edges into some nodes, with their factors where there are weights."""
        if block.weights is not None and self.graph.pages is not None:
            # of a graph in files the factors of a block are computed when it is read
            factors = self._factors(block.sources, block.weights)
        else:
            factors = self.edge_factors[block.edges]
        function(block.offsets, block.sources, factors, sent, out, block.first, block.last)

    def _edge_logs(self, sources: Array, weights: Array | None) -> Array:
        if weights is None:
            return self._node_entries[sources]
        return self._log_entries(weights, self.degrees[sources])

    @cached_property
    def _weak_entries(self) -> Array:
        """Logarithm of the entry that a node has everywhere, under its links: "inside" only."""
        entry = np.full(self.graph.n, self._weak)
        entry[self.graph.dangling] = self.alpha / self.graph.n + self._weak
        return np.log(entry)

    def _common_logs(self, r: Array) -> Array:
        """Logarithms of the entries that every node has, whatever its links."""
        dangling, n = self.graph.dangling, self.graph.n
        if self.weak_links is None:
            return np.empty(0)
        with np.errstate(divide="ignore"):
            if self.weak_links == "inside":
                return self._weak_entries + np.log(r)
            if self.weak_links == "entry":
                return np.log(np.append(self.alpha * r[dangling] / n, self._weak * r.sum()))
            return np.log(r[dangling] / n)

    def __call__(self, r: Array) -> Array:
        """Return the image of r, not normalised. O(n + m)."""
        return self._finite(r) if math.isfinite(self.p) else self._infinite(r)

    def _constant(self, r: Array) -> float:
        return self._weak * float(r.sum()) ** self.theta if self.weak_links == "outside" else 0.0

    @property
    def factor(self) -> float:
        """Factor of the root."""
        return self.alpha if self.weak_links == "outside" else 1.0

    def powers(self, r: Array) -> tuple[Array, float, float, float]:
        """Return what all nodes send and what everybody gets, p-th powers over e^top; top; the constant. O(n).

        Parameters
        ----------
        r : ndarray, shape (n,)
            The ranks; p is finite.

        Returns
        -------
        tuple
            Shape (n,), and three numbers. The image of r is the root of the sums, with its factor, plus the constant.
        """
        inside = self.weak_links == "inside"
        log_common = -math.inf if inside else log_sum(self.p * self._common_logs(r))
        sent, weak = np.empty(self.graph.n), np.empty(self.graph.n) if inside else None
        top, common = self._powers(r, sent, weak, log_common)
        return sent, common, top, self._constant(r)

    def _finite(self, r: Array) -> Array:
        sent, common, top, constant = self.powers(r)
        if top == -math.inf:
            return np.full(self.graph.n, constant)
        everywhere = {"inside": 1, "entry": 1, "outside": len(self.graph.dangling), None: 0}[self.weak_links]
        out, lost = self._roots(sent, top, common, constant, everywhere > 0)
        if len(lost):
            total = np.logaddexp(log_sum(self.p * self._common_logs(r)), self._row_logs(r, lost))
            out[lost] = self.factor * np.exp(self.theta / self.p * total) + constant
        return out

    def _powers(self, r: Array, sent: Array, weak: Array | None, log_common: float) -> tuple[float, float]:
        """Set ``sent`` to the p-th power of every node's largest entry times r, relative to e^top.

        Returns top, and what every node gets, on the same scale. Slices are done by threads; numpy's logarithm and
        exponential take several numbers at a time, those of a compiled loop one.
        """
        bounds, entries, p = cuts(self.graph.offsets), self._node_entries, self.p

        def logarithms(first: int, last: int) -> float:
            part = sent[first:last]
            with np.errstate(divide="ignore"):
                np.log(r[first:last], out=part)
            if weak is not None:
                mine = np.add(part, self._weak_entries[first:last], out=weak[first:last])
                mine *= p
            part += entries[first:last]
            part *= p
            return float(part.max(initial=-np.inf))

        def powers(first: int, last: int) -> float:
            total = 0.0
            for values in (sent,) if weak is None else (sent, weak):
                part = values[first:last]
                part -= top
                np.exp(part, out=part)
                total = float(part.sum())
            return total

        top = max(max(each_range(logarithms, bounds)), log_common)
        if weak is not None:
            top = max(top, float(weak.max()))
        if top == -math.inf:
            return top, 0.0
        sums = each_range(powers, bounds)
        return top, math.exp(log_common - top) if weak is None else sum(sums)

    def _roots(
        self, sent: Array, top: float, common: float, constant: float, shared: bool
    ) -> tuple[Array, Array]:
        """Add up the p-th powers and turn the sums into the map; return it, and the nodes whose sum was lost."""
        from convexrank.graphs import compiled_sums

        graph, out = self.graph, np.empty(self.graph.n)
        if graph.pages is None:
            _ = self.edge_factors  # once, before there are threads

        def roots(block: EdgeBlock) -> Array:
            self._gather(compiled_sums.gather, block, sent, out)
            part = out[block.first : block.last]
            part += common
            low = np.flatnonzero(part < TINY)
            with np.errstate(divide="ignore"):
                np.log(part, out=part)
            part += top
            part *= self.theta / self.p
            np.exp(part, out=part)
            if self.weak_links == "outside":
                part *= self.alpha
                part += constant
            if not shared:
                low = low[block.offsets[low + 1] > block.offsets[low]]
            return low + block.first

        lost = np.concatenate(each_block(roots, graph.blocks, cuts(graph.offsets)))
        return out, lost

    def _row_logs(self, r: Array, rows: Array) -> Array:
        """Logarithm of the sum of p-th powers over the edges into some rows, term by term."""
        offsets = self.graph.offsets
        lengths = offsets[rows + 1] - offsets[rows]
        ends = np.cumsum(lengths)
        edges = np.arange(ends[-1]) + np.repeat(offsets[rows] - ends + lengths, lengths)
        sources, weights = self._ends(edges)
        with np.errstate(divide="ignore"):
            logs = self.p * (self._edge_logs(sources, weights) + np.log(r[sources]))
        return log_sums(logs, np.concatenate([[0], ends]))

    def _infinite(self, r: Array) -> Array:
        from convexrank.graphs import compiled_sums

        graph, out = self.graph, np.empty(self.graph.n)
        sent = np.exp(self._node_entries) * r
        if graph.pages is None:
            _ = self.edge_factors

        def largest(block: EdgeBlock) -> None:
            self._gather(compiled_sums.largest, block, sent, out)

        each_block(largest, graph.blocks, cuts(graph.offsets))
        common = math.exp(float(self._common_logs(r).max(initial=-math.inf)))
        np.maximum(out, common, out=out)
        return self.factor * out**self.theta + self._constant(r)


@dataclass(frozen=True, eq=False)
class NormPart:
    """A part of a fixed point of such maps: r = U(r)/‖U(r)‖₁, or r = γU(r) + s where there are seeds.

    Parameters
    ----------
    image : NormMap
        The map U.
    seeds : ndarray, shape (n,), or None
        The shift.
    gamma : float
        The factor γ.
    """

    image: NormMap
    seeds: Array | None
    gamma: float


def log_sum(logs: Array) -> float:
    """Return the logarithm of the sum of exponentials of all entries; −infinity for none."""
    top = logs.max(initial=-np.inf)
    return float(top) if top == -np.inf else float(top + np.log(np.exp(logs - top).sum()))


def log_sums(logs: Array, offsets: Array) -> Array:
    """Return the same over each of k ranges of a vector, whose k + 1 ends are ``offsets``; shape (k,)."""
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
