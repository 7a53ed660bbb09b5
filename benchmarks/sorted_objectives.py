"""Objectives of the highest negatives beside the P-Norm Push on the same rows, to the same certified gap."""

from __future__ import annotations

import time
from typing import Any

from instances import data_name
from measure import fresh
from report import Section, Table, at_most, seconds_text

_SEED, _L2, _BASE, _MOST = 31, 1e-3, "PNormPush, p = 4", 2.0
# Name: formulation and its arguments.
_PROBLEMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    _BASE: ("PNormPush", (4,)),
    "TopPush": ("TopPush", ()),
    "RmaxPush, hinge": ("RmaxPush", ("hinge",)),
    "SpectralPush, highest 5 %, hinge": ("SpectralPush", (("top", 0.05), "hinge")),
    "SpectralPush, highest 5 %, logistic": ("SpectralPush", (("top", 0.05), "logistic")),
    "SpectralPush, highest 100, hinge": ("SpectralPush", (("top", 100), "hinge")),
    "PartialAUC, 5 %, squared hinge": ("PartialAUC", (0.05, "squared_hinge")),
    "PartialAUC, 5 %, hinge": ("PartialAUC", (0.05, "hinge")),
}


def sorted_objectives(effort: int) -> Section:
    """Time each beside the P-Norm Push, in turns."""
    rows, targets = [], []
    for data in (0, 300_000, 1_000_000):
        name = f"generated, {data:,} × 20".replace(",", " ") if data else data_name()
        found = fresh("sorted_objectives:measured", rows=data, repeats=1 + effort).result
        base = min(found[_BASE]["seconds"])
        for what, one in found.items():
            seconds = min(one["seconds"])
            gap = one["gap"] / max(1.0, abs(one["value"]))
            cells = (what, name, one["solver"], seconds_text(seconds), f"{seconds / base:.1f}")
            rows.append((*cells, str(one["iterations"]), f"{one['value']:.7g}", f"{gap:.0e}"))
            if what != _BASE:
                targets.append(at_most(f"{what}, {name}: time over PNormPush's", seconds / base, _MOST))
    note = (
        f"l2 = {_L2:g}, to a certified gap of 1e-8. Seconds of the processor, one thread, the least of {1 + effort} "
        "solves, each declared anew; all of them in turns in one process, after one solve that is not counted. "
        "Generated rows: a tenth are positives, the highest of a linear score with noise."
    )
    columns = ("problem", "rows", "solver", "solve", "ratio", "steps", "value", "gap")
    return Section((Table("The highest negatives of many rows", columns, tuple(rows), note),), tuple(targets))


def measured(rows: int, repeats: int) -> dict[str, Any]:
    """Solve each in turns."""
    import warnings

    from instances import magic

    import convexrank as cr

    X, y = _generated(rows) if rows else magic()
    found: dict[str, dict[str, Any]] = {name: {"seconds": []} for name in _PROBLEMS}
    warnings.simplefilter("ignore", cr.ConvergenceWarning)  # of some w = 0 is the minimum
    for turn in range(1 + repeats):
        for name, (kind, arguments) in _PROBLEMS.items():
            start = time.process_time()
            solution = getattr(cr.problems, kind)(X, y, *arguments, l2=_L2).solve()
            if turn:
                found[name]["seconds"].append(time.process_time() - start)
            kept = ("solver", "iterations", "value", "gap")
            found[name] |= {key: getattr(solution, key) for key in kept}
    return found


def _generated(rows: int) -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(_SEED)
    X = rng.normal(size=(rows, 20))
    signal = X @ rng.normal(size=20) / np.sqrt(20.0) + 0.3 * rng.normal(size=rows)
    return X, (signal > np.quantile(signal, 0.9)).astype(int)
