"""Promises about lists: lengths by query by conformal risk control, and the positives at the head of a new one."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Number
from typing import Any

import numpy as np
from scipy.stats import hypergeom

from convexrank.data import (
    check_integer,
    check_list,
    check_probability,
    check_same_index,
    check_vector,
    shown,
)
from convexrank.data.display import counted
from convexrank.data.groups import QueryGroups, gains
from convexrank.inference.promises import HeldOut, read_held_out, the_one
from convexrank.inference.results import percent
from convexrank.metrics.queries import QueryRanking, prepare, segment_cumsum

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
        sizes = ", ".join(counted(count, what) for what, count in self.sizes.items())
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

    def is_likely(number: int) -> bool:
        return bool(hypergeom.cdf(number, held + above, hits + number, above) > delta)

    return bisect_left(
        range(above), True, key=is_likely
    )  # it increases with the number, and is 1 at the largest


@dataclass(frozen=True)
class ListLength:
    """A length of lists with a promise about new queries.

    Parameters
    ----------
    length : int
        The first so many documents of a query make up its list, or all if it has fewer.
    metric : {"missed", "ndcg_loss", "false"}
        The loss whose expectation is limited.
    limit : float
        The promised limit.
    promise : str
        The promise as a sentence.
    needed : int
        The least number of queries from which a promise with this limit can be made.
    estimate : float
        The mean loss of the held-out queries at this length, which is no promise.
    sizes : dict of str to int
        Number of queries that count.

    Examples
    --------
    >>> from convexrank import inference
    >>> y, scores, qid = [1, 0, 0, 0] * 30, [3, 2, 1, 0] * 30, [row // 4 for row in range(120)]
    >>> found = inference.list_length(y, scores, qid, max_missed=0.1)
    >>> found.length, found.needed, found.estimate
    (1, 9, 0.0)
    """

    length: int
    metric: str
    limit: float
    promise: str
    needed: int
    estimate: float
    sizes: dict[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = ", ".join(counted(count, what) for what, count in self.sizes.items())
        return f"ListLength({self.promise} From {sizes}; {self.needed} were needed.)"


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of new queries, of a length that keeps a promise.

    Parameters
    ----------
    rows : dict of query to ndarray of int
        For each query the numbers of the rows in its list, best first.
    promise : ListLength
        The length and the promise.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import RetargetingRanker
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(600, 3)), np.repeat(np.arange(60), 10)
    >>> y = np.clip(np.round(X @ [1.0, -1.0, 0.0] + 0.5 * rng.normal(size=600)), 0, 2)
    >>> ranker = RetargetingRanker().fit(X[:300], y[:300], qid[:300])
    >>> held_out = X[300:580], y[300:580], qid[300:580]
    >>> found = ranker.lists_with(X[580:], qid[580:], held_out, max_missed=0.1)
    >>> found.promise.length, [len(rows) for rows in found.rows.values()]
    (5, [5, 5])
    """

    rows: dict[Any, Array]
    promise: ListLength

    def __repr__(self) -> str:
        return f"Lists({counted(len(self.rows), 'queries')}. {self.promise.promise})"


def list_length(
    y: Any,
    scores: Any,
    qid: Any,
    *,
    max_missed: float | None = None,
    max_ndcg_loss: float | None = None,
    max_false: float | None = None,
) -> ListLength:
    r"""Length of lists that keeps a promise on new queries, in expectation, for every distribution.

    The loss :math:`L_q(\lambda)` of a query whose list has λ documents is one of three, each from 0 to 1:

    * ``max_missed``: the share of the query's relevant documents that is not in the list;
    * ``max_ndcg_loss``: 1 less the discounted gain of the list over that of the best order of all documents;
    * ``max_false``: the largest share of documents in the first 1, 2, …, λ that are not relevant.

    The first two fall with λ, and the result is the shortest length for which

    .. math:: \frac{n \widehat R(\lambda) + 1}{n + 1} \le \alpha, \qquad
              \widehat R(\lambda) = \frac1n \sum_q L_q(\lambda)

    over the n held-out queries; the third rises, and the result is the longest such length. If held-out queries and a
    new one are exchangeable, the expected loss of the new one is at most α, over held-out and new queries (Angelopoulos
    et al., theorem 1). Ties in scores count in the worst order. It needs n ≥ 1/α − 1 queries. O(n log n).

    Of ``max_ndcg_loss`` and ``max_false`` no length may keep the limit. Samples where the promise is refused count with
    loss 0 in that expectation: where most are refused, the loss over the others can be above α. ``max_missed`` is never
    refused with enough queries.

    Parameters
    ----------
    y, scores, qid : array-like, shape (n,)
        Grades, scores of a ranker that does not depend on these queries, and the query of each row. Rows with a grade
        above 0 are relevant.
    max_missed, max_ndcg_loss, max_false : float, optional
        The limit α, in (0, 1); exactly one. For the first two the promise is about queries with a relevant document.

    Returns
    -------
    ListLength
        The length, the promise as a sentence, and the number of queries it needed.

    Raises
    ------
    ValueError, TypeError
        When the data or limits are not usable, or no length keeps the promise; the message then says how many queries
        are needed, or the least limit that any length keeps.

    References
    ----------
    A. Angelopoulos, S. Bates, A. Fisch, L. Lei, T. Schuster, Conformal Risk Control, arXiv:2208.02814, theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y, qid = random.integers(0, 2, size=2000), np.repeat(np.arange(100), 20)
    >>> list_length(y, y + random.normal(size=2000), qid, max_missed=0.2).promise
    'On average over queries with a relevant document, at most 20 % of the relevant ones are not among the first 13.'
    """
    limits = {"max_missed": max_missed, "max_ndcg_loss": max_ndcg_loss, "max_false": max_false}
    name, alpha = the_one(limits, limits, "max_missed=0.2")
    loss = _LOSSES[name]
    check_same_index(y=y, scores=scores, qid=None if isinstance(qid, QueryGroups) else qid)
    grades = check_vector(y, name="y")
    curve, queries = loss.curve(grades, check_vector(scores, len(grades), "scores"), qid)
    needed = math.ceil(1 / Fraction(repr(alpha))) - 1
    if queries < needed:
        possible = math.ceil(1e4 / (queries + 1)) / 1e4
        raise ValueError(
            f"qid has {counted(queries, loss.counted)}, expected at least {needed} for {name}={alpha!r}; hold out more "
            f"queries, or promise {name}={possible:g}."
        )
    kept = np.flatnonzero((queries * curve + 1.0) / (queries + 1.0) <= alpha + _ROUNDING)
    kept = kept[kept > 0]
    if not len(kept):
        least = math.ceil(1e4 * (queries * float(curve[1:].min()) + 1.0) / (queries + 1.0)) / 1e4
        kept_by = (
            f"the least limit that one keeps is {least:g}" if least < 1.0 else "none keeps a limit below 1"
        )
        raise ValueError(
            f"{name} is {alpha!r}, but no length of lists keeps it: {kept_by}; promise less, or use a better ranker."
        )
    length = int(kept[-1] if loss.rising else kept[0])
    sentence = loss.sentence.format(percent=percent(alpha), length=length)
    return ListLength(
        length, loss.metric, alpha, sentence, needed, float(curve[length]), {loss.counted: queries}
    )


# Limits that differ by less are equal, but for rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class _Loss:
    """A loss of lists: its mean over queries for each length, which falls or rises."""

    metric: str
    curve: Callable[[Any, Any, Any], tuple[Array, int]]
    rising: bool
    counted: str
    sentence: str


def _steps(rank: Array, steps: Array, queries: int) -> Array:
    """Return the sum of the steps up to each rank 0, 1, …, over the number of queries."""
    return np.append(0.0, np.bincount(rank - 1, steps).cumsum()) / queries


def _missed(y: Any, scores: Any, qid: Any) -> tuple[Array, int]:
    ranking, grades = prepare(y, scores, qid, "worst")
    relevant = (grades > 0).astype(np.float64)
    total = ranking.groups.sums(relevant)
    return _part_behind(ranking, relevant, total)


def _ndcg_loss(y: Any, scores: Any, qid: Any) -> tuple[Array, int]:
    ranking, grades = prepare(y, scores, qid, "worst")
    best, sorted_grades = prepare(y, y, qid, "worst")
    parts = [
        gains(values, "exp2") / np.log2(1.0 + order.rank)
        for values, order in ((grades, ranking), (sorted_grades, best))
    ]
    return _part_behind(ranking, parts[0], ranking.groups.sums(parts[1]))


def _part_behind(ranking: QueryRanking, worth: Array, total: Array) -> tuple[Array, int]:
    """The part of the total of each query that is not among its first rows: the mean over queries with any."""
    queries = _number(total > 0)
    steps = np.divide(worth, total[ranking.groups.query], out=np.zeros(len(worth)), where=worth > 0)
    return np.maximum(1.0 - _steps(ranking.rank, steps, queries), 0.0), queries


def _false(y: Any, scores: Any, qid: Any) -> tuple[Array, int]:
    ranking, grades = prepare(y, scores, qid, "worst")
    groups = ranking.groups
    shares = segment_cumsum((grades <= 0).astype(np.float64), groups) / ranking.rank
    # the largest so far within each query: those of later queries are shifted above
    largest = np.maximum.accumulate(shares + 2.0 * groups.query) - 2.0 * groups.query
    before = np.where(ranking.rank == 1, 0.0, np.append(0.0, largest[:-1]))
    queries = _number(groups.sizes > 0)
    return np.minimum(_steps(ranking.rank, largest - before, queries), 1.0), queries


def _number(counts: Array) -> int:
    found = int(counts.sum())
    if not found:
        raise ValueError(
            "y has no query with a relevant row, so there is nothing to promise; pass grades above 0."
        )
    return found


_WITH = "queries with a relevant document"
_LOSSES = {
    "max_missed": _Loss(
        "missed",
        _missed,
        False,
        _WITH,
        "On average over queries with a relevant document, at most {percent} of the relevant ones are not among the "
        "first {length}.",
    ),
    "max_ndcg_loss": _Loss(
        "ndcg_loss",
        _ndcg_loss,
        False,
        _WITH,
        "On average over queries with a relevant document, the discounted gain of the first {length} is at most "
        "{percent} below that of the best order of all documents.",
    ),
    "max_false": _Loss(
        "false",
        _false,
        True,
        "queries",
        "On average over queries, at most {percent} of the first {length} are not relevant.",
    ),
}
