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
    from convexrank.problems.realizable.realizable_link import RealizableLink
    from convexrank.problems.retargeting.retargeting import Retargeting
    from convexrank.problems.single_index.kernel_learned_divergence import KernelLearnedDivergence
    from convexrank.problems.single_index.learned_divergence import LearnedDivergence
    from convexrank.solvers.descent.multi_start import Multimodal
    from convexrank.solvers.fixed_point._affine import AffineFixedPoint
    from convexrank.solvers.fixed_point.ordered_sweeps import NormSweeps
    from convexrank.solvers.saddle.interior_point import Flows
    from convexrank.solvers.saddle.multiplier_search import Constrained
    from convexrank.solvers.saddle.no_regret_play import Saddle
    from convexrank.solvers.saddle.through_primal import HasPrimal
    from convexrank.solvers.two_sets import SplitFeasibility

    def every(x: Problem) -> can.Solvable:
        return x

    def linear(x: LinearScores) -> tuple[can.Exact, can.Convex, can.Proximal, can.Certified]:
        return x, x, x, x

    def curved(x: Formulation) -> can.TwiceDifferentiable:
        return x

    def learned(x: LearnedDivergence) -> tuple[can.Proximal, can.Field, can.Smooth]:
        return x, x, x

    def kernel(x: KernelLearnedDivergence) -> tuple[can.Exact, can.Smooth, can.Proximal, can.Certified]:
        return x, x, x, x

    def retargeting(x: Retargeting) -> can.Smooth:
        return x

    def margins(x: MarginRetargeting) -> tuple[can.Smooth, can.Proximal, can.Referenced]:
        return x, x, x

    def cosine(x: RankCosine) -> tuple[can.Smooth, can.Certified]:
        return x, x

    def link(x: RealizableLink) -> tuple[can.Exact, SplitFeasibility, can.Certified]:
        return x, x, x

    def rank(x: PageRank) -> tuple[AffineFixedPoint, can.Referenced, can.CertifiedInParts, can.Ordered]:
        return x, x, x, x

    def game(x: PageRankGame) -> tuple[can.Exact, Saddle, can.Certified]:
        return x, x, x

    def dual(x: PageRankDual) -> tuple[can.Exact, can.Smooth, can.Proximal, can.Certified]:
        return x, x, x, x

    def ranking_dual(x: RankingDual) -> tuple[can.Exact, HasPrimal, can.Certified]:
        return x, x, x

    def constrained(x: RateConstrained) -> tuple[can.Exact, Constrained, can.Certified]:
        return x, x, x

    def consensus(x: ConsensusRank) -> tuple[Flows, Multimodal, can.Exact, can.FixedPoint, can.Referenced]:
        return x, x, x, x, x

    def penalty(x: PenaltyRank) -> tuple[Multimodal, can.Referenced, can.Certified]:
        return x, x, x

    def trust(x: TrustPropagation) -> tuple[can.FixedPoint, can.Referenced, can.CertifiedInParts]:
        return x, x, x

    def norms(x: LpqRank) -> tuple[NormSweeps, can.Referenced, can.CertifiedInParts, can.Ordered]:
        return x, x, x, x
