"""Chapter 6: propagation of trust (section 6.3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank.claims.claim import Comparison, Verdict, claim, defined_in, equal
from convexrank.claims.trust.updates import links_of, norm, random_links, shares

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 6)


# --- trust ----------------------------------------------------------------------------------------------------------


_TRUSTED = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])


def _series(update: Callable[[Array], Array], gamma: float, terms: int = 400) -> Array:
    total, term = _TRUSTED.copy(), _TRUSTED.copy()
    for _ in range(terms):
        term = gamma * update(term)
        total = total + term
    return total


@_claim(
    "decay-condition",
    "Lemma 28",
    "The series (6.3) converges for γ < λ, the eigenvalue of U.",
    lambda eigenvalue: 0.9 * eigenvalue,
    corrected=("It converges for γ < 1/λ.", lambda eigenvalue: 0.9 / eigenvalue),
)
def decay_condition(decay: Callable[[float], float]) -> list[Comparison]:
    """Last term over the sum, for the linear U of a graph without division by out-degrees."""
    links = random_links(np.random.default_rng(60))
    eigenvalue = float(np.abs(np.linalg.eigvals(links)).max())
    gamma = decay(eigenvalue)
    total, fewer = (_series(lambda r: links @ r, gamma, terms) for terms in (200, 199))
    return [equal("share of the 200th term", (total - fewer).sum() / total.sum(), 0.0, 1e-6)]


@_claim(
    "decay-condition-of-distrust",
    "Lemma 29",
    "The series of distrust, against the links, converges for γ < λ.",
    lambda eigenvalue: 0.9 * eigenvalue,
    corrected=("It converges for γ < 1/λ.", lambda eigenvalue: 0.9 / eigenvalue),
)
def decay_condition_of_distrust(decay: Callable[[float], float]) -> list[Comparison]:
    """Last term over the sum, and the residual of r − γU†r = s, for the linear U† of a graph turned round."""
    links = random_links(np.random.default_rng(60)).T
    gamma = decay(float(np.abs(np.linalg.eigvals(links)).max()))
    total, fewer = (_series(lambda r: links @ r, gamma, terms) for terms in (200, 199))
    residual = np.abs(total - gamma * links @ total - _TRUSTED).sum() / total.sum()
    return [
        equal("share of the 200th term", (total - fewer).sum() / total.sum(), 0.0, 1e-6),
        equal("residual over the sum", residual, 0.0, 1e-6),
    ]


@_claim(
    "series-solves-equation",
    "Lemma 28, (6.4)",
    "The series (6.3) solves r − γU(r) = s for the nonlinear U, too.",
    3.0,
    otherwise=("It does for linear U.", 1.0),
    documented=Verdict.REFUTED,
)
def series_solves_equation(p: float) -> list[Comparison]:
    """The residual, γ = 0.5, degree 1."""
    share = shares(random_links(np.random.default_rng(61)))

    def update(r: Array) -> Array:
        return norm(share * r, p)

    total = _series(update, 0.5)
    return [equal("residual", np.abs(total - 0.5 * update(total) - _TRUSTED).sum(), 0.0, 1e-9)]


def _published_trust(share: Array, gamma: float) -> Array:
    """(6.5): U normalised, seeds 0 and 1."""
    r = _TRUSTED
    for _ in range(400):
        r = gamma * share @ r / (share @ r).sum() + _TRUSTED
    return r


def _normalised_trust(share: Array, gamma: float) -> Array:
    r = _TRUSTED
    for _ in range(400):
        r = gamma * share @ r + (1 - gamma) * _TRUSTED / _TRUSTED.sum()
    return r


@_claim(
    "trust-iteration",
    "(6.5)",
    "The iteration computes the series (6.3), up to scale.",
    _published_trust,
    corrected=(
        "It does with seeds that sum to 1 − γ; as printed trust decays by γ/(γ + |V₊|).",
        _normalised_trust,
    ),
)
def trust_iteration(method: Callable[[Array, float], Array]) -> list[Comparison]:
    """Distance of the normalised trust, γ = 0.85, two seeds."""
    share = shares(random_links(np.random.default_rng(62)))
    found, exact = method(share, 0.85), _series(lambda r: share @ r, 0.85)
    return [
        equal("distance of the trust", np.abs(found / found.sum() - exact / exact.sum()).sum(), 0.0, 1e-9)
    ]


@_claim(
    "trust-factor",
    "after (6.5)",
    "The factor r₊/(r₊ + r₋) is defined for every page.",
    0.0,
    corrected=("(r₊ + κ/2)/(r₊ + r₋ + κ) is, for κ > 0.", 1e-3),
)
def trust_factor(kappa: float) -> list[Comparison]:
    """Pages that no seed reaches: 2→3 and 4→5 beside a trusted 0→1."""
    share = shares(links_of(6, ((0, 1), (2, 3), (4, 5))))
    good = np.linalg.solve(np.eye(6) - 0.85 * share, np.eye(6)[0])
    bad = np.linalg.solve(np.eye(6) - 0.85 * share.T, np.eye(6)[5])
    undefined = int(np.sum(good + bad + kappa == 0))
    return [equal("pages without a factor", undefined, 0.0, 1e-3)]


CLAIMS = defined_in(globals())
