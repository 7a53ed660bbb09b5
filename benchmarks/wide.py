"""l1 on wide sparse rows beside liblinear and celer, elastic nets beside saga, thresholds beside LightGBM."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from instances import data_name
from measure import fresh, interleaved, median, ratio
from report import Section, Table, Target, at_most, seconds_text

_SHARES = (0.1, 0.03, 0.01)
_TOL = 1e-6


def wide(effort: int) -> Section:
    """Time single strengths, a path, and rankers over thresholds."""
    parts = [_single(effort), _elastic(effort), _path(effort), _curved()]
    return Section(
        tuple(table for part in parts for table in part.tables),
        tuple(target for part in parts for target in part.targets),
    )


def _single(effort: int) -> Section:
    rows, targets = [], []
    for kind, p in ((kind, p) for kind in _DATA for p in (1, 4)):
        for found in fresh("wide:strengths", kind=kind, p=p, repeats=1 + 2 * effort).result:
            cells = (
                kind,
                f"{p}",
                f"{found['share']:g}",
                seconds_text(found["ours"]),
                seconds_text(found["peer"]),
            )
            bound = f"{found['gap']:.0e}, {found['kind']}"
            counts = str(found["weights"]), str(found["peer weights"]), str(found["zeros"])
            rows.append((*cells, *counts, f"{100 * found['scans']:.0f} %", bound))
            what = f"PNormPush p = {p}, l1 = {found['share']:g} λmax, {kind}: time over liblinear's"
            targets.append(at_most(what, found["ratio"], 1.0, aim=0.5))
            if found["kind"] != "global":
                targets.append(Target(what, "a global bound", found["kind"], False))
    columns = (
        *("rows", "p", "l1 / λmax", "working-sets", "liblinear", "weights", "liblinear's"),
        *("proved 0", "time in scans", "gap"),
    )
    note = (
        "Declared and solved; rows drawn, and real ones, tf-idf of docstrings as in the table of real text. liblinear: "
        "l1 logistic regression at the first of several C with as many weights; its "
        "tolerance is 1e-4 of a violation, and it states no gap. Proved 0: of all weights, by zero_weights at the "
        "solution. Time in scans: in looks at all columns between working sets, the most that screening could save."
    )
    return Section((Table("l1 on wide sparse rows", columns, tuple(rows), note),), tuple(targets))


def _elastic(effort: int) -> Section:
    found = fresh("wide:elastic", repeats=max(1, effort)).result
    rows = [(name, seconds_text(seconds), str(weights), gap) for name, seconds, weights, gap in found["rows"]]
    what = "PNormPush p = 1, l2 = 0.01, l1 = 0.2 λmax, 500 × 10 000 dense: time over saga's"
    note = (
        "Normal numbers, labels by 20 columns with noise; l1 = 0.2 λmax. saga: logistic regression, l1_ratio 0.5 and "
        "C = 0.2, ended after 100 passes, not converged; another objective, and it states no gap."
    )
    table = Table(
        "Elastic nets on wide dense rows", ("method", "seconds", "weights", "gap"), tuple(rows), note
    )
    return Section((table,), (at_most(what, found["ratio"], 1.0, aim=0.5),))


def _path(effort: int) -> Section:
    found = fresh("wide:path", repeats=max(1, effort)).result
    rows = [(name, seconds_text(seconds), str(weights)) for name, seconds, weights in found["rows"]]
    targets = [
        at_most(f"100 values of l1: time over {name}'s", value, 2.0) for name, value in found["ratios"]
    ]
    note = "p = 1, the same rows, 100 values down to the share of λmax that is named; relative gaps of 1e-6."
    return Section(
        (Table("Path", ("method", "seconds", "weights at the end"), tuple(rows), note),), tuple(targets)
    )


def _curved() -> Section:
    found = fresh("wide:curved").result
    rows = [
        (name, seconds_text(seconds), f"{auc:.4f}", f"{partial:.4f}", str(top), gap)
        for name, seconds, auc, partial, top, gap in found
    ]
    best = {name: (seconds, partial, top) for name, seconds, _, partial, top, _ in found}
    peer = best["LightGBM"]
    targets = []
    for name, limit in (("thresholds, p = 16", 5.0 * peer[0]), ("products, p = 4", 60.0)):
        seconds, partial, top = best[name]
        measured = f"partial AUC {partial:.3f}, top {top}, {seconds:.1f} s"
        wanted = f"partial AUC above {peer[1]:.3f}, top above {peer[2]}, ≤ {limit:.1f} s"
        met = partial > peer[1] and top > peer[2] and seconds <= limit
        targets.append(Target(f"{name}, beside LightGBM", wanted, measured, met))
    columns = ("ranker", "fit", "AUC", "partial AUC, FPR ≤ 1 %", "positives above all negatives", "gap")
    note = f"{data_name()}: 13 000 rows to fit, the others to judge, one split."
    return Section((Table("Rankers over thresholds", columns, tuple(rows), note),), tuple(targets))


def strengths(kind: str, p: float, repeats: int) -> list[dict[str, Any]]:
    """Time each strength beside liblinear, in turns."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    import convexrank as cr

    X, y = _DATA[kind]()
    top = cr.problems.PNormPush(X, y, p=p, l1=1.0).l1_max()
    found = []
    for share in _SHARES:
        last: dict[str, Any] = {}

        def ours(share: float = share, last: dict[str, Any] = last) -> None:
            last["ours"] = cr.problems.PNormPush(X, y, p=p, l1=share * top).solve(tol=_TOL)

        ours()
        weights = int(np.count_nonzero(last["ours"].x))
        for strength in (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0):
            model = LogisticRegression(penalty="l1", solver="liblinear", C=strength)
            if np.count_nonzero(model.fit(X, y).coef_) >= weights:
                break
        times = interleaved({"ours": ours, "peer": lambda model=model: model.fit(X, y)}, repeats)
        found.append(
            {
                "share": share,
                "ours": median(times["ours"]),
                "peer": median(times["peer"]),
                "ratio": ratio(times["ours"], times["peer"]),
                "weights": weights,
                "peer weights": int(np.count_nonzero(model.coef_)),
                "gap": last["ours"].gap,
                "kind": last["ours"].certificate.kind,
                "zeros": int(last["ours"].instance.zero_weights(last["ours"]).sum()),
                "scans": _share_of_scans(ours),
            }
        )
    return found


