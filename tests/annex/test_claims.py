"""Every claim is judged as documented, and the judges can say both."""

from __future__ import annotations

import ast
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convexrank import cli
from convexrank.claims import (
    REGISTRY,
    SOURCES,
    ClaimsReport,
    Verdict,
    at_least,
    at_most,
    check,
    claim,
    equal,
    judge,
)
from convexrank.links.marginal_cost import expected_targets
from convexrank_annex import claims
from convexrank_annex.claims.learned_divergence import gradient
from convexrank_annex.claims.registry import _FOLDERS
from convexrank_annex.claims.report import _chosen

FILES = sorted(Path(claims.__file__).parent.rglob("*.py"))


@pytest.fixture(scope="module")
def findings():
    return {finding.claim.identifier: finding for finding in check().findings}


# --- the claims -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REGISTRY)
def test_a_claim_is_judged_as_documented(findings, name):
    finding = findings[name]
    assert finding.verdict is finding.claim.documented, finding.evidence
    assert finding.verdict is not Verdict.UNDECIDED


@pytest.mark.parametrize("name", REGISTRY)
def test_a_judge_says_the_opposite_of_the_contrast(findings, name):
    finding = findings[name]
    assert {judge(finding.evidence), judge(finding.contrast)} == {Verdict.HOLDS, Verdict.REFUTED}


@pytest.mark.parametrize("name", REGISTRY)
def test_a_claim_says_what_and_where(name):
    judged = REGISTRY[name]
    assert judged.identifier == name
    assert judged.statement.endswith(".")
    assert judged.contrast_statement.endswith(".")
    assert judged.location
    assert judged.source in SOURCES
    assert judged.comparisons.__doc__
    assert judged.amendment == (judged.documented is Verdict.CORRECTED)


