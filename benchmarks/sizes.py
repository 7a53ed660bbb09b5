"""Sizes that users have: many rows, many queries, all intervals of a graph, a permuted web graph, and a search."""

from __future__ import annotations

import tempfile
import time
from typing import Any

from instances import CRAWL
from kinks import queries_of
from measure import JobFailed, fresh, interleaved, median, ratio
from report import Section, Table, Target, at_most, seconds_text

_SEED = 11
_TALL = ((100_000, 50), (1_000_000, 20), (1_000_000, 50))
_HUGE = ((1_000_000, 300),)  # 2.4 GB
_QUERIES = (117, 1_170)
_MORE_QUERIES = (5_833,)  # 0.8 GB
_SCALES, _LARGER = (18, 20), (22,)


def sizes(effort: int) -> Section:
    """Time each job beside its peer in the same process."""
    parts = [
        _tall(effort),
        _by_query(effort),
        _nodes(effort),
        _search(),
    ]
    tables = tuple(table for part in parts for table in part.tables)
    return Section(tables, tuple(target for part in parts for target in part.targets))


def _not_measured(name: str, error: JobFailed) -> Target:
    """A row that could not be measured, which stops no other."""
    return Target(name, "measured", str(error).splitlines()[-1][:100], False)


# --- many rows ------------------------------------------------------------------------------------------------------


def _tall(effort: int) -> Section:
    rows, targets = [], []
    for n, d in (*_TALL, *(_HUGE if effort > 1 else ())):
        name, size = f"{n:,} × {d}".replace(",", " "), 8e-6 * n * d
        try:
            found = fresh("sizes:tall", rows=n, columns=d, repeats=1 + 2 * effort).result
            beyond = fresh("sizes:held", rows=n, columns=d).result - 1.0
        except JobFailed as error:
            targets.append(_not_measured(f"PNormPush, {name}", error))
            continue
        ours, theirs = found["push"], found["logistic"]
        against = ratio(ours, theirs)
        cells = (
            name,
            found["solver"],
            seconds_text(median(ours)),
            seconds_text(median(theirs)),
            f"{against:.2f} ×",
        )
        rows.append((*cells, f"{found['gap']:.0e}", f"{beyond:.2f} × X", f"{size:.0f} MB"))
        targets.append(at_most(f"PNormPush, {name}, against LogisticRegression", against, 0.5, " ×"))
        targets.append(at_most(f"PNormPush, {name}, memory beyond X", beyond, 1.5, " × X"))
    note = (
        "PNormPush (p = 4, l2 = 1e-4), declared and solved by default to 1e-8 with a certificate, in turns with "
        "LogisticRegression at its default tolerance of 1e-4, without one. Memory: the growth of the peak of a fresh "
        "process."
    )
    columns = ("dense X", "solver", "PNormPush", "LogisticRegression", "ratio", "gap", "memory beyond X", "X")
    return Section((Table("Many rows", columns, tuple(rows), note),), tuple(targets))


def _rows(rows: int, columns: int) -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(_SEED)
    X = rng.normal(size=(rows, columns))
    return X, (X @ rng.normal(size=columns) / np.sqrt(columns) + rng.normal(size=rows) > 1.0).astype(int)


def tall(rows: int, columns: int, repeats: int) -> dict[str, Any]:
    """Solve in turns with scikit-learn."""
    from sklearn.linear_model import LogisticRegression

    import convexrank as cr

    X, y = _rows(rows, columns)
    push = lambda: cr.problems.PNormPush(X, y, p=4, l2=1e-4).solve()  # noqa: E731
    times = interleaved({"push": push, "logistic": lambda: LogisticRegression().fit(X, y)}, repeats)
    solution = push()
    return {**times, "solver": solution.solver, "gap": solution.gap / max(1.0, abs(solution.value))}


