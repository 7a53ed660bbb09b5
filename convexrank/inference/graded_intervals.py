"""Intervals for measures of graded labels: over pairs of rows, and over queries."""

from __future__ import annotations

from typing import Any, Literal

from convexrank.inference.arguments import How, map_measure, measured, ndcg_measure, risk_measure
from convexrank.inference.graded import MaryRisk
from convexrank.inference.results import Interval
from convexrank.metrics.conventions import CONVEXRANK, Convention
from convexrank.metrics.tuples import Tuples


def ranking_risk_interval(
    y: Any,
    s: Any,
    *,
    ties: Literal["half", "strict", "misrank"] = "half",
    antisymmetric: bool = False,
    method: How = "auto",
    level: float = 0.95,
    groups: Any = None,
) -> Interval:
    r"""Interval for the ranking risk of real labels: the probability that two rows are in the wrong order.

    The estimate is `convexrank.metrics.ranking_risk`, a U-statistic. ``"exact"``: put the rows into ⌊n/2⌋ disjoint
    pairs at random. The number of pairs in the wrong order is binomial, so that Clopper and Pearson's bounds hold; for
    N such systems with error α/N all hold at once, and the sharpest are the interval. N is 10⁶ tuples over ⌊n/2⌋, from
    20 to 1000. ``"asymptotic"``: the leading term of Hoeffding's decomposition.

    Parameters
    ----------
    y : array-like, shape (n,)
        Real labels.
    s : array-like, shape (n,) or (n, n)
        Scores of a ranker that does not depend on these rows, or a rule on pairs as a matrix.
    ties, antisymmetric : str, bool
        As for `convexrank.metrics.ranking_risk`.
    method, level, groups : str, float, array-like
        As for `auc_interval`.

    Returns
    -------
    Interval
        Estimate, and ends of the interval.

    Raises
    ------
    ValueError, TypeError
        As `auc_interval`; and when y is constant.

    References
    ----------
    Clémençon, Lugosi and Vayatis, Ranking and empirical minimization of U-statistics (2006), section 2 and appendix 1.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = random.normal(size=500)
    >>> ranking_risk_interval(y, y + random.normal(size=500))
    Interval(ranking_risk = 0.2360 in [0.2016, 0.2704], level 95 %, exact, 500 rows)
    """
    return measured(risk_measure(ties, antisymmetric), y, s, method, level, None, groups)


def m_ary_risk_interval(
    y: Any,
    s: Any,
    m: int = 3,
    *,
    loss: Any = "different",
    ties: Literal["half", "strict", "misrank"] = "half",
    rounds: int | None = None,
    seed: int = 0,
    method: How = "auto",
    level: float = 0.95,
    groups: Any = None,
) -> Interval:
    r"""Interval for the m-ary ranking risk: the expected loss of the order of m rows.

    The estimate is `convexrank.metrics.m_ary_risk`, a U-statistic of order m. ``"exact"``: as `ranking_risk_interval`,
    by systems of ⌊n/m⌋ disjoint tuples, no more of them than ``rounds``; a loss between 0 and 1 is decided by a coin.
    ``"asymptotic"``: the leading term of Hoeffding's decomposition, somewhat wider with few rounds.

    Parameters
    ----------
    y, s, m, loss, ties, rounds, seed : as for `convexrank.metrics.m_ary_risk`
        As for `convexrank.metrics.m_ary_risk`; the rule does not depend on these rows.
    method, level, groups : str, float, array-like
        As for `auc_interval`.

    Returns
    -------
    Interval
        Estimate, and ends of the interval.

    Raises
    ------
    ValueError, TypeError
        As `convexrank.metrics.m_ary_risk` and `auc_interval`.

    References
    ----------
    Clémençon, Lugosi and Vayatis, Ranking and empirical minimization of U-statistics (2006), remark 2.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = random.normal(size=500)
    >>> m_ary_risk_interval(y, y + 0.3 * random.normal(size=500), rounds=200)
    Interval(m_ary_risk = 0.2320 in [0.1866, 0.2737], level 95 %, exact, 500 rows)
    """
    return measured(
        MaryRisk(ties, visits=Tuples(m, loss, ties, rounds, seed)), y, s, method, level, None, groups
    )


def ndcg_interval(
    y: Any,
    s: Any,
    qid: Any,
    k: int | None = None,
    *,
    convention: Convention = CONVEXRANK,
    method: How = "auto",
    level: float = 0.95,
) -> Interval:
    r"""Interval for NDCG: the expectation of a query's value, over queries drawn independently.

    The estimate is `convexrank.metrics.ndcg`, a mean over the queries with a value. Rows of one query may depend on one
    another in any way. ``"exact"``: bounds by betting, for values in [0, 1] in an order that does not depend on them
    (Waudby-Smith and Ramdas, JRSS B 86, 2024; Voráček and Orabona, arXiv:2505.22422). ``"asymptotic"``: Student's
    interval, on the logistic scale.

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Grades, larger is more relevant, and scores of a ranker that does not depend on these rows.
    qid : array-like of int or str, shape (n,), or QueryGroups
        The query of each row.
    k : int, optional
        Cut-off; by default the whole list.
    convention : Convention
        Gain, discount, ties, and queries without relevant rows: one of `convexrank.metrics.conventions`.
    method, level : str, float
        As for `auc_interval`.

    Returns
    -------
    Interval
        Estimate, and ends of the interval.

    Raises
    ------
    ValueError, TypeError
        When the data or options are not usable, or no query has a value; with ``"asymptotic"`` when fewer than two
        queries have a value, or all have the same value.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y, qid = random.integers(0, 3, size=1000), np.repeat(np.arange(100), 10)
    >>> ndcg_interval(y, y + random.normal(size=1000), qid, k=5, method="asymptotic")
    Interval(ndcg = 0.8687 in [0.8418, 0.8916], level 95 %, asymptotic, 100 queries)
    """
    return measured(ndcg_measure(qid, k, convention), y, s, method, level)


def map_interval(
    y: Any,
    s: Any,
    qid: Any,
    *,
    threshold: float = 0.0,
    convention: Convention = CONVEXRANK,
    method: How = "auto",
    level: float = 0.95,
) -> Interval:
    r"""Interval for the mean average precision, over queries drawn independently.

    As `ndcg_interval`, with `convexrank.metrics.mean_average_precision`.

    Parameters
    ----------
    y, s, qid : array-like, shape (n,)
        As for `ndcg_interval`.
    threshold : float
        Rows with a grade above it are relevant.
    convention, method, level : Convention, str, float
        As for `ndcg_interval`.

    Returns
    -------
    Interval
        Estimate, and ends of the interval.

    Raises
    ------
    ValueError, TypeError
        As `ndcg_interval`.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y, qid = random.integers(0, 3, size=1000), np.repeat(np.arange(100), 10)
    >>> map_interval(y, y + random.normal(size=1000), qid)
    Interval(map = 0.9382 in [0.8987, 0.9524], level 95 %, exact, 100 queries)
    """
    return measured(map_measure(qid, threshold, convention), y, s, method, level)
