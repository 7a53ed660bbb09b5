"""The directives ``claims-table`` and ``claims-counts``: verdicts, computed while the pages are built."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import fast_build
from claims_math import latex, runs
from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList

from convexrank import claims


def _not_judged(directive):
    return _parsed(directive, ["*The whole build judges the claims here.*"])


@lru_cache(maxsize=1)
def _report():
    return claims.check()


class ClaimsTable(Directive):
    """``.. claims-table:: 4`` shows chapter 4 of the dissertation; ``:source:`` another source, all or a section.

    A verdict other than the documented one is a warning.
    """

    optional_arguments = 1
    option_spec: ClassVar = {"source": directives.unchanged}
    has_content = False

    def run(self):
        if fast_build.ASKED:
            return _not_judged(self)
        chapter = directives.nonnegative_int(self.arguments[0]) if self.arguments else None
        source = self.options.get("source", next(iter(claims.SOURCES)))
        findings = [
            finding
            for finding in _report().findings
            if finding.claim.source == source and chapter in (None, finding.claim.chapter)
        ]
        if not findings:
            raise self.error(f"no claims of {source!r}, chapter {chapter}")
        lines = [".. list-table::", "   :class: stacked", "   :header-rows: 1", "   :widths: 46 18 36", ""]
        lines += ["   * - what is stated", "     - verdict", "     - what was computed"]
        for finding in findings:
            judged = finding.claim
            if not finding.agrees:
                self.state.document.reporter.warning(
                    f"{judged.identifier}: {finding.verdict.value}, documented: {judged.documented.value}",
                    line=self.lineno,
                )
            word = "Corrected" if judged.amendment else "Instead"
            lines.append(f"   * - {_plain(judged.location)}: {_with_formulas(judged.statement)}")
            if judged.amendment or finding.verdict is claims.Verdict.REFUTED:
                lines += ["", f"       *{word}:* {_with_formulas(judged.contrast_statement)}"]
            lines += [f"     - **{finding.verdict.value}**", "", f"       ``{judged.identifier}``"]
            lines += [f"     - {_plain(finding.telling)}"]
        return _parsed(self, lines)


class ClaimsCounts(Directive):
    """``.. claims-counts::`` shows how many claims of every source have every verdict."""

    has_content = False

    def run(self):
        if fast_build.ASKED:
            return _not_judged(self)
        verdicts = [verdict.value for verdict in claims.Verdict]
        lines = [".. list-table::", "   :header-rows: 1", ""]
        lines += ["   * - source", *(f"     - {word}" for word in [*verdicts, "all"])]
        counts = _report().counts
        for source, row in counts.items():
            title = f"{claims.SOURCES[source].title} (``{source}``)"
            lines += [f"   * - {title}", *(f"     - {n}" for n in [*row.values(), sum(row.values())])]
        sums = [sum(row[verdict] for row in counts.values()) for verdict in verdicts]
        lines += ["   * - all", *(f"     - {n}" for n in [*sums, sum(sums)])]
        return _parsed(self, lines)


def _parsed(directive, lines):
    holder = nodes.container()
    directive.state.nested_parse(StringList(lines, source="claims"), directive.content_offset, holder)
    return holder.children


def _plain(words):
    """Text in which no character is markup."""
    return "".join("\\" + c if c in "*`_|\\" else c for c in str(words))


def _with_formulas(words):
    """Text in which symbols are formulas; the pieces of punctuation follow without a blank."""
    pieces = [
        ("" if formula is None else " ") + (f":math:`{latex(piece)}`" if formula else _plain(piece))
        for formula, piece in runs(words)
    ]
    return "".join(pieces).lstrip()


def setup(app):
    """Register the directives."""
    app.add_directive("claims-table", ClaimsTable)
    app.add_directive("claims-counts", ClaimsCounts)
    return {"parallel_read_safe": True}
