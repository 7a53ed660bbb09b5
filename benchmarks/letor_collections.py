"""The query data of the benchmarks: MQ2008 and OHSUMED, where their files are. They must not be redistributed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instances import data_file

__all__ = ["COLLECTIONS", "folds_of", "missing"]

# name → folder, and what has to be said of it
COLLECTIONS: dict[str, tuple[str, str]] = {
    "MQ2008": (
        "mq2008",
        "LETOR 4.0, 46 features scaled by query as published; 784 queries, 564 with a relevant document.",
    ),
    "OHSUMED": (
        "ohsumed_letor2",
        "LETOR 2.0, 25 features, 106 queries. The dissertation used other features (LETOR 3.0, 45 of them, scaled by "
        "query): its numbers stand beside ours for orientation and are not comparable. The raw features are scaled to "
        "0..1 within each query here.",
    ),
}


def _folder(name: str) -> Path:
    return data_file(COLLECTIONS[name][0])


def missing(name: str) -> str:
    """Say why a collection cannot be used; empty when it can."""
    if _folder(name).is_dir():
        return ""
    return f"skipped: no folder {COLLECTIONS[name][0]} in ../shared/data beside the checkout, nor in $CONVEXRANK_DATA"


def folds_of(name: str) -> list[tuple[Any, Any, Any]]:
    """Read the five folds: training, validation and test data of each, query groups made once."""
    import convexrank as cr

    ready: dict[int, Any] = {}
    for fold in (folds := cr.data.letor_folds(_folder(name))):
        for part in (fold.train, fold.validation, fold.test):
            if id(part) not in ready:  # folds share their parts
                ready[id(part)] = part if name == "MQ2008" else _scaled_by_query(part)
    return [tuple(ready[id(part)] for part in (fold.train, fold.validation, fold.test)) for fold in folds]


def _scaled_by_query(data: Any) -> Any:
    """Take each feature to 0..1 within each query; one that is constant there becomes 0."""
    import numpy as np

    import convexrank as cr

    groups = data.groups
    X = groups.gather(data.X)
    low, high = groups.minima(X), groups.maxima(X)
    width = np.where(high > low, high - low, 1.0)
    scaled = groups.spread((X - low[groups.query]) / width[groups.query])
    return cr.data.LetorData(scaled, data.y, data.qid, data.comments)
