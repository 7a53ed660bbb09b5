"""What a prompt and a notebook show: short lines, small tables, formulas."""

from __future__ import annotations

import dataclasses
import pickle
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank import inference
from convexrank.core.results import Certificate
from convexrank.data.display import html_table, number_text, short_text, sparkline
from convexrank.data.messages import not_installed
from convexrank.problems import REGISTRY

pytestmark = pytest.mark.quick
X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.4], [0.2, 0.1], [0.4, 0.9]])
Y = [1, 1, 1, 0, 0]


@pytest.fixture(scope="module")
def problem():
    return cr.problems.PNormPush(X, Y, p=4, l2=1e-4)


@pytest.fixture(scope="module")
def solution(problem):
    return problem.solve()


def parsed(html):
    """The HTML as a tree, which fails where a bracket is open."""
    return ET.fromstring(html.replace("&amp;", "and"))


def test_a_problem_is_one_line(problem):
    assert repr(problem) == "PNormPush(5×2, 3 positive / 2 negative, p=4, l2=1e-4)"
    assert repr(problem.changed(l1=0.5, l2=0.0)) == "PNormPush(5×2, 3 positive / 2 negative, p=4, l1=0.5)"
    weighted = cr.problems.PNormPush(sparse.csr_array(X), Y, p=4, sample_weight=[1, 2, 0, 1, 1])
    assert repr(weighted) == "PNormPush(5×2 sparse, 2 positive / 2 negative, weighted, p=4)"
    push = cr.problems.Push(X, Y, price=2.0, loss="hinge")
    assert repr(push) == "Push(5×2, 3 positive / 2 negative, price=Power(p=2), loss=Hinge())"


def test_queries_are_counted():
    problem = cr.problems.ListNet(X, [2, 1, 0, 1, 1], [7, 7, 7, 8, 8])
    assert repr(problem) == "ListNet(5×2, 1 query, 1 without an order)"


@pytest.mark.parametrize("name", REGISTRY)
def test_every_problem_has_a_short_line_a_table_and_a_formula(name):
    for seed in range(3):
        problem = REGISTRY[name].random(seed)
        assert repr(problem).startswith(f"{name}(")
        assert len(repr(problem)) < 200
        assert "\n" not in repr(problem)
        assert "array(" not in repr(problem)
        formula = problem.formula()
        assert formula
        assert formula.count("{") == formula.count("}")
        assert formula.count(r"\begin") == formula.count(r"\end")
        written = " ".join((type(problem).__doc__ or "").split())
        assert formula in written, "the formula is the docstring's"
        assert str(problem.dimension) in "".join(parsed(problem._repr_html_()).itertext())


def test_each_view_has_its_own_formula():
    made = [
        cr.problems.ConsensusRank([[[0, 1]], [[1, 0]]], view=view) for view in ("optimistic", "pessimistic")
    ]
    assert r"\min_{t_i" in made[0].formula()
    assert r"\min_{y" in made[1].formula()


def test_a_formulation_of_ones_own_is_shown_as_well():
    @dataclass(frozen=True, eq=False)
    class Own(cr.problems.PNormPush):
        extra: Any = None

    @dataclass(frozen=True, eq=False)
    class Chosen(cr.problems.PNormPush):
        def __repr__(self):
            return "mine"

    class Bare(cr.Problem):
        dimension = 1

    assert repr(Own(X, Y, p=2, extra=X)) == "Own(5×2, 3 positive / 2 negative, p=2, extra=5×2)"
    assert repr(Chosen(X, Y, p=2)) == "mine"
    assert repr(Bare()) == "Bare()"
    assert Bare().formula() == ""
    assert "$$" not in Bare()._repr_html_()
    assert "<td>default solver</td><td>not stated</td>" in Bare()._repr_html_()


def test_a_half_made_problem_can_be_shown():
    """A debugger shows what a constructor was about to refuse."""
    half = object.__new__(cr.problems.PNormPush)
    assert repr(half) == "PNormPush()"
    half.__dict__.update(X=[[1.0]], y=[3], p=-1.0)
    assert repr(half) == "PNormPush([[1.0]], p=-1)"


