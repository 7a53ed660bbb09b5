"""Chapter 6: propagation of trust (section 6.3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, Verdict, claim, defined_in, equal
from convexrank_annex.claims.trust.updates import links_of, norm, random_links, rank_of, shares

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


def _last_terms(orient: Callable[[Array], Array], decay: Callable[[float], float]) -> list[Comparison]:
    """Share of the 1000th term in the series (6.3), p = q = 1 and 3; λ from 1000 rounds of U."""
    share, compared = shares(orient(random_links(np.random.default_rng(60)))), []
    for p in (1.0, 3.0):

        def update(r: Array, p: float = p) -> Array:
            return norm(share * r, p)

        eigenvalue = float(update(rank_of(update, np.ones(8), 1000)).sum())
        gamma = decay(eigenvalue)
        total, fewer = (_series(update, gamma, terms) for terms in (1000, 999))
        last = float((total - fewer).sum() / total.sum())
        compared.append(equal(f"share of the 1000th term, p = {p:g}", last, 0.0, 1e-5))
    return compared


@_claim(
    "decay-condition",
    "Lemma 28",
    "The series (6.3) converges for γ < λ, the eigenvalue of U (degree 1).",
    lambda eigenvalue: 0.98 * eigenvalue,
    otherwise=("It converges for γ = 1.05/λ.", lambda eigenvalue: 1.05 / eigenvalue),
)
def decay_condition(decay: Callable[[float], float]) -> list[Comparison]:
    """Random graphs, flows divided by out-degrees as in (6.1), so that λ is at most 1."""
    return _last_terms(lambda links: links, decay)


@_claim(
    "decay-condition-of-distrust",
    "Lemma 29",
    "The series of distrust, against the links, converges for γ < λ, the eigenvalue of U† (degree 1).",
    lambda eigenvalue: 0.98 * eigenvalue,
    otherwise=("It converges for γ = 1.05/λ.", lambda eigenvalue: 1.05 / eigenvalue),
)
def decay_condition_of_distrust(decay: Callable[[float], float]) -> list[Comparison]:
    """Random graphs turned round, flows divided by the out-degrees there."""
    return _last_terms(np.transpose, decay)


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
