"""Chapter 4, continued: projection kernels, sensitivity, kernels, prediction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, Verdict, at_most, claim, defined_in, equal
from convexrank_annex.claims.exact import bounded_increments, isotonic, least_value, optimum
from convexrank_annex.claims.learned_divergence.gradient import marginal, rearranged

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 4)


# --- the projection kernels -----------------------------------------------------------------------------------------


def _one_shot(y: Array, lower: Array, upper: Array) -> Array:
    """Section 4.2.4: project on either half of the bounds by isotonic regression, then average."""
    return 0.5 * (_raised(y, lower) + _held(y, upper))


def _repeated(y: Array, lower: Array, upper: Array) -> Array:
    """Dykstra: the same two projections in turn, with corrections, until they agree."""
    fitted, below, above = y, np.zeros_like(y), np.zeros_like(y)
    for _ in range(3000):
        raised = _raised(fitted + below, lower)
        below = fitted + below - raised
        fitted = _held(raised + above, upper)
        above = raised + above - fitted
    return fitted


def _raised(y: Array, lower: Array) -> Array:
    offset = np.r_[0.0, np.cumsum(lower)]
    return isotonic(y - offset) + offset


def _held(y: Array, upper: Array) -> Array:
    offset = np.r_[0.0, np.cumsum(upper)]
    return -isotonic(offset - y) + offset


@_claim(
    "one-shot-lipschitz",
    "section 4.2.4, (4.17)-(4.20)",
    "Two isotonic regressions and one averaging step solve isotonic regression with slopes bounded on both sides.",
    _one_shot,
    otherwise=("The two regressions solve it when repeated with Dykstra's corrections.", _repeated),
    documented=Verdict.REFUTED,
)
def one_shot_lipschitz(method: Callable[..., Array]) -> list[Comparison]:
    """Distance from the solution of the quadratic program."""
    rng, compared = np.random.default_rng(6), []
    for _ in range(2):
        y, gaps = rng.normal(size=6), rng.uniform(0.1, 0.6, size=5)
        error = np.abs(method(y, 0.2 * gaps, gaps) - bounded_increments(y, 0.2 * gaps, gaps)).max()
        compared.append(equal("distance from the solution", error, 0.0, 1e-5))
    return compared


def _weights(kind: str) -> tuple[Array, Array, Array]:
    """Weights and bounds on the steps of a family of projections."""
    rng, n = np.random.default_rng(7), 6
    weights = np.ones(n) if kind == "equal weights" else rng.uniform(0.2, 5.0, size=n)
    return weights, np.zeros(n - 1), np.full(n - 1, np.inf)


def _minimiser(y: Array, generator: str, weights: Array) -> Array:
    """Minimise Σ w_i D_φ(y_i‖s_i) over non-decreasing s, convex in the natural parameter φ'(s), by cvxpy."""
    import cvxpy as cp

    t = cp.Variable(len(y))
    conjugate, link = {
        "squared": (0.5 * cp.square(t), lambda v: v),
        "generalized I": (cp.exp(t), np.exp),
        "Itakura-Saito": (-cp.log(-t), lambda v: -1.0 / v),
    }[generator]
    cost = cp.sum(cp.multiply(weights, conjugate - cp.multiply(y, t)))
    optimum(cp.Minimize(cost), [cp.diff(t) >= 0])
    return link(np.asarray(t.value))


@_claim(
    "metric-invariance",
    "Corollary 2; K invariance, section 4.2.4",
    "The projection on the monotone cone is the same in every diagonal metric.",
    "any weights",
    corrected=("It is the same for every φ, when the weights are equal.", "equal weights"),
)
def metric_invariance(kind: str) -> list[Comparison]:
    """Minimisers for three generators and the given weights, against the unweighted Euclidean projection."""
    weights, *_ = _weights(kind)
    y = np.array([1.0, 3.0, 2.0, 0.5, 2.5, 4.0])
    return [
        equal(f"distance, {name}", np.abs(_minimiser(y, name, weights) - isotonic(y)).max(), 0.0, 1e-4)
        for name in ("squared", "generalized I", "Itakura-Saito")
    ]


@_claim(
    "metric-invariance-bounded",
    "K invariance, section 4.2.4, for slopes bounded on both sides",
    "With Lipschitz bounds, too, the projection is the same in every diagonal metric.",
    (0.2, 5.0),
    otherwise=("It is the same when all weights are multiplied by one number.", (3.0, 3.0)),
    documented=Verdict.REFUTED,
)
def metric_invariance_bounded(spread: tuple[float, float]) -> list[Comparison]:
    """Weighted against unweighted quadratic programs."""
    rng = np.random.default_rng(8)
    y, gaps = rng.normal(size=6), rng.uniform(0.1, 0.6, size=5)
    plain = bounded_increments(y, 0.2 * gaps, gaps)
    weighted = bounded_increments(y, 0.2 * gaps, gaps, rng.uniform(*spread, size=6))
    return [equal("distance", np.abs(weighted - plain).max(), 0.0, 1e-5)]