def test_one_of_something_is_not_many():
    found = inference.ndcg_interval([1.0, 0.0], [1.0, 2.0], [0, 0])
    assert "exact, 1 query" in repr(found)
    assert "1 positive, 2 negatives" in repr(inference.auc_interval([1, 0, 0], [3, 1, 2]))
    assert "1 positive, 1 negative)" in repr(inference.roc_band([0, 1], [0, 1]))
    assert "after 1 period, level" in repr(inference.monitor([0, 1], [0, 1], [7, 7]))
    assert "1 new row." in repr(inference.top_hits([0, 1], [0, 1], [2.0], 1))
    with pytest.raises(ValueError, match=r"y has 1 negative, expected at least 59"):
        inference.threshold([0, 1], [0, 1], max_fpr=0.05)
    with pytest.raises(ValueError, match=r"qid has 1 query with a relevant document, expected at least 9"):
        inference.list_length([1, 0], [1, 0], [3, 3], max_missed=0.1)
    assert repr(cr.consensus.score_intervals([[[1.0]]])).startswith("ScoreIntervals(1 node, ")


def test_a_solution_is_one_line(problem, solution):
    expected = (
        r"Solution: CONVERGED \(newton, \d+ steps, \S+ s\), value (\S+), gap (\S+) certified \(global\)"
    )
    value, gap = re.fullmatch(expected, repr(solution)).groups()
    assert float(value) == pytest.approx(solution.value, rel=1e-4)
    assert float(gap) == pytest.approx(solution.gap, rel=0.5)
    exact = problem.solve(solver="exact")
    assert "steps" not in repr(exact)
    assert "(newton, 1 step, " in repr(cr.Solution(**{**vars(solution), "iterations": 1}))


@pytest.mark.parametrize(
    ("certificate", "text"),
    [
        (Certificate(1e-9, 1.0, 1.0, proved=True), "gap 1e-09 proved (global)"),
        (
            Certificate(1e-9, np.nan, -np.inf, "distance", metric="L1 norm"),
            "distance 1e-09 certified (L1 norm)",
        ),
        (Certificate(0.5, np.nan, 0.0, "violation", metric="L2 norm"), "violation 0.5 certified (L2 norm)"),
        (Certificate(0.25, 1.0, 0.75, "ball", 2.0, "||w/units||"), "gap 0.2 certified (ball)"),
        (Certificate(1e-9, 1.0, -np.inf, "residual"), "residual 1e-09 (no bound)"),
        (Certificate(2e275, -3.0, -2e275), "no bound on the error"),
        (Certificate(9e20, -2e19, -1e21), "gap 9e+20 certified (global)"),
    ],
)
def test_each_kind_of_bound_is_named(solution, certificate, text):
    shown = cr.Solution(**{**vars(solution), "certificate": certificate, "value": certificate.value})
    assert repr(shown).endswith(text)
    assert ("value" in repr(shown)) == (not np.isnan(certificate.value))


def test_summary_and_table_of_a_solution(problem, solution, tmp_path):
    summary = solution.summary()
    assert [line.split()[0] for line in summary.splitlines()] == [
        "problem", "status", "run", "value", "bound", "x", "message",
    ]  # fmt: skip
    assert repr(problem) in summary
    assert solution.message in summary
    tree = parsed(solution._repr_html_())
    assert len(tree.findall("table/tr")) == 6
    points = tree.find("svg/polyline").get("points").split()
    assert len(points) == int((solution.trace["gap"] > 0).sum())
    solution.save(tmp_path / "kept.npz")
    assert "problem  PNormPush\n" in cr.Solution.load(tmp_path / "kept.npz").summary()


def test_a_solution_draws_its_trace(solution):
    panels = solution.plot(against="seconds")
    assert panels[1].get_xlabel() == "seconds"
    assert len(panels[0].lines[0].get_xdata()) == len(solution.trace["objective"])
    plt.close("all")


