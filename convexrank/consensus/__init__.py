"""Graphs with uncertain edges: sets of recommendations, intervals of ranks, and the published methods.

Every node has a set of distributions over the nodes instead of a single one: mixtures of candidates
(:class:`CandidateSets`), linear constraints (:class:`Polytopes`), or an order (:class:`PartialOrders`).
:class:`~convexrank.problems.ConsensusRank` ranks the nodes, :func:`score_intervals` bounds every score, and
:func:`brew` and :func:`blend` are the published heuristics.
"""

from __future__ import annotations

from convexrank.consensus.candidates import CandidateSets, RecommendationSets
from convexrank.consensus.heuristics import PublishedRank, blend, brew
from convexrank.consensus.intervals import ScoreIntervals, score_intervals
from convexrank.consensus.polytopes import PartialOrders, Polytopes

__all__ = [
    "CandidateSets",
    "PartialOrders",
    "Polytopes",
    "PublishedRank",
    "RecommendationSets",
    "ScoreIntervals",
    "blend",
    "brew",
    "score_intervals",
]
