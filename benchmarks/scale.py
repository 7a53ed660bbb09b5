"""How far it goes: rows in pieces, over processes, and graphs on disk, in one table with a model of time."""

from __future__ import annotations

from collections.abc import Callable

from chunks import chunks
from report import Section
from scale_graphs import stored_graphs
from scale_model import measured, probes, public_graphs
from scale_points import Scaled
from scale_rows import scale_rows

# One line for each part: a function of the effort (0: a quick look; 2 and more: large data, on demand) in a module of
# its own, which returns tables, targets and points.
PARTS: tuple[Callable[[int], Scaled], ...] = (
    chunks,
    scale_rows,
    stored_graphs,
)  # fmt: skip


def scale(effort: int) -> Section:
    """Run all parts; add the table of their points beside the model, and estimates for graphs that are public."""
    parts, costs = [part(effort) for part in PARTS], probes()
    points = [point for part in parts for point in part.points]
    tables = [table for part in parts for table in part.tables]
    tables = [measured(points, costs), public_graphs(costs), *tables]
    return Section(tuple(tables), tuple(target for part in parts for target in part.targets))