def test_path_and_report(problem):
    path = problem.path(l2=np.geomspace(1.0, 1e-3, 20))
    assert re.fullmatch(r"Path: l2 from 1 to 0.001, 20 solutions, gaps up to \S+", repr(path))
    rows = parsed(path._repr_html_()).findall("table/tr")
    assert len(rows) == 13, "a head and twelve of the rows"
    assert [rows[1][0].text, rows[-1][0].text] == ["1", "0.001"]
    report = cr.verify(problem)
    assert repr(report) == "Report: ok, 1 compared, 0 skipped"
    assert len(parsed(report._repr_html_()).findall("table/tr")) == 2
    wrong = cr.verify(problem, solver=lambda problem: np.ones(2))
    assert re.fullmatch(r"Report: FAILED, 1 compared, 0 skipped, \d+ disagreements?", repr(wrong))


def test_texts_are_escaped_and_numbers_short():
    assert html_table("<b>", [["&"]]).startswith("<div><b>&lt;b&gt;</b>")
    assert [number_text(v) for v in (0.0, 1e-4, -2.5e-7, 1e300, 12345, 1 / 3)] == [
        "0", "1e-4", "-2.5e-7", "1e+300", "12345", "0.3333",
    ]  # fmt: skip
    assert [number_text(v) for v in (np.nan, -np.inf)] == ["nan", "-inf"]
    assert short_text(np.float64(0.5)) == "0.5"
    assert short_text(np.array(3.0)) == "array of 1"
    assert short_text(list(range(100))) == "list of 100"
    assert short_text((0.25, None)) == "(0.25, None)"
    assert short_text(np.sort) == "sort"
    assert (
        short_text(cr.divergences.SquaredEuclidean(weights=np.ones(3)))
        == "SquaredEuclidean(weights=(1, 1, 1))"
    )


def test_sparklines_keep_to_their_box():
    for values in ([1, 2], [5, 5, 5], [1e308, -1e308], [np.nan, 1, 2, np.inf], [0, 1e-300, 1]):
        drawn = sparkline(values, "gap", logarithmic=min(values) == 0)
        heights = [
            float(point.split(",")[1]) for point in re.search(r'points="(.*?)"', drawn).group(1).split()
        ]
        assert 2.0 <= min(heights) <= max(heights) <= 38.0
    assert sparkline([], "gap") == sparkline([np.nan, 1.0], "gap") == ""


def test_solutions_are_compared_by_where_and_how_they_end():
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 2
    problem = cr.problems.PNormPush(X, y, p=2, l2=0.1)
    one, again, other = problem.solve(), problem.solve(), problem.changed(l2=0.2).solve()
    assert one == again
    assert hash(one) == hash(again)
    assert one == pickle.loads(pickle.dumps(one))
    assert one != other
    assert one != problem.solve("lbfgs")
    assert one != dataclasses.replace(one, x=one.x + 1.0)
    assert one != "a solution"


def test_versions_are_those_of_the_distributions():
    found = cr.show_versions()
    assert found.entries["convexrank"] == cr.__version__
    for name in ("numpy", "jax", "cvxpy", "matplotlib"):
        assert found.entries[name] == metadata.version(name)
    assert "unopy" in found.entries
    assert "pytest" not in found.entries
    lines = repr(found).splitlines()
    assert (
        len(
            {
                line.index(version)
                for line, version in zip(lines, found.entries.values(), strict=True)
                if version
            }
        )
        == 1
    )
    assert repr(type(found)({"numpy": "2", "nothing": ""})) == "numpy    2\nnothing  (not installed)"


@pytest.mark.parametrize("missing", ["cvxpy", "jaxopt"])
def test_what_is_not_installed_is_named(missing, problem):
    """A light install lacks the exact solver; another import error stays as it is."""

    def lacking(problem):
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    with pytest.raises(ModuleNotFoundError, match=f"{missing} is not installed, and this call needs it"):
        problem.solve(lacking)
    other = ModuleNotFoundError("No module named 'other'", name="other")
    assert not_installed(other) is other
