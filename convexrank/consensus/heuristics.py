"""BreW and BLeND, as published: heuristics for consensus over sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.progress import progress_bar
from convexrank.consensus.candidates import Absorbed, absorb
from convexrank.data import check_choice, check_flag, check_integer, check_positive, check_real
from convexrank.data.messages import progress_as_verbose
from convexrank.divergences.base import softmax

Array = np.ndarray

# Alternations of the inner loop of double-loop BLeND, which need not converge.
_INNER = 50


@dataclass(frozen=True, eq=False)
class PublishedRank:
    """The result of BreW or BLeND, with its residual and without any claim of optimality.

    Parameters
    ----------
    ranks : ndarray, shape (n,)
        The scores w, which sum to 1.
    recommendations : ndarray, shape (n, n)
        Row i is the recommendation that was chosen for node i, including the teleport.
    residual : float
        ‖Tw − w‖₁: 0 when the scores are stationary for the recommendations.
    change : float
        L1 norm of the change of w in the last iteration.
    iterations : int
        Number of iterations.

    Examples
    --------
    >>> import convexrank as cr
    >>> result = cr.consensus.brew([[[0, 1, 0], [0, 0, 1]], [[1, 0, 0]], [[0.5, 0.5, 0]]])
    >>> print(f"{result.change:.0e} {result.residual:.3f}")
    7e-11 0.218
    """

    ranks: Array
    recommendations: Array
    residual: float
    change: float
    iterations: int


def _result(w: Array, P: Array, change: float, iterations: int) -> PublishedRank:
    return PublishedRank(w, P, float(np.abs(P.T @ w - w).sum()), change, iterations)


@progress_as_verbose
def brew(
    sets: Any,
    alpha: float = 0.85,
    personalization: Any = None,
    *,
    beta: float = 0.5,
    weights: str = "published",
    tol: float = 1e-10,
    max_iter: int = 10_000,
    verbose: bool = False,
) -> PublishedRank:
    r"""Bregman weighted consensus (BreW), Figure 5.6, with the KL divergence.

    Three updates in turn, from uniform w:

    .. math:: \rho = \beta \sum_i w_i t_i + (1-\beta)\,w, \qquad
              t_i = \operatorname*{argmin}_{p\in\alpha T_i+(1-\alpha)v} \mathrm{KL}(p\|\rho), \qquad
              w_i \propto \rho_i\, e^{-\mathrm{KL}(t_i\|\rho)} .

    The updates are meant to minimise (5.38), whose minimum over w has the factor β/(1−β) in the exponent; the figure
    lacks this factor, and ``weights="penalty"`` includes it. Proposition 9, that a minimum is stationary for some β, is
    false: the residual ‖Tw − w‖₁ is returned, and no optimality is claimed.

    Parameters
    ----------
    sets, alpha, personalization : RecommendationSets, float, array-like
        As for :func:`score_intervals`; v is positive.
    beta : float
        The penalty parameter β, in (0, 1).
    weights : {"published", "penalty"}
        The update of w: as in the figure, or with the factor β/(1−β).
    tol : float
        The iteration stops when the change of w in the L1 norm is less than this.
    max_iter : int
        Largest number of iterations.
    verbose : bool
        Whether to show a progress bar.

    Returns
    -------
    PublishedRank
        Scores, recommendations and residual.

    References
    ----------
    Dissertation on learning to rank, section 5.4.1: (5.37), (5.38), Figure 5.6.

    Examples
    --------
    >>> import convexrank as cr
    >>> cr.consensus.brew([[[0, 1, 0], [0, 0, 1]], [[1, 0, 0]], [[0.5, 0.5, 0]]]).ranks.round(3).tolist()
    [0.413, 0.278, 0.309]
    """
    absorbed = absorb(sets, alpha, personalization)
    beta = check_real(beta, "beta")
    if not 0.0 < beta < 1.0:
        raise ValueError(f"beta is {beta}, expected a number between 0 and 1.")
    factor = check_choice(weights, {"published": 1.0, "penalty": beta / (1.0 - beta)}, "weights")
    w, tol, change = np.full(absorbed.n, 1.0 / absorbed.n), check_positive(tol, "tol"), np.inf
    P, count = absorbed.nearest(np.log(w)), 0
    rounds = range(check_integer(max_iter, "max_iter", 1))
    for _ in progress_bar(check_flag(verbose, "verbose"), what="BreW", over=rounds):
        rho = beta * (P.T @ w) + (1.0 - beta) * w
        P = absorbed.nearest(np.log(rho))
        exponents = np.log(rho) - factor * _costs(P, np.log(rho))
        new = softmax(exponents)
        change, w, count = float(np.abs(new - w).sum()), new, count + 1
        if change <= tol:
            break
    return _result(w, P, change, count)


@progress_as_verbose
def blend(
    sets: Any,
    alpha: float = 0.85,
    personalization: Any = None,
    *,
    loop: str = "single",
    epsilon: float = 0.2,
    rounds: int = 500,
    verbose: bool = False,
) -> PublishedRank:
    r"""Bregman-Legendre saddle point consensus (BLeND), Figures 5.7 and 5.8, with the KL divergence.

    Each round of the game has three steps. First, s = ∇φ(ρ) with ‖s‖₂ ≤ 1/ε is the best response to w, −(w − Tw) scaled
    to length 1/ε. Second, T responds. Third, w follows the leader: it is :math:`\nabla\phi^*` of the mean of
    :math:`\phi(t_i) + s_i - \langle t_i, s\rangle` over the rounds. In the double loop s and T alternate until they
    converge, T by projection of ρ, at most 50 times: the objective is not jointly convex in s and T, and they may
    cycle. In the single loop T follows the leader as well, against the mean of the past s weighted by w. Scores and
    recommendations are the means over the rounds.

    The bounds of section 5.4.2 assume joint convexity in (s, T), which does not hold, and max-min differs from min-max:
    the residual ‖Tw − w‖₁ is returned, and no optimality is claimed. The text calls the methods pessimistic. However, T
    minimises the distance, and the single loop slowly approaches a minimum of the optimistic view.

    Parameters
    ----------
    sets, alpha, personalization : RecommendationSets, float, array-like
        As for :func:`score_intervals`; v is positive.
    loop : {"single", "double"}
        The single loop of Figure 5.8 or the double loop of Figure 5.7.
    epsilon : float
        The ε > 0: s has length at most 1/ε.
    rounds : int
        Number τ of rounds.
    verbose : bool
        Whether to show a progress bar.

    Returns
    -------
    PublishedRank
        Scores, recommendations and residual.

    References
    ----------
    Dissertation on learning to rank, section 5.4.2: Figures 5.7 and 5.8.

    Examples
    --------
    >>> import convexrank as cr
    >>> sets = [[[0, 1, 0], [0, 0, 1]], [[1, 0, 0]], [[0.5, 0.5, 0]]]
    >>> round(cr.consensus.blend(sets, rounds=200).residual, 3)
    0.024
    """
    absorbed = absorb(sets, alpha, personalization)
    play: Callable[..., Any] = check_choice(loop, {"single": _single, "double": _double}, "loop")
    radius = 1.0 / check_positive(epsilon, "epsilon")
    n, count = absorbed.n, check_integer(rounds, "rounds", 1)
    w, P = np.full(n, 1.0 / n), absorbed.nearest(np.zeros(n))
    gains, scores, total, leaders = (
        np.zeros(n),
        np.zeros(n),
        np.zeros((n, n)),
        (np.zeros((n, n)), np.zeros(n)),
    )
    change = np.inf
    for t in progress_bar(check_flag(verbose, "verbose"), what="BLeND", over=range(1, count + 1)):
        s, P, leaders = play(absorbed, w, P, radius, leaders)
        gains += np.sum(P * np.log(P), axis=1) + s - P @ s
        scores += w
        total += P
        new = softmax(gains / t)
        change, w = float(np.abs(new - w).sum()), new
    return _result(scores / count, total / count, change, count)


def _answer(w: Array, P: Array, radius: float) -> Array:
    """The s of length 1/ε that makes ⟨s, w − Tw⟩ least; 0 where any is."""
    move = w - P.T @ w
    length = float(np.linalg.norm(move))
    return -radius * move / length if length > 0.0 else np.zeros(len(w))


def _double(absorbed: Absorbed, w: Array, P: Array, radius: float, leaders: Any) -> tuple[Array, Array, Any]:
    s = _answer(w, P, radius)
    for _ in range(_INNER):
        new = absorbed.nearest(s)
        settled = float(np.abs(new - P).max()) <= 1e-10
        P, s = new, _answer(w, new, radius)
        if settled:
            break
    return s, P, leaders


def _single(absorbed: Absorbed, w: Array, P: Array, radius: float, leaders: Any) -> tuple[Array, Array, Any]:
    s = _answer(w, P, radius)
    pulls, weights = leaders[0] + np.outer(w, s), leaders[1] + w
    return s, absorbed.nearest(pulls / weights[:, None]), (pulls, weights)


def _costs(P: Array, logarithms: Array) -> Array:
    """KL(t_i‖ρ) of every node."""
    return np.sum(P * (np.log(P) - logarithms), axis=1)
