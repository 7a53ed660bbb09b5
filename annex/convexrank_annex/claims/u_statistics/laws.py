"""Small laws on which expectations over samples and signs are finite sums."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

__all__ = ["blocks", "pair_mean", "pairs_of_ones", "samples", "signs"]

Array = np.ndarray


def samples(law: Array, count: int) -> Iterator[tuple[float, Array]]:
    """Return every sample of ``count`` independent draws of 0, …, len(law) − 1 with its probability, one by one."""
    draws = map(np.array, product(range(len(law)), repeat=count))
    return ((float(np.prod(law[draw])), draw) for draw in draws)


def signs(count: int) -> Array:
    """Return all sequences of signs, in rows."""
    return np.array(list(product((-1.0, 1.0), repeat=count)))


def pair_mean(kernel: Array, sample: Array) -> float:
    """Return the U-statistic: the mean of the kernel over ordered pairs of different rows, as a double loop."""
    n = len(sample)
    total = sum(kernel[sample[i], sample[j]] for i in range(n) for j in range(n) if i != j)
    return float(total) / (n * (n - 1))


def blocks(kernel: Array, sample: Array) -> Array:
    """Return the kernel at the pairs (X_i, X_{⌊n/2⌋+i})."""
    half = len(sample) // 2
    return kernel[sample[:half], sample[half : 2 * half]]


def pairs_of_ones(count: int) -> Array:
    """Return the share of ordered pairs of two ones, by the number of ones in the sample."""
    ones = np.arange(count + 1.0)
    return ones * (ones - 1.0) / (count * (count - 1.0))
