"""Risks with kinks and pair losses, small, tall and wide: solved to a relative gap of 1e-4."""

from __future__ import annotations

import time
from typing import Any

from letor_collections import missing
from measure import fresh, median
from report import Section, Table, Target, at_most, bytes_text, seconds_text

TOL = 1e-4
_SEED = 7
# Name: formulation, its arguments, the data, l2, seconds wanted.
_JOBS: dict[str, tuple[str, dict[str, Any], str, float, float]] = {
    "TopPush, sparse 50 000 × 300": ("TopPush", {}, "sparse", 0.01, 5.0),
    "RmaxPush hinge, sparse 50 000 × 300": ("RmaxPush", {"loss": "hinge"}, "sparse", 0.01, 5.0),
    "RmaxPush logistic, sparse 50 000 × 300": ("RmaxPush", {"loss": "logistic"}, "sparse", 0.01, 5.0),
    "TopPush, dense 655 × 49": ("TopPush", {}, "small", 0.01, 1.0),
    "RmaxPush hinge, dense 655 × 49": ("RmaxPush", {"loss": "hinge"}, "small", 0.01, 1.0),
    "RankSVM hinge, 14 000 × 136": ("RankSVM", {}, "queries", 0.1, 1.0),
    "RankSVM hinge, 140 000 × 136": ("RankSVM", {}, "more queries", 0.1, 10.0),
    "ConvexRisk logistic, 9 500 × 4": ("ConvexRisk", {"cost": "logistic"}, "pairs", 1e-3, 1.0),
    "ConvexRisk hinge, 9 500 × 4": ("ConvexRisk", {"cost": "hinge"}, "pairs", 1e-3, 1.0),
    "TopPush, docstrings": ("TopPush", {}, "docstrings", 1e-3, 5.0),
    "RmaxPush hinge, docstrings": ("RmaxPush", {"loss": "hinge"}, "docstrings", 1e-3, 5.0),
    "RankSVM hinge, MQ2008": ("RankSVM", {}, "MQ2008", 0.1, 1.0),
    "TopPush, thresholds of breast cancer, 569 × 480": ("TopPush", {}, "thresholds", 0.01, 5.0),
    "RmaxPush hinge, products of breast cancer, 569 × 4 005": (
        "RmaxPush",
        {"loss": "hinge"},
        "products",
        0.01,
        5.0,
    ),
    "PartialAUC hinge, products of breast cancer, 569 × 4 005": (
        "PartialAUC",
        {"loss": "hinge", "max_fpr": 0.1},
        "products",
        0.01,
        5.0,
    ),
    "RmaxPush hinge, 200 × 5 000": ("RmaxPush", {"loss": "hinge"}, "wide", 0.01, 5.0),
    "TopPush, text 200 000 × 100 000": ("TopPush", {}, "text", 0.01, 10.0),
    "RankSVM hinge, text 200 000 × 100 000": ("RankSVM", {}, "text queries", 0.01, 20.0),
}
# By the exact model too, in the same process.
_EXACT = ("TopPush, dense 655 × 49", "RmaxPush hinge, dense 655 × 49")


def kinks(effort: int) -> Section:
    """Time each to its certified gap."""
    rows, targets = [], []
    for name, (_, _, data, _, limit) in _JOBS.items():
        if data == "MQ2008" and missing(data):
            continue
        outcome = fresh("kinks:solve", name=name, repeats=1 + 2 * effort, exact=name in _EXACT)
        found = outcome.result
        seconds, gap = median(found["seconds"]), found["gap"] / max(1.0, abs(found["value"]))
        exact = seconds_text(found["exact"]) if found["exact"] else ""
        cells = (name, found["solver"], seconds_text(found["first"]), seconds_text(seconds), exact)
        size = bytes_text(outcome.peak_megabytes)
        rows.append((*cells, str(found["iterations"]), f"{found['value']:.6g}", f"{gap:.0e}", size))
        met = seconds <= limit and gap <= TOL
        wanted = f"≤ {limit:g} s to a gap of {TOL:g}"
        targets.append(Target(name, wanted, f"{seconds:.2f} s, gap {gap:.0e}", met))
    note = (
        "Drawn by benchmarks/kinks.py with a fixed seed, but for docstrings, as in the table of real text, columns of "
        "the breast cancer data of scikit-learn, and all queries of MQ2008 where its files are; "
        f"tol = {TOL:g}, relative to the value. First: imports and compilation included; then the median of further "
        "solves, the certificate included. Exact: our conic model in the same process. Memory: the peak of the "
        "process, data and imports included."
    )
    columns = ("problem", "solver", "first", "solve", "exact", "iterations", "value", "gap", "memory")
    wide = at_most("RankSVM, text: peak memory over X", rows_memory(rows), 12.0)
    return Section((Table("Kinks and pairs", columns, tuple(rows), note),), (*targets, wide))


def rows_memory(rows: list[tuple[str, ...]]) -> float:
    """Return the peak of the last job over the size of its X, 12 bytes for each of about 9.4 million entries."""
    return float(rows[-1][-1].split()[0]) / (12e-6 * 9.4e6)


