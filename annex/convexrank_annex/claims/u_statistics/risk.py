"""Clémençon, Lugosi and Vayatis 2006: ranking risk, Gini's difference, AUC and ROC curve (section 2, appendix 2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_most, claim, defined_in, equal

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, source="u-statistics")

# Three instances and four values of Y, the last far from the others: P(Y = value | X) in rows, and the law of X.
_VALUES = np.array([0.0, 1.0, 2.0, 30.0])
_LAWS = np.array([[0.1, 0.2, 0.7, 0.0], [0.5, 0.3, 0.0, 0.2], [0.1, 0.8, 0.1, 0.0]])
_MASS = np.array([0.3, 0.5, 0.2])


def _better() -> Array:
    """ρ₊: the chance that Y > Y' for every pair of instances, by summing over values."""
    above = (_VALUES[:, None] > _VALUES[None, :]).astype(float)
    return _LAWS @ above @ _LAWS.T


def _by_chance() -> Array:
    return np.where(_better() >= _better().T, 1, -1)


def _by_mean() -> Array:
    means = _LAWS @ _VALUES
    return np.where(means[:, None] >= means[None, :], 1, -1)


@_claim(
    2,
    "optimal-rule",
    "Proposition 1",
    "Of all ranking rules r* has the least risk: x above x' when Y > Y' is at least as probable as Y < Y'.",
    _by_chance,
    otherwise=("The rule that compares the mean labels has it.", _by_mean),
)
def optimal_rule(rule: Callable[[], Array]) -> list[Comparison]:
    """All 512 rules on three instances, whose labels have four values; the risk is a sum over pairs."""
    better = _better()
    weights = _MASS[:, None] * _MASS[None, :]

    def risk(r: Array) -> float:
        return float(np.sum(weights * np.where(r > 0, better.T, better)))

    least = min(risk(np.reshape(signs, (3, 3))) for signs in product((-1, 1), repeat=9))
    smallest = float(np.sum(weights * np.minimum(better, better.T)))
    return [
        equal("risk of the rule above the least", risk(rule()) - least, 0.0, 1e-9),
        equal("least risk less E min(ρ₊, ρ₋)", least - smallest, 0.0, 1e-9),
    ]


# Bipartite: five instances with masses and chances of a positive label.
_SHARE = np.array([0.15, 0.25, 0.2, 0.3, 0.1])
_ETA = np.array([0.1, 0.35, 0.5, 0.6, 0.95])
_PAIRS = _SHARE[:, None] * _SHARE[None, :]
_P = float(_SHARE @ _ETA)


def _risk(scores: Array) -> float:
    """P(Z·r(X, X') < 0) with r = 1 where s(x) ≥ s(x'), summed over pairs."""
    first, second = _ETA[:, None] * (1 - _ETA[None, :]), _ETA[None, :] * (1 - _ETA[:, None])
    return float(np.sum(_PAIRS * np.where(scores[:, None] >= scores[None, :], second, first)))


@_claim(
    2,
    "bayes-risk-by-gini",
    "Example 1",
    "L* is the variance of (Y + 1)/2 less half of Gini's mean difference of η(X).",
    0.5,
    otherwise=("It is that less the whole difference.", 1.0),
)
def bayes_risk_by_gini(share: float) -> list[Comparison]:
    """L* as the least risk over all orders of five instances."""
    from itertools import permutations

    least = min(_risk(np.array(order, float)) for order in permutations(range(5)))
    gini = float(np.sum(_PAIRS * np.abs(_ETA[:, None] - _ETA[None, :])))
    return [
        equal("L*", least, _P * (1 - _P) - share * gini, 1e-9),
        at_most("L*", least, 0.25, 1e-12),
    ]


