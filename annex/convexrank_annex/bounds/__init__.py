"""Bounds as papers publish them, with corrections where one is refuted: push risk, ranking risk, Rademacher averages.

Every bound is a :class:`convexrank.bounds.Bound`. :doc:`/published_bounds` compares them; most hold, but are weak.

================================================ ======================================================================
function                                         bounded quantity
================================================ ======================================================================
`push`                                           push risk by the theorems of 2005 and 2009, and their inverses
`ranking_risk`                                   ranking risk of rules, by Hoeffding, Bernstein, Chernoff, Rademacher
`excess_risk`, `convex_excess`, `fast_rate`      excess risk of an empirical minimiser over the best of its class
`chaos_rate`, `noise_constant`                   Theorem 5 of the U-statistics paper, and the constant of its noise
`combination_excess`                             excess ranking risk of combinations of rules, Corollary 13
`transfer`                                       excess ranking risk, by an excess convex risk
`rademacher_linear`, `rademacher_kernel`, …      Rademacher averages of classes
`bregman_primal`                                 the two sides of the duality in section 11 of the 2009 paper
================================================ ======================================================================
"""

from __future__ import annotations

from convexrank_annex.bounds.bregman_primal import BregmanPrimal, bregman_primal
from convexrank_annex.bounds.convex import combination_excess, convex_excess, transfer
from convexrank_annex.bounds.fast_rates import (
    RademacherChaos,
    chaos_rate,
    noise_constant,
    rademacher_chaos,
)
from convexrank_annex.bounds.push_theorems import push
from convexrank_annex.bounds.rademacher import RademacherAverage, rademacher_vc
from convexrank_annex.bounds.rademacher_classes import (
    rademacher_kernel,
    rademacher_linear,
    rademacher_thresholds,
)
from convexrank_annex.bounds.ranking import excess_risk, fast_rate, ranking_risk

__all__ = [
    "BregmanPrimal",
    "RademacherAverage",
    "RademacherChaos",
    "bregman_primal",
    "chaos_rate",
    "combination_excess",
    "convex_excess",
    "excess_risk",
    "fast_rate",
    "noise_constant",
    "push",
    "rademacher_chaos",
    "rademacher_kernel",
    "rademacher_linear",
    "rademacher_thresholds",
    "rademacher_vc",
    "ranking_risk",
    "transfer",
]
