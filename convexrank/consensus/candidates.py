"""Sets of recommendations: their base class, those given by their candidates, and sets with the teleport absorbed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.consensus.projections import Pairs, Projector, at, nearest_in_hull
from convexrank.data import (
    check_choice,
    check_distributions,
    check_flag,
    check_list,
    check_node,
    check_vector,
    in_node_order,
    index_of,
    read_array,
)
from convexrank.data.nodes import as_series, called, check_names
from convexrank.graphs import Graph, LabelledGraph
from convexrank.graphs.transition import check_alpha, distribution, scaled

Array = np.ndarray


class RecommendationSets:
    r"""For every node a closed convex set :math:`T_i` of distributions over the nodes.

    Base class of :class:`~convexrank.consensus.CandidateSets`, :class:`~convexrank.consensus.Polytopes` and
    :class:`~convexrank.consensus.PartialOrders`. Including the teleport, a set is
    :math:`\alpha T_i + (1-\alpha)v`, as in (5.38).

    Examples
    --------
    >>> import convexrank as cr
    >>> sets = cr.consensus.CandidateSets([[[0, 1, 0], [0, 0, 1]], [[1, 0, 0]], [[0.5, 0.5, 0]]])
    >>> isinstance(sets, cr.consensus.RecommendationSets), sets.n
    (True, 3)
    """

    #: What the nodes are called, or None.
    names: Any = None

    @property
    def n(self) -> int:
        """Number of nodes."""
        raise NotImplementedError

    def series(self, values: Any, *, sort: bool = False, name: str = "rank") -> Any:
        """Return one value for each node as a pandas Series with the names of the nodes, or their numbers.

        Parameters
        ----------
        values : array-like, shape (n,)
            One value for each node, such as :meth:`ConsensusRank.ranks <convexrank.problems.ConsensusRank.ranks>` of a
            solution.
        sort : bool
            Whether to sort with the highest value first.
        name : str
            Name of the series.
        """
        vector = check_vector(values, self.n, "values", each="node")
        return as_series(vector, self.names or range(self.n), name, check_flag(sort, "sort"))

    def vertices(self, node: int) -> Array:
        """Return distributions whose mixtures are the set of a node, shape (k, n)."""
        raise NotImplementedError

    def listed(self, node: int) -> Array | None:
        """Return the vertices if they can be listed in little time, else None."""
        return self.vertices(node)

    def system(self, node: int) -> tuple[Array, Array, Array, Array] | None:
        """Return A, b, lower, upper of {t : At ≤ b, lower ≤ t ≤ upper, Σt = 1}, or None where the set is a hull."""
        raise NotImplementedError

    def nearest(self, node: int, theta: Array, alpha: float, teleport: Array) -> Array:
        r"""Project in the KL divergence: :math:`\operatorname{argmin} \sum_j p_j\log p_j - \langle p,\theta\rangle`.

        θ, shape (n,), is the logarithm of the distribution that is projected, up to a constant; the result p is in
        αT_i + (1−α)v, where α is the probability of following a recommendation and v > 0 the teleport.
        """
        raise NotImplementedError

    def projector(self, alpha: float, teleport: Array) -> Projector:
        r"""Return a function that projects for all nodes at once, with common preparation for many calls.

        It takes θ, shape (n,) or one row for each node, and returns the projections, one in each row.
        """
        return lambda theta: np.array(
            [
                self.nearest(node, theta if theta.ndim == 1 else theta[node], alpha, teleport)
                for node in range(self.n)
            ]
        )


_DANGLING = {"error": "refused", "uniform": "recommends every node alike"}


@dataclass(frozen=True, eq=False)
class CandidateSets(RecommendationSets):
    r"""Each node recommends a mixture of its candidates, :math:`T_i = \operatorname{conv}\{c_{i1},\dots,c_{ik_i}\}`.

    Parameters
    ----------
    candidates : sequence of array-like, each of shape (k_i, n) or (n,)
        One entry for each node; its rows are distributions over the n nodes, the teleport not included.
    names : sequence, optional
        Names of the nodes; by default those of the graph, if the sets come from a graph.

    Raises
    ------
    ValueError, TypeError
        When a node has no candidate, a row does not sum to one, or has a negative entry; the node is named.

    Examples
    --------
    >>> import convexrank as cr
    >>> sets = cr.consensus.CandidateSets([[[0, 1, 0], [0, 0, 1]], [[1, 0, 0]], [0.5, 0.5, 0]])
    >>> [len(sets.vertices(node)) for node in range(sets.n)]
    [2, 1, 1]
    >>> cr.consensus.CandidateSets([[[0.5, 0.4]], [[1.0, 0.0]]])
    Traceback (most recent call last):
    ValueError: row 0 of candidates[0] adds up to 0.9, expected 1: a distribution. Divide it by its sum; ...
    """

    candidates: tuple[Any, ...]
    names: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given = check_list(self.candidates, "candidates", "arrays, one for each node")
        if not given:
            raise ValueError(
                "candidates is empty, expected one array of shape (k, n) for each of the n nodes."
            )
        names = check_names(self.names, len(given))
        object.__setattr__(self, "names", names)
        checked = []
        for node, rows in enumerate(given):
            if np.size(rows) == 0:
                raise ValueError(
                    f"candidates is incomplete: node {called(names, node)} has no candidate in its sets; give it one, "
                    "such as the uniform distribution for a node without links."
                )
            values = check_distributions(rows, len(given), f"candidates[{node}]")
            values.flags.writeable = False
            checked.append(values)
        object.__setattr__(self, "candidates", tuple(checked))

    @classmethod
    def from_labelled(cls, graph: LabelledGraph, *, dangling: str = "uniform") -> Self:
        """Take one candidate from each type of edge that leaves a node.

        Parameters
        ----------
        graph : LabelledGraph
            The graph.
        dangling : {"uniform", "error"}
            Treatment of a node without edges: a uniform recommendation of all nodes, as in PageRank, or an error.

        Raises
        ------
        ValueError, TypeError
            When a node has no edge and ``dangling`` is "error", or ``graph`` is not a LabelledGraph.
        """
        check_choice(dangling, _DANGLING, "dangling")
        if not isinstance(graph, LabelledGraph):
            raise TypeError(f"graph is a {type(graph).__name__}, expected a convexrank.LabelledGraph.")
        rows = graph.all_candidates()
        bare = [node for node, own in enumerate(rows) if len(own) == 0]
        if bare and dangling == "error":
            raise ValueError(
                f"node {called(graph.names, bare[0])} has no edge out of it ({len(bare)} such nodes), so nothing to "
                'recommend; CandidateSets.from_labelled(graph, dangling="uniform") lets it recommend all nodes alike.'
            )
        uniform = np.full((1, graph.n), 1.0 / graph.n)
        return cls(tuple(own if len(own) else uniform for own in rows), names=graph.names)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.candidates)

    def vertices(self, node: int) -> Array:
        """Return the candidates of a node, shape (k, n).

        Raises
        ------
        ValueError, TypeError
            When there is no such node.
        """
        return self.candidates[check_node(node, self.n)]

    def system(self, node: int) -> None:
        """Return None: the sets are hulls."""

    def nearest(self, node: int, theta: Array, alpha: float, teleport: Array) -> Array:
        """Project on the hull: by bisection for two candidates, by Newton's method for more."""
        return nearest_in_hull(alpha * self.candidates[node] + (1.0 - alpha) * teleport, theta)

    def projector(self, alpha: float, teleport: Array) -> Projector:
        """Return the projection of all nodes: single candidates are as they are, pairs go together, more one by one."""
        absorbed = [alpha * own + (1.0 - alpha) * teleport for own in self.candidates]
        points = np.array([own[0] for own in absorbed])
        two = np.array([node for node, own in enumerate(absorbed) if len(own) == 2], dtype=np.int64)
        more = [node for node, own in enumerate(absorbed) if len(own) > 2]
        pairs = Pairs.of(points[two], np.array([absorbed[node][1] for node in two]).reshape(len(two), self.n))

        def project(theta: Array) -> Array:
            found = points.copy()
            found[two] = pairs.nearest(at(theta, two[pairs.rows], pairs.columns))
            for node in more:
                found[node] = nearest_in_hull(absorbed[node], theta if theta.ndim == 1 else theta[node])
            return found

        return project


