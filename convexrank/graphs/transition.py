"""PageRank's matrix as an operator, Poisson's equation with it, and distributions over nodes, as they are given."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.data import (
    check_choice,
    check_matrix,
    check_real,
    check_vector,
    in_node_order,
    index_of,
    keep,
    keep_checked,
    read_array,
)
from convexrank.data.nodes import numbers_of
from convexrank.graphs.elimination import Elimination

Array = np.ndarray

_ROUNDING = 1e-14
_AT_ONCE = 32


def distribution(n: int, names: tuple[Any, ...] | None, nodes: Any, name: str) -> Array:
    """Return a distribution over n nodes.

    Parameters
    ----------
    n : int
        Number of nodes.
    names : tuple or None
        Their names.
    nodes : array-like
        Ids, or names where the graph has integers as names; other names, n booleans, n weights as floats, or a
        dictionary of weights by name, by id without names. A Series of weights or booleans with an index of its own
        goes by that index.
    name : str
        Name of the argument in messages.

    Returns
    -------
    ndarray, shape (n,)
        Non-negative, summing to 1.
    """
    if isinstance(nodes, Mapping):
        return _from_mapping(n, names, nodes, name)
    if isinstance(nodes, Set | Iterator):
        nodes = list(nodes)
    if names is not None and isinstance(nodes, list) and any(isinstance(node, tuple) for node in nodes):
        return _from_ids(n, numbers_of(names, nodes, name), name)  # nodes that are called by pairs
    array = read_array(nodes, name)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"{name} has shape {array.shape}, expected at least one node, or {n} weights; pass [i] for a single node i."
        )
    if array.dtype.kind in "iu":
        _refuse_counts(names, nodes, name)
        if len(array) == n > len(set(array.tolist())):
            raise ValueError(
                f"{name} has an integer for each of the {n} nodes, which are ids, and names one twice; pass weights of "
                "nodes as floats, a mask as booleans, and each id once."
            )
        by_name = names is not None and any(isinstance(known, int | np.integer) for known in names)
        return _from_ids(n, numbers_of(names, array.tolist(), name) if by_name and names else array, name)
    if array.dtype.kind in "SUO" and names is not None and not _are_numbers(array):
        return _from_ids(n, numbers_of(names, nodes, name), name)
    ordered = in_node_order(nodes, n, names, name, whole=False)
    return scaled(check_vector(ordered, n, name, each="node"), name)


def distributions(n: int, names: tuple[Any, ...] | None, nodes: Any, name: str) -> Array:
    """Return one distribution, or for a matrix of weights one in each column, shape (n, k).

    Parameters
    ----------
    n, names, name : int, tuple or None, str
        As in :func:`distribution`.
    nodes : array-like or sparse
        As in :func:`distribution`, or a matrix with one row for each node. A DataFrame with an index of its own goes
        by that index.

    Returns
    -------
    ndarray, shape (n,) or (n, k)
        Non-negative, each column summing to 1.
    """
    if getattr(nodes, "ndim", None) != 2 and not _has_rows(nodes, names):
        return distribution(n, names, nodes, name)
    rows = nodes if index_of(nodes) is None else in_node_order(nodes, n, names, name, whole=False)
    shape = getattr(rows, "shape", (n, 1))  # lists are read before they can be measured
    weights = check_matrix(rows, name) if min(shape) > 0 else rows
    if weights.shape[0] != n or min(shape) == 0:
        raise ValueError(
            f"{name} has shape {weights.shape}, expected ({n}, k) with k >= 1: a column for each rank."
        )
    dense: Any = sparse.csr_array(weights).toarray() if sparse.issparse(weights) else weights
    sums = _sums(dense)
    if dense.min() >= 0.0 and 0.0 < sums.min() and sums.max() < np.inf:
        return dense / np.where(np.abs(sums - 1.0) <= _ROUNDING, 1.0, sums)
    return np.stack([distribution(n, None, column, name) for column in dense.T], axis=1)


def _sums(rows: Array) -> Array:
    """Sums of columns, of a few rows at a time, so that rounding stays small."""
    with np.errstate(over="ignore"):
        while len(rows) > _AT_ONCE:
            rows = np.add.reduceat(rows, np.arange(0, len(rows), _AT_ONCE), axis=0)
        return rows.sum(axis=0)


def by_topic(n: int, names: tuple[Any, ...] | None, nodes: Any, name: str) -> tuple[list[Any], Array] | None:
    """Return the topics of a mapping from topics to nodes, or to weights of nodes, and the distribution of each.

    Parameters
    ----------
    n, names, name : int, tuple or None, str
        As in :func:`distribution`.
    nodes : object
        What may be such a mapping.

    Returns
    -------
    tuple of list and ndarray, shape (n, k), or None
        None for anything but a mapping to collections.
    """
    if not isinstance(nodes, Mapping) or not nodes:
        return None
    if not all(isinstance(part, Mapping | list | tuple | Set | np.ndarray) for part in nodes.values()):
        return None
    parts = [distribution(n, names, part, f"{name}[{topic!r}]") for topic, part in nodes.items()]
    return list(nodes), np.stack(parts).T


def _has_rows(nodes: Any, names: tuple[Any, ...] | None) -> bool:
    """Return whether a list is made of rows, so that it stands for a matrix. Tuples may be names of nodes."""
    kinds = (list, np.ndarray) if names is not None else (list, np.ndarray, tuple)
    return isinstance(nodes, list | tuple) and len(nodes) > 0 and all(isinstance(row, kinds) for row in nodes)


def _refuse_counts(names: tuple[Any, ...] | None, nodes: Any, name: str) -> None:
    """Refuse integers under names of nodes, such as counts: are they weights, or ids?"""
    labels = index_of(nodes)
    if names is not None and labels and isinstance(labels[0], str) and set(labels) <= set(names):
        raise ValueError(
            f"{name} has integers, which are ids, under an index of names; pass {name}.astype(float) for weights, "
            f"{name}.to_numpy() for ids."
        )


def scaled(weights: Array, name: str) -> Array:
    """Return weights of nodes over their sum, which may be beyond the largest float."""
    if weights.min() < 0:
        place = int(np.argmin(weights))
        raise ValueError(f"{name}[{place}] is {weights[place]:g}, expected weights of at least 0.")
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if total == 0.0:
        raise ValueError(f"{name} is zero everywhere; give at least one node a positive weight.")
    if total == np.inf:
        return scaled(weights / weights.max(), name)
    # a distribution stays as it is, to the last bit
    return weights.copy() if abs(total - 1.0) <= _ROUNDING else weights / total


def _from_mapping(n: int, names: tuple[Any, ...] | None, nodes: Mapping[Any, Any], name: str) -> Array:
    if not nodes:
        raise ValueError(f"{name} is empty, expected a weight for at least one node.")
    keys = list(nodes)
    ids = np.asarray(keys) if names is None else numbers_of(names, keys, name)
    if ids.dtype.kind not in "iu":
        raise ValueError(f"{name} has {keys[0]!r}, expected ids in 0..{n - 1}: the graph has no names.")
    _from_ids(n, ids, name)
    weights = np.zeros(n)
    weights[ids] = check_vector(list(nodes.values()), len(keys), name, each="node")
    return scaled(weights, name)


def _from_ids(n: int, ids: Array, name: str) -> Array:
    if ids.min() < 0 or ids.max() >= n:
        place = int(np.argmax((ids < 0) | (ids >= n)))
        raise ValueError(
            f"{name}[{place}] is {ids[place]}, expected node ids in 0..{n - 1}; pass weights of nodes as floats."
        )
    chosen = np.zeros(n)
    chosen[ids] = 1.0
    return chosen / chosen.sum()


def _are_numbers(array: Array) -> bool:
    return array.dtype.kind == "O" and all(isinstance(entry, int | float) for entry in array)


DANGLING = {
    "teleport": "as the personalization says",
    "uniform": "anywhere with the same probability",
    "drop": "nowhere: its rank is lost",
}


class Adjacency(Protocol):
    """The edges of a graph as sums over them."""

    @property
    def n(self) -> int:
        """Number of nodes."""
        ...

    @property
    def names(self) -> Sequence[Any] | None:
        """The names of the nodes, or None."""
        ...

    @property
    def out_weight(self) -> Array:
        """The total weight of the edges out of each node, shape (n,)."""
        ...

    @property
    def dangling(self) -> Array:
        """The nodes without edges out."""
        ...

    def pull(self, x: Any) -> Array:
        """Return for each node the sum over the edges into it of weight times the value at the source."""
        ...

    def push(self, s: Any) -> Array:
        """Return for each node the sum over the edges out of it of weight times the value at the target."""
        ...

    def seeds(self, nodes: Any, name: str = "seeds") -> Array:
        """Return the distribution that ids, names or weights stand for."""
        ...

    def to_scipy(self) -> Any:
        """Return the weights as a sparse array, row = source."""
        ...

    def edges(self) -> tuple[Array, Array, Array]:
        """Return sources, targets and weights, one entry for each edge, by target."""
        ...


def check_alpha(alpha: Any, name: str = "alpha") -> float:
    """Return a damping factor in [0, 1); ``name`` is what messages call it."""
    value = check_real(alpha, name)
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{name} is {alpha}, expected a number in [0, 1); 0.85 is customary.")
    return value


@dataclass(frozen=True, eq=False)
class Transition:
    r"""The column-stochastic matrix :math:`P = \alpha T + (1-\alpha) v 1^\top`, never formed.

    Column j of T has the weights of the edges out of j divided by their sum. For a node without edges, ``dangling``
    determines the column: v for ``"teleport"``, the uniform distribution for ``"uniform"``, zero for ``"drop"`` (then P
    is not stochastic), or a distribution of the caller. For every distribution w, ``P @ w`` is one step of PageRank's
    walk.

    Parameters
    ----------
    graph : Graph
        The graph.
    alpha : float
        Probability of following a link, in [0, 1).
    personalization : array-like, optional
        The distribution v of the walk when it follows no link: ids, names, or n weights that are scaled to sum 1;
        uniform by default.
    dangling : {"teleport", "uniform", "drop"} or array-like
        How dangling nodes distribute rank; a distribution is given as the personalization is.

    Raises
    ------
    ValueError, TypeError
        When an argument is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> P = cr.Graph.from_edges([0, 0, 1], [1, 2, 2]).transition(alpha=0.5)
    >>> (P @ np.array([1.0, 0.0, 0.0])).round(4).tolist()
    [0.1667, 0.4167, 0.4167]
    >>> (P.T @ np.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    graph: Adjacency
    alpha: float = 0.85
    personalization: Any = None
    dangling: Any = "teleport"

    def __post_init__(self) -> None:
        keep_checked(self, check_alpha, "alpha")
        if isinstance(self.dangling, str):
            check_choice(self.dangling, DANGLING, "dangling")
        else:
            keep(self, dangling=self.graph.seeds(self.dangling, "dangling"))
        if self.personalization is not None:
            keep(self, personalization=self.graph.seeds(self.personalization, "personalization"))

    def toward(self, distribution: Array | None) -> Transition:
        """Return the walk with another teleport: a distribution, neither checked nor copied, or None for uniform."""
        other = copy(self)
        object.__setattr__(other, "personalization", distribution)
        return other

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        return self.graph.n, self.graph.n

    @property
    def teleport(self) -> Array:
        """The distribution v, read-only; if it is uniform it takes no memory."""
        uniform = np.broadcast_to(1.0 / self.graph.n, self.graph.n)
        return uniform if self.personalization is None else self.personalization

    @property
    def _landing(self) -> Array | float:
        """The distribution v, or the one number that all of its entries are."""
        return 1.0 / self.graph.n if self.personalization is None else self.personalization

    @cached_property
    def share(self) -> Array:
        """One over the total weight out of each node, 0 for a dangling node."""
        total = self.graph.out_weight
        return np.divide(1.0, total, out=np.zeros_like(total), where=total > 0.0)

    @property
    def loses_rank(self) -> bool:
        """Whether the rank of dangling nodes is lost."""
        return isinstance(self.dangling, str) and self.dangling == "drop"

    @property
    def restarts_dangling(self) -> bool:
        """Whether the rank of dangling nodes goes to the teleport's distribution."""
        return isinstance(self.dangling, str) and self.dangling == "teleport"

    @property
    def escape(self) -> Array | float:
        """The destination of a dangling node's rank: a distribution, one number for every node, or 0."""
        if not isinstance(self.dangling, str):
            return self.dangling
        if self.loses_rank:
            return 0.0
        return self._landing if self.restarts_dangling else 1.0 / self.graph.n

    def __matmul__(self, w: Any) -> Array:
        w = np.asarray(w, dtype=np.float64)
        if w.ndim == 2:
            return np.stack([self @ column for column in w.T], axis=1)
        self._refuse_other_sizes(w)
        moved = self.graph.pull(w * self.share)
        moved *= self.alpha
        moved += self.alpha * float(w[self.graph.dangling].sum()) * self.escape
        moved += (1.0 - self.alpha) * float(w.sum()) * self._landing
        return moved

    def _refuse_other_sizes(self, values: Array) -> None:
        n = self.graph.n
        if values.shape != (n,):
            raise ValueError(f"the vector has shape {values.shape}, expected ({n},), or columns ({n}, k).")

    def transposed_product(self, s: Any) -> Array:
        """Return ``P.T @ s``."""
        s = np.asarray(s, dtype=np.float64)
        if s.ndim == 2:
            return np.stack([self.transposed_product(column) for column in s.T], axis=1)
        self._refuse_other_sizes(s)
        moved = self.graph.push(s) * self.share * self.alpha
        moved[self.graph.dangling] += self.alpha * float((self.escape * s).sum())
        return moved + (1.0 - self.alpha) * float(self.teleport @ s)

    @property
    def T(self) -> _Transposed:  # as in numpy
        """The transposed operator."""
        return _Transposed(self)

    def diagonal(self) -> Array:
        """Return the probabilities of staying at each node, shape (n,)."""
        follow = self.graph.to_scipy().diagonal() * self.share
        follow[self.graph.dangling] = np.broadcast_to(self.escape, self.graph.n)[self.graph.dangling]
        return self.alpha * follow + (1.0 - self.alpha) * self.teleport

    def dense(self) -> Array:
        """Return P as an array, shape (n, n), from its definition; for small graphs and tests."""
        n = self.graph.n
        weights = self.graph.to_scipy().toarray().T
        columns = weights.sum(axis=0)
        follow = np.divide(weights, columns, out=np.zeros_like(weights), where=columns > 0.0)
        follow[:, columns == 0.0] = np.broadcast_to(self.escape, n)[:, None]
        return self.alpha * follow + (1.0 - self.alpha) * np.broadcast_to(self.teleport, n)[:, None]


@dataclass(frozen=True, eq=False)
class _Transposed:
    operator: Transition

    def __matmul__(self, s: Any) -> Array:
        return self.operator.transposed_product(s)

    @property
    def T(self) -> Transition:  # as in numpy
        return self.operator


# A series ends where a term no longer shows beside the sum.
_NEGLIGIBLE = 1e-17
# Rounding keeps a step from getting any shorter; so many steps without a shorter one are enough.
_PATIENCE = 10
# Up to so many nodes all steps at once take less time than steps; up to so many they do where there are more steps than
# the cube of the number of nodes, per so many links and nodes.
_FEW, _SOME, _LINKS = 64, 3000, 13.0


def _most_steps(operator: Transition) -> float:
    """Return after how many steps an elimination of all nodes would have taken no longer."""
    n = operator.graph.n
    if n > _SOME:
        return math.inf
    return 0.0 if n <= _FEW else n**3 / (_LINKS * (operator.graph.to_scipy().nnz + n))


def stationary(operator: Transition) -> Array:
    r"""Return the distribution π with :math:`P\pi = \pi`, to rounding.

    Plain steps w → Pw from the teleport: no solver of the package is used, since certificates rest on this. Few nodes
    are eliminated one after the other, and some thousand where steps take longer, as with α near 1.

    Parameters
    ----------
    operator : Transition
        The matrix P, whose columns sum to 1.

    Returns
    -------
    ndarray, shape (n,)
        The distribution. O(m · log(precision)/log α).

    Examples
    --------
    >>> import convexrank as cr
    >>> stationary(cr.Graph.from_edges([0, 1], [1, 0]).transition()).round(12).tolist()
    [0.5, 0.5]
    """
    w, shortest, since, steps, most = operator.teleport.copy(), np.inf, 0, 0, _most_steps(operator)
    while since < _PATIENCE:
        if steps >= most:
            return Elimination.of(operator.dense().T).stationary()
        image = operator @ w
        image /= image.sum()
        length = float(np.abs(image - w).sum())
        w = image
        since, steps = 0 if length < shortest else since + 1, steps + 1
        shortest = min(shortest, length)
        if length == 0.0:
            break
    return w


def solve_poisson(operator: Transition, right: Array) -> Array:
    r"""Solve :math:`(I - P^\top)s = b - c1` for s and the constant c, :math:`c = \langle\pi, b\rangle`.

    The series :math:`\sum_k (P^\top)^k b`, in which constants do not count: the spread of a term, its largest less its
    smallest entry, is at most α times that of the term before. The solution is unique up to a constant. Nodes are
    eliminated where that takes less time.

    Parameters
    ----------
    operator : Transition
        The matrix P, whose columns sum to 1.
    right : ndarray, shape (n,)
        The vector b.

    Returns
    -------
    ndarray, shape (n,)
        A solution. O(m · log(precision)/log α).

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> P, b = cr.Graph.from_edges([0, 1, 2], [1, 2, 0]).transition(), np.array([1.0, -1.0, 0.0])
    >>> s = solve_poisson(P, b)
    >>> (s - P.T @ s - b).round(6) + 0.0, b
    (array([0., 0., 0.]), array([ 1., -1.,  0.]))
    """
    term, steps, most = right - right.mean(), 0, _most_steps(operator)
    total = term.copy()
    while float(np.ptp(term)) > _NEGLIGIBLE * float(np.ptp(total)):
        if steps >= most:
            found = Elimination.of(operator.dense().T).poisson(right)
            return found - found.mean()
        term = operator.T @ term
        term -= term.mean()
        total += term
        steps += 1
    return total
