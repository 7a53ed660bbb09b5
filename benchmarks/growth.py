"""How time and memory grow with rows, columns, non-zeros and edges: three sizes of each, and the power."""

from __future__ import annotations

import math
import time
from typing import Any

from measure import fresh, median, peak_megabytes
from report import Section, Table, at_most, seconds_text

_SEED = 13
# What grows, the sizes, and the job; the middle size is their geometric mean.
_KINDS: dict[str, tuple[str, tuple[int, ...]]] = {
    "rows n of dense X, d = 20": ("rows", (10_000, 100_000, 1_000_000)),
    "columns d of dense X, n = 20 000": ("columns", (16, 64, 256)),
    "non-zeros of sparse X, n = 20 000, d = 10 000, l1": ("words", (400_000, 1_200_000, 3_600_000)),
    "columns d of sparse X, n = 20 000, 100 entries a row, l1": ("wide", (10_000, 100_000, 1_000_000)),
    "edges of a Kronecker graph": ("edges", (1 << 18, 1 << 21, 1 << 24)),
}
# The sizes with more effort; the benchmark scale has 10⁸ rows in pieces and 10⁹ edges in files.
_LARGER = {"rows": (10_000, 316_000, 10_000_000), "edges": (1 << 18, 1 << 22, 1 << 26)}


def growth(effort: int) -> Section:
    """Measure each size in a process of its own."""
    rows, targets = [], []
    for what, (kind, usual) in _KINDS.items():
        sizes = _LARGER.get(kind, usual) if effort > 1 else usual
        found = [
            fresh("growth:measured", kind=kind, size=size, repeats=1 + 2 * effort).result for size in sizes
        ]
        steps = math.log(sizes[-1] / sizes[0])
        powers = {
            key: math.log(found[-1][key] / max(found[0][key], 1e-9)) / steps for key in ("seconds", "held")
        }
        cells = (seconds_text(point["seconds"]) for point in found)
        memory = (f"{point['held']:.0f} MB" for point in found)
        shown = ", ".join(f"{size:,}".replace(",", " ") for size in sizes)
        rows.append((what, shown, *cells, f"{powers['seconds']:.2f}", *memory, f"{powers['held']:.2f}"))
        # Newton's method makes a matrix of d × d: n·d² operations
        most = 2.0 if kind == "columns" else 1.15
        targets.append(at_most(f"growth with {what}: power of the time", powers["seconds"], most))
        targets.append(at_most(f"growth with {what}: power of the memory", powers["held"], 1.15))
    note = (
        "Declared and solved by default, to 1e-8 (graphs: 1e-9), the second time in a process; the powers belong to "
        "the first and the last size. Memory: the growth of the peak while data are made and the problem is solved."
    )
    columns = (
        "what grows", "sizes", "small", "middle", "large", "power", "memory, small", "middle", "large", "power",
    )  # fmt: skip
    return Section((Table("Growth", columns, tuple(rows), note),), tuple(targets))


def measured(kind: str, size: int, repeats: int) -> dict[str, Any]:
    """Seconds of a solve, and the megabytes that data and solve take beyond those of a tiny problem."""
    problem_of(kind, {"columns": 4}.get(kind, 1_000)).solve()  # imports, and compiles
    before = peak_megabytes()
    problem = problem_of(kind, size)
    tol = 1e-9 if kind == "edges" else 1e-8
    problem.solve(tol=tol)
    held, seconds = peak_megabytes() - before, []
    for _ in range(repeats):
        again = problem.changed()  # nothing that was computed for the first solve
        start = time.perf_counter()
        again.solve(tol=tol)
        seconds.append(time.perf_counter() - start)
    return {"seconds": median(seconds), "held": max(held, 0.1)}


def problem_of(kind: str, size: int) -> Any:
    """The problem of a size."""
    import numpy as np
    from scipy import sparse
    from web_graph import kronecker_graph

    import convexrank as cr

    if kind == "edges":
        scale = max(round(math.log2(size / 16)), 6)
        return cr.problems.PageRank(cr.Graph.from_edges(*kronecker_graph(scale, seed=_SEED), n=1 << scale))
    rng = np.random.default_rng(_SEED)
    n = size if kind == "rows" else 20_000
    d = {"rows": 20, "columns": size, "words": 10_000, "wide": size}[kind]
    entries_of = {"words": size, "wide": 100 * n}
    if kind in entries_of:  # frequencies by Zipf's law
        count, shares = entries_of[kind], 1.0 / np.arange(1, d + 1) ** 0.9
        columns = rng.choice(d, size=count, p=shares / shares.sum())
        entries = np.ones(count), (rng.integers(0, n, count), columns)
        X: Any = sparse.csr_array(entries, shape=(n, d))
        X.sum_duplicates()
    else:
        X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=d)
    y = (scores + scores.std() * rng.normal(size=n) > np.quantile(scores, 0.8)).astype(int)
    if kind not in entries_of:
        return cr.problems.PNormPush(X, y, p=4, l2=1e-4)
    problem = cr.problems.PNormPush(X, y, p=4, l1=1.0)
    return problem.changed(l1=0.1 * problem.l1_max())