def as_sets(sets: Any) -> RecommendationSets:
    """Accept sets, a labelled graph, or a list with the candidates of each node."""
    if isinstance(sets, RecommendationSets):
        return sets
    listed = isinstance(sets, list | tuple) or (isinstance(sets, np.ndarray) and bool(sets.ndim))
    if listed or isinstance(sets, LabelledGraph):
        try:
            if isinstance(sets, LabelledGraph):
                return CandidateSets.from_labelled(sets)
            return CandidateSets(tuple(sets))
        except (TypeError, ValueError) as error:
            raise (TypeError if isinstance(error, TypeError) else ValueError)(f"sets: {error}") from error
    if isinstance(sets, Graph):
        raise TypeError(
            "sets is a Graph, whose nodes have one recommendation each; Polytopes.around(graph, 0.1) lets each share "
            "vary by a tenth."
        )
    raise TypeError(
        f"sets is a {type(sets).__name__}, expected CandidateSets, Polytopes, PartialOrders, a LabelledGraph, or a "
        "list with the candidates of each node."
    )


@dataclass(frozen=True, eq=False)
class Absorbed:
    r"""The sets :math:`\alpha T_i + (1-\alpha)v`.

    Parameters
    ----------
    sets : RecommendationSets
        The sets T_i.
    alpha : float
        Probability of following a recommendation.
    teleport : ndarray, shape (n,)
        The distribution v > 0.
    """

    sets: RecommendationSets
    alpha: float
    teleport: Array

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.sets.n

    @cached_property
    def owners(self) -> Array:
        """The node that each candidate belongs to, shape (K,), in order."""
        counts = [len(self.sets.vertices(node)) for node in range(self.n)]
        return np.repeat(np.arange(self.n), counts)

    @cached_property
    def candidates(self) -> Array:
        """The candidates, or corners, of all nodes with the teleport absorbed, shape (K, n)."""
        listed = np.concatenate([self.sets.vertices(node) for node in range(self.n)])
        return self.alpha * listed + (1.0 - self.alpha) * self.teleport

    @cached_property
    def _projector(self) -> Projector:
        return self.sets.projector(self.alpha, self.teleport)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the projector, which holds functions; it is made again when it is needed."""
        return {name: value for name, value in vars(self).items() if name != "_projector"}

    def nearest(self, theta: Array) -> Array:
        r"""Project :math:`e^\theta` on the set of every node, shape (n, n): row i minimises Σp log p − ⟨p, θ⟩.

        θ has the shape (n,), or (n, n) for a row of its own a node.
        """
        return self._projector(theta)

    def mixtures(self, shares: Array) -> Array:
        """Return the recommendation of every node for given shares of its candidates, shape (n, n)."""
        P = np.zeros((self.n, self.n))
        np.add.at(P, self.owners, shares[:, None] * self.candidates)
        return P

    def random(self, rng: np.random.Generator) -> Array:
        """Draw a recommendation for every node: the projection of a random distribution."""
        return self.nearest(3.0 * rng.normal(size=self.n))


def absorb(sets: Any, alpha: float, personalization: Any) -> Absorbed:
    """Validate, and absorb the teleport."""
    chosen, share = as_sets(sets), check_alpha(alpha)
    n = chosen.n
    if personalization is None:
        return Absorbed(chosen, share, np.full(n, 1.0 / n))
    weights = _weights(personalization, n, chosen.names)
    teleport = scaled(weights, "personalization")
    vanishing = (1.0 - share) * teleport < np.finfo(np.float64).tiny
    if vanishing.any():
        node = int(np.argmax(vanishing))
        raise ValueError(
            f"personalization is {weights[node]:g} at node {called(chosen.names, node)}, expected weights with shares "
            "greater than 0: a score of 0 has no logarithm, which the divergence needs."
        )
    return Absorbed(chosen, share, teleport)


def _weights(personalization: Any, n: int, names: tuple[Any, ...] | None) -> Array:
    """Weights of all nodes in their order, however they are given."""
    if isinstance(personalization, Mapping):
        return distribution(n, names, personalization, "personalization")
    if index_of(personalization) is None:
        personalization = read_array(personalization, "personalization")
    ordered = in_node_order(personalization, n, names, "personalization", whole=True)
    return np.array(check_vector(ordered, n, "personalization", each="node"))
