"""All claims, by identifier."""

from __future__ import annotations

from convexrank_annex.claims import (
    background,
    consensus,
    learned_divergence,
    p_norm_push,
    partial_auc,
    retargeting,
    trust,
    u_statistics,
)
from convexrank_annex.claims.claim import Claim
from convexrank_annex.claims.sources import SOURCES

# Folders with a tuple CLAIMS. A new source or chapter is one folder and one name here.
_FOLDERS = (
    background,
    retargeting,
    learned_divergence,
    consensus,
    trust,
    p_norm_push,
    u_statistics,
    partial_auc,
)


def _place(entry: Claim) -> tuple[int, int]:
    return list(SOURCES).index(entry.source), entry.chapter


# Source by source, and of each chapter by chapter.
REGISTRY: dict[str, Claim] = {
    entry.identifier: entry
    for entry in sorted((entry for folder in _FOLDERS for entry in folder.CLAIMS), key=_place)
}