# --- sensitivity, kernels, prediction -------------------------------------------------------------------------------


def _printed_bound(x: Array, change: Array, share: float) -> float:
    """Theorem 8 with K = I: the norm of Xᵀ(ỹ − y)."""
    return float(np.linalg.norm(x.T @ change)) / share


def _operator_bound(x: Array, change: Array, share: float) -> float:
    return 2.0 * float(np.linalg.norm(x, 2) * np.linalg.norm(change)) / share


@_claim(
    "sensitivity",
    "Theorem 8, (4.24)",
    "When y is perturbed, w moves by at most ‖Xᵀ(ỹ − y)‖ over the modulus of the regularizer.",
    _printed_bound,
    corrected=(
        "It moves by at most 2 ‖X‖ ‖ỹ − y‖ over that modulus: s(θ) moves with y as well.",
        _operator_bound,
    ),
)
def sensitivity(bound: Callable[[Array, Array, float], float]) -> list[Comparison]:
    """Exact minimisers before and after, for perturbations inside and outside the null space of Xᵀ."""
    largest, share, strong = -np.inf, 0.5, 0.5
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(8, 2))
        y, change = x @ rng.normal(size=2) + 0.3 * rng.normal(size=8), 0.3 * rng.normal(size=8)
        if seed % 2:
            change -= x @ np.linalg.lstsq(x, change, rcond=None)[0]
        moved = np.linalg.norm(_fitted(x, y + change, strong, share) - _fitted(x, y, strong, share))
        largest = max(largest, float(moved) - bound(x, change, share))
    return [at_most("move of w beyond the bound", largest, 0.0, 1e-6)]


def _fitted(x: Array, y: Array, strong: float, ridge: float) -> Array:
    def objective(w: Array) -> tuple[float, Array]:
        theta = x @ w
        value = marginal(theta, y, strong) + 0.5 * ridge * (w @ w)
        return float(value), x.T @ (rearranged(theta, y, strong) - y) + ridge * w

    return least_value(objective, np.full(x.shape[1], 0.1))[1]


@_claim(
    "kernel-representation",
    "section 4.2.3",
    "With the regularizer c‖w‖² the optimum is w = Xᵀ(s − y)/c.",
    1.0,
    corrected=("It is w = −Xᵀ(s − y)/(2c): sign and factor are lost.", -0.5),
)
def kernel_representation(factor: float) -> list[Comparison]:
    """The exact minimiser against the formula."""
    rng, share, strong = np.random.default_rng(10), 0.4, 0.5
    x = rng.normal(size=(8, 2))
    y = np.tanh(x @ [1.0, -1.0]) + 0.2 * rng.normal(size=8)
    w = _fitted(x, y, strong, 2.0 * share)
    formula = factor * x.T @ (rearranged(x @ w, y, strong) - y) / share
    return [equal("distance from the minimiser", np.linalg.norm(w - formula), 0.0, 1e-6)]


@_claim(
    "prediction-interval",
    "section 4.3, strongly convex φ",
    "Between neighbours the link may rise by at most s times the difference of the scores.",
    lambda strong: strong,
    corrected=("It may rise by at most 1/s times it.", lambda strong: 1.0 / strong),
)
def prediction_interval(slope: Callable[[float], float]) -> list[Comparison]:
    """Ends of the interval, against linear programs over the values of φ* on a grid."""
    compared = []
    for strong, low, high, at in ((0.4, 0.0, 1.5, 0.3), (2.0, 0.0, 0.4, 0.3)):
        rise = slope(strong)
        ends = max(low, high - rise * (1.0 - at)), min(high, low + rise * at)
        for name, end, sign in (("lower", ends[0], 1.0), ("upper", ends[1], -1.0)):
            exact = _extreme_link(low, high, at, strong, sign)
            compared.append(equal(f"{name} end, s = {strong}", end, exact, 1e-6))
    return compared


def _extreme_link(low: float, high: float, at: float, strong: float, sign: float) -> float:
    """Least (sign 1) or greatest value at a score, of monotone links from (0, low) to (1, high), as a program."""
    from scipy.optimize import linprog

    nodes = 101
    steps = np.diff(np.eye(nodes), axis=0)
    ends = np.eye(nodes)[[0, -1]]
    answer = linprog(
        sign * np.eye(nodes)[round(at * (nodes - 1))],
        A_ub=np.r_[steps, -steps],
        b_ub=np.r_[np.full(nodes - 1, 1.0 / (strong * (nodes - 1))), np.zeros(nodes - 1)],
        A_eq=ends,
        b_eq=[low, high],
        bounds=(None, None),
        method="highs",
    )
    return float(sign * answer.fun)


CLAIMS = defined_in(globals())
