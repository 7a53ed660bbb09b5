"""Rudin 2009: the function of section 11 up to the boundary of its domain, and minimisers that no λ attains."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.exact import central_differences, least_value

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, source="push-2009")
_POWER = 4.0
_SHARE = (_POWER - 1.0) / _POWER


def _weighted(by: Array, q: Array, share: float = _SHARE) -> float:
    """Σ by_ik γ(q_ik, q), rows positives; 0 where by_ik = 0, −∞ where it is not and q_ik = 0."""
    used = by > 0
    if np.any(q[used] == 0):
        return -np.inf
    column = np.broadcast_to(q.sum(axis=0), q.shape)[used]
    gamma = np.log(q[used]) - np.log(_POWER) / _POWER - share * np.log(column)
    return float(by[used] @ gamma)


def _steepest(q: Array, share: float) -> float:
    """The largest entry of ∇φ in the first column, by central differences, each in units of its entry."""
    slopes = [
        central_differences(lambda t, i=i: _scaled(q, i, 1.0 + t[0], share), np.zeros(1), 1e-4)[0] / q[i, 0]
        for i in range(len(q))
    ]
    return float(np.abs(slopes).max())


def _scaled(q: Array, row: int, factor: float, share: float) -> float:
    moved = q.copy()
    moved[row, 0] *= factor
    return _weighted(moved, moved, share)


def _shrunk(inside: Array, t: float, whole: bool) -> Array:
    """The first column times t, or its first entry."""
    q = inside.copy()
    q[slice(None) if whole else 0, 0] *= t
    return q


def _points(number: int) -> list[Array]:
    return list(np.random.default_rng(77).uniform(0.2, 2.0, size=(number, 3, 2)))


@_claim(
    11,
    "legendre-to-the-boundary",
    "Lemma 12",
    "φ is Legendre: with Lemma 11, it is continuous up to the boundary, and its gradient grows without bound there.",
    _SHARE,
    otherwise=("It is with the whole logarithm of the column's sum, as for p → ∞.", 1.0),
)
def legendre_to_the_boundary(share: float) -> list[Comparison]:
    """One entry, and a whole column, times 1e-2, 1e-4 and 1e-6: ∇φ grows at every step; values beside those at 0."""
    growth, jump = np.inf, 0.0
    for inside, whole in product(_points(3), (True, False)):
        slopes = [_steepest(_shrunk(inside, t, whole), share) for t in (1e-2, 1e-4, 1e-6)]
        growth = min(growth, *np.diff(slopes))
        near, at = _shrunk(inside, 1e-100, whole), _shrunk(inside, 0.0, whole)
        jump = max(jump, abs(_weighted(near, near, share) - _weighted(at, at, share)))
    return [
        at_least("least growth of the gradient", growth, 1e-3, 5e-6),
        at_most("jump of φ at the boundary", jump, 0.0, 1e-9),
    ]


def _distance(p: Array, q: Array) -> float:
    """(13): B(p, q), also on the boundary."""
    return _weighted(p, p) - _weighted(p, q) - float((p - q).sum()) / _POWER


def _projected(q: Array, v: Array) -> Array:
    """(12): L(q; v), 0 where the column is 0."""
    column = q.sum(axis=0)
    ratio = np.divide((np.exp(v) * q).sum(axis=0), column, out=np.zeros_like(column), where=column > 0)
    return np.exp(v) * q * ratio ** (_POWER - 1.0)


def _conjugate(v: Array) -> float:
    """sup ⟨v, q⟩ − φ(q), by descent over log q."""

    def negated(flat: Array) -> tuple[float, Array]:
        q = np.exp(flat).reshape(v.shape)
        slope = np.log(q) - np.log(_POWER) / _POWER - _SHARE * np.log(q.sum(axis=0)) + 1.0 / _POWER - v
        return _weighted(q, q) - float((v * q).sum()), (slope * q).ravel()

    return -least_value(negated, np.zeros(v.size))[0]


def _jumps(closer: float, at_boundary: bool) -> list[float]:
    """How much B and L move over the last step to the boundary, one argument at a time; (12) in both at once."""
    moved = []
    for (p, q, v), whole in product([_points(3)], (True, False)):
        near, at, p0 = _shrunk(q, closer, whole), _shrunk(q, 0.0, whole), _shrunk(p, 0.0, whole)
        moved += [
            _distance(p0, near) - _distance(p0, at),
            _distance(_shrunk(p, closer, whole), q) - _distance(p0, q),
        ]
        if at_boundary:
            moved.append(_distance(_shrunk(p, closer, whole), at) - _distance(p0, at))
        there, here = _projected(near, v), _projected(at, v)
        moved += [float(np.abs(there - here).max()), _distance(there, near) - _distance(here, at)]
    return moved


@_claim(
    11,
    "conditions-of-the-theorem",
    "Lemma 13",
    "Conditions A1 to A5 hold: B(p, q), extended to the boundary, is continuous in p and in q, and so on.",
    True,
    corrected=("B is continuous in q, and in p where q has no entry 0, as relative entropy is.", False),
)
def conditions_of_the_theorem(at_boundary: bool) -> list[Comparison]:
    """A2 by descent; A3 and A4 on the way to the boundary; B away from p = q; A5 for q of sum 1e6."""
    points, compared = _points(8), []
    for v in (points[0] - 2.0, points[1] - 2.0):
        closed = float(np.sum(np.exp(v - 1.0 / _POWER).sum(axis=0) ** _POWER))
        compared.append(equal("A2: conjugate over its formula", _conjugate(v) / closed, 1.0, 1e-6))
    p, q = points[:2]
    slope = central_differences(
        lambda t: _weighted(q * t.reshape(q.shape), q * t.reshape(q.shape)), np.ones(6), 1e-5
    )
    defined = _weighted(p, p) - _weighted(q, q) - float(slope @ (p / q - 1.0).ravel())
    compared.append(equal("B by (13), over its definition", _distance(p, q) / defined, 1.0, 1e-6))
    jump = max(abs(one) for one in _jumps(1e-100, at_boundary))
    compared.append(equal("A3, A4: jump at the boundary", jump, 0.0, 1e-9))
    apart = min(
        _distance(p, q) / float(((p - q) ** 2).sum()) for p, q in product(points, points) if p is not q
    )
    compared.append(at_least("A3: least B(p, q)/‖p − q‖²", apart, 1e-2, 1e-5))
    infinite = _distance(points[0], _shrunk(points[1], 0.0, False))
    compared.append(at_least("A3: B(p, q) where q is 0 and p is not", infinite, 1e300, 1.0))
    far = min(_distance(_shrunk(p, 0.0, True), 1e6 * q / q.sum()) for p, q in product(points, points))
    compared.append(at_least("A5: B(p, q) over the sum of q", far / 1e6, 0.9 / _POWER, 1e-4))
    return compared


def _half_separated() -> Array:
    """M of three positives and four negatives: one positive can be raised above all negatives, two cannot."""
    rng = np.random.default_rng(78)
    up, down = np.c_[rng.normal(size=3), [1.0, 0.0, 0.0]], np.c_[rng.normal(size=4), np.zeros(4)]
    M = (up[:, None, :] - down[None, :, :]).reshape(12, 2)
    return np.c_[M, M.sum(axis=1)]


def _losses(M: Array, start: Array) -> tuple[float, Array]:
    """log R_{p,exp}/p at the end of a descent in λ, and the vector exp(−Mλ) there, positives in rows."""

    def cost(weights: Array) -> tuple[float, Array]:
        losses = np.exp(-(M @ weights)).reshape(-1, 4)
        column = losses.sum(axis=0)
        value = float(np.sum(column**_POWER))
        return np.log(value) / _POWER, -M.T @ (losses * column ** (_POWER - 1.0)).ravel() / value

    value, weights = least_value(cost, start)
    return value, np.exp(-(M @ weights)).reshape(-1, 4)


@_claim(
    11,
    "unique-in-the-closure",
    "Theorem 4, the closure; section 11",
    "Where no λ attains the least R_{p,exp}, one vector in the closure of the exp(−Mλ) does, with entries 0.",
    0.0,
    otherwise=("It is an exp(−Mλ) itself.", 1e-2),
)
def unique_in_the_closure(floor: float) -> list[Comparison]:
    """Descent from three starts, dependent features; the limit, from the pairs that cannot be separated alone."""
    M = _half_separated()
    value, rest = _losses(M[4:, :1], np.zeros(1))  # pairs of the first positive vanish
    limit, compared = np.vstack([np.zeros(4), rest]), []
    for start in ([0.0, 0.0, 0.0], [2.0, -1.0, -1.0], [-1.0, 0.5, 3.0]):
        found, losses = _losses(M, np.array(start))
        compared.append(equal("distance of exp(−Mλ) from the limit", np.abs(losses - limit).max(), 0.0, 1e-6))
        compared.append(equal("least value over that of the limit", np.exp(found - value), 1.0, 1e-9))
    return [*compared, at_least("least entry of the limit", limit.min(), floor, 1e-5)]


CLAIMS = defined_in(globals())
