"""How long ten million lines take to read from a file that gzip has compressed: tables, and lists of edges."""

from __future__ import annotations

import gzip
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import fresh
from report import Section, Table, at_most, bytes_text, seconds_text

_LINES = 10_000_000
_MOST = 60.0
# A file is made of this number of lines, again and again: gzip looks back by fewer bytes than they have.
_DISTINCT = 1_000_000
# By name: the heading, and a line for two numbers and a flag.
_KINDS: dict[str, tuple[str, Callable[[int, int, bool], str]]] = {
    "a table of three columns of numbers": ("a,b,y\n", lambda i, j, up: f"{i},{j},{up:d}\n"),
    "the same, labels in words": ("a,b,y\n", lambda i, j, up: f"{i},{j},{'yes' if up else 'no'}\n"),
    "edges between numbers": ("", lambda i, j, up: f"{i},{j}\n"),
    "edges between names": ("", lambda i, j, up: f"n{i},n{j}\n"),
}


def reading(effort: int) -> Section:
    """Write and read each file in a process of its own."""
    lines, rows, targets = _LINES if effort else _LINES // 100, [], []
    count = f"{lines:,}".replace(",", " ")
    for kind in _KINDS:
        done = fresh("reading:measured", kind=kind, lines=lines)
        seconds, size = done.result
        rows.append((kind, bytes_text(size), seconds_text(seconds), bytes_text(done.peak_megabytes)))
        targets.append(at_most(f"{count} lines of csv.gz, {kind}", seconds, _MOST, " s"))
    note = (
        f"{count} lines, by data.read_table and Graph.read: seconds of the processor, the second time in a process, "
        "and the peak of the process."
    )
    columns = ("file", "compressed", "seconds", "memory")
    return Section((Table("Reading", columns, tuple(rows), note),), tuple(targets))


def measured(kind: str, lines: int) -> tuple[float, float]:
    """Seconds of the processor that reading a file takes, and the megabytes of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.csv.gz"
        _write(path, kind, 1_000)
        _read(path, kind)  # imports
        _write(path, kind, lines)
        start = time.process_time()
        _read(path, kind)
        return time.process_time() - start, path.stat().st_size / 2**20


def _write(path: Path, kind: str, lines: int) -> None:
    import numpy as np

    heading, line = _KINDS[kind]
    rng, count = np.random.default_rng(0), min(lines, _DISTINCT)
    ends, ups = rng.integers(0, 100_000, (count, 2)).tolist(), (rng.random(count) < 0.5).tolist()
    block = "".join(line(i, j, up) for (i, j), up in zip(ends, ups, strict=True)).encode()
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(heading.encode())
        for _ in range(lines // count):
            file.write(block)


def _read(path: Path, kind: str) -> Any:
    import convexrank as cr

    return cr.Graph.read(path) if kind.startswith("edges") else cr.data.read_table(path, "y")
