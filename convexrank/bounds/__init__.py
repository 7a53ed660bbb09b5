"""Bounds beyond the sample: on the push risk and on the ranking risk; Rademacher averages, perturbations.

Every bound is a `Bound`: its value, its terms, its source, and whether the statement is refuted or the value is not
informative. :doc:`/bounds` compares the bounds.

================================================ ======================================================================
function                                         bounded quantity
================================================ ======================================================================
`push_risk`                                      push risk of a ranker, or of all of a family; recommended
`push`                                           the same by the published theorems, and their inverses
`ranking_risk`                                   ranking risk of rules, by Hoeffding, Bernstein, Chernoff, Rademacher
`excess_risk`, `convex_excess`, `fast_rate`      excess risk of an empirical minimiser over the best of its class
`transfer`                                       excess ranking risk, by an excess convex risk
`rademacher_linear`, `rademacher_kernel`, …      Rademacher averages of classes
`perturbation_bound`                             change of the minimiser of a learned divergence with the targets
================================================ ======================================================================
"""

from __future__ import annotations

from convexrank.bounds.bregman_primal import BregmanPrimal, bregman_primal
from convexrank.bounds.convex import convex_excess, transfer
from convexrank.bounds.coverings import Covering, FiniteFamily, Halfspaces, NormBall
from convexrank.bounds.leave_one_out import LeaveOneOut, leave_one_out
from convexrank.bounds.perturbation import PerturbationBound, perturbation_bound
from convexrank.bounds.push_sample import push_risk
from convexrank.bounds.push_theorems import push
from convexrank.bounds.rademacher import RademacherAverage, rademacher_vc
from convexrank.bounds.rademacher_classes import rademacher_kernel, rademacher_linear, rademacher_thresholds
from convexrank.bounds.ranking import excess_risk, fast_rate, ranking_risk
from convexrank.bounds.result import Bound

__all__ = [
    "Bound",
    "BregmanPrimal",
    "Covering",
    "FiniteFamily",
    "Halfspaces",
    "LeaveOneOut",
    "NormBall",
    "PerturbationBound",
    "RademacherAverage",
    "bregman_primal",
    "convex_excess",
    "excess_risk",
    "fast_rate",
    "leave_one_out",
    "perturbation_bound",
    "push",
    "push_risk",
    "rademacher_kernel",
    "rademacher_linear",
    "rademacher_thresholds",
    "rademacher_vc",
    "ranking_risk",
    "transfer",
]
