"""Sharp bounds that hold for every sample size: by betting, and over all pairings of two classes."""

from __future__ import annotations
