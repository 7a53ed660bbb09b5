"""Tables as text and as reStructuredText, and the description of the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from textwrap import fill, indent

from measure import THREADS

__all__ = [
    "Section",
    "Table",
    "Target",
    "at_most",
    "bytes_text",
    "environment",
    "escaped",
    "plain",
    "plain_reasons",
    "restructured",
    "seconds_text",
    "summary",
]

SUMMARY = "Wanted and measured"
_PACKAGES = (
    "convexrank", "numpy", "scipy", "jax", "jaxlib", "numba", "cvxpy", "clarabel", "scikit-learn",
    "igraph",
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """One table; every row has as many cells as there are columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"{self.title}: a row has {len(row)} cells, expected {len(self.columns)}: {row}"
                )


@dataclass(frozen=True)
class Target:
    """The target of a number, and the number."""

    what: str
    wanted: str
    measured: str
    met: bool

    @property
    def cells(self) -> tuple[str, ...]:
        """The target as a row of the summary."""
        return self.what, self.wanted, self.measured, "yes" if self.met else "NO"


@dataclass(frozen=True)
class Section:
    """What one benchmark returns."""

    tables: tuple[Table, ...]
    targets: tuple[Target, ...]


def joined(parts: Iterable[Section]) -> Section:
    """Return the tables and targets of all parts as one section."""
    parts = list(parts)
    tables = tuple(table for part in parts for table in part.tables)
    return Section(tables, tuple(target for part in parts for target in part.targets))


def absent(title: str, file: str) -> Section:
    """Say that a table was not measured, as its file is not there."""
    return Section((Table(title, ("not measured",), ((f"{file} is not there",),)),), ())


def at_most(what: str, measured: float, limit: float, unit: str = "", aim: float | None = None) -> Target:
    """Return the target that a number is no larger than a limit."""
    wanted = f"≤ {limit:g}{unit}" + (f", aim {aim:g}{unit}" if aim is not None else "")
    return Target(what, wanted, f"{measured:.2f}{unit}", measured <= limit)


def seconds_text(seconds: float) -> str:
    """Write a time with a unit that suits its size."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1.0 else f"{seconds:.2f} s"


def bytes_text(megabytes: float) -> str:
    """Write an amount of memory."""
    return f"{megabytes:.0f} MB"


def environment() -> Table:
    """Describe hardware and versions, on which numbers depend beside the code."""
    rows = [
        ("processor", _processor()),
        ("cores", str(os.cpu_count())),
        ("memory", _memory()),
        ("system", f"{platform.system()} {platform.machine()}"),
        ("Python", platform.python_version()),
        ("threads of the numerical libraries", THREADS),
    ]
    rows += [(name, _version(name)) for name in _PACKAGES]
    return Table("Machine and versions", ("what", "value"), tuple(rows))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or "unknown"


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB"
    except (AttributeError, ValueError, OSError):
        return "unknown"


def _version(name: str) -> str:
    if name == "convexrank":  # the checkout itself, which need not be installed
        from convexrank import __version__

        return __version__
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def summary(targets: Iterable[Target]) -> Table:
    """Return the table of targets."""
    rows = tuple(target.cells for target in targets)
    return Table(SUMMARY, ("what", "wanted", "measured", "met"), rows)


def plain(table: Table) -> str:
    """Lay a table out for the terminal."""
    grid = [table.columns, *table.rows]
    widths = [max(len(row[j]) for row in grid) for j in range(len(table.columns))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in grid
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    note = ["", table.note] if table.note else []
    return "\n".join([table.title, "=" * len(table.title), *lines, *note, ""])


def plain_reasons(found: Sequence[tuple[str, str]]) -> str:
    """Lay out why rows say NO for the terminal: names of rows, and a paragraph."""
    parts = [
        "Why NO",
        "======",
        *(part for names, why in found for part in (fill(names), indent(fill(why), "    "), "")),
    ]
    return "\n".join(parts) if found else ""


def restructured(
    tables: Sequence[Table], machine: Table | None = None, why: Sequence[tuple[str, str]] = ()
) -> str:
    """Write tables as reStructuredText, to be included in a page: with why rows say NO, and the machine."""
    parts = [".. Written by: python benchmarks/run.py --write; do not edit by hand.", ""]
    for table in tables:
        parts += [table.title, "-" * len(table.title), ""]
        parts += [".. list-table::", "   :header-rows: 1", ""]
        for row in (table.columns, *table.rows):
            parts += [f"   {'*' if j == 0 else ' '} - {escaped(cell)}" for j, cell in enumerate(row)]
        parts += ["", escaped(table.note), ""] if table.note else [""]
        if table.title == SUMMARY:
            parts += [
                part for names, reason in why for part in (f"* NO: {escaped(names)}. {escaped(reason)}", "")
            ]
    if machine is not None:
        described = ", ".join(f"{what} {value}" for what, value in machine.rows)
        parts.append(f"Measured with: {escaped(described)}.")
    return "\n".join(parts).rstrip() + "\n"


def escaped(text: str) -> str:
    """Write a text of a table as reStructuredText."""
    for mark in "\\*`|_@":  # the last would make NDCG@10 an address to write to
        text = text.replace(mark, "\\" + mark)
    return text
