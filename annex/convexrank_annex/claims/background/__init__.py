"""Chapter 2: Bregman divergences."""

from __future__ import annotations

from convexrank_annex.claims.background import projections

__all__ = ["CLAIMS"]

CLAIMS = projections.CLAIMS
