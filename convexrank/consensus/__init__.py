"""Graphs with uncertain edges: what every node may recommend, how far ranks can vary, and the published methods.

Every node has a set of distributions over the nodes in place of one: candidates of which it may mix
(:class:`CandidateSets`), linear constraints (:class:`Polytopes`), or an order (:class:`PartialOrders`).
:class:`~convexrank.problems.ConsensusRank` ranks the nodes, :func:`score_intervals` bounds every score, and
:func:`brew` and :func:`blend` are the published heuristics.
"""

from __future__ import annotations

from convexrank.consensus.base import RecommendationSets
from convexrank.consensus.candidates import CandidateSets
from convexrank.consensus.intervals import ScoreIntervals, score_intervals
from convexrank.consensus.orders import PartialOrders
from convexrank.consensus.polytopes import Polytopes
from convexrank.consensus.published import PublishedRank, blend, brew

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
