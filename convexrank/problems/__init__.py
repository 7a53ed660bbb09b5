"""The formulations, one per file, and their registry.

To add one: write its file, and add one line here. Generic tests, the verifier and the command line read ``REGISTRY``.
"""

from __future__ import annotations

from convexrank.core.problem import Problem
from convexrank.problems.bipartite.bottom_push import BottomPush, TopBottomPush
from convexrank.problems.bipartite.ir_push import IRPush
from convexrank.problems.bipartite.p_norm_push import PNormPush
from convexrank.problems.bipartite.push import Push
from convexrank.problems.bipartite.rmax_push import RmaxPush
from convexrank.problems.bipartite.top_push import TopPush
from convexrank.problems.consensus.consensus_rank import ConsensusRank
from convexrank.problems.duals.ranking_dual import RankingDual
from convexrank.problems.graph_ranks.lpq_rank import LpqRank
from convexrank.problems.graph_ranks.page_rank import PageRank
from convexrank.problems.graph_ranks.penalty_rank import PenaltyRank
from convexrank.problems.graph_ranks.trust_propagation import TrustPropagation
from convexrank.problems.margin_retargeting.margin_retargeting import MarginRetargeting
from convexrank.problems.page_rank_game.page_rank_dual import PageRankDual
from convexrank.problems.page_rank_game.page_rank_game import PageRankGame
from convexrank.problems.pairs.convex_risk import ConvexRisk
from convexrank.problems.pairs.crucial_pairs import CrucialPairs
from convexrank.problems.queries.list_net import ListNet
from convexrank.problems.queries.ndcg_regression import NDCGRegression
from convexrank.problems.queries.rank_cosine import RankCosine
from convexrank.problems.queries.rank_svm import RankSVM
from convexrank.problems.realizable.realizable_link import RealizableLink
from convexrank.problems.retargeting.retargeting import Retargeting
from convexrank.problems.single_index.kernel_learned_divergence import KernelLearnedDivergence
from convexrank.problems.single_index.learned_divergence import LearnedDivergence

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
        RankingDual,
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

__all__ = ["REGISTRY", "RankCosine", *REGISTRY]
