"""PageRank, with a bound on its error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.consensus import ScoreIntervals
from convexrank.core.capabilities import CertifiedInParts, Ordered
from convexrank.core.results import Certificate, Solution, Witness
from convexrank.data import check_vector, keep, read_array
from convexrank.data.nodes import names_of
from convexrank.data.shards.local import compensated_sum
from convexrank.graphs import Graph, Transition
from convexrank.graphs.build import cuts, nth_range
from convexrank.graphs.edge_blocks import EdgeBlock, each_block
from convexrank.graphs.transition import distributions
from convexrank.problems.graph_ranks._base import GraphRank, certified_prefix, random_graph
from convexrank.solvers.graph_faces import AffineFixedPoint

Array = np.ndarray

# Edges that the certificate looks at in one piece, so that its copies stay small.
_PIECE = 1 << 18
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class PageRank(GraphRank):
    r"""The stationary distribution of a surfer who follows a link with probability α and restarts otherwise.

    .. math:: \pi = P\pi, \qquad P = \alpha T + (1-\alpha)\, v 1^\top, \qquad \textstyle\sum_i \pi_i = 1

    Column j of T divides the weights of the links out of node j by their sum; v is the personalization, uniform by
    default. ``dangling`` determines how a node without links (dangling) distributes its rank: by v (``"teleport"``, as
    in networkx), uniformly over all nodes (``"uniform"``), by a distribution of the caller, or not at all (``"drop"``:
    then π = αTπ + (1−α)v, which sums to less than 1). Since α < 1 the answer exists and is unique on every graph,
    including disconnected and periodic ones.

    For any w, :math:`\|w-\pi\|_1 \le \|\alpha Tw + (1-\alpha)v - w\|_1/(1-\alpha)`. This certificate is the stopping
    rule: ``tol`` bounds the true error in the L1 norm. The default solver sweeps over the nodes (Gauss-Seidel), on as
    many threads as there are cores; an iteration costs O(n + m).

    Parameters
    ----------
    graph : Graph
        The graph.
    alpha : float
        Probability of following a link, in [0, 1).
    personalization : array-like, optional
        The distribution v: node ids, names, or n weights, scaled to sum to 1. An array of shape (n, k) gives k
        ranks at once; the solution has that shape, and ``tol`` holds for each column.
    dangling : {"teleport", "uniform", "drop"} or array-like
        How dangling nodes distribute rank; a distribution, the same for each of them, is given as one v is.

    Raises
    ------
    ValueError, TypeError
        When α is outside [0, 1), the personalization is empty, negative, not finite or out of range, or ``graph`` is
        not a :class:`~convexrank.graphs.Graph`.

    References
    ----------
    Dissertation on learning to rank, chapters 5 and 6, where P is the matrix of (5.1), including the teleport. The
    three treatments of dangling nodes: P. Boldi, M. Santini, S. Vigna, PageRank: functional dependencies, ACM TOIS 27
    (2009), section 2.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    >>> solution = cr.problems.PageRank(graph).solve(tol=1e-10)
    >>> solution.x.round(6).tolist()
    [0.379734, 0.198887, 0.383879, 0.0375]
    >>> cr.problems.PageRank(graph).certified_top(solution).tolist()
    [2, 0, 1, 3]
    >>> solution
    Solution: CONVERGED (gauss-seidel, 7 steps, 0.0066 s), distance 1e-14 certified (L1 norm)
    """

    graph: Graph
    alpha: float = 0.85
    personalization: Any = None
    dangling: Any = "teleport"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.personalization is not None:
            v = distributions(self.graph.n, self.graph.names, self.personalization, "personalization")
            keep(self, personalization=v)
        keep(self, alpha=self.operators[0].alpha, dangling=self.operators[0].dangling)

    @cached_property
    def operators(self) -> tuple[Transition, ...]:
        """The matrix P of each requested rank; their distributions are the columns of the personalization."""
        walk, v = Transition(self.graph, self.alpha, None, self.dangling), self.personalization
        if v is None or v.ndim == 1:
            return (walk.toward(v),)
        _ = walk.share  # once for all columns
        return tuple(walk.toward(column) for column in v.T)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the solution: (n,), or (n, k) for a batch."""
        return (self.graph.n,) if np.ndim(self.personalization) != 2 else self.personalization.shape

    default_solver = "gauss-seidel"

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of the capabilities of this instance."""
        names = frozenset({"FixedPoint", "AffineFixedPoint", "Referenced", "Certified", "CertifiedInParts"})
        return names | {"Ordered"} if len(self.shape) == 1 else names

    @property
    def dimension(self) -> int:
        """Number of unknowns, n·k."""
        return math.prod(self.shape)

    @property
    def modulus(self) -> float:
        """The contraction factor α of the map in the L1 norm."""
        return self.alpha

    @property
    def teleport(self) -> Array:
        """The distribution v, or one in each column."""
        return self.operators[0].teleport if self.personalization is None else self.personalization

    def start(self) -> Array:
        """Return v."""
        return self.teleport.copy()

    def check_point(self, x: Any, name: str = "x") -> Array:
        """Return x as an array of the solution's shape; for a Solution its point."""
        values = read_array(x.x if isinstance(x, Solution) else x, name)
        if len(self.shape) == 2:
            if values.shape != self.shape:
                raise ValueError(
                    f"{name} has shape {values.shape}, expected {self.shape}, one column for each rank."
                )
            return check_vector(values.ravel(), self.dimension, name).reshape(self.shape)
        return check_vector(values, self.dimension, name)

    def _affine_fixed_point(self) -> AffineFixedPoint:
        return AffineFixedPoint(self.graph, self.alpha, self.operators, self.teleport)

    def _certified_in_parts(self) -> CertifiedInParts:
        return CertifiedInParts(self._certificate_part, self._certificate_of_parts)

    def apply_map(self, x: Array) -> Array:
        """Return αTx + (1−α)v."""
        moved = [
            operator @ column + (1.0 - self.alpha) * (1.0 - float(column.sum())) * operator.teleport
            for operator, column in zip(self.operators, np.atleast_2d(x.T), strict=True)
        ]
        return moved[0] if x.ndim == 1 else np.stack(moved, axis=1)

    def distance(self, a: Array, b: Array) -> float:
        """Return ‖a − b‖₁; for a batch the largest."""
        return float(np.abs(a - b).sum(axis=0).max())

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound ‖x − π‖₁ by ‖αTx + (1−α)v − x‖₁/(1−α), and by ‖x‖₁ + 1. O(m).

        By scipy's product, of a batch in a loop of its own.
        """
        w = self.check_point(x)
        return self._certificate_of_parts(w, self._certificate_part(w, 0, 1)[None])

    def _certificate_of_parts(self, x: Array, parts: Array) -> Certificate:
        """Add up what parts of the nodes are off by; no more than both vectors have together."""
        most = (np.abs(x).sum(axis=0) + 1.0) * (1.0 + (len(x) + 1) * _EPS)
        gap = float(np.minimum(compensated_sum(parts) / (1.0 - self.alpha), most).max())
        return Certificate(gap, math.nan, -math.inf, kind="distance", metric="L1 norm")

    def _certificate_part(self, x: Array, part: int, parts: int) -> Array:
        """Return ‖αTx + (1−α)v − x‖₁ over a part of the nodes, for each rank, with what rounding may hide."""
        graph, alpha, w = self.graph, self.alpha, x
        nodes = (slice(first, first + _PIECE) for first in range(0, graph.n, _PIECE))
        rest = alpha * sum(w[some][graph.degrees[some] == 0].sum(axis=0) for some in nodes)
        rows = nth_range(graph.offsets, part, parts)
        if w.ndim == 2 and isinstance(self.dangling, str):
            return self._residuals_of_batch(w, np.asarray(rest), *rows)
        if w.ndim == 2:
            each = zip(w.T, np.asarray(rest), self.operators, strict=True)
            return np.array([self._residual(column, lost, one, *rows) for column, lost, one in each])
        return np.array([self._residual(w, rest, self.operators[0], *rows)])

    def _residual(self, w: Array, rest: float, operator: Transition, first: int, last: int) -> float:
        """The same for one rank; ``rest`` is α times the rank of the dangling nodes."""
        graph, alpha, everywhere = self.graph, self.alpha, operator.teleport
        escape = np.asarray(operator.escape)
        # dangling nodes, whose degree is 0, are the source of no edge
        with np.errstate(divide="ignore", invalid="ignore"):
            sent = w / graph.degrees
        total = 0.0
        for block in chain.from_iterable(map(_pieces, graph.blocks(first, last))):
            piece = slice(block.first, block.last)
            flow = alpha * _inflow(block, sent)
            flow += rest * (escape[piece] if escape.ndim else escape)
            flow += (1.0 - alpha) * everywhere[piece]
            flow -= w[piece]
            found = float(np.abs(flow).sum())
            total += found + self._rounding * (found + float(np.abs(w[piece]).sum()))
        return total

    @cached_property
    def _rounding(self) -> float:
        """Bound the rounding of residuals relative to what flows into the nodes, the same for every cut of the edges.

        Terms, their sum, and what is added to it: numpy adds up to 128 terms in eight sums, and such sums in pairs.
        """
        offsets, step = self.graph.offsets, 1 << 20
        starts = range(0, len(offsets) - 1, step)
        longest = max(int(np.diff(offsets[start : start + step + 1]).max()) for start in starts)
        return _EPS * (4.0 + 0.5 * min(longest, 19.0 + math.log2(max(longest / 128.0, 1.0))))

    def _residuals_of_batch(self, w: Array, rest: Array, first: int, last: int) -> Array:
        """The same for some nodes of a batch; ``rest`` is α times the rank of the dangling nodes."""
        from convexrank.graphs.compiled_sums import COLUMNS, residuals

        graph, shares = self.graph, self.alpha * self.operators[0].share
        along = np.full(w.shape[1], 1.0 - self.alpha) + rest * (self.dangling == "teleport")
        evenly = rest * (self.dangling == "uniform") / graph.n
        mine = graph.offsets[first : last + 1]
        bounds, sums = first + cuts(mine - mine[0]), []
        for begin in range(0, w.shape[1], COLUMNS):
            columns = slice(begin, begin + COLUMNS)
            x, v = (np.ascontiguousarray(values[:, columns]) for values in (w, self.teleport))
            ranks = shares, v, along[columns], evenly[columns], x

            def of_block(block: EdgeBlock, ranks: tuple[Array, ...] = ranks) -> Array:
                return residuals(*block.arrays, *ranks, block.first, block.last)

            sums.append(np.sum(each_block(of_block, graph.blocks, bounds), axis=0))
        return np.concatenate(sums)

    def certified_top(self, x: Any, k: int = 10) -> Array:
        """Return the longest list of first nodes, at most k, whose order the certificate proves at x.

        The order of two ranks that differ by less than the bound on the L1 distance is not proved: tied nodes end the
        list, whatever the tolerance is.

        Parameters
        ----------
        x : ndarray or Solution
            The point, for one personalization.
        k : int
            Largest number of nodes.

        Returns
        -------
        ndarray
            Names of nodes, or numbers if they have no names, from the highest rank on; each node is proved to rank
            above all nodes that follow, in the list or not. ``graph.numbers`` converts names to numbers.

        Raises
        ------
        ValueError
            For a batch of ranks.
        """
        r = self._one_rank(x)
        return names_of(self.graph.names, self.proved_top(r, self.certificate(r).gap, k))

    def score_intervals(self, x: Any) -> ScoreIntervals:
        """Return an interval for the rank of each node, by the certificate at x.

        Without loss of rank both distributions sum to 1, and the error of a node's rank is at most half the L1
        distance.

        Parameters
        ----------
        x : ndarray or Solution
            The point, for one personalization.

        Returns
        -------
        ScoreIntervals
            The intervals of all nodes.

        Raises
        ------
        ValueError
            For a batch of ranks.

        Examples
        --------
        >>> import convexrank as cr
        >>> graph = cr.Graph.from_edges([0, 0, 1], [1, 2, 2], names=["ann", "bob", "cat"])
        >>> problem = cr.problems.PageRank(graph)
        >>> problem.score_intervals([0.2, 0.28, 0.52]).to_frame().round(3).loc["ann"].to_dict()
        {'lower': 0.182, 'upper': 0.218}
        """
        r = self._one_rank(x)
        bound = self.certificate(r).gap
        if not self.operators[0].loses_rank and bound <= 2.0:  # no more than two distributions differ
            bound = 0.5 * (bound + abs(math.fsum(r) - 1.0) + 8.0 * _EPS)
        return ScoreIntervals(
            names_of(self.graph.names, np.arange(len(r))), *np.clip([r - bound, r + bound], 0.0, 1.0)
        )

    def _one_rank(self, x: Any) -> Array:
        r = self.check_point(x)
        if r.ndim > 1:
            raise ValueError(
                f"x holds {r.shape[1]} ranks, expected one; ask a problem of one personalization."
            )
        return r

    def _ordered(self) -> Ordered:
        return Ordered(self.proved_top)

    def proved_top(self, x: Array, bound: float, k: int) -> Array:
        """Return the first nodes, at most k, whose order no error up to ``bound`` in the L1 norm can change. O(n)."""
        return certified_prefix(x, bound, k)

    def prove(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Prove the same bound in ball arithmetic; see :mod:`convexrank.proof.graphs`. O(m) balls."""
        from convexrank.proof.balls import arb, exact, greatest, total
        from convexrank.proof.graphs import Walk, prove_distance, walk_residual

        point, v = self.check_point(x), self.personalization
        batch = [None] if v is None else np.atleast_2d(v.T)
        walks = [Walk(self.graph, self.alpha, teleport, self.dangling) for teleport in batch]
        columns = list(zip(walks, np.atleast_2d(point.T), strict=True))
        return prove_distance(
            lambda: greatest([walk_residual(walk, column) for walk, column in columns]),
            lambda: arb(self.alpha),
            "L1 norm",
            lambda: greatest([total(map(abs, exact(column))) + 1 for _, column in columns]),
        )

    def reference(self) -> Array:
        """Return the solution of the dense linear system, O(n³)."""
        answers = []
        for operator in self.operators:
            follow = operator.dense() - (1.0 - self.alpha) * operator.teleport[:, None]
            system = np.eye(self.graph.n) - follow
            answers.append(np.linalg.solve(system, (1.0 - self.alpha) * operator.teleport))
        return answers[0] if len(self.shape) == 1 else np.stack(answers, axis=1)

    def definition(self, x: Array) -> float:
        """Return ‖αTx + (1−α)v − x‖₁ from its formula, link by link; of a batch the largest. It is 0 at the rank."""
        from convexrank.problems._plain import links_of

        n, links = self.graph.n, links_of(self.graph)
        out = [0.0] * n
        for source, _, weight in links:
            out[source] += weight
        ranks = [x.tolist()] if np.ndim(x) == 1 else x.T.tolist()
        teleports = [[1.0 / n] * n]
        if self.personalization is not None:
            teleports = np.atleast_2d(self.personalization.T).tolist()
        largest = 0.0
        for w, v in zip(ranks, teleports, strict=True):
            moved = [(1.0 - self.alpha) * share for share in v]
            for source, target, weight in links:
                if weight > 0.0:
                    moved[target] += self.alpha * weight / out[source] * w[source]
            if isinstance(self.dangling, str):
                to = {"teleport": v, "uniform": [1.0 / n] * n, "drop": [0.0] * n}[self.dangling]
            else:
                to = self.dangling.tolist()
            for j in range(n):
                if out[j] == 0.0:
                    for i in range(n):
                        moved[i] += self.alpha * to[i] * w[j]
            largest = max(largest, sum(abs(moved[i] - w[i]) for i in range(n)))
        return largest

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        graph = random_graph(rng)
        alpha = float(rng.choice([0.3, 0.5, 0.85, 0.95]))
        mode: Any = str(rng.choice(["teleport", "uniform", "drop", "own"]))
        kind = int(rng.integers(3))
        if mode == "own":
            mode = rng.random(graph.n) * (rng.random(graph.n) < 0.5) + 1e-3
        if kind == 0:
            return cls(graph, alpha, None, mode)
        v = rng.random((graph.n, 2)) * (rng.random((graph.n, 2)) < 0.5) + 1e-3
        return cls(graph, alpha, v if kind == 1 else v[:, 0], mode)


def _pieces(block: EdgeBlock) -> Iterator[EdgeBlock]:
    """Cut a block into pieces of at most about ``_PIECE`` edges."""
    ends = block.starts
    inner = np.searchsorted(ends, np.arange(0, ends[-1], _PIECE)[1:], side="right") - 1
    bounds = sorted({block.first, *(block.first + inner).tolist(), block.last})
    return (block.part(*piece) for piece in pairwise(bounds))


def _inflow(block: EdgeBlock, sent: Array) -> Array:
    """Sums of what is sent along the edges into some rows, in pairs: a million terms one by one lose six digits."""
    flow, filled = np.zeros(len(block.starts) - 1), np.flatnonzero(np.diff(block.starts))
    terms = sent[block.sources] if block.weights is None else sent[block.sources] * block.weights
    if len(filled):
        flow[filled] = np.add.reduceat(terms, block.starts[filled])
    return flow
