"""Intervals for measures: of one list of positives and negatives, and of graded labels over pairs or queries."""

from __future__ import annotations

from typing import Any, Literal

from convexrank.inference.arguments import (
    How,
    map_measure,
    measured,
    ndcg_measure,
    partial_measure,
    push_measure,
    risk_measure,
)
from convexrank.inference.graded import MaryRisk
from convexrank.inference.results import Interval
from convexrank.inference.two_classes import AUC, PrecisionAt, RecallAt
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


def auc_interval(
    y: Any,
    s: Any,
    *,
    method: How = "auto",
    level: float = 0.95,
    sample_weight: Any = None,
    groups: Any = None,
) -> Interval:
    r"""Interval for the area under the ROC curve.

    .. math:: \mathrm{AUC} = P(s_+ > s_-) + \tfrac12 P(s_+ = s_-)

    for a positive and a negative drawn independently. The estimate is `convexrank.metrics.auc`.

    ``"exact"``: pair each of the m = min(I, K) rows of the smaller class with a row of its own of the other class. The
    number of pairs in the right order is binomial, so that Clopper and Pearson's bound with error ρδ holds for each
    pairing; by Markov's inequality the bound that a share ρ of all pairings reaches holds with error δ = α/2. The
    distribution over the pairings is computed, not drawn; tied rows stand in eight random orders.
    ``"asymptotic"``: DeLong's variance, in O(n log n); the interval is Student's with Satterthwaite's
    degrees of freedom, on the logistic scale. With groups the variance is Obuchowski's.

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, of which the larger is the positive one, and finite scores of a ranker that does not
        depend on these rows.
    method : {"auto", "exact", "asymptotic"}
        Method for every sample size and distribution, or for large samples; ``"auto"`` is exact, and asymptotic where
        there are weights or groups.
    level : float
        Probability that the interval contains the measure of the population, in (0, 1).
    sample_weight : array-like, shape (n,), optional
        Sampling weights of rows: a row of weight 2 is one row that represents two. For ``"asymptotic"`` only.
    groups : array-like of int or str, shape (n,), optional
        The group of each row: rows of one group depend on one another, groups do not. For ``"asymptotic"`` only.

    Returns
    -------
    Interval
        Estimate, and ends of the interval.

    Raises
    ------
    ValueError, TypeError
        When labels, scores, weights, groups or level are not usable; when exact intervals are asked of weights or
        groups; when the asymptotic variance cannot be estimated: one positive or negative, or a perfect or constant
        ranking.

    References
    ----------
    E. DeLong, D. DeLong, D. Clarke-Pearson, Biometrics 44 (1988); N. Obuchowski, Biometrics 53 (1997); J. Goldman,
    J. Joichi, D. White, Proceedings of the American Mathematical Society 52 (1975).

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [900, 100])
    >>> auc_interval(y, y + random.normal(size=1000), method="asymptotic")
    Interval(auc = 0.7122 in [0.6574, 0.7614], level 95 %, asymptotic, 100 positives, 900 negatives)
    """
    return measured(AUC(), y, s, method, level, sample_weight, groups)


def push_risk_interval(
    y: Any,
    s: Any,
    p: float,
    *,
    method: How = "auto",
    level: float = 0.95,
    sample_weight: Any = None,
    groups: Any = None,
) -> Interval:
    r"""Interval for the push risk of the population: the p-norm of the heights of the negatives.

    .. math:: R_p = \bigl( E\, H(s_-)^p \bigr)^{1/p}, \qquad H(t) = P(s_+ \le t)

    H(t) is the height of a negative with score t in the population; a tie counts as a misrank. The push risk is from 0
    to 1, smaller is better, and it increases with p. The estimate is `convexrank.metrics.push_risk`.

    ``"exact"``: :math:`R_p^p` is the probability that p positives are all at or below a negative. With a whole p and at
    least 12.5 p³ disjoint tuples of p positives and a negative, the bounds are those of capitals over up to a thousand
    systems of such tuples, as for differences in `compare`. With fewer tuples and p up to 30, the lower bound is that
    of capitals over systems of disjoint groups, of more than p positives and some negatives each; for the upper one
    the negatives' shares of positives at or below are raised, so that, with a large mean of these, the error of its
    bound by betting may be larger: the errors of both classes are not added. Else (larger p, and from below those that
    are not whole) the positives give bounds of H everywhere, by Dvoretzky, Kiefer and Wolfowitz with Massart's
    constant, :math:`\sup_t |\widehat H - H| \le \sqrt{\ln(2/\delta)/(2I)}`, near 0 and 1 by Clopper and Pearson; the
    means of their p-th powers over the negatives are bet on. With p = 1 it is one minus an AUC. ``"asymptotic"``: the
    delta method for the root, of the variances of both classes.

    Parameters
    ----------
    y, s : array-like, shape (n,)
        As for `auc_interval`.
    p : float
        The norm, at least 1 and finite.
    method, level, sample_weight, groups : str, float, array-like
        As for `auc_interval`.

    Returns
    -------
    Interval
        Estimate, and ends of the interval.

    Raises
    ------
    ValueError, TypeError
        As for `auc_interval`; also when p is below 1 or infinite.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 4; P. Massart, Annals of Probability 18 (1990); A. Ramdas and
    T. Manole, Randomized and exchangeable improvements of Markov's, Chebyshev's and Chernoff's inequalities,
    arXiv:2304.02611.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [900, 100])
    >>> push_risk_interval(y, y + random.normal(size=1000), p=4)
    Interval(push_risk = 0.5187 in [0.4730, 0.6206], level 95 %, exact, 100 positives, 900 negatives)
    """
    return measured(push_measure(p), y, s, method, level, sample_weight, groups)


