"""Nodes eliminated one after the other: the stationary distribution of moves, and Poisson's equation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

Array = np.ndarray

# Nodes that are eliminated between two products with the rest of the matrix.
_PANEL = 32


@dataclass(frozen=True, eq=False)
class Elimination:
    """What is left of moves between the first k nodes, for each k, if those to later nodes go on until they are back.

    No differences are taken, so that all digits of the least move are right, however seldom some nodes lead to others.

    Parameters
    ----------
    order : ndarray, shape (n,)
        The nodes, the one that is left first.
    moves : ndarray, shape (n, n)
        Row k has the moves of node k to those before it, column k the visits to it by those before it.
    leaving : ndarray, shape (n,)
        The probability that a move of node k is one to a node before it.

    References
    ----------
    W. Grassmann, M. Taksar, D. Heyman, Regenerative analysis and steady state distributions for Markov chains,
    Operations Research 33 (1985).
    """

    order: Array
    moves: Array
    leaving: Array

    @classmethod
    def of(cls, P: Array) -> Self:
        """Eliminate all nodes but one that all others lead to, for distributions in the rows of P. O(n³)."""
        n, first = len(P), int(np.argmax(P.min(axis=0)))
        order = np.append(first, np.delete(np.arange(n), first))
        moves, leaving = P[np.ix_(order, order)], np.ones(n)
        for end in range(n, 0, -_PANEL):
            begin = max(end - _PANEL, 0)
            for k in range(end - 1, max(begin, 1) - 1, -1):
                leaving[k] = moves[k, :k].sum()
                moves[:k, k] /= leaving[k]
                moves[begin:k, :k] += np.outer(moves[begin:k, k], moves[k, :k])
                moves[:begin, begin:k] += np.outer(moves[:begin, k], moves[k, begin:k])
            moves[:begin, :begin] += moves[:begin, begin:end] @ moves[begin:end, :begin]
        return cls(order, moves, leaving)

    def stationary(self) -> Array:
        """Return the distribution w = Pᵀw, shape (n,)."""
        found = np.ones(len(self.order))
        for k in range(1, len(found)):
            found[k] = found[:k] @ self.moves[:k, k]
        return self._as_given(found / found.sum())

    def poisson(self, rewards: Array) -> Array:
        """Return h, shape (n,), with h − Ph = rewards less their mean in the long run, which is 0 at one node.

        How much more the visits from each node on bring, for rewards of shape (n,); infinite where that is above 1e308.
        """
        left = np.column_stack([rewards[self.order], np.ones(len(rewards))])
        for k in range(len(left) - 1, 0, -1):
            left[:k] += np.outer(self.moves[:k, k], left[k])
        left = left[:, 0] - left[0, 0] / left[0, 1] * left[:, 1]
        found = np.zeros(len(left))
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(1, len(left)):
                found[k] = (left[k] + self.moves[k, :k] @ found[:k]) / self.leaving[k]
        return self._as_given(found)

    def _as_given(self, values: Array) -> Array:
        return values[np.argsort(self.order)]
