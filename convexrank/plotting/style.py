"""Common parts of the figures: Axes, colours and labels."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from convexrank.data import check_kind, check_list
from convexrank.data.messages import optional

Array = np.ndarray

# The part of viridis that is dark enough for white paper: curves keep their order in grey and for
# colour-blind readers.
_DARK, _LIGHT = 0.0, 0.88
# For curves that are not named by a number, such as the IR Push: the colours of Okabe and Ito, those that stay apart
# from viridis first.
_OTHERS = ("#d55e00", "#000000", "#cc79a7", "#e69f00", "#0072b2", "#009e73")
_DASHES = ("-", "--", ":", "-.")


def pyplot() -> Any:
    """Import matplotlib, or say how to get it."""
    words = "figures need matplotlib; install it with: pip install 'convexrank[plot]'"
    return optional("matplotlib.pyplot", words)


def axes(given: Any, count: int, size: tuple[float, float], wide: int | None = None) -> Array:
    """Return as many Axes as needed: the given ones, or those of a new figure with ``wide`` in a line."""
    plt = pyplot()
    if given is None:
        figure, wide = plt.figure(figsize=size, layout="constrained"), wide or count
        return np.array([figure.add_subplot(-(-count // wide), wide, place + 1) for place in range(count)])
    panels = np.atleast_1d(np.asarray(given, dtype=object)).ravel()
    if len(panels) != count:
        raise ValueError(
            f"ax holds {len(panels)} Axes, expected {count}; pass plt.subplots(1, {count})[1], or None."
        )
    for panel in panels:
        if not hasattr(panel, "plot"):
            raise TypeError(f"ax holds {panel!r}, expected matplotlib Axes.")
    return panels


def check_mapping(value: Any, argument: str, expected: str, of: type = object) -> None:
    """Refuse what is not a mapping, or an empty one, or one of other things."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{argument} is a {type(value).__name__}, expected {expected}.")
    if not value:
        raise ValueError(f"{argument} is empty, expected {expected}.")
    for key, entry in value.items():
        check_kind(entry, f"{argument}[{key!r}]", of, expected)


def sequence(count: int) -> list[dict[str, Any]]:
    """Return line styles for curves that have an order, dark to light."""
    colours = pyplot().get_cmap("viridis")(np.linspace(_DARK, _LIGHT, count) if count > 1 else [0.35])
    return [{"color": tuple(colour), "linewidth": 1.6} for colour in colours.tolist()]


def styles(labels: Any) -> dict[Any, dict[str, Any]]:
    """Return a line style for each label: numbers in sequence, in increasing order, other names set apart."""
    numeric = sorted(label for label in labels if _is_number(label))
    others = [label for label in labels if not _is_number(label)]
    made = dict(zip(numeric, sequence(len(numeric)), strict=True)) if numeric else {}
    for place, label in enumerate(others):
        turn, place = divmod(place, len(_OTHERS))
        dashes = _DASHES[(turn + bool(numeric)) % len(_DASHES)]
        made[label] = {"color": _OTHERS[place], "linewidth": 1.6, "linestyle": dashes}
    return {label: made[label] for label in labels}


def plain(name: Any) -> str:
    """Return a name of a caller's as text: dollars in it begin no formula."""
    return str(name).replace("$", r"\$")


def label_text(label: Any, bare: bool = False) -> str:
    """Write a label: a number is a p."""
    if not _is_number(label):
        return plain(label)
    text = "∞" if math.isinf(label) else f"{float(label):g}"
    return text if bare else f"p = {text}"


def _is_number(label: Any) -> bool:
    return isinstance(label, numbers.Real) and not isinstance(label, bool)


def names_of(names: Any, count: int, part: str) -> list[str]:
    """Return the names of the columns or rows of X as texts, by default their numbers."""
    given = list(range(count)) if names is None else check_list(names, "names", f"names of {part}s")
    if len(given) != count:
        raise ValueError(f"names has {len(given)} entries, expected {count}: one for each {part} of X.")
    return [plain(name) for name in given]


def list_down(panel: Any, names: list[str]) -> None:
    """Name places 0, 1, … from the top down, with a line at 0."""
    panel.set_yticks(np.arange(len(names)), names)
    panel.invert_yaxis()
    panel.axvline(0.0, color="black", linewidth=0.8)
    panel.grid(axis="x", alpha=0.25)
