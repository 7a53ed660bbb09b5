"""Atoms of risks as functions of expressions of cvxpy: the exact reading, without rows or queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from convexrank.atoms import is_cvxpy
from convexrank.data import check_real_array, shown
from convexrank.modelling import rules
from convexrank.modelling.cvxpy_reading import Cvxpy
from convexrank.modelling.expressions import Axis, Node, Scores
from convexrank.modelling.language import read


def _vector(x: Any, name: str) -> Any:
    """Return a vector of cvxpy: an expression as it is, an array as a constant."""
    import cvxpy as cp

    if not is_cvxpy(x):
        array = check_real_array(x, name)
        if wrong := int(np.count_nonzero(~np.isfinite(array))):
            raise ValueError(
                f"{name} has {wrong} of {array.size} entries NaN or infinite, expected finite numbers."
            )
        x = cp.Constant(array)
    if x.ndim != 1 or not x.size:
        raise ValueError(
            f"{name} is {shown(x)} with shape {x.shape}, expected a vector with at least one entry; "
            "cp.vec(x, order='F') makes one of a matrix."
        )
    return x


def _read(state: Callable[..., Node], **vectors: Any) -> Any:
    """State an expression of groups that have these vectors as scores, and return its exact reading."""
    known, leaves = {}, []
    for name, given in vectors.items():
        vector = _vector(given, name)
        n = vector.size
        leaves.append(Scores(Axis(name, np.arange(n), np.ones(n), np.zeros(n, dtype=np.int64), 1)))
        known[id(leaves[-1])] = vector
    root = state(*leaves)
    found = read(root, Cvxpy(), None, known)
    return found if root.axis is not None else found[0]


def pair_sums(loss: Any, upper: Any, lower: Any) -> Any:
    r"""Return :math:`\sum_i \ell(u_i - v_k)` for each entry k of v, as an expression of cvxpy.

    Convex by cvxpy's rules where u is concave and v is convex, such as where both are affine. One term for each pair;
    two for each entry with the exponential loss.

    Parameters
    ----------
    loss : Loss or Function
        A loss ℓ of :mod:`convexrank.losses`, convex and not increasing, such as ``losses.Hinge()``; or a function φ of
        :mod:`convexrank.modelling` with ℓ(z) = φ(−z).
    upper : cvxpy.Expression or array, shape (m,)
        The scores u that are to be high.
    lower : cvxpy.Expression or array, shape (n,)
        The scores v that are to be low.

    Returns
    -------
    cvxpy.Expression
        Shape (n,).

    Raises
    ------
    TypeError, ValueError
        When the loss is none, or an argument is no vector of finite real numbers.

    Examples
    --------
    A push of the highest negative, with weights of one's own cvxpy problem:

    >>> import cvxpy as cp
    >>> import numpy as np
    >>> import convexrank as cr
    >>> positive, negative = np.array([[1.0, 0.2], [2.0, -0.1]]), np.array([[1.5, 0.3], [0.0, 0.4]])
    >>> w = cp.Variable(2, nonneg=True)
    >>> pushed = cp.max(cr.atoms.pair_sums(cr.losses.Hinge(), positive @ w, negative @ w))
    >>> problem = cp.Problem(cp.Minimize(pushed), [cp.sum(w) <= 1])
    >>> problem.is_dcp(), round(float(problem.solve(solver=cp.CLARABEL)), 6)
    (True, 2.0)
    """
    return _read(lambda u, v: rules.pair_sums(loss, u, v), upper=upper, lower=lower)


def log_mean_exp(x: Any) -> Any:
    r"""Return :math:`\log\tfrac1n\sum_j e^{x_j}`, a smooth maximum, as a scalar of cvxpy; convex, increasing.

    Parameters
    ----------
    x : cvxpy.Expression or array, shape (n,)
        The entries.

    Returns
    -------
    cvxpy.Expression
        A scalar.

    Raises
    ------
    TypeError, ValueError
        When x is no vector of finite real numbers.

    Examples
    --------
    >>> import convexrank as cr
    >>> print(cr.atoms.log_mean_exp([1.0, 1.0, 1.0]).value.round(6))
    1.0
    """
    return _read(rules.log_mean_exp, x=x)


def mean_of_highest(x: Any, count: float | None = None, *, share: float | None = None) -> Any:
    """Return the mean of the highest entries, so many or a share of all, as a scalar expression of cvxpy.

    Convex and not decreasing in any entry. The last entry that counts may count in part.

    Parameters
    ----------
    x : cvxpy.Expression or array, shape (n,)
        The entries.
    count : int, optional
        How many count; all where there are less.
    share : float, optional
        The share of the entries that count, above 0 and at most 1, instead of ``count``.

    Returns
    -------
    cvxpy.Expression
        A scalar.

    Raises
    ------
    TypeError, ValueError
        When x is no vector of finite real numbers, or count and share are out of range, or not one of the two.

    Examples
    --------
    >>> import convexrank as cr
    >>> print(cr.atoms.mean_of_highest([3.0, 1.0, 2.0, 0.0], 2).value.round(6))
    2.5
    """
    return _read(lambda leaf: rules.mean_of_highest(leaf, count, share=share), x=x)


def spectral_sum(x: Any, spectrum: Any) -> Any:
    r"""Return :math:`\sum_k \sigma_k x_{[k]}` over the sorted entries, lowest first, as a scalar expression of cvxpy.

    Convex and not decreasing in any entry: the weights σ do not decrease.

    Parameters
    ----------
    x : cvxpy.Expression or array, shape (n,)
        The entries.
    spectrum : array, str or tuple
        The weights σ, as for :func:`convexrank.modelling.spectral_sum`.

    Returns
    -------
    cvxpy.Expression
        A scalar.

    Raises
    ------
    TypeError, ValueError
        When x is no vector of finite real numbers, or the spectrum decreases or does not add up to 1.

    Examples
    --------
    >>> import convexrank as cr
    >>> print(cr.atoms.spectral_sum([3.0, 1.0], [0.25, 0.75]).value.round(6))  # 0.25 of 1 and 0.75 of 3
    2.5
    """
    return _read(lambda leaf: rules.spectral_sum(leaf, spectrum), x=x)
