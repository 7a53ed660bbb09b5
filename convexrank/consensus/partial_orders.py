"""Sets of recommendations given by partial orders."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.consensus.candidates import RecommendationSets
from convexrank.consensus.polytopes import FEW_SYSTEMS, nearest_in_polytope
from convexrank.consensus.projections import Boxes, Projector, at, corners, count_systems, nearest_in_hull
from convexrank.data import check_integer, check_list, check_node, check_nodes
from convexrank.data.nodes import called, check_names

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class PartialOrders(RecommendationSets):
    r"""Each node has a partial order of preference, and recommends any distribution that agrees with it.

    .. math:: T_i = \{t \ge 0 : t_a \ge t_b \text{ whenever } i \text{ lists } a \text{ before } b,\;
              t_j = 0 \text{ outside its targets},\; \textstyle\sum_j t_j = 1\}

    Parameters
    ----------
    chains : sequence
        One entry for each node: a list of chains, each a list of node ids, the best first. A partial order is the union
        of its chains; a pair is a chain of two.
    n : int, optional
        Number of nodes; by default the number of entries.
    targets : sequence, optional
        One entry for each node: the ids that it may recommend, or None for those in its chains, which is the default.
    names : sequence, optional
        Names of the nodes; chains and targets may then list names.

    Raises
    ------
    ValueError, TypeError
        When a node has neither chain nor target, an id is out of range or repeated in a chain, or the numbers of
        entries differ. Chains that contradict each other make their nodes equal.

    Notes
    -----
    If no id is in two chains and the teleport is uniform over each chain, a projection takes one isotonic regression
    and one bisection. Otherwise it minimises over the hull of the vertices or, if they are many, uses Bregman's
    algorithm.

    Examples
    --------
    >>> import convexrank as cr
    >>> sets = cr.consensus.PartialOrders([[[1, 2]], [[2, 0]], [[0, 1]]])
    >>> sets.vertices(0).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.5, 0.5]]
    """

    chains: Any
    n: Any = None
    targets: Any = None
    names: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given = check_list(self.chains, "chains", "lists of chains, one for each node")
        n = len(given) if self.n is None else check_integer(self.n, "n", 1)
        if len(given) != n or n == 0:
            raise ValueError(
                f"chains has {len(given)} entries, expected {max(n, 1)}, a list of chains for each node."
            )
        allowed = (
            [None] * n if self.targets is None else check_list(self.targets, "targets", "lists of nodes")
        )
        if len(allowed) != n:
            raise ValueError(f"targets has {len(allowed)} entries, expected {n}, one for each node.")
        names = check_names(self.names, n)
        object.__setattr__(self, "names", names)
        read, ends = [], []
        for node, own in enumerate(given):
            mine = called(names, node)
            listed = tuple(
                tuple(check_nodes(c, n, f"chains[{node}]", names).tolist())
                for c in check_list(own, f"chains[{node}]", "chains")
            )
            named = sorted({j for chain in listed for j in chain})
            at = (
                named
                if allowed[node] is None
                else check_nodes(allowed[node], n, f"targets of node {mine}", names).tolist()
            )
            if not at:
                raise ValueError(
                    f"node {mine} has nothing in chains and in targets, so no target; pass targets for it."
                )
            if missing := [j for j in named if j not in at]:
                raise ValueError(
                    f"a chain of node {mine} has the node {called(names, missing[0])}, which is none of its targets."
                )
            read.append(listed)
            ends.append(tuple(sorted(at)))
        object.__setattr__(self, "chains", tuple(read))
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "targets", tuple(ends))

    @cached_property
    def _corners(self) -> dict[int, Array]:
        return {}

    def vertices(self, node: int) -> Array:
        """Return the corners of a node's set, shape (k, n): of one chain the uniform distributions on its first ids."""
        node = check_node(node, self.n)
        if node not in self._corners:
            self._corners[node] = self._find_vertices(node)
        return self._corners[node]

    def listed(self, node: int) -> Array | None:
        """Return the corners of one chain, or where few sets of constraints have to be tried; else None."""
        A, _, lower, upper = self.system(node)
        few = self._is_one_chain(node) or count_systems(A, lower, upper) <= FEW_SYSTEMS
        return self.vertices(node) if few else None

    def _is_one_chain(self, node: int) -> bool:
        """Return whether a node orders all of its targets."""
        return len(self.chains[node]) == 1 and len(self.chains[node][0]) == len(self.targets[node])

    def _find_vertices(self, node: int) -> Array:
        chains, targets = self.chains[node], self.targets[node]
        if self._is_one_chain(node):
            found = np.zeros((len(targets), self.n))
            for k in range(len(targets)):
                found[k, list(chains[0][: k + 1])] = 1.0 / (k + 1)
            return found
        return corners(*self.system(node), called(self.names, node))

    def system(self, node: int) -> tuple[Array, Array, Array, Array]:
        """Return A, b, lower, upper of a node."""
        pairs = [(a, b) for chain in self.chains[node] for a, b in pairwise(chain)]
        A = np.zeros((len(pairs), self.n))
        for row, (better, worse) in enumerate(pairs):
            A[row, better], A[row, worse] = -1.0, 1.0
        upper = np.zeros(self.n)
        upper[list(self.targets[node])] = 1.0
        return A, np.zeros(len(pairs)), np.zeros(self.n), upper

    def _pools(self, node: int, teleport: Array) -> bool:
        """Whether pooling within chains is exact: no id stands in two of them, and the teleport is even over each."""
        listed = [j for chain in self.chains[node] for j in chain]
        return len(set(listed)) == len(listed) and not any(
            np.ptp(teleport[list(chain)]) > 0.0 for chain in self.chains[node] if chain
        )

    def nearest(self, node: int, theta: Array, alpha: float, teleport: Array) -> Array:
        """Project: where chains are apart by pooling within each and a bisection, else over corners or by Bregman."""
        A, b, lower, upper = self.system(node)
        if not self._pools(node, teleport):
            if self._is_one_chain(node) or count_systems(A, lower, upper) <= FEW_SYSTEMS:
                return nearest_in_hull(alpha * self.vertices(node) + (1.0 - alpha) * teleport, theta)
            return nearest_in_polytope(A, b, lower, upper, theta, alpha, teleport)
        from convexrank.projections import isotonic

        # the same floor for all of a chain: the order is kept when what pooling gives is raised to it
        pooled = np.array(theta)
        for chain in self.chains[node]:
            at = list(chain)
            pooled[at] = isotonic(theta[at], increasing=False)
        return nearest_in_polytope(A[:0], b[:0], lower, upper, pooled, alpha, teleport)

    def projector(self, alpha: float, teleport: Array) -> Projector:
        """Return the projection of all nodes: where pooling is exact they go together, the others one by one."""
        from convexrank.projections import isotonic

        plain = np.array([node for node in range(self.n) if self._pools(node, teleport)], dtype=np.int64)
        others = sorted(set(range(self.n)) - set(plain.tolist()))
        upper = np.zeros((len(plain), self.n))
        for row, node in enumerate(plain):
            upper[row, list(self.targets[node])] = 1.0
        boxes = Boxes.between(
            np.tile((1.0 - alpha) * teleport, (len(plain), 1)), alpha * upper + (1.0 - alpha) * teleport
        )
        place = np.full((len(plain), self.n), -1)
        place[boxes.rows, boxes.columns] = np.arange(len(boxes.rows))
        chains = [place[row, list(chain)] for row, node in enumerate(plain) for chain in self.chains[node]]
        chains = [chain for chain in chains if len(chain) > 1 and chain[0] >= 0]
        members = np.concatenate(chains) if chains else np.zeros(0, dtype=np.int64)
        chain_of = np.repeat(np.arange(len(chains)), [len(chain) for chain in chains])

        def project(theta: Array) -> Array:
            pooled = at(theta, plain[boxes.rows], boxes.columns)
            if len(members):
                # the same floor for all of a chain: the order is kept when what pooling gives is raised to it
                pooled[members] = isotonic(pooled[members], groups=chain_of, increasing=False)
            found = np.empty((self.n, self.n))
            found[plain] = boxes.nearest(pooled)
            for node in others:
                found[node] = self.nearest(node, theta if theta.ndim == 1 else theta[node], alpha, teleport)
            return found

        return project
