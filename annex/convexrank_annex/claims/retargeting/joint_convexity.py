"""Chapter 3, continued: joint convexity and its marginal (sections 3.2.3, 3.4.1 to 3.4.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, Verdict, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.exact import central_differences, isotonic, optimum
from convexrank_annex.claims.retargeting.targets import nearest_targets

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 3)


# --- joint convexity ------------------------------------------------------------------------------------------------


_QUADRATICS = [
    (f"{c} x²", lambda x, c=c: 0 * x + 2 * c, lambda y, c=c: 0 * y + 1 / (2 * c)) for c in (0.3, 1.0, 4.0)
]
# φ'' at x, and (φ*)'' at y.
_OTHERS = [
    ("entropy", lambda x: 1.0 / np.exp(x), np.exp),
    ("bit entropy", lambda x: 2.0 + 2.0 * np.cosh(x), lambda y: 1.0 / (2.0 + 2.0 * np.cosh(y))),
    ("cosh", np.cosh, lambda y: 1.0 / np.sqrt(1.0 + y**2)),
]


@_claim(
    "joint-convexity-is-quadratic",
    "Theorem 1",
    "φ(x) + φ*(y) − xy is jointly convex in x and y for quadratic φ, and for no other.",
    _QUADRATICS,
    otherwise=("It is for an entropy, the bit entropy or cosh.", _OTHERS),
)
def joint_convexity_is_quadratic(generators: Sequence[tuple[str, Callable, Callable]]) -> list[Comparison]:
    """Least determinant of the Hessian, φ''(x)·(φ*)''(y) − 1, on a grid; the largest of them over the generators."""
    x, y = np.meshgrid(np.linspace(-2.0, 2.0, 41), np.linspace(-2.0, 2.0, 41))
    least = [float((second(x) * dual(y) - 1.0).min()) for _, second, dual in generators]
    return [at_least("least determinant of the Hessian", max(least), 0.0, 1e-12)]


def _below_quadratic() -> Sequence[tuple[Callable[[Array], float], float]]:
    """Functions of two variables, each with s: s‖∇φ(x) − ∇φ(y)‖ ≤ ‖x − y‖."""
    return (
        (lambda x: 1.5 * float(x @ x), 1.0 / 3.0),
        (lambda x: float(np.logaddexp(0.0, 2.0 * x).sum()), 1.0),
        (lambda x: float(np.sqrt(1.0 + x @ x)), 1.0),
        (lambda x: float(np.where(np.abs(x) < 1.0, 0.5 * x**2, np.abs(x) - 0.5).sum()), 1.0),
    )


@_claim(
    "smooth-from-below",
    "Lemma 30",
    "With s‖∇φ(x) − ∇φ(y)‖ ≤ ‖x − y‖, φ(αx + (1 − α)y) ≥ αφ(x) + (1 − α)φ(y) − ½α(1 − α)‖x − y‖²/s.",
    0.5,
    otherwise=("The last term may be half as large.", 0.25),
)
def smooth_from_below(share: float) -> list[Comparison]:
    """A square, two logistic losses, √(1 + ‖x‖²) and a sum of Huber's functions; random points."""
    rng, least = np.random.default_rng(28), np.inf
    for phi, s in _below_quadratic():
        for _ in range(300):
            (x, y), alpha = rng.normal(size=(2, 2)), float(rng.random())
            most = share * alpha * (1.0 - alpha) * float((x - y) @ (x - y)) / s
            least = min(
                least, phi(alpha * x + (1 - alpha) * y) - alpha * phi(x) - (1 - alpha) * phi(y) + most
            )
    return [at_least("least difference of the two sides", least, 0.0, 1e-12)]


@_claim(
    "joint-convexity-condition",
    "Lemma 8",
    "With s(1 + C_r)(C_w + 1/L) ≥ 1 the regularized cost (3.17) is jointly convex in the targets and w.",
    1.0,
    otherwise=("With 0.8 instead of 1 it is.", 0.8),
)
def joint_convexity_condition(level: float) -> list[Comparison]:
    """Least eigenvalue of the Hessian, for random curvatures of φ between s and L, the extremes included."""
    rng, strong, lipschitz, least = np.random.default_rng(21), 0.5, 2.0, np.inf
    for number in range(300):
        reward = rng.uniform(0.0, 5.0)
        weight = level / (strong * (1.0 + reward)) - 1.0 / lipschitz
        features = rng.normal(size=(3, 2))
        phi, psi = rng.uniform(strong, lipschitz, size=3), rng.uniform(1 / lipschitz, 1 / strong, size=3)
        if number % 2:
            phi, psi = np.full(3, strong), np.full(3, 1 / lipschitz)
        lower = features.T @ ((psi + weight)[:, None] * features)
        hessian = np.block([[np.diag((1 + reward) * phi), -features], [-features.T, lower]])
        least = min(least, float(np.linalg.eigvalsh(hessian)[0]))
    return [at_least("least eigenvalue", least, 0.0, 1e-9)]


@_claim(
    "deflected-prediction",
    "Lemma 9",
    "The regularized targets are the nearest ones to the link of αθ + (1 − α)q, with α = 1/(1 + C).",
    lambda c: 1.0 / (1.0 + c),
    otherwise=("With α = C/(1 + C).", lambda c: c / (1.0 + c)),
)
def deflected_prediction(share: Callable[[float], float]) -> list[Comparison]:
    """Conic programs with both divergences, and with the one."""
    import cvxpy as cp

    theta, q, c = np.array([0.3, 1.2, -0.5, 0.1]), np.array([-1.0, 0.0, 0.2, 0.5]), 2.0
    r = cp.Variable(4)
    within = [cp.diff(r) >= 0, r <= 1.5]
    optimum(cp.Minimize((1 + c) * (-cp.sum(cp.entr(r)) - cp.sum(r)) - (theta + c * q) @ r), within, 1e-10)
    both, alpha = np.asarray(r.value), share(c)
    one = nearest_targets(
        alpha * theta + (1 - alpha) * q, "generalized I", lambda v: [cp.diff(v) >= 0, v <= 1.5]
    )
    return [equal("distance of the targets", np.abs(both - one).max(), 0.0, 1e-4)]


