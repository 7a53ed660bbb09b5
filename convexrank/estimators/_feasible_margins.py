"""Margins and bounds that leave targets room, whatever the divergence and the data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from convexrank.data import QueryGroups
from convexrank.divergences import Divergence, SquaredEuclidean
from convexrank.problems.margin_retargeting._options import bounds_within, check_bound, check_divergence

Array = np.ndarray

# The margin is 1 if that is at most the first share of the largest feasible margin, else the second share of it.
_MOST, _SHARE = 0.9, 0.5


def feasible_options(divergence: Any, bound: Any, y: Array, groups: QueryGroups) -> dict[str, Any]:
    """Return ``margin``, and ``bound`` where none was given and one is needed, for targets of these grades."""
    found = check_divergence(divergence)
    if isinstance(found, SquaredEuclidean) and bound is None:
        return {"margin": 1.0}
    ranks, totals = _ranks(y, groups)
    steps = max(int(ranks.max(initial=0)), 1)
    options: dict[str, Any] = {}
    low, high = bounds_within(found, check_bound(bound))
    if bound is None and found.strong_convexity(low, high) <= 0.0:
        high = 2.0 * (1.0 + steps)
        options["bound"] = (None, high)
    # without any room no margin is feasible, and the problem says which bound and query are to blame
    room = max(min((high - low) / steps, _room_of_sums(found, low, groups, totals)), 0.0)
    return {**options, "margin": 1.0 if room * _MOST >= 1.0 else _SHARE * room}


def _room_of_sums(divergence: Divergence, low: float, groups: QueryGroups, totals: Array) -> float:
    """Return the largest margin that leaves the targets of each query the sum that they have to keep."""
    if divergence.total is None:
        return math.inf
    room, needed = divergence.total - low * np.asarray(groups.sizes), totals > 0
    return float(np.min(room[needed] / totals[needed], initial=math.inf))


def _ranks(y: Array, groups: QueryGroups) -> tuple[Array, Array]:
    """Return how many lower grades of its query each row is above, query by query, and the sum over each query."""
    grades = groups.gather(y)
    distinct, place = np.unique(np.stack([groups.query, grades]), axis=1, return_inverse=True)
    first = np.searchsorted(distinct[0], np.arange(len(groups)))
    ranks = place.ravel() - first[groups.query]
    return ranks, np.bincount(groups.query, ranks, len(groups))
