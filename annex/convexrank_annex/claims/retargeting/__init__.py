"""Chapter 3: monotone retargeting."""

from __future__ import annotations

from convexrank_annex.claims.retargeting import alternation, joint_convexity, margins, means, targets

__all__ = ["CLAIMS"]

CLAIMS = (*targets.CLAIMS, *alternation.CLAIMS, *joint_convexity.CLAIMS, *margins.CLAIMS, *means.CLAIMS)
