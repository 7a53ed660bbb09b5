"""The formulations, one per file, and their registry.

To add one: write its file, and add its name and place to ``_PLACES`` here, and its import for the type checker. Generic
tests, the verifier and the command line read ``REGISTRY``. A class is imported when its name is first used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from convexrank.backend.interruption import import_module
from convexrank.core.problem import Problem

if TYPE_CHECKING:
    from convexrank.problems.bipartite.bottom_push import (
        BottomPush as BottomPush,
    )
    from convexrank.problems.bipartite.bottom_push import (
        TopBottomPush as TopBottomPush,
    )
    from convexrank.problems.bipartite.ir_push import IRPush as IRPush
    from convexrank.problems.bipartite.p_norm_push import PNormPush as PNormPush
    from convexrank.problems.bipartite.partial_auc import PartialAUC as PartialAUC
    from convexrank.problems.bipartite.pat_mat import PatMat as PatMat
    from convexrank.problems.bipartite.push import Push as Push
    from convexrank.problems.bipartite.rank_discount import RankDiscount as RankDiscount
    from convexrank.problems.bipartite.rmax_push import RmaxPush as RmaxPush
    from convexrank.problems.bipartite.spectral_push import SpectralPush as SpectralPush
    from convexrank.problems.bipartite.top_push import TopPush as TopPush
    from convexrank.problems.consensus.consensus_rank import ConsensusRank as ConsensusRank
    from convexrank.problems.constrained.rate_constrained import RateConstrained as RateConstrained
    from convexrank.problems.duals.ranking_dual import RankingDual as RankingDual
    from convexrank.problems.graph_ranks.lpq_rank import LpqRank as LpqRank
    from convexrank.problems.graph_ranks.page_rank import PageRank as PageRank
    from convexrank.problems.graph_ranks.penalty_rank import PenaltyRank as PenaltyRank
    from convexrank.problems.graph_ranks.trust_propagation import TrustPropagation as TrustPropagation
    from convexrank.problems.margin_retargeting.margin_retargeting import (
        MarginRetargeting as MarginRetargeting,
    )
    from convexrank.problems.page_rank_game.page_rank_dual import PageRankDual as PageRankDual
    from convexrank.problems.page_rank_game.page_rank_game import PageRankGame as PageRankGame
    from convexrank.problems.pairs.convex_risk import ConvexRisk as ConvexRisk
    from convexrank.problems.pairs.crucial_pairs import CrucialPairs as CrucialPairs
    from convexrank.problems.pairs.pair_rule import PairRule as PairRule
    from convexrank.problems.queries.list_mle import ListMLE as ListMLE
    from convexrank.problems.queries.list_net import ListNet as ListNet
    from convexrank.problems.queries.ndcg_regression import NDCGRegression as NDCGRegression
    from convexrank.problems.queries.rank_cosine import RankCosine as RankCosine
    from convexrank.problems.queries.rank_svm import RankSVM as RankSVM
    from convexrank.problems.queries.xe_ndcg import XENDCG as XENDCG
    from convexrank.problems.realizable.realizable_link import RealizableLink as RealizableLink
    from convexrank.problems.retargeting.retargeting import Retargeting as Retargeting
    from convexrank.problems.single_index.kernel_learned_divergence import (
        KernelLearnedDivergence as KernelLearnedDivergence,
    )
    from convexrank.problems.single_index.learned_divergence import LearnedDivergence as LearnedDivergence

# Name, and where its class is: who uses one formulation imports no other.
_PLACES = {
    "PNormPush": "bipartite.p_norm_push",
    "TopPush": "bipartite.top_push",
    "BottomPush": "bipartite.bottom_push",
    "TopBottomPush": "bipartite.bottom_push",
    "IRPush": "bipartite.ir_push",
    "RankDiscount": "bipartite.rank_discount",
    "Push": "bipartite.push",
    "RmaxPush": "bipartite.rmax_push",
    "SpectralPush": "bipartite.spectral_push",
    "PartialAUC": "bipartite.partial_auc",
    "PatMat": "bipartite.pat_mat",
    "CrucialPairs": "pairs.crucial_pairs",
    "ConvexRisk": "pairs.convex_risk",
    "PairRule": "pairs.pair_rule",
    "RateConstrained": "constrained.rate_constrained",
    "LearnedDivergence": "single_index.learned_divergence",
    "KernelLearnedDivergence": "single_index.kernel_learned_divergence",
    "RealizableLink": "realizable.realizable_link",
    "ListNet": "queries.list_net",
    "XENDCG": "queries.xe_ndcg",
    "ListMLE": "queries.list_mle",
    "NDCGRegression": "queries.ndcg_regression",
    "RankSVM": "queries.rank_svm",
    "RankingDual": "duals.ranking_dual",
    "Retargeting": "retargeting.retargeting",
    "MarginRetargeting": "margin_retargeting.margin_retargeting",
    "PageRank": "graph_ranks.page_rank",
    "PageRankGame": "page_rank_game.page_rank_game",
    "PageRankDual": "page_rank_game.page_rank_dual",
    "PenaltyRank": "graph_ranks.penalty_rank",
    "ConsensusRank": "consensus.consensus_rank",
    "LpqRank": "graph_ranks.lpq_rank",
    "TrustPropagation": "graph_ranks.trust_propagation",
}
# What is no formulation that the verifier draws.
_BESIDE = {"RankCosine": "queries.rank_cosine"}


class _Registry(Mapping[str, type[Problem]]):
    """The formulations by name; each is imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Problem]:
        return getattr(import_module(f"convexrank.problems.{_PLACES[name]}"), name)

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)

    def __contains__(self, name: object) -> bool:
        return name in _PLACES


REGISTRY: Mapping[str, type[Problem]] = _Registry()

__all__ = ["REGISTRY", "RankCosine", *_PLACES]


def __getattr__(name: str) -> Any:
    if name in _PLACES or name in _BESIDE:
        found = getattr(import_module(f"convexrank.problems.{(_PLACES | _BESIDE)[name]}"), name)
        globals()[name] = found  # the next time Python finds it by itself
        return found
    raise AttributeError(f"module 'convexrank.problems' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
