"""Measures of the spam in a rank, and of the distance between two ranks on other pages."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from convexrank.data import check_choice, check_same_index, check_vector, index_of, read_array
from convexrank.data.nodes import numbers_of

Array = np.ndarray


def spam_mass(rank: Any, spam: Any) -> float:
    r"""Share of the whole rank that spam pages have.

    .. math:: \sum_{i \in S} r_i \Big/ \sum_{i} r_i

    From 0 to 1; smaller is better. The mass is also small when nearly all rank is on one good page, so use
    :func:`spam_met` as well. Ties have no effect. O(n).

    Parameters
    ----------
    rank : array-like, shape (n,)
        Non-negative scores, not all 0.
    spam : array-like
        The spam pages: n booleans, or the ids of the pages; or their names, if ``rank`` is a pandas Series with the
        names of the nodes as index, such as ``graph.series(ranks)``.

    Returns
    -------
    float
        The share.

    Raises
    ------
    ValueError, TypeError
        When the rank is negative or zero everywhere, or ``spam`` is neither n booleans nor distinct ids in 0..n−1.

    References
    ----------
    Dissertation on learning to rank, section 6.4.2, figures 6.4, 6.7 and 6.9.

    Examples
    --------
    >>> round(spam_mass([0.5, 0.2, 0.2, 0.1], [False, True, False, True]), 3)
    0.3
    >>> round(spam_mass([0.5, 0.2, 0.2, 0.1], [1, 3]), 3)
    0.3
    """
    check_same_index(rank=rank, spam=_flags(spam, "spam"))
    r = check_vector(rank, None, "rank")
    chosen = _chosen(spam, len(r), "spam", index_of(rank))
    if r.min() < 0.0:
        place = int(np.argmin(r))
        raise ValueError(f"rank[{place}] is {r[place]:g}, expected scores of at least 0.")
    if not r.any():
        raise ValueError("rank is zero everywhere, expected a score above 0: no page has a share of nothing.")
    scaled = r / r.max()
    return float(scaled[chosen].sum() / scaled.sum())


def spam_met(rank: Any, spam: Any) -> Array:
    r"""Number of spam pages among the first k pages, for every k from 1 to n.

    For pages with equal scores the entry is the mean over their random orders. A lower curve is better; the expected
    curve of a random order is a straight line. O(n log n).

    Parameters
    ----------
    rank, spam : array-like
        As for :func:`spam_mass`; the scores may be negative.

    Returns
    -------
    ndarray, shape (n,)
        Entry k − 1 is the number among the first k pages.

    References
    ----------
    Dissertation on learning to rank, section 6.4.2, figure 6.10.

    Examples
    --------
    >>> spam_met([0.5, 0.2, 0.2, 0.1], [1, 3]).tolist()
    [0.0, 0.5, 1.0, 2.0]
    """
    check_same_index(rank=rank, spam=_flags(spam, "spam"))
    r = check_vector(rank, None, "rank")
    chosen = _chosen(spam, len(r), "spam", index_of(rank))
    order = np.argsort(-r, kind="stable")
    met = np.cumsum(chosen[order])
    last = np.append(np.flatnonzero(np.diff(r[order]) != 0.0), len(r) - 1)  # of the pages of one score
    return np.interp(np.arange(1, len(r) + 1), np.append(0, last + 1), np.append(0, met[last]))


def order_distance(
    first: Any, second: Any, among: Any = None, scale: Literal["largest", "square"] = "largest"
) -> float:
    r"""Distance between two orders of all pages, or of a part of the pages: Spearman's footrule.

    .. math:: \frac{1}{c}\sum_{i} \bigl|R_1(i) - R_2(i)\bigr|

    The paper compares ranks on the pages that are not spam. Pages with equal scores have the mean of their places.
    Divided by the largest possible value, :math:`c = \lfloor m^2/2\rfloor` for m pages, the distance is from 0 to 1;
    with the paper's :math:`c = m^2` it is half of that. Smaller means more similar. O(n log n).

    Parameters
    ----------
    first, second : array-like, shape (n,)
        Finite scores.
    among : array-like, optional
        The pages that are compared: n booleans, or ids or names as for :func:`spam_mass`; all by default.
    scale : {"largest", "square"}
        The divisor c of the sum: the largest possible value, or :math:`m^2`.

    Returns
    -------
    float
        The distance; 0 for a single page.

    Raises
    ------
    ValueError, TypeError
        When scores are not finite, lengths differ, or no page counts.

    See Also
    --------
    spearman_footrule : The same by query.

    References
    ----------
    Dissertation on learning to rank, section 6.4.2, figures 6.4 and 6.7.

    Examples
    --------
    >>> order_distance([4, 3, 2, 1], [1, 2, 3, 4])
    1.0
    >>> order_distance([4, 3, 2, 1], [9, 8, 1, 7], among=[0, 1, 3])
    0.0
    >>> order_distance([2, 1], [1, 2], scale="square")
    0.5
    """
    from scipy.stats import rankdata

    check_choice(scale, {"largest": 0, "square": 0}, "scale")
    check_same_index(first=first, second=second, among=_flags(among, "among"))
    a = check_vector(first, None, "first")
    b = check_vector(second, len(a), "second")
    if among is not None:
        chosen = _chosen(among, len(a), "among", index_of(first))
        a, b = a[chosen], b[chosen]
    m = len(a)
    if m == 0:
        raise ValueError("among has no page; pass at least one that counts.")
    total = float(np.abs(rankdata(a) - rankdata(b)).sum())
    return total / (m**2 if scale == "square" else max(m**2 // 2, 1))


def _flags(pages: Any, name: str) -> Any:
    """Return booleans, which have one entry for each page and so an index of pages; None for ids."""
    return pages if read_array(pages, name).dtype.kind == "b" else None


def _chosen(pages: Any, n: int, name: str, names: list[Any] | None) -> Array:
    """Return n booleans, from booleans, ids, or names in an index."""
    array = read_array(pages, name)
    if names is not None and array.dtype.kind in "SUO" and array.ndim == 1 and len(names) == n:
        array = numbers_of(names, array.tolist(), name)
    if array.dtype.kind == "b" and array.shape == (n,):
        return array
    if array.dtype.kind == "b" or array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(
            f"{name} has shape {array.shape} and type {array.dtype}, expected {n} booleans, one for each page, or "
            "integer ids; names of pages need a Series of ranks, as from graph.series(ranks)."
        )
    chosen = np.zeros(n, dtype=bool)
    if array.size == 0:
        return chosen
    if array.min() < 0 or array.max() >= n:
        place = int(np.argmax((array < 0) | (array >= n)))
        raise ValueError(f"{name}[{place}] is {array[place]}, expected ids in 0..{n - 1}.")
    chosen[array] = True
    if chosen.sum() < len(array):
        raise ValueError(f"{name} names a page twice; pass booleans if it is meant as a mask of 0 and 1.")
    return chosen
