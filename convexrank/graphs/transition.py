"""PageRank's matrix as an operator."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data import check_choice, check_real, keep, keep_checked

Array = np.ndarray

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
