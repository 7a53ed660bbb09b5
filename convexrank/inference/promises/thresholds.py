"""Thresholds that keep a promise on new rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from convexrank.data import check_probability, check_vector
from convexrank.inference.promises.kinds import (
    HeldOut,
    MaxFPR,
    MinPrecision,
    MinRecall,
    Promise,
    read_held_out,
)
from convexrank.inference.results import percent

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
        sizes = ", ".join(f"{count} {what}" for what, count in self.sizes.items())
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
    given = {name: rate for name, rate in rates.items() if rate is not None}
    if len(given) != 1:
        named = f"{' and '.join(given)} are given" if given else "no promise is given"
        raise ValueError(f"{named}, expected exactly one of: {', '.join(_PROMISES)}; pass max_fpr=0.05.")
    ((name, rate),) = given.items()
    limit = check_probability(rate, name)
    if candidates is None:
        return _PROMISES[name](limit)
    if name != "min_precision":
        raise ValueError(f"candidates is no option of {name}, whose threshold needs no tests; leave it out.")
    return MinPrecision(limit, check_vector(candidates, None, "candidates"))


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
