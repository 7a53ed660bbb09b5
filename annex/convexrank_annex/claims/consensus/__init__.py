"""Chapter 5: consensus ranking."""

from __future__ import annotations

from convexrank_annex.claims.consensus import game, penalty, play, proximity, set_methods, sets, weights

__all__ = ["CLAIMS"]

CLAIMS = (
    *weights.CLAIMS,
    *penalty.CLAIMS,
    *proximity.CLAIMS,
    *game.CLAIMS,
    *play.CLAIMS,
    *sets.CLAIMS,
    *set_methods.CLAIMS,
)
