"""The formulations, one a file, and their registry.

To add one: write its file, and add one line here. Generic tests, the verifier and the command line read ``REGISTRY``.
"""

from __future__ import annotations

from convexrank.problem import Problem
from convexrank.problems.bottom_push import BottomPush, TopBottomPush
from convexrank.problems.convex_risk import ConvexRisk
from convexrank.problems.crucial_pairs import CrucialPairs
from convexrank.problems.ir_push import IRPush
from convexrank.problems.learned_divergence import LearnedDivergence
from convexrank.problems.p_norm_push import PNormPush
from convexrank.problems.push import Push
from convexrank.problems.rmax_push import RmaxPush
from convexrank.problems.top_push import TopPush

REGISTRY: dict[str, type[Problem]] = {
    formulation.__name__: formulation
    for formulation in (
        PNormPush,
        TopPush,
        BottomPush,
        TopBottomPush,
        IRPush,
        Push,
        RmaxPush,
        CrucialPairs,
        ConvexRisk,
        LearnedDivergence,
    )
}

__all__ = [
    "REGISTRY",
    "BottomPush",
    "ConvexRisk",
    "CrucialPairs",
    "IRPush",
    "LearnedDivergence",
    "PNormPush",
    "Push",
    "RmaxPush",
    "TopBottomPush",
    "TopPush",
]
