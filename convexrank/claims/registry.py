"""All claims, by identifier."""

from __future__ import annotations

from convexrank.claims import consensus, learned_divergence, retargeting, trust
from convexrank.claims.claim import Claim

# Folders with a tuple CLAIMS, one for each chapter. A new chapter is one folder and one name here.
_CHAPTERS = (retargeting, learned_divergence, consensus, trust)

REGISTRY: dict[str, Claim] = {entry.identifier: entry for chapter in _CHAPTERS for entry in chapter.CLAIMS}