def partial_auc_interval(
    y: Any,
    s: Any,
    max_fpr: float,
    *,
    standardize: bool = False,
    method: How = "auto",
    level: float = 0.95,
    sample_weight: Any = None,
    groups: Any = None,
) -> Interval:
    r"""Interval for the area under the ROC curve to the left of a false positive rate.

    .. math:: A = \int_0^m \mathrm{TPR}(u)\,du = E\,(m - G(s_+))_+, \qquad G(t) = P(s_- > t)

    The estimate is `convexrank.metrics.partial_auc`. ``"exact"``: the number N of negatives above the population's
    threshold is binomial with K and m, and given N they are independent: the area over m is the AUC of the positives
    and the first N negatives. Bounds from the first n have an error ε(n) each with a mean of α/2 over the law of N, and
    the worst over n counts. With at least five positives for each negative left of the limit, and at most 100 of these,
    each of the first n has a group of positives of its own, and capitals are bet on the groups' shares of right pairs;
    for the upper end first on the number of positives above the next negative, which bounds the curve at the limit.
    Else they are those of `auc_interval`. For a lower end with fewer than 10 negatives left of the limit, without
    groups for an upper one with fewer than 40, and with more than 2000, or more than five times as many as positives,
    bounds of G hold everywhere (Dvoretzky, Kiefer and Wolfowitz with Massart's constant, near 0 and 1 Clopper and
    Pearson), and bounds by betting for the means over the positives. ``"asymptotic"``: the delta method.

    Parameters
    ----------
    y, s : array-like, shape (n,)
        As for `auc_interval`.
    max_fpr : float
        The false positive rate m, in (0, 1].
    standardize : bool
        Whether to use McClish's version, as in `convexrank.metrics.partial_auc`.
    method, level, sample_weight, groups : str, float, array-like
        As for `auc_interval`.

    Returns
    -------
    Interval
        Estimate, and ends of the interval.

    Raises
    ------
    ValueError, TypeError
        As `auc_interval`; and when max_fpr is not in (0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [900, 100])
    >>> partial_auc_interval(y, y + random.normal(size=1000), 0.2, method="asymptotic")
    Interval(partial_auc = 0.0536 in [0.0395, 0.0705], level 95 %, asymptotic, 100 positives, 900 negatives)
    """
    return measured(partial_measure(max_fpr, standardize), y, s, method, level, sample_weight, groups)


def precision_at_interval(
    y: Any,
    s: Any,
    k: int | float,
    *,
    method: How = "auto",
    level: float = 0.95,
    sample_weight: Any = None,
    groups: Any = None,
) -> Interval:
    r"""Interval for the precision at the top.

    .. math:: P(y = 1 \mid s > t_q), \qquad P(s > t_q) = q

    The share q is k, or k / n when k is a number of rows; the measure refers to the top share q of the population. Rows
    tied at the threshold are selected in random order. The estimate is `convexrank.metrics.precision_at`.

    ``"exact"``: the number N of rows above the population's threshold is binomial with the known share q, and given N
    the labels of the N highest rows are independent; the result is the worst of Clopper and Pearson's bounds over the
    likely N. ``"asymptotic"``: the variance includes that of the threshold, which depends on the sample; the share of
    positives at the threshold is estimated from the rows around it.

    Parameters
    ----------
    y, s : array-like, shape (n,)
        As for `auc_interval`; the rows are a sample of all rows, not of each class.
    k : int or float
        A number of rows from 1 to n, or a share of them in (0, 1]; with weights a share.
    method, level, sample_weight, groups : str, float, array-like
        As for `auc_interval`.

    Returns
    -------
    Interval
        Estimate, and ends of the interval.

    Raises
    ------
    ValueError, TypeError
        As `auc_interval`; and when k is out of its range, or a number of rows with weights.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [900, 100])
    >>> precision_at_interval(y, y + random.normal(size=1000), 50)
    Interval(precision_at = 0.3000 in [0.1205, 0.4971], level 95 %, exact, 1000 rows)
    """
    return measured(PrecisionAt(k), y, s, method, level, sample_weight, groups)


def recall_at_interval(
    y: Any,
    s: Any,
    k: int | float,
    *,
    method: How = "auto",
    level: float = 0.95,
    sample_weight: Any = None,
    groups: Any = None,
) -> Interval:
    r"""Interval for the recall at the top: the share of the positives that is among the first rows.

    .. math:: P(s > t_q \mid y = 1), \qquad P(s > t_q) = q

    The estimate is k / I times `convexrank.metrics.precision_at`. The methods are those of `precision_at_interval`.

    Parameters
    ----------
    y, s : array-like, shape (n,)
        As for `precision_at_interval`.
    k : int or float
        A number of rows from 1 to n, or a share of them in (0, 1]; with weights a share.
    method, level, sample_weight, groups : str, float, array-like
        As for `auc_interval`.

    Returns
    -------
    Interval
        Estimate, and ends of the interval.

    Raises
    ------
    ValueError, TypeError
        As `precision_at_interval`.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [900, 100])
    >>> recall_at_interval(y, y + random.normal(size=1000), 0.2)
    Interval(recall_at = 0.4000 in [0.2455, 0.5567], level 95 %, exact, 1000 rows)
    """
    return measured(RecallAt(k), y, s, method, level, sample_weight, groups)
