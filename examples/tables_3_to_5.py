"""Tables 3 to 5 of the 2009 paper: the printed numbers, the same experiments, and how the two compare.

C. Rudin, The P-Norm Push, JMLR 10 (2009), section 8. Each column is a minimiser fitted on training rows, each row of a
table a measure of its ranking of test rows. Powers of ten were left out when the tables were printed, and the splits
were random, so what can be compared is the course of a row from p = 1 to p = 64 and the IR Push.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import minmax_scale

from convexrank import ConvergenceWarning, metrics, problems

Array = np.ndarray

COLUMNS = (1, 2, 4, 8, 16, 64, "IR")
MEASURES = ("AUC", "R_2", "R_4", "R_8", "R_16", "DCG", "AveR")
_LARGER_IS_BETTER = np.array([True, False, False, False, False, True, True])

PRINTED = {
    "MAGIC": [  # Table 3
        [0.8370, 0.8402, 0.8397, 0.8363, 0.8329, 0.8288, 0.8284],
        [6.5515, 5.9731, 5.5896, 5.4806, 5.4990, 5.5819, 5.5886],
        [4.2134, 3.4875, 2.8875, 2.5638, 2.4291, 2.3651, 2.3582],
        [3.8830, 2.9138, 2.1091, 1.6266, 1.3923, 1.2396, 1.2257],
        [6.8153, 4.7208, 3.0545, 1.9698, 1.4494, 1.1096, 1.0823],
        [1.4022, 1.4048, 1.4066, 1.4084, 1.4087, 1.4087, 1.4087],
        [8.1039, 8.5172, 8.6860, 9.6701, 9.7520, 9.7679, 9.7688],
    ],
    "ionosphere": [  # Table 4
        [0.6797, 0.6732, 0.6700, 0.6612, 0.6479, 0.6341, 0.6409],
        [2.1945, 2.1931, 2.1515, 2.1213, 2.1575, 2.1974, 2.1811],
        [2.0841, 1.9891, 1.8041, 1.5911, 1.4327, 1.3104, 1.4046],
        [3.7099, 3.3459, 2.6271, 1.8950, 1.3861, 1.0823, 1.2979],
        [1.7294, 1.4558, 0.8786, 0.4236, 0.2437, 0.1884, 0.2272],
        [13.9197, 14.1308, 14.3261, 14.5902, 14.6916, 14.7903, 14.7169],
        [2.9712, 3.1610, 3.3041, 3.5084, 3.5849, 3.6571, 3.6076],
    ],
    "housing": [  # Table 5
        [0.7739, 0.7633, 0.7532, 0.7500, 0.7420, 0.7330, 0.7373],
        [3222, 3406, 3665, 3799, 3818, 3759, 3847],
        [294078, 292870, 304457, 307135, 305498, 298611, 304915],
        [3.9056, 3.5246, 3.3908, 3.2953, 3.2479, 3.3173, 3.2346],
        [1.1762, 0.9694, 0.8337, 0.8028, 0.7801, 0.8816, 0.7788],
        [3.6095, 3.6476, 3.6757, 3.6858, 3.6977, 3.6671, 3.6931],
        [0.5241, 0.5644, 0.6022, 0.6124, 0.6258, 0.6012, 0.6250],
    ],
}


def measure(y: Array, scores: Array) -> Array:
    """Return the seven measures of one ranking, in the order of ``MEASURES``."""
    powers = [metrics.r_p(y, scores, p) for p in (2, 4, 8, 16)]
    return np.array(
        [metrics.auc(y, scores), *powers, metrics.dcg(y, scores), metrics.average_reciprocal_rank(y, scores)]
    )


def fit(X: Array, y: Array, column: Any, solver: Any = None, max_iter: int | None = None):
    """Return the solution of one column: the P-Norm Push for a number, the IR Push for "IR"; no penalty, as the paper.

    A warning that data are separable is suppressed: ``solution.status`` says so, and its point ranks the training rows
    without a mistake, as well as any minimiser.
    """
    problem = problems.IRPush(X, y) if column == "IR" else problems.PNormPush(X, y, p=column)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return problem.solve(solver, max_iter=max_iter)


def one_draw(rows: int, training: int, seed: int) -> list[tuple[Array, Array]]:
    """Return one random training set and the rest as test set."""
    order = np.random.default_rng(seed).permutation(rows)
    return [(order[:training], order[training:])]


def three_folds(y: Array, seed: int) -> list[tuple[Array, Array]]:
    """Return a random threefold split that shares the positives out evenly."""
    return list(StratifiedKFold(3, shuffle=True, random_state=seed).split(y, y))


@dataclass(frozen=True)
class Experiment:
    """Repetitions of one experiment.

    Parameters
    ----------
    values : array, shape (repetitions, measures, columns)
        Test measures, means over the folds of a repetition.
    statuses : Counter
        How many fits ended in which status.
    """

    values: Array
    statuses: Counter[str]


def run(X: Array, y: Array, repetitions: list[list[tuple[Array, Array]]]) -> Experiment:
    """Fit every column on every training set and measure it on the test set; features are scaled to [0, 1] first."""
    scaled = minmax_scale(X)
    values, statuses = [], Counter()
    for splits in repetitions:
        folds = []
        for train, test in splits:
            solutions = [fit(scaled[train], y[train], column) for column in COLUMNS]
            statuses.update(solution.status.name for solution in solutions)
            folds.append([measure(y[test], scaled[test] @ solution.x) for solution in solutions])
        values.append(np.mean(folds, axis=0).T)
    return Experiment(np.array(values), statuses)


@dataclass(frozen=True)
class Comparison:
    """One printed row beside the same row computed here.

    Parameters
    ----------
    name : str
        The measure.
    printed : array, shape (columns,)
        The printed row, times the power of ten that brings it nearest.
    mean, spread : array, shape (columns,)
        Mean and standard deviation over repetitions.
    larger_is_better : bool
        Which way is up.
    """

    name: str
    printed: Array
    mean: Array
    spread: Array
    larger_is_better: bool

    def best(self, row: Array) -> Any:
        """Return the column that is best in a row."""
        return COLUMNS[int(np.argmax(row) if self.larger_is_better else np.argmin(row))]

    def improves(self, row: Array) -> bool:
        """Whether a row is better at p = 64 than at p = 1."""
        return bool((row[COLUMNS.index(64)] > row[0]) == self.larger_is_better)

    @property
    def direction_agrees(self) -> bool:
        """Whether both rows get better, or both worse, from p = 1 to p = 64."""
        return self.improves(self.printed) == self.improves(self.mean)

    @property
    def rank_correlation(self) -> float:
        """Spearman's correlation of the two rows: 1 when they order the seven columns alike."""
        return float(spearmanr(self.printed, self.mean).statistic)

    @property
    def near(self) -> int:
        """How many printed numbers lie within two standard deviations of the mean."""
        return int((np.abs(self.printed - self.mean) <= 2 * self.spread).sum())


