"""Slow answers for consensus over sets: what the fast ones are compared with."""

from __future__ import annotations

import numpy as np

from convexrank.consensus.projections.hull import nearest_by_newton
from convexrank.consensus.with_teleport import Absorbed

Array = np.ndarray

# Steps of the fixed point, and the change at which it stops.
_STEPS, _STILL = 20_000, 1e-14


def fixed_point(absorbed: Absorbed) -> Array:
    """Return a w that is the stationary distribution of its own projections, starting from the teleport.

    Projections are Newton's method over the corners, which the fast way uses for three candidates and more only;
    stationary distributions come from an eigenvector.
    """
    n, owners, candidates = absorbed.n, absorbed.owners, absorbed.candidates
    corners = [candidates[owners == node] for node in range(n)]
    w = absorbed.teleport
    for _ in range(_STEPS):
        P = np.array([nearest_by_newton(own, np.log(w)) for own in corners])
        values, vectors = np.linalg.eig(P.T)
        new = np.abs(np.real(vectors[:, int(np.argmax(np.real(values)))]))
        new /= new.sum()
        if np.abs(new - w).sum() <= _STILL:
            return new
        w = new
    return w
