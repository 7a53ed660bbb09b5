"""The check of the pages, a part of make lint: it finds what is planted, and nothing else."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
WIDE = "x = 1  # " + "-" * 120


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("check_pages", DOCS / "check_pages.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_pages"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["check_pages"]


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "docs" / "part").mkdir(parents=True)
    (tmp_path / "convexrank").mkdir()
    (tmp_path / "docs" / "index.rst").write_text(
        ".. _here:\n\nTitle\n=====\n\n:doc:`part/page`, :ref:`here`\n"
    )
    (tmp_path / "docs" / "part" / "page.rst").write_text(
        ":doc:`../index`, :doc:`/index`, :class:`convexrank.Problem`\n"
    )
    (tmp_path / "README.md").write_text(
        "# A title, here\n\n[a](docs/index.rst) [b](#a-title-here) [c](https://x.org)\n"
    )
    return tmp_path


def test_a_sound_tree_has_no_findings(check, tree):
    assert check.findings(tree) == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (":doc:`nowhere`", "doc of 'nowhere'"),
        ("See\n:doc:`the page </part/nowhere>`.", "index.rst:2: doc of '/part/nowhere'"),
        (":ref:`nowhere`", "ref of 'nowhere'"),
        (":class:`~convexrank.problems.PNormPusch`", "class of 'convexrank.problems.PNormPusch'"),
        (":meth:`solve <convexrank.Problem.solv>`", "meth of 'convexrank.Problem.solv'"),
        (":mod:`convexrank.planted`", "mod of 'convexrank.planted'"),
        (":class:`PNormPush`", "class of 'PNormPush'"),  # a page has to give the whole name
        (f">>> {WIDE}", "code of 133 columns"),
        (f">>> 1\n{WIDE}", "index.rst:2: code of 129 columns"),
        (f"::\n\n    {WIDE}\n", "index.rst:3: code of 133 columns"),
        (f".. code-block:: console\n\n   {WIDE}\n", "code of 132 columns"),
    ],
)
def test_a_planted_fault_of_a_page_is_found(check, tree, words, complaint):
    (tree / "docs" / "index.rst").write_text(words)
    found = [finding for finding in check.findings(tree) if "page.rst" not in finding]
    assert len(found) == 1
    assert complaint in found[0]


def test_words_beyond_the_budget_are_found(check, tree, monkeypatch):
    docs, part = tree / "docs", tree / "docs" / "part"
    names = ("page", "part/index", "other", "in_the_fourth_door")
    toctrees = [f".. toctree::\n   :hidden:\n\n   {name}\n\n" for name in names]
    (docs / "index.rst").write_text("".join(toctrees))
    (part / "page.rst").write_text("in a folder, by its index")
    for name in names:
        (docs / f"{name}.rst").write_text("three words here")
    counted = sum(len(text.split()) for text in toctrees) + 3 * 3 + 6
    for budget, complaints in ((counted, 0), (counted - 1, 1)):
        monkeypatch.setattr(check, "WORDS", budget)
        found = check.too_many_words(check.pages(tree), docs)
        assert len(found) == complaints
        assert all(f"have {counted} words, at most {budget}" in complaint for complaint in found)


def test_prose_is_not_code(check, tree):
    (tree / "docs" / "index.rst").write_text(f"::\n\n    x = 1\n\n{WIDE}\n\n>>> 1\n1\n\n{WIDE}\n")
    assert check.findings(tree) == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("[a](docs/nowhere.rst)", "link to 'docs/nowhere.rst'"),
        ("[a](#nowhere)", "link to '#nowhere'"),
        ("![a](docs/nowhere.png)", "link to 'docs/nowhere.png'"),
        ("see `docs/nowhere.py`", "file 'docs/nowhere.py'"),
        ("-" * 131, "prose of 131 columns"),
        ("-" * 129 + f"[](https://{'a' * 131})", "prose of 133 columns"),  # less the address
    ],
)
def test_a_planted_fault_of_markdown_is_found(check, tree, words, complaint):
    (tree / "README.md").write_text("# T\n\n" + words)
    found = check.findings(tree)
    assert len(found) == 1
    assert "README.md:3: " + complaint in found[0]


@pytest.mark.parametrize(
    ("target", "alive"),
    [
        ("Hinge", True),
        ("Hinge.line", True),
        ("Huge", False),
        ("Hinge.nowhere", False),
        ("convexrank.losses.Hinge", True),
        ("convexrank.losses.Huge", False),
    ],
)
def test_names_of_a_docstring(check, target, alive):
    docstring = check.Text(DOCS / "losses.py", 7, f":class:`{target}`", "convexrank.losses")
    assert check.dead_roles(docstring, DOCS, set()) == (
        [] if alive else [f"{DOCS / 'losses.py'}:7: class of {target!r}, which does not exist"]
    )


@pytest.mark.parametrize(
    ("target", "alive"), [("index", True), ("plot_quick_start", True), ("plot_nowhere", False)]
)
def test_pages_of_the_gallery_are_known_before_they_are_built(check, target, alive):
    page = check.Text(DOCS / "page.rst", 1, f":doc:`gallery/{target}`")
    assert (check.dead_roles(page, DOCS, set()) == []) == alive
