"""Sets of recommendations given by linear constraints, or by partial orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.consensus.candidates import RecommendationSets
from convexrank.consensus.projections import (
    Boxes,
    Projector,
    at,
    corners,
    count_systems,
    nearest_in_hull,
)
from convexrank.data import (
    check_choice,
    check_integer,
    check_list,
    check_matrix,
    check_node,
    check_nodes,
    check_nonnegative,
    check_vector,
    keep,
    shown,
    well_formed,
)
from convexrank.data.nodes import called, check_names
from convexrank.graphs import Graph

Array = np.ndarray

# Up to this many sets of active constraints, looking for the corners once is cheaper than Bregman's algorithm.
FEW_SYSTEMS = 20_000
# Bregman's algorithm stops when value and bound differ by this at most.
_GAP, _SWEEPS = 1e-13, 100_000
# Dense bounds of more nodes take more than 6 GiB.
_MOST_NODES = 20_000
# Masses below this would leave 1 for the others.
_TINY = 1e-15


@dataclass(frozen=True, eq=False)
class Polytopes(RecommendationSets):
    r"""Each node recommends a distribution under linear constraints.

    .. math:: T_i = \{t : l_i \le t \le u_i,\; A_i t \le b_i,\; \textstyle\sum_j t_j = 1\}

    Parameters
    ----------
    lower, upper : array-like, shape (n, n)
        Bounds; row i is for node i. An upper bound of 0 means that i never recommends that node.
    inequalities : dict or sequence, optional
        As a dictionary, for some nodes i (by name if they have names) a pair (A_i, b_i) of shapes (m, n) and (m,); as a
        sequence, one pair or None for each node.
    names : sequence, optional
        Names of the nodes; by default those of the graph, if the sets come from a graph.

    Raises
    ------
    ValueError, TypeError
        When shapes or numbers are wrong, or nothing satisfies the constraints of a node, which is named.

    Notes
    -----
    Projection onto a box takes one bisection. With inequalities, a projection minimises over the hull of the vertices
    if few sets of constraints have to be tried to find them; otherwise it uses Bregman's algorithm, which is slow.

    Examples
    --------
    Node 0 sends between 20 and 60 per cent to node 1, the rest to node 2:

    >>> import convexrank as cr
    >>> lower = [[0, 0.2, 0], [1, 0, 0], [0.5, 0.5, 0]]
    >>> upper = [[0, 0.6, 1], [1, 0, 0], [0.5, 0.5, 0]]
    >>> cr.consensus.Polytopes(lower, upper).vertices(0).round(3).tolist()
    [[0.0, 0.2, 0.8], [0.0, 0.6, 0.4]]
    """

    lower: Any
    upper: Any
    inequalities: Any = None
    names: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        lower, upper = (check_matrix(_dense(getattr(self, name), name), name) for name in ("lower", "upper"))
        n = lower.shape[0]
        for name, values in (("lower", lower), ("upper", upper)):
            if values.shape != (n, n):
                raise ValueError(
                    f"{name} has shape {values.shape}, expected (n, n) = ({n}, {n}): row i for node i."
                )
        lower, upper = np.maximum(lower, 0.0), np.minimum(upper, 1.0)
        names = check_names(self.names, n)
        object.__setattr__(self, "names", names)
        given = _by_node(self.inequalities, n, names)
        rows = tuple(_rows(given.get(node), n, called(names, node)) for node in range(n))
        for node in range(n):
            _refuse_empty(lower[node], upper[node], *rows[node], node, names)
        for name, values in (("lower", lower), ("upper", upper)):
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        object.__setattr__(
            self, "inequalities", tuple((A, b) if len(b) else None for A, b in rows) if given else None
        )

    @classmethod
    def around(cls, graph: Graph, relative: float, *, dangling: str = "uniform") -> Self:
        """Return sets in which the share of every link of a graph varies by a factor from 1 − relative to 1 + relative.

        Parameters
        ----------
        graph : Graph
            The graph.
        relative : float
            Half-width of the interval, relative to the share.
        dangling : {"uniform", "error"}
            Treatment of a node without links: links to all nodes with equal shares, as in PageRank, or an error.

        Raises
        ------
        ValueError, TypeError
            When a node has no link and ``dangling`` is "error", ``relative`` is negative, or ``graph`` is not a Graph,
            or has so many nodes that the dense bounds take several GiB.
        """
        if not isinstance(graph, Graph):
            raise TypeError(f"graph is a {type(graph).__name__}, expected a convexrank.Graph.")
        relative = check_nonnegative(relative, "relative")
        check_choice(dangling, {"error": "", "uniform": ""}, "dangling")
        if len(graph.dangling) and dangling == "error":
            raise ValueError(
                f"node {called(graph.names, graph.dangling[0])} has no outgoing edge ({len(graph.dangling)} such "
                f'nodes); add edges, or pass dangling="uniform" to Polytopes.around(graph, {relative:g}).'
            )
        _refuse_large(graph.n)
        shares = graph.to_scipy().toarray()
        shares[graph.dangling] = 1.0
        shares = shares / shares.sum(axis=1, keepdims=True)
        return cls(shares * (1.0 - relative), shares * (1.0 + relative), names=graph.names)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.lower.shape[0]

    @cached_property
    def _corners(self) -> dict[int, Array]:
        return {}

    def vertices(self, node: int) -> Array:
        """Return the corners of a node's set, shape (k, n), found by trying all sets of active constraints."""
        node = check_node(node, self.n)
        if node not in self._corners:
            A, b, lower, upper = self.system(node)
            self._corners[node] = corners(A, b, lower, upper, called(self.names, node))
        return self._corners[node]

    def listed(self, node: int) -> Array | None:
        """Return the corners where few sets of constraints have to be tried, else None."""
        A, _, lower, upper = self.system(node)
        return self.vertices(node) if count_systems(A, lower, upper) <= FEW_SYSTEMS else None

    def system(self, node: int) -> tuple[Array, Array, Array, Array]:
        """Return A, b, lower, upper of a node."""
        own = None if self.inequalities is None else self.inequalities[node]
        A, b = (np.zeros((0, self.n)), np.zeros(0)) if own is None else own
        return A, b, self.lower[node], self.upper[node]

    def nearest(self, node: int, theta: Array, alpha: float, teleport: Array) -> Array:
        """Project: on a box by bisection; with inequalities over the corners where they are few, else by Bregman."""
        A, b, lower, upper = self.system(node)
        if len(b) and count_systems(A, lower, upper) <= FEW_SYSTEMS:
            return nearest_in_hull(alpha * self.vertices(node) + (1.0 - alpha) * teleport, theta)
        return nearest_in_polytope(A, b, lower, upper, theta, alpha, teleport)

    def projector(self, alpha: float, teleport: Array) -> Projector:
        """Return the projection of all nodes: boxes go together, those with inequalities one by one."""
        given = self.inequalities or (None,) * self.n
        plain = np.array([node for node, own in enumerate(given) if own is None], dtype=np.int64)
        others = [node for node, own in enumerate(given) if own is not None]
        boxes = Boxes.between(
            *(alpha * bound[plain] + (1.0 - alpha) * teleport for bound in (self.lower, self.upper))
        )

        def project(theta: Array) -> Array:
            found = np.empty((self.n, self.n))
            found[plain] = boxes.nearest(at(theta, plain[boxes.rows], boxes.columns))
            for node in others:
                found[node] = self.nearest(node, theta if theta.ndim == 1 else theta[node], alpha, teleport)
            return found

        return project


