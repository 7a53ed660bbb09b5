"""Time to a certified 1e-4, and 1e-9, on Kronecker graphs in memory and from files, beside others: GAP's way."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from instances import CRAWL
from measure import JobFailed, fresh, median
from report import Section, Table, Target, seconds_text

_SEED, ALPHA = 11, 0.85
_SCALE, _LARGER = 18, (22, 23, 24, 25)
_ERRORS = (1e-4, 1e-9)
_OURS = ("convexrank", "convexrank, from files")
_BUILD = 3 << 30


def certified(effort: int) -> Section:
    """Time each contender to each error, in turns, on graphs that are ready; on large ones on demand, one by one."""
    rows: list[tuple[str, ...]] = []
    targets: list[Target] = []
    made: dict[str, dict[str, Any]] = {f"Kronecker {_SCALE}": {"scale": _SCALE}}
    if CRAWL.is_file():
        made["web-NotreDame"] = {"path": str(CRAWL)}
    for graph, arguments in made.items():
        try:
            found = fresh("certified:race", repeats=1 + effort, **arguments).result
        except JobFailed as error:
            targets.append(_not_measured(graph, error))
            continue
        _add(graph, found["rows"], rows, targets)
    for scale in _LARGER if effort > 1 else ():
        try:
            found = _apart(scale, repeats=effort - 1)
        except JobFailed as error:  # no room for the graph itself
            targets.append(_not_measured(f"Kronecker {scale}", error))
            continue
        _add(f"Kronecker {scale}", found, rows, targets)
    note = (
        "Unweighted, 16 links a node before repeated ones are merged (GAP's Kronecker graphs), and a crawl; "
        f"α = {ALPHA}. Asked: of convexrank a certified L1 error; of others an L1 change that promises it, (1 − α)/α "
        "times the error. From files: of a folder that the graph was saved to, opened for each solve, edges read for "
        "each sweep. Error: against a solve to 1e-12. Packages may use all cores; reading their graphs is not counted. "
        "Kronecker graphs from 22 on: one contender after the other, each in a process of its own, which ends where it "
        "needs more than the memory that is free."
    )
    columns = ("graph", "who", "asked", "seconds", "true error")
    return Section((Table("Certified ranks", columns, tuple(rows), note),), tuple(targets))


def _not_measured(graph: str, error: JobFailed) -> Target:
    return Target(f"certified ranks, {graph}", "measured", str(error).splitlines()[-1][:100], False)


def _add(graph: str, found: list[Any], rows: list[tuple[str, ...]], targets: list[Target]) -> None:
    """Add a graph's rows, and whether convexrank was the first at each error."""
    for who, asked, seconds, error in found:
        fits = math.isfinite(seconds)
        cells = (seconds_text(seconds), f"{error:.0e}") if fits else ("did not end", "–")
        rows.append((graph, who, f"{asked:g}", *cells))
    for error in _ERRORS:
        ours = _least(found, error, lambda who: who in _OURS)
        theirs = _least(found, error, lambda who: who not in _OURS)
        what = f"PageRank to a true {error:g}, {graph}, over the fastest other's"
        targets.append(Target(what, "≤ 1 ×", f"{ours / theirs:.2f} ×", ours <= theirs))


