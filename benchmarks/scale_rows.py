"""Rows over processes: two against one, the collective by itself, and a model of both, checked and carried further."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from measure import fresh_together, median
from report import Table, Target, seconds_text
from scale_points import Point, Scaled

__all__ = ["rank", "scale_rows"]

_SEED = 17
_ROWS, _COLUMNS = 1_000_000, 20
# Columns of as many rows whose solve takes about a second.
_MORE_COLUMNS = 200
# Rows drawn at a time.
_DRAWN = 1 << 16
# Numbers in a collective whose time is latency, and in one whose time is bandwidth.
_FEW, _MANY = 32, 2_000_000
_HOSTS = 16


def scale_rows(effort: int) -> Scaled:
    """Time evaluations and solves over one process and more, one core each; fit a model, and look at its errors."""
    cores = _cores()
    counts = [1, 2] + ([cores] if cores > 2 else [])
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for _ in range(2 + 2 * effort):  # in turns, so that a slow spell of the machine hits all alike
        for count in counts:
            for rows in {_ROWS, _ROWS * count}:
                found.setdefault((count, rows), []).append(_run(count, rows))
    one, two = found[1, _ROWS], found[2, _ROWS]
    speed = {name: _ratio(one, two, name) for name in ("evaluation", "solve")}
    weak = {count: _ratio(one, found[count, _ROWS * count], "evaluation") for count in counts[1:]}
    table = _measured(found)
    model, error = _model(found)
    targets = [
        _at_least("2 processes against 1, one core each, evaluation", speed["evaluation"], 1.7, " ×"),
        _at_least("2 processes against 1, one core each, solve", speed["solve"], 1.7, " ×"),
        _second_of_work(effort),
        *[
            _at_least(f"weak scaling to {count} cores", 100.0 * share, 80.0, " %")
            for count, share in weak.items()
        ],
        Target(
            "model of an evaluation against the measured points, worst",
            "≤ 20 %",
            f"{100 * error:.0f} %",
            error <= 0.2,
        ),
    ]
    return Scaled((table, model), tuple(targets), tuple(_point(*run) for run in sorted(found.items())))


def _second_of_work(effort: int) -> Target:
    """Solve what takes one process a second or two, by one and by two in turns."""
    found: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    for _ in range(1 + effort):
        for count, runs in found.items():
            runs.append(_run(count, _ROWS, _MORE_COLUMNS))
    clock, busy = (_ratio(found[1], found[2], name) for name in ("solve", "busy"))
    name = f"2 processes against 1, one core each, {_MORE_COLUMNS} columns, solve"
    text = f"{clock:.2f} × by the clock, {busy:.2f} × by the processor"
    return Target(name, "≥ 1.6 ×", text, clock >= 1.6)


def _point(key: tuple[int, int], runs: list[dict[str, Any]]) -> Point:
    (count, rows), entries = key, float(key[1] * _COLUMNS)
    name, seconds = (
        f"PNormPush {rows:,} × {_COLUMNS}: an evaluation".replace(",", " "),
        _of(runs, "evaluation"),
    )
    where = "memory" if count == 1 else "processes"
    return Point(
        name, where, "entries", entries, 1.0, 4.0 * entries, seconds, processes=count, rows=float(rows)
    )


def _measured(found: dict[tuple[int, int], list[dict[str, Any]]]) -> Table:
    rows = []
    for (count, size), runs in sorted(found.items()):
        times = [seconds_text(_of(runs, name)) for name in ("evaluation", "processor", "solve")]
        collective = [seconds_text(_of(runs, name)) if count > 1 else "-" for name in ("few", "many")]
        against = _ratio(found[1, _ROWS], runs, "evaluation") * size / _ROWS
        cells = (f"{size:,}".replace(",", " "), *times, f"{against:.2f} ×", *collective)
        rows.append((str(count), *cells))
    note = (
        f"PNormPush (p = 8, l2 = 1e-4) on {_COLUMNS} columns in float32 in memory, by lbfgs to 1e-8; each process on a "
        "core of its own, with one thread; processor time shows how busy the machine was beside. Rows per second "
        "against one process. Medians of "
        f"{len(found[1, _ROWS])} runs in turns. Collectives gather so many numbers of each rank."
    )
    columns = (
        "processes",
        "rows",
        "evaluation",
        "of it processor",
        "solve",
        "rows/s",
        f"{_FEW} numbers",
        "2·10⁶ numbers",
    )
    return Table("Rows over processes, measured", columns, tuple(rows), note)


def _model(found: dict[tuple[int, int], list[dict[str, Any]]]) -> tuple[Table, float]:
    """Seconds of an evaluation: so much for a row of the largest shard, and for each other rank latency and bytes."""
    one, two = found[1, _ROWS], found[2, _ROWS]
    row = _of(one, "evaluation") / _ROWS
    latency = _of(two, "few")
    width = (_of(two, "many") - latency) / _MANY
    numbers = _of(two, "numbers")

    def predicted(count: int, size: int) -> float:
        return row * size / count + (count - 1) * (latency + width * numbers)

    rows, worst = [], 0.0
    for (count, size), runs in sorted(found.items()):
        seconds, truth = predicted(count, size), _of(runs, "evaluation")
        worst = max(worst, abs(seconds / truth - 1.0)) if count > 1 else worst
        rows.append(
            _line(count, size, seconds, f"{seconds_text(truth)} ({100 * (seconds / truth - 1):+.0f} %)")
        )
    for size in (_ROWS * _HOSTS, 1_000_000_000):
        rows.append(_line(_HOSTS, size, predicted(_HOSTS, size), "EXTRAPOLATED, not measured"))
    note = (
        f"An evaluation takes {row * 1e9:.0f} ns for a row of a rank, and for each other rank {latency * 1e3:.2f} ms "
        f"and {width * 1e9:.1f} ns a number, of {numbers:.0f}: compute from one process, the collective by itself from "
        "two. The sockets of one machine stand for a network here; over a real one put its latency and bandwidth in "
        "their place."
    )
    return Table(
        "A model of it, and what it says of 16 hosts",
        ("processes", "rows", "model", "measured"),
        tuple(rows),
        note,
    ), worst


def _line(count: int, size: int, seconds: float, measured: str) -> tuple[str, ...]:
    return str(count), f"{size:,}".replace(",", " "), seconds_text(seconds), measured


def _of(runs: list[dict[str, Any]], name: str) -> float:
    return median([run[name] for run in runs])


def _ratio(base: list[dict[str, Any]], runs: list[dict[str, Any]], name: str) -> float:
    return median([a[name] / b[name] for a, b in zip(base, runs, strict=True)])


def _at_least(what: str, measured: float, limit: float, unit: str) -> Target:
    return Target(what, f"≥ {limit:g}{unit}", f"{measured:.2f}{unit}", measured >= limit)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- the processes ----------------------------------------------------------------------------------------------------


def _run(count: int, rows: int, columns: int = _COLUMNS) -> dict[str, Any]:
    """Start so many processes, and return the slowest times."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    all_ranks = {"count": count, "port": port, "rows": rows, "columns": columns}
    given = [{"number": number, **all_ranks} for number in range(count)]
    found = [outcome.result for outcome in fresh_together("scale_rows:rank", given)]
    return {name: max(one[name] for one in found) for name in found[0]}