def _share_of_scans(solve: Any) -> float:
    """Time the looks at all columns within a solve."""
    from unittest.mock import patch

    from convexrank.solvers.working_sets import working_sets

    spent, look = [0.0], working_sets._look

    def timed(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        found = look(*arguments, **options)
        spent[0] += time.perf_counter() - start
        return found

    with patch.object(working_sets, "_look", timed):
        start = time.perf_counter()
        solve()
        return spent[0] / (time.perf_counter() - start)


def elastic(repeats: int) -> dict[str, Any]:
    """Time elastic nets of falling l2, and saga's."""
    import warnings

    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    import convexrank as cr

    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 10_000))
    scores = X[:, :20] @ rng.normal(size=20)
    noisy = scores + 0.5 * scores.std() * rng.normal(size=len(X))
    y = (noisy > np.median(noisy)).astype(int)
    ends: dict[str, tuple[int, str]] = {}
    contenders: dict[str, Any] = {}
    for p in (1, 4):
        top = cr.problems.PNormPush(X, y, p=p, l1=1.0).l1_max()
        for l2 in (1.0, 0.01, 0.0001):
            name = f"working-sets, p = {p}, l2 = {l2:g}"

            def ours(p: int = p, l2: float = l2, top: float = top, name: str = name) -> None:
                found = cr.problems.PNormPush(X, y, p=p, l2=l2, l1=0.2 * top).solve("working-sets", tol=_TOL)
                ends[name] = int(np.count_nonzero(found.x)), f"{found.gap:.0e}"

            contenders[name] = ours
    model = LogisticRegression(penalty="elasticnet", solver="saga", l1_ratio=0.5, C=0.2, max_iter=100)

    def saga() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            ends["saga"] = int(np.count_nonzero(model.fit(X, y).coef_)), ""

    contenders["saga"] = saga
    times = interleaved(contenders, repeats)
    return {
        "rows": [(name, median(times[name]), *ends[name]) for name in contenders],
        "ratio": ratio(times["working-sets, p = 1, l2 = 0.01"], times["saga"]),
    }