def test_no_identifier_is_used_twice():
    assert len(REGISTRY) == sum(len(folder.CLAIMS) for folder in _FOLDERS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_judges_share_no_code_with_what_they_judge(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    own = {name for name in imported if name and name.startswith("convexrank")}
    assert {name for name in own if not name.startswith("convexrank_annex.claims")} <= {"convexrank.data"}


def test_evidence_is_the_same_every_time():
    for name in ("one-shot-lipschitz", "gradmapr-monotone"):
        first, second = REGISTRY[name].check(), REGISTRY[name].check()
        assert [c.found for c in first.evidence] == [c.found for c in second.evidence]


# --- planted statements ---------------------------------------------------------------------------------------------


def told(name, stated):
    return judge(REGISTRY[name].comparisons(stated))


def slightly_off(theta, y, strong=None, smooth=None):
    return gradient.rearranged(theta, y, strong, smooth) + 0.01 * theta


def of_the_package(theta, y, strong=None, smooth=None):
    order, link = np.argsort(theta), np.empty(len(y))
    link[order] = expected_targets(theta[order], np.sort(y), strong, smooth)
    return link


def test_a_planted_falsehood_is_refuted():
    assert told("gradmapr-gradient", slightly_off) is Verdict.REFUTED
    too_large = (
        lambda *arguments: 1.05 * gradient.marginal(*arguments),
        gradient.rearranged,
    )
    assert told("marginal-strong", too_large) is Verdict.REFUTED
    assert told("surrogate-of-squared-loss", 0.55) is Verdict.REFUTED
    assert told("sensitivity", lambda x, change, share: 0.0) is Verdict.REFUTED
    assert told("kernel-representation", -0.51) is Verdict.REFUTED
    assert told("prediction-interval", lambda strong: 1.02 / strong) is Verdict.REFUTED
    assert told("one-shot-lipschitz", lambda y, lower, upper: y) is Verdict.REFUTED


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("hyperplane-multiplier", 1.01),
        ("divergence-about-the-mean", lambda x, chances: 1.001 * float(chances @ x)),
        ("sorted-distributions", lambda d: 1.001 / np.arange(1.0, d + 1.0)),
        ("values-of-links", lambda strong, smooth: (1.0 / smooth, 0.9 / strong)),
        ("links-hoelder-continuous", 0.5),
        ("escape-from-a-set", lambda low, high: 0.6 * max(abs(low), abs(high)) ** 2),
        ("penalty-brings-near", lambda L, s, ratio: 0.8 * ratio),
        ("price-of-the-top", (lambda r: r**0.9,)),
        ("table-of-swaps", 0.501),
        ("polarity-reverses", 4),
        ("coordinate-of-steepest-descent", lambda p: p),
        ("dual-is-the-objective", lambda p: 1.01 / p),
        ("legendre-strictly-convex", 0.99),
        ("deviation-is-lipschitz", 3.8),
        ("difference-of-roots", lambda a, p: 0.9 * a ** (1.0 / p - 1.0)),
        ("first-bound", lambda p: 1.0),
        ("all-negatives-at-once", 1.5),
        ("bayes-risk-by-gini", 0.51),
        ("greatest-gini", lambda p: 2.1 * p * (1 - p)),
        ("spread-out-regression-function", 1.5),
        ("rademacher-exponential", 5.0),
        ("hoeffding-for-pairs", lambda n: 2.0 * n),
        ("leading-term", 3.0),
        ("ball-of-a-kernel", lambda n: 0.9 / (n // 2)),
        ("decay-condition", lambda eigenvalue: 1.03 / eigenvalue),
        ("decay-condition-of-distrust", lambda eigenvalue: 1.03 / eigenvalue),
        ("shifted-orthant", 0.9999),
        ("norms-resist-farms", (1, 2)),
        ("pinsker-as-printed", 0.52),
        ("smooth-from-below", 0.49),
        ("disk-by-its-centre", 3.5),
        ("disk-by-its-centre-2005", 3.5),
        ("deviation-without-logarithm", lambda p: 2.5),
        ("unique-in-the-closure", 1e-2),
    ],
)
def test_a_planted_number_is_refuted(name, planted):
    assert told(name, planted) is Verdict.REFUTED


def test_what_is_weaker_than_a_truth_is_not_refuted():
    assert told("deviation-is-lipschitz", 5.0) is Verdict.HOLDS
    assert told("rademacher-exponential", 20.0) is Verdict.HOLDS
    assert told("spread-out-regression-function", 3.0) is Verdict.HOLDS
    assert told("hoeffding-for-pairs", lambda n: n - 1.0) is Verdict.HOLDS
    assert told("decay-condition", lambda eigenvalue: 0.97 / eigenvalue) is Verdict.HOLDS
    assert told("smooth-from-below", 0.6) is Verdict.HOLDS
    assert told("legendre-to-the-boundary", 0.95) is Verdict.HOLDS
    assert told("disk-by-its-centre", 9.0) is Verdict.HOLDS
    assert told("pinsker-as-printed", 0.49) is Verdict.HOLDS


def test_a_truth_is_not_refuted():
    for name in ("gradmapr-gradient", "projection-is-best-link", "isotron-is-a-gradient-step"):
        assert told(name, of_the_package) is Verdict.HOLDS
    for name in ("marginal-convex", "marginal-strong", "marginal-smooth", "marginal-both"):
        assert told(name, (gradient.marginal, of_the_package)) is Verdict.HOLDS
    assert told("surrogate-of-squared-loss", 0.4) is Verdict.HOLDS
    assert told("metric-invariance-bounded", (0.7, 0.7)) is Verdict.HOLDS


def test_planting_in_a_claim_changes_its_verdict():
    honest = REGISTRY["isotron-is-a-gradient-step"]
    assert honest.check().verdict is Verdict.REFUTED
    planted = replace(honest, stated=honest.contrast, contrast=honest.stated)
    assert planted.check().verdict is Verdict.HOLDS
    assert not planted.check().agrees


def test_a_judge_that_says_the_same_of_anything_decides_nothing():
    @claim(
        0, "yes", "nowhere", "All is true.", 1.0, documented=Verdict.HOLDS, otherwise=("All is true.", 2.0)
    )
    def yes(_):
        return [equal("one", 1.0, 1.0, 1e-9)]

    assert yes.check().verdict is Verdict.UNDECIDED


def test_a_claim_needs_one_contrast():
    both: dict[str, Any] = {"otherwise": ("This.", 1), "corrected": ("That.", 2)}
    for contrasts in ({}, both):
        with pytest.raises(TypeError, match="exactly one"):
            claim(0, "none", "nowhere", "Nothing.", 0, documented=Verdict.HOLDS, **contrasts)


def test_a_claim_needs_a_known_source():
    with pytest.raises(ValueError, match="source is 'elsewhere'"):
        claim(0, "none", "nowhere", "Nothing.", 0, otherwise=("This.", 1), source="elsewhere")


# --- comparisons ----------------------------------------------------------------------------------------------------

NUMBERS = st.floats(-1e3, 1e3)


@given(NUMBERS, NUMBERS)
def test_relations(found, stated):
    tolerance = 1e-6
    for compare, defect in (
        (equal, abs(found - stated)),
        (at_most, max(found - stated, 0.0)),
        (at_least, max(stated - found, 0.0)),
    ):
        met = compare("number", found, stated, tolerance).met
        expected = True if defect <= tolerance else False if defect >= 100 * tolerance else None
        assert met is expected


def test_what_is_not_a_number_decides_nothing():
    for compare in (equal, at_most, at_least):
        assert compare("number", math.nan, 1.0, 1e-6).met is None
        assert judge([compare("number", math.nan, 1.0, 1e-6)]) is Verdict.UNDECIDED
    with pytest.raises(ValueError, match="nothing was compared"):
        judge([])


# --- report and command ---------------------------------------------------------------------------------------------


def test_a_report_without_findings_is_not_fine():
    assert not ClaimsReport(()).ok


def test_unknown_names_are_refused():
    for name in ("gradmapr-gradent", "GRADMAPR", "mapr-grad"):
        with pytest.raises(ValueError, match=f"names is '{name}'.*close to it.*gradmapr-gradient"):
            check([name])
    for name in ("nonsense", "", "\N{SNOWMAN}" * 1000):
        with pytest.raises(ValueError, match=r"names is .*no name is close to it"):
            check([name])
    with pytest.raises(ValueError, match=r"expected one of \[2, 3, 4, 5, 6\]"):
        check(chapter=99)
    with pytest.raises(ValueError, match=r"source is 'rudin', expected one of: dissertation"):
        check(source="rudin")
    with pytest.raises(ValueError, match="leave out names, source or chapter"):
        check(["three-points"], chapter=4)


def test_a_chapter_alone_is_one_of_the_dissertation():
    names = [judged.identifier for judged in _chosen((), 6, None)]
    assert names == [judged.identifier for judged in _chosen((), 6, "dissertation")]
    assert names == [
        name for name, judged in REGISTRY.items() if judged.source == "dissertation" and judged.chapter == 6
    ]


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_has_claims_in_the_order_of_their_places(source):
    chosen = _chosen((), None, source)
    assert len(chosen) == sum(judged.source == source for judged in REGISTRY.values()) > 4
    assert [judged.chapter for judged in chosen] == sorted(judged.chapter for judged in chosen)


def test_what_no_source_states_is_ours():
    beside = {name for name, judged in REGISTRY.items() if judged.location.startswith("beside ")}
    assert beside == {name for name, judged in REGISTRY.items() if judged.source == "ours"}


def test_no_theorem_is_counted_twice_by_its_parts():
    assert [name for name, judged in REGISTRY.items() if judged.location.startswith("Theorem 12")] == [
        "play-within-regret"
    ]


def test_a_report_counts_by_source_and_verdict(findings):
    report = ClaimsReport(tuple(findings.values()))
    assert list(report.counts) == list(SOURCES)
    assert sum(sum(row.values()) for row in report.counts.values()) == len(REGISTRY) >= 150
    for source, row in report.counts.items():
        for verdict in Verdict:
            expected = sum(
                judged.source == source and judged.documented is verdict for judged in REGISTRY.values()
            )
            assert row[verdict.value] == expected
        assert SOURCES[source].title in str(report)
    assert report.to_dict()["counts"] == report.counts
    assert not ClaimsReport(()).counts


def test_the_command_prints_a_table(capsys):
    assert cli.main(["claims", "isotron-is-a-gradient-step", "kernel-representation"]) == 0
    out = capsys.readouterr().out
    assert "refuted" in out
    assert "holds once corrected" in out
    assert "as documented" in out


def test_the_command_selects_by_source_and_section(capsys):
    assert cli.main(["claims", "--source", "push-2005", "--chapter", "4", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {(one["source"], one["chapter"]) for one in report["claims"]} == {("push-2005", 4)}
    assert report["counts"]["push-2005"]["holds once corrected"] == 2
    assert cli.main(["claims", "--source", "nowhere"]) == 2
    assert "source is 'nowhere'" in capsys.readouterr().err


def test_the_command_fails_when_a_verdict_is_not_the_documented_one(monkeypatch, capsys):
    name = "isotron-is-a-gradient-step"
    monkeypatch.setitem(REGISTRY, name, replace(REGISTRY[name], documented=Verdict.HOLDS))
    assert cli.main(["claims", name, "--chapter", "4", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert report["claims"][0]["verdict"] == "refuted"
    assert report["claims"][0]["evidence"][0]["met"] is False
    assert cli.main(["claims", name]) == 1
    assert "documented: holds" in capsys.readouterr().out


def test_unusable_arguments_exit_with_two(capsys):
    assert cli.main(["claims", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err
