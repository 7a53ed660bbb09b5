"""Claims of the sources, executable: each is stated, computed, and judged by its numbers."""

from __future__ import annotations

from convexrank.claims import consensus, learned_divergence, retargeting, trust
from convexrank.claims.claim import (
    Claim,
    Comparison,
    Finding,
    Verdict,
    at_least,
    at_most,
    claim,
    equal,
    judge,
)
from convexrank.claims.report import ClaimsReport, check

__all__ = [
    "REGISTRY",
    "Claim",
    "ClaimsReport",
    "Comparison",
    "Finding",
    "Verdict",
    "at_least",
    "at_most",
    "check",
    "claim",
    "equal",
    "judge",
]

# Folders with a tuple CLAIMS, one a chapter. A new chapter is one folder and one name here.
_CHAPTERS = (retargeting, learned_divergence, consensus, trust)

REGISTRY: dict[str, Claim] = {entry.identifier: entry for chapter in _CHAPTERS for entry in chapter.CLAIMS}
