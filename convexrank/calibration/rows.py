"""Held-out rows as counts at each distinct score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.data import check_binary_labels, check_integer, check_same_index, check_vector, check_weights
from convexrank.inference.rows import cluster_numbers

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Levels:
    """Rows and positive rows at each distinct score, in increasing order.

    Parameters
    ----------
    scores : ndarray, shape (m,)
        The distinct scores.
    rows, hits : ndarray of float, shape (m,)
        Numbers of rows, and of positive rows.
    odds : float
        By how much the odds of a positive row are larger in the population than among these rows.
    """

    scores: Array
    rows: Array
    hits: Array
    odds: float = 1.0

    @property
    def sizes(self) -> dict[str, int]:
        """Number of rows of each class."""
        positives = int(self.hits.sum())
        return {"positives": positives, "negatives": int(self.rows.sum()) - positives}

    def in_population(self, shares: Array) -> Array:
        """Turn probabilities among these rows into those of the population."""
        return shares if self.odds == 1.0 else self.odds * shares / (self.odds * shares + (1.0 - shares))


def read_levels(y: Any, scores: Any, sample_weight: Any = None, groups: Any = None, seed: Any = 0) -> Levels:
    """Read labels and scores; of each group one row, drawn at random.

    Raises
    ------
    ValueError, TypeError
        When they are not usable, or there is a class without rows, or weights differ within a class.
    """
    check_same_index(y=y, scores=scores, sample_weight=sample_weight, groups=groups)
    up = check_binary_labels(y)
    values = check_vector(scores, len(up), "scores")
    odds = _odds(check_weights(sample_weight, len(up)), up)
    generator = np.random.default_rng(check_integer(seed, "seed", 0))
    if groups is not None:
        if odds != 1.0:
            raise ValueError(
                "sample_weight and groups are both given, expected one of them: one row of each group is drawn, whose "
                "class is no longer drawn at the rate that weights of classes undo."
            )
        order = generator.permutation(len(up))
        drawn = order[np.unique(cluster_numbers(groups, len(up))[order], return_index=True)[1]]
        up, values = up[drawn], values[drawn]
        if up.all() or not up.any():
            raise ValueError(
                f"groups has {len(up)} groups, whose drawn rows are all of one class; give more of them."
            )
    order = np.argsort(values)
    values, up = values[order], up[order]
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    hits = np.add.reduceat(up.astype(np.float64), starts)
    return Levels(values[starts] + 0.0, np.diff(np.append(starts, len(up))).astype(np.float64), hits, odds)


def _odds(weights: Array | None, up: Array) -> float:
    """Return the weight of a positive row over that of a negative one."""
    if weights is None:
        return 1.0
    for which, side in (("positive", weights[up]), ("negative", weights[~up])):
        if side.min() <= 0.0 or side.min() < side.max():
            raise ValueError(
                f"sample_weight is from {side.min():g} to {side.max():g} among the {which} rows, expected one weight "
                "greater than 0 for each class (1 over the share of the class that was kept): for other weights there "
                "is no exact band; draw rows in proportion to their weights, and calibrate with these."
            )
    return float(weights[up][0] / weights[~up][0])