def nearest_in_polytope(
    A: Array, b: Array, lower: Array, upper: Array, theta: Array, alpha: float, teleport: Array
) -> Array:
    """Project in the KL divergence on αT + (1−α)v, T given by its constraints.

    Parameters
    ----------
    A, b, lower, upper : ndarray
        The constraints of T.
    theta : ndarray, shape (n,)
        Logarithms of the distribution that is projected.
    alpha : float
        Probability of following a recommendation.
    teleport : ndarray, shape (n,)
        The distribution v > 0.

    Returns
    -------
    ndarray, shape (n,)
        The projection.
    """
    box = Boxes.between(*(alpha * bound[None] + (1.0 - alpha) * teleport for bound in (lower, upper)))
    free = box.columns
    point, limits = box.nearest(theta[free])[0], alpha * b + (1.0 - alpha) * (A @ teleport)
    if len(free) and (A @ point > limits).any():
        fixed, mass = np.delete(np.arange(len(point)), free), float(box.mass[0])
        right = (limits - A[:, fixed] @ point[fixed]) / mass
        point[free] = mass * _by_bregman(A[:, free], right, box.low / mass, box.high / mass, theta[free])
    return point / point.sum()


def _by_bregman(A: Array, b: Array, low: Array, high: Array, theta: Array) -> Array:
    """The nearest distribution under all constraints, one row at a time."""
    from convexrank.divergences import bregman

    masses = np.exp(theta - theta.max())
    target = np.maximum(masses / masses.sum(), _TINY)
    eye = np.eye(len(target))
    rows, right = np.vstack([A, -eye, eye]), np.concatenate([b, -low, high])
    return bregman("kl", target / target.sum(), rows, right, tol=_GAP, max_iter=_SWEEPS).x


