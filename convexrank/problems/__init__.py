"""The formulations, one a file, and their registry.

To add one: write its file, and add one line here. Generic tests, the verifier and the command line read ``REGISTRY``.
"""

from __future__ import annotations

from convexrank.problem import Problem
from convexrank.problems.bottom_push import BottomPush, TopBottomPush
from convexrank.problems.consensus_rank import ConsensusRank
from convexrank.problems.convex_risk import ConvexRisk
from convexrank.problems.crucial_pairs import CrucialPairs
from convexrank.problems.ir_push import IRPush
from convexrank.problems.kernel_learned_divergence import KernelLearnedDivergence
from convexrank.problems.learned_divergence import LearnedDivergence
from convexrank.problems.list_net import ListNet
from convexrank.problems.lpq_rank import LpqRank
from convexrank.problems.margin_retargeting import MarginRetargeting
from convexrank.problems.ndcg_regression import NDCGRegression
from convexrank.problems.p_norm_push import PNormPush
from convexrank.problems.page_rank import PageRank
from convexrank.problems.page_rank_dual import PageRankDual
from convexrank.problems.page_rank_game import PageRankGame
from convexrank.problems.penalty_rank import PenaltyRank
from convexrank.problems.push import Push
from convexrank.problems.rank_cosine import RankCosine
from convexrank.problems.rank_svm import RankSVM
from convexrank.problems.realizable_link import RealizableLink
from convexrank.problems.retargeting import Retargeting
from convexrank.problems.rmax_push import RmaxPush
from convexrank.problems.top_push import TopPush
from convexrank.problems.trust_propagation import TrustPropagation

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
        KernelLearnedDivergence,
        RealizableLink,
        ListNet,
        NDCGRegression,
        RankSVM,
        Retargeting,
        MarginRetargeting,
        PageRank,
        PageRankGame,
        PageRankDual,
        PenaltyRank,
        ConsensusRank,
        LpqRank,
        TrustPropagation,
    )
}

__all__ = [
    "REGISTRY",
    "BottomPush",
    "ConsensusRank",
    "ConvexRisk",
    "CrucialPairs",
    "IRPush",
    "KernelLearnedDivergence",
    "LearnedDivergence",
    "ListNet",
    "LpqRank",
    "MarginRetargeting",
    "NDCGRegression",
    "PNormPush",
    "PageRank",
    "PageRankDual",
    "PageRankGame",
    "PenaltyRank",
    "Push",
    "RankCosine",
    "RankSVM",
    "RealizableLink",
    "Retargeting",
    "RmaxPush",
    "TopBottomPush",
    "TopPush",
    "TrustPropagation",
]