@_claim(
    2,
    "greatest-gini",
    "Example 1",
    "For given p = E η(X) Gini's mean difference goes up to p(1 − p)/2.",
    lambda p: 0.5 * p * (1 - p),
    corrected=("It goes up to 2p(1 − p).", lambda p: 2.0 * p * (1 - p)),
)
def greatest_gini(greatest: Callable[[float], float]) -> list[Comparison]:
    """The greatest over laws on three values of a grid of 21 with mean p; and that of η = (Y + 1)/2."""
    values, compared = np.linspace(0.0, 1.0, 21), []
    for p in (0.3, 0.5):
        most = 0.0
        for low, middle, high in product(values, repeat=3):
            if not low < middle < high:
                continue
            for own in (0.0, 0.2, 0.5):  # mass at the middle value; the rest follows from the mean
                top = (p - low - own * (middle - low)) / (high - low)
                if 0.0 <= top <= 1.0 - own:
                    rest = 1.0 - own - top
                    most = max(
                        most,
                        2.0
                        * (
                            rest * own * (middle - low)
                            + rest * top * (high - low)
                            + own * top * (high - middle)
                        ),
                    )
        compared.append(equal(f"greatest difference, p = {p}", most, greatest(p), 1e-9))
    return compared


_UNTIED = (np.array([0.3, 0.1, 0.9, 0.5, 0.7]), np.array([5.0, 4.0, 3.0, 2.0, 1.0]))
_TIED = (*_UNTIED, np.array([1.0, 1.0, 2.0, 2.0, 3.0]), np.zeros(5))


@_claim(
    2,
    "excess-risk-of-scores",
    "Example 1",
    "L(s) − L* is E|η(X') − η(X)| over the pairs that s has in the wrong order, for every score s.",
    _TIED,
    corrected=(
        "For every score without ties; the rule puts tied instances in both orders, one of them wrong.",
        _UNTIED,
    ),
)
def excess_risk_of_scores(scores: tuple[Array, ...]) -> list[Comparison]:
    """Sums over pairs of five instances."""
    least, compared = _risk(_ETA), []
    for number, s in enumerate(scores):
        gaps = _ETA[:, None] - _ETA[None, :]
        wrong = (s[:, None] - s[None, :]) * gaps < 0
        excess = float(np.sum(_PAIRS * np.abs(gaps) * wrong))
        compared.append(equal(f"excess risk, score {number + 1}", _risk(s) - least, excess, 1e-9))
    return compared


@_claim(
    2,
    "auc-by-risk",
    "Example 1",
    "The AUC, P(s(X) ≥ s(X') | Y = 1, Y' = −1), is 1 − L(s)/(2p(1 − p)) for every score s.",
    _TIED,
    corrected=("For every score without ties.", _UNTIED),
)
def auc_by_risk(scores: tuple[Array, ...]) -> list[Comparison]:
    """Sums over pairs of five instances; pairs of one instance with itself, which are ties, have labels too."""
    compared, n = [], 200
    fine = np.linspace(0.0, 1e-3, n)  # every instance split in n with scores next to one another
    for number, s in enumerate(scores):
        tied = len(np.unique(s)) < len(s)
        spread = (s[:, None] + (0.0 if tied else 1.0) * fine[None, :]).ravel()
        mass, eta = np.repeat(_SHARE / n, n), np.repeat(_ETA, n)
        up, down = mass * eta / _P, mass * (1 - eta) / (1 - _P)
        above = spread[:, None] >= spread[None, :]
        area = float(up @ above @ down)
        weights = mass[:, None] * mass[None, :]
        wrong = np.where(above, eta[None, :] * (1 - eta[:, None]), eta[:, None] * (1 - eta[None, :]))
        risk = float(np.sum(weights * wrong))
        compared.append(
            equal(f"AUC, score {number + 1}", area, 1 - risk / (2 * _P * (1 - _P)), 3e-3, clearly=0.03)
        )
    return compared


def _beaten(skew: bool) -> float:
    """The greatest excess risk of the order of the means over instances with noise of their own spread."""
    noise = np.array([-1.0, 1.0]) if not skew else np.array([-0.5, 2.0])
    chances = np.array([0.5, 0.5]) if not skew else np.array([0.8, 0.2])
    middle, spread, worst = np.array([0.0, 0.3, 0.6]), np.array([0.2, 2.0, 0.5]), 0.0
    for i, j in product(range(3), repeat=2):
        left = middle[i] + spread[i] * noise[:, None]
        right = middle[j] + spread[j] * noise[None, :]
        weights = chances[:, None] * chances[None, :]
        more, less = float(np.sum(weights * (left > right))), float(np.sum(weights * (left < right)))
        chosen = less if middle[i] >= middle[j] else more
        worst = max(worst, chosen - min(more, less))
    return worst


