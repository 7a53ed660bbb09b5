"""What the benchmarks write: a page for each, on which every row that says NO has a paragraph."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_ROW = re.compile(r"^   \* - (.+)\n     - (.+)\n     - (.+)\n     - NO$", re.MULTILINE)


@pytest.fixture
def modules(monkeypatch):
    """The modules that write, imported as their own process does."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    before = set(sys.modules)
    yield {name: importlib.import_module(name) for name in ("reasons", "report")}
    for name in set(sys.modules) - before:
        if (ROOT / "benchmarks" / f"{name}.py").exists():
            del sys.modules[name]


def test_rows_that_say_no_have_a_reason(modules):
    report, why = modules["report"], modules["reasons"]
    found = [
        report.Target(*(cell.replace("\\", "") for cell in row), met=False)
        for file in sorted((ROOT / "docs").glob("*_results.inc"))
        for row in _ROW.findall(file.read_text(encoding="utf-8"))
    ]
    assert found
    assert [names for names, reason in why.reasons(found) if reason == why.UNKNOWN] == []


def test_rows_of_one_reason_stand_together_and_met_ones_need_none(modules):
    report, why = modules["report"], modules["reasons"]
    targets = [
        report.at_most("PageRank, a, weighted", 0.5, 0.3),
        report.at_most("anything", 2.0, 1.0),
        report.at_most("PageRank, b, weighted", 0.5, 0.3),
        report.at_most("PageRank, c, weighted", 0.2, 0.3),
        report.Target("a device", "≤ 1", "NO DEVICE", False),
    ]
    names, paragraphs = zip(*why.reasons(targets), strict=True)
    assert names == ("PageRank, a, weighted; PageRank, b, weighted", "anything", "a device")
    assert paragraphs[0] == why.REASONS["^PageRank, "]
    assert paragraphs[1] == why.UNKNOWN
    assert len(set(paragraphs)) == 3
    many = [report.at_most(f"PageRank, {name}", 0.5, 0.3) for name in "abcdef"]
    assert why.reasons(many)[0][0] == "PageRank, a; and 5 rows like it"


def test_paragraphs_follow_the_summary_and_the_machine_ends_the_page(modules):
    report = modules["report"]
    summary = report.summary([report.at_most("a_b", 2.0, 1.0)])
    machine = report.Table("Machine", ("what", "value"), (("cores", "2"), ("memory", "24 GB")))
    written = report.restructured(
        [summary, report.Table("t", ("c",), (("1",),))], machine, [("a_b", "It is.")]
    )
    assert written.index("* NO: a\\_b. It is.") < written.index("t\n-")
    assert written.endswith("Measured with: cores 2, memory 24 GB.\n")
    assert "a_b" in report.plain_reasons([("a_b", "It is.")])
    assert report.plain_reasons([]) == ""


def test_paragraphs_of_a_page_are_written_anew_and_nothing_else(modules):
    report, why = modules["report"], modules["reasons"]
    targets = [
        report.at_most("L_{4,4.8}, a graph", 3.0, 2.5),
        report.at_most("PageRank, a", 0.2, 0.3),
        report.at_most("something else", 2.0, 1.0),
    ]
    tables = [report.summary(targets), report.Table("t", ("c",), (("* 1",),), "* NO: a note.")]
    page = report.restructured(tables, None, why.reasons(targets))
    assert why.explained(page) == page
    planted = report.restructured(
        tables, None, [("L_{4,4.8}, a graph", "Of old."), ("something else", "Once.")]
    )
    assert planted != page
    assert why.explained(planted) == page
    plain = report.restructured([report.summary(targets[1:2]), tables[1]])
    assert why.explained(plain) == plain
