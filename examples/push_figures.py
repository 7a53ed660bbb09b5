"""ROC curves of the P-Norm Push over many random splits: the figures of the 2005 and of the 2009 paper.

C. Rudin, Ranking with a P-Norm Push, TR2005-874 (2005), figures 2 to 7, and The P-Norm Push, JMLR 10 (2009), figures 5
to 7. Both papers draw one split. Here each experiment is repeated on many; ``examples/results/push_figures.json`` has
what came out:

    python examples/push_figures.py                 # all settings, ten minutes
    python examples/push_figures.py pima housing    # some of them
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import real_data
import shipped_results
import tables_3_to_5 as tables
from scipy.optimize import linprog
from sklearn.preprocessing import minmax_scale

from convexrank import ConvergenceWarning, metrics, problems

Array = np.ndarray
Split = tuple[Array, Array]

FILE = "push_figures"
POWERS = (1, 2, 4, 8, 16, 64)
ROUNDS = 200  # of boosting, in the 2005 paper
SPLITS = 30
PARTS = ("training", "test")
RATES = np.linspace(0, 1, 13)
POINTS = 16

# The thresholds of the 2005 paper, four for each column of pima.
THRESHOLDS = (
    (2, 3, 6, 7),
    (100, 130, 150, 160),
    (60, 65, 72, 90),
    (1, 10, 20, 30),
    (30, 50, 80, 100),
    (30, 32, 35, 37),
    (0.1, 0.2, 0.3, 0.5),
    (30, 33, 36, 40),
)


@dataclass(frozen=True)
class Setting:
    """One experiment of a paper.

    Parameters
    ----------
    figure : str
        The figure that shows it.
    load : function
        Returns features and labels.
    training : int
        Number of training rows; 0 for the first of three folds.
    step : int
        Distance of the false positives at which the top of a curve is recorded.
    columns : tuple
        Values of p, and "IR" for the IR Push.
    rounds : int
        Rounds of boosting; 0 for the exact minimiser.
    exact : bool
        Whether the exact minimiser is computed beside boosting; without sense where most splits have none.
    """

    figure: str
    load: Callable[[], Split]
    training: int
    step: int = 1
    columns: tuple[Any, ...] = POWERS
    rounds: int = ROUNDS
    exact: bool = True

    def split(self, y: Array, seed: int) -> Split:
        """Return the rows for training and for testing of one random split."""
        if self.training:
            return tables.one_draw(len(y), self.training, seed)[0]
        return tables.three_folds(y, seed)[0]


def _scaled(
    loader: Callable[[], Split], low: float = -1.0, columns: slice = slice(None)
) -> Callable[[], Split]:
    def load() -> Split:
        X, y = loader()
        return minmax_scale(X[:, columns], (low, 1.0)), y

    return load


def thresholds() -> Split:
    """Return pima with the 32 columns x_j > t."""
    X, y = real_data.pima()
    return np.column_stack([X[:, j] > t for j, row in enumerate(THRESHOLDS) for t in row]).astype(float), y


PAPER_2005 = {
    "pima": Setting("Figure 2", _scaled(real_data.pima), 300, 2),
    "pima, thresholds": Setting("Figure 3", thresholds, 300, 2, exact=False),
    "wdbc": Setting("Figure 4", _scaled(real_data.wdbc, columns=slice(6)), 369),
    "tic-tac-toe": Setting("Figure 5", _scaled(real_data.tic_tac_toe), 500, 2),
    "housing": Setting("Figure 6", _scaled(real_data.housing), 300, 3),
    "pima, 50 rows": Setting("Figure 7", _scaled(real_data.pima), 50, 3),
}
PAPER_2009 = {
    "MAGIC": Setting("Figure 5", _scaled(real_data.magic, 0.0), 1000, 12, tables.COLUMNS, 0),
    "ionosphere": Setting(
        "Figure 6", _scaled(lambda: real_data.ionosphere("b"), 0.0, slice(-5, None)), 0, 1, tables.COLUMNS, 0
    ),
    "housing, three folds": Setting("Figure 7", _scaled(real_data.housing, 0.0), 0, 3, tables.COLUMNS, 0),
}
SETTINGS = PAPER_2005 | PAPER_2009


def curve(y: Array, scores: Array) -> Array:
    """Return the number of positives above the first, second, ... negative of the list; a tie is not above."""
    return y.sum() - np.searchsorted(np.sort(scores[y]), -np.sort(-scores[~y]), side="right")


def fit(X: Array, y: Array, column: Any, rounds: int) -> Array:
    """Return weights: after so many rounds of boosting, or the exact minimiser where rounds is 0."""
    if not rounds:
        return tables.fit(X, y, column).x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return problems.PNormPush(X, y, p=column).solve("boosting", max_iter=rounds).x


def no_minimiser(X: Array, y: Array) -> bool:
    """Whether a linear score ranks no pair wrongly and some pair rightly: then no weights are best.

    All positives would have to be at or above a threshold, all negatives at or below. The linear program maximises the
    sum of the differences of pairs that have one, with weights between -1 and 1.
    """
    side = np.where(y, 1.0, -1.0)[:, None]
    system = side * np.column_stack([X, -np.ones(len(y))])
    bounds = [(-1, 1)] * X.shape[1] + [(None, None)]
    answer = linprog(-system.sum(axis=0), A_ub=-system, b_ub=np.zeros(len(y)), bounds=bounds, method="highs")
    return bool(answer.fun < -1e-6)


def one_split(setting: Setting, X: Array, y: Array, seed: int, rounds: int | None = None) -> dict[str, Any]:
    """Return for each part the curves at the top, those at all rates, and the AUC; a row per column of the setting."""
    train, test = setting.split(y, seed)
    weights = [
        fit(X[train], y[train], c, setting.rounds if rounds is None else rounds) for c in setting.columns
    ]
    found = {}
    for part, rows in zip(PARTS, (train, test), strict=True):
        curves = [curve(y[rows], X[rows] @ w) for w in weights]
        last = len(curves[0]) - 1
        top = np.minimum(setting.step * np.arange(POINTS), last)
        found[part] = {
            "top": np.array([c[top] for c in curves]),
            "rates": np.array([c[np.round(RATES * last).astype(int)] for c in curves]) / y[rows].sum(),
            "auc": np.array([metrics.auc(y[rows], X[rows] @ w) for w in weights]),
        }
    return found


def run(setting: Setting, splits: int = SPLITS) -> dict[str, Any]:
    """Return an experiment's results as lists: of each split the first entry of each curve, and means."""
    X, y = setting.load()
    drawn = [one_split(setting, X, y, seed) for seed in range(splits)]
    trained = [setting.split(y, seed)[0] for seed in range(splits)]
    results: dict[str, Any] = {"splits": splits}
    for part in PARTS:
        top, rates, auc = (np.array([d[part][key] for d in drawn]) for key in ("top", "rates", "auc"))
        results[part] = {
            "first": top[:, :, 0].tolist(),
            "auc": np.round(mean_and_error(auc), 4).tolist(),
            "mean": np.round(top.mean(axis=0), 1).tolist(),
            "spread": np.round(top.std(axis=0, ddof=1), 1).tolist(),
            "split 0": top[0].tolist(),
        }
        if part == "test":
            results[part]["rates"] = np.round(rates.mean(axis=0), 3).tolist()
    results["no minimiser"] = sum(no_minimiser(X[rows], y[rows]) for rows in trained)
    if setting.rounds and setting.exact:
        exact = [one_split(setting, X, y, seed, 0) for seed in range(splits)]
        results["exact"] = {
            part: np.round(np.mean([d[part]["top"][:, 0] for d in exact], axis=0), 1).tolist()
            for part in PARTS
        }
    return results


