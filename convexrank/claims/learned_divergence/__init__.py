"""Chapter 4: learned divergences."""

from __future__ import annotations

from convexrank.claims.learned_divergence import descent, gradient, pooling

__all__ = ["CLAIMS"]

CLAIMS = (*gradient.CLAIMS, *pooling.CLAIMS, *descent.CLAIMS)
