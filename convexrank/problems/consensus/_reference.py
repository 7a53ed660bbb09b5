"""Consensus over sets once more: slow answers to compare fast ones with, and the views from their formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from convexrank.consensus.candidates import Absorbed
from convexrank.consensus.projections import nearest_by_newton

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


# Flows out of balance by more than this are refused.
_BALANCE = 1e-6

# The equation that shares add up to 1, beside those of a projection; steps, halvings of a step, and
# what is rounding in a step and in a value.
_HEAVY, _STEPS, _HALVINGS, _STILL, _ROUNDING = 10.0, 200, 50, 1e-14, 1e-15


def plain_value(problem: Any, x: Any) -> float:
    """Return the objective of a ConsensusRank at x; for the projections ‖x − Tx‖₁, which is 0 at a fixed point."""
    n, alpha = problem.sets.n, problem.alpha
    v = [1.0 / n] * n if problem.personalization is None else problem.personalization.tolist()
    candidates = []  # of each node, the teleport absorbed
    for node in range(n):
        corners = np.asarray(problem.sets.vertices(node)).tolist() if problem.view != "optimistic" else []
        candidates.append([[alpha * c[j] + (1.0 - alpha) * v[j] for j in range(n)] for c in corners])
    if problem.view == "optimistic":
        t = np.asarray(x).tolist()
        w = _stationary(t)
        return sum(w[i] * _phi(t[i]) for i in range(n)) - _phi(w)
    if problem.view == "projection":
        w = [float(score) for score in x]
        image = _stationary([_projection(own, w) for own in candidates])
        return sum(abs(image[i] - w[i]) for i in range(n))
    flows, place, gained = [float(flow) for flow in x], 0, 0.0
    w, received = [0.0] * n, [0.0] * n
    for i in range(n):
        for c in candidates[i]:
            flow, place = flows[place], place + 1
            w[i] += flow
            gained += flow * _phi(c)
            for j in range(n):
                received[j] += flow * c[j]
    apart = max(abs(received[j] - w[j]) for j in range(n))
    if min(flows) < -_BALANCE or abs(sum(w) - 1.0) > _BALANCE or apart > _BALANCE:
        return math.inf
    return _phi(w) - gained


def _phi(p: list[float]) -> float:
    return sum(share * math.log(share) for share in p if share > 0.0)


def _stationary(t: list[list[float]]) -> list[float]:
    """The distribution w with w = Σ w_i t_i."""
    n = len(t)
    system = np.vstack([np.array(t).T - np.eye(n), np.ones(n)])
    return np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0].tolist()


def _projection(corners: list[list[float]], w: list[float]) -> list[float]:
    """The mixture t of corners for which Σ t log(t/w) is least, by Newton's method.

    A step minimises the quadratic model at t, a sum of squares, over shares of at least 0.
    """
    from scipy.optimize import nnls

    C, logs = np.array(corners).T, np.log(w)
    t = C.mean(axis=1)

    def divergence(p: Any) -> float:
        return float(p @ (np.log(p) - logs))

    for _ in range(_STEPS):
        slope = np.log(t) - logs
        slope = slope - t @ slope  # a constant changes nothing, as shares add up to 1
        roots = np.sqrt(t)
        shares, _ = nnls(
            np.vstack([C / roots[:, None], np.full(C.shape[1], _HEAVY)]),
            np.append(roots * (1.0 - slope), _HEAVY),
        )
        move, length, value = C @ (shares / shares.sum()) - t, 1.0, divergence(t)
        for _ in range(_HALVINGS):
            if divergence(t + length * move) <= value + _ROUNDING * max(1.0, abs(value)):
                break
            length *= 0.5
        else:
            break
        t = t + length * move
        if np.abs(move).max() <= _STILL:
            break
    return t.tolist()
