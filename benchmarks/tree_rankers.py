"""Pushes over thresholds, products and leaves beside boosted trees, on splits of one binary collection."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

from instances import data_file

__all__ = ["LEAVES", "PATIENCE", "RATES", "ROUNDS", "Notes", "binary", "development", "spambase"]

# Settings of LightGBM among which the validation part chooses, each with early stopping there.
LEAVES, RATES, ROUNDS, PATIENCE = (7, 15, 31), (0.02, 0.05, 0.1), 500, 30
# Of ExtraTrees: the least rows of a leaf.
_LEAST, _TREES = (1, 3), 100
# Strengths: of l1 as shares of the largest that matters, and of l2.
_SHARES, _POINTS = 0.01, 8
_ON_PRODUCTS, _ON_LEAVES = (30.0, 10.0, 3.0, 1.0, 0.3), (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
_TOLERANCE = 1e-4

Scores = Callable[[Any], Any]


class Notes:
    """What the fits of each ranker gave, in a form that JSON takes."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}

    def add(self, name: str, fit: Callable[[], Any], judge: Callable[[Scores], tuple[Any, float]]) -> None:
        """Time a fit, choice included, and judge its scores of the test rows and of the rows to choose."""
        start = time.process_time()
        scores, solution = fit()
        seconds = time.process_time() - start
        empty: dict[str, Any] = {"test": [], "choose": [], "seconds": [], "gaps": [], "kind": ""}
        entry = self.found.setdefault(name, empty)
        test, choose = judge(scores)
        entry["test"].append([float(value) for value in test])
        entry["choose"].append(float(choose))
        entry["seconds"].append(seconds)
        if solution is not None:
            entry["gaps"].append(solution.gap / max(1.0, abs(solution.value)))
            entry["kind"] = solution.certificate.kind


class _Split:
    """One random split: 55 % of the rows to fit, 15 % to choose, 30 % to judge."""

    def __init__(self, X: Any, y: Any, seed: int) -> None:
        import numpy as np

        order = np.random.default_rng(seed).permutation(len(y))
        fit, choose, held = np.split(order, [int(0.55 * len(y)), int(0.7 * len(y))])
        self.X, self.y, self.Xc, self.yc, self.Xh, self.yh = (
            *(X[fit], y[fit]), *(X[choose], y[choose]), *(X[held], y[held]),
        )  # fmt: skip
        self.both = np.concatenate([fit, choose])
        self.X_both, self.y_both = X[self.both], y[self.both]

    def judge(self, scores: Scores) -> tuple[list[float], float]:
        """Measures on the test rows, and the partial AUC of the rows to choose."""
        from sklearn.metrics import roc_auc_score

        import convexrank as cr

        found = scores(self.Xh)
        top = cr.metrics.positives_at_top(self.yh, found)
        measures = [roc_auc_score(self.yh, found), partial(self.yh, found), float(top)]
        return measures, partial(self.yc, scores(self.Xc))

    def path(
        self, rows: Any, read: Scores, p: float, fixed: float = 0.0, **options: Any
    ) -> tuple[Scores, Any]:
        """Follow a strength, and take the solution with the best partial AUC on the rows to choose; fixed is l2."""
        import convexrank as cr

        strengths: dict[str, Any] = {"l1": 1.0, "l2": fixed} if "l1" in options else {"l2": 1.0}
        problem = cr.problems.PNormPush(rows, self.y, p=p, **strengths)
        chosen = cr.path(
            problem, tol=_TOLERANCE, metric=partial, validation=(read(self.Xc), self.yc), **options
        ).best()
        return lambda X: read(X) @ chosen.x, chosen


