"""The formulations and where each is, in the order of the registry; read at run time, and by type checkers."""

# isort: skip_file
from collections.abc import Mapping

from convexrank.core.problem import Problem
from convexrank.problems.bipartite.p_norm_push import PNormPush as PNormPush
from convexrank.problems.bipartite.top_push import TopPush as TopPush
from convexrank.problems.bipartite.bottom_push import BottomPush as BottomPush
from convexrank.problems.bipartite.bottom_push import TopBottomPush as TopBottomPush
from convexrank.problems.bipartite.ir_push import IRPush as IRPush
from convexrank.problems.bipartite.rank_discount import RankDiscount as RankDiscount
from convexrank.problems.bipartite.push import Push as Push
from convexrank.problems.bipartite.rmax_push import RmaxPush as RmaxPush
from convexrank.problems.bipartite.spectral_push import SpectralPush as SpectralPush
from convexrank.problems.bipartite.partial_auc import PartialAUC as PartialAUC
from convexrank.problems.bipartite.pat_mat import PatMat as PatMat
from convexrank.problems.pairs.crucial_pairs import CrucialPairs as CrucialPairs
from convexrank.problems.pairs.convex_risk import ConvexRisk as ConvexRisk
from convexrank.problems.pairs.pair_rule import PairRule as PairRule
from convexrank.problems.constrained.rate_constrained import RateConstrained as RateConstrained
from convexrank.problems.single_index.learned_divergence import LearnedDivergence as LearnedDivergence
from convexrank.problems.single_index.kernel_learned_divergence import (
    KernelLearnedDivergence as KernelLearnedDivergence,
)
from convexrank.problems.single_index.realizable_link import RealizableLink as RealizableLink
from convexrank.problems.queries.list_net import ListNet as ListNet
from convexrank.problems.queries.xe_ndcg import XENDCG as XENDCG
from convexrank.problems.queries.list_mle import ListMLE as ListMLE
from convexrank.problems.queries.ndcg_regression import NDCGRegression as NDCGRegression
from convexrank.problems.queries.rank_svm import RankSVM as RankSVM
from convexrank.problems.duals.ranking_dual import RankingDual as RankingDual
from convexrank.problems.retargeting.retargeting import Retargeting as Retargeting
from convexrank.problems.margin_retargeting.margin_retargeting import MarginRetargeting as MarginRetargeting
from convexrank.problems.graph_ranks.page_rank import PageRank as PageRank
from convexrank.problems.page_rank_game.page_rank_game import PageRankGame as PageRankGame
from convexrank.problems.page_rank_game.page_rank_dual import PageRankDual as PageRankDual
from convexrank.problems.graph_ranks.penalty_rank import PenaltyRank as PenaltyRank
from convexrank.problems.consensus.consensus_rank import ConsensusRank as ConsensusRank
from convexrank.problems.graph_ranks.lpq_rank import LpqRank as LpqRank
from convexrank.problems.graph_ranks.trust_propagation import TrustPropagation as TrustPropagation

# no formulation that the verifier draws
from convexrank.problems.queries.rank_cosine import RankCosine as RankCosine

REGISTRY: Mapping[str, type[Problem]]
__all__: list[str]
