"""Bounds beyond the sample: on the push risk, and on the change of a minimiser with a row or with the targets.

A bound on a risk is a `Bound`: its value, its terms, its source, and whether the statement is refuted or the value is
not informative. :doc:`/guarantees` says when to quote one.

========================= =============================================================================================
function                  bounded quantity
========================= =============================================================================================
`push_risk`               push risk of a ranker, or of all of a family
`leave_one_out`           change of the minimiser when one row is left out
`perturbation_bound`      change of the minimiser of a learned divergence with the targets
========================= =============================================================================================

The published bounds are in the annex (:doc:`/install`), and can be used from here where it is installed: ``push``,
``ranking_risk``, ``excess_risk``, ``convex_excess``, ``fast_rate``, ``transfer``, ``bregman_primal`` and Rademacher
averages of classes, ``rademacher_linear`` and its kin.
"""

from __future__ import annotations

from typing import Any

from convexrank.bounds.perturbation import LeaveOneOut, PerturbationBound, leave_one_out, perturbation_bound
from convexrank.bounds.push_sample import Bound, Covering, FiniteFamily, Halfspaces, NormBall, push_risk
from convexrank.data.annex import annex_name

__all__ = [
    "Bound",
    "Covering",
    "FiniteFamily",
    "Halfspaces",
    "LeaveOneOut",
    "NormBall",
    "PerturbationBound",
    "leave_one_out",
    "perturbation_bound",
    "push_risk",
]

# Not in __all__, so that a star import works without the annex.
_IN_ANNEX = (
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
)


def __getattr__(name: str) -> Any:
    return annex_name("bounds", name, _IN_ANNEX)


def __dir__() -> list[str]:
    return [*__all__, *_IN_ANNEX]