def held(rows: int, columns: int) -> float:
    """The growth of the peak memory while a problem is declared and solved, and X itself, over X."""
    from measure import peak_megabytes

    import convexrank as cr

    small, labels = _rows(200, columns)
    cr.problems.PNormPush(small, labels, p=4, l2=1e-4).solve()
    X, y = _rows(rows, columns)
    before = peak_megabytes()
    cr.problems.PNormPush(X, y, p=4, l2=1e-4).solve()
    return 1.0 + (peak_megabytes() - before) * 2**20 / X.nbytes


# --- many queries ---------------------------------------------------------------------------------------------------


def _by_query(effort: int) -> Section:
    rows, targets = [], []
    for count in (*_QUERIES, *(_MORE_QUERIES if effort > 1 else ())):
        name = f"{120 * count:,} × 136".replace(",", " ")
        try:
            repeats = 1 if count in _MORE_QUERIES else 1 + effort  # minutes each
            found = fresh("sizes:by_query", queries=count, repeats=repeats).result
        except JobFailed as error:
            targets.append(_not_measured(f"MarginRetargeting, {name}", error))
            continue
        ours, call = median(found["retargeting"]), median(found["call"])
        cells = (name, found["solver"], seconds_text(ours), seconds_text(call), f"{ours / call:.0f}")
        boosted = found.get("LightGBM")
        rows.append((*cells, seconds_text(median(boosted)) if boosted else "", f"{found['gap']:.0e}"))
        targets.append(at_most(f"MarginRetargeting, {name}, in calls of its oracle", ours / call, 25.0))
        if boosted:
            against = ratio(found["retargeting"], boosted)
            targets.append(at_most(f"MarginRetargeting, {name}, against LightGBM", against, 1.0, " ×"))
    note = (
        "MarginRetargeting (l2 = .01) by default to 1e-8, 120 rows per query, five grades. Oracle: value and gradient. "
        "LightGBM: lambdarank, 100 rounds, one thread, its own defaults."
    )
    columns = ("X", "solver", "MarginRetargeting", "oracle", "calls' time", "LightGBM", "gap")
    return Section((Table("Many queries", columns, tuple(rows), note),), tuple(targets))


def by_query(queries: int, repeats: int) -> dict[str, Any]:
    """Solve in turns with lambdarank, and time the oracle."""
    from importlib.util import find_spec

    import numpy as np

    import convexrank as cr

    X, y, qid = queries_of(queries)
    contenders: dict[str, Any] = {
        "retargeting": lambda: cr.problems.MarginRetargeting(X, y, qid, l2=1e-2).solve()
    }
    if find_spec("lightgbm") is not None:
        from lightgbm import LGBMRanker

        grades, sizes_ = y.astype(int) - int(y.min()), np.bincount(qid)
        contenders["LightGBM"] = lambda: LGBMRanker(
            n_estimators=100, n_jobs=1, verbose=-1, objective="lambdarank"
        ).fit(X, grades, group=sizes_)
    times = interleaved(contenders, repeats)
    problem = cr.problems.MarginRetargeting(X, y, qid, l2=1e-2)
    solution = problem.solve()
    points = solution.x + 1e-3 * np.random.default_rng(0).normal(size=(5, X.shape[1]))
    calls = []
    for point in points:
        start = time.perf_counter()
        problem.value_and_gradient(point)
        calls.append(time.perf_counter() - start)
    return {
        **times,
        "call": calls,
        "solver": solution.solver,
        "gap": solution.gap / max(1.0, abs(solution.value)),
    }


# --- graphs ---------------------------------------------------------------------------------------------------------


