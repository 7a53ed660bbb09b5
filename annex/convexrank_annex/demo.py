"""The demonstration behind ``convexrank demo``: effects of the push on the top and on the rest of a list.

The data are generated, so that training, validation and test rows can be drawn anew for every split. One row in twenty
is positive. Most positives have a large first feature, and so have some negatives, the look-alikes; the other positives
have a large second feature, which no negative has. A ranker that weights all pairs equally follows the first feature;
many look-alikes are at the top of its list.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from convexrank import metrics
from convexrank.backend.interruption import as_a_whole
from convexrank.commands.outcome import FINE, Outcome
from convexrank.data import check_integer, check_path
from convexrank.features import Thresholds
from convexrank.problems import PNormPush

Array = np.ndarray

POWERS = (1, 4, 16, 64)
_ROWS, _TEST_ROWS, _POSITIVE, _ALIKE = 5000, 20_000, 0.05, 0.03
_SHARE = 0.01
_RIDGES = (1e-3, 1e-1)
_LASSOS = (2e-2, 1e-2)
_BINS, _STEEP = 256, 4  # of the thresholds
_LOGISTIC, _TREES = "logistic regression", "boosted trees"


@dataclass(frozen=True)
class Fit:
    """One model on one split: its parameters, and its scores on the test rows."""

    label: str
    strength: float
    gap: float  # NaN for a classifier, which has none
    seconds: float
    scores: Array


@dataclass(frozen=True)
class Demonstration:
    """All fits on every split with the test labels, the same without look-alikes, and a check of one fit."""

    splits: list[tuple[Array, list[Fit]]]
    plain: list[tuple[Array, list[Fit]]]
    exact_difference: float


def command(arguments: argparse.Namespace) -> Outcome:
    """Return what ``convexrank demo`` prints, and write the figure."""
    target = check_output(arguments.output)

    def bar(items: list[Any]) -> Any:
        return tqdm(items, desc="splits", file=sys.stderr)

    result = run(seed=arguments.seed, progress=bar)
    figure(result).savefig(target, dpi=150)
    if arguments.json or arguments.csv:
        return Outcome(as_json(result) if arguments.json else as_csv(result), FINE)
    return Outcome(f"{table(result, wide=arguments.wide)}\n\nfigure: {target}", FINE)


def draw(rng: Any, rows: int, alike: float = _ALIKE) -> tuple[Array, Array]:
    """Return features, shape (rows, 6), and labels.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the random numbers.
    rows : int
        Number of rows.
    alike : float
        Share of the negatives that look like positives in the first feature.
    """
    y, kind, X = rng.random(rows) < _POSITIVE, rng.random(rows), rng.normal(size=(rows, 6))
    X[y & (kind < 0.7), 0] += 2.5
    X[y & (kind >= 0.7), 1] += 3.5
    X[y, 2] += 0.5
    X[~y & (kind < alike), 0] += 3.8
    return X, y.astype(int)


def _chosen(label: str, fits: Callable[[float], Any], strengths: tuple[float, ...], parts: Any) -> Fit:
    """The fit whose top of the validation rows is best; its seconds are those of one fit."""
    (V, v), (T, _) = parts
    tried = []
    for strength in strengths:
        start = time.perf_counter()
        scores, gap = fits(strength)
        seconds = time.perf_counter() - start
        tried.append((metrics.precision_at(v, scores(V), _SHARE), strength, gap, seconds, scores))
    _, strength, gap, seconds, scores = max(tried, key=lambda one: one[0])
    return Fit(label, strength, gap, seconds, scores(T))


def _push(
    X: Any, y: Array, p: float, transform: Callable[[Array], Any], **fixed: Any
) -> Callable[[float], Any]:
    """A function of the strength that fits the push over columns of the rows."""
    name = "l1" if isinstance(X, Thresholds) else "l2"
    tol = 1e-3 if isinstance(X, Thresholds) else 1e-8

    def fit(strength: float) -> Any:
        solution = PNormPush(X, y, p, **{name: strength}, **fixed).solve(tol=tol)
        return (lambda rows: np.asarray(transform(rows) @ solution.x)), solution.gap

    return fit


def _classifier(model: Any, X: Array, y: Array) -> Any:
    fitted = model.fit(X, y)
    return fitted.decision_function, float("nan")


def _fits(seed: int, alike: float, everything: bool) -> tuple[Array, list[Fit]]:
    """Fit all models on one split, or those of the comparison without look-alikes."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(seed)
    X, y = draw(rng, _ROWS, alike)
    parts = draw(rng, _ROWS, alike), draw(rng, _TEST_ROWS, alike)

    def logistic(strength: float) -> Any:
        return _classifier(LogisticRegression(C=strength), X, y)

    fits = [_chosen(_LOGISTIC, logistic, (1e-2, 1.0), parts)]
    for p in POWERS if everything else POWERS[::3]:
        fits.append(_chosen(f"push, p = {p}", _push(X, y, p, np.asarray), _RIDGES, parts))
    if everything:
        steps = Thresholds(X, bins=_BINS)
        label = f"thresholds, p = {_STEEP}"
        fits.append(_chosen(label, _push(steps, y, _STEEP, steps.transform), _LASSOS, parts))
        trees = HistGradientBoostingClassifier(random_state=0)
        fits.append(_chosen(_TREES, lambda _: _classifier(trees, X, y), (float("nan"),), parts))
    return parts[1][1], fits


