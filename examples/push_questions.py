"""Two open questions of the 2009 paper, run on data: what changes the ROC curve, and does R_max pay off.

C. Rudin, The P-Norm Push, JMLR 10 (2009), section 9.1 (which hypothesis spaces let p change the ROC curve dramatically)
and section 9.2 (is it useful to minimise R_max directly). ``examples/results/push_questions.json`` has what came out:

    python examples/push_questions.py
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import push_figures as figures
import real_data
import shipped_results
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.preprocessing import minmax_scale

from convexrank import ConvergenceWarning, metrics, problems

Array = np.ndarray

FILE = "push_questions"
SPLITS = 8
ROWS = 1000
ORDERS = (1, 2, 4, 8, 16, 64, np.inf)
WIDEST = (1, 64)

# --- section 9.1: which spaces -----------------------------------------------------------------------------------


def some_columns(count: int) -> Callable[[Array, Array, Array, np.random.Generator], Array]:
    """Return a map to so many of the columns, drawn anew for each split."""

    def build(X: Array, y: Array, train: Array, rng: np.random.Generator) -> Array:
        return X[:, rng.permutation(X.shape[1])[:count]]

    return build


def thresholds(count: int) -> Callable[[Array, Array, Array, np.random.Generator], Array]:
    """Return a map to 0-1 columns, so many thresholds a column at quantiles of the training rows."""

    def build(X: Array, y: Array, train: Array, rng: np.random.Generator) -> Array:
        cuts = np.quantile(X[train], np.arange(1, count + 1) / (count + 1), axis=0)
        return (X[:, None, :] > cuts[None]).reshape(len(X), -1).astype(float)

    return build


def products(X: Array, y: Array, train: Array, rng: np.random.Generator) -> Array:
    """Return the columns with all squares and products of two."""
    first, second = np.triu_indices(X.shape[1])
    return minmax_scale(np.column_stack([X, X[:, first] * X[:, second]]))


def oriented(X: Array, y: Array, train: Array, rng: np.random.Generator) -> Array:
    """Return the columns, those that rank the training rows the wrong way round with the other sign."""
    signs = [1.0 if metrics.auc(y[train], column) >= 0.5 else -1.0 for column in X[train].T]
    return X * signs


SPACES: dict[str, Callable[[Array, Array, Array, np.random.Generator], Array]] = {
    "1 column": some_columns(1),
    "2 columns": some_columns(2),
    "5 columns": some_columns(5),
    "all columns": some_columns(10),
    "all columns, w ≥ 0": oriented,
    "products": products,
    "2 thresholds": thresholds(2),
    "8 thresholds": thresholds(8),
    "32 thresholds": thresholds(32),
}


def without_signs(X: Array, y: Array, p: float) -> Array:
    """Return the minimiser over w ≥ 0, by L-BFGS with bounds."""
    positives, negatives = X[y], X[~y]

    def value(w: Array) -> tuple[float, Array]:
        f, g = -positives @ w, p * (negatives @ w)
        a, b = logsumexp(f), logsumexp(g)
        slope = np.exp(g - b) @ negatives - np.exp(f - a) @ positives
        return a + b / p, slope

    start = np.zeros(X.shape[1])
    return minimize(value, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start)).x


def change_of_the_curve(y: Array, scores: dict[int, Array]) -> float:
    """Return the largest difference of the true positive rates of two ROC curves at the same false positives."""
    low, high = (figures.curve(y, scores[p]) for p in WIDEST)
    return float(np.abs(high - low).max() / y.sum())


def one_space(name: str, X: Array, y: Array, seed: int, rows: int = ROWS) -> list[float]:
    """Return training AUC at p = 1, test AUC at p = 1, and the change of the training and of the test curve."""
    rng = np.random.default_rng([seed, 1])
    train, test = figures.tables.one_draw(len(y), rows, seed)[0]
    H = SPACES[name](X, y, train, rng)
    free = "≥" not in name
    weights = {
        p: figures.fit(H[train], y[train], p, figures.ROUNDS)
        if free
        else without_signs(H[train], y[train], p)
        for p in WIDEST
    }
    found = []
    for part in (train, test):
        scores = {p: H[part] @ w for p, w in weights.items()}
        found.append((metrics.auc(y[part], scores[1]), change_of_the_curve(y[part], scores)))
    (train_auc, train_change), (test_auc, test_change) = found
    return [round(value, 4) for value in (train_auc, test_auc, train_change, test_change)]


# --- section 9.2: R_max directly ---------------------------------------------------------------------------------


def power_means(y: Array, scores: Array) -> list[float]:
    """Return (R_q / (K I^q))^(1/q) for the orders q, and R_max / I: shares of the positives, smaller is better."""
    heights = metrics.heights(y, scores) / y.sum()
    logs = np.log(np.maximum(heights, 1e-300))
    finite = [float(np.exp((logsumexp(q * logs) - np.log(len(logs))) / q)) for q in ORDERS[:-1]]
    return [*finite, float(heights.max())]


def minimiser(X: Array, y: Array, p: float) -> Array:
    """Return the exact minimiser for p; for p = ∞ that of the limit, a smoothed R_max."""
    if np.isfinite(p):
        return figures.tables.fit(X, y, p).x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return problems.TopPush(X, y).solve().x


def one_matrix(setting: figures.Setting, X: Array, y: Array, seed: int) -> list[list[float]]:
    """Return test measures (columns: orders q) of the minimisers for every p (rows)."""
    train, test = setting.split(y, seed)
    rows = [power_means(y[test], X[test] @ minimiser(X[train], y[train], p)) for p in ORDERS]
    return np.round(rows, 4).tolist()


MATRICES = ("MAGIC", "pima", "wdbc", "housing")


def main() -> None:
    """Run both experiments and write what came out."""
    X, y = real_data.magic()
    X = minmax_scale(X)
    results: dict[str, Any] = {"spaces": {}, "orders": {}}
    for name in SPACES:
        results["spaces"][name] = [one_space(name, X, y, seed) for seed in range(SPLITS)]
        print(name, np.mean(results["spaces"][name], axis=0).round(3), flush=True)
    for name in MATRICES:
        setting = figures.SETTINGS[name]
        X, y = setting.load()
        drawn = np.array([one_matrix(setting, X, y, seed) for seed in range(SPLITS)])
        rest = drawn - drawn[:, [ORDERS.index(64)], :]
        results["orders"][name] = {
            "split 0": drawn[0].tolist(),
            "mean": drawn.mean(axis=0).round(4).tolist(),
            "less p=64": rest.mean(axis=0).round(4).tolist(),
            "error": (rest.std(axis=0, ddof=1) / np.sqrt(SPLITS)).round(4).tolist(),
            "all tied": int((drawn[:, -1, 0] == 1.0).sum()),
        }
        print(name, drawn.mean(axis=0).round(3), sep="\n", flush=True)
    shipped_results.write(FILE, results)


if __name__ == "__main__":
    main()
