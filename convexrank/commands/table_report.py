"""A page about a fitted ranker: what was measured, and figures, in one file."""

from __future__ import annotations

import base64
import html
import io
import warnings
from typing import Any

import numpy as np

from convexrank import plotting
from convexrank.commands.table_labels import Columns
from convexrank.commands.table_model import Measured, TableModel
from convexrank.plotting.style import plain, styles

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
        "Columns that move scores most": _moving(spreads),
    }
    title = f"{model.labels.column} = {model.labels.positive}: the best {found.top} of {found.rows} rows"
    shown = "".join(
        f"<h2>{html.escape(name)}</h2><img alt='{html.escape(name)}' src='{_picture(figure)}'>"
        for name, figure in figures.items()
    )
    page = _PAGE.format(title=html.escape(title), text=html.escape("\n".join(lines)), figures=shown)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)


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


def _moving(spreads: dict[str, float]) -> Any:
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
