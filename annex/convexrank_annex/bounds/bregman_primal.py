r"""The primal problem of section 11 of the 2009 paper, evaluated at a point.

Over pairs (i, k) of a positive and a negative the paper takes

.. math:: f(q) = \sum_{ik} q_{ik}\ln\frac{q_{ik}}{p^{1/p}\bigl(\sum_{\bar\imath}q_{\bar\imath k}\bigr)^{(p-1)/p}},
          \qquad \nabla f(q)_{ik} = \tfrac1p + \ln\frac{q_{ik}}{p^{1/p}(\sum_{\bar\imath}q_{\bar\imath k})^{(p-1)/p}},

and the Bregman distance B of f. Its primal problem is to minimise :math:`B(q, q_0)` over the q with the balance
:math:`\sum_{ik}q_{ik}(x_i-x_k)=0`, from the constant :math:`q_0`; its dual is the P-Norm Push, :math:`B(0,q)=\frac1p
\sum_{ik}q_{ik}`. At the common solution q* the three-point identity says :math:`B(q^*,q_0)=B(0,q_0)-B(0,q^*)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.design import unpacked
from convexrank.data import shown
from convexrank.problems.bipartite.p_norm_push import PNormPush

__all__ = ["BregmanPrimal", "bregman_primal"]

Array = np.ndarray


@dataclass(frozen=True)
class BregmanPrimal:
    """The distances of section 11 at a point.

    Parameters
    ----------
    primal : float
        The distance B(q, q₀).
    start, dual : float
        The distances B(0, q₀) and B(0, q), which are the paper's objective at w = 0 and at w, divided by p.
    balance : float
        The largest entry of Σ q (x_i − x_k), divided by Σ q and by the largest absolute value in X; 0 at a minimiser.
    pairs : ndarray, shape (I, K)
        The matrix q divided by its sum.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=2)
    >>> bregman_primal(problem, [0.0]).pairs
    array([[0.25, 0.25],
           [0.25, 0.25]])
    """

    primal: float
    start: float
    dual: float
    balance: float
    pairs: Array


def bregman_primal(problem: PNormPush, w: Any) -> BregmanPrimal:
    r"""Evaluate the primal and the dual of section 11 at the q of a point w, over all pairs.

    .. math:: q_{ik} = e^{-(f_i-f_k)}\Bigl(\sum_{\bar\imath}e^{-(f_{\bar\imath}-f_k)}\Bigr)^{p-1}

    At a minimiser ``primal`` is ``start`` less ``dual``. O(I·K).

    Parameters
    ----------
    problem : PNormPush
        The problem, without a penalty and without row weights, as in the paper.
    w : array, shape (d,), or Solution
        The point.

    Returns
    -------
    BregmanPrimal
        The distances and the pairs.

    Raises
    ------
    TypeError, ValueError
        When the problem is not a PNormPush, or has a penalty or weights; when the numbers overflow.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 11.

    Examples
    --------
    >>> import convexrank as cr
    >>> from convexrank.bounds import bregman_primal
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=2)
    >>> found = bregman_primal(problem, problem.solve(tol=1e-12))
    >>> print(f"{found.primal:.6f} = {found.start:.6f} - {found.dual:.6f}")
    1.468750 = 4.000000 - 2.531250
    """
    if not isinstance(problem, PNormPush):
        raise TypeError(f"problem is {shown(problem)}, expected a PNormPush.")
    if problem.qid is not None:
        raise ValueError("problem has qid, expected one query: the paper's identity is about one list.")
    if problem.l1 > 0 or problem.l2 > 0 or problem.sample_weight is not None:
        raise ValueError(
            f"problem has l1={problem.l1}, l2={problem.l2} and sample_weight "
            f"{'given' if problem.sample_weight is not None else 'not given'}, expected none of them: the paper's "
            "identity is about the plain objective."
        )
    p, scores = problem.p, np.asarray(problem.scores(problem.check_point(w)), dtype=np.float64)
    positive, negative = scores[problem.positives], scores[problem.negatives]
    with np.errstate(over="ignore", invalid="ignore"):
        pairs = _pairs(negative[None, :] - positive[:, None], p)
        still = _pairs(np.zeros_like(pairs), p)
        primal = _level(pairs, p) - _level(still, p) - float((_slope(still, p) * (pairs - still)).sum())
    total = float(pairs.sum())
    if not np.isfinite(total + primal):
        raise ValueError(f"the pairs' weights overflow at this w with p={p}; take a smaller p.")
    X = unpacked(problem.X)
    shares = pairs / total
    means = shares.sum(axis=1) @ X[problem.positives] - shares.sum(axis=0) @ X[problem.negatives]
    largest = max(float(np.abs(X).max()), np.finfo(float).tiny)
    balance = float(np.abs(means).max()) / largest
    return BregmanPrimal(primal, float(still.sum()) / p, total / p, balance, shares)


def _pairs(differences: Array, p: float) -> Array:
    terms = np.exp(differences)
    return terms * terms.sum(axis=0) ** (p - 1.0)


def _slope(q: Array, p: float) -> Array:
    return 1.0 / p + np.log(q) - np.log(p) / p - (p - 1.0) / p * np.log(q.sum(axis=0))


def _level(q: Array, p: float) -> float:
    logs = np.log(np.where(q > 0.0, q, 1.0))
    sums = q.sum(axis=0)
    columns = sums @ np.log(np.where(sums > 0.0, sums, 1.0))
    return float((q * logs).sum() - np.log(p) / p * q.sum() - (p - 1.0) / p * columns)
