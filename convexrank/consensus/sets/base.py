"""Base class of all kinds of sets of recommendations."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.consensus.projections.all_nodes import Projector
from convexrank.data import check_flag, check_vector
from convexrank.data.nodes import as_series

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
