"""Dense chains: stationary distributions, and the equations of their derivatives."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def stationary(P: Array) -> Array:
    """Return the distribution w = Pᵀw for recommendations in the rows of P, all positive. O(n³).

    Parameters
    ----------
    P : ndarray, shape (n, n)
        Row i is the distribution that node i recommends.

    Returns
    -------
    ndarray, shape (n,)
        The distribution.
    """
    n = len(P)
    w = np.linalg.solve(np.eye(n) - P.T + 1.0 / n, np.full(n, 1.0 / n))
    w = np.maximum(P.T @ np.maximum(w, 0.0), 0.0)
    return w / w.sum()


def poisson(P: Array, w: Array, rewards: Array) -> Array:
    """Return h with h − Ph = rewards − ⟨w, rewards⟩1, up to a constant. O(n³).

    Parameters
    ----------
    P : ndarray, shape (n, n)
        Row i is the distribution that node i recommends.
    w : ndarray, shape (n,)
        Its stationary distribution.
    rewards : ndarray, shape (n,)
        What a visit to each node brings.

    Returns
    -------
    ndarray, shape (n,)
        How much more the visits from each node on bring.
    """
    n = len(P)
    return np.linalg.solve(np.eye(n) - P + 1.0 / n, rewards - float(w @ rewards))
