"""Chapter 5: consensus ranking."""

from __future__ import annotations

from convexrank.claims.consensus import game, penalty, play, set_methods, sets, weights

__all__ = ["CLAIMS"]

CLAIMS = (*weights.CLAIMS, *penalty.CLAIMS, *game.CLAIMS, *play.CLAIMS, *sets.CLAIMS, *set_methods.CLAIMS)
