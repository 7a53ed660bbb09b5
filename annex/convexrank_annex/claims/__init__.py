"""Claims of the sources, executable: each is stated and compared with computed numbers."""

from __future__ import annotations

from convexrank_annex.claims.claim import (
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
from convexrank_annex.claims.registry import REGISTRY
from convexrank_annex.claims.report import ClaimsReport, check
from convexrank_annex.claims.sources import SOURCES, Source

__all__ = [
    "REGISTRY",
    "SOURCES",
    "Claim",
    "ClaimsReport",
    "Comparison",
    "Finding",
    "Source",
    "Verdict",
    "at_least",
    "at_most",
    "check",
    "claim",
    "equal",
    "judge",
]
