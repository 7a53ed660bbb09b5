"""Trust from good seeds along the links, distrust from bad ones against them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.core.capabilities import CertifiedInParts
from convexrank.core.results import Certificate, Solution, Witness
from convexrank.data import check_real, check_vector, keep, keep_checked
from convexrank.graphs.build import nth_range
from convexrank.graphs.graph import Graph
from convexrank.graphs.lpq_map import NormMap, NormPart, log_sums
from convexrank.graphs.transition import check_alpha
from convexrank.problems.graph_ranks._base import GraphRank, random_graph
from convexrank.solvers.graph_faces import NormFixedPoint

Array = np.ndarray

# Rounds over all edges before a search node by node: most graphs need fewer, and a round costs less memory.
_ROUNDS_OF_REACH = 64


def reached_from(graph: Graph, start: Array) -> Array:
    """Return which nodes a walk from some nodes can come to, these included. O(n + m) but for a constant.

    Both are booleans, shape (n,).
    """
    reached = start.copy()
    # of a graph in files no search: that would take the edges into memory
    for _ in range(_ROUNDS_OF_REACH if graph.pages is None else graph.n + 1):
        more = reached | (graph.pull(reached.astype(np.float64)) > 0.0)
        if np.array_equal(more, reached):
            return reached
        reached = more
    return _searched(graph, reached)


def _searched(graph: Graph, start: Array) -> Array:
    """By breadth first search from one node more, that leads to all starts."""
    from scipy import sparse
    from scipy.sparse import csgraph

    links = graph.to_scipy()
    entry = sparse.csr_array(start[None, :].astype(np.float64))
    whole = sparse.block_array([[links, None], [entry, sparse.csr_array((1, 1))]], format="csr")
    order = csgraph.breadth_first_order(whole, graph.n, directed=True, return_predecessors=False)
    reached = np.zeros(graph.n + 1, dtype=bool)
    reached[order] = True
    return reached[:-1]


_ROUNDING = 32.0 * np.finfo(np.float64).eps
_ROUNDS = 5_000


@dataclass(frozen=True, eq=False)
class TrustPropagation(GraphRank):
    r"""Trust :math:`r_+ = \gamma U(r_+) + (1-\gamma)s_+` on the graph, distrust the same on the reversed graph.

    .. math:: U(r)_i = \Bigl(\sum_{j \to i} (w_{ij} r_j/d_j)^p\Bigr)^{1/q}, \qquad \theta = p/q \le 1

    There are no weak links, and dangling nodes send nothing: a node that no seed reaches has trust 0. The seeds are
    scaled to distributions; with the 0/1 seeds of the paper the propagation is damped by γ/(γ + number of seeds). With
    p = q = 1 this is TrustRank and AntiTrustRank, which with an L_{p,q} base rank make the paper's Lin-L_{p,q}.

    For p = q the map is a contraction with factor γ in the L_p norm; for θ < 1 it is a contraction with factor θ in
    Thompson's metric :math:`\max_i|\log(r_i/s_i)|` over the nodes that seeds reach, for every γ < 1. ``tol`` bounds the
    true error in that metric, of both parts.

    Parameters
    ----------
    graph : Graph
        The graph.
    trusted : array-like
        Good seeds: ids, names, or n weights.
    distrusted : array-like, optional
        Bad seeds; without them only trust is computed.
    gamma : float
        Factor by which trust decreases with each link, in [0, 1).
    p, q : float
        The norms, at least 1 and finite, with p ≤ q.

    Raises
    ------
    ValueError, TypeError
        When seeds are empty or out of range, γ is outside [0, 1), or p and q are out of range.

    References
    ----------
    Dissertation on learning to rank, section 6.3, (6.3) to (6.5). The condition γ < λ in the text is enough,
    as γ < 1/λ is, since λ ≤ 1.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 1, 3, 4], [1, 2, 2, 3])
    >>> problem = cr.problems.TrustPropagation(graph, trusted=[0], distrusted=[2], gamma=0.5)
    >>> trust, distrust = problem.parts(problem.solve())
    >>> trust.round(4).tolist()
    [0.5, 0.25, 0.125, 0.0, 0.0]
    >>> distrust.round(4).tolist()
    [0.0625, 0.125, 0.5, 0.125, 0.0625]
    """

    graph: Graph
    trusted: Any
    distrusted: Any = None
    gamma: float = 0.85
    p: float = 1.0
    q: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_checked(self, check_alpha, "gamma")
        for name in ("p", "q"):
            keep_checked(self, check_real, name)
            if not 1.0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a finite number of at least 1.")
        if self.p > self.q:
            raise ValueError(
                f"p is {self.p:g} and q is {self.q:g}, expected p <= q: above it trust is not unique."
            )
        for name in ("trusted", "distrusted"):
            if getattr(self, name) is not None or name == "trusted":
                keep(self, **{name: self.graph.seeds(getattr(self, name), name)})

    @cached_property
    def _sides(self) -> tuple[tuple[Graph, Array], ...]:
        """Graph and seeds of trust, and of distrust where it is requested."""
        sides = [(self.graph, self.trusted)]
        if self.distrusted is not None:
            sides.append((self.graph.reversed(), self.distrusted))
        return tuple(sides)

    @cached_property
    def _maps(self) -> tuple[NormMap, ...]:
        theta = self.p / self.q
        return tuple(NormMap(graph, self.p, theta, 1.0, None, graph.out_weight) for graph, _ in self._sides)

    @cached_property
    def _reached(self) -> Array:
        """The nodes that get anything from seeds, part after part."""
        parts = [
            reached_from(graph, seeds > 0.0) if self.gamma > 0.0 else seeds > 0.0
            for graph, seeds in self._sides
        ]
        return np.concatenate(parts)

    default_solver = "power"
    capabilities = frozenset({"FixedPoint", "Referenced", "Certified", "CertifiedInParts", "NormFixedPoint"})

    @property
    def dimension(self) -> int:
        """Number of nodes, twice that with distrust."""
        return self.graph.n * len(self._sides)

    @property
    def modulus(self) -> float:
        """The contraction factor of the map: γ for p = q, else p/q."""
        return self.gamma if self.p == self.q else self.p / self.q

    def _norm_fixed_point(self) -> NormFixedPoint:
        """The maps of trust and of distrust, with seeds."""
        pairs = zip(self._maps, self._sides, strict=True)
        parts = [NormPart(image, (1.0 - self.gamma) * seeds, self.gamma) for image, (_, seeds) in pairs]
        return NormFixedPoint(self.graph, tuple(parts))

    def parts(self, x: Any) -> tuple[Array, ...]:
        """Return trust, and distrust where it was requested, each of shape (n,)."""
        return tuple(self.check_point(x).reshape(-1, self.graph.n))

    def start(self) -> Array:
        """Return equal values on what the seeds reach."""
        return self._reached / self.graph.n

    def check_point(self, x: Any, name: str = "x") -> Array:
        """Return x as a non-negative vector; for a Solution its point."""
        values = check_vector(x.x if isinstance(x, Solution) else x, self.dimension, name)
        if values.min() < 0.0:
            place = int(np.argmin(values))
            raise ValueError(f"{name}[{place}] is {values[place]:g}, expected values of at least 0.")
        return values

    def _certified_in_parts(self) -> CertifiedInParts:
        return CertifiedInParts(self._certificate_part, self._certificate_of_parts)

    def apply_map(self, x: Array) -> Array:
        """Return γU(x) + (1−γ)s for each part. O(n + m)."""
        x = np.where(self._reached, x, 0.0).reshape(-1, self.graph.n)
        images = [
            self.gamma * image(part) + (1.0 - self.gamma) * seeds
            for image, part, (_, seeds) in zip(self._maps, x, self._sides, strict=True)
        ]
        return np.where(self._reached, np.concatenate(images), 0.0)

    def distance(self, a: Array, b: Array) -> float:
        """Return the largest L_p norm of the difference for p = q, Thompson's distance otherwise."""
        pairs = zip(a.reshape(-1, self.graph.n), b.reshape(-1, self.graph.n), strict=True)
        return max(self._apart(mine, other) for mine, other in pairs)

    def _apart(self, a: Array, b: Array) -> float:
        if self.p == self.q:
            return _norm(a - b, self.p)
        both = (a > 0.0) & (b > 0.0)
        if not np.array_equal(a > 0.0, b > 0.0):
            return math.inf
        with np.errstate(over="ignore", divide="ignore"):  # no float is so far: no bound
            return float(np.abs(np.log(a[both] / b[both])).max(initial=0.0))

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound the distance to the solution by that to the image over 1 − factor; the map in logarithms. O(m)."""
        r = self.check_point(x)
        return self._certificate_of_parts(r, self._certificate_part(r, 0, 1)[None])

    def _certificate_part(self, x: Array, part: int, parts: int) -> Array:
        """Return the distance of x to its image over a part of the nodes, for trust and for distrust."""
        found = []
        for r, (graph, seeds) in zip(x.reshape(-1, self.graph.n), self._sides, strict=True):
            rows = slice(*nth_range(graph.offsets, part, parts))
            found.append(self._apart(r[rows], self._log_map(r, graph, seeds, rows)))
        return np.array(found)

    def _certificate_of_parts(self, x: Array, parts: Array) -> Certificate:
        """Put distances together: the norm of norms, or the largest."""
        if self.p == self.q:
            moved = max(_norm(side, self.p) for side in parts.T) + self._rounding(x)
            metric = f"L{self.p:g} norm"
        else:
            supported = np.array_equal(x > 0.0, self._reached)
            moved, metric = float(parts.max()) + _ROUNDING if supported else math.inf, "Thompson's metric"
        return Certificate(
            float(moved / (1.0 - self.modulus)), math.nan, -math.inf, kind="distance", metric=metric
        )

    def _rounding(self, x: Array) -> float:
        """Bound the norm of what rounding changes in the images: relative to each trust, and to its logarithm."""
        found = []
        for r, (graph, _) in zip(x.reshape(-1, self.graph.n), self._sides, strict=True):
            logs, out = (np.abs(np.log(np.where(a > 0.0, a, 1.0))) for a in (r, graph.out_weight))
            found.append(_norm(r * (1.0 + (logs + out) / 8.0), self.p))
        return _ROUNDING * max(found)

    def prove(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Prove the same bound in ball arithmetic; see :mod:`convexrank.proof.graphs`. O(m) balls."""
        from convexrank.proof import graphs
        from convexrank.proof.balls import arb, greatest

        parts, linear = self.parts(x), self.p == self.q

        def moved() -> arb:
            found = []
            for part, (graph, seeds) in zip(parts, self._sides, strict=True):
                image = graphs.trust_image(graph, part, seeds, self.gamma, self.p, self.q)
                found.append(graphs.lp_norm(part, image, self.p) if linear else graphs.thompson(part, image))
            return greatest(found)

        metric = f"L{self.p:g} norm" if linear else "Thompson's metric"
        return graphs.prove_distance(
            moved, lambda: arb(self.gamma) if linear else arb(self.p) / arb(self.q), metric
        )

    def _log_map(self, r: Array, graph: Graph, seeds: Array, nodes: slice) -> Array:
        with np.errstate(divide="ignore"):
            sent = np.log(r), np.log(graph.out_weight)
        image = (1.0 - self.gamma) * seeds[nodes]
        for block in graph.blocks(nodes.start, nodes.stop):
            logs = sent[0][block.sources] - sent[1][block.sources]
            if block.weights is not None:
                with np.errstate(divide="ignore"):
                    logs += np.log(block.weights)
            mine = slice(block.first - nodes.start, block.last - nodes.start)
            image[mine] += self.gamma * np.exp(log_sums(self.p * logs, block.starts) / self.q)
        return image

    def reference(self) -> Array:
        """Return the solution by iteration with a dense matrix from the seeds, O(n²) per round."""
        answers = []
        for graph, seeds in self._sides:
            matrix, out = graph.to_scipy().toarray().T, graph.out_weight
            entries = matrix / np.where(out > 0.0, out, 1.0)
            r = (1.0 - self.gamma) * seeds
            for _ in range(_ROUNDS):
                new = (
                    self.gamma * ((entries * r) ** self.p).sum(axis=1) ** (1.0 / self.q)
                    + (1.0 - self.gamma) * seeds
                )
                settled, r = bool(np.abs(new - r).max() <= 1e-17 * r.max()), new
                if settled:
                    break
            answers.append(r)
        return np.concatenate(answers)

    def definition(self, x: Array) -> float:
        """Return the distance of x and γU(x) + (1−γ)s from their formulas, link by link; it is 0 at the answer."""
        from convexrank.problems._plain import links_of

        n, links, distances = self.graph.n, links_of(self.graph), []
        sides = [(links, self.trusted.tolist())]
        if self.distrusted is not None:  # the same against the links
            backwards = [(target, source, weight) for source, target, weight in links]
            sides.append((backwards, self.distrusted.tolist()))
        for part, (side, seeds) in enumerate(sides):
            r, out = [float(trust) for trust in x[part * n : (part + 1) * n]], [0.0] * n
            for source, _, weight in side:
                out[source] += weight
            into: list[list[float]] = [[] for _ in range(n)]
            for source, target, weight in side:
                if weight > 0.0:
                    into[target].append(weight * r[source] / out[source])
            image = []
            for i in range(n):
                # over the largest term: a power of a small number is 0 in floats
                top = max(into[i], default=0.0)
                total = sum((term / top) ** self.p for term in into[i]) if top > 0.0 else 0.0
                power = top ** (self.p / self.q) * total ** (1.0 / self.q)
                image.append(self.gamma * power + (1.0 - self.gamma) * seeds[i])
            apart = [abs(image[i] - r[i]) for i in range(n)]
            if self.p == self.q:
                top = max(apart)
                total = sum((entry / top) ** self.p for entry in apart) if top > 0.0 else 0.0
                distances.append(top * total ** (1.0 / self.p))
            elif any((image[i] > 0.0) != (r[i] > 0.0) for i in range(n)):
                distances.append(math.inf)
            else:
                both = [i for i in range(n) if r[i] > 0.0]
                distances.append(max((abs(math.log(r[i] / image[i])) for i in both), default=0.0))
        return max(distances)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, least=2)
        seeds = rng.random((2, graph.n)) * (rng.random((2, graph.n)) < 0.3)
        seeds[:, rng.integers(graph.n)] += 0.5
        p, theta = float(rng.choice([1.0, 2.0, 4.0])), float(rng.choice([1.0, 1.0, 0.8, 0.5]))
        both = bool(rng.integers(2))
        return cls(graph, seeds[0], seeds[1] if both else None, float(rng.choice([0.5, 0.85])), p, p / theta)


def _norm(values: Array, p: float) -> float:
    """The L_p norm, of values relative to the largest: p-th powers of small ones are 0 in floating point."""
    top = float(np.abs(values).max(initial=0.0))
    return top * float(np.linalg.norm(values / top, p)) if 0.0 < top < math.inf else top