# --- reading --------------------------------------------------------------------------------------------------------


def _refuse_large(n: int) -> None:
    """Refuse bounds that are too large for most machines, before they are made."""
    if n > _MOST_NODES:
        raise ValueError(
            f"the graph has {n} nodes, expected at most {_MOST_NODES}: the bounds of all pairs of nodes are dense, and "
            f"take {2 * 8 * n * n / 2**30:.0f} GiB. Take a part of the graph; PageRank and PenaltyRank rank large ones."
        )


def _dense(values: Any, name: str) -> Any:
    if not sparse.issparse(values):
        return values
    _refuse_large(max(values.shape))
    return well_formed(values, name).toarray()


def _by_node(inequalities: Any, n: int, names: tuple[Any, ...] | None) -> dict[int, Any]:
    if inequalities is None:
        return {}
    if not isinstance(inequalities, Mapping):
        listed = check_list(inequalities, "inequalities", "pairs (A, b)")
        if len(listed) != n:
            raise ValueError(
                f"inequalities has {len(listed)} entries, expected {n}, a pair (A, b) or None for a node."
            )
        inequalities = {node: pair for node, pair in enumerate(listed) if pair is not None}
        return dict(inequalities)
    if names is not None:
        numbers = check_nodes(list(inequalities), n, "inequalities", names)
        return dict(zip(numbers.tolist(), inequalities.values(), strict=True))
    for node in inequalities:
        if node not in range(n):
            raise ValueError(f"inequalities has the node {node!r}, expected ids in 0..{n - 1}.")
    return dict(inequalities)


def _rows(pair: Any, n: int, node: str) -> tuple[Array, Array]:
    if pair is None:
        return np.zeros((0, n)), np.zeros(0)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"inequalities[{node}] is {shown(pair)}, expected a pair (A, b).")
    A = np.array(check_matrix(pair[0], f"A of node {node}"))
    if A.shape[1] != n:
        raise ValueError(f"A of node {node} has shape {A.shape}, expected (m, {n}): a column for each node.")
    b = np.array(check_vector(pair[1], len(A), f"b of node {node}", each="inequality"))
    A.flags.writeable = b.flags.writeable = False
    return A, b


def _refuse_empty(lower: Array, upper: Array, A: Array, b: Array, number: int, names: Any) -> None:
    """Raise that nothing satisfies the constraints of a node, and why where that is plain."""
    node = called(names, number)
    if (lower > upper).any():
        j = int(np.argmax(lower > upper))
        raise ValueError(
            f"node {node} can recommend nothing: its bounds for node {called(names, j)} are lower = {lower[j]:g} > "
            f"upper = {upper[j]:g}; widen them."
        )
    if lower.sum() > 1.0 or upper.sum() < 1.0:
        side, total = ("lower", lower.sum()) if lower.sum() > 1.0 else ("upper", upper.sum())
        if abs(total - 1.0) > 1e-12:
            raise ValueError(
                f"node {node} can recommend nothing: its {side} bounds add up to {total:g}, and a recommendation to 1; "
                f"{'lower' if side == 'lower' else 'raise'} them. A node without links needs bounds of its own."
            )
    if len(b):
        from scipy.optimize import linprog

        found = linprog(
            np.zeros(len(lower)),
            A,
            b,
            np.ones((1, len(lower))),
            [1.0],
            np.column_stack([lower, upper]),
            method="highs",
        )
        if found.status == 2:
            raise ValueError(
                f"node {node} can recommend nothing: its inequalities and bounds exclude each other."
            )


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
        keep(self, chains=tuple(read), n=n, targets=tuple(ends))

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