@as_a_whole
def run(seed: int = 0, progress: Callable[[list[Any]], Any] = iter, splits: int = 5) -> Demonstration:
    """Fit all models on several splits; the strength of each is chosen on validation rows.

    Parameters
    ----------
    seed : int
        Seed of the first split.
    progress : callable
        A function that wraps the list of splits, like ``tqdm``.
    splits : int
        Number of splits, at least 2 for the bands.

    Raises
    ------
    ValueError, TypeError
        When seed or splits are out of range.
    """
    first, count = check_integer(seed, "seed", 0), check_integer(splits, "splits", 2)
    X, y = draw(np.random.default_rng(first), 600)
    for warm in (PNormPush(X, y, 4, l2=0.1), PNormPush(Thresholds(X, bins=8), y, 4, l1=0.1)):
        warm.solve(tol=1e-3)  # what is compiled once is not timed
    problem = PNormPush(X, y, 16, l2=1e-3)
    difference = abs(problem.solve().value - problem.solve("exact").value)
    found = [_fits(first + number, _ALIKE, True) for number in progress(list(range(count)))]
    plain = [_fits(first + number, 0.0, False) for number in range(count)]
    return Demonstration(found, plain, difference)


def _measures(y: Array, fit: Fit) -> dict[str, float]:
    s = fit.scores
    return {
        "AUC": metrics.auc(y, s),
        "top 1 %": metrics.precision_at(y, s, _SHARE),
        "top 5 %": metrics.precision_at(y, s, 0.05),
        "gap": fit.gap,
        "seconds": fit.seconds,
        "before first negative": float(metrics.positives_at_top(y, s)),
        "AveR": metrics.average_reciprocal_rank(y, s),
        "DCG": metrics.dcg(y, s),
        "strength": fit.strength,
    }


def summary(result: Demonstration) -> list[dict[str, Any]]:
    """Return one row per model: the mean of each measure over the splits, and its standard deviation."""
    rows = []
    for place, fit in enumerate(result.splits[0][1]):
        each = [_measures(y, fits[place]) for y, fits in result.splits]
        row: dict[str, Any] = {"model": fit.label}
        for name in each[0]:
            values = np.array([one[name] for one in each])
            row[name], row[f"{name} sd"] = float(values.mean()), float(values.std(ddof=1))
        rows.append(row)
    return rows


def _cell(row: dict[str, Any], name: str) -> str:
    value, deviation = row[name], row[f"{name} sd"]
    if np.isnan(value):
        return "-"
    if name == "gap":
        return f"{value:.0e}"
    if name == "seconds":
        return f"{value:.2f}"
    return f"{value:.3g}" if name == "strength" else f"{value:.3f} ±{deviation:.3f}"


def table(result: Demonstration, wide: bool = False) -> str:
    """Return the table as text: six columns within 80 characters, or all columns, and a conclusion."""
    rows = summary(result)
    names = [name for name in rows[0] if name != "model" and not name.endswith(" sd")]
    names = names if wide else names[:5]
    cells = [["", *names], *([row["model"], *(_cell(row, name) for name in names)] for row in rows)]
    widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        )
        for row in cells
    ]
    return "\n".join([*(line.rstrip() for line in lines), "", _note(result)])


