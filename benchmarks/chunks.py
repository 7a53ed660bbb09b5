"""Rows out of memory against the same rows in memory: seconds, passes, and the memory that a solve takes."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from kinks import queries_of
from measure import fresh, interleaved, median, ratio
from report import Table, at_most, seconds_text
from scale_points import Point, Scaled

_SEED = 11
_ROWS = ((1_000_000, 20), (200_000, 100))
_QUERIES = 1_000
# From effort 2 on: 0.8 and 8 GB of disk, which are given back.
_LARGE = (10_000_000, 100_000_000)
_COLUMNS, _AT_ONCE = 20, 1_000_000


def chunks(effort: int) -> Scaled:
    """Time each job beside its peer in the same process; on demand, solve what fits no memory."""
    rows, targets, points = [], [], []
    jobs: list[tuple[str, str, dict[str, Any]]] = [
        (f"PNormPush, {_size(n, d)}", "pushed", {"rows": n, "columns": d}) for n, d in _ROWS
    ]
    jobs.append(
        (
            f"MarginRetargeting, {_size(120 * _QUERIES, 136)}",
            "retargeted",
            {"queries": _QUERIES},
        )
    )
    for name, job, arguments in jobs:
        found = fresh(f"chunks:{job}", **arguments, repeats=3 + effort).result
        against = ratio(found["pieces"], found["memory"])
        cells = (name, seconds_text(median(found["memory"])), seconds_text(median(found["pieces"])))
        rows.append((*cells, f"{against:.2f} ×", str(found["passes"]), f"{found['gap']:.0e}"))
        targets.append(at_most(f"{name}, in pieces against in memory", against, 1.3, " ×"))
        points.append(_point(name, found, min(found["pieces"])))
    note = (
        "Declared and solved by lbfgs to 1e-8 with a certificate; float32 in a file that the page cache holds, and "
        "float64 in memory. Passes: over the file, with the first look."
    )
    columns = ("rows", "in memory", "in pieces", "ratio", "passes", "gap")
    tables = [Table("Rows out of memory", columns, tuple(rows), note)]
    if effort > 1:
        table, more, large = _large()
        tables.append(table)
        targets += more
        points += large
    return Scaled(tuple(tables), tuple(targets), tuple(points))


def _size(rows: int, columns: int) -> str:
    return f"{rows:,} × {columns}".replace(",", " ")


def _point(name: str, found: dict[str, Any], seconds: float) -> Point:
    size, entries = float(found["disk"]), float(found["entries"])
    peak = float(found.get("peak", 0.0))
    return Point(
        name, "pieces", "entries", entries, found["passes"], size, seconds, peak, size, rows=found["rows"]
    )


def _rows(rows: int, columns: int, rng: Any) -> tuple[Any, Any]:
    """Rows in float32, of which one in six is positive."""
    import numpy as np

    X = rng.standard_normal(size=(rows, columns), dtype=np.float32)
    truth = np.random.default_rng(_SEED).normal(size=columns) / np.sqrt(columns)
    return X, X @ truth + rng.normal(size=rows) > 1.4


def pushed(rows: int, columns: int, repeats: int) -> dict[str, Any]:
    """Declare and solve a push in turns, from memory and from a file."""
    import numpy as np

    import convexrank as cr

    X, y = _rows(rows, columns, np.random.default_rng(_SEED + 1))
    options = {"p": 4, "l2": 1e-4}
    return _compared(
        X, (y,), lambda rows, *labels: cr.problems.PNormPush(rows, *labels, **options).solve("lbfgs"), repeats
    )


def retargeted(queries: int, repeats: int) -> dict[str, Any]:
    """The same for graded queries."""
    import numpy as np

    import convexrank as cr

    X, y, qid = queries_of(queries)
    return _compared(
        X.astype(np.float32),
        (y, qid),
        lambda rows, *labels: cr.problems.MarginRetargeting(rows, *labels, l2=1e-2).solve("lbfgs"),
        repeats,
    )


def _compared(X: Any, labels: tuple[Any, ...], solved: Any, repeats: int) -> dict[str, Any]:
    import numpy as np

    import convexrank as cr

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "X.npy"
        np.save(file, X)
        held = X.astype(np.float64)
        answers: dict[str, Any] = {}

        def pieces() -> None:
            made = cr.data.Chunks.from_arrays(np.load(file, mmap_mode="r"), *labels)
            answers["solution"], answers["chunks"] = solved(made, *labels), made

        times = interleaved({"memory": lambda: solved(held, *labels), "pieces": pieces}, repeats)
    solution = answers["solution"]
    gap = solution.gap / max(1.0, abs(solution.value))
    sizes = {"rows": len(X), "entries": X.size, "disk": X.nbytes}
    return {**times, **sizes, "passes": answers["chunks"].passes, "gap": gap}


# --- more than fits -------------------------------------------------------------------------------------------------


def _large() -> tuple[Table, list[Any], list[Point]]:
    rows, targets, points = [], [], []
    for n in _LARGE:
        found, name = fresh("chunks:large", rows=n).result, _size(n, _COLUMNS)
        cells = (name, f"{found['disk'] / 1e9:.1f} GB", f"{found['peak'] / 1e3:.2f} GB")
        seconds = (seconds_text(found["looked"]), seconds_text(found["solved"]))
        rows.append((*cells, *seconds, str(found["passes"]), f"{found['gap']:.0e}"))
        targets.append(at_most(f"PNormPush, {name}, memory", found["peak"] / 1e3, 3.0, " GB"))
        targets.append(at_most(f"PNormPush, {name}, certified gap", found["gap"], 1e-6))
        points.append(_point(f"PNormPush, {name}", found, found["looked"] + found["solved"]))
    note = (
        "PNormPush (p = 8, l2 = 1e-4) to 1e-6, float32 in one file, which is removed again. Memory: the peak of a "
        "fresh process, with the labels and all libraries."
    )
    columns = ("rows", "disk", "memory", "first look", "solve", "passes", "gap")
    return Table("More rows than memory", columns, tuple(rows), note), targets, points


def large(rows: int) -> dict[str, Any]:
    """Write rows to a file, solve a push from it, and remove it."""
    import numpy as np
    from measure import peak_megabytes

    import convexrank as cr

    with tempfile.TemporaryDirectory() as folder:
        file, y = Path(folder) / "X.npy", np.empty(rows, dtype=bool)
        rng = np.random.default_rng(_SEED + 1)
        with file.open("wb") as out:
            shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, _COLUMNS)}
            np.lib.format.write_array_header_1_0(out, shape)
            for start in range(0, rows, _AT_ONCE):
                X, labels = _rows(min(_AT_ONCE, rows - start), _COLUMNS, rng)
                out.write(X)
                y[start : start + len(X)] = labels
        del X
        disk, begun = file.stat().st_size, time.perf_counter()
        made = cr.data.Chunks.from_arrays(np.load(file, mmap_mode="r"), y)
        looked = time.perf_counter() - begun
        solution = cr.problems.PNormPush(made, made.y, p=8, l2=1e-4).solve(tol=1e-6)
        seconds = time.perf_counter() - begun - looked
    gap = solution.gap / max(1.0, abs(solution.value))
    sizes = {"rows": rows, "entries": rows * _COLUMNS, "disk": disk, "peak": peak_megabytes()}
    found = {**sizes, "looked": looked, "solved": seconds}
    return {**found, "passes": made.passes, "gap": gap}
