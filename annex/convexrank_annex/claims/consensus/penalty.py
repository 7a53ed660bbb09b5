"""Chapter 5: PageRank and the penalty method (sections 5.2.1, 5.2.2, 5.3.1, 5.4.1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, Verdict, at_most, claim, defined_in, equal
from convexrank_annex.claims.consensus.graph import ALPHA, LINKS, PAGERANK, P, costs, kl, softmax
from convexrank_annex.claims.exact import optimum

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 5)


def _published_cost(rho: Array) -> float:
    """(5.10), with links and teleport apart; a link of weight 0 costs nothing."""
    safe = np.where(LINKS > 0, LINKS, 1.0)
    links = np.array([np.sum(t * np.log(u / rho)) for t, u in zip(LINKS.T, safe.T, strict=True)])
    return float(ALPHA * rho @ links + (1 - ALPHA) * kl(np.full(4, 0.25), rho))


def _absorbed_cost(rho: Array) -> float:
    """(5.10) with the absorbed columns of (5.11)."""
    return float(rho @ costs(rho))


def _least(cost: Callable[[Array], float]) -> Array:
    """Global minimiser over the simplex of dimension 3: many starts, in logarithms."""
    from scipy.optimize import minimize

    rng, best = np.random.default_rng(30), None
    for _ in range(8):
        answer = minimize(
            lambda v: cost(softmax(v)), rng.normal(size=4), method="BFGS", options={"gtol": 1e-9}
        )
        if best is None or answer.fun < best.fun:
            best = answer
    return softmax(best.x) if best is not None else np.empty(0)


# --- the penalty method ---------------------------------------------------------------------------------------------


@_claim(
    "pagerank-minimises",
    "(5.9), (5.10), section 5.2.2",
    "The global minimum of the consensus cost is PageRank.",
    lambda cost: PAGERANK,
    otherwise=("It is a point of another kind, found by descent.", _least),
    documented=Verdict.REFUTED,
)
def pagerank_minimises(candidate: Callable[[Callable[[Array], float]], Array]) -> list[Comparison]:
    """Cost at the candidate, above the least of a grid in the simplex."""
    compared, grid = [], _grid(60)
    for name, cost, at_once in (
        ("absorbed", _absorbed_cost, _absorbed_grid),
        ("published", _published_cost, _published_grid),
    ):
        excess = cost(candidate(cost)) - float(at_once(grid).min())
        compared.append(at_most(f"cost above the least, {name} columns", excess, 0.0, 1e-5, clearly=1e-3))
    return compared


def _grid(steps: int) -> Array:
    from itertools import combinations

    bars = np.array(list(combinations(range(1, steps), 3)), dtype=float)
    return np.diff(np.c_[np.zeros(len(bars)), bars, np.full(len(bars), steps)], axis=1) / steps


def _absorbed_grid(rho: Array) -> Array:
    return rho @ np.sum(P * np.log(P), axis=0) - np.sum((rho @ P.T) * np.log(rho), axis=1)


def _published_grid(rho: Array) -> Array:
    entropy = np.sum(LINKS * np.log(np.where(LINKS > 0, LINKS, 1.0)), axis=0)
    mean = ALPHA * rho @ LINKS.T + (1 - ALPHA) / 4
    return ALPHA * rho @ entropy + (1 - ALPHA) * np.log(0.25) - np.sum(mean * np.log(rho), axis=1)


@_claim(
    "absorbing-the-teleport",
    "(5.11)",
    "The columns with the teleport absorbed give the same problem (5.9).",
    "over both",
    otherwise=("They give the same ρ for given weights.", "for given weights"),
    documented=Verdict.REFUTED,
)
def absorbing_the_teleport(which: str) -> list[Comparison]:
    """Distance of the two minimisers."""
    if which == "over both":
        one, two = _least(_absorbed_cost), _least(_published_cost)
    else:
        w = np.array([0.1, 0.4, 0.2, 0.3])
        entries = np.where(LINKS > 0, LINKS, 1.0)
        one = _least(lambda rho: float(w @ costs(rho)))
        teleport = np.full(4, 0.25)

        def apart(rho: Array) -> float:
            links = np.sum(LINKS * np.log(entries / rho[:, None]), axis=0)
            return float(ALPHA * w @ links + (1 - ALPHA) * kl(teleport, rho))

        two = _least(apart)
    return [equal("distance of the minimisers", np.abs(one - two).sum(), 0.0, 1e-5)]


@_claim(
    "penalty-weight-update",
    "(5.14)",
    "With absorbed columns the weights are ρ_i exp(−αβ/(1−β) KL(t_i‖ρ)), normalised.",
    ALPHA,
    corrected=("The factor α is in the columns already and has to go.", 1.0),
)
def penalty_weight_update(factor: float) -> list[Comparison]:
    """Conic program in w."""
    import cvxpy as cp

    rho, beta, w = np.array([0.4, 0.1, 0.3, 0.2]), 0.6, cp.Variable(4)
    penalty = (1 - beta) / beta * (-cp.sum(cp.entr(w)) - np.log(rho) @ w)
    optimum(cp.Minimize(costs(rho) @ w + penalty), [cp.sum(w) == 1], tolerance=1e-9)
    formula = rho * np.exp(-factor * beta / (1 - beta) * costs(rho))
    return [equal("distance of the weights", np.abs(formula / formula.sum() - w.value).sum(), 0.0, 1e-4)]


def _penalised(beta: float, columns: Array = P) -> Array:
    """The alternation (5.13), (5.14), with the weight update put right."""
    w = np.full(4, 0.25)
    for _ in range(round(40 / beta)):
        w = _round(w, beta, columns)
    return w


def _round(w: Array, beta: float, columns: Array = P) -> Array:
    rho = beta * (columns @ w) + (1 - beta) * w
    w = rho * np.exp(-beta / (1 - beta) * costs(rho, columns))
    return w / w.sum()


@_claim(
    "penalty-limit",
    "section 5.2.2",
    "As β tends to 0 the penalty method comes to PageRank.",
    lambda w: w - PAGERANK,
    otherwise=(
        "It comes to a root of Pw − w = w∘(D(w) − ⟨w, D(w)⟩).",
        lambda w: P @ w - w - w * (costs(w) - w @ costs(w)),
    ),
    documented=Verdict.REFUTED,
)
def penalty_limit(residual: Callable[[Array], Array]) -> list[Comparison]:
    """The residual of the limit, for a small and a smaller β, extrapolated to 0."""
    coarse, fine = (residual(_penalised(beta)) for beta in (0.02, 0.01))
    return [equal("residual at β → 0", np.abs(2 * fine - coarse).sum(), 0.0, 1e-4)]


@_claim(
    "penalty-minima",
    "section 5.2.1",
    "The consensus cost may have more than one local minimum.",
    2,
    otherwise=("It has one.", 1),
)
def penalty_minima(count: int) -> list[Comparison]:
    """Two communities of two nodes each: limits of the alternation from both, told apart by their first two shares."""
    links = np.kron(np.eye(2), 1.0 - np.eye(2))
    columns = ALPHA * links + (1 - ALPHA) / 4
    halves = []
    for start in ([0.45, 0.45, 0.05, 0.05], [0.05, 0.05, 0.45, 0.45]):
        w = np.array(start)
        for _ in range(2000):
            w = _round(w, 0.02, columns)
        halves.append(round(float(w[:2].sum()), 3))
    return [equal("different limits", len(set(halves)), count, 1e-9)]


@_claim(
    "penalty-schedule",
    "Proposition 6",
    "With any c_t → ∞ the alternation comes to a stationary point.",
    lambda t: 2.0 ** min(t, 1000),
    corrected=("The sum of 1/c_t has to be infinite, or it stops on the way.", lambda t: float(t)),
)
def penalty_schedule(weight: Callable[[int], float]) -> list[Comparison]:
    """2000 rounds from the uniform distribution; the residual of the stationarity of G, which J tends to."""
    w = np.full(4, 0.25)
    for t in range(1, 2001):
        w = _round(w, 1.0 / (1.0 + weight(t)))
    residual = P @ w - w - w * (costs(w) - w @ costs(w))
    return [equal("residual", np.abs(residual).sum(), 0.0, 1e-2, clearly=0.1)]


@_claim(
    "penalty-gap-identity",
    "Proposition 6",
    "The cost exceeds its surrogate J by D(ρ‖∇φ*(∇φ(ρ) − D(ρ)/c)).",
    lambda c: 1.0,
    corrected=("By c times that.", lambda c: c),
)
def penalty_gap_identity(factor: Callable[[float], float]) -> list[Comparison]:
    """J by a conic program, against the formula."""
    import cvxpy as cp

    rho, compared = np.array([0.4, 0.1, 0.3, 0.2]), []
    for c in (0.5, 4.0):
        w = cp.Variable(4)
        surrogate = optimum(
            cp.Minimize(costs(rho) @ w + c * (-cp.sum(cp.entr(w)) - np.log(rho) @ w)), [cp.sum(w) == 1], 1e-10
        )
        moved = rho * np.exp(-costs(rho) / c)
        formula = factor(c) * kl(rho, moved / moved.sum())
        compared.append(equal(f"excess at c = {c}", float(rho @ costs(rho)) - surrogate, formula, 1e-6))
    return compared


@_claim(
    "penalty-gap-bound",
    "Proposition 6",
    "That excess is at most the squared radius of the domain over s·c.",
    lambda spread, c: 1.0 / c,
    corrected=("It is at most (largest − smallest D_i)²/(8c).", lambda spread, c: spread**2 / (8 * c)),
)
def penalty_gap_bound(bound: Callable[[float, float], float]) -> list[Comparison]:
    """Excess in closed form for random ρ, some near the boundary; the simplex has radius 1, and s = 1."""
    rng, worst = np.random.default_rng(37), -np.inf
    for _ in range(300):
        rho = np.maximum(rng.dirichlet(np.full(4, rng.choice([0.05, 1.0]))), 1e-12)
        rho /= rho.sum()
        d, c = costs(rho), float(rng.choice([2.0, 10.0]))
        excess = float(rho @ d) + c * float(np.log(rho @ np.exp(-d / c)))
        worst = max(worst, excess - bound(float(np.ptp(d)), c))
    return [at_most("excess beyond the bound", worst, 0.0, 1e-9)]


@_claim(
    "brew-is-stationary",
    "Proposition 9",
    "For some β the minimum of (5.38) is stationary, Tw = w.",
    P,
    otherwise=(
        "It is where all nodes are alike, as in a ring.",
        ALPHA * np.roll(np.eye(4), 1, axis=0) + (1 - ALPHA) / 4,
    ),
    documented=Verdict.REFUTED,
)
def brew_is_stationary(columns: Array) -> list[Comparison]:
    """Least residual of the alternation's limits over β from 0.02 to 0.95, one recommendation in each set."""
    points = [_penalised(beta, columns) for beta in (0.02, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)]
    least = min(float(np.abs(columns @ w - w).sum()) for w in points)
    return [equal("least ‖Tw − w‖₁ over β", least, 0.0, 1e-6)]


CLAIMS = defined_in(globals())
