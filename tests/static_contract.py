"""Read by the type checker only: every formulation fulfils the protocols that it may name in ``capabilities``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convexrank.core import capabilities as can
    from convexrank.core.problem import Problem
    from convexrank.problems._formulation import Formulation
    from convexrank.problems._linear_scores import LinearScores
    from convexrank.problems.consensus.consensus_rank import ConsensusRank
    from convexrank.problems.constrained.rate_constrained import RateConstrained
    from convexrank.problems.duals.ranking_dual import RankingDual
    from convexrank.problems.graph_ranks.lpq_rank import LpqRank
    from convexrank.problems.graph_ranks.page_rank import PageRank
    from convexrank.problems.graph_ranks.penalty_rank import PenaltyRank
    from convexrank.problems.graph_ranks.trust_propagation import TrustPropagation
    from convexrank.problems.margin_retargeting.margin_retargeting import MarginRetargeting
    from convexrank.problems.page_rank_game.page_rank_dual import PageRankDual
    from convexrank.problems.page_rank_game.page_rank_game import PageRankGame
    from convexrank.problems.queries.rank_cosine import RankCosine
    from convexrank.problems.retargeting.retargeting import Retargeting
    from convexrank.problems.single_index.kernel_learned_divergence import KernelLearnedDivergence
    from convexrank.problems.single_index.learned_divergence import LearnedDivergence
    from convexrank.problems.single_index.realizable_link import RealizableLink

    def every(x: Problem) -> can.Solvable:
        return x

    def linear(x: LinearScores) -> tuple[can.Exact, can.Convex, can.Proximal, can.Certified]:
        return x, x, x, x

    def curved(x: Formulation) -> can.TwiceDifferentiable:
        return x

    def learned(x: LearnedDivergence) -> tuple[can.Proximal, can.Smooth]:
        return x, x

    def kernel(x: KernelLearnedDivergence) -> tuple[can.Exact, can.Smooth, can.Proximal, can.Certified]:
        return x, x, x, x

    def retargeting(x: Retargeting) -> can.Smooth:
        return x

    def margins(x: MarginRetargeting) -> tuple[can.Smooth, can.Proximal, can.Referenced]:
        return x, x, x

    def cosine(x: RankCosine) -> tuple[can.Smooth, can.Certified]:
        return x, x

    def link(x: RealizableLink) -> tuple[can.Exact, can.Certified]:
        return x, x

    def rank(x: PageRank) -> tuple[can.FixedPoint, can.Referenced, can.Certified]:
        return x, x, x

    def game(x: PageRankGame) -> tuple[can.Exact, can.Certified]:
        return x, x

    def dual(x: PageRankDual) -> tuple[can.Exact, can.Smooth, can.Proximal, can.Certified]:
        return x, x, x, x

    def ranking_dual(x: RankingDual) -> tuple[can.Exact, can.Certified]:
        return x, x

    def constrained(x: RateConstrained) -> tuple[can.Exact, can.Certified]:
        return x, x

    def consensus(x: ConsensusRank) -> tuple[can.Certified, can.Exact, can.FixedPoint, can.Referenced]:
        return x, x, x, x

    def penalty(x: PenaltyRank) -> tuple[can.Referenced, can.Certified]:
        return x, x

    def trust(x: TrustPropagation) -> tuple[can.FixedPoint, can.Referenced, can.Certified]:
        return x, x, x

    def norms(x: LpqRank) -> tuple[can.FixedPoint, can.Referenced, can.Certified]:
        return x, x, x