def _nodes(effort: int) -> Section:
    rows, targets = [], []
    graphs: list[tuple[str, dict[str, Any], int]] = [
        (f"Kronecker scale {scale}", {"scale": scale}, 1 if scale in _LARGER else 1 + effort)
        for scale in (*_SCALES, *(_LARGER if effort > 1 else ()))
    ]
    if CRAWL.is_file():
        graphs.append(("web-NotreDame", {"path": str(CRAWL)}, 3 + effort))
    for graph, made_of, repeats in graphs:
        try:
            found_by_kind = _ranked(made_of, repeats)
        except JobFailed as error:
            targets.append(_not_measured(f"PageRank, {graph}", error))
            continue
        for kind, found in found_by_kind.items():
            name = f"{graph}, {kind}"
            cells = [name, f"{found['edges'] / 1e6:.1f} M"]
            cells += [seconds_text(median(found[way])) for way in ("gauss-seidel", "reordered")]
            cells += [seconds_text(found["made"]), seconds_text(median(found["scipy"]))]
            for way, words in (("gauss-seidel", ""), ("reordered", ", reordered()")):
                against, aim = ratio(found[way], found["scipy"]), 0.25 if "scale 22" in graph else 0.3
                cells.append(f"{against:.2f} ×")
                targets.append(at_most(f"PageRank, {name}{words}", against, aim, " ×"))
            rows.append((*cells, f"{found['error']:.0e}"))
    note = (
        "Kronecker graphs with 16 links a node, the nodes in random order (benchmarks/web_graph.py), and a crawl of "
        "1999 from ../shared/data where it is there, its links once more with random weights; α = .85, "
        "certified to 1e-9; scipy: power steps to the same bound, one thread, in the order given. Reordered: the same "
        "solve on graph.reordered(), answers in the order given; making it has a column, and is in no ratio. "
        "Error: the larger one."
    )
    columns = (
        "graph", "edges", "gauss-seidel", "reordered", "making it", "scipy", "ratio", "reordered", "L1 difference",
    )  # fmt: skip
    intervals = fresh("sizes:intervals", nodes=2_000).result
    ends = Table(
        "Score intervals",
        ("sets", "all nodes, both ends"),
        tuple((name, seconds_text(seconds)) for name, seconds in intervals.items()),
        "2 000 nodes: two candidates of eight links each; or eight links whose shares vary by half.",
    )
    worst = max(intervals.values())
    targets.append(at_most("score intervals, all of 2 000 nodes", worst, 10.0, " s"))
    return Section((Table("Permuted graphs", columns, tuple(rows), note), ends), tuple(targets))


def _ranked(made_of: dict[str, Any], repeats: int) -> dict[str, dict[str, Any]]:
    """Measure both kinds of a graph whose links are drawn, or read, once."""
    with tempfile.TemporaryDirectory() as folder:
        fresh("sizes:save_links", folder=folder, **made_of)
        arguments = {"folder": folder, "repeats": repeats}
        return {
            kind: fresh("sizes:ranked_graph", weighted=kind == "weighted", **arguments).result
            for kind in ("weighted", "unweighted")
        }


def save_links(folder: str, scale: int = 0, path: str = "") -> None:
    """Draw the links of a Kronecker graph, or read those of a file, and write them."""
    import numpy as np
    from web_graph import kronecker_graph

    import convexrank as cr

    if path:
        graph = cr.Graph.read(path)
        found = (*graph.edges()[:2], np.array(graph.n))
    else:
        found = (*kronecker_graph(scale, seed=_SEED), np.array(1 << scale))
    for name, values in zip(("source", "target", "nodes"), found, strict=True):
        np.save(f"{folder}/{name}.npy", values)


