"""The directive ``changelog``: the changelog of the project, which is Markdown, as a part of a page."""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

# Code is taken first, so that nothing in it is read as a link or as emphasis.
_PARTS = re.compile(r"`(?P<code>[^`]+)`|\[(?P<text>[^]]+)\]\((?P<address>[^)]+)\)|(?P<mark>[*|\\_])")
_UNDERLINES = {"## ": "-", "### ": "~"}


def _part(found):
    if found["code"]:
        follows = found.string[found.end() :][:1]
        return f"``{found['code']}``" + "\\ " * follows.isalnum()  # a literal ends before a space
    return f"`{found['text']} <{found['address']}>`__" if found["text"] else f"\\{found['mark']}"


def as_rst(text):
    """Turn the little Markdown that a changelog has into reStructuredText; the title is left out."""
    lines = []
    for line in text.splitlines():
        heading = next((mark for mark in _UNDERLINES if line.startswith(mark)), None)
        if heading:
            title = line.removeprefix(heading)
            lines += [title, _UNDERLINES[heading] * len(title)]
        elif not line.startswith("# "):
            bullet = "* " if line.startswith("* ") else ""
            lines.append(bullet + _PARTS.sub(_part, line.removeprefix(bullet)))
    return "\n".join(lines)


class Changelog(Directive):
    """Parse the file named by the argument in place of the directive."""

    required_arguments = 1

    def run(self):
        source = Path(self.state.document.current_source).parent / self.arguments[0]
        self.state.document.settings.env.note_dependency(str(source.resolve()))
        held = nodes.section()
        held.document = self.state.document
        lines = as_rst(source.read_text(encoding="utf-8")).splitlines()
        self.state.nested_parse(StringList(lines, str(source)), 0, held, match_titles=True)
        return held.children


def setup(app):
    app.add_directive("changelog", Changelog)
    return {"parallel_read_safe": True}
