"""Expressions: a ranking risk declared once, as a composition of convex atoms over groups of scores.

:class:`convexrank.Formulation` makes a problem of an expression. The atoms here are what it is written with; the files
of this folder are its readings, one each.
"""

from convexrank.modelling.expressions import Node
from convexrank.modelling.functions import Function
from convexrank.modelling.groups import Groups
from convexrank.modelling.loss_rules import loss_of, pair_means, pair_sums, threshold, total_loss
from convexrank.modelling.rules import (
    apply,
    cumulative_log_sum_exp,
    exp,
    hinge,
    huber,
    log,
    log_mean_exp,
    log_one_plus,
    log_sum_exp,
    maximum,
    mean,
    mean_of_highest,
    power,
    softplus,
    spectral_sum,
    square,
    squared_hinge,
    total,
)

__all__ = [
    "Function",
    "Groups",
    "Node",
    "apply",
    "cumulative_log_sum_exp",
    "exp",
    "hinge",
    "huber",
    "log",
    "log_mean_exp",
    "log_one_plus",
    "log_sum_exp",
    "loss_of",
    "maximum",
    "mean",
    "mean_of_highest",
    "pair_means",
    "pair_sums",
    "power",
    "softplus",
    "spectral_sum",
    "square",
    "squared_hinge",
    "threshold",
    "total",
    "total_loss",
]
