"""The benchmark of devices on small rows: its table, its verdicts, and what it says where there is no device."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("devices")


@pytest.mark.parametrize(("kind", "sizes"), [("push", [400, 5]), ("lists", [20, 5]), ("graph", [8])])
def test_numpy_and_the_cpu_are_measured(benchmark, kind, sizes, monkeypatch):
    monkeypatch.setattr(benchmark, "_ROUNDS", 1)
    for platform in ("numpy", "cpu"):
        found = benchmark.measured(kind, sizes, platform)
        assert found["seconds"] > 0.0
        assert found["solve"] > 0.0
        assert found["bytes"] > 0.0
    assert benchmark.measured(kind, sizes, "none") is None


def test_where_there_is_no_device_the_rows_say_so(benchmark, monkeypatch):
    def fresh(job, kind, sizes, platform):
        found = {"device": "one", "first": 1.0, "seconds": 0.5, "bytes": 1e9, "copy": 4.0, "solve": 2.0}
        return SimpleNamespace(result=None if platform == "gpu" else found)

    monkeypatch.setattr(benchmark, "fresh", fresh)
    section = benchmark.evaluations(0)
    assert len(section.tables[0].rows) == 12
    assert [row[2] for row in section.tables[0].rows if row[1] == "gpu"] == ["NO DEVICE"] * 4
    assert section.tables[0].rows[0][3:] == ("1.00 s", "500.0 ms", "1.00", "2.0", "50 %", "2.00 s")
    assert [target.measured for target in section.targets] == ["NO DEVICE"] * 4
    assert not any(target.met for target in section.targets)
    monkeypatch.setattr(
        benchmark,
        "fresh",
        lambda *job, **given: SimpleNamespace(result=fresh(*job, **given | {"platform": "cpu"}).result),
    )
    assert all(target.met for target in benchmark.evaluations(1).targets)
