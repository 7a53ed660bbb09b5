"""Inference on held-out data: intervals for the measure of the population from that of a sample.

All functions take labels and the scores of a ranker that does not depend on these rows. The rows (or queries) must be
drawn independently; training rows give no valid interval for the ranker that was fitted to them.

============================ ============================================ =========================================
function                     measure                                      ``method="exact"`` uses
============================ ============================================ =========================================
auc_interval                 area under the ROC curve                     Clopper and Pearson, over all pairings
partial_auc_interval         the left end of that area                    groups or pairings, at uncertain limits
push_risk_interval           p-norm of the heights of the negatives       tuples, groups and raised shares, betting
precision_at_interval        positives among the first k                  Clopper and Pearson, at uncertain cuts
recall_at_interval           share of the positives among the first k     Clopper and Pearson, at uncertain cuts
ranking_risk_interval        pairs of real labels in the wrong order      systems of disjoint tuples
m_ary_risk_interval          m rows of real labels in the wrong order     systems of disjoint tuples
ndcg_interval, map_interval  means over queries                           betting
roc_band                     the whole ROC curve                          DKW for both classes
precision_recall_band        the whole precision–recall curve             DKW, Clopper and Pearson
============================ ============================================ =========================================

DKW is the bound of Dvoretzky, Kiefer and Wolfowitz for a whole distribution function, with Massart's constant.
Every function has the same default, ``method="auto"``: the interval of one measure is exact, unless rows have weights
or groups, which exact bounds do not take; differences of measures are asymptotic. So one number has one interval
wherever it is printed, and the result names its method. Exact is the default as it holds for the small samples at the
top of a list; of differences exact bounds need disjoint pairs that are drawn, hence the exception.

``method="exact"`` holds for every sample size and every distribution of independent rows: the probability that the
interval contains the true value is at least the level. ``method="asymptotic"`` is much narrower, and its probability
tends to the level as the sample grows; the guide "Intervals and comparisons" lists sufficient sizes. `compare` compares
two or more rankers on the same rows, `monitor` has intervals for a measure that is looked at every day, `sample_size`
returns the sample size for an interval of a given width.
`bootstrap_weights` has intervals of the weights of a problem from resampled rows, `stability_selection` how often a
column is selected by l1; both solve every resample to a certificate.
`threshold` returns a threshold that keeps a promise on new rows, `top_hits` how many of the first new rows are positive
at the least, and `list_length` a length of lists for new queries. All functions cost O(n log n).

ValueError or TypeError is raised when a class is missing, labels or scores have NaN or different lengths, or a level is
not strictly between 0 and 1; the message names the argument.
"""

from __future__ import annotations

from convexrank.inference.bands import precision_recall_band, roc_band
from convexrank.inference.comparison import compare, holm
from convexrank.inference.intervals import (
    auc_interval,
    m_ary_risk_interval,
    map_interval,
    ndcg_interval,
    partial_auc_interval,
    precision_at_interval,
    push_risk_interval,
    ranking_risk_interval,
    recall_at_interval,
)
from convexrank.inference.monitoring import Monitoring, monitor
from convexrank.inference.planning import sample_size
from convexrank.inference.promised_lists import ListLength, Lists, TopHits, list_length, top_hits
from convexrank.inference.promises import Threshold, threshold
from convexrank.inference.results import Band, Comparison, Difference, Interval, SampleSize
from convexrank.inference.weights import (
    SelectionFrequencies,
    WeightIntervals,
    bootstrap_weights,
    stability_selection,
)

__all__ = [
    "Band",
    "Comparison",
    "Difference",
    "Interval",
    "ListLength",
    "Lists",
    "Monitoring",
    "SampleSize",
    "SelectionFrequencies",
    "Threshold",
    "TopHits",
    "WeightIntervals",
    "auc_interval",
    "bootstrap_weights",
    "compare",
    "holm",
    "list_length",
    "m_ary_risk_interval",
    "map_interval",
    "monitor",
    "ndcg_interval",
    "partial_auc_interval",
    "precision_at_interval",
    "precision_recall_band",
    "push_risk_interval",
    "ranking_risk_interval",
    "recall_at_interval",
    "roc_band",
    "sample_size",
    "stability_selection",
    "threshold",
    "top_hits",
]
