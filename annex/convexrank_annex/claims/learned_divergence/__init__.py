"""Chapter 4: learned divergences."""

from __future__ import annotations

from convexrank_annex.claims.learned_divergence import descent, estimation, gradient, pooling, representation

__all__ = ["CLAIMS"]

CLAIMS = (*gradient.CLAIMS, *pooling.CLAIMS, *descent.CLAIMS, *representation.CLAIMS, *estimation.CLAIMS)
