"""Tables of the page "How far it goes", as the benchmark writes them."""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "scale_results.inc"
_SECONDS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_UNITS = {"": 1.0, "M": 1e6, "G": 1e9, "MB": 1e6, "GB": 1e9, "entries": 1.0, "edges": 1.0}


def table(text, title):
    """Return the rows of the table with a title as lists of cells, without its head; none where it is absent."""
    head = rf"^{re.escape(title)}\n-+\n\n\.\. list-table::\n   :header-rows: 1\n\n"
    found = re.search(head + r"((?:   .+\n)+)", text, re.MULTILINE)
    if found is None:
        return []
    rows = [re.split(r"\n     - ", row) for row in re.split(r"^   \* - ", found[1], flags=re.MULTILINE)[1:]]
    return [[cell.strip().replace("\\", "") for cell in row] for row in rows[1:]]


def seconds(cell):
    """Read a time."""
    number, unit = cell.split()
    return float(number) * _SECONDS[unit]


def amount(cell):
    """Read a number with a unit, such as 3.7 G."""
    number, _, unit = cell.partition(" ")
    return float(number.replace(",", "")) * _UNITS[unit]
