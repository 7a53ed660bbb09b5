"""What all kinds of sets of recommendations share."""

from __future__ import annotations

import numpy as np

from convexrank.consensus.projections.all_nodes import Projector

__all__ = ["RecommendationSets"]

Array = np.ndarray


class RecommendationSets:
    r"""For every node a closed convex set :math:`T_i` of distributions over the nodes.

    Base class of :class:`~convexrank.consensus.CandidateSets`, :class:`~convexrank.consensus.Polytopes` and
    :class:`~convexrank.consensus.PartialOrders`. With the teleport absorbed a set is
    :math:`\alpha T_i + (1-\alpha)v`, as in (5.38).

    Examples
    --------
    >>> import convexrank as cr
    >>> sets = cr.consensus.CandidateSets([[[0, 1, 0], [0, 0, 1]], [[1, 0, 0]], [[0.5, 0.5, 0]]])
    >>> isinstance(sets, cr.consensus.RecommendationSets), sets.n
    (True, 3)
    """

    @property
    def n(self) -> int:
        """Number of nodes."""
        raise NotImplementedError

    def vertices(self, node: int) -> Array:
        """Return distributions whose mixtures are the set of a node, shape (k, n)."""
        raise NotImplementedError

    def listed(self, node: int) -> Array | None:
        """Return the same where they can be listed in little time, else None."""
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
        r"""Return the projection of all nodes at once, for many uses: what kinds of sets can share is set up here.

        It takes θ, shape (n,) or one row for each node, and returns the projections, one in each row.
        """
        return lambda theta: np.array(
            [
                self.nearest(node, theta if theta.ndim == 1 else theta[node], alpha, teleport)
                for node in range(self.n)
            ]
        )