def ranked_graph(folder: str, weighted: bool, repeats: int) -> dict[str, Any]:
    """Rank in turns with power steps by scipy."""
    import numpy as np

    import convexrank as cr

    source, target = (np.load(f"{folder}/{name}.npy") for name in ("source", "target"))
    weights = np.random.default_rng(_SEED).exponential(size=len(source)) + 0.01 if weighted else None
    n, alpha, tol = int(np.load(f"{folder}/nodes.npy")), 0.85, 1e-9
    if not weighted:  # a link that was drawn twice counts once
        keys = np.unique(source.astype(np.int64) * n + target)
        source, target = keys // n, keys % n
    graph = cr.Graph.from_edges(source, target, weights, n=n)
    matrix, out = graph.to_scipy().T.tocsr().astype(float), graph.out_weight
    rates = np.divide(1.0, out, out=np.zeros(n), where=out > 0.0)
    answers: dict[str, Any] = {}
    begun = time.perf_counter()
    held, order = graph.reordered()
    made = time.perf_counter() - begun

    def ours() -> None:
        answers["ours"] = cr.problems.PageRank(graph, alpha).solve(tol=tol).x

    def reordered() -> None:
        answers["reordered"] = np.empty(n)
        answers["reordered"][order] = cr.problems.PageRank(held, alpha).solve(tol=tol).x

    def power() -> None:
        x, change = np.full(n, 1.0 / n), 1.0
        while alpha / (1.0 - alpha) * change > tol:
            new = alpha * (matrix @ (rates * x))
            new += (alpha * x[out == 0.0].sum() + 1.0 - alpha) / n
            change, x = float(np.abs(new - x).sum()), new
        answers["scipy"] = x

    times = interleaved({"gauss-seidel": ours, "reordered": reordered, "scipy": power}, repeats)
    error = max(float(np.abs(answers[name] - answers["scipy"]).sum()) for name in ("ours", "reordered"))
    return {**times, "edges": graph.m, "error": error, "made": made}


def intervals(nodes: int) -> dict[str, float]:
    """Seconds for both ends of all intervals."""
    import numpy as np

    import convexrank as cr

    rng = np.random.default_rng(_SEED)
    rows = np.zeros((2 * nodes, nodes))
    for row in rows:
        row[rng.choice(nodes, 8, replace=False)] = 0.125
    links = np.array([(i, j) for i in range(nodes) for j in rng.choice(nodes, 8, replace=False) if i != j])
    sets = {
        "candidates": cr.consensus.CandidateSets(np.split(rows, nodes)),
        "boxes": cr.consensus.Polytopes.around(cr.Graph.from_edges(*links.T, n=nodes), 0.5),
    }
    cr.consensus.score_intervals([[[0, 1]], [[1, 0]]])  # compiles
    seconds = {}
    for name, own in sets.items():
        start = time.perf_counter()
        cr.consensus.score_intervals(own)
        seconds[name] = time.perf_counter() - start
    return seconds


# --- a search -------------------------------------------------------------------------------------------------------


def _search() -> Section:
    found = fresh("sizes:search").result
    rows = tuple((f"n_jobs = {jobs}", *map(seconds_text, seconds)) for jobs, seconds in found.items())
    note = (
        "GridSearchCV, 12 strengths and powers, 5 folds, 11 000 × 6. First: processes start, and import the package. "
        "Threads: under joblib.parallel_config(backend='threading')."
    )
    target = at_most("60 fits, n_jobs = 2 against 1", found["2"][1] / found["1"][1], 1.0, " ×")
    first = at_most("the same, first search of a process", found["2"][0] / found["1"][0], 1.2, " ×")
    threads = at_most("the same in threads", found["2 threads"][0] / found["1"][0], 1.2, " ×")
    table = Table("A search of 60 fits", ("workers", "first", "again"), rows, note)
    return Section((table,), (target, first, threads))


def search() -> dict[str, list[float]]:
    """Seconds of a first search and of a second one."""
    import numpy as np
    from joblib import parallel_config
    from sklearn.model_selection import GridSearchCV

    import convexrank as cr

    rng = np.random.default_rng(_SEED)
    X = rng.normal(size=(11_000, 6))
    y = (X[:, 0] + rng.normal(size=11_000) > 1.0).astype(int)
    grid = {"l2": [1e-4, 1e-3, 1e-2, 1e-1], "p": [1, 4, 16]}
    cr.PushRanker().fit(X, y)
    seconds: dict[str, list[float]] = {}
    for name, jobs, backend in (("1", 1, "loky"), ("2 threads", 2, "threading"), ("2", 2, "loky")):
        for _ in range(2):
            start = time.perf_counter()
            with parallel_config(backend=backend):
                GridSearchCV(cr.PushRanker(), grid, cv=5, n_jobs=jobs, scoring="roc_auc").fit(X, y)
            seconds.setdefault(name, []).append(time.perf_counter() - start)
    return seconds
