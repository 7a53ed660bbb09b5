"""Stationary distributions and Poisson's equation of a transition matrix, by series that fall by α a term."""

from __future__ import annotations

import numpy as np

from convexrank.graphs import Transition

Array = np.ndarray

# A series ends where a term no longer shows beside the sum.
_NEGLIGIBLE = 1e-17
# Rounding keeps a step from getting any shorter; so many steps without a shorter one are enough.
_PATIENCE = 10


def stationary(operator: Transition) -> Array:
    r"""Return the distribution π with :math:`P\pi = \pi`, to rounding.

    Plain steps w → Pw from the teleport: no solver of the package is used, since certificates rest on this.

    Parameters
    ----------
    operator : Transition
        The matrix P, whose columns sum to 1.

    Returns
    -------
    ndarray, shape (n,)
        The distribution. O(m · log(precision)/log α).

    Examples
    --------
    >>> import convexrank as cr
    >>> stationary(cr.Graph.from_edges([0, 1], [1, 0]).transition()).round(12).tolist()
    [0.5, 0.5]
    """
    w, shortest, since = operator.teleport.copy(), np.inf, 0
    while since < _PATIENCE:
        image = operator @ w
        image /= image.sum()
        length = float(np.abs(image - w).sum())
        w = image
        since = 0 if length < shortest else since + 1
        shortest = min(shortest, length)
        if length == 0.0:
            break
    return w


def solve_poisson(operator: Transition, right: Array) -> Array:
    r"""Solve :math:`(I - P^\top)s = b - c1` for s and the constant c, :math:`c = \langle\pi, b\rangle`.

    The series :math:`\sum_k (P^\top)^k b`, in which constants do not count: the spread of a term, its largest less its
    smallest entry, is at most α times that of the term before. The solution is unique up to a constant.

    Parameters
    ----------
    operator : Transition
        The matrix P, whose columns sum to 1.
    right : ndarray, shape (n,)
        The vector b.

    Returns
    -------
    ndarray, shape (n,)
        A solution. O(m · log(precision)/log α).

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> P, b = cr.Graph.from_edges([0, 1, 2], [1, 2, 0]).transition(), np.array([1.0, -1.0, 0.0])
    >>> s = solve_poisson(P, b)
    >>> (s - P.T @ s).round(6), b.round(6)
    (array([ 1., -1.,  0.]), array([ 1., -1.,  0.]))
    """
    term = right - right.mean()
    total = term.copy()
    while float(np.ptp(term)) > _NEGLIGIBLE * float(np.ptp(total)):
        term = operator.T @ term
        term -= term.mean()
        total += term
    return total
