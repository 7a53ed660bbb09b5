"""Chapter 4, continued: rates of its methods, and the comparison with Isotron."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, Verdict, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.exact import isotonic, least_value
from convexrank_annex.claims.learned_divergence.gradient import marginal, projected, rearranged

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 4)


# --- rates ----------------------------------------------------------------------------------------------------------


def _strong_instance(ridge: float = 0.0) -> tuple[Callable[[Array], tuple[float, Array]], float]:
    """Objective with its gradient for strongly convex φ, and the Lipschitz constant of that."""
    strong, x = 1.0, np.array([[1.0, 0.02], [-1.0, 0.0], [0.0, 0.03]])
    y = 2.0 * x[:, 0] + x[:, 1]

    def objective(w: Array) -> tuple[float, Array]:
        theta = x @ w
        value = marginal(theta, y, strong) + 0.5 * ridge * (w @ w)
        return float(value), x.T @ (rearranged(theta, y, strong) - y) + ridge * w

    return objective, float(np.linalg.norm(x, 2) ** 2 / strong) + ridge


def _unit_steps(
    gradient: Callable[[Array], Array], start: Array, lipschitz: float, steps: int
) -> list[Array]:
    points = [start]
    for _ in range(steps):
        points.append(points[-1] - gradient(points[-1]) / lipschitz)
    return points


def _accelerated(power: int) -> Callable[..., list[Array]]:
    """Table 4.2, right; ``power`` is that of the bracket in the momentum, 2 as printed."""

    def method(gradient: Callable[[Array], Array], start: Array, lipschitz: float, steps: int) -> list[Array]:
        points, w, a = [start], start, 1.0
        for _ in range(steps):
            points.append(w - gradient(w) / lipschitz)
            following = min(0.5 * (1.0 + (4.0 * a * a + 1.0) ** 0.5) ** power, 1e100)
            weight = 0.0 if following == 1e100 else (a - 1.0) / following  # printed, it soon squares itself
            w, a = points[-1] + weight * (points[-1] - points[-2]), following
        return points

    return method


def _quadratic_rate(method: Callable[..., list[Array]]) -> list[Comparison]:
    """The worst ratio of the excess to 2 L ‖w₀ − w*‖² / (t + 1)², the guarantee of accelerated gradient."""
    objective, lipschitz = _strong_instance()
    start, best = np.array([-600.0, 0.0]), np.array([2.0, 1.0])  # the best one fits: m = 0
    points = method(lambda w: objective(w)[1], start, lipschitz, 300)
    bound = 2.0 * lipschitz * float(np.sum((start - best) ** 2))
    ratios = [objective(w)[0] * (t + 1) ** 2 / bound for t, w in enumerate(points) if t > 0]
    return [at_most("excess over 2L‖w₀−w*‖²/(t+1)²", max(ratios), 1.0, 1e-6, clearly=0.5)]


rate_accelerated = _claim(
    "rate-accelerated",
    "Table 4.1, section 4.2",
    "For strongly convex φ accelerated gradient, without function values, has the rate 1/T².",
    _accelerated(1),
    otherwise=("Unit steps without acceleration, as Isotron's, have it.", _unit_steps),
)(_quadratic_rate)

momentum_as_printed = _claim(
    "momentum-as-printed",
    "Table 4.2, right",
    "With the momentum a ← (1 + √(4a² + 1))²/2 accelerated gradient has the rate 1/T².",
    _accelerated(2),
    corrected=("With a ← (1 + √(4a² + 1))/2 it has.", _accelerated(1)),
)(_quadratic_rate)


def _shrinking(t: int) -> float:
    return 1.0 / np.sqrt(t + 1.0)


def _constant(t: int) -> float:
    return 1.0


@_claim(
    "rate-subgradient",
    "Table 4.1, Table 4.2, left",
    "For all convex φ, steps a/(b + √t) along a subgradient come down at the rate 1/√T.",
    _shrinking,
    otherwise=("Steps of constant length do.", _constant),
)
def rate_subgradient(length: Callable[[int], float]) -> list[Comparison]:
    """The excess times √T, in units of (Lipschitz constant) × (distance), over the second half of the run."""
    rng = np.random.default_rng(9)
    x, y = rng.normal(size=(8, 2)), rng.normal(size=8)
    start = np.array([3.0, -2.0])
    bound = 2.0 * float(np.linalg.norm(x, 2) * np.linalg.norm(y - y.mean()))
    w, values, steps = start, [], 4000
    for t in range(steps):
        theta = x @ w
        values.append(marginal(theta, y))
        w = w - np.linalg.norm(start) / bound * length(t) * (x.T @ (rearranged(theta, y) - y))
    scaled = np.array(values) * np.sqrt(np.arange(steps) + 1.0) / (bound * np.linalg.norm(start))
    return [at_most("excess · √T / (G ‖w₀ − w*‖)", scaled[steps // 2 :].max(), 1.0, 1e-6, clearly=0.1)]


@_claim(
    "rate-linear",
    "Table 4.1, last row",
    "For strongly convex φ and a strongly convex regularizer accelerated gradient converges linearly.",
    True,
    otherwise=("Unit steps are as fast as accelerated ones.", False),
)
def rate_linear(momentum: bool) -> list[Comparison]:
    """The worst ratio of the excess to its bound (1 − √(μ/L))^t (excess + μ/2 distance²)."""
    ridge = 1e-3
    objective, lipschitz = _strong_instance(ridge)
    start = np.array([-60.0, 0.0])
    weight = (1 - (ridge / lipschitz) ** 0.5) / (1 + (ridge / lipschitz) ** 0.5) if momentum else 0.0
    points, w = [start], start
    for _ in range(1500):
        points.append(w - objective(w)[1] / lipschitz)
        w = points[-1] + weight * (points[-1] - points[-2])
    values = [objective(w)[0] for w in points]
    best = least_value(objective, start)
    first = values[0] - best[0] + 0.5 * ridge * float(np.sum((start - best[1]) ** 2))
    factor = 1.0 - (ridge / lipschitz) ** 0.5
    ratios = [(v - best[0]) / (factor**t * first) for t, v in enumerate(values) if factor**t * first > 1e-9]
    return [at_most("excess over the bound", max(ratios), 1.0, 1e-3, clearly=0.5)]


# --- Isotron, and the realizable case -------------------------------------------------------------------------------


@_claim(
    "isotron-is-a-gradient-step",
    "section 4.6",
    "Isotron's update is a unit step of gradient descent on (4.1).",
    projected,
    otherwise=("A unit step along y less the rearrangement is.", rearranged),
    documented=Verdict.REFUTED,
)
def isotron_step(link: Callable[..., Array]) -> list[Comparison]:
    """Move of a unit step, against the slope of m by differences along each feature."""
    rng = np.random.default_rng(11)
    x, y, w = rng.normal(size=(7, 2)), rng.normal(size=7), np.array([0.6, -0.4])
    step = x.T @ (y - link(x @ w, y))
    slopes = [(marginal(x @ (w + h), y) - marginal(x @ (w - h), y)) / 2e-5 for h in 1e-5 * np.eye(2)]
    return [equal("distance from minus the gradient", np.linalg.norm(step + slopes), 0.0, 1e-5)]


@_claim(
    "surrogate-of-squared-loss",
    "section 4.6",
    "For s-strongly convex φ the cost is at least s/2 times the squared error of the link.",
    0.5,
    otherwise=("It is at least s times that.", 1.0),
)
def surrogate(factor: float) -> list[Comparison]:
    """The least margin over random scores and targets, scores from nearly tied to far apart."""
    rng, margin, strong = np.random.default_rng(12), np.inf, 0.7
    for _ in range(300):
        y, theta = rng.normal(size=5), rng.choice([0.01, 0.3, 3.0]) * rng.normal(size=5)
        squared = float(np.sum((y - rearranged(theta, y, strong)) ** 2))
        margin = min(margin, marginal(theta, y, strong) - factor * strong * squared)
    return [at_least("least margin", margin, 0.0, 1e-9)]


@_claim(
    "realizable-linear",
    "sections 4.4 and 4.6, item 3",
    "Projections in turn find exact scores linearly, when the set that holds w cuts the monotone scores.",
    1.5,
    otherwise=("Also when it only touches them.", 1.0),
)
def realizable_linear(size: float) -> list[Comparison]:
    """Distance between the sets at late rounds; the ball has ``size`` times the least radius."""
    y = np.array([0.0, 1.0, 2.0, 4.0])

    def onto_scores(theta: Array) -> Array:  # steps at least those of y
        return isotonic(theta - y) + y

    radius = size * float(np.linalg.norm(onto_scores(np.zeros(4))))
    theta, gaps = np.array([5.0, -4.0, 9.0, 1.0]), []
    for _ in range(200):
        scores = onto_scores(theta)
        theta = scores * min(1.0, radius / float(np.linalg.norm(scores)))
        gaps.append(float(np.linalg.norm(scores - theta)))
    ratio = gaps[150] / gaps[100] if gaps[100] > 1e-14 else 0.0
    return [at_most("gap after 150 rounds over the gap after 100", ratio, 0.1, 1e-3)]


CLAIMS = defined_in(globals())
