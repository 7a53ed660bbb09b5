"""Boosting with threshold rankers: seconds and memory."""

from __future__ import annotations

import time
import warnings
from typing import Any

from instances import data_name
from measure import fresh, median
from report import Section, Table, at_most, bytes_text, seconds_text

POWERS = (1, 4, 16, 64)
ROUNDS = 200
RANKERS = 160


def boosting(effort: int) -> Section:
    """Time 200 rounds for several p, each in a process of its own for the sake of its peak memory."""
    rows, slowest, largest = [], 0.0, 0.0
    for p in POWERS:
        outcome = fresh("boosting:rounds", p=p, repeats=1 + effort)
        found = outcome.result
        seconds = median(found["seconds"])
        slowest, largest = max(slowest, seconds), max(largest, outcome.peak_megabytes)
        cells = (f"p = {p}", str(found["rankers"]), str(found["rounds"]), seconds_text(found["features"]))
        rows.append(
            (*cells, seconds_text(seconds), bytes_text(outcome.peak_megabytes), f"{found['value']:.6f}")
        )
    note = (
        f"Data: {data_name()}, no penalty. Rankers: x > threshold at 16 quantiles of each feature. Seconds include "
        "what follows the last round (certificate, search for a separating direction). Peak memory is that of the "
        "whole process, imports included."
    )
    columns = ("push", "rankers", "rounds", "making rankers", "boosting", "peak memory", "objective")
    targets = (
        at_most(f"boosting, {ROUNDS} rounds, {RANKERS} rankers, worst p", slowest, 5.0, " s"),
        at_most("its peak memory", largest / 1000.0, 1.5, " GB"),
    )
    return Section((Table("Boosting", columns, tuple(rows), note),), targets)


def rounds(p: float, repeats: int) -> dict[str, Any]:
    """Boost on the threshold rankers."""
    from instances import magic

    import convexrank as cr
    from convexrank.features import threshold_rankers

    X, y = magic()
    start = time.perf_counter()
    H = threshold_rankers(X, RANKERS // X.shape[1])
    features = time.perf_counter() - start
    seconds = []
    with warnings.catch_warnings():
        # a fixed number of rounds is what is asked for
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        for _ in range(repeats):
            start = time.perf_counter()
            solution = cr.problems.PNormPush(H, y, p=p).solve("boosting", max_iter=ROUNDS)
            seconds.append(time.perf_counter() - start)
    return {
        "seconds": seconds,
        "features": features,
        "rankers": H.shape[1],
        "rounds": solution.iterations,
        "value": solution.value,
    }
