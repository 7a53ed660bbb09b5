"""Short texts, small tables and small curves for what is shown at a prompt or in a notebook."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from html import escape
from typing import Any

import numpy as np
from scipy import sparse

_LONGEST = 60


def number_text(value: Any, digits: int = 4) -> str:
    """Write a number with few digits: 8 for 8.0, 1e-4 for 0.0001.

    Parameters
    ----------
    value : int or float
        The number.
    digits : int
        Significant digits.

    Examples
    --------
    >>> number_text(8.0), number_text(1e-4), number_text(0.25), number_text(float("inf"))
    ('8', '1e-4', '0.25', 'inf')
    """
    if isinstance(value, int | np.integer):
        return str(int(value))
    value = float(value)
    if value and abs(value) < 1e-3 and math.isfinite(value):
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{int(power)}"
    return f"{value:.{digits}g}"


def counted(count: int, what: str) -> str:
    """Write how many there are of something that is named in the plural.

    Examples
    --------
    >>> counted(2, "new rows"), counted(1, "new rows"), counted(1, "queries with a value")
    ('2 new rows', '1 new row', '1 query with a value')
    """
    if count == 1:
        what = re.sub(r"ies\b|s\b", lambda end: "y" if len(end[0]) > 1 else "", what, count=1)
    return f"{count} {what}"


def short_text(value: Any) -> str:
    """Write a value on a short line: arrays as their shape, objects by the fields that differ from the default.

    Parameters
    ----------
    value : object
        Anything.

    Examples
    --------
    >>> import numpy as np
    >>> short_text(np.zeros((569, 6))), short_text(np.zeros(7)), short_text("kl"), short_text(0.5)
    ('569×6', 'array of 7', "'kl'", '0.5')
    """
    if isinstance(value, bool | np.bool_) or value is None:
        return str(value)
    if isinstance(value, int | float | np.integer | np.floating):
        return number_text(value)
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        shape = "×".join(map(str, value.shape))
        if sparse.issparse(value):
            return f"{shape} sparse"
        return shape if value.ndim > 1 else f"array of {shape or 1}"
    if isinstance(value, tuple) and len(value) <= 4:
        return f"({', '.join(map(short_text, value))})"
    # what @dataclass writes wraps a function; what a class writes for itself does not
    if is_dataclass(value) and hasattr(type(value).__repr__, "__wrapped__"):
        return call_text(type(value).__name__, short_fields(value))
    written = repr(value)
    if callable(value) and getattr(value, "__name__", ""):
        return value.__name__
    if len(written) <= _LONGEST and "\n" not in written:
        return written
    size = getattr(value, "__len__", None)
    return type(value).__name__ if size is None else f"{type(value).__name__} of {size()}"


def short_fields(instance: Any, leave_out: Iterable[str] = ()) -> list[str]:
    """List the fields of a dataclass on one line: data first, then what it asks for, then what is not the default.

    Parameters
    ----------
    instance : dataclass
        What is shown; it may be half made.
    leave_out : iterable of str
        Fields that are said in another way.
    """
    data, asked, chosen, skipped = [], [], [], set(leave_out)
    for one in fields(instance):
        held = instance.__dict__
        if one.name.startswith("_") or one.name in skipped or one.name not in held or not one.init:
            continue
        value, text = held[one.name], short_text(held[one.name])
        scalar = isinstance(value, bool | int | float | str | None)
        if _has_default(one):
            if not _is_default(one, value):
                chosen.append(f"{one.name}={text}")
        elif scalar or data:
            asked.append(f"{one.name}={text}")
        else:
            data.append(text)
    return [*data, *asked, *chosen]


def _has_default(one: Field[Any]) -> bool:
    return one.default is not MISSING or one.default_factory is not MISSING


def _is_default(one: Field[Any], value: Any) -> bool:
    default = one.default if one.default is not MISSING else one.default_factory()  # type: ignore[misc]
    if isinstance(default, str) and not isinstance(value, str):  # "hinge" becomes Hinge()
        return type(value).__name__.lower() == default.replace("_", "")
    return value is default or (isinstance(value, bool | int | float | str) and value == default)


def call_text(name: str, parts: Iterable[str]) -> str:
    """Write a name and its parts like a call.

    Parameters
    ----------
    name : str
        The name.
    parts : iterable of str
        What stands in the brackets.

    Examples
    --------
    >>> call_text("PNormPush", ["569×6", "p=8"])
    'PNormPush(569×6, p=8)'
    """
    return f"{name}({', '.join(parts)})"


def html_table(title: str, rows: Iterable[Iterable[Any]], head: Iterable[Any] = (), below: str = "") -> str:
    """Write a small table for a notebook.

    Parameters
    ----------
    title : str
        The caption, as text.
    rows : iterable of iterable
        Cells, as text.
    head : iterable
        The first row, in bold.
    below : str
        HTML that follows, such as a :func:`sparkline`.

    Examples
    --------
    >>> html_table("a < b", [["gap", 1]])
    '<div><b>a &lt; b</b><table><tr><td>gap</td><td>1</td></tr></table></div>'
    """
    lines = [("th", head)] if head else []
    lines += [("td", row) for row in rows]
    body = "".join(
        f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in row)}</tr>" for tag, row in lines
    )
    return f"<div><b>{escape(title)}</b><table>{body}</table>{below}</div>"


def sparkline(values: Any, label: str, logarithmic: bool = False) -> str:
    """Draw a curve as a small SVG that needs no script; empty where there are fewer than two points.

    Parameters
    ----------
    values : array, shape (m,)
        The heights; those that cannot be drawn are left out.
    label : str
        Name of the curve.
    logarithmic : bool
        Whether heights are taken as logarithms, of those above 0.

    Examples
    --------
    >>> sparkline([1.0], "gap")
    ''
    >>> sparkline([1.0, 0.1, 0.01], "gap", logarithmic=True).count("<polyline")
    1
    """
    heights = np.asarray(values, dtype=np.float64)
    places = np.arange(len(heights))
    fine = np.isfinite(heights) & ((heights > 0.0) | (not logarithmic))
    heights, places = heights[fine], places[fine]
    if len(heights) < 2:
        return ""
    heights = np.log10(heights) if logarithmic else heights
    # halves, because the difference of two huge heights overflows
    span = max(float(heights.max() / 2.0 - heights.min() / 2.0), np.finfo(float).tiny)
    across = 2.0 + 156.0 * (places - places[0]) / (places[-1] - places[0])
    down = 2.0 + 36.0 * ((heights.max() / 2.0 - heights / 2.0) / span)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
    return (
        f'<svg width="160" height="40" role="img" aria-label="{escape(label)}"><title>{escape(label)}</title>'
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg> '
        f"<small>{escape(label)}</small>"
    )
