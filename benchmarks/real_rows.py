"""Rows of tables as published: leaves of trees, solves of three tables, weak l1 on MAGIC, a price of one's own."""

from __future__ import annotations

import time
from typing import Any

from instances import MAGIC, magic
from measure import JobFailed, fresh, fresh_together
from real_solves import solves
from report import Section, Table, Target, absent, at_most, joined, seconds_text
from tree_rankers import spambase

_POWERS, _STRENGTHS = (1, 4, 16), (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
_WEAK, _PRODUCTS, _PATIENCE = 2e-4, 1e-3, 120.0


def real_rows(effort: int) -> Section:
    """Time grids of fits over leaves, and single fits with a weak l1; what lacks its file is left out, and said."""
    return joined([_leaves(effort), solves(effort), _weak(), _verified(effort)])


def _leaves(effort: int) -> Section:
    title = "Leaves of trees, 18 fits"
    if not spambase().exists():
        return absent(title, "spambase.data")
    rows, targets = [], []
    for trees in (100, 400) if effort else (100,):
        found = fresh("real_rows:leaves", trees=trees).result
        times = seconds_text(found["apart"]), seconds_text(found["along"]), seconds_text(found["peer"])
        rows.append((f"{trees}", found["shape"], *times, f"{found['gap']:.0e}"))
        targets.append(
            at_most(f"18 fits over the leaves of {trees} trees, Spambase", found["along"], 10.0, " s")
        )
    columns = ("trees", "rows × leaves", "18 single fits", "three paths", "LightGBM", "largest gap")
    note = (
        "Spambase, 2 800 rows: PNormPush over LeafFeatures of LightGBM with 31 leaves, p = 1, 4, 16 and six l2 "
        "from 0.1 to 1e-6, tol = 1e-8; one by one, and by cr.path over l2 for each p. "
        "LightGBM: its own fit. Seconds of the processor, one thread."
    )
    return Section((Table(title, columns, tuple(rows), note),), tuple(targets))


def _weak() -> Section:
    title = "Weak l1"
    if not MAGIC.exists():
        return absent(title, "magic04.data")
    rows, targets = [], []
    for name, p, wanted in (("thresholds", 1, 2.0), ("thresholds", 4, 2.0), ("products", 4, 30.0)):
        found = fresh("real_rows:weak", name=name, p=p).result
        ends = found["status"], f"{found['gap']:.0e}", str(found["weights"])
        rows.append((name, f"{p}", found["shape"], seconds_text(found["seconds"]), *ends))
        met = found["status"] == "CONVERGED" and found["seconds"] <= wanted
        measured = f"{found['seconds']:.1f} s, {found['status']}"
        targets.append(
            Target(f"PNormPush p = {p}, weak l1, {name} of MAGIC", f"≤ {wanted:g} s", measured, met)
        )
    note = (
        f"13 000 rows. Thresholds: l1 = {_WEAK:g}. Products: l1 = {_PRODUCTS:g} λmax. Seconds of the "
        "processor; a solve is ended after 120 s of the clock."
    )
    columns = ("features", "p", "rows × columns", "seconds", "status", "gap", "weights")
    return Section((Table(title, columns, tuple(rows), note),), tuple(targets))


def _verified(effort: int) -> Section:
    title, what = "Verification of a price of one's own", "cr.verify, push with a price of one's own"
    rows = 400 if effort else 40
    try:
        found = fresh_together("real_rows:verified", [{"rows": rows}], limit=_PATIENCE)[0].result
    except JobFailed as error:  # stops no other row
        table = Table(title, ("not measured",), ((str(error),),))
        return Section((table,), (Target(f"{what}, {rows} rows", "≤ 5 s", "no end", False),))
    cells = ((found["shape"], seconds_text(found["seconds"]), "agree" if found["ok"] else "DISAGREE"),)
    note = (
        "Push with the price r² + r, written as a function, and the logistic loss: rows of scikit-learn's table of "
        "breast cancer, its first six features in units. cr.verify solves it fast and by the conic model, and "
        "evaluates the definition, pair by pair. Seconds of the processor."
    )
    table = Table(title, ("rows × features", "seconds", "verdict"), cells, note)
    return Section((table,), (at_most(what, found["seconds"], 5.0, " s"),))


def verified(rows: int) -> dict[str, Any]:
    """Verify once, after a small instance that compiles."""
    from sklearn.datasets import load_breast_cancer

    import convexrank as cr

    X, benign = load_breast_cancer(return_X_y=True)
    X, y = X[:rows, :6], 1 - benign[:rows]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    price = cr.prices.Custom(lambda r: cr.atoms.square(r) + r)

    def push(count: int) -> Any:
        return cr.problems.Push(X[:count], y[:count], price=price, loss="logistic", l2=1e-2)

    cr.verify(push(30))
    start = time.process_time()
    report = cr.verify(push(rows))
    seconds = time.process_time() - start
    return {"seconds": seconds, "ok": report.ok, "shape": f"{X.shape[0]} × {X.shape[1]}"}


def leaves(trees: int) -> dict[str, Any]:
    """Fit the trees, and all pairs of p and l2 on their leaves: one by one, and along l2."""
    import numpy as np
    from lightgbm import LGBMClassifier

    import convexrank as cr

    table = np.loadtxt(spambase(), delimiter=",")
    some = np.random.default_rng(0).permutation(len(table))[:2_800]
    X, y = table[some, :-1], table[some, -1].astype(int)
    model = LGBMClassifier(n_estimators=trees, verbose=-1, n_jobs=1)
    start = time.process_time()
    model.fit(X, y)
    peer = time.process_time() - start
    columns = cr.LeafFeatures(model).fit(X, y).transform(X)
    cr.problems.PNormPush(columns, y, p=1, l2=1.0).solve()
    start = time.process_time()
    for p in _POWERS:
        for l2 in _STRENGTHS:
            cr.problems.PNormPush(columns, y, p=p, l2=l2).solve()
    apart, start = time.process_time() - start, time.process_time()
    paths = [cr.problems.PNormPush(columns, y, p=p, l2=1.0).path(l2=_STRENGTHS, tol=1e-8) for p in _POWERS]
    along = time.process_time() - start
    gap = max(float(path.gaps.max()) for path in paths)
    shape = f"{columns.shape[0]} × {columns.shape[1]}"
    return {"apart": apart, "along": along, "peer": peer, "gap": gap, "shape": shape}


def weak(name: str, p: float) -> dict[str, Any]:
    """Fit once with a weak l1, after a fit that compiles."""
    import warnings

    import numpy as np

    import convexrank as cr

    X, y = magic()
    some = np.random.default_rng(0).permutation(len(y))[:13_000]
    design: Any = cr.features.Thresholds(X[some], bins=64)
    if name == "products":
        design = cr.features.Stacked([design, cr.features.Products(X[some], bins=12)])
    problem = cr.problems.PNormPush(design, y[some], p=p, l1=1.0)
    top = problem.l1_max()
    problem.changed(l1=0.9 * top).solve()
    l1 = _WEAK if name == "thresholds" else _PRODUCTS * top
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        start = time.process_time()
        found = problem.changed(l1=l1).solve(time_limit=_PATIENCE)
        seconds = time.process_time() - start
    ends = {"status": found.status.name, "gap": found.gap, "weights": int(np.count_nonzero(found.x))}
    return {"seconds": seconds, "shape": f"{design.shape[0]} × {design.shape[1]}", **ends}
