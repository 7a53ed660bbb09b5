"""How far it goes: rows in pieces, over processes, and graphs on disk, in one table with a model of time."""

from __future__ import annotations

from collections.abc import Callable

from chunks import chunks
from report import Section, Table, seconds_text
from scale_points import Point, Scaled

# One line for each part: a function of the effort (0: a quick look; 2 and more: large data, on demand) in a module of
# its own, which returns tables, targets and points.
PARTS: tuple[Callable[[int], Scaled], ...] = (
    chunks,
)  # fmt: skip


def scale(effort: int) -> Section:
    """Run all parts; add the table of their points."""
    parts = [part(effort) for part in PARTS]
    tables = [table for part in parts for table in part.tables]
    points = [point for part in parts for point in part.points]
    return Section((*tables, _measured(points)), tuple(target for part in parts for target in part.targets))


def _measured(points: list[Point]) -> Table:
    rows = [
        (
            point.what,
            point.where,
            f"{point.count:.1e} {point.unit}",
            f"{point.passes:.0f}",
            _gigabytes(point.bytes_a_pass),
            _gigabytes(1e6 * point.megabytes),
            seconds_text(point.seconds),
        )
        for point in points
    ]
    columns = ("solve", "data in", "size", "passes", "a pass", "memory", "time")
    return Table("Measured points", columns, tuple(rows))


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.2f} GB" if size else "–"
