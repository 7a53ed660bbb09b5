"""Check claims and show the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import Any

from convexrank.data import check_choice, check_integer, check_list, shown
from convexrank_annex.claims.claim import Claim, Comparison, Finding, Verdict
from convexrank_annex.claims.registry import REGISTRY
from convexrank_annex.claims.sources import SOURCES

__all__ = ["ClaimsReport", "check"]

_ROW = "{:<29} {}"
_COUNTS = "{:<28} {:>9} {:>20} {:>9} {:>9}"
_WIDTH = 80
_INDENT: dict[str, Any] = {"initial_indent": "    ", "subsequent_indent": "    "}


@dataclass(frozen=True)
class ClaimsReport:
    """Findings, one for each claim; its string is a table.

    Parameters
    ----------
    findings : tuple of Finding
        The findings, in the order of the registry.
    """

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there are findings, and every verdict is the documented one."""
        return bool(self.findings) and all(finding.agrees for finding in self.findings)

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Number of findings by source and verdict, without sources that have no findings."""
        found = Counter((finding.claim.source, finding.verdict) for finding in self.findings)
        return {
            source: {verdict.value: found[source, verdict] for verdict in Verdict}
            for source in SOURCES
            if any(finding.claim.source == source for finding in self.findings)
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain types, ready for JSON."""
        return {
            "ok": self.ok,
            "counts": self.counts,
            "claims": [_plain(finding) for finding in self.findings],
        }

    def __str__(self) -> str:
        lines: list[str] = []
        for (source, number), findings in groupby(self.findings, key=_place):
            lines += [f"{source}, {SOURCES[source].part} {number}", "-" * _WIDTH]
            for finding in findings:
                lines += _lines(finding)
        if self.findings:
            lines += ["", _COUNTS.format("verdicts", *(verdict.value for verdict in Verdict)), "-" * _WIDTH]
            for name, row in self.counts.items():
                lines += [SOURCES[name].title, _COUNTS.format("", *row.values())]
        counts = Counter(finding.verdict.value for finding in self.findings)
        seconds = sum(finding.seconds for finding in self.findings)
        summary = ", ".join(f"{number} {word}" for word, number in sorted(counts.items()))
        ending = "as documented" if self.ok else "NOT as documented"
        return "\n".join([*lines, f"{len(self.findings)} claims in {seconds:.1f} s: {summary}; {ending}"])


def _place(finding: Finding) -> tuple[str, int]:
    return finding.claim.source, finding.claim.chapter


def _lines(finding: Finding) -> list[str]:
    judged = finding.claim
    mark = "" if finding.agrees else f"  (documented: {judged.documented.value})"
    words = f"{judged.location}: {judged.statement}"
    if judged.amendment:
        words += f" Corrected: {judged.contrast_statement}"
    first = _ROW.format(judged.identifier, f"{finding.verdict.value}{mark}")
    texts = (str(finding.telling), words)
    return [first, *(line for text in texts for line in wrap(text, _WIDTH, **_INDENT))]


def _plain(finding: Finding) -> dict[str, Any]:
    judged = finding.claim
    return {
        "identifier": judged.identifier,
        "source": judged.source,
        "chapter": judged.chapter,
        "location": judged.location,
        "statement": judged.statement,
        "verdict": finding.verdict.value,
        "documented": judged.documented.value,
        "agrees": finding.agrees,
        "evidence": [_numbers(comparison) for comparison in finding.evidence],
        "contrast": judged.contrast_statement,
        "contrast_evidence": [_numbers(comparison) for comparison in finding.contrast],
        "seconds": finding.seconds,
    }


def _numbers(comparison: Comparison) -> dict[str, Any]:
    return {
        "what": comparison.what,
        "found": comparison.found,
        "relation": comparison.relation,
        "stated": comparison.stated,
        "tolerance": comparison.tolerance,
        "met": comparison.met,
    }


def check(
    names: Sequence[str] = (),
    chapter: int | None = None,
    progress: Callable[[Finding], Any] | None = None,
    source: str | None = None,
) -> ClaimsReport:
    """Check claims and return their verdicts.

    Parameters
    ----------
    names : sequence of str
        Identifiers; empty for all.
    chapter : int, optional
        Only the claims of this chapter of the dissertation, or of this chapter or section of ``source``.
    progress : callable, optional
        A function that is called with every finding.
    source : str, optional
        Only the claims of this source, a name of ``convexrank.claims.SOURCES``.

    Raises
    ------
    ValueError
        When a name, the source or the chapter is unknown, or no claim fits them all.

    Examples
    --------
    >>> import convexrank as cr
    >>> report = cr.claims.check(["gradmapr-gradient"])
    >>> report.findings[0].verdict.value
    'refuted'
    """
    if progress is not None and not callable(progress):
        raise TypeError(f"progress is {shown(progress)}, expected a function of a finding, or None.")
    findings = []
    for judged in _chosen(names, chapter, source):
        findings.append(judged.check())
        if progress is not None:
            progress(findings[-1])
    return ClaimsReport(tuple(findings))


def _chosen(names: Sequence[str], chapter: int | None, source: str | None) -> list[Claim]:
    """Return the claims of these names, or of a chapter or source; arguments and errors are those of :func:`check`."""
    names = check_list(names, "names", "names of claims")
    for name in names:
        check_choice(name, REGISTRY, "names")
    if source is not None:
        check_choice(source, SOURCES, "source")
    elif chapter is not None:
        source = next(iter(SOURCES))
    if chapter is not None:
        chapter = check_integer(chapter, "chapter", 0)
    own = [judged for judged in REGISTRY.values() if source in (None, judged.source)]
    chapters = sorted({judged.chapter for judged in own})
    if chapter is not None and chapter not in chapters:
        raise ValueError(
            f"chapter is {shown(chapter)}, expected one of {chapters}, the chapters of {source!r}."
        )
    chosen = [
        judged
        for judged in own
        if (not names or judged.identifier in names) and chapter in (None, judged.chapter)
    ]
    if not chosen:
        where = f"{source!r}" if chapter is None else f"{SOURCES[source or ''].part} {chapter} of {source!r}"
        raise ValueError(f"none of {list(names)} is in {where}; leave out names, source or chapter.")
    return chosen
