"""The changelog as a page: what is Markdown becomes reStructuredText, and all of the project's parses."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from docutils.core import publish_doctree

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.fixture(scope="module")
def page():
    spec = importlib.util.spec_from_file_location("changelog_page", DOCS / "changelog_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_markdown_becomes_restructured_text(page):
    text = "# Title\n\n## 1.0\n\n### Added\n\n* `a_*`s, [here](https://x.org), a*b and c_.\n  more\n"
    expected = (
        "\n1.0\n---\n\nAdded\n~~~~~\n\n* ``a_*``\\ s, `here <https://x.org>`__, a\\*b and c\\_.\n  more"
    )
    assert page.as_rst(text) == expected


def test_the_changelog_of_the_project_parses(page):
    text = (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    tree = publish_doctree(f"T\n=\n\n{page.as_rst(text)}\n", settings_overrides={"report_level": 5})
    assert not list(tree.findall(lambda node: node.tagname == "system_message"))
    items = list(tree.findall(lambda node: node.tagname == "list_item"))
    assert len(items) == sum(line.startswith("* ") for line in text.splitlines())


def test_the_first_release_is_told_in_ten_lines():
    text = (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    first = text.partition("\n## 0.1.0 (")[2].splitlines()[1:]
    lines = [line for line in first if line]
    assert lines[0] == "The first release, in ten lines."
    assert len(lines) == 11
    assert all(line.startswith("* ") for line in lines[1:]), "what changed on the way is in the history"