def _note(result: Demonstration) -> str:
    plain = summary(Demonstration(result.plain, [], 0.0))
    tops = "\n".join(f"    {row['model']:20} {row['top 1 %']:.3f} ±{row['top 1 % sd']:.3f}" for row in plain)
    return f"""\
Mean ± standard deviation over {len(result.splits)} splits, each of {_ROWS} training, {_ROWS} validation
and {_TEST_ROWS} test rows, one in twenty positive. top 1 %: share of positives among
the first hundredth of the test rows. Strengths are chosen on the validation
rows. gap: certified bound on value - optimum. On 600 rows the fast and the
exact value at p = 16 differ by {result.exact_difference:.0e}.

Where the push helps: negatives that look like positives fill the top of the
list. A larger p gives up pairs elsewhere (AUC) for the top.
Where it does not: without the look-alikes a classifier has the same top 1 %.
{tops}"""


def as_json(result: Demonstration) -> str:
    """Return the rows as JSON; values that a model does not have are null."""
    rows = [
        {name: None if value != value else value for name, value in row.items()} for row in summary(result)
    ]
    return json.dumps({"rows": rows, "exact difference": result.exact_difference}, indent=2)


def as_csv(result: Demonstration) -> str:
    """Return the rows as CSV with a header."""
    rows, text = summary(result), io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def check_output(path: Any) -> Path:
    """Raise an error, before anything is computed, if no figure can be written to the path.

    Raises
    ------
    ValueError
        When the folder does not exist or cannot be written to, or the path is a folder.
    ImportError
        When matplotlib is not installed.
    """
    from convexrank.plotting.style import pyplot

    pyplot()
    target = Path(check_path(path, "output"))
    folder = target.parent
    if target.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        why = (
            "is a folder" if target.is_dir() else f"is in {folder}, which is no folder that can be written to"
        )
        raise ValueError(f"output is {str(target)!r}, which {why}; name a file such as demo.png.")
    return target


def figure(result: Demonstration) -> Any:
    """Draw the precision down the list for some models, and the effect of p on the top and on all pairs."""
    from convexrank.plotting.style import pyplot

    drawing, (left, right) = pyplot().subplots(1, 2, figsize=(9.6, 3.9), layout="constrained")
    shares = np.geomspace(2e-3, 0.3, 18)
    drawn = {_LOGISTIC: ("#d55e00", "--"), "push, p = 1": ("#440154", "-"), "push, p = 64": ("#35b779", "-")}
    drawn |= {f"thresholds, p = {_STEEP}": ("#0072b2", "-."), _TREES: ("#000000", ":")}
    labels = [fit.label for fit in result.splits[0][1]]
    for label, (colour, line) in drawn.items():
        place = labels.index(label)
        curves = np.array(
            [
                [metrics.precision_at(y, fits[place].scores, share) for share in shares]
                for y, fits in result.splits
            ]
        )
        mean, deviation = curves.mean(axis=0), curves.std(axis=0, ddof=1)
        left.plot(100 * shares, mean, line, color=colour, label=label)
        left.fill_between(
            100 * shares, mean - deviation, mean + deviation, color=colour, alpha=0.15, linewidth=0
        )
    left.set(
        xscale="log",
        xlabel="top of the list, per cent of the test rows",
        ylabel="share of positives",
        ylim=(0, 1),
    )
    left.set_xticks([0.2, 1, 5, 30], ["0.2", "1", "5", "30"])
    left.legend(fontsize=8, frameon=False)
    left.set_title("the top of the list")
    rows = {row["model"]: row for row in summary(result)}
    for name, colour in (("top 1 %", "#35b779"), ("AUC", "#440154")):
        chosen = [rows[f"push, p = {p}"] for p in POWERS]
        mean, deviation = (np.array([row[key] for row in chosen]) for key in (name, f"{name} sd"))
        right.errorbar(POWERS, mean, deviation, color=colour, marker="o", capsize=3, label=name)
    right.axhline(rows[_LOGISTIC]["top 1 %"], color="#d55e00", linestyle="--", label=f"top 1 %, {_LOGISTIC}")
    right.set(xscale="log", xlabel="p", ylim=(0, 1), title="effect of p on the top and on all pairs")
    right.set_xticks(POWERS, [str(p) for p in POWERS])
    right.minorticks_off()
    right.legend(fontsize=8, frameon=False, loc="lower right")
    for panel in (left, right):
        panel.grid(alpha=0.25)
    return drawing
