"""Measures of a ranking: how well scores s order labels y.

Every measure takes the labels first and the scores second, leaves both as they are, costs
O(n log n), and depends on the scores only through their order. A high score means near the top.

========================= ==================================================== =========================
measure                   what it is                                           a tie in the scores
========================= ==================================================== =========================
heights                   positives at or below each negative                  counts as a misrank
reverse_heights           negatives at or above each positive                  counts as a misrank
r_p, r_max                sum of powers, and maximum, of the heights           counts as a misrank
positives_at_top          positives above every negative                       counts as a misrank
dcg                       sum over positives of 1/ln(1 + rank)                 takes the worse rank
average_reciprocal_rank   sum over positives of 1/rank                         takes the worse rank
auc, partial_auc          area under the ROC curve                             counts one half
precision_at              share of positives among the k first                 mean over random orders
ranking_risk              share of ordered pairs misranked, with its error     one half, or as asked
========================= ==================================================== =========================

By query, with ``qid``, as a mean over queries or one value a query:

========================= ==================================================== =========================
measure                   what it is                                           a tie in the scores
========================= ==================================================== =========================
ndcg                      discounted gain over its largest value               averaged, or as asked
mean_average_precision    mean precision at the relevant rows                  averaged, or as asked
precision_at              share of relevant rows among the k first             averaged, or as asked
mean_reciprocal_rank      one over the rank of the first relevant row          averaged, or as asked
expected_reciprocal_rank  one over the rank where a reader is satisfied        averaged, or as asked
kendall_tau               pairs in the same order minus those in opposite      neither, and tau-b
spearman_footrule         sum of the differences of ranks                      shares the mean rank
========================= ==================================================== =========================

Of ranks of a graph, whose scores come first:

========================= ==================================================== =========================
spam_mass                 share of the whole rank that spam has                does not matter
spam_met                  spam among the k first, for every k                  mean over random orders
order_distance            footrule of two ranks, on some of the pages          shares the mean rank
========================= ==================================================== =========================

`convexrank.metrics.conventions` holds the conventions in which others state these numbers.
"""

from __future__ import annotations

from convexrank.metrics import conventions
from convexrank.metrics.agreement import kendall_tau, spearman_footrule
from convexrank.metrics.cascade import expected_reciprocal_rank
from convexrank.metrics.discounted import average_reciprocal_rank, dcg
from convexrank.metrics.gain import ndcg
from convexrank.metrics.push import heights, r_max, r_p, reverse_heights
from convexrank.metrics.relevance import mean_average_precision, mean_reciprocal_rank
from convexrank.metrics.risk import RankingRisk, ranking_risk
from convexrank.metrics.roc import auc, partial_auc
from convexrank.metrics.spam import order_distance, spam_mass, spam_met
from convexrank.metrics.top import positives_at_top, precision_at

__all__ = [
    "RankingRisk",
    "auc",
    "average_reciprocal_rank",
    "conventions",
    "dcg",
    "expected_reciprocal_rank",
    "heights",
    "kendall_tau",
    "mean_average_precision",
    "mean_reciprocal_rank",
    "ndcg",
    "order_distance",
    "partial_auc",
    "positives_at_top",
    "precision_at",
    "r_max",
    "r_p",
    "ranking_risk",
    "reverse_heights",
    "spam_mass",
    "spam_met",
    "spearman_footrule",
]
