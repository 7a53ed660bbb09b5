"""Time to a certified 1e-4, and 1e-9, on Kronecker graphs in memory and from files, beside others: GAP's way."""

from __future__ import annotations

import math
import tempfile
import time
from functools import partial
from typing import Any

from instances import CRAWL
from measure import JobFailed, fresh, median
from report import Section, Table, Target, seconds_text

_SEED, ALPHA = 11, 0.85
_SCALES, _LARGER = (18,), (22,)
_ERRORS = (1e-4, 1e-9)


def certified(effort: int) -> Section:
    """Time each contender to each error, in turns, on graphs that are ready."""
    scales = (*_SCALES, *(_LARGER if effort > 1 else ()))
    made: dict[str, dict[str, Any]] = {f"Kronecker {scale}": {"scale": scale} for scale in scales}
    if CRAWL.is_file():
        made["web-NotreDame"] = {"path": str(CRAWL)}
    rows: list[tuple[str, ...]] = []
    targets = []
    for graph, arguments in made.items():
        try:
            found = fresh("certified:race", repeats=1 + effort, **arguments).result
        except JobFailed as error:
            targets.append(
                Target(f"certified ranks, {graph}", "measured", str(error).splitlines()[-1][:100], False)
            )
            continue
        rows += [
            (graph, who, f"{asked:g}", seconds_text(seconds), f"{error:.0e}")
            for who, asked, seconds, error in found["rows"]
        ]
        for error in _ERRORS:
            ours, theirs = (
                _least(found["rows"], error, who)
                for who in ("convexrank".__eq__, lambda who: "convexrank" not in who)
            )
            what = f"PageRank to a true {error:g}, {graph}, over the fastest other's"
            targets.append(Target(what, "≤ 1 ×", f"{ours / theirs:.2f} ×", ours <= theirs))
    note = (
        "Unweighted, 16 links a node before repeated ones are merged (GAP's Kronecker graphs), and a crawl; "
        f"α = {ALPHA}. Asked: of convexrank a certified L1 error; of others an L1 change that promises it, (1 − α)/α "
        "times the error. From files: of a folder that the graph was saved to, opened for each solve, edges read for "
        "each sweep. Error: against a solve to 1e-12. Packages may use all cores; reading their graphs is not counted."
    )
    columns = ("graph", "who", "asked", "seconds", "true error")
    return Section((Table("Certified ranks", columns, tuple(rows), note),), tuple(targets))


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

        def files(tol: float) -> Any:
            return cr.problems.PageRank(cr.Graph.open(f"{folder}/graph"), ALPHA).solve(tol=tol).x

        contenders: dict[str, Any] = {
            "convexrank": lambda tol: cr.problems.PageRank(graph, ALPHA).solve(tol=tol).x,
            "convexrank, from files": files,
        }
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


def _changed(run: Any, error: float) -> Any:
    return run((1.0 - ALPHA) / ALPHA * error)


def _read(path: str) -> tuple[Any, Any, int]:
    import convexrank as cr

    graph = cr.Graph.read(path)
    source, target, _ = graph.edges()
    return source, target, graph.n