def compare(printed: Any, values: Array) -> list[Comparison]:
    """Compare a printed table with the values of an experiment, one comparison per measure."""
    mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1)
    rows = []
    for place, name in enumerate(MEASURES):
        row = np.array(printed[place], dtype=float)
        power = round(float(np.log10(mean[place] / row).mean()))
        rows.append(
            Comparison(name, row * 10.0**power, mean[place], spread[place], bool(_LARGER_IS_BETTER[place]))
        )
    return rows


def show(comparisons: list[Comparison]) -> str:
    """Write comparisons as a table, two lines per measure."""
    heads = [f"p={c}" if c != "IR" else "IR" for c in COLUMNS]
    lines = [" " * 13 + "".join(f"{head:>10}" for head in heads) + "   best  direction  rank corr.  near"]
    for c in comparisons:
        power = int(np.floor(np.log10(c.mean.max())))
        power = power if power > 3 else 0
        unit = f"e{power}" if power else ""
        for source, row in (("printed", c.printed), ("here", c.mean)):
            numbers = "".join(f"{value / 10.0**power:>10.5g}" for value in row)
            end = f"   {c.best(row)!s:>4}  {'better' if c.improves(row) else 'worse':>9}"
            if source == "here":
                end += f"  {c.rank_correlation:>10.2f}  {c.near}/{len(COLUMNS)}"
            lines.append(f"{c.name if source == 'printed' else unit:<5}{source:<8}{numbers}{end}")
    agree = sum(c.direction_agrees for c in comparisons)
    near = sum(c.near for c in comparisons)
    lines.append(
        f"Directions that agree: {agree} of {len(comparisons)}. "
        f"Printed numbers within two standard deviations: {near} of {len(comparisons) * len(COLUMNS)}."
    )
    return "\n".join(lines)


def dcg_range(positives: int, rows: int) -> tuple[float, float]:
    """Return the smallest and the largest DCG that a ranking without ties can have."""
    y, descending = np.arange(rows) < positives, -np.arange(rows)
    return metrics.dcg(y, -descending), metrics.dcg(y, descending)
