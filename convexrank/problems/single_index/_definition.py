"""The least divergence of a class from its formula, in plain loops: the second statement that the verifier compares."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import sub
from typing import Any

from convexrank.problems._plain import rising_means

# Rounds of the two regressions, each of which contracts by strong / smooth; they end when nothing moves.
_ROUNDS = 100_000


def least_divergence(
    theta: list[float],
    y: list[float],
    strong: float | None,
    smooth: float | None,
    bounds: tuple[float, float] | None,
) -> float:
    r"""Return the least sum of φ(y_i) + φ*(θ_i) − y_i θ_i over the class of φ.

    Over all convex φ the least sum of φ(y_i) + φ*(θ_i) is the largest pairing of both lists, the sorted one
    (Kantorovich's duality). An s-strongly convex φ is ψ + s/2·x², whose conjugate is the envelope
    :math:`\min_v \psi^*(v) + (\theta-v)^2/2s`; an l-smooth one is the envelope of a convex one with modulus l − s.
    A range [a, b] moves scores from θ to θ', at the price b(θ − θ') downwards and a(θ − θ') upwards.
    """
    n = len(y)
    # neither a constant added to all scores nor one added to all targets changes the divergence: keep digits
    middle, centre = math.fsum(theta) / n, math.fsum(y) / n
    theta, y = [t - middle for t in theta], [z - centre for z in y]
    if bounds is None or smooth is None:  # without smooth the link is made of means of targets
        return _sorted_pairing(theta, y, strong, smooth)
    low, high = bounds[0] - centre, bounds[1] - centre

    def cut_off(bottom: float, top: float) -> float:
        moved = [min(max(t, bottom), top) for t in theta]
        price = 0.0
        for i in range(n):
            if theta[i] > moved[i]:
                price += (high - y[i]) * (theta[i] - moved[i])
            elif theta[i] < moved[i]:
                price += (y[i] - low) * (moved[i] - theta[i])
        return _sorted_pairing(moved, y, strong, smooth) + price

    first, last = min(theta), max(theta)
    if math.isinf(low):
        return _least(lambda top: cut_off(first, top), first, last)
    if math.isinf(high):
        return _least(lambda bottom: cut_off(bottom, last), first, last)
    return _least(lambda bottom: _least(lambda top: cut_off(bottom, top), bottom, last), first, last)


def _least(f: Callable[[float], float], first: float, last: float) -> float:
    """The least value of a function of one number that falls, then rises."""
    from scipy.optimize import minimize_scalar

    ends = min(f(first), f(last))
    if last - first <= 1e-12 * max(1.0, abs(last)):
        return ends
    found: Any = minimize_scalar(
        f, bounds=(first, last), method="bounded", options={"xatol": 1e-10 * (last - first)}
    )
    return min(ends, float(found.fun))


def _sorted_pairing(theta: list[float], y: list[float], s: float | None, smooth: float | None) -> float:
    """The sum for a class without a range, by the two lists u (of targets) and v (of scores) that rise."""
    n, k = len(y), math.inf if smooth is None else smooth - (s or 0.0)
    total = -math.fsum(theta[i] * y[i] for i in range(n))
    t, z = sorted(theta), sorted(y)
    u, v = z, t
    for _ in range(_ROUNDS):
        before = [*u, *v]
        if smooth is not None:  # the u that minimises u·v + k/2·(z − u)²
            u = rising_means([z[i] - v[i] / k for i in range(n)])
        if s is not None:  # the v that minimises u·v + v²/2k + (t − v)²/2s
            v = [value / (1.0 / k + 1.0 / s) for value in rising_means([t[i] / s - u[i] for i in range(n)])]
        if s is None or smooth is None:
            break
        now = [*u, *v]
        if max(map(abs, map(sub, now, before))) <= 1e-15 * max(1.0, *map(abs, now)):
            break
    total += math.fsum(u[i] * v[i] for i in range(n))
    if smooth is not None:
        total += math.fsum(v[i] ** 2 / (2.0 * k) + 0.5 * k * (z[i] - u[i]) ** 2 for i in range(n))
    if s is not None:
        total += math.fsum((t[i] - v[i]) ** 2 / (2.0 * s) + 0.5 * s * z[i] ** 2 for i in range(n))
    return total


def least_power_divergence(theta: list[float], y: list[float], s: float, power: float) -> float:
    r"""Return the least sum over all φ with :math:`\varphi - \tfrac s\gamma|x|^\gamma` convex.

    Such a φ is ψ + s/γ·\|x\|^γ, and its conjugate the least of ψ*(v) + h(θ − v). Over the v in the order of θ the sum
    of y·v + h(θ − v) is least at the largest, over where an interval begins, of the least solutions of intervals.
    """
    n, dual = len(y), power / (power - 1.0)
    rows = sorted(range(n), key=lambda i: theta[i])
    t, z = [theta[i] for i in rows], sorted(y)

    def pull(distance: float) -> float:
        return math.copysign((abs(distance) / s) ** (dual - 1.0), distance)

    def solution(first: int, last: int) -> float:
        ends = [t[i] - math.copysign(s * abs(z[i]) ** (power - 1.0), z[i]) for i in range(first, last + 1)]
        low, high, wanted = min(ends), max(ends), math.fsum(z[first : last + 1])
        while low < 0.5 * (low + high) < high:
            middle = 0.5 * (low + high)
            if math.fsum(pull(t[i] - middle) for i in range(first, last + 1)) > wanted:
                low = middle
            else:
                high = middle
        return low

    total = math.fsum(s / power * abs(y[i]) ** power - theta[i] * y[i] for i in range(n))
    for i in range(n):
        v = max(min(solution(a, b) for b in range(i, n)) for a in range(i + 1))
        total += z[i] * v + s ** (1.0 - dual) / dual * abs(t[i] - v) ** dual
    return total
