"""Small random sets of recommendations, of every kind."""

from __future__ import annotations

import numpy as np

from convexrank.consensus.sets.base import RecommendationSets
from convexrank.consensus.sets.candidates import CandidateSets
from convexrank.consensus.sets.partial_orders import PartialOrders
from convexrank.consensus.sets.polytopes import Polytopes

__all__ = ["random_sets"]


def random_sets(rng: np.random.Generator, narrow: bool) -> RecommendationSets:
    """Draw candidates, boxes, or chains, single recommendations among them, for at most 6 nodes.

    Narrow sets of different nodes hardly overlap.
    """
    n, kind = int(rng.integers(4 if narrow else 2, 7)), int(rng.integers(3))
    if kind == 0:
        counts = rng.integers(1, 3 if narrow else 5, size=n)
        return CandidateSets(tuple(rng.dirichlet(np.full(n, 0.5), size=int(count)) for count in counts))
    if kind == 1:
        centre, factor = rng.dirichlet(np.ones(n), size=n), 0.2 if narrow else float(rng.uniform(0.2, 0.9))
        return Polytopes(centre * (1.0 - factor), np.minimum(1.0, centre * (1.0 + factor)))
    lengths = [2 if narrow else int(rng.integers(1, n + 1)) for _ in range(n)]
    return PartialOrders([[rng.permutation(n)[:length].tolist()] for length in lengths])