@_claim(
    2,
    "regression-score",
    "Example 2; section 5.3",
    "With Y = m(X) + noise, symmetric about 0, the regression function m is an optimal score.",
    False,
    otherwise=("It is for every noise of mean 0, its spread a function of X.", True),
)
def regression_score(skew: bool) -> list[Comparison]:
    """Sums over values: three instances, noise of two values with different spreads."""
    return [equal("excess chance of an error in a pair", _beaten(skew), 0.0, 1e-9)]


# --- the ROC curve (appendix 2) -------------------------------------------------------------------------------------


def _roc(scores: Array, up: Array, down: Array, alpha: Array, low: float, high: float) -> Array:
    """β_s(α) = TPR(q), q = inf{x between low and high: FPR(x) ≤ α}; rates P(s ≥ x), by sums over instances."""
    cuts = np.unique(scores)
    false = np.array([down[scores >= x].sum() for x in [*cuts, np.inf]])
    beta = np.empty(len(alpha))
    for i, level in enumerate(alpha):
        step = int(np.argmax(false <= level + 1e-12))  # FPR is ≤ α on (cut before, …], from that step on
        q = low if step == 0 else float(cuts[step - 1])
        q = min(max(q, low), high)
        beta[i] = up[scores >= q].sum()
    return beta


def _fine(cells: int) -> tuple[Array, Array, Array]:
    """η on equal cells, and the laws of the cells given Y = 1 and Y = −1."""
    eta = np.linspace(0.05, 0.9, cells) ** 2
    return eta, eta / eta.sum(), (1 - eta) / (1 - eta).sum()


def _constant(eta: Array) -> Array:
    return np.full(len(eta), 0.5)


def _shuffled(eta: Array) -> Array:
    return np.random.default_rng(81).permutation(len(eta)) / len(eta)


@_claim(
    2,
    "best-roc-curve",
    "Proposition 15, appendix 2",
    "The ROC curve of η, by q_{s,α} as defined, is not below that of any score s.",
    (_constant, _shuffled),
    corrected=("It is not below that of any score whose values have no atoms.", (_shuffled,)),
)
def best_roc_curve(scores: tuple[Callable[[Array], Array], ...]) -> list[Comparison]:
    """800 cells, so that η and scores without ties have all but no atoms; α at 40 levels."""
    eta, up, down = _fine(800)
    alpha = (np.arange(40) + 0.5) / 40
    best = _roc(eta, up, down, alpha, 0.0, 1.0)
    compared = []
    for number, score in enumerate(scores):
        other = _roc(score(eta), up, down, alpha, 0.0, 1.0)
        compared.append(
            at_most(f"curve of score {number + 1} above that of η", (other - best).max(), 0.0, 3e-3)
        )
    return compared


@_claim(
    2,
    "auc-is-the-area",
    "Proposition 16, appendix 2",
    "The area under the ROC curve is P(s(X) ≥ s(X') | Y = 1, Y' = −1) for every score s: X → ℝ.",
    (0.0, 1.0),
    corrected=(
        "It is when q_{s,α} is an infimum over all x, not over (0, 1); ties do no harm.",
        (-np.inf, np.inf),
    ),
)
def auc_is_the_area(ends: tuple[float, float]) -> list[Comparison]:
    """Five instances; scores in (0, 1), with ties, and outside; the curve at 2000 levels."""
    up, down = _SHARE * _ETA / _P, _SHARE * (1 - _ETA) / (1 - _P)
    alpha, compared = (np.arange(2000) + 0.5) / 2000, []
    for number, s in enumerate((_ETA, np.array([0.2, 0.2, 0.7, 0.7, 0.4]), _ETA - 2.0, 3.0 * _ETA)):
        chance = float(up @ (s[:, None] >= s[None, :]) @ down)
        area = float(_roc(s, up, down, alpha, *ends).mean())
        compared.append(equal(f"area, score {number + 1}", area, chance, 1.5e-3, clearly=0.05))
    return compared


CLAIMS = defined_in(globals())
