"""How often bounds on risks are exceeded in simulations, against what they allow; and what the published ones say."""

from __future__ import annotations

from typing import Any

from measure import fresh
from report import Section, Table, at_most

_DELTA = 0.05
_SETTINGS = (
    # positives, negatives, p
    (50, 50, 1.0),
    (50, 5000, 1.0),
    (200, 1000, 4.0),
    (20, 20_000, 4.0),
    (1000, 200, 16.0),
    (1000, 10_000, 16.0),
)
_OF_ONE = ("truth", "empirical", "bound", "published", "exceeded")
_OF_FITTED = ("truth", "empirical", "single", "single_exceeded", "halfspaces", "halfspaces_exceeded")


def bounds(effort: int) -> Section:
    """Simulate single rankers, fitted rankers and estimates of ranking risks."""
    samples = 1000 * max(1, effort) if effort else 200
    rows, worst = [], 0.0
    for setting in _SETTINGS:
        sizes = {"positives": setting[0], "negatives": setting[1], "p": setting[2]}
        found = fresh("bounds:held_out", **sizes, samples=samples).result
        worst = max(worst, found["exceeded"])
        name = f"{setting[0]}, {setting[1]}, {setting[2]:g}"
        rows.append((name, *(f"{found[key]:.3f}" for key in _OF_ONE)))
    columns = ("I, K, p", "true risk", "empirical", "push_risk", "2005, Theorem 2", "exceeded")
    note = f"Means over {samples} samples; δ = {_DELTA:g}. Positives are normal with mean 1, negatives with mean 0."
    held_out = Table("A ranker that was fitted to other rows", columns, tuple(rows), note)
    rows, worst_fitted = [], 0.0
    for features, size in ((2, 400), (5, 2000), (150, 600)):
        found = fresh("bounds:fitted", features=features, size=size, samples=samples // 20).result
        worst_fitted = max(worst_fitted, found["halfspaces_exceeded"])
        rows.append((f"{features}, {size}", *(f"{found[key]:.3f}" for key in _OF_FITTED)))
    columns = ("features, rows", "true risk", "empirical", "for one", "exceeded", "halfspaces", "exceeded")
    note = (
        "The direction between the means of both classes, on the rows it was fitted to, p = 2: the bound for a ranker "
        "that does not depend on the rows is none; that for all linear rankers holds."
    )
    fitted = Table("A ranker that was fitted to the rows", columns, tuple(rows), note)
    rows, worst_pairs = [], 0.0
    for method in ("hoeffding", "bernstein", "chernoff"):
        found = fresh("bounds:pairs", method=method, size=60, samples=samples).result
        worst_pairs = max(worst_pairs, found["exceeded"])
        rows.append((method, *(f"{found[key]:.3f}" for key in ("truth", "bound", "exceeded"))))
    note = "60 rows of a population on three points, labels of two classes; one rule."
    pairs_table = Table(
        "Bounds on the ranking risk", ("method", "true risk", "bound", "exceeded"), tuple(rows), note
    )
    speed = fresh("bounds:speed").result
    targets = (
        at_most("push_risk on held-out rows: exceeded", worst, _DELTA),
        at_most("push_risk, halfspaces, on training rows: exceeded", worst_fitted, _DELTA),
        at_most("ranking_risk: exceeded", worst_pairs, _DELTA),
        at_most("10⁶ rows, time over that of scikit-learn's roc_auc_score", speed, 3.0),
    )
    return Section((held_out, fitted, pairs_table), targets)


def _truth(shift: float, p: float) -> float:
    """R_p of normal scores, by Gauss and Hermite."""
    import numpy as np
    from scipy.stats import norm

    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    return float((weights @ norm.cdf(nodes - shift) ** p / weights.sum()) ** (1 / p))


def held_out(positives: int, negatives: int, p: float, samples: int) -> dict[str, Any]:
    """One ranker on rows that it was not fitted to."""
    import numpy as np

    from convexrank import bounds as cr_bounds

    rng, y, truth = np.random.default_rng(1), np.arange(positives + negatives) < positives, _truth(1.0, p)
    made = [cr_bounds.push_risk(y, rng.normal(size=len(y)) + y, p, _DELTA) for _ in range(samples)]
    empirical = float(np.mean([bound.pieces["empirical"] for bound in made]))
    return {
        "truth": truth,
        "empirical": empirical,
        "bound": float(np.mean([bound.value for bound in made])),
        "published": empirical + cr_bounds.push(positives, negatives, p, delta=_DELTA).value,
        "exceeded": float(np.mean([bound.value < truth for bound in made])),
    }


def fitted(features: int, size: int, samples: int) -> dict[str, Any]:
    """The difference of the means, on its own rows."""
    import numpy as np

    from convexrank import bounds as cr_bounds

    rng, y = np.random.default_rng(2), np.arange(size) < size // 2
    columns = {name: [] for name in _OF_FITTED}
    for _ in range(samples):
        X = rng.normal(size=(size, features))
        X[y, 0] += 0.2
        w = X[y].mean(axis=0) - X[~y].mean(axis=0)
        w /= np.linalg.norm(w)
        truth, s = _truth(0.2 * w[0], 2.0), X @ w
        one = cr_bounds.push_risk(y, s, 2.0, _DELTA)
        every = cr_bounds.push_risk(y, s, 2.0, _DELTA, covering=cr_bounds.Halfspaces(features))
        values = (
            truth,
            one.pieces["empirical"],
            one.value,
            one.value < truth,
            every.value,
            every.value < truth,
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return {name: float(np.mean(column)) for name, column in columns.items()}


def pairs(method: str, size: int, samples: int) -> dict[str, Any]:
    """Estimates of the ranking risk of one rule, from a population whose risk is known."""
    import numpy as np

    from convexrank import bounds as cr_bounds
    from convexrank import metrics
    from convexrank.population import RankingModel

    eta, scores, rng = np.array([0.1, 0.4, 0.8]), np.array([1.0, 3.0, 2.0]), np.random.default_rng(3)
    truth = RankingModel(eta=eta).risk(scores)
    values = []
    for _ in range(samples):
        x = rng.integers(0, 3, size=size)
        y = (rng.random(size) < eta[x]).astype(float)
        risk = metrics.ranking_risk(y, scores[x]).value if 0 < y.sum() < size else 0.0
        values.append(cr_bounds.ranking_risk(risk, size, _DELTA, method).value)
    return {
        "truth": truth,
        "bound": float(np.mean(values)),
        "exceeded": float(np.mean(np.array(values) < truth)),
    }


def speed() -> float:
    """A bound on a million rows, over an AUC of scikit-learn in the same process: medians of five."""
    import statistics
    import time

    import numpy as np
    from sklearn.metrics import roc_auc_score

    from convexrank import bounds as cr_bounds

    rng, y = np.random.default_rng(4), np.arange(10**6) % 3 == 0
    s, taken = rng.normal(size=len(y)) + y, {"own": [], "peer": []}
    for _ in range(5):
        for name, call in (
            ("own", lambda: cr_bounds.push_risk(y, s, 4, 0.05)),
            ("peer", lambda: roc_auc_score(y, s)),
        ):
            start = time.perf_counter()
            call()
            taken[name].append(time.perf_counter() - start)
    ratio = statistics.median(taken["own"]) / statistics.median(taken["peer"])
    return ratio
