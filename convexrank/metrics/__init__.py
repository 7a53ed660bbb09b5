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
"""

from __future__ import annotations

from convexrank.metrics.discounted import average_reciprocal_rank, dcg
from convexrank.metrics.push import heights, r_max, r_p, reverse_heights
from convexrank.metrics.risk import RankingRisk, ranking_risk
from convexrank.metrics.roc import auc, partial_auc
from convexrank.metrics.top import positives_at_top, precision_at

__all__ = [
    "RankingRisk",
    "auc",
    "average_reciprocal_rank",
    "dcg",
    "heights",
    "partial_auc",
    "positives_at_top",
    "precision_at",
    "r_max",
    "r_p",
    "ranking_risk",
    "reverse_heights",
]