def solve(name: str, repeats: int, exact: bool) -> dict[str, Any]:
    """Solve to a certified gap by the default solver; the first solve includes compilation."""
    import convexrank as cr

    kind, arguments, data, l2, _ = _JOBS[name]
    X, y, *more = _DATA[data]()
    seconds = []
    for _ in range(1 + repeats):
        problem = getattr(cr.problems, kind)(X, y, *more, l2=l2, **arguments)
        start = time.perf_counter()
        solution = problem.solve(tol=TOL)
        seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    if exact:
        problem.solve("exact", tol=TOL)
    return {
        "first": seconds[0],
        "seconds": seconds[1:],
        "exact": time.perf_counter() - start if exact else 0.0,
        "iterations": solution.iterations,
        "solver": solution.solver,
        "value": solution.value,
        "gap": solution.gap,
    }


def _sparse() -> tuple[Any, Any]:
    """Normal entries, 15 a row; a tenth are positives, the top of a linear score without noise: a clean top exists."""
    import numpy as np
    from scipy import sparse

    rng = np.random.default_rng(_SEED)
    sampler = rng.standard_normal
    X = sparse.random_array((50_000, 300), density=0.05, rng=rng, format="csr", data_sampler=sampler)
    scores = X @ rng.normal(size=300)
    return X, (scores > np.quantile(scores, 0.9)).astype(int)


def _small() -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(_SEED)
    X = rng.normal(size=(655, 49))
    scores = X @ rng.normal(size=49) + 3.0 * rng.normal(size=655)
    return X, (scores > np.quantile(scores, 0.7)).astype(int)


def _wide() -> tuple[Any, Any]:
    """Few rows of many features, as of genes: one in fifty counts, and the noise is as large as the score."""
    import numpy as np

    rng = np.random.default_rng(_SEED)
    X = rng.normal(size=(200, 5_000))
    scores = X @ (rng.normal(size=5_000) * (rng.random(5_000) < 0.02))
    scores += scores.std() * rng.normal(size=200)
    return X, (scores > np.quantile(scores, 0.7)).astype(int)


def _derived(products: bool) -> tuple[Any, Any]:
    """Columns of the breast cancer data of scikit-learn: 16 thresholds of each feature, or products of three."""
    from sklearn.datasets import load_breast_cancer

    import convexrank as cr

    X, y = load_breast_cancer(return_X_y=True)
    if not products:
        return cr.features.Thresholds(X, 16), 1 - y
    return cr.features.Stacked([cr.features.Thresholds(X, 3), cr.features.Products(X, 3)]), 1 - y


def queries_of(queries: int = 117) -> tuple[Any, Any, Any]:
    """Queries of 120 rows with offsets of their own, features of different scales, five grades."""
    import numpy as np

    rng, d = np.random.default_rng(_SEED), 136
    query = np.repeat(np.arange(queries), 120)
    X = rng.normal(size=(len(query), d)) * np.exp(0.5 * rng.normal(size=d))
    X += rng.normal(size=(queries, d))[query]
    return X, _grades(X @ rng.normal(size=d) / np.sqrt(d) + 2.0 * rng.normal(size=len(query))), query


def _grades(scores: Any) -> Any:
    import numpy as np

    return np.digitize(scores, np.quantile(scores, [0.5, 0.75, 0.9, 0.97]))


def _pairs() -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(_SEED)
    X = rng.normal(size=(9_500, 4))
    return X, X @ rng.normal(size=4) + 2.0 * rng.normal(size=9_500)


def _text_rows() -> tuple[Any, Any]:
    """About 47 words a row by Zipf's law, weighted by rarity, rows of length 1; a tenth of the words make the score."""
    import numpy as np
    from scipy import sparse

    rng, n, d, words = np.random.default_rng(_SEED), 200_000, 100_000, 50
    shares = np.cumsum(np.arange(1.0, d + 1.0) ** -0.9)
    drawn = np.minimum(np.searchsorted(shares / shares[-1], rng.random(n * words)), d - 1)
    X = sparse.csr_array((np.ones(n * words), (np.repeat(np.arange(n), words), drawn)), shape=(n, d))
    X.sum_duplicates()
    rarity = np.maximum(np.log(n / (1.0 + np.bincount(X.indices, minlength=d))), 0.1)
    X.data = (1.0 + np.log(X.data)) * rarity[X.indices]
    X = sparse.csr_array(sparse.diags_array(1.0 / np.sqrt(X.multiply(X).sum(axis=1))) @ X)
    scores = X @ (rng.normal(size=d) * (rng.random(d) < 0.1))
    return X, scores / scores.std() + 0.5 * rng.normal(size=n)


def _text() -> tuple[Any, Any]:
    import numpy as np

    X, scores = _text_rows()
    return X, (scores > np.quantile(scores, 0.95)).astype(int)


def _text_queries() -> tuple[Any, Any, Any]:
    import numpy as np

    X, scores = _text_rows()
    return X, _grades(scores), np.arange(len(scores)) // 100


def _docstrings() -> tuple[Any, Any]:
    from text import docstrings

    return docstrings()


def _mq2008() -> tuple[Any, Any, Any]:
    from accuracy import collection

    return collection()


_DATA = {
    "docstrings": _docstrings,
    "MQ2008": _mq2008,
    "sparse": _sparse,
    "small": _small,
    "queries": queries_of,
    "more queries": lambda: queries_of(1_167),
    "pairs": _pairs,
    "thresholds": lambda: _derived(products=False),
    "products": lambda: _derived(products=True),
    "wide": _wide,
    "text": _text,
    "text queries": _text_queries,
}