def mean_and_error(rows: Any) -> tuple[Array, Array]:
    """Return the mean over splits (rows) and its standard error."""
    values = np.array(rows, dtype=float)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def crossing(setting: Setting, mean: Any, first: int = 0, last: int = POWERS.index(64)) -> int | None:
    """Return the number of false positives at which the mean curve of a large p falls below that of a small one."""
    below = np.flatnonzero(np.diff(np.array(mean)[[first, last]], axis=0)[0] < 0)
    return int(setting.step * below[0]) if len(below) else None


def show(name: str, results: dict[str, Any]) -> str:
    """Write positives above the first negative, and the AUC, as means with standard errors."""
    setting = SETTINGS[name]
    heads = [f"p={c}" if c != "IR" else "IR" for c in setting.columns]
    lines = [
        f"{name} ({setting.figure}), {results['splits']} splits",
        " " * 34 + "".join(f"{h:>12}" for h in heads),
    ]
    for part in PARTS:
        heads, auc = mean_and_error(results[part]["first"]), results[part]["auc"]
        for label, (mean, error), digits in (("above the first negative", heads, 1), ("AUC", auc, 3)):
            cells = (f"{m:.{digits}f}±{e:.{digits}f}" for m, e in zip(mean, error, strict=True))
            lines.append(f"  {part + ', ' + label:<32}" + "".join(f"{cell:>12}" for cell in cells))
        if "exact" in results:
            cells = results["exact"][part]
            lines.append(f"  {part + ', exact minimiser':<32}" + "".join(f"{c:>10.1f}  " for c in cells))
    return "\n".join(lines)


def main(names: list[str]) -> None:
    """Run the named settings, or all, and write what came out beside the results that are there."""
    try:
        written = shipped_results.read(FILE)
    except FileNotFoundError:
        written = {}
    for name in names or SETTINGS:
        written[name] = run(SETTINGS[name])
        print(show(name, written[name]), flush=True)
        shipped_results.write(FILE, {key: written[key] for key in SETTINGS if key in written})


if __name__ == "__main__":
    main(sys.argv[1:])