def rank(number: int, count: int, port: int, rows: int, columns: int, repeats: int = 15) -> dict[str, Any]:
    """Be one rank: evaluate, solve, and gather by itself."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
    import numpy as np

    if count > 1:
        import jax

        address = f"127.0.0.1:{port}"
        jax.distributed.initialize(address, count, number, cluster_detection_method="deactivate")
    import convexrank as cr

    X, y = _rows(rows * number // count, rows * (number + 1) // count, columns)
    shards = cr.data.Shards(X, y, timeout=60.0)
    problem = cr.problems.PNormPush(shards, shards.y, p=8, l2=1e-4)
    points = 0.1 * np.random.default_rng(_SEED).normal(size=(repeats + 2, columns))
    found = dict(zip(("evaluation", "processor"), _medians(problem.value_and_gradient, points), strict=True))
    start, used = time.perf_counter(), time.process_time()
    solution = problem.solve("lbfgs")
    found |= {"solve": time.perf_counter() - start, "busy": time.process_time() - used}
    found |= {"steps": solution.iterations, "gap": solution.gap}
    stream = problem._stream
    found["numbers"] = 5.0 + stream.count(False) * (5 + columns) if stream is not None else 0.0
    for name, size in (("few", _FEW), ("many", _MANY)):
        vector = np.zeros(size)
        found[name] = _medians(lambda _, v=vector: shards.allgather(lambda: v, len(v), b""), points)[0]
    return found


def _rows(first: int, last: int, columns: int) -> tuple[Any, Any]:
    """Draw some of all rows: the same ones whatever the number of processes is."""
    import numpy as np

    parts = []
    for start in range(first // _DRAWN * _DRAWN, last, _DRAWN):
        rng = np.random.default_rng([_SEED, start])
        X = rng.standard_normal(size=(_DRAWN, columns), dtype=np.float32)
        y = X[:, :5].sum(axis=1) + 2.0 * rng.normal(size=_DRAWN) > 4.0
        mine = slice(max(first - start, 0), last - start)
        parts.append((X[mine], y[mine]))
    X, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return X, y


def _medians(call: Any, points: Any) -> tuple[float, float]:
    """The median time of a call, and of the processor's in it, after two that are not counted."""
    times, busy = [], []
    for point in points:
        start, used = time.perf_counter(), time.process_time()
        call(point)
        times.append(time.perf_counter() - start)
        busy.append(time.process_time() - used)
    return median(times[2:]), median(busy[2:])
