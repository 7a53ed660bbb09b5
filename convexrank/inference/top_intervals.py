"""Intervals for precision and recall at the top of one list."""

from __future__ import annotations

from typing import Any

from convexrank.inference.arguments import How, measured
from convexrank.inference.results import Interval
from convexrank.inference.top_of_list import PrecisionAt, RecallAt


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