# --- the marginal over the targets ----------------------------------------------------------------------------------

_FEATURES = np.array([[1.0, 0.3], [-0.6, 0.8], [0.2, -1.0], [0.9, 0.5]])


def _gradient(w: Array, reward: float, weight: float, ridge: float, ordered: bool = True) -> Array:
    """Gradient of the marginal of (3.17) for the squared distance, q = 0: the targets are a projection."""
    theta = _FEATURES @ w
    deflected = theta / (1.0 + reward)
    targets = isotonic(deflected) if ordered else deflected
    return _FEATURES.T @ (theta - targets + weight * theta) + ridge * w


def _hessian(w: Array, ordered: bool = True) -> Array:
    columns = [
        central_differences(lambda v, k=k: float(_gradient(v, 0.5, 0.0, 0.1, ordered)[k]), w, 1e-6)
        for k in range(2)
    ]
    return np.array(columns)


@_claim(
    "marginal-lipschitz-constant",
    "Lemma 10",
    "The marginal's gradient has the Lipschitz constant σ²(C_w − 1/(s(1 + C_r))) + C.",
    lambda sigma, strong, weight, reward, ridge: (
        sigma**2 * (weight - 1.0 / (strong * (1.0 + reward))) + ridge
    ),
    corrected=(
        "It has σ²(1/s + C_w) + C: the printed one leaves out the curvature of φ*, and can be negative.",
        lambda sigma, strong, weight, reward, ridge: sigma**2 * (1.0 / strong + weight) + ridge,
    ),
)
def marginal_lipschitz(constant: Callable[..., float]) -> list[Comparison]:
    """The largest ratio of changes of the gradient, squared distance (s = L = 1), random pairs."""
    rng, ridge, compared = np.random.default_rng(22), 0.1, []
    sigma = float(np.linalg.norm(_FEATURES, 2))
    for reward, weight in ((0.5, 0.0), (0.0, 1.0)):
        largest = 0.0
        for _ in range(300):
            a, move = rng.normal(size=2), rng.normal(size=2)
            change = _gradient(a + move, reward, weight, ridge) - _gradient(a, reward, weight, ridge)
            largest = max(largest, float(np.linalg.norm(change) / np.linalg.norm(move)))
        stated = constant(sigma, 1.0, weight, reward, ridge)
        compared.append(at_most(f"Lipschitz constant seen, C_r = {reward}", largest, stated, 1e-9))
    return compared


@_claim(
    "marginal-strong-convexity",
    "Lemma 10",
    "Under the condition of Lemma 8 the marginal is C-strongly convex.",
    0.0,
    otherwise=("Also with weights below the condition.", -0.8),
)
def marginal_strong_convexity(weight: float) -> list[Comparison]:
    """The least ⟨change of gradient, move⟩ / ‖move‖² over random pairs, less C."""
    rng, ridge, least = np.random.default_rng(23), 0.1, np.inf
    for _ in range(300):
        a, move = rng.normal(size=2), rng.normal(size=2)
        change = _gradient(a + move, 0.0, weight, ridge) - _gradient(a, 0.0, weight, ridge)
        least = min(least, float(change @ move) / float(move @ move))
    return [at_least("least modulus seen", least, ridge, 1e-9)]


@_claim(
    "marginal-hessian-formula",
    "(3.20)",
    "The Hessian of the marginal is Aᵀ[H_φ* + C_w − H_φ⁻¹/(1 + C_r)]A + C.",
    "every target of its own",
    corrected=(
        "The last term has to average over the targets that are tied by the order.",
        "averages over ties",
    ),
)
def marginal_hessian_formula(kind: str) -> list[Comparison]:
    """Central differences of the exact gradient, squared distance, at a point where targets are tied."""
    w, reward, ridge = np.array([0.7, 0.4]), 0.5, 0.1
    targets = isotonic(_FEATURES @ w / (1 + reward))
    ties = (np.abs(targets[:, None] - targets) < 1e-12).astype(float)
    inner = np.eye(4) if kind == "every target of its own" else ties / ties.sum(axis=1)
    formula = _FEATURES.T @ (np.eye(4) - inner / (1 + reward)) @ _FEATURES + ridge * np.eye(2)
    return [equal("distance of the Hessians", np.abs(formula - _hessian(w)).max(), 0.0, 1e-6)]


@_claim(
    "marginal-hessian-continuous",
    "Lemma 11",
    "When φ* has a Lipschitz continuous Hessian, the marginal has one.",
    True,
    otherwise=("It has one when the targets are not held in order.", False),
    documented=Verdict.REFUTED,
)
def marginal_hessian_continuous(ordered: bool) -> list[Comparison]:
    """Jump of the Hessian across w where two targets become tied; for the squared distance H_φ* is constant."""
    rng, jump = np.random.default_rng(24), 0.0
    for _ in range(20):
        normal = _FEATURES[1] - _FEATURES[0]
        along = np.array([-normal[1], normal[0]]) * rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 2.0)
        jump = max(
            jump,
            float(
                np.abs(
                    _hessian(along + 1e-4 * normal, ordered) - _hessian(along - 1e-4 * normal, ordered)
                ).max()
            ),
        )
    return [at_most("jump of the Hessian over a step of 2e-4", jump, 0.0, 1e-4)]


CLAIMS = defined_in(globals())
