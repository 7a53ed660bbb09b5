"""Measures of the agreement between scores s and labels y.

Every measure takes the labels ``y`` first and the scores ``s`` second, both array-like of shape (n,). It does not
change them, costs O(n log n), and depends only on the order of the scores, unless a margin theta is given. Rows with
high scores are at the top. A measure of one list takes labels of two classes; the larger label is the positive class.
ValueError or TypeError is raised when y does not hold exactly two classes, s is not a finite real vector, or their
lengths differ.

========================= ==================================================== =========================
measure                   what it is                                           a tie in the scores
========================= ==================================================== =========================
heights                   positives at or below each negative                  counts as a misrank
reverse_heights           negatives at or above each positive                  counts as a misrank
r_p, r_max                sum of powers, and maximum, of the heights           counts as a misrank
push_risk                 p-norm of the heights as shares, with a margin       counts as a misrank
positives_at_top          positives above every negative                       counts as a misrank
dcg                       sum over positives of 1/ln(1 + rank)                 has the worst rank
average_reciprocal_rank   sum over positives of 1/rank                         has the worst rank
auc, partial_auc          area under the ROC curve                             counts one half
precision_at              share of positives among the first k                 mean over random orders
recall_at                 share of the positives among the first k             mean over random orders
recall_at_precision       largest recall with a given precision                in the list together
ranking_risk              share of ordered pairs misranked, with its error     one half, or an option
m_ary_risk                loss of the order of m rows, with its error          mean over orders, or an option
========================= ==================================================== =========================

By query, as a mean over queries or one value for each:

========================= ==================================================== =========================
measure                   what it is                                           a tie in the scores
========================= ==================================================== =========================
ndcg                      discounted gain over its largest value               averaged, or an option
mean_average_precision    mean precision at the relevant rows                  averaged, or an option
precision_at              share of relevant rows among the first k             averaged, or an option
mean_reciprocal_rank      one over the rank of the first relevant row          averaged, or an option
expected_reciprocal_rank  mean of one over the rank where a user stops         averaged, or an option
kendall_tau               pairs in the same order less pairs in opposite order counts 0; tau-b rescales
spearman_footrule         sum of the differences of ranks                      has the mean rank
========================= ==================================================== =========================

These take grades ``y``, larger is more relevant, and

* ``qid``, the query of each row: integers or strings in any order, :class:`~convexrank.data.QueryGroups`, or None for
  one query;
* ``threshold``: rows with a grade above it are relevant;
* ``ties``, the order of rows with equal scores: ``"average"`` is the mean over all their orders, ``"stable"`` the order
  of the rows in y, ``"worst"`` the lowest grade (or the irrelevant rows) first, ``"best"`` the highest first;
* ``empty``, the value of a query for which the measure is not defined: 0 or 1, or ``"skip"`` to leave the query out;
* ``per_query``: return one value for each query, shape (m,), in the order in which the queries first appear, NaN for
  queries left out, instead of the mean.

ValueError or TypeError is raised when the data are not finite, lengths differ, an option is unknown, or no query has
a value.

:func:`table` compares several rankings, with standard errors and paired differences. :func:`named` returns the measure
of a name such as ``"precision@100"``, and the names mean the same wherever a measure is named; :func:`scorer` makes of
them scorers for the searches of scikit-learn.

For ranks of a graph, with the scores as first argument:

========================= ==================================================== =========================
spam_mass                 share of the whole rank that spam has                has no effect
spam_met                  spam among the first k, for every k                  mean over random orders
order_distance            footrule of two ranks, on some of the pages          has the mean rank
========================= ==================================================== =========================

`convexrank.metrics.conventions` has the conventions of other packages for these measures.
"""

from __future__ import annotations

from convexrank.metrics import conventions
from convexrank.metrics.gain import average_reciprocal_rank, dcg, expected_reciprocal_rank, ndcg
from convexrank.metrics.push import auc, heights, partial_auc, push_risk, r_max, r_p, reverse_heights
from convexrank.metrics.risk import RankingRisk, kendall_tau, ranking_risk, spearman_footrule
from convexrank.metrics.spam import order_distance, spam_mass, spam_met
from convexrank.metrics.tables import MetricsTable, named, scorer, table
from convexrank.metrics.top import (
    mean_average_precision,
    mean_reciprocal_rank,
    positives_at_top,
    precision_at,
    recall_at,
    recall_at_precision,
)
from convexrank.metrics.tuples import m_ary_risk

__all__ = [
    "MetricsTable",
    "RankingRisk",
    "auc",
    "average_reciprocal_rank",
    "conventions",
    "dcg",
    "expected_reciprocal_rank",
    "heights",
    "kendall_tau",
    "m_ary_risk",
    "mean_average_precision",
    "mean_reciprocal_rank",
    "named",
    "ndcg",
    "order_distance",
    "partial_auc",
    "positives_at_top",
    "precision_at",
    "push_risk",
    "r_max",
    "r_p",
    "ranking_risk",
    "recall_at",
    "recall_at_precision",
    "reverse_heights",
    "scorer",
    "spam_mass",
    "spam_met",
    "spearman_footrule",
    "table",
]
