"""The L_{p,q} rank: PageRank with a norm in place of the sum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.progress import warn_caller
from convexrank.consensus import ScoreIntervals
from convexrank.core.capabilities import CertifiedInParts, Ordered
from convexrank.core.results import Certificate, CertificateError, Solution, Witness
from convexrank.data import check_choice, check_flags, check_positive, check_real, check_vector, keep_checked
from convexrank.data.nodes import names_of
from convexrank.graphs import Graph
from convexrank.graphs.build import nth_range
from convexrank.graphs.lpq_map import NormMap, NormPart
from convexrank.graphs.transition import check_alpha
from convexrank.problems.graph_ranks._base import GraphRank, certified_prefix, random_graph
from convexrank.problems.graph_ranks._lpq_reference import dense_rank, log_image
from convexrank.solvers.graph_faces import NormFixedPoint, NormSweeps

Array = np.ndarray

_WEAK_LINKS = {
    "inside": "an entry (1−α)/N·r_j in the norm for every j, under the links",
    "entry": "one entry (1−α)/N·‖r‖₁ in the norm",
    "outside": "(1−α)/N·‖r‖₁^θ beside the norm",
}
# Above this θ the scale of the ranks, which sweeps need and the map does not, converges too slowly.
_SWEPT = 0.95
# Rounding of a logarithm, and of a sum of logarithms, in units of float64's precision.
_ROUNDING = 32.0 * np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class LpqRank(GraphRank):
    r"""The fixed point of :math:`r_i \propto \|(a_{ij} r_j)_j\|_p^{\theta}`, θ = p/q, with weak links.

    With :math:`a_{ij} = w_{ij}/d_j` on the links j → i, 1/N for a dangling j, and :math:`b = (1-\alpha)/N`, the rank
    is

    .. math::
        r = \frac{U(r)}{\|U(r)\|_1}, \qquad U(r)_i = \begin{cases}
        \bigl\|\,(\alpha a_{ij} + b)\, r_j\,\bigr\|_p^{\theta} & \text{inside} \\
        \bigl\|\,\bigl((\alpha a_{ij} r_j)_j,\; b\|r\|_1\bigr)\bigr\|_p^{\theta} & \text{entry} \\
        \alpha \bigl\|\,a_{ij} r_j\,\bigr\|_p^{\theta} + b\,\|r\|_1^{\theta} & \text{outside}
        \end{cases}

    for each value of ``weak_links``. At p = q = 1 each is :class:`PageRank`. The formula in the paper is "inside" with
    an unspecified constant of the sum; taken literally it is not PageRank.

    θ < 1 makes the map a contraction with factor θ in Hilbert's projective metric
    :math:`d_H(r, s) = \max_i \log(r_i/s_i) - \min_i \log(r_i/s_i)`, for every graph, p and α: the rank is unique and
    reached from any positive start, and for any positive r

    .. math:: d_H(r, r^*) \le d_H(r, U(r)) / (1-\theta), \qquad \|r - r^*\|_1 \le 2\tanh(d_H(r, r^*)/4).

    So ``tol`` bounds the true error in that metric: all ratios of ranks are right up to a factor e^tol, and the order
    of two nodes is proved when the ratio of their ranks is larger (:meth:`certified_top`). For θ = 1 there is a
    warning, and the certificate is only a residual. For θ > 1 there may be several fixed points, and it is an error
    unless ``allow_expansive`` is true.

    Powers are taken once per node, relative to the largest: p = 50 does not overflow, and an iteration costs little
    more than one of PageRank, O(n + m).

    Parameters
    ----------
    graph : Graph
        The graph.
    p, q : float
        The norms, at least 1. p may be infinite (the maximum); then q is infinite too, and ``theta`` is the limit of
        p/q.
    alpha : float
        Weight of the links, in [0, 1).
    weak_links : {"inside", "outside", "entry"}
        The place of the weak links in the formula.
    outdegree_floor : float, optional
        A lower bound on the divisor, which otherwise is the out-degree. With p > 1, two pages that link only to each
        other rank first in almost every graph; a floor prevents this for finite p.
    theta : float, optional
        The limit θ of p/q for infinite p; 1 by default.
    allow_expansive : bool
        Whether θ > 1 is allowed.

    Raises
    ------
    ValueError, TypeError
        When p or q is below 1 or NaN, α is outside [0, 1), or θ > 1.

    Warns
    -----
    UserWarning
        When θ = 1.

    References
    ----------
    Dissertation on learning to rank, section 6.1, equation (6.1), figure 6.1 and its footnote. The contraction:
    G. Birkhoff, Extensions of Jentzsch's theorem, Transactions of the AMS 85 (1957).

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    >>> problem = cr.problems.LpqRank(graph, p=4, q=4.8)
    >>> solution = problem.solve()
    >>> solution
    Solution: CONVERGED (ordered-sweeps, 9 steps, 0.035 s), distance 7e-09 certified (Hilbert's projective metric)
    >>> problem.certified_top(solution).tolist()
    [0, 2, 1, 3]
    """

    graph: Graph
    p: float
    q: float
    alpha: float = 0.85
    weak_links: str = "inside"
    outdegree_floor: float | None = None
    theta: float | None = None
    allow_expansive: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(self)
        keep_checked(self, _exponent, "p", "q")
        keep_checked(self, check_alpha, "alpha")
        keep_checked(self, check_positive, "outdegree_floor")
        keep_checked(self, check_real, "theta")
        p, q = self.p, self.q
        check_choice(self.weak_links, _WEAK_LINKS, "weak_links")
        if math.isinf(p) != math.isinf(q):
            raise ValueError(
                f"p is {p:g} and q is {q:g}, expected both finite or both infinite; for the maximum pass p = q = inf "
                "and theta, what p/q tends to."
            )
        if math.isfinite(p) and self.theta is not None and self.theta != p / q:
            raise ValueError(
                f"theta is {self.theta}, but p/q = {p / q:g}; leave theta out where p is finite."
            )
        if math.isinf(p):
            keep_checked(self, check_positive, "theta")
        self._check_degree()

    def _check_degree(self) -> None:
        if self.modulus > 1.0 and not self.allow_expansive:
            raise ValueError(
                f"theta = p/q is {self.modulus:g}, expected at most 1: above it there may be several ranks, and "
                "which one is found depends on the start; raise q, or pass allow_expansive=True."
            )
        if self.modulus == 1.0 and not self.p == 1.0:
            warn_caller(
                "theta = p/q is 1: the map is no contraction, convergence may be slow or fail, and nothing is proved "
                "about the answer; q a little above p has a unique, certified rank."
            )

    @property
    def modulus(self) -> float:
        """The contraction factor θ of the map in Hilbert's metric."""
        if math.isfinite(self.p):
            return self.p / self.q
        return 1.0 if self.theta is None else self.theta

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of the capabilities; a certificate for θ < 1 only."""
        names = {"FixedPoint", "Referenced", "NormFixedPoint"}
        if self.modulus >= 1.0:
            return frozenset(names)
        if math.isfinite(self.p) and self.graph.pages is None:
            names |= {"NormSweeps"}
        return frozenset(names | {"Certified", "CertifiedInParts", "Ordered"})

    @property
    def default_solver(self) -> str:
        """Name of the default solver."""
        return "ordered-sweeps" if self.modulus <= _SWEPT and "NormSweeps" in self.capabilities else "power"

    @cached_property
    def degrees(self) -> Array:
        """The divisor of a node's links: its weight, or the floor if that is larger; 0 for a dangling node."""
        out = self.graph.out_weight
        if self.outdegree_floor is None:
            return out
        return np.where(out > 0.0, np.maximum(out, self.outdegree_floor), 0.0)

    @cached_property
    def norm_map(self) -> NormMap:
        """The map U, not normalised."""
        return NormMap(self.graph, self.p, self.modulus, self.alpha, self.weak_links, self.degrees)

    def start(self) -> Array:
        """Return the uniform distribution."""
        return np.full(self.graph.n, 1.0 / self.graph.n)

    def check_point(self, x: Any, name: str = "x") -> Array:
        """Return x as a vector of positive ranks; for a Solution its point."""
        r = check_vector(x.x if isinstance(x, Solution) else x, self.dimension, name)
        if not (r > 0.0).all():
            place = int(np.argmin(r))
            raise ValueError(f"{name}[{place}] is {r[place]:g}, expected ranks greater than 0.")
        return r

    def _norm_sweeps(self) -> NormSweeps:
        return NormSweeps(self.norm_map)

    def _norm_fixed_point(self) -> NormFixedPoint:
        return NormFixedPoint(self.graph, (NormPart(self.norm_map, None, 0.0),))

    def _certified_in_parts(self) -> CertifiedInParts:
        return CertifiedInParts(self._certificate_part, self._certificate_of_parts)

    def apply_map(self, x: Array) -> Array:
        """Return U(x)/‖U(x)‖₁. O(n + m)."""
        image = self.norm_map(np.ascontiguousarray(x, dtype=np.float64))
        image /= image.sum()
        return image

    def distance(self, a: Array, b: Array) -> float:
        """Return Hilbert's distance; infinity where exactly one of two ranks is zero."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(a) - np.log(b)
        return math.inf if np.isnan(ratio).any() else float(np.ptp(ratio))

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound d_H(x, r*) by d_H(x, U(x))/(1 − θ), the map evaluated in logarithms edge by edge. O(m)."""
        r = self.check_point(x)
        return self._certificate_of_parts(r, self._certificate_part(r, 0, 1)[None])

    def _certificate_part(self, x: Array, part: int, parts: int) -> Array:
        """Return the smallest and the largest logarithm of U(x)/x over a part of the nodes."""
        first, last = nth_range(self.graph.offsets, part, parts)
        moved = log_image(self, x, first, last) - np.log(x[first:last])
        return np.array([moved.min(initial=math.inf), moved.max(initial=-math.inf)])

    def _certificate_of_parts(self, x: Array, parts: Array) -> Certificate:
        """Bound the distance by the range of the logarithms."""
        metric = "Hilbert's projective metric"
        moved = float(parts[:, 1].max() - parts[:, 0].min()) + _ROUNDING
        if self.modulus >= 1.0:
            return Certificate(float(moved), math.nan, -math.inf, kind="residual")
        return Certificate(
            float(moved / (1.0 - self.modulus)), math.nan, -math.inf, kind="distance", metric=metric
        )

    def prove(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Prove the same bound in ball arithmetic; see :mod:`convexrank.proof.graphs`. O(m) balls."""
        from convexrank.proof.balls import arb
        from convexrank.proof.graphs import hilbert, norm_image, prove_distance

        point = self.check_point(x)
        if self.modulus >= 1.0:
            raise CertificateError(
                f"theta = p/q is {self.modulus:g}: the map is no contraction, so that nothing bounds the distance to a "
                "rank; pass q > p."
            )
        return prove_distance(
            lambda: hilbert(point, norm_image(self, point)),
            lambda: arb(self.modulus) if math.isinf(self.p) else arb(self.p) / arb(self.q),
            "Hilbert's projective metric",
        )

    def l1_bound(self, distance: float) -> float:
        """Return the bound on ‖r − r*‖₁ that a bound on Hilbert's distance gives, 2·tanh(distance/4)."""
        return 2.0 * math.tanh(0.25 * distance)

    def certified_top(self, x: Any, k: int = 10) -> Array:
        """Return the longest list of first nodes, at most k, whose order is proved at x.

        Parameters
        ----------
        x : ndarray or Solution
            The point.
        k : int
            Largest number of nodes.

        Returns
        -------
        ndarray
            Names of nodes, or numbers if they have no names, from the highest rank on; each node is proved to rank
            above all nodes that follow, in the list or not. ``graph.numbers`` converts names to numbers.
        """
        r = self.check_point(x)
        return names_of(self.graph.names, self.proved_top(r, self._bound(r), k))

    def score_intervals(self, x: Any) -> ScoreIntervals:
        """Return an interval for the rank of each node: right up to a factor exp(d) for a distance of d.

        Parameters
        ----------
        x : ndarray or Solution
            The point.

        Returns
        -------
        ScoreIntervals
            The intervals of all nodes; from 0 to 1 for θ = 1, where no bound is known.
        """
        r = self.check_point(x)
        logs, bound = np.log(r) - math.log(math.fsum(r)), self._bound(r) + _ROUNDING
        ends = np.exp([logs - bound, np.minimum(logs + bound, 0.0)])
        return ScoreIntervals(names_of(self.graph.names, np.arange(len(r))), *ends)

    def _bound(self, x: Array) -> float:
        """Hilbert's distance to the rank at most, infinite where nothing is proved."""
        certificate = self.certificate(x)
        return certificate.gap if certificate.kind == "distance" else math.inf

    def _ordered(self) -> Ordered:
        return Ordered(self.proved_top)

    def proved_top(self, x: Array, bound: float, k: int) -> Array:
        """Return the first nodes, at most k, whose order no error of up to ``bound`` in Hilbert's metric can change."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return certified_prefix(np.log(x), bound, k)

    def reference(self) -> Array:
        """Return the rank by iteration with a dense matrix of entries, O(n²) per round."""
        return dense_rank(self)

    def definition(self, x: Array) -> float:
        """Return Hilbert's distance of x and U(x) from their formulas, over all pairs of nodes; it is 0 at the rank."""
        from convexrank.problems._plain import links_of

        n, r, total = self.graph.n, [float(rank) for rank in x], float(math.fsum(x))
        theta = (1.0 if self.theta is None else self.theta) if math.isinf(self.p) else self.p / self.q
        a, degree, weak = [[0.0] * n for _ in range(n)], [0.0] * n, (1.0 - self.alpha) / n
        for source, _, weight in links_of(self.graph):
            degree[source] += weight
        for source, target, weight in links_of(self.graph):
            if weight > 0.0:
                a[target][source] += weight / max(degree[source], self.outdegree_floor or 0.0)
        for j in range(n):
            if degree[j] == 0.0:
                for i in range(n):
                    a[i][j] = 1.0 / n
        ratios = []
        for i in range(n):
            if self.weak_links == "inside":
                terms = [(self.alpha * a[i][j] + weak) * r[j] for j in range(n)]
            elif self.weak_links == "entry":
                terms = [*(self.alpha * a[i][j] * r[j] for j in range(n)), weak * total]
            else:
                terms = [a[i][j] * r[j] for j in range(n)]
            # over the largest entry: a power of a small number is 0 in floats
            norm = top = max(terms)
            if math.isfinite(self.p) and top > 0.0:
                norm = top * sum((term / top) ** self.p for term in terms) ** (1.0 / self.p)
            image = norm**theta
            if self.weak_links == "outside":
                image = self.alpha * image + weak * total**theta
            ratios.append(math.log(image) - math.log(r[i]))
        return max(ratios) - min(ratios)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance with θ < 1; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, least=2)
        p = float(rng.choice([1.0, 2.0, 4.0, 8.0, 50.0, np.inf]))
        theta = float(rng.choice([0.2, 0.5, 0.9]))
        weak, floor = str(rng.choice(list(_WEAK_LINKS))), rng.choice([0.0, 0.0, 3.0])
        return cls(
            graph, p, p if math.isinf(p) else p / theta, float(rng.choice([0.5, 0.85])), weak, float(floor) or None,
            theta if math.isinf(p) else None,
        )  # fmt: skip


def _exponent(value: Any, name: str) -> float:
    number = check_real(value, name)
    if not number >= 1.0:
        raise ValueError(f"{name} is {value}, expected a number of at least 1, or infinity.")
    return number
