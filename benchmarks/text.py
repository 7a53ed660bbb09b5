"""Real text: the docstrings of installed packages, beside LogisticRegression, and strengths one by one."""

from __future__ import annotations

from typing import Any

from measure import fresh, interleaved, median, ratio
from report import Section, Table, Target, at_most, seconds_text

_PACKAGES = ("numpy", "scipy", "sklearn", "jax", "cvxpy", "matplotlib", "numba")
_L2 = (1e-3, 1e-5)
# Times over LogisticRegression's that are wanted, by p.
_WANTED = {1: 2.0, 16: 6.0, 64: 6.0}
_STRENGTHS, _FOLDS, _SHARE = 10, 3, 0.01
# What is timed along l2, and beside it.
_ALONG = {
    "l2": (f"{_STRENGTHS} values of l2", "one"),
    "elastic": (f"{_STRENGTHS} values of l2 beside l1", "one"),
    "folds": (f"{_STRENGTHS} values of l2, {_FOLDS} folds", "one on each"),
}


def text(effort: int) -> Section:
    """Time the default solver and a path over l2."""
    outcome = fresh("text:measured", repeats=1 + effort).result
    rows, targets = [], []
    for found in outcome["solves"]:
        cells = (
            found["shape"],
            f"{found['l2']:g}",
            f"{found['p']}",
            found["solver"],
            seconds_text(found["ours"]),
        )
        more = (
            str(found["steps"]),
            f"{found['gap']:.0e}",
            seconds_text(found["peer"]),
            f"{found['error']:.0e}",
        )
        rows.append((*cells, *more))
        what = f"PNormPush p = {found['p']}, l2 = {found['l2']:g}, {found['kind']}: time over LogisticRegression's"
        targets.append(at_most(what, found["ratio"], _WANTED[found["p"]]))
    note = (
        f"tf-idf of the docstrings of {', '.join(_PACKAGES)}: which are scipy's? First of their words, then of words "
        "and pairs of words in every other docstring, then the 300 directions in which the first vary most, dense. "
        "Declared and solved, tol = 1e-8. LogisticRegression: tol = 1e-6, C = 1/(l2 n), the same penalty; it states no "
        "gap. Its error: its objective less what it reaches with tol = 1e-9. From p = 32 on the solver begins with "
        "p = 16, solved roughly, which halves the products with the Hessian."
    )
    columns = (
        "rows × columns",
        "l2",
        "p",
        "solver",
        "ours",
        "steps",
        "gap",
        "LogisticRegression",
        "its error",
    )
    table = Table("Real text", columns, tuple(rows), note)
    return Section((table, _path_table(outcome["path"], targets)), tuple(targets))


def _path_table(found: dict[str, dict[str, Any]], targets: list[Target]) -> Table:
    rows = []
    for name, (what, one) in _ALONG.items():
        times = found[name]
        targets.append(at_most(f"{what}, docstrings: time over {one}", times["ratio"], 3.0))
        rows.append(
            (what, seconds_text(times["along"]), one, seconds_text(times["alone"]), f"{times['gap']:.0e}")
        )
    note = (
        f"{_STRENGTHS} values of l2 from 1e-3 to 1e-5, p = 4; one: 1e-5 alone, from 0. Each value starts where the "
        "last two answers lead, with the preconditioner of the last one; beside l1, which is "
        f"{_SHARE:g} of λmax, at the last answer, to 1e-6. Folds: PushRankerCV, which solves a path on the rows of "
        f"each of {_FOLDS} and one on all, beside a solve of the last value on each."
    )
    return Table(
        "Paths over l2 on text", ("along", "time", "beside", "its time", "largest gap"), tuple(rows), note
    )


def measured(repeats: int) -> dict[str, Any]:
    """Time single strengths and a path; the data are made once."""
    texts, y = _texts()
    words = _frequencies(texts)
    solves = [_solve("docstrings", words, y, p, l2, repeats) for l2 in _L2 for p in _WANTED]
    others = {
        "pairs of words": (_frequencies(texts[::2], ngram_range=(1, 2)), y[::2]),
        "300 directions": (_directions(words), y),
    }
    for kind, (X, labels) in others.items():
        solves += [_solve(kind, X, labels, p, _L2[-1], repeats) for p in _WANTED]
    return {"solves": solves, "path": _paths(words, y)}


