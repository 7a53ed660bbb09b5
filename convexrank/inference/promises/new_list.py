"""Least number of positives among the first rows of a new list."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Number
from typing import Any

import numpy as np
from scipy.stats import hypergeom

from convexrank.data import check_integer, check_list, check_probability, check_vector, shown
from convexrank.inference.promises.kinds import HeldOut, read_held_out
from convexrank.inference.results import percent

Array = np.ndarray


@dataclass(frozen=True)
class TopHits:
    """Least numbers of positives among the first rows of a new list, all at once.

    Parameters
    ----------
    k, hits : tuple of int
        The numbers of first rows, and for each the least number of positives among them.
    confidence : float
        The probability that all of these numbers hold, over held-out and new rows.
    sizes : dict of str to int
        Numbers of held-out positives and negatives, and of new rows.

    Examples
    --------
    >>> from convexrank import inference
    >>> found = inference.top_hits([0, 1] * 50, [0, 9] * 50, [9] * 40 + [0] * 10, k=40)
    >>> found.promise
    'With confidence 95 %, at least 37 of the first 40 are positive.'
    """

    k: tuple[int, ...]
    hits: tuple[int, ...]
    confidence: float
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def promise(self) -> str:
        """The promise as a sentence."""
        parts = [f"at least {hits} of the first {k}" for k, hits in zip(self.k, self.hits, strict=True)]
        together = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
        return f"With confidence {percent(self.confidence)}, {together} are positive."

    def __repr__(self) -> str:
        sizes = ", ".join(f"{count} {what}" for what, count in self.sizes.items())
        return f"TopHits({self.promise} From {sizes}.)"


def top_hits(y: Any, scores: Any, new_scores: Any, k: Any, *, confidence: float = 0.95) -> TopHits:
    r"""Least number of positives among the first k rows of a new list, for every distribution.

    Let t be the (k + 1)-th highest score of the new list. Given t, its k rows above t and the held-out rows above t are
    drawn alike. So if x of n held-out rows above t are positive, and z of the k new ones, all ways to choose the z
    among the x + z are equally likely: given x + z, z is hypergeometric. The result is the least z with

    .. math:: P\bigl(\mathrm{Hyp}(n + k,\ x + z,\ k) \le z\bigr) > \delta .

    For J values of k, each has an error of δ/J, and all promises hold at once. It is a promise about these new rows and
    not about a population: with many held-out rows it is as wide as the luck of k draws. O(n log n).

    Parameters
    ----------
    y, scores : array-like, shape (n,)
        Labels of two classes, of which the larger is the positive one, and finite scores of a ranker that does not
        depend on these rows. They are a sample of all rows, from the same population as the new ones.
    new_scores : array-like, shape (N,)
        Scores of the new rows. Rows of one score may stand in any order; those at the cut count as negatives.
    k : int or sequence of int
        Numbers of first rows, from 1 to N, chosen before the held-out labels were seen.
    confidence : float
        Probability that the promise holds, in (0, 1).

    Returns
    -------
    TopHits
        For each k the least number of positives, and the promise as a sentence.

    Raises
    ------
    ValueError, TypeError
        When labels, scores or confidence are not usable, or k is not from 1 to N.

    References
    ----------
    A. Thatcher, Relationships between Bayesian and confidence limits for predictions, Journal of the Royal Statistical
    Society B 26 (1964).

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [900, 100])
    >>> scores, new = 3 * y + random.normal(size=1000), 3 * y + random.normal(size=1000)
    >>> top_hits(y, scores, new, k=[50, 100]).promise
    'With confidence 95 %, at least 42 of the first 50 and at least 73 of the first 100 are positive.'
    """
    delta = 1.0 - check_probability(confidence, "confidence")
    rows = read_held_out(y, scores)
    new = np.sort(check_vector(new_scores, None, "new_scores"))[::-1]
    counts = _counts(k, len(new))
    hits = [_least(rows, new, count, delta / len(counts)) for count in counts]
    return TopHits(tuple(counts), tuple(hits), 1.0 - delta, {**rows.sizes, "new rows": len(new)})


def _counts(k: Any, rows: int) -> list[int]:
    """Return the numbers of first rows."""
    given = [k] if isinstance(k, Number) else check_list(k, "k", "numbers of rows")
    if not given:
        raise ValueError(f"k is {shown(k)}, expected at least one number of rows.")
    counts = [check_integer(one, "k", 1) for one in given]
    if max(counts) > rows:
        raise ValueError(f"k is {max(counts)}, expected at most {rows}, the number of new rows.")
    return counts


def _least(rows: HeldOut, new: Array, k: int, delta: float) -> int:
    """Return the least number of positives that is not refuted."""
    threshold = float(new[k]) if k < len(new) else -math.inf
    above = int(np.searchsorted(-new, -threshold, side="left"))  # k, or fewer where the cut is in a tie
    held, hits = (int(count[0]) for count in rows.above(np.array([threshold])))
    low, high = 0, above  # the probability increases with the number, and is 1 at the largest
    while low < high:
        middle = (low + high) // 2
        if hypergeom.cdf(middle, held + above, hits + middle, above) > delta:
            high = middle
        else:
            low = middle + 1
    return low
