"""Sets of recommendations with the teleport absorbed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.consensus.candidates import CandidateSets, RecommendationSets
from convexrank.consensus.projections import Projector
from convexrank.data import check_vector, in_node_order, index_of, read_array
from convexrank.data.nodes import called
from convexrank.graphs import Graph, LabelledGraph
from convexrank.graphs.transition import check_alpha, distribution

Array = np.ndarray


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
    chosen = as_sets(sets)
    n = chosen.n
    if personalization is None:
        teleport = np.full(n, 1.0 / n)
    else:
        teleport = _weights(personalization, n, chosen.names)
        if (teleport <= 0).any():
            node = int(np.argmax(teleport <= 0))
            raise ValueError(
                f"personalization is {teleport[node]:g} at node {called(chosen.names, node)}, expected weights "
                "greater than 0: a score of 0 has no logarithm, which the divergence needs."
            )
        teleport /= teleport.sum()
    return Absorbed(chosen, check_alpha(alpha), teleport)


def _weights(personalization: Any, n: int, names: tuple[Any, ...] | None) -> Array:
    """Weights of all nodes in their order, however they are given."""
    if isinstance(personalization, Mapping):
        return distribution(n, names, personalization, "personalization")
    if index_of(personalization) is None:
        personalization = read_array(personalization, "personalization")
    ordered = in_node_order(personalization, n, names, "personalization", whole=True)
    return np.array(check_vector(ordered, n, "personalization", each="node"))
