"""The three promises that a threshold can keep on new rows, each with its threshold and its refusal.

For the false positive rate and the recall the threshold is an order statistic of one class. For the precision several
thresholds are tested. Given the (k + 1)-th highest score t, the rows above t are a sample of all rows above t, for
every distribution: the number of positives among them is binomial with the precision at t, whatever k is. Ties only
make fewer rows lie above. So each of J values of k has an exact test, with an error of δ/J. Thresholds that were fixed
before the rows were seen are tested one after the other, each with the whole δ, until one fails: an error occurs at the
first threshold with too low a precision, or never (Angelopoulos et al., Learn then Test, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import bdtrc

from convexrank.data import check_binary_labels, check_probability, check_same_index, check_vector
from convexrank.data.display import counted
from convexrank.inference.finite_sample.betting import binary_divergence, binomial_range, share_lower
from convexrank.inference.results import percent

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


# Ratio between numbers of rows that are tested: with a smaller one each test has a smaller error, with a larger one the
# best number may lie between two.
_RATIO = 1.2


def rows_needed(rate: float, delta: float) -> int:
    """Return the least m with rateᵐ ≤ δ."""
    if rate == 1.0:
        raise ValueError("the promised rate differs from 1 by less than a float tells; promise less.")
    m, slack = math.ceil(math.log(delta) / math.log(rate)), delta * (1.0 + 1e-12)
    # of whole numbers the quotient of logarithms may be off by rounding, either way
    return next(k for k in (m - 1, m, m + 1) if k >= 1 and rate**k <= slack)


def _place(m: int, rate: float, delta: float) -> int:
    """Return the least k for which k of m independent events of this rate have a probability of at most δ."""
    return binomial_range(m, rate, delta)[1] + 1


def _too_few(m: int, what: str, option: str, limit: float, needed: int, delta: float, possible: str) -> str:
    return (
        f"y has {counted(m, what)}, expected at least {needed} for {option}={limit!r} with confidence "
        f"{1.0 - delta:.12g}; hold out more rows, or promise {option}={possible}."
    )


@dataclass(frozen=True)
class MaxFPR:
    """At most this share of the negatives is above: Neyman–Pearson order statistics."""

    limit: float
    metric = "fpr"
    counted = "negatives"

    def needed(self, delta: float) -> int:
        """Return the least number of negatives."""
        return rows_needed(1.0 - self.limit, delta)

    def threshold(self, rows: HeldOut, delta: float) -> float | None:
        """Return the k-th smallest score of the negatives, or half the way to the next score.

        A higher threshold keeps the promise as well, and none of these rows lies between. Scores that are computed
        once more may differ in the last digit: those at the threshold must not move above it.
        """
        m = len(rows.negatives)
        k = _place(m, 1.0 - self.limit, delta)
        if k > m:
            return None
        found = rows.negatives[k - 1]
        above = [
            part[place]
            for part in (rows.positives, rows.negatives)
            if (place := int(np.searchsorted(part, found, side="right"))) < len(part)
        ]
        return float(found + (min(above) / 2 - found / 2)) if above else float(found)

    def refusal(self, rows: HeldOut, delta: float) -> str:
        """Name the number of negatives, and the smallest rate that these allow."""
        m = len(rows.negatives)
        possible = f"{math.ceil(-1e4 * math.expm1(math.log(delta) / m)) / 1e4:g}"
        return _too_few(m, self.counted, "max_fpr", self.limit, self.needed(delta), delta, possible)

    def sentence(self, threshold: float) -> str:
        """Return the promise in words."""
        return f"at most {percent(self.limit)} of the negatives score above {threshold:g}"


@dataclass(frozen=True)
class MinRecall:
    """At least this share of the positives is above: order statistics of the positives."""

    limit: float
    metric = "recall"
    counted = "positives"

    def needed(self, delta: float) -> int:
        """Return the least number of positives."""
        return rows_needed(self.limit, delta)

    def threshold(self, rows: HeldOut, delta: float) -> float | None:
        """Return the largest score below the k-th largest of the positives, or −∞ if there is none."""
        m = len(rows.positives)
        k = _place(m, self.limit, delta)
        if k > m:
            return None
        lowest = rows.positives[m - k]
        below = [
            part[place - 1]
            for part in (rows.positives, rows.negatives)
            if (place := int(np.searchsorted(part, lowest)))
        ]
        return float(max(below, default=-math.inf))

    def refusal(self, rows: HeldOut, delta: float) -> str:
        """Name the number of positives, and the largest recall that these allow."""
        m = len(rows.positives)
        possible = f"{math.floor(1e4 * delta ** (1.0 / m)) / 1e4:g}"
        return _too_few(m, self.counted, "min_recall", self.limit, self.needed(delta), delta, possible)

    def sentence(self, threshold: float) -> str:
        """Return the promise in words."""
        return f"at least {percent(self.limit)} of the positives score above {threshold:g}"


@dataclass(frozen=True)
class MinPrecision:
    """At least this share of the rows above is positive; candidates, if any, in the order of their tests."""

    limit: float
    candidates: Array | None = field(default=None, compare=False)
    metric = "precision"
    counted = "rows"

    def needed(self, delta: float) -> int:
        """Return the least number of rows, all of them positive."""
        return rows_needed(self.limit, delta)

    def threshold(self, rows: HeldOut, delta: float) -> float | None:
        """Return the threshold with the most rows above, of those that pass."""
        thresholds, each = self._tested(rows, delta)
        if not len(thresholds):
            return None
        count, hits = rows.above(thresholds)
        passed = (count > 0) & (bdtrc(hits - 1.0, np.maximum(count, 1), self.limit) <= each)
        if self.candidates is not None:
            passed = np.logical_and.accumulate(passed)
        return float(thresholds[passed][np.argmax(count[passed])]) if passed.any() else None

    def _tested(self, rows: HeldOut, delta: float) -> tuple[Array, float]:
        """Return the thresholds and the error of each test: as many as the fewest rows can still pass."""
        if self.candidates is not None:
            return self.candidates, delta
        n, tests = len(rows.scores), 1
        if self.needed(delta) > n:
            return np.zeros(0), delta
        while rows_needed(self.limit, delta / (tests + 1)) * _RATIO**tests <= n:
            tests += 1
        # from all rows down: only how many numbers there are depends on limit and error
        shares = _RATIO ** -np.arange(tests) if tests > 1 else np.array([self.needed(delta) / n])
        counts = np.rint(n * shares).astype(np.int64)
        padded = np.append(rows.scores[::-1], -math.inf)
        return padded[counts], delta / tests

    def refusal(self, rows: HeldOut, delta: float) -> str:
        """Name the number of rows from which on there would be one at these rates, or say that there is none."""
        n, needed = len(rows.scores), self.needed(delta)
        if needed > n:
            possible = f"{math.floor(1e4 * delta ** (1.0 / n)) / 1e4:g}"
            return _too_few(n, self.counted, "min_precision", self.limit, needed, delta, possible)
        thresholds, each = self._tested(rows, delta)
        count, hits = rows.above(thresholds)
        each_best = delta / len(thresholds)  # of candidates as well: this is said of the best of all
        best = float(share_lower(hits, count, each_best).max())
        refused = (
            f"min_precision={self.limit!r}: no threshold passes; the best of them has a precision of at least "
            f"{best:.4g}, with confidence {1.0 - delta:.12g}."
        )
        # shorter lists as well, which more rows would allow to test; of candidates the one at which the tests began
        where, looked = f"among the first {needed} or more", np.append(rows.scores[::-1], -math.inf)[needed:]
        if self.candidates is not None:
            where, looked = "above the first candidate", self.candidates[:1]
        count, hits = rows.above(looked)
        shares = hits / np.maximum(count, 1)
        place = int(np.argmax(count * np.maximum(shares - self.limit, 0.0) ** 2))
        share = float(shares[place])
        if share <= self.limit:
            return (
                f"{refused} No such share of these rows is positive {where}, so that more rows will hardly help; "
                "promise less, or use a better ranker."
            )
        wanted = math.log(1.0 / each) / binary_divergence(share, self.limit) * n / int(count[place])
        return (
            f"{refused} With the shares of these rows about {math.ceil(max(wanted, n + 1))} rows are needed instead of "
            f"{n}; hold out more rows, or promise less."
        )

    def sentence(self, threshold: float) -> str:
        """Return the promise in words."""
        return f"at least {percent(self.limit)} of the rows that score above {threshold:g} are positive"


Promise = MaxFPR | MinPrecision | MinRecall


# What a caller may promise, by the name of the argument.
_PROMISES: dict[str, Callable[[float], Promise]] = {
    "max_fpr": MaxFPR,
    "min_precision": MinPrecision,
    "min_recall": MinRecall,
}


@dataclass(frozen=True)
class Threshold:
    """A threshold with a promise about new rows: a row is selected when its score is above the threshold.

    Parameters
    ----------
    threshold : float
        The threshold; −∞ selects all rows.
    metric : {"fpr", "precision", "recall"}
        The measure that is promised.
    limit, confidence : float
        The promised rate, and the probability with which the promise holds, over samples of held-out rows.
    promise : str
        The promise as a sentence.
    needed : int
        The least number of ``counted`` rows from which this promise can be made.
    counted : {"negatives", "positives", "rows"}
        The rows of which ``needed`` is a number.
    rates : dict of str to float
        Share of negatives above the threshold (``"fpr"``), share of positives among the rows above (``"precision"``,
        NaN without rows), share of positives above (``"recall"``) and share of rows above (``"share"``), on the
        held-out rows; these are no promises.
    sizes : dict of str to int
        Numbers of positives and negatives.

    Examples
    --------
    >>> from convexrank import inference
    >>> found = inference.threshold([0, 1] * 30, range(60), max_fpr=0.1)
    >>> found.threshold, found.needed, found.rates["fpr"]
    (58.5, 29, 0.0)
    """

    threshold: float
    metric: str
    limit: float
    confidence: float
    promise: str
    needed: int
    counted: str
    rates: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = ", ".join(counted(count, what) for what, count in self.sizes.items())
        return f"Threshold({self.promise} From {sizes}; {self.needed} {self.counted} were needed.)"


def threshold(
    y: Any,
    scores: Any,
    *,
    max_fpr: float | None = None,
    min_precision: float | None = None,
    min_recall: float | None = None,
    confidence: float = 0.95,
    candidates: Any = None,
) -> Threshold:
    r"""Threshold that keeps a promise on new rows, for every sample size and every distribution.

    A row is selected when its score is *above* the threshold. Exactly one of three rates is promised, and with at least
    the given probability over the held-out rows it holds for the population from which they come:

    * ``max_fpr`` = a: the share of negatives above is at most a. The threshold is the k-th smallest score of the m
      held-out negatives, with the least k for which :math:`P(\mathrm{Bin}(m, 1-a) \ge k) \le \delta`, where δ is
      1 − confidence, or lies half the way from it to the next score. This needs :math:`m \ge \ln\delta / \ln(1-a)`
      negatives.
    * ``min_recall`` = r: the share of positives above is at least r, by the order statistics of the positives.
    * ``min_precision`` = q: the share of positives among the rows above is at least q, by binomial tests of several
      thresholds with Bonferroni's correction. Of those that pass, the result has the most rows above. With
      ``candidates`` the tests have no correction, but are made in the given order until one fails.

    Ties at the threshold are not above it. Software that selects scores *at or above* a threshold, such as
    scikit-learn's ``FixedThresholdClassifier``, needs ``np.nextafter(threshold, np.inf)``. O(n log n).

    Parameters
    ----------
    y, scores : array-like, shape (n,)
        Labels of two classes, of which the larger is the positive one, and finite scores of a ranker that does not
        depend on these rows. Rows are independent. For ``max_fpr`` and ``min_recall`` they may be drawn by class; for
        ``min_precision`` they are a sample of all rows, and the promise fails when the share of positives falls.
    max_fpr, min_precision, min_recall : float, optional
        The promised rate, in (0, 1); exactly one. It must not be chosen from these rows.
    confidence : float
        Probability that the promise holds, in (0, 1).
    candidates : array-like, optional
        For ``min_precision``: thresholds that do not depend on these rows, such as quantiles of other scores, in the
        order in which they are tested; the first should be the one that most likely passes.

    Returns
    -------
    Threshold
        The threshold, the promise as a sentence, the number of rows it needed, and the rates on these rows.

    Raises
    ------
    ValueError, TypeError
        When labels, scores or options are not usable, or the promise cannot be made from these rows; the message then
        says how many rows are needed.

    References
    ----------
    X. Tong, Y. Feng, J. Li, Neyman–Pearson classification algorithms and NP receiver operating characteristics, Science
    Advances 4 (2018), proposition 1. A. Angelopoulos, S. Bates, E. Candès, M. Jordan, L. Lei, Learn then Test,
    arXiv:2110.01052, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [900, 100])
    >>> scores = 2 * y + random.normal(size=1000)
    >>> threshold(y, scores, max_fpr=0.05).promise
    'With confidence 95 %, at most 5 % of the negatives score above 1.71557.'
    >>> threshold(y[800:], scores[800:], max_fpr=0.01)
    Traceback (most recent call last):
    ...
    ValueError: y has 100 negatives, expected at least 299 for max_fpr=0.01 with confidence 0.95; hold out more rows, or
    promise max_fpr=0.0296.
    """
    promise = promise_of(
        max_fpr=max_fpr, min_precision=min_precision, min_recall=min_recall, candidates=candidates
    )
    delta = 1.0 - check_probability(confidence, "confidence")
    rows = read_held_out(y, scores)
    found = threshold_on(rows, promise, delta)
    if found is None:
        raise ValueError(promise.refusal(rows, delta))
    return found


def promise_of(*, candidates: Any = None, **rates: float | None) -> Promise:
    """Return the one promise that is asked for.

    Raises
    ------
    ValueError, TypeError
        When there is none or more than one, or its rate is not in (0, 1).
    """
    name, limit = the_one(rates, _PROMISES, "max_fpr=0.05")
    if candidates is None:
        return _PROMISES[name](limit)
    if name != "min_precision":
        raise ValueError(f"candidates is no option of {name}, whose threshold needs no tests; leave it out.")
    return MinPrecision(limit, check_vector(candidates, None, "candidates"))


def the_one(limits: Mapping[str, float | None], names: Iterable[str], example: str) -> tuple[str, float]:
    """Return the name and the value of the one limit that is given."""
    given = {name: limit for name, limit in limits.items() if limit is not None}
    if len(given) != 1:
        named = f"{' and '.join(given)} are given" if given else "no promise is given"
        raise ValueError(f"{named}, expected exactly one of: {', '.join(names)}; pass {example}.")
    ((name, limit),) = given.items()
    return name, check_probability(limit, name)


def threshold_on(rows: HeldOut, promise: Promise, delta: float) -> Threshold | None:
    """Return the threshold, or None where the promise cannot be made."""
    found = promise.threshold(rows, delta)
    if found is None:
        return None
    found += 0.0  # no −0
    return Threshold(
        found,
        promise.metric,
        promise.limit,
        1.0 - delta,
        f"With confidence {percent(1.0 - delta)}, {promise.sentence(found)}.",
        promise.needed(delta),
        promise.counted,
        rows.rates(found),
        rows.sizes,
    )
