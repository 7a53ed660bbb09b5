"""Statements of the sources, the numbers computed to check them, and the verdicts."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, SupportsFloat

from convexrank.data import check_choice
from convexrank_annex.claims.sources import SOURCES

__all__ = [
    "Claim",
    "Comparison",
    "Finding",
    "Verdict",
    "at_least",
    "at_most",
    "claim",
    "defined_in",
    "equal",
    "judge",
]

# A number that misses by more than this many tolerances is wrong; by less, it may be the arithmetic that is.
_CLEARLY = 100.0


class Verdict(enum.Enum):
    """The verdict on a statement; the value is the word in tables."""

    HOLDS = "holds"
    CORRECTED = "holds once corrected"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Comparison:
    """One computed number, beside the number in the statement.

    Parameters
    ----------
    what : str
        The quantity, in words.
    found : float
        The computed number.
    stated : float
        The value or bound in the statement.
    relation : {"=", "<=", ">="}
        The relation between ``found`` and ``stated`` that the statement claims.
    tolerance : float
        Allowed error of rounding, discretisation or a solver.
    clearly : float, optional
        The smallest deviation that refutes the statement; deviations between the tolerance and this are undecided.
        Default: 100 tolerances.
    """

    what: str
    found: float
    stated: float
    relation: str
    tolerance: float
    clearly: float | None = None

    @property
    def defect(self) -> float:
        """Deviation from the relation; 0 if it is met."""
        excess = self.found - self.stated
        return {"=": abs(excess), "<=": max(excess, 0.0), ">=": max(-excess, 0.0)}[self.relation]

    @property
    def met(self) -> bool | None:
        """Whether the relation holds; None if the deviation is too small to decide, or not a number."""
        if self.defect <= self.tolerance:
            return True
        if self.defect >= (_CLEARLY * self.tolerance if self.clearly is None else self.clearly):
            return False
        return None

    def __str__(self) -> str:
        sign = {"=": "", "<=": "≤ ", ">=": "≥ "}[self.relation]
        return f"{self.what}: {self.found:.3g} (stated: {sign}{self.stated:.3g})"


def equal(
    what: str, found: SupportsFloat, stated: SupportsFloat, tolerance: float, **clearly: float
) -> Comparison:
    """Return the comparison found = stated.

    Examples
    --------
    >>> angles = equal("sum of the angles", 3.0, 3.14, 1e-6)
    >>> print(f"{angles}: {angles.met}")
    sum of the angles: 3 (stated: 3.14): False
    """
    return Comparison(what, float(found), float(stated), "=", tolerance, **clearly)


def at_most(
    what: str, found: SupportsFloat, stated: SupportsFloat, tolerance: float, **clearly: float
) -> Comparison:
    """Return the comparison found <= stated.

    Examples
    --------
    >>> length = at_most("length", 2.0, 3.0, 1e-6)
    >>> print(f"{length}: {length.met}")
    length: 2 (stated: ≤ 3): True
    """
    return Comparison(what, float(found), float(stated), "<=", tolerance, **clearly)


def at_least(
    what: str, found: SupportsFloat, stated: SupportsFloat, tolerance: float, **clearly: float
) -> Comparison:
    """Return the comparison found >= stated.

    Examples
    --------
    >>> length = at_least("length", 2.0, 3.0, 1e-6)
    >>> print(f"{length}: {length.met}")
    length: 2 (stated: ≥ 3): False
    """
    return Comparison(what, float(found), float(stated), ">=", tolerance, **clearly)


def judge(comparisons: Sequence[Comparison]) -> Verdict:
    """Return HOLDS if every comparison is met, REFUTED if one is clearly not met, else UNDECIDED.

    Examples
    --------
    >>> judge([equal("one", 1.0, 1.0, 1e-9), equal("two", 2.0, 3.0, 1e-9)])
    <Verdict.REFUTED: 'refuted'>
    """
    outcomes = [comparison.met for comparison in comparisons]
    if not outcomes:
        raise ValueError("nothing was compared, so nothing can be judged; a judge must return comparisons.")
    if any(met is False for met in outcomes):
        return Verdict.REFUTED
    return Verdict.HOLDS if all(outcomes) else Verdict.UNDECIDED


@dataclass(frozen=True)
class Claim:
    """A statement of a source with a judge, a function that checks it.

    A judge receives *the claimed formula*, condition or constant as a Python object. It computes the truth by
    itself, on fixed instances, and compares. It is called with the statement of the source, and with a contrast for
    which it must come to the opposite result. This detects a judge that returns the same result for any input.

    Parameters
    ----------
    identifier : str
        Short name, for the command line.
    chapter : int
        Chapter of the source; for a paper the section.
    location : str
        Theorem, equation or section in the source.
    statement : str
        The statement, in our words.
    stated : object
        The claim as published, the input of the judge.
    comparisons : callable
        The judge: it receives the claimed formula, and returns comparisons.
    contrast : object
        An object of the same kind for which the judge must come to the opposite result: false if the statement holds,
        true if it is refuted or needs an amendment.
    contrast_statement : str
        The contrast in words.
    documented : Verdict
        The verdict in the documentation. It does not influence the computed verdict.
    amendment : bool
        Whether the contrast is the statement with a corrected condition or constant: then, if the statement fails and
        the contrast holds, the verdict is CORRECTED.
    source : str
        A name of ``convexrank.claims.SOURCES``.
    """

    identifier: str
    chapter: int
    location: str
    statement: str
    stated: Any
    comparisons: Callable[[Any], Sequence[Comparison]]
    contrast: Any
    contrast_statement: str
    documented: Verdict
    amendment: bool = False
    source: str = "dissertation"

    def check(self) -> Finding:
        """Compute the evidence and judge it."""
        start = perf_counter()
        evidence = tuple(self.comparisons(self.stated))
        contrast = tuple(self.comparisons(self.contrast))
        return Finding(self, evidence, contrast, perf_counter() - start)


@dataclass(frozen=True)
class Finding:
    """The comparisons that were computed for a claim.

    Parameters
    ----------
    claim : Claim
        The claim.
    evidence : tuple of Comparison
        Comparisons for the statement.
    contrast : tuple of Comparison
        Comparisons for the contrast.
    seconds : float
        Time for both.
    """

    claim: Claim
    evidence: tuple[Comparison, ...]
    contrast: tuple[Comparison, ...]
    seconds: float

    @property
    def verdict(self) -> Verdict:
        """The verdict; UNDECIDED if the judge returns the same result for the contrast."""
        said, other = judge(self.evidence), judge(self.contrast)
        if {said, other} != {Verdict.HOLDS, Verdict.REFUTED}:
            return Verdict.UNDECIDED
        return Verdict.CORRECTED if said is Verdict.REFUTED and self.claim.amendment else said

    @property
    def agrees(self) -> bool:
        """Whether the verdict is the documented one."""
        return self.verdict is self.claim.documented

    @property
    def telling(self) -> Comparison:
        """The comparison with the largest deviation, in units of its tolerance."""

        def strain(comparison: Comparison) -> float:
            return math.inf if math.isnan(comparison.defect) else comparison.defect / comparison.tolerance

        return max(self.evidence, key=strain)


def claim(
    chapter: int,
    identifier: str,
    location: str,
    statement: str,
    stated: Any,
    *,
    documented: Verdict | None = None,
    otherwise: tuple[str, Any] | None = None,
    corrected: tuple[str, Any] | None = None,
    source: str = "dissertation",
) -> Callable[[Callable[[Any], Sequence[Comparison]]], Claim]:
    """Make a claim from a judge, as a decorator.

    Parameters
    ----------
    chapter : int
        Chapter or section, as in :class:`Claim`.
    identifier : str
        Short name of the claim.
    location : str
        Location in the source.
    statement : str
        The statement, in our words.
    stated : object
        The claim as published, the input of the judge.
    documented : Verdict, optional
        The verdict in the documentation; by default CORRECTED with ``corrected``, HOLDS with ``otherwise``.
    otherwise : (str, object), optional
        A contrast that is another statement: its words, and the input of the judge.
    corrected : (str, object), optional
        A contrast that corrects the statement: its words, and the input of the judge. Exactly one of the two is
        required.
    source : str, optional
        A name of ``convexrank.claims.SOURCES``.

    Returns
    -------
    callable
        A decorator that takes the judge and returns the :class:`Claim`.

    Examples
    --------
    >>> @claim(0, "pi", "section 0", "Pi is 22/7.", 22 / 7,
    ...        corrected=("Pi is 355/113, to six digits.", 355 / 113))
    ... def pi(value):
    ...     import math
    ...     return [equal("pi", math.pi, value, 1e-6)]
    >>> pi.check().verdict
    <Verdict.CORRECTED: 'holds once corrected'>
    """
    contrast = otherwise or corrected
    if contrast is None or (otherwise and corrected):
        raise TypeError("a claim needs exactly one of otherwise and corrected: what its judge is tried on.")
    check_choice(source, SOURCES, "source")
    words, other = contrast
    verdict = documented or (Verdict.CORRECTED if corrected else Verdict.HOLDS)

    def of(comparisons: Callable[[Any], Sequence[Comparison]]) -> Claim:
        judged = Claim(identifier, chapter, location, statement, stated, comparisons, other, words, verdict)
        return replace(judged, amendment=corrected is not None, source=source)

    return of


def defined_in(module: dict[str, Any]) -> tuple[Claim, ...]:
    """Return the claims that a module with these globals defines, in the order in which they stand there."""
    claims = [value for value in module.values() if isinstance(value, Claim)]
    return tuple(one for one in claims if one.comparisons.__module__ == module["__name__"])
