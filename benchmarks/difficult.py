"""Real rows made difficult: sizes of columns, empty columns, repeated rows, ties, and a class of five rows."""

from __future__ import annotations

import time
import warnings
from typing import Any

from instances import data_name, magic
from measure import fresh, median
from report import Section, Table, Target, seconds_text

_SEED = 19
# Times the plain rows' seconds, for as many numbers in X, that difficult ones may take.
_IN_PROPORTION = 3.0
_FEW, _ROWS, _COLUMNS = 5, 100_000, 50
_PATIENCE = 60.0
# By name: the formulation, its arguments, and the tolerance.
_PROBLEMS: dict[str, tuple[str, dict[str, Any], float]] = {
    "PNormPush p = 4": ("PNormPush", {"p": 4, "l2": 1e-4}, 1e-8),
    "PNormPush p = 64": ("PNormPush", {"p": 64, "l2": 1e-4}, 1e-8),
    "PNormPush p = 4, l1": ("PNormPush", {"p": 4, "l1": 1e-2}, 1e-6),
    "TopPush": ("TopPush", {"l2": 1e-3}, 1e-4),
    "RankSVM": ("RankSVM", {"l2": 1e-2}, 1e-4),
}


def difficult(effort: int) -> Section:
    """Time each formulation on each table beside the plain one, and a rare class beside single methods."""
    rows = []
    worst: dict[str, tuple[float, str]] = {}
    failed: list[str] = []
    for name in _PROBLEMS:
        found = fresh("difficult:tables", name=name, repeats=1 + effort).result
        for table, seconds, share, gap, status in found:
            rows.append((name, table, seconds_text(seconds), f"{share:.2f}", f"{gap:.0e}", status))
            worst[table] = max(worst.get(table, (0.0, "")), (share, name))
            failed += [table] if status != "CONVERGED" else []
    note = (
        f"{data_name()}: declared and solved by default to 1e-8 (l1: 1e-6; TopPush and RankSVM: 1e-4; RankSVM: a third "
        "of the rows), seconds of the processor. Ratio: over the plain rows' time, divided by the ratio of the numbers "
        "in X. Sizes: columns times 10^-3 to 10^3. Ties: three levels in each column."
    )
    columns = ("problem", "rows", "seconds", "ratio", "gap", "status")
    targets = [
        Target(
            f"{table}, worst of {len(_PROBLEMS)} problems: time over the plain rows', for as many numbers",
            f"≤ {_IN_PROPORTION:g}",
            f"{share:.2f}, {name}" + (", not converged" if table in failed else ""),
            share <= _IN_PROPORTION and table not in failed,
        )
        for table, (share, name) in list(worst.items())[1:]
    ]
    rare, more = _rare(effort)
    return Section((Table("Difficult rows", columns, tuple(rows), note), rare), (*targets, *more))


def _rare(effort: int) -> tuple[Table, list[Target]]:
    found = fresh("difficult:rare", repeats=1 + effort).result
    rows = [
        (name, solver, seconds_text(seconds), f"{gap:.0e}", status)
        for name, solver, seconds, gap, status in found
    ]
    seconds = {name: seconds for name, _, seconds, _, status in found if status == "CONVERGED"}
    ours = seconds.pop("by default", float("inf"))
    against = ours / min(seconds.values(), default=float("nan"))
    note = (
        f"PNormPush, p = 4, l2 = 1e-4, drawn: {_FEW} positives among {_ROWS:,} rows of {_COLUMNS} columns, to 1e-8; "
        "seconds of the processor."
    ).replace(",0", " 0")
    target = Target(
        f"{_FEW} positives among 10⁵ rows: time over the best single method's",
        "≤ 1.5",
        f"{against:.2f}",
        against <= 1.5,
    )
    return Table(
        "A class of five rows", ("method", "solver", "seconds", "gap", "status"), tuple(rows), note
    ), [target]


def tables(name: str, repeats: int) -> list[tuple[str, float, float, float, str]]:
    """Return for each table: its name, seconds, these over the plain table's for as many numbers, gap and status."""
    kind, arguments, tol = _PROBLEMS[name]
    found: list[tuple[str, float, float, float, str]] = []
    plain = 0.0
    for table, (X, y) in _made(3 if kind == "RankSVM" else 1).items():
        _, seconds, gap, status = _timed(kind, (X, y), arguments, tol, None, repeats)
        plain = plain or seconds / X.size
        found.append((table, seconds, seconds / X.size / plain, gap, status))
    return found


def _made(step: int) -> dict[str, tuple[Any, Any]]:
    """Tables by name, of every row or every few; the first one is the plain one."""
    import numpy as np

    X, y = (part[::step] for part in magic())
    sizes = np.logspace(-3.0, 3.0, X.shape[1])
    levels = np.digitize(X, [-0.5, 0.5]).astype(float) - 1.0
    return {
        "plain": (X, y),
        "columns of different sizes": (X * sizes, y),
        "as many empty columns": (np.c_[X, np.zeros_like(X)], y),
        "columns twice": (np.c_[X, X], y),
        "rows twice": (np.r_[X, X], np.r_[y, y]),
        "ties everywhere": (levels, y),
    }


def rare(repeats: int) -> list[tuple[str, str, float, float, str]]:
    """Solve by default and by single methods: method, solver, seconds, gap and status of each."""
    import numpy as np

    rng = np.random.default_rng(_SEED)
    X = rng.normal(size=(_ROWS, _COLUMNS))
    scores = X @ rng.normal(size=_COLUMNS) + 5.0 * rng.normal(size=_ROWS)
    y = np.zeros(_ROWS, dtype=int)
    y[np.argsort(scores)[-_FEW:]] = 1
    methods = {"by default": None, "lbfgs": "lbfgs", "newton": "newton"}
    arguments = {"p": 4, "l2": 1e-4}
    return [
        (name, *_timed("PNormPush", (X, y), arguments, 1e-8, solver, repeats))
        for name, solver in methods.items()
    ]


def _timed(
    kind: str, rows: tuple[Any, Any], arguments: dict[str, Any], tol: float, solver: str | None, repeats: int
) -> tuple[str, float, float, str]:
    """Declare and solve, once more than is counted: solver, median seconds, relative gap and status."""
    import convexrank as cr

    seconds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)  # the status is in the table
        for _ in range(1 + repeats):
            start = time.process_time()
            found = getattr(cr.problems, kind)(*rows, **arguments).solve(
                solver, tol=tol, time_limit=_PATIENCE
            )
            seconds.append(time.process_time() - start)
    return found.solver, median(seconds[1:]), found.gap / max(1.0, abs(found.value)), found.status.name