def _solve(kind: str, X: Any, y: Any, p: float, l2: float, repeats: int) -> dict[str, Any]:
    """Time a solve beside LogisticRegression, in turns."""
    from sklearn.linear_model import LogisticRegression

    import convexrank as cr

    last: dict[str, Any] = {}

    def ours() -> None:
        last["ours"] = cr.problems.PNormPush(X, y, p=p, l2=l2).solve()

    def peer(tol: float = 1e-6) -> None:
        last["peer"] = LogisticRegression(C=1.0 / (l2 * len(y)), tol=tol, max_iter=100_000).fit(X, y)

    ours()
    peer()
    times = interleaved({"ours": ours, "peer": peer}, repeats)
    found = _objective(last["peer"], X, y, l2)
    peer(1e-9)
    return {
        "kind": kind,
        "shape": f"{X.shape[0]} × {X.shape[1]}",
        "p": p,
        "l2": l2,
        "ours": median(times["ours"]),
        "peer": median(times["peer"]),
        "ratio": ratio(times["ours"], times["peer"]),
        "steps": last["ours"].iterations,
        "solver": last["ours"].solver,
        "gap": last["ours"].gap,
        "error": max(found - _objective(last["peer"], X, y, l2), 0.0),
    }


def _objective(model: Any, X: Any, y: Any, l2: float) -> float:
    import numpy as np

    margins = np.where(y, 1.0, -1.0) * model.decision_function(X)
    return float(np.logaddexp(0.0, -margins).mean() + 0.5 * l2 * (model.coef_**2).sum())


def _paths(X: Any, y: Any) -> dict[str, dict[str, Any]]:
    """Time strengths one after the other, in a path and in a search, beside the last of them alone."""
    import numpy as np
    from sklearn.model_selection import StratifiedKFold

    import convexrank as cr

    values = np.geomspace(1e-3, _L2[-1], _STRENGTHS)
    folds = [train for train, _ in StratifiedKFold(_FOLDS).split(X, y)]
    problem = cr.problems.PNormPush(X, y, p=4, l2=_L2[-1])
    sparse = cr.problems.PNormPush(X, y, p=4, l1=1.0)
    sparse = sparse.changed(l1=_SHARE * sparse.l1_max(), l2=_L2[-1])
    last: dict[str, Any] = {}

    def along(name: str, one: Any, tol: float) -> None:
        last[name] = cr.path(one, l2=values, tol=tol)

    def searched() -> None:
        options: dict[str, Any] = {"p": 4, "path": "l2", "values": values, "cv": _FOLDS, "standardize": False}
        last["folds"] = cr.PushRankerCV(**options).fit(X, y).path_

    def apart() -> None:
        for rows in (*folds, np.arange(len(y))):
            cr.problems.PNormPush(X[rows], y[rows], p=4, l2=_L2[-1]).solve()

    jobs = {
        "l2": (lambda: along("l2", problem, 1e-8), problem.solve),
        "elastic": (lambda: along("elastic", sparse, 1e-6), lambda: sparse.solve(tol=1e-6)),
        "folds": (searched, apart),
    }
    found = {}
    for name, (many, one) in jobs.items():
        times = interleaved({"along": many, "alone": one}, 3 if name == "l2" else 1)
        found[name] = {
            **{part: median(seconds) for part, seconds in times.items()},
            "ratio": ratio(times["along"], times["alone"]),
            "gap": float(last[name].gaps.max()),
        }
    return found


def _frequencies(texts: list[str], **options: Any) -> Any:
    """Return tf-idf rows of length 1 of the words that are in two texts or more."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, min_df=2, **options).fit_transform(texts).tocsr()


def docstrings() -> tuple[Any, Any]:
    """Return the words of docstrings, and whether each is of scipy."""
    texts, y = _texts()
    return _frequencies(texts), y


def _directions(X: Any, count: int = 300) -> Any:
    """Return the rows in the directions in which they vary most, each of unit variance."""
    from sklearn.decomposition import TruncatedSVD

    found = TruncatedSVD(count, random_state=0).fit_transform(X)
    return found / found.std(axis=0)


def _texts() -> tuple[list[str], Any]:
    """Return the docstrings of more than 80 characters, and whether each is of scipy."""
    import ast
    import sysconfig
    from pathlib import Path

    import numpy as np

    texts, ours = [], []
    for package in _PACKAGES:
        for file in sorted((Path(sysconfig.get_paths()["purelib"]) / package).rglob("*.py")):
            try:
                tree = ast.parse(file.read_text(encoding="utf-8"))
            except (SyntaxError, UnicodeDecodeError):
                continue
            nodes = [
                node
                for node in ast.walk(tree)
                if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
            ]
            found = [found for node in nodes if len(found := ast.get_docstring(node) or "") > 80]
            texts += found
            ours += [package == "scipy"] * len(found)
    return texts, np.array(ours)
