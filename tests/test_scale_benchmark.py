"""The benchmark of scale: parts join, the model is the formula of its page, and the figure reads what was written."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tests.example_modules import load

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
COSTS = {
    "cached": 3e-10,
    "disk": 2e-9,
    "entry": 6e-10,
    "row": 5e-8,
    "edge": 4e-9,
    "gather": 6e-8,
    "sweeps": 23,
}


@pytest.fixture
def modules(monkeypatch):
    """The benchmark's modules, imported as its own process does."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield {name: importlib.import_module(name) for name in ("scale", "scale_model", "scale_points", "report")}
    for name in set(sys.modules) - before:
        if not name.startswith(("numpy", "convexrank", "scipy")) and (BENCHMARKS / f"{name}.py").exists():
            del sys.modules[name]


def points(modules, **options):
    kind = modules["scale_points"].Point
    rows = kind("push", "pieces", "entries", 2e7, 8, 8e7, 1.5, 300.0, 8e7, rows=1e6, **options)
    return rows, kind("PageRank", "disk", "edges", 1e9, 40, 4e9, 200.0, **options)


def test_the_model_is_the_formula_of_the_page(modules, monkeypatch):
    model = modules["scale_model"]
    rows, edges = points(modules)
    assert model.model_seconds(rows, COSTS) == pytest.approx(8 * (8e7 * 3e-10 + 2e7 * 6e-10 + 1e6 * 5e-8))
    assert model.model_seconds(edges, COSTS) == pytest.approx(40 * (4e9 * 3e-10 + 1e9 * 4e-9))
    monkeypatch.setattr(model.os, "cpu_count", lambda: 2)
    for processes, share in ((2, 2), (4, 2)):  # no more than there are cores
        shared = points(modules, processes=processes)[0]
        assert model.model_seconds(shared, COSTS) == pytest.approx(model.model_seconds(rows, COSTS) / share)


def test_parts_join_and_the_figure_reads_their_tables(modules, monkeypatch):
    scale, report, kind = modules["scale"], modules["report"], modules["scale_points"].Scaled
    own = report.Table("One part", ("a",), (("1",),))
    parts = tuple(lambda effort, p=p: kind((own,), (), (p,)) for p in points(modules))
    monkeypatch.setattr(scale, "PARTS", parts)
    monkeypatch.setattr(scale, "probes", lambda: COSTS)
    section = scale.scale(0)
    assert [table.title for table in section.tables].count("One part") == 2
    tables = load("scale_tables")
    text = report.restructured(section.tables)
    measured = tables.table(text, "Measured points")
    assert [row[0] for row in measured] == ["push", "PageRank"]
    assert tables.seconds(measured[0][7]) == 1.5
    assert tables.amount(measured[1][5]) == 4e9
    public = tables.table(text, "Public graphs, estimated")
    assert len(public) == 3
    for name, nodes, edges, disk, memory, sweeps, low, high in public:
        size = (4 if tables.amount(nodes) < 2**31 else 8) * tables.amount(edges) + 8 * tables.amount(nodes)
        assert tables.amount(disk) == pytest.approx(size, rel=0.01), name
        assert tables.amount(memory) == pytest.approx(60 * tables.amount(nodes), rel=0.02)
        at_least = int(sweeps) * max(size * COSTS["disk"], tables.amount(edges) * COSTS["edge"])
        assert tables.seconds(low) == pytest.approx(at_least, rel=0.02)
        assert tables.seconds(high) > tables.seconds(low)
    assert tables.table(text, "No such table") == []


def test_the_page_has_points_and_estimates():
    tables = load("scale_tables")
    text = tables.RESULTS.read_text(encoding="utf-8")
    assert {row[1] for row in tables.table(text, "Measured points")} >= {"pieces"}
    assert len(tables.table(text, "Public graphs, estimated")) == 3


@pytest.mark.parametrize(
    ("cell", "value"), [("1.5 ms", 1.5e-3), ("12 µs", 1.2e-5), ("3.0 min", 180.0), ("2.5 h", 9000.0)]
)
def test_times_are_read_with_their_units(cell, value):
    assert load("scale_tables").seconds(cell) == pytest.approx(value)


def test_solves_on_workers_are_told_by_medians_of_the_processor(modules, monkeypatch):
    rows = importlib.import_module("dask_rows")
    used = {
        "memory": (1.0, 2.0, 3.0),
        "pieces": (2.0, 2.0, 2.0),
        "one worker": (4.0,) * 3,
        "two workers": (3.0, 8.0, 6.0),
    }
    times = {where: [[seconds, 10.0 * seconds] for seconds in each] for where, each in used.items()}
    answers = {
        "dask_rows:solved": {"times": times, "evaluations": [0.1, 0.3, 0.2], "gap": 1e-9, "apart": 0.0},
        "dask_rows:lost": {
            "rows": 9, "kept": 1.0, "lost": 2.5, "pieces": 4, "status": "CONVERGED", "gap": 1e-9, "apart": 0.0,
        },
    }  # fmt: skip
    monkeypatch.setattr(rows, "fresh", lambda job, **_: type("Outcome", (), {"result": answers[job]}))
    monkeypatch.setattr(rows, "find_spec", lambda package: None)
    (missing,) = rows.dask(0).tables
    assert missing.rows == (("Dask is not installed",),)
    monkeypatch.setattr(rows, "find_spec", lambda package: "there")
    solves, lost = rows.dask(0).tables
    assert [row[0] for row in solves.rows] == ["10 000", "100 000"]
    assert solves.rows[0][1:9] == (
        "2.00 s", "2.00 s", "4.00 s", "6.00 s", "3.0 ×", "20.00 s", "60.00 s", "200.0 ms",
    )  # fmt: skip
    assert lost.rows[0][1:4] == ("1.00 s", "2.50 s", "4")
    assert len(rows.dask(2).tables[0].rows) == 4
