"""Norm balls, and what a player does who is confined to one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.data import check_choice
from convexrank.regularizers import L1Ball, L2Ball

__all__ = ["Norm", "norm_of"]

Array = np.ndarray


@dataclass(frozen=True)
class Norm:
    """A norm, its dual, and what the PageRank game needs of them.

    Parameters
    ----------
    name : str
        "1", "2" or "inf".
    of, dual : callable
        The norm of a vector, and its dual norm.
    duality_map : callable
        A vector of norm at most 1 whose product with r is the dual norm of r; 0 at 0. For "1" and "inf" there may be
        several: the first of the largest entries, and 0 where an entry is 0.
    centre : callable
        The constant c for which the norm of s − c is least.
    project : callable
        The nearest point, in the Euclidean norm, of the ball of a radius.
    order, dual_order : int or str
        The norm and its dual, as cvxpy calls them.
    """

    name: str
    of: Callable[[Array], float]
    dual: Callable[[Array], float]
    duality_map: Callable[[Array], Array]
    centre: Callable[[Array], float]
    project: Callable[[Array, float], Array]
    order: Any
    dual_order: Any


def _taxicab(r: Array) -> float:
    return float(np.abs(r).sum())


def _euclidean(r: Array) -> float:
    return float(np.linalg.norm(r))


def _largest(r: Array) -> float:
    return float(np.abs(r).max())


def _unit(r: Array) -> Array:
    length = _euclidean(r)
    return r / length if length > 0.0 else np.zeros_like(r)


def _corner(r: Array) -> Array:
    place, corner = int(np.abs(r).argmax()), np.zeros_like(r)
    corner[place] = np.sign(r[place])
    return corner


def _middle(s: Array) -> float:
    return 0.5 * (float(s.max()) + float(s.min()))


def _median(s: Array) -> float:
    return float(np.median(s))


def _mean(s: Array) -> float:
    return float(s.mean())


def _onto_taxicab(s: Array, radius: float) -> Array:
    return L1Ball(radius).prox(s, 1.0)


def _onto_euclidean(s: Array, radius: float) -> Array:
    return L2Ball(radius).prox(s, 1.0)


def _clipped(s: Array, radius: float) -> Array:
    return np.clip(s, -radius, radius)


_NORMS = {
    "1": Norm(
        "1", _taxicab, _largest, _corner, _median, _onto_taxicab, 1, "inf",
    ),
    "2": Norm(
        "2", _euclidean, _euclidean, _unit, _mean, _onto_euclidean, 2, 2,
    ),
    "inf": Norm("inf", _largest, _taxicab, np.sign, _middle, _clipped, "inf", 1),
}  # fmt: skip


def norm_of(name: str) -> Norm:
    """Return the norm named "1", "2" or "inf"; numbers will do.

    Raises
    ------
    ValueError
        For anything else.

    Examples
    --------
    >>> import numpy as np
    >>> norm_of("1").dual(np.array([1.0, -3.0]))
    3.0
    """
    if not isinstance(name, str):
        name = f"{name:g}" if isinstance(name, int | float) else str(name)
    return check_choice(name, dict(_NORMS), "norm")
