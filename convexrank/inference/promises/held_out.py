"""Held-out rows of two classes, sorted by score: what a promise about a threshold is made from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from convexrank.data import check_binary_labels, check_same_index, check_vector

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores of both classes.

    Parameters
    ----------
    positives, negatives : ndarray
        The scores of each class, in increasing order.
    """

    positives: Array
    negatives: Array

    @cached_property
    def scores(self) -> Array:
        """All scores, in increasing order."""
        return np.sort(np.concatenate([self.positives, self.negatives]))

    def above(self, thresholds: Array) -> tuple[Array, Array]:
        """Return how many rows, and how many positives, have a score above each threshold."""
        hits, others = (
            len(part) - np.searchsorted(part, thresholds, side="right")
            for part in (self.positives, self.negatives)
        )
        return hits + others, hits

    @property
    def sizes(self) -> dict[str, int]:
        """Number of rows of each class."""
        return {"positives": len(self.positives), "negatives": len(self.negatives)}

    def rates(self, threshold: float) -> dict[str, float]:
        """Return the measures of these rows at a threshold; the precision is NaN where no row is above."""
        rows, hits = (int(count[0]) for count in self.above(np.array([threshold])))
        return {
            "fpr": (rows - hits) / len(self.negatives),
            "precision": hits / rows if rows else math.nan,
            "recall": hits / len(self.positives),
            "share": rows / (len(self.positives) + len(self.negatives)),
        }


def read_held_out(y: Any, scores: Any) -> HeldOut:
    """Read labels and scores.

    Raises
    ------
    ValueError, TypeError
        When a class is missing, or labels or scores are not usable.
    """
    check_same_index(y=y, scores=scores)
    up = check_binary_labels(y)
    values = check_vector(scores, len(up), "scores")
    return HeldOut(np.sort(values[up]), np.sort(values[~up]))