def _apart(scale: int, repeats: int) -> list[tuple[str, float, float, float]]:
    """The rows of a graph that is too large for all contenders at once; infinity for those that did not end."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for who in fresh("certified:built", scale=scale, folder=folder).result:
            try:
                rows += fresh("certified:alone", who=who, folder=folder, repeats=repeats).result
            except JobFailed:
                rows += [(who, asked, math.inf, math.inf) for asked in _ERRORS]
    return rows


def _least(rows: list[Any], error: float, chosen: Any) -> float:
    return min((seconds for who, _, seconds, had in rows if chosen(who) and had <= error), default=math.inf)


def race(repeats: int, scale: int = 0, path: str = "") -> dict[str, Any]:
    """Return who, what was asked, the median of seconds, and the true error."""
    import numpy as np
    from graph_peers import peers
    from web_graph import kronecker_graph

    import convexrank as cr

    if path:
        source, target, n = _read(path)
    else:
        source, target = kronecker_graph(scale, seed=_SEED)
        n = 1 << scale
    keys = np.unique(source.astype(np.int64) * n + target)  # a link that was drawn twice counts once
    graph = cr.Graph.from_edges(keys // n, keys % n, n=n)
    del source, target, keys
    truth = cr.problems.PageRank(graph, ALPHA).solve(tol=1e-12).x
    with tempfile.TemporaryDirectory() as folder:
        graph.save(f"{folder}/graph")

        ours = (partial(_solved, graph), partial(_opened, f"{folder}/graph"))
        contenders: dict[str, Any] = dict(zip(_OURS, ours, strict=True))
        for name, run in peers(graph, ALPHA, slow=False).items():
            contenders[name] = partial(_changed, run)
        rows = []
        for asked in _ERRORS:
            times: dict[str, list[float]] = {name: [] for name in contenders}
            answers = {}
            for _ in range(repeats):
                for name, run in contenders.items():
                    start = time.perf_counter()
                    answers[name] = run(asked)
                    times[name].append(time.perf_counter() - start)
            for name, answer in answers.items():
                error = float(np.abs(answer - truth).sum())
                rows.append((name, asked, median(times[name]), max(error, 1e-16)))
    return {"rows": rows, "edges": graph.m}


def built(scale: int, folder: str) -> list[str]:
    """Write a Kronecker graph and its ranks to a folder; return the names of the contenders."""
    _keep_within_memory()
    import numpy as np
    from graph_peers import installed
    from web_graph import kronecker_graph

    import convexrank as cr

    source, target = kronecker_graph(scale, seed=_SEED)
    keys = source.astype(np.int64) << scale
    keys |= target
    del source, target
    keys.sort()
    first = np.concatenate(([True], keys[1:] != keys[:-1]))  # a link that was drawn twice counts once
    cuts = range(0, len(keys), 1 << 24)
    pieces = _Links(keys, first, scale, [slice(start, start + (1 << 24)) for start in cuts])
    graph = cr.Graph.build(pieces, f"{folder}/graph", n=1 << scale, memory=_BUILD)
    np.save(f"{folder}/truth.npy", cr.problems.PageRank(graph, ALPHA).solve(tol=1e-12).x)
    return [*_OURS, *installed(slow=False)]


def _keep_within_memory() -> None:
    """Let this process end with an error where it needs more memory than there is, and no other one."""
    try:
        import resource
    except ImportError:  # not offered on Windows
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if (told := Path("/proc/meminfo")).is_file():  # less what other processes hold; on Linux
        lines = dict(line.split(":") for line in told.read_text().splitlines())
        memory = min(memory, 1024 * int(lines["MemAvailable"].split()[0]))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


@dataclass(frozen=True)
class _Links:
    """Links as sorted keys, given out piece by piece in every iteration."""

    keys: Any
    first: Any
    scale: int
    cuts: list[slice]

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        import numpy as np

        for cut in self.cuts:
            keys = self.keys[cut][self.first[cut]]
            ends = (keys >> self.scale, keys & ((1 << self.scale) - 1))
            yield ends[0].astype(np.int32), ends[1].astype(np.int32)


def alone(who: str, folder: str, repeats: int) -> list[tuple[str, float, float, float]]:
    """One contender's rows."""
    _keep_within_memory()
    import numpy as np
    from graph_peers import PEERS

    import convexrank as cr

    stored = cr.Graph.open(f"{folder}/graph")
    if who in PEERS:
        run = partial(_changed, PEERS[who](stored, ALPHA))
    elif who == _OURS[0]:
        graph = cr.Graph.from_edges(*stored.edges()[:2], n=stored.n)
        run = partial(_solved, graph)
    else:
        run = partial(_opened, f"{folder}/graph")
    truth, rows = np.load(f"{folder}/truth.npy", mmap_mode="r"), []
    run(0.5)  # imports, and compiles
    for asked in _ERRORS:
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            answer = run(asked)
            times.append(time.perf_counter() - start)
        rows.append((who, asked, median(times), max(float(np.abs(answer - truth).sum()), 1e-16)))
    return rows


def _solved(graph: Any, error: float) -> Any:
    import convexrank as cr

    return cr.problems.PageRank(graph, ALPHA).solve(tol=error).x


def _opened(folder: str, error: float) -> Any:
    import convexrank as cr

    return _solved(cr.Graph.open(folder), error)


def _changed(run: Any, error: float) -> Any:
    return run((1.0 - ALPHA) / ALPHA * error)


def _read(path: str) -> tuple[Any, Any, int]:
    import convexrank as cr

    graph = cr.Graph.read(path)
    source, target, _ = graph.edges()
    return source, target, graph.n
