"""Commands on tables: fit, predict, evaluate, explain; and the page about a ranker, in one file."""

from __future__ import annotations

import argparse
import base64
import csv
import html
import io
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from convexrank import plotting
from convexrank.commands.outcome import DISAGREES, FINE, Outcome, given_options, paragraph, quiet, refuse_lost
from convexrank.commands.table_model import (
    Columns,
    Labels,
    Measured,
    TableModel,
    fitted,
    labels_of,
    load,
    measured,
)
from convexrank.data import check_integer, read_columns
from convexrank.estimators import PushRanker, TableEncoder
from convexrank.plotting.style import plain, pyplot, styles

Array = np.ndarray

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}}
pre{{background:#f4f4f4;color:#111;padding:1rem;overflow-x:auto}}img{{max-width:100%;background:#fff}}</style></head>
<body><h1>{title}</h1><pre>{text}</pre>{figures}</body></html>
"""
# Columns in the figure.
_MOST = 12


def write(
    path: str,
    model: TableModel,
    columns: Columns,
    y: Array,
    found: Measured,
    spreads: dict[str, float],
    lines: list[str],
) -> None:
    """Write the page about a model on the rows on which it was measured; spreads are those that the lines have."""
    scores = {
        "push": model.scores(columns),
        "logistic regression": model.scores_of_baseline(columns),
    }
    panels: Any = plotting.roc({name: (y, values) for name, values in scores.items()})
    figures = {
        "Share of wanted rows in lists of each length": _precisions(y, scores, found.top),
        "Wanted rows found against others in the list, and the start of it": panels[0].figure,
        "Columns that move scores most": _moving_rows(spreads),
    }
    title = f"{model.labels.column} = {model.labels.positive}: the best {found.top} of {found.rows} rows"
    shown = "".join(
        f"<h2>{html.escape(name)}</h2><img alt='{html.escape(name)}' src='{_picture(figure)}'>"
        for name, figure in figures.items()
    )
    page = _PAGE.format(title=html.escape(title), text=html.escape("\n".join(lines)), figures=shown)
    Path(path).write_text(page, encoding="utf-8")


def _precisions(y: Array, scores: dict[str, Array], top: int) -> Any:
    """The precision of lists of each length, up to four times the one that is wanted."""
    panel = _panel()
    lengths = np.arange(1, min(4 * top, len(y)) + 1)
    for name, style in styles(scores).items():  # the colours that plotting.roc gives them
        hits = np.cumsum(y[np.argsort(-scores[name], kind="stable")])[: len(lengths)]
        panel.plot(lengths, hits / lengths, label=name, **style)
    panel.axvline(top, color="0.6", linewidth=0.8)
    panel.axhline(y.mean(), color="0.6", linewidth=0.8, linestyle=":")
    panel.set(xlabel="length of the list (dotted: any rows)", ylabel="share of wanted rows", ylim=(0.0, 1.05))
    panel.legend()
    return panel.figure


def _moving_rows(spreads: dict[str, float]) -> Any:
    """The spread of what each column adds to the scores, the largest at the top."""
    names = list(spreads)[:_MOST][::-1]
    panel = _panel()
    panel.barh([plain(name[:30]) for name in names], [spreads[name] for name in names])
    panel.set_xlabel("standard deviation of what the column adds to a score")
    return panel.figure


def _panel() -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(7.5, 4.0), layout="constrained").add_subplot()


def _picture(figure: Any) -> str:
    """A figure as an address with its content."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        # names in letters that the font lacks are in the text above the figures
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        figure.savefig(file, format="png", dpi=110, bbox_inches="tight")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


# Without rows for a test, one row in so many is held out.
_HELD_OUT = 4


def run_fit(arguments: argparse.Namespace) -> Outcome:
    """Fit a model, and measure it on other rows."""
    options = given_options(PushRanker, arguments.options)
    if "features" in options:
        raise ValueError(
            "--features is no option here, where features are made of columns; in Python, "
            'PushRanker(features="thresholds") takes data frames.'
        )
    refuse_lost(arguments.save, arguments.list, arguments.report)
    if arguments.report:
        pyplot()  # without matplotlib this is refused here, too, and not after the fit
    table = read_columns(arguments.path)
    labels = Labels.of(table, arguments.label, arguments.positive)
    if arguments.test:
        rows, others, where = table, read_columns(arguments.test), arguments.test
    else:
        held = _held_out(labels_of(table, arguments.label), check_integer(arguments.seed, "seed", 0))
        rows, others = ({name: column[part] for name, column in table.items()} for part in (~held, held))
        where = f"{int(held.sum())} rows that were held out"
    y, top = labels.to_measure(others, arguments.top, where)
    encoder = TableEncoder(categories=arguments.category, drop=arguments.drop, decimal=arguments.decimal)
    with quiet():
        model = fitted(rows, labels, encoder, options, top / len(y) if arguments.search else None)
    solution = model.ranker.solution_
    found, spreads = measured(model, others, y, top), model.spreads(rows)
    lines = [*_columns(model, len(rows[labels.column])), "", *_measures(found, where, model)]
    lines += ["", "columns that move scores most", *_moving(spreads), ""]
    if model.chosen:
        lines.append(
            f"chosen by cross-validation: {', '.join(f'{k} = {v:g}' for k, v in model.chosen.items())}"
        )
    lines.append(paragraph(f"solved: {solution.status.name}, {solution.certificate}"))
    if arguments.save:
        joblib.dump(model, arguments.save)
        lines.append(f"model: {arguments.save}")
    if arguments.list:
        Path(arguments.list).write_text(_best(model, others, top), encoding="utf-8", newline="")
        lines.append(f"list: {arguments.list}")
    if arguments.report:
        write(arguments.report, model, others, y, found, spreads, lines)
        lines.append(f"report: {arguments.report}")
    return Outcome("\n".join(lines), FINE if solution.converged else DISAGREES)


def run_predict(arguments: argparse.Namespace) -> Outcome:
    """List the best rows of a table."""
    top = check_integer(arguments.top, "top", 1)
    text = _best(load(arguments.model), read_columns(arguments.path), top)
    if arguments.list is None:
        return Outcome(text.rstrip("\n"))
    Path(arguments.list).write_text(text, encoding="utf-8", newline="")
    return Outcome(f"list: {arguments.list}")


def run_evaluate(arguments: argparse.Namespace) -> Outcome:
    """Measure a model on a table."""
    model, table = load(arguments.model), read_columns(arguments.path)
    found = measured(model, table, *model.labels.to_measure(table, arguments.top, arguments.path))
    return Outcome("\n".join(_measures(found, arguments.path, model)))


def run_explain(arguments: argparse.Namespace) -> Outcome:
    """Return the part of each column in the score of a row."""
    model, table = load(arguments.model), read_columns(arguments.path)
    count = len(next(iter(table.values())))
    place = check_integer(arguments.row, "row", 1) - 1
    if place >= count:
        raise ValueError(
            f"row is {place + 1}, expected at most {count}, the number of rows of {arguments.path}."
        )
    row = {name: column[place : place + 1] for name, column in table.items()}
    found = model.encoder.explain(model.ranker, row)
    above = int((model.scores(table) > found.score).sum())
    lines = [
        f"row {place + 1} of {arguments.path}: score {found.score:.4g}, number {above + 1} of {count}",
        f"its score is {found.score - found.mean:+.4g} from the mean, by column:",
        *(f"  {line}" for line in found.lines()),
    ]
    return Outcome("\n".join(lines))


def _held_out(labels: np.ndarray, seed: int) -> np.ndarray:
    """One row in four, at random, of each label."""
    rng, held = np.random.default_rng(seed), np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        places = rng.permutation(np.flatnonzero(labels == label))
        held[places[: len(places) // _HELD_OUT]] = True
    return held


def _columns(model: TableModel, rows: int) -> list[str]:
    """Describe the columns that were fitted."""
    kinds = list(model.encoder.kinds_.values())
    counts = ", ".join(
        f"{kinds.count(kind)} of {words}"
        for kind, words in (("number", "numbers"), ("category", "categories"), ("text", "texts"))
        if kind in kinds
    )
    lines = [paragraph(f"{rows} rows, {len(kinds)} columns ({counts}), {len(model.ranker.coef_)} features")]
    left_out = {name: reason for name, reason in model.encoder.left_out_.items() if reason != "drop"}
    return lines + [
        paragraph(f"left out: {name or 'a column'}, {reason}") for name, reason in left_out.items()
    ]


def _measures(found: Measured, where: str, model: TableModel) -> list[str]:
    """The measures with their intervals."""
    wanted = f"{model.labels.column} = {model.labels.positive}"
    ends = ((f"precision at {found.top}", found.precision), ("AUC", found.auc))
    against = (
        f"logistic regression has {found.baseline:.3f} at {found.top}; wanted rows in this list only: "
        f"{found.only_here}, in that only: {found.only_there} (p = {found.p_value:.2g}, sign test)"
    )
    return [
        paragraph(f"measured on {where}: {found.rows} rows, {wanted} in {found.positives} of them"),
        *(
            f"  {name:<18} {at.estimate:.3f}  [{at.lower:.3f}, {at.upper:.3f}]  {at.level:.0%}, {at.method}"
            for name, at in ends
        ),
        paragraph(against),
    ]


def _moving(spreads: dict[str, float], most: int = 10) -> list[str]:
    """The columns whose contributions spread most."""
    order = list(spreads)[:most]
    width = min(40, max(map(len, order)))
    return [f"  {name[:width]:<{width}}  {spreads[name]:.4f}" for name in order]


def _best(model: TableModel, columns: Columns, top: int) -> str:
    """The best rows as comma separated values: their scores, their numbers, and all that the table says of them."""
    scores = model.scores(columns)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["score", "row", *columns])
    for place in np.argsort(-scores, kind="stable")[:top]:
        writer.writerow([f"{scores[place]:.6g}", place + 1, *(column[place] for column in columns.values())])
    return file.getvalue()


RUNS = {"fit": run_fit, "predict": run_predict, "evaluate": run_evaluate, "explain": run_explain}
