"""No figure of the gallery has an empty panel."""

from __future__ import annotations

import ast
import importlib.util
import logging
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from sphinx_gallery.py_source_parser import split_code_and_text_blocks

from tests.example_modules import load

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted((ROOT / "examples").rglob("plot_*.py"))
MAKES_FIGURES = {"figure", "subplots", "subplot_mosaic", "subplot", "subfigures", "add_subplot"}


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def checker():
    spec = importlib.util.spec_from_file_location("empty_axes", ROOT / "docs" / "empty_axes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn_later(blocks):
    """Names of figures and axes that another block than the one that makes them uses: the gallery has closed them."""
    made, late = set(), []
    for text in blocks:
        nodes = list(ast.walk(ast.parse(text)))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        bound = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        late += [name.id for name in names if name.id in made - bound]
        made -= bound
        for node in nodes:
            if isinstance(node, ast.Assign) and any(
                isinstance(part, ast.Attribute) and part.attr in MAKES_FIGURES
                for part in ast.walk(node.value)
            ):
                made |= {
                    part.id
                    for target in node.targets
                    for part in ast.walk(target)
                    if isinstance(part, ast.Name)
                }
    return late


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_figure_is_drawn_in_one_block(script):
    blocks = [text for kind, text, _ in split_code_and_text_blocks(str(script))[1] if kind == "code"]
    assert blocks
    assert not drawn_later(blocks)


def test_the_page_of_examples_lists_scripts_that_exist_once():
    listed = re.findall(
        r"^   \.\./examples/(\w+)\.py$", (ROOT / "docs" / "examples.rst").read_text("utf-8"), re.MULTILINE
    )
    assert len(listed) > 20
    assert len(set(listed)) == len(listed)
    assert set(listed) <= {script.stem for script in SCRIPTS if script.parent.name == "examples"}


def test_ratios_are_read_from_the_tables_of_the_benchmarks():
    table = """
   * - PNormPush, 10 × 5, against LogisticRegression
     - ≤ 0.7 ×
     - 1.29 ×
     - NO
   * - 100 values of l1: time over celer, to 1/100's
     - ≤ 2
     - 2.24
     - NO
   * - thresholds, beside LightGBM
     - above 0.6
     - AUC 0.5
     - NO
"""
    benchmarks = load("benchmark_ratios")
    expected = [
        ("LogisticRegression", "PNormPush, 10 × 5", 1.29),
        ("celer", "100 values of l1, to 1/100's", 2.24),
    ]
    assert benchmarks.ratios(table) == expected
    packages = {package for package, _, _ in benchmarks.ratios(benchmarks.written())}
    assert packages == set(benchmarks.PEERS)


def test_a_panel_that_a_later_block_draws_is_found():
    first = "figure, (left, right) = plt.subplots(1, 2)\nleft.plot([0, 1])\n"
    assert drawn_later([first, "right.plot([1, 0])\n"]) == ["right"]
    assert not drawn_later([first + "right.plot([1, 0])\n", "print(1)\n"])


def test_empty_axes_are_found(checker):
    figure, panels = plt.subplots(2, 3)
    panels[0, 0].plot([0, 1])
    panels[0, 1].imshow([[0, 1]])
    panels[0, 2].text(0.5, 0.5, "words")
    panels[1, 0].set_axis_off()
    panels[1, 1].set_title("planted")
    panels[1, 2].hist([1, 2, 2])
    assert checker.empty_axes(figure) == ["planted"]


def test_the_build_warns_of_them(checker, monkeypatch, caplog):
    monkeypatch.setattr(
        checker.scrapers, "matplotlib_scraper", lambda *_, dpi: "saved" if dpi > 100 else "small"
    )
    monkeypatch.setattr(checker.logging, "getLogger", logging.getLogger)  # sphinx's own needs a running build
    scrape = checker._get_sg_image_scraper()
    plt.subplots(1, 2)[1][0].plot([0, 1])
    assert scrape(("code", "", 7), {"src_file": "plot_planted.py"}, {}) == "saved"
    assert "plot_planted.py, block of line 7: the axes 'number 1' are empty" in caplog.text
    assert '"image_scrapers": ("empty_axes",)' in (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
