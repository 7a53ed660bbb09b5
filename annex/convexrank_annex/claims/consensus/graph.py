"""A graph of four nodes and what is computed on it. The columns t_i of P hold the teleport."""

from __future__ import annotations

import numpy as np

__all__ = ["ALPHA", "LINKS", "PAGERANK", "P", "costs", "kl", "lse", "softmax", "stationary"]

Array = np.ndarray

ALPHA = 0.85
# An arrow a line: 0→1, 0→2, 1→2, 2→0, 3→2, 3→0.
_ARROWS = ((0, 1), (0, 2), (1, 2), (2, 0), (3, 2), (3, 0))
LINKS = np.zeros((4, 4))
for _source, _target in _ARROWS:
    LINKS[_target, _source] = 1.0
LINKS /= LINKS.sum(axis=0)
P = ALPHA * LINKS + (1.0 - ALPHA) / 4.0


def stationary(matrix: Array) -> Array:
    """Return the stationary distribution, from the linear equations."""
    n = len(matrix)
    equations = np.vstack([matrix - np.eye(n), np.ones(n)])
    return np.linalg.lstsq(equations, np.r_[np.zeros(n), 1.0], rcond=None)[0]


PAGERANK = stationary(P)


def kl(p: Array, q: Array) -> float:
    """Return Σ p log(p/q)."""
    return float(np.sum(p * np.log(p / q)))


def costs(rho: Array, columns: Array = P) -> Array:
    """Return KL(t_i‖ρ) for every node."""
    return np.sum(columns * np.log(columns / rho[:, None]), axis=0)


def softmax(v: Array) -> Array:
    """Return exp(v), normalised."""
    shifted = np.exp(v - v.max())
    return shifted / shifted.sum()


def lse(v: Array) -> float:
    """Return log Σ exp(v)."""
    return float(np.log(np.sum(np.exp(v - v.max()))) + v.max())
