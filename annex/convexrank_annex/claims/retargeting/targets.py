"""Chapter 3: monotone retargeting. Targets r are regressed on, in any order-preserving form; scores are θ = Aw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from convexrank_annex.claims.claim import Comparison, Verdict, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.exact import isotonic, optimum

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 3)

# Inverse gradients of the generators: natural parameters to targets.
LINKS: dict[str, Callable[[Array], Array]] = {
    "squared": lambda z: z,
    "generalized I": np.exp,
    "bit entropy": lambda z: 1.0 / (1.0 + np.exp(-z)),
    "KL": lambda z: np.exp(z - z.max()) / np.exp(z - z.max()).sum(),
}


def nearest_targets(
    theta: Array, generator: str, steps: Callable[[Any], Sequence[Any]], weights: Array | None = None
) -> Array:
    """Minimise φ(r) − ⟨θ, r⟩, which is D_φ(r ‖ ∇φ*(θ)) less a constant, under constraints: by cvxpy."""
    import cvxpy as cp

    r, v = cp.Variable(len(theta)), np.ones(len(theta)) if weights is None else weights
    phi, domain = {
        "squared": (0.5 * v @ cp.square(r), []),
        "generalized I": (-v @ cp.entr(r) - v @ r, []),
        "bit entropy": (-v @ (cp.entr(r) + cp.entr(1 - r)), []),
        "KL": (-v @ cp.entr(r), [cp.sum(r) == 1]),
    }[generator]
    optimum(cp.Minimize(phi - theta @ r), [*steps(r), *domain], tolerance=1e-10)
    return np.asarray(r.value)


def _chain(margin: float = 0.0) -> Callable[[Any], Sequence[Any]]:
    def steps(r: Any) -> Sequence[Any]:
        import cvxpy as cp

        return [cp.diff(r) >= margin]

    return steps


def _near(name: str, found: Array, exact: Array) -> Comparison:
    return equal(f"distance, {name}", np.abs(found - exact).max(), 0.0, 1e-4)


# --- one projection for every divergence ----------------------------------------------------------------------------


_EQUAL, _WEIGHTED = np.ones(6), np.array([1.0, 1.0, 5.0, 1.0, 0.3, 2.0])


@_claim(
    "universal-minimiser",
    "Proposition 1",
    "The minimiser of D_φ(x‖y) over all y in order is the same for every φ that is WIS, Σ w_i φ(x_i) with weights w.",
    (_EQUAL, _WEIGHTED),
    corrected=("It is for equal weights, or given ones: it depends on the weights, not on φ.", (_EQUAL,)),
)
def universal_minimiser(weights: tuple[Array, ...]) -> list[Comparison]:
    """Squared distance and generalized I-divergence, both convex in y, by conic programs."""
    import cvxpy as cp

    x, y = np.array([1.0, 3.0, 2.0, 0.5, 2.5, 2.4]), cp.Variable(6)
    found = []
    for w in weights:
        for cost in (w @ cp.square(y - x), w @ y - (w * x) @ cp.log(y)):
            optimum(cp.Minimize(cost), [cp.diff(y) >= 0], tolerance=1e-10)
            found.append(np.asarray(y.value))
    return [_near(f"divergence {i + 1} to the first", other, found[0]) for i, other in enumerate(found) if i]


@_claim(
    "projection-of-parameters",
    "Corollary 1",
    "For WIS φ the nearest targets in order to (∇φ)⁻¹(x) are (∇φ)⁻¹ of the isotonic regression of x.",
    _WEIGHTED,
    corrected=("For equal weights they are.", _EQUAL),
)
def projection_of_parameters(weights: Array) -> list[Comparison]:
    """Conic programs for the half-line and the interval, and with equal weights for the simplex."""
    theta = np.array([0.3, 1.2, -0.5, 0.1, 0.9, 0.4])
    names = ("generalized I", "bit entropy", *(("KL",) if np.ptp(weights) == 0 else ()))
    return [
        _near(name, LINKS[name](isotonic(theta) / weights), nearest_targets(theta, name, _chain(), weights))
        for name in names
    ]


@_claim(
    "sorting-is-optimal",
    "Lemma 5",
    "Of all orders of y, the order of x has the least divergence, in either argument, when entries are treated alike.",
    (1.0, 1.0, 1.0, 1.0),
    otherwise=("Also when entries have weights of their own.", (1.0, 6.0, 0.2, 3.0)),
)
def sorting_is_optimal(weights: Sequence[float]) -> list[Comparison]:
    """All 24 orders of four values, for two divergences."""
    from itertools import permutations

    rng, excess = np.random.default_rng(20), -np.inf
    divergences = (lambda a, b: a * np.log(a / b) - a + b, lambda a, b: a / b - np.log(a / b) - 1)
    for _ in range(20):
        x, y = np.sort(rng.uniform(0.1, 3.0, size=4)), np.sort(rng.uniform(0.1, 3.0, size=4))
        for divergence in divergences:
            for first in (True, False):
                costs = [
                    float(np.dot(weights, divergence(x, y[list(p)]) if first else divergence(y[list(p)], x)))
                    for p in permutations(range(4))
                ]
                excess = max(excess, costs[0] - min(costs))
    return [at_most("cost of the sorted order above the least", excess, 0.0, 1e-9)]


# --- partial orders -------------------------------------------------------------------------------------------------


_BLOCKS = np.array([0, 0, 0, 1, 1, 2])


@_claim(
    "hidden-order",
    "Lemma 6, footnote 4",
    "With grades only, sorting each grade by its scores and then solving for that total order is exact.",
    True,
    otherwise=("So is solving for the order of the rows.", False),
)
def hidden_order(sort: bool) -> list[Comparison]:
    """Conic programs with one inequality for every pair of rows of different grades."""
    theta = np.array([0.9, -0.4, 0.5, 0.8, 0.1, 0.3])
    order = np.lexsort((theta, _BLOCKS)) if sort else np.arange(6)
    z = np.empty(6)
    z[order] = isotonic(theta[order])

    def pairs(r: Any) -> Sequence[Any]:
        return [r[i] >= r[j] for i in range(6) for j in range(6) if _BLOCKS[i] > _BLOCKS[j]]

    names = ("squared", "generalized I", "KL")
    return [_near(name, LINKS[name](z), nearest_targets(theta, name, pairs)) for name in names]


@_claim(
    "block-equivalent",
    "Lemma 7, (3.14)",
    "With one target for a whole grade, project the grades' mean scores on the order, every grade counting alike.",
    np.ones(3),
    corrected=("Every grade counts as many times as it has rows.", np.bincount(_BLOCKS).astype(float)),
)
def block_equivalent(weights: Array) -> list[Comparison]:
    """Conic programs with equal targets inside each grade."""
    theta = np.array([0.9, -0.4, 1.5, -0.8, 0.1, 1.3])
    means = np.bincount(_BLOCKS, theta) / np.bincount(_BLOCKS)
    z = isotonic(means, weights)[_BLOCKS]

    def blocks(r: Any) -> Sequence[Any]:
        return [r[i + 1] == r[i] if _BLOCKS[i] == _BLOCKS[i + 1] else r[i + 1] >= r[i] for i in range(5)]

    names = ("squared", "generalized I")
    return [_near(name, LINKS[name](z), nearest_targets(theta, name, blocks)) for name in names]


@_claim(
    "worthless-minimum",
    "section 3.3, before (3.4)",
    "With targets confined to the simplex the cost is not reduced by scaling down, without learning the task.",
    0.0,
    otherwise=("It is not with margins between the targets.", 0.05),
    documented=Verdict.REFUTED,
)
def worthless_minimum(margin: float) -> list[Comparison]:
    """Scores in the wrong order, and a hundredth of them: the least cost over the targets, by conic programs."""
    compared, theta = [], np.array([0.6, 0.3, 0.1, -0.4, -0.6])
    for name in ("squared", "KL"):
        costs = []
        for scale in (1.0, 0.01):
            near = (0.2 if name == "squared" else 0.0) + scale * theta  # the uniform distribution at scale 0
            r, prediction = nearest_targets(near, name, _simplex(margin)), LINKS[name](near)
            r = np.maximum(r, 1e-300)
            squared = 0.5 * np.sum((r - prediction) ** 2)
            costs.append(float(squared if name == "squared" else np.sum(r * np.log(r / prediction))))
        compared.append(
            at_least(f"cost of scaled scores over the cost, {name}", costs[1] / costs[0], 1e-2, 5e-5)
        )
    return compared


def _simplex(margin: float) -> Callable[[Any], Sequence[Any]]:
    def steps(r: Any) -> Sequence[Any]:
        return [r[1:] - r[:-1] >= margin, r >= 0, sum(r) == 1]

    return steps


@_claim(
    "printed-divergence",
    "Table 3.1, last row",
    "The generator x log x − x has the divergence (x−1) log((x−1)/(y−1)) − x + y.",
    1.0,
    corrected=("It has x log(x/y) − x + y; the printed one belongs to the generator shifted by 1.", 0.0),
)
def printed_divergence(shift: float) -> list[Comparison]:
    """The definition φ(x) − φ(y) − φ'(y)(x − y) on a grid."""
    x, y = np.meshgrid(np.linspace(1.2, 4.0, 15), np.linspace(1.2, 4.0, 15))
    defined = x * np.log(x) - x - y * np.log(y) + y - np.log(y) * (x - y)
    printed = (x - shift) * np.log((x - shift) / (y - shift)) - x + y
    return [equal("largest difference", np.abs(defined - printed).max(), 0.0, 1e-12)]


CLAIMS = defined_in(globals())
