"""The real graphs beside the checkout, with self-loops and duplicates as they come."""

from __future__ import annotations

from pathlib import Path

import pytest

import convexrank as cr

GRAPHS = Path(__file__).resolve().parents[2] / "shared" / "data" / "graphs"
LISTS = {
    "harvard500": ("harvard500.edges.txt.gz", {}),
    "wiki-Vote": ("wiki-Vote.txt.gz", {}),
    "advogato": ("advogato-original.txt.gz", {}),
}


def real_graph(name):
    """A graph by name; skips the test where the data are not beside the checkout."""
    file, arguments = LISTS[name]
    if not (GRAPHS / file).is_file():
        pytest.skip(f"{file} is not in ../shared/data/graphs")
    return cr.Graph.read(GRAPHS / file, **arguments)
