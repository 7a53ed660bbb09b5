r"""Proofs for fixed points on graphs: a map that contracts by a factor c moves x by d, so the fixed point is near.

.. math:: \frac{d(x, U(x))}{1+c} \;\le\; d(x, x^*) \;\le\; \frac{d(x, U(x))}{1-c}

The maps are evaluated over balls edge by edge, each from its definition; O(n + m) balls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from convexrank.core.results import Certificate, CertificateError
from convexrank.proof.balls import (
    ONE,
    ZERO,
    Balls,
    above,
    arb,
    at_precision,
    below,
    dot,
    exact,
    greatest,
    power,
    total,
)

Array = np.ndarray

_BITS = (64, 128, 256, 512, 1024)
_SHARE, _NOTHING = 0.01, 1e-25


def prove_distance(
    moved: Callable[[], arb], factor: Callable[[], arb], metric: str, most: Callable[[], arb] | None = None
) -> Certificate:
    """Return a proved certificate of kind "distance".

    Parameters
    ----------
    moved : callable
        Encloses the distance of the point to its image.
    factor : callable
        Encloses the factor of the contraction.
    metric : str
        The metric of the distance.
    most : callable, optional
        Encloses a bound on the distance that is known without the map.

    Raises
    ------
    CertificateError
        When the distance is not finite.
    """
    gap, least = math.inf, 0.0
    for bits in _BITS:
        with at_precision(bits):
            step, share = moved(), factor()
            found = step / (1 - share) if most is None else (step / (1 - share)).min(most())
            gap, least = above(found), max(below(step / (1 + share)), 0.0)
            if above(found.rad()) <= max(_SHARE * abs(float(found)), _NOTHING):
                break
    if not math.isfinite(gap):
        raise CertificateError(
            "the point is infinitely far from its image: its zeros are not those of the solution."
        )
    return Certificate(gap, math.nan, -math.inf, kind="distance", metric=metric, proved=True, least=least)


@dataclass(frozen=True)
class Links:
    """Edges by target, as plain lists: for each node the sources, and weight over total weight of the source.

    Parameters
    ----------
    sources : list of list of int
        Sources of the edges into each node.
    shares : list of list of arb
        The weight of each edge over what its source's weights are divided by.
    dangling : list of int
        Nodes without an edge out of them.
    """

    sources: list[list[int]]
    shares: list[Balls]
    dangling: list[int]

    @classmethod
    def of(cls, graph: Any, floor: float | None = None) -> Links:
        """Read a graph; ``floor`` is the least that weights are divided by."""
        sources, ends = graph.sources.tolist(), graph.offsets.tolist()
        weights = [1] * len(sources) if graph.weights is None else graph.weights.tolist()
        out = [ZERO] * graph.n
        for source, weight in zip(sources, weights, strict=True):
            out[source] = out[source] + weight
        dangling = [node for node, whole in enumerate(out) if whole.is_zero()]
        if floor is not None:
            out = [whole.max(arb(floor)) for whole in out]
        shares = [weight / out[source] for source, weight in zip(sources, weights, strict=True)]
        cuts = list(pairwise(ends))
        return cls([sources[a:b] for a, b in cuts], [shares[a:b] for a, b in cuts], dangling)

    def sums(self, sent: Balls, shares: Sequence[Balls] | None = None) -> Balls:
        """Return the sum of share times what is sent over the edges into each node."""
        parts = zip(self.sources, shares or self.shares, strict=True)
        return [dot((sent[node] for node in nodes), some) for nodes, some in parts]


def normalised(weights: Array) -> Balls:
    """Return weights over their sum, which floats miss by rounding."""
    entries = exact(weights)
    whole = total(entries)
    return [entry / whole for entry in entries]


@dataclass(frozen=True)
class Walk:
    """PageRank's walk.

    Parameters
    ----------
    graph : Graph
        The graph.
    alpha : float
        Probability of following a link.
    teleport : ndarray or None
        The distribution of restarts; None means uniform.
    dangling : str or ndarray
        Where dangling nodes send: teleport, uniform, drop, or a distribution.
    """

    graph: Any
    alpha: float
    teleport: Array | None
    dangling: str | Array

    @cached_property
    def links(self) -> Links:
        """The edges."""
        return Links.of(self.graph)

    @cached_property
    def back(self) -> Balls:
        """The distribution of the teleport."""
        return self._uniform if self.teleport is None else normalised(self.teleport)

    @property
    def _uniform(self) -> Balls:
        return [ONE / self.graph.n] * self.graph.n

    @cached_property
    def escape(self) -> Balls:
        """Destination of the rank of dangling nodes."""
        if not isinstance(self.dangling, str):
            return normalised(self.dangling)
        nowhere = [ZERO] * self.graph.n
        return {"teleport": self.back, "uniform": self._uniform, "drop": nowhere}[self.dangling]

    def image(self, point: Balls, whole: arb | None = None) -> Balls:
        """Enclose αTw + (1−α)v·1ᵀw; ``whole`` is the sum of w if it is known better than the entries tell."""
        alpha, whole = arb(self.alpha), total(point) if whole is None else whole
        lost = total(point[node] for node in self.links.dangling)
        parts = zip(self.links.sums(point), self.escape, self.back, strict=True)
        return [alpha * (flow + lost * out) + (1 - alpha) * whole * back for flow, out, back in parts]

    def pulled(self, s: Balls) -> Balls:
        """Enclose the product with the transposed matrix."""
        alpha, level = arb(self.alpha), (1 - arb(self.alpha)) * dot(self.back, s)
        found, lost = [ZERO] * len(s), dot(self.escape, s)
        for target, (nodes, shares) in enumerate(zip(self.links.sources, self.links.shares, strict=True)):
            for node, share in zip(nodes, shares, strict=True):
                found[node] = found[node] + share * s[target]
        for node in self.links.dangling:
            found[node] = lost
        return [alpha * entry + level for entry in found]

    def columns(self) -> list[Balls]:
        """Enclose the columns of the matrix: where each node sends; n² balls."""
        alpha, n = arb(self.alpha), self.graph.n
        lost = [alpha * out + (1 - alpha) * back for out, back in zip(self.escape, self.back, strict=True)]
        found = [[(1 - alpha) * back for back in self.back] for _ in range(n)]
        for node in self.links.dangling:
            found[node] = lost
        for target, (nodes, shares) in enumerate(zip(self.links.sources, self.links.shares, strict=True)):
            for node, share in zip(nodes, shares, strict=True):
                found[node][target] = found[node][target] + alpha * share
        return found


def walk_residual(walk: Walk, w: Array) -> arb:
    """Enclose ‖αTw + (1−α)v − w‖₁."""
    point, fresh = exact(w), replace(walk)  # with the precision that is set now
    return total(abs(moved - x) for moved, x in zip(fresh.image(point, ONE), point, strict=True))


def norm_image(rank: Any, r: Array) -> Balls:
    """Enclose U(r) of an L_{p,q} rank, (6.1) with the weak links where ``rank.weak_links`` says; not normalised.

    Parameters
    ----------
    rank : LpqRank
        The problem: its arguments are read, none of its code.
    r : ndarray, shape (n,)
        Positive ranks.
    """
    n, alpha, p, point = rank.graph.n, arb(rank.alpha), rank.p, exact(r)
    links, weak, whole = Links.of(rank.graph, rank.outdegree_floor), (1 - alpha) / n, total(point)
    theta = arb(rank.theta or 1.0) if math.isinf(p) else arb(p) / arb(rank.q)
    dangling = set(links.dangling)
    if rank.weak_links == "inside":
        common = [(weak + alpha / n if j in dangling else weak) * x for j, x in enumerate(point)]
        terms = [[alpha * share + weak for share in some] for some in links.shares]
    elif rank.weak_links == "entry":
        common = [*(alpha / n * point[j] for j in links.dangling), weak * whole]
        terms = [[alpha * share for share in some] for some in links.shares]
    else:
        common, terms = [point[j] / n for j in links.dangling], links.shares
    beneath = weak if rank.weak_links == "inside" else ZERO
    if math.isinf(p):
        base = greatest([ZERO, *common])
        norms = [
            greatest([base, *(share * point[j] for share, j in zip(some, nodes, strict=True))])
            for some, nodes in zip(terms, links.sources, strict=True)
        ]
        images = [power_of(norm, theta) for norm in norms]
    else:
        base = total(power(entry, p) for entry in common)
        sent = [x**p for x in point]
        under = power(beneath, p)
        powers = [[power(share, p) - under for share in some] for some in terms]
        images = [power_of(base + flow, theta / arb(p)) for flow in links.sums(sent, powers)]
    if rank.weak_links != "outside":
        return images
    return [alpha * image + weak * whole**theta for image in images]


def power_of(x: arb, exponent: arb) -> arb:
    """Enclose x to a power that is a ball, for an x that is not negative."""
    return x**exponent if x > 0 else (ZERO if x.is_zero() else ZERO.union(x.upper() ** exponent))


def trust_image(graph: Any, x: Array, seeds: Array, gamma: float, p: float, q: float) -> Balls:
    """Enclose γU(x) + (1−γ)s, U the L_{p,q} map of the links alone."""
    links, point, share = Links.of(graph), exact(x), arb(gamma)
    sent = [power(entry, p) for entry in point]
    flows = links.sums(sent, [[power(entry, p) for entry in some] for some in links.shares])
    parts = zip(flows, normalised(seeds), strict=True)
    return [share * power_of(flow, 1 / arb(q)) + (1 - share) * seed for flow, seed in parts]


def hilbert(x: Array, image: Balls) -> arb:
    """Enclose Hilbert's distance, max log(a/b) − min log(a/b), of positive vectors."""
    ratios = [(b / a).log() for a, b in zip(exact(x), image, strict=True)]
    return greatest(ratios) + greatest([-ratio for ratio in ratios])


def thompson(x: Array, image: Balls) -> arb:
    """Enclose Thompson's distance, max |log(a/b)|; infinite where zeros are at other places."""
    moved = [ZERO]
    for a, b in zip(exact(x), image, strict=True):
        if a.is_zero() != b.is_zero():
            return arb.pos_inf()
        if not a.is_zero():
            moved.append(abs((b / a).log()))
    return greatest(moved)


def lp_norm(x: Array, image: Balls, p: float) -> arb:
    """Enclose ‖a − b‖_p."""
    gaps = [abs(a - b) for a, b in zip(exact(x), image, strict=True)]
    return power_of(total(power(gap, p) for gap in gaps), 1 / arb(p))
