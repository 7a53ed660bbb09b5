"""The cost of imports, and of the first small solve."""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

from measure import interleaved_fresh, median
from report import Section, Table, at_most, seconds_text

_FIRST: dict[str, tuple[str, dict[str, Any]]] = {
    "PNormPush, p = 4": ("PNormPush", {"p": 4, "l2": 1e-2}),
    "IRPush": ("IRPush", {"l2": 1e-2}),
    "TopPush": ("TopPush", {"l2": 1e-2}),
    "Push, squared hinge": ("Push", {"price": 2, "loss": "squared_hinge", "l2": 1.0}),
    "Push, logistic": ("Push", {"price": 2, "loss": "logistic", "l2": 1.0}),
    "ConvexRisk, exponential": ("ConvexRisk", {"cost": "exponential", "l2": 1e-2}),
    "ConvexRisk, hinge": ("ConvexRisk", {"cost": "hinge", "l2": 1e-2}),
    "PNormPush with l1": ("PNormPush", {"p": 4, "l1": 1e-2}),
}
_MAIN = "PNormPush, p = 4"


def startup(effort: int) -> Section:
    """Time imports and first solves, each in fresh processes, in turns."""
    repeats = 1 + 4 * effort
    jobs = {name: ("startup:imported", {"modules": modules}) for name, modules in _IMPORTS.items()}
    imports = interleaved_fresh(jobs, repeats)
    base = imports["numpy"]
    imported = tuple(
        (
            name,
            seconds_text(median(times)),
            f"{median(a - b for a, b in zip(times, base, strict=True)):+.3f} s",
        )
        for name, times in imports.items()
    )
    extra = median(a - b for a, b in zip(imports["convexrank"], base, strict=True))
    rounds = 1 + 2 * effort
    firsts = interleaved_fresh({name: ("startup:first_solve", {"name": name}) for name in _FIRST}, rounds)
    later = _later_processes(rounds)
    rows = []
    for name, found in firsts.items():
        times = (
            *(median(f[key] for f in found) for key in ("first", "second", "larger")),
            *(median(f[key] for f in later[name]) for key in ("first", "larger")),
        )
        rows.append((name, *map(seconds_text, times), found[0]["status"]))
    main = median(f["first"] for f in firsts[_MAIN])
    worst = max(median(f["first"] for f in found) for found in firsts.values())
    loaded, larger = (
        max(median(f[key] for f in found) for found in later.values()) for key in ("first", "larger")
    )
    columns = (
        "first solve",
        "after import convexrank",
        "the same problem again",
        "600 rows",
        "in a second process",
        "600 rows there",
        "status",
    )
    note = (
        "60 rows, 4 features, one fresh process a time. First: everything between the import of convexrank and the "
        "certified solution (importing JAX, compiling, for the hinge cost numba as well; both caches are empty). 600 "
        "rows: what their first solve takes longer than their second, in the same process. A second process finds "
        "what another one compiled."
    )
    targets = (
        at_most("import convexrank, over numpy's own import", extra, 0.4, " s"),
        at_most(f"first small solve, {_MAIN}", main, 2.0, " s", aim=1.0),
        at_most("first small solve, slowest of the table", worst, 2.0, " s", aim=1.0),
        at_most("the same in a second process", loaded, 1.0, " s"),
        at_most("a new size class in a second process, slowest of the table", larger, 0.3, " s"),
    )
    tables = (
        Table(
            "Imports", ("import", "seconds", "over numpy"), imported, "One fresh process a time, in turns."
        ),
        Table("The first solve", columns, tuple(rows), note),
    )
    return Section(tables, targets)


_IMPORTS: dict[str, list[str]] = {
    "numpy": ["numpy"],
    "convexrank": ["numpy", "convexrank"],
    "convexrank.problems": ["numpy", "convexrank.problems"],
    "convexrank.solvers": ["numpy", "convexrank.solvers"],
    "jax": ["numpy", "jax"],
    "sklearn.linear_model": ["numpy", "sklearn.linear_model"],
}


def imported(modules: list[str]) -> float:
    """Seconds to import modules one after another."""
    from importlib import import_module

    start = time.perf_counter()
    for module in modules:
        import_module(module)
    return time.perf_counter() - start


def _later_processes(rounds: int) -> dict[str, list[dict[str, Any]]]:
    """First solves of processes that find what others compiled."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = {name: ("startup:first_solve", {"name": name, "folder": folder}) for name in _FIRST}
        interleaved_fresh(jobs, 1)
        return interleaved_fresh(jobs, rounds)


def first_solve(name: str, folder: str | None = None) -> dict[str, Any]:
    """Solve small problems twice in a process that has imported nothing but numpy and convexrank.

    What is compiled is kept in the folder; without one nothing helps that an earlier run compiled.
    """
    kind, arguments = _FIRST[name]
    with tempfile.TemporaryDirectory() as empty:
        os.environ["NUMBA_CACHE_DIR"] = os.environ["CONVEXRANK_CACHE_DIR"] = folder or empty
        import numpy as np

        import convexrank as cr

        seconds = []
        for rows in (60, 600):
            rng = np.random.default_rng(0)
            X = rng.normal(size=(rows, 4))
            y = (X[:, 0] + rng.normal(size=rows) > 0).astype(int)
            for _ in range(2):
                start = time.perf_counter()
                solution = getattr(cr.problems, kind)(X, y, **arguments).solve()
                seconds.append(time.perf_counter() - start)
    larger = max(seconds[2] - seconds[3], 0.0)
    return {"first": seconds[0], "second": seconds[1], "larger": larger, "status": solution.status.name}
