"""The directive ``claims-table``: the verdicts of a chapter, computed while the pages are built."""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList

from convexrank import claims


class ClaimsTable(Directive):
    """``.. claims-table:: 4`` shows chapter 4; a verdict other than the documented one is a warning."""

    required_arguments = 1
    has_content = False

    def run(self):
        chapter = directives.nonnegative_int(self.arguments[0])
        report = claims.check(chapter=chapter)
        lines = [".. list-table::", "   :header-rows: 1", "   :widths: 46 18 36", ""]
        lines += ["   * - what is stated", "     - verdict", "     - what was computed"]
        for finding in report.findings:
            judged = finding.claim
            if not finding.agrees:
                self.state.document.reporter.warning(
                    f"{judged.identifier}: {finding.verdict.value}, documented: {judged.documented.value}",
                    line=self.lineno,
                )
            word = "Corrected" if judged.amendment else "Instead"
            lines.append(f"   * - {judged.location}: {_plain(judged.statement)}")
            if judged.amendment or finding.verdict is claims.Verdict.REFUTED:
                lines += ["", f"       *{word}:* {_plain(judged.contrast_statement)}"]
            lines += [f"     - **{finding.verdict.value}**", "", f"       ``{judged.identifier}``"]
            lines += [f"     - {_plain(finding.telling)}"]
        holder = nodes.container()
        self.state.nested_parse(StringList(lines, source="claims-table"), self.content_offset, holder)
        return holder.children


def _plain(words):
    """Text in which no character is markup."""
    return "".join("\\" + c if c in "*`_|\\" else c for c in str(words))


def setup(app):
    """Register the directive."""
    app.add_directive("claims-table", ClaimsTable)
    return {"parallel_read_safe": True}