def path(repeats: int) -> dict[str, Any]:
    """Time a path of 100 strengths, and celer's where it is installed."""
    import numpy as np
    from scipy import sparse

    import convexrank as cr

    X, y = _rows()
    problem = cr.problems.PNormPush(X, y, p=1, l1=1.0)
    ends: dict[str, int] = {}

    def ours() -> None:
        ends["convexrank, to 1/100"] = int(cr.path(problem, l1="auto", n=100, tol=_TOL).counts[-1])

    contenders: dict[str, Any] = {"convexrank, to 1/100": ours}
    if find_spec("celer") is not None:
        from celer import celer_path

        columns, signs = sparse.csc_matrix(X), 2.0 * y - 1.0
        top = float(np.abs(columns.T @ signs).max()) / 2.0
        for ratio_, name in ((1e-2, "celer, to 1/100"), (3e-4, "celer, to 1/3000")):

            def peer(ratio_: float = ratio_, name: str = name) -> None:
                found = celer_path(
                    columns, signs, "logreg", alphas=top * np.geomspace(1.0, ratio_, 100), tol=_TOL
                )
                ends[name] = int(np.count_nonzero(found[1][:, -1]))

            contenders[name] = peer
    times = interleaved(contenders, repeats)
    mine = times["convexrank, to 1/100"]
    return {
        "rows": [(name, median(times[name]), ends[name]) for name in contenders],
        "ratios": [(name, ratio(mine, times[name])) for name in list(contenders)[1:]],
    }


def curved() -> list[tuple[Any, ...]]:
    """Fit rankers over thresholds and LightGBM; judge them by the top of the list on other rows."""
    import numpy as np
    from instances import magic
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    import convexrank as cr

    X, y = magic()
    order = np.random.default_rng(0).permutation(len(y))
    fitted, held = order[:13_000], order[13_000:]
    found: list[tuple[Any, ...]] = []

    def judge(name: str, fit: Any, gap: str = "") -> None:
        start = time.perf_counter()
        score, bound = fit()
        seconds = time.perf_counter() - start
        scores = score(X[held])
        partial = roc_auc_score(y[held], scores, max_fpr=0.01)
        top = int(cr.metrics.positives_at_top(y[held], scores))
        found.append((name, seconds, roc_auc_score(y[held], scores), partial, top, bound))

    def ranker(features: str, p: float, share: float, tol: float, bins: int) -> Any:
        def fit() -> Any:
            design: Any = cr.features.Thresholds(X[fitted], bins=64)
            if features == "products":
                design = cr.features.Stacked([design, cr.features.Products(X[fitted], bins=bins)])
            top = cr.problems.PNormPush(design, y[fitted], p=p, l1=1.0).l1_max()
            solution = cr.problems.PNormPush(design, y[fitted], p=p, l1=share * top).solve(tol=tol)
            return lambda rows: design.transform(rows) @ solution.x, f"{solution.gap:.0e}"

        return fit

    ranker("products", 4.0, 0.9, 1e-2, 2)()  # what is compiled is compiled here
    judge(
        "logistic regression", lambda: (LogisticRegression().fit(X[fitted], y[fitted]).decision_function, "")
    )
    if find_spec("lightgbm") is not None:
        from lightgbm import LGBMClassifier

        def boosted(**options: Any) -> Any:
            model = LGBMClassifier(verbose=-1, **options).fit(X[fitted], y[fitted])
            return lambda rows: model.predict_proba(rows)[:, 1], ""

        judge("LightGBM", boosted)
        judge("LightGBM, depth 1", lambda: boosted(max_depth=1, num_leaves=2, n_estimators=500))
    judge("thresholds, p = 1", ranker("thresholds", 1.0, 0.01, 1e-6, 64))
    judge("thresholds, p = 16", ranker("thresholds", 16.0, 0.03, 1e-6, 64))
    judge("products, p = 4", ranker("products", 4.0, 0.02, 1e-4, 12))
    return found


def _rows() -> tuple[Any, Any]:
    """75 words a row by Zipf's law, rows of length 1; 200 of the 3 000 commonest words make the score."""
    import numpy as np
    from scipy import sparse

    rng, n, d, words = np.random.default_rng(0), 20_000, 47_000, 75
    shares = 1.0 / np.arange(1, d + 1) ** 0.9
    columns = rng.choice(d, size=(n, words), p=shares / shares.sum())
    entries = (np.repeat(np.arange(n), words), columns.ravel())
    X = sparse.csr_array((rng.random(n * words) + 0.1, entries), shape=(n, d))
    X.sum_duplicates()
    X = sparse.csr_array(sparse.diags_array(1.0 / np.sqrt(X.multiply(X).sum(axis=1))) @ X)
    # liblinear takes 32-bit indices only
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    weights = np.zeros(d)
    weights[rng.choice(3_000, 200, replace=False)] = 5.0 * rng.normal(size=200)
    scores = X @ weights
    noisy = scores + 0.5 * scores.std() * rng.normal(size=n)
    return X, (noisy > np.quantile(scores, 0.8)).astype(int)


def _docstrings() -> tuple[Any, Any]:
    from text import docstrings

    return docstrings()


# By the name of a row.
_DATA: dict[str, Callable[[], tuple[Any, Any]]] = {"20 000 × 47 000": _rows, "docstrings": _docstrings}
