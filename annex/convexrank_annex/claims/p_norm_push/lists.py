"""Labelled lists, best first, and the sums over negatives that the papers define on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

__all__ = ["exponential", "heights", "labelled_lists", "logistic", "pair_sums", "zero_one"]

Array = np.ndarray
Loss = Callable[[Array], Array]


def zero_one(margins: Array) -> Array:
    """Return 1 where a positive is not above a negative."""
    return (margins <= 0.0).astype(float)


def exponential(margins: Array) -> Array:
    """Return exp(−margin)."""
    return np.exp(-margins)


def logistic(margins: Array) -> Array:
    """Return log(1 + exp(−margin)), the natural logarithm."""
    return np.logaddexp(0.0, -margins)


def pair_sums(labels: Sequence[int] | Array, scores: Array, loss: Loss) -> Array:
    """Return Σ_i ℓ(f_i − f_k) for every negative k, in the order of the rows."""
    above = np.asarray(labels) > 0
    return np.array([sum(loss(np.array(up - down)) for up in scores[above]) for down in scores[~above]])


def heights(labels: Sequence[int] | Array) -> Array:
    """Return how many positives stand below every negative of a list, best first, by counting."""
    return np.array(
        [sum(one > 0 for one in labels[k:]) for k, label in enumerate(labels) if label <= 0], float
    )


def labelled_lists(length: int) -> Iterator[tuple[int, ...]]:
    """Return every list of labels of this length that has both, one after another."""
    return (labels for labels in product((0, 1), repeat=length) if 0 < sum(labels) < length)
