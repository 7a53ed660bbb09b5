"""Which bounds say anything on MAGIC: what ``plot_bounds.py`` draws and the page on bounds tabulates.

``python examples/bounds_on_magic.py`` computes the table anew and writes ``results/bounds_on_magic.csv``.
Without the data the gallery draws that file.

1000 rows, which serve for nothing else, give the mean and the spread of each feature. The others are cut into a half
for training and a half that is held out. Rows are drawn towards the origin to a length of at most ``REACH``, weights
are divided by their length, and the margin is fixed: no constant of a bound is taken from the rows it is for.
"""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import convexrank as cr
from convexrank import bounds

FILE = Path(__file__).parent / "results" / "bounds_on_magic.csv"
POWERS = (1, 4, 16)
DELTA = 0.05
THETA = 0.05
REACH = 20.0
DIMENSION = 10

Array = np.ndarray


@dataclass(frozen=True)
class Row:
    """A bound: of what, by which statement, on which rows, and the empirical risk of the same rows."""

    risk: str
    statement: str
    rows: str
    bound: float
    empirical: float

    @property
    def vacuous(self) -> bool:
        """Whether the bound is above the trivial 1."""
        return self.bound >= 1.0


def halves(X: Array, y: Array, seed: int = 0) -> tuple[Array, Array, Array, Array, int]:
    """Return scaled training and held-out rows with their labels, and how many rows were drawn in."""
    order = np.random.default_rng(seed).permutation(len(y))
    aside, rest = order[:1000], order[1000:]
    X = (X - X[aside].mean(axis=0)) / X[aside].std(axis=0)
    length = np.linalg.norm(X, axis=1, keepdims=True)
    X = X * np.minimum(1.0, REACH / np.maximum(length, 1e-300))
    train, test = np.array_split(rest, 2)
    return X[train], y[train], X[test], y[test], int((length[rest] > REACH).sum())


def push_rows(X: Array, y: Array, X_test: Array, y_test: Array, p: float) -> list[Row]:
    """Bounds on the push risk of the P-Norm Push for one p."""
    weights = cr.problems.PNormPush(X, y, p=p, l2=1e-4).solve().x
    weights = weights / np.linalg.norm(weights)
    s, s_test = X @ weights, X_test @ weights
    ball, name = bounds.NormBall(DIMENSION, 1.0, REACH), f"R_{p:g}"
    I, K = int(y.sum()), int((~y).sum())  # noqa: E741
    near, empirical = (cr.metrics.push_risk(y, s, p, theta) for theta in (THETA, 0.0))
    held_out = cr.metrics.push_risk(y_test, s_test, p)

    def theorem(log_K: bool) -> float:
        return near + bounds.push(I, K, p, None, THETA, ball, delta=DELTA, log_K=log_K).value

    sizes = int(y_test.sum()), int((~y_test).sum())
    alone = held_out + bounds.push(*sizes, p, delta=DELTA, log_K=True).value
    return [
        Row(name, "2009, Theorem 2", "training", theorem(True), empirical),
        Row(name, "2005, Theorem 2", "training", theorem(False), empirical),
        Row(name, "2009, Theorem 2", "held out", alone, held_out),
        Row(name, "push_risk, halfspaces", "training",
            bounds.push_risk(y, s, p, DELTA, covering=bounds.Halfspaces(DIMENSION)).value, empirical),
        Row(name, "push_risk, ball", "training",
            bounds.push_risk(y, s, p, DELTA, theta=THETA, covering=ball).value, empirical),
        Row(name, "push_risk", "held out", bounds.push_risk(y_test, s_test, p, DELTA).value, held_out),
    ]  # fmt: skip


def ranking_rows(X: Array, y: Array, X_test: Array, y_test: Array) -> list[Row]:
    """Bounds on the ranking risk of the P-Norm Push with p = 1."""
    weights = cr.problems.PNormPush(X, y, p=1, l2=1e-4).solve().x
    n, n_test = len(y), len(y_test)
    risk = cr.metrics.ranking_risk(y.astype(float), X @ weights).value
    held_out = cr.metrics.ranking_risk(y_test.astype(float), X_test @ weights).value
    vc = bounds.rademacher_vc(n, DIMENSION)
    published = bounds.excess_risk(n, DELTA, vc, published=True).value
    rows = [
        # of an empirical minimiser: its risk is at most that of the best, which is at most what it has in the sample
        Row("L", "Corollary 3, excess", "training", published, 0.0),
        Row("L", "Corollary 3, excess, sharper", "training", bounds.excess_risk(n, DELTA, vc).value, 0.0),
        Row("L", "rademacher", "training",
            bounds.ranking_risk(risk, n, DELTA, "rademacher", complexity=vc).value, risk),
    ]  # fmt: skip
    for method in ("hoeffding", "bernstein", "chernoff"):
        value = bounds.ranking_risk(held_out, n_test, DELTA, method).value
        rows.append(Row("L", method, "held out", value, held_out))
    return rows


def computed(X: Array, y: Array) -> list[Row]:
    """Compute all rows from features and labels."""
    *parts, _ = halves(X, y)
    return [row for p in POWERS for row in push_rows(*parts, p)] + ranking_rows(*parts)


def shipped() -> list[Row]:
    """Read the rows that were computed before."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return [
            Row(row["risk"], row["statement"], row["rows"], float(row["bound"]), float(row["empirical"]))
            for row in csv.DictReader(file)
        ]


def write(rows: list[Row]) -> None:
    """Write rows to the file that is shipped, with four digits."""
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(asdict(rows[0])), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            entries: dict[str, Any] = asdict(row)
            writer.writerow(entries | {name: f"{entries[name]:.4f}" for name in ("bound", "empirical")})


if __name__ == "__main__":
    import real_data

    write(computed(*real_data.magic()))
