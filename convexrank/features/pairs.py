"""Kernels on pairs of rows, from a kernel on rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.data import check_flag, check_matrix, check_pairs

__all__ = ["pair_kernel"]

Array = np.ndarray


def pair_kernel(K: Any, pairs: Any, others: Any = None, *, antisymmetric: bool = False) -> Array:
    r"""Return a kernel on pairs, the product of a kernel of the first rows and one of the second.

    .. math:: k\bigl((a, b), (c, d)\bigr) = K_{ac} K_{bd}
              \quad\text{or, antisymmetric,}\quad K_{ac} K_{bd} - K_{ad} K_{bc}

    The second one has only rules with r(x', x) = −r(x, x'), and with a universal K every continuous one. Where K is a
    kernel both are. O(m²) for m pairs.

    Parameters
    ----------
    K : array, shape (n, k)
        The kernel of rows: those of ``pairs`` with those of ``others``.
    pairs : array of int, shape (m, 2)
        Row numbers (a, b) of pairs, in 0..n-1.
    others : array of int, shape (l, 2), optional
        Row numbers (c, d) of the others, in 0..k-1; by default the same pairs.
    antisymmetric : bool
        Which of the two.

    Returns
    -------
    ndarray, shape (m, l)
        Values of the kernel on pairs.

    Raises
    ------
    ValueError, TypeError
        When K is not finite and real, or a pair is out of range or has the same row twice.

    References
    ----------
    T. Pahikkala, W. Waegeman, E. Tsivtsivadze, T. Salakoski and B. De Baets, Learning intransitive reciprocal relations
    with kernel methods, European Journal of Operational Research 206 (2010).

    Examples
    --------
    >>> pair_kernel([[2.0, 1.0], [1.0, 3.0]], [[0, 1], [1, 0]], antisymmetric=True).tolist()
    [[5.0, -5.0], [-5.0, 5.0]]
    """
    kernel = check_matrix(K, "K")
    kernel = kernel if isinstance(kernel, np.ndarray) else kernel.toarray()
    a, b = check_pairs(pairs, kernel.shape[0]).T
    c, d = (a, b) if others is None else check_pairs(others, kernel.shape[1], "others").T
    if others is None and kernel.shape[0] != kernel.shape[1]:
        raise ValueError(
            f"K has shape {kernel.shape}, expected a square matrix, or others; pass the other pairs."
        )
    antisymmetric = check_flag(antisymmetric, "antisymmetric")
    with np.errstate(over="ignore", invalid="ignore"):
        found = kernel[np.ix_(a, c)] * kernel[np.ix_(b, d)]
        found = found - kernel[np.ix_(a, d)] * kernel[np.ix_(b, c)] if antisymmetric else found
    if not np.isfinite(found).all():
        raise ValueError(
            f"K has entries of up to {np.abs(kernel).max():.3g}, whose products overflow; pass a kernel in other units."
        )
    return found