def partial(labels: Any, scores: Any) -> float:
    """Return the area under the curve below a rate of false positives of 1 %, scaled so that chance is 0.5."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels, scores, max_fpr=0.01))


def binary(name: str, splits: int) -> dict[str, Any]:
    """Fit pushes over thresholds, products and leaves, and their peers, on splits 1, 2, …; 0 is for development."""
    X, y = _rows(name)
    notes = Notes()
    for seed in range(1, splits + 1):
        split = _Split(X, y, seed)
        if seed == 1:  # what is compiled is compiled here
            for features in ("products, l1", "products, l2", "leaves, l2"):
                _push(split, 4.0, features)
        for called, fit in _peers(split).items():
            notes.add(called, fit, split.judge)
        notes.add("p = 4, the columns", lambda split=split: _push(split, 4.0, "columns"), split.judge)
        for features, powers in (
            ("thresholds, l1", (1.0, 4.0, 16.0)),
            ("products, l1", (1.0, 4.0)),
            ("products, l2", (1.0, 4.0)),
            ("leaves, l2", (1.0, 4.0)),
        ):
            for p in powers:
                fit = lambda split=split, p=p, features=features: _push(split, p, features)  # noqa: E731
                notes.add(f"p = {p:g}, {features}", fit, split.judge)
    return notes.found


def development(name: str) -> dict[str, Any]:
    """On split 0: what was tried, and what the choice of the rows above rests on."""
    split, notes = _Split(*_rows(name), 0), Notes()
    _push(split, 4.0, "products, l1")  # what is compiled is compiled here
    for features, powers in (
        ("products, l1", (4.0, 8.0, 16.0)),
        ("products of 24 thresholds, l1", (4.0,)),
        ("products and columns, l1", (4.0,)),
        ("products, l1 and l2 = 0.001", (4.0,)),
        ("products, l1, refitted on its columns with l2", (4.0,)),
        ("products, l2, of one direction", (4.0,)),
        ("products, l2", (4.0, 16.0)),
        ("leaves of LightGBM, l1", (4.0,)),
        ("leaves of LightGBM, l2", (4.0,)),
        ("leaves, l1", (4.0,)),
        ("leaves, l2", (4.0,)),
    ):
        for p in powers:
            notes.add(f"p = {p:g}, {features}", lambda p=p, f=features: _push(split, p, f), split.judge)
    for called, fit in _peers(split).items():
        if "defaults" not in called:  # it fits the rows to choose
            notes.add(called, fit, split.judge)
    return notes.found


def _push(split: _Split, p: float, features: str) -> tuple[Scores, Any]:
    """Fit a push, its strength chosen on the rows to choose; ``features`` names the columns and the penalty."""
    if features == "columns":
        return split.path(split.X, lambda X: X, p, l1="auto", n=_POINTS, ratio=_SHARES)
    if features.startswith("leaves"):
        return max(_on_leaves(split, p, features), key=lambda pair: partial(split.yc, pair[0](split.Xc)))
    if features == "products, l2" and split.X.shape[1] < 20:  # four times as many pairs
        return split.path(*_both_directions(split.X), p, l2=_ON_PRODUCTS)
    rows, read = _design(split.X, features)
    if features in ("products, l2", "products, l2, of one direction"):
        return split.path(rows, read, p, l2=_ON_PRODUCTS)
    fixed = {"fixed": 1e-3} if "l1 and l2" in features else {}
    scores, chosen = split.path(rows, read, p, l1="auto", n=_POINTS, ratio=_SHARES, **fixed)
    if "refitted" not in features:
        return scores, chosen
    import numpy as np

    places = np.flatnonzero(chosen.x)
    return split.path(rows.columns(places), lambda X: read(X).columns(places), p, l2=_ON_PRODUCTS)


def _design(X: Any, features: str) -> tuple[Any, Scores]:
    """The columns, never built, and the same columns of other rows."""
    import convexrank as cr

    few = X.shape[1] < 20
    thresholds = cr.features.Thresholds(X, bins=64 if few else 16)
    if features.startswith("thresholds"):
        return thresholds, thresholds.transform
    bins = (
        24 if "24 thresholds" in features else 12 if few else 4 if features.startswith("products, l2") else 2
    )
    products = cr.features.Products(X, bins=bins)
    made = cr.features.Stacked([thresholds, products])
    if "and columns" in features:
        return cr.features.Stacked([X, made]), lambda rows: cr.features.Stacked([rows, made.transform(rows)])
    return made, made.transform


def _both_directions(X: Any) -> tuple[Any, Scores]:
    """Products of all pairs of features, each above or below a threshold: x > a is also −x < −a."""
    import numpy as np

    import convexrank as cr

    d = X.shape[1]
    pairs = [(j + i, k + m) for j, k in combinations(range(d), 2) for i in (0, d) for m in (0, d)]
    design = cr.features.Products(np.hstack([X, -X]), bins=16, pairs=pairs)
    return design, lambda X: design.transform(np.hstack([X, -X]))


def _on_leaves(split: _Split, p: float, features: str) -> list[tuple[Scores, Any]]:
    """A path on the leaves of each ensemble."""
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import ExtraTreesClassifier

    import convexrank as cr

    boosted = "LightGBM" in features
    ensembles: list[Any] = [
        ExtraTreesClassifier(_TREES, min_samples_leaf=least, random_state=0) for least in _LEAST
    ]
    if boosted:
        ensembles = [LGBMClassifier(verbose=-1, n_jobs=1, num_leaves=leaves) for leaves in LEAVES]
    along: dict[str, Any] = {"l2": _ON_LEAVES}
    if features.endswith("l1"):
        along = {"l1": "auto", "n": _POINTS, "ratio": _SHARES}
    found = []
    for ensemble in ensembles:
        leaves = cr.LeafFeatures(ensemble).fit(split.X, split.y)
        found.append(split.path(leaves.transform(split.X), leaves.transform, p, **along))
    return found


def _peers(split: _Split) -> dict[str, Callable[[], tuple[Scores, Any]]]:
    """LightGBM with its defaults, which fits the rows to choose, too; both libraries with settings chosen there."""
    from lightgbm import LGBMClassifier, early_stopping
    from sklearn.ensemble import ExtraTreesClassifier

    def scores_of(model: Any) -> Scores:
        return lambda X: model.predict_proba(X)[:, 1]

    def best(models: list[Any]) -> tuple[Scores, Any]:
        return scores_of(max(models, key=lambda model: partial(split.yc, scores_of(model)(split.Xc)))), None

    def default() -> tuple[Scores, Any]:
        return scores_of(LGBMClassifier(verbose=-1, n_jobs=1).fit(split.X_both, split.y_both)), None

    def tuned() -> tuple[Scores, Any]:
        found = []
        for leaves in LEAVES:
            for rate in RATES:
                model = LGBMClassifier(
                    verbose=-1, n_jobs=1, num_leaves=leaves, learning_rate=rate, n_estimators=ROUNDS
                )
                stop = early_stopping(PATIENCE, first_metric_only=True, verbose=False)
                watched = {"eval_set": [(split.Xc, split.yc)], "eval_metric": "auc", "callbacks": [stop]}
                found.append(model.fit(split.X, split.y, **watched))
        return best(found)

    def extra() -> tuple[Scores, Any]:
        made = [ExtraTreesClassifier(_TREES, min_samples_leaf=least, random_state=0) for least in _LEAST]
        return best([model.fit(split.X, split.y) for model in made])

    return {
        "LightGBM, defaults": default,
        "LightGBM, nine settings": tuned,
        "ExtraTrees, two settings": extra,
    }


def spambase() -> Path:
    """Return where spambase is looked for."""
    return data_file("spambase", "spambase.data")


def _rows(name: str) -> tuple[Any, Any]:
    """MAGIC; or spambase: 57 frequencies of words and runs of capitals, as logarithms, and 1 for spam."""
    import numpy as np
    from instances import magic

    if name == "MAGIC":
        return magic()
    table = np.loadtxt(spambase(), delimiter=",")
    X = np.log1p(table[:, :-1])
    return (X - X.mean(axis=0)) / X.std(axis=0), table[:, -1].astype(int)
