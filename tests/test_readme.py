"""README.md: its quick start runs and means what it says; its links lead somewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from sklearn.linear_model import LogisticRegression

import convexrank as cr
from tests.coverage_figure import with_figure
from tests.public_address import _ADDRESS
from tests.readme_quick_start import README, check, execute, quick_start
from tests.tolerances import tolerance

TEXT = README.read_text(encoding="utf-8")


def test_quick_start_has_at_most_six_lines() -> None:
    lines = [line for line in quick_start(TEXT).splitlines() if line.strip()]
    assert 0 < len(lines) <= 6


def test_quick_start_agrees_with_the_exact_model(capsys: pytest.CaptureFixture[str]) -> None:
    names = execute(quick_start(TEXT))
    check(names, tolerance("readme"))
    *_, measured, last = capsys.readouterr().out.splitlines()
    assert [float(word) for word in last.split()] == [
        names["sol"].value - names["ref"].value,
        names["sol"].gap,
    ]
    assert "precision_at = 0.7500 in" in measured


def test_the_comparison_beside_it_is_what_logistic_regression_has() -> None:
    data = cr.data.load_screening()
    fitted = LogisticRegression().fit(data.X[:2000], data.y[:2000])
    found = cr.metrics.precision_at(data.y[2000:], fitted.decision_function(data.X[2000:]), 20)
    assert f"logistic regression has {found:.2f}".replace("0.", ".") in TEXT


def test_links_to_files_exist() -> None:
    inside = re.compile(rf"{_ADDRESS.pattern}/(?:blob|raw)/main/")  # as a public address makes them
    found = [inside.sub("", link) for link in re.findall(r"\]\(([^)#]+)", TEXT)]
    links = [link for link in found if "://" not in link]
    assert links
    assert [link for link in links if not (README.parent / link).is_file()] == []


def test_a_readme_without_code_is_refused() -> None:
    with pytest.raises(ValueError, match="no ```python block"):
        quick_start("# title\n\n    make demo\n")


def test_only_the_first_block_is_taken() -> None:
    assert quick_start("```python\na = 1\n```\ntext\n```python\nb = 2\n```\n") == "a = 1\n"


def test_an_error_in_the_block_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        execute("1 / 0\n")


@dataclass(frozen=True)
class _Ending:
    value: float
    gap: float = 0.0
    ending: str = "CONVERGED"

    @property
    def status(self) -> SimpleNamespace:
        return SimpleNamespace(name=self.ending)


@pytest.mark.parametrize(
    ("fast", "exact"),
    [
        pytest.param(_Ending(1.01), _Ending(1.0), id="value off by 1 %"),
        pytest.param(_Ending(float("nan")), _Ending(1.0), id="value not a number"),
        pytest.param(_Ending(1.0, gap=0.01), _Ending(1.0), id="gap too wide"),
        pytest.param(_Ending(1.0, gap=-0.01), _Ending(1.0), id="gap negative"),
        pytest.param(_Ending(1.0, gap=float("nan")), _Ending(1.0), id="gap not a number"),
        pytest.param(_Ending(1.0, ending="MAX_ITER"), _Ending(1.0), id="fast did not converge"),
        pytest.param(_Ending(1.0), _Ending(1.0, ending="FAILED"), id="exact failed"),
    ],
)
def test_a_planted_fault_is_caught(fast: _Ending, exact: _Ending) -> None:
    check({"sol": _Ending(1.0), "ref": _Ending(1.0)}, tolerance("readme"))
    with pytest.raises(AssertionError):
        check({"sol": fast, "ref": exact}, tolerance("readme"))


@pytest.mark.parametrize("measured", [0, 80, 81, 89, 90, 91, 92, 100])
def test_the_share_of_lines_is_rewritten_where_it_is_off(measured: int) -> None:
    text = "# title\n\nTests run 90 % of the lines, and 90 % is no figure.\n"
    expected = text if abs(measured - 90) <= 1 else text.replace("run 90 %", f"run {measured} %")
    assert with_figure(text, measured) == expected


def test_the_share_of_lines_is_stated_once() -> None:
    assert "Tests run 7 % of the lines" in with_figure(TEXT, 7)
    with pytest.raises(ValueError, match="stated 2 times"):
        with_figure(TEXT + TEXT, 90)
    with pytest.raises(ValueError, match="stated 0 times"):
        with_figure("# title\n", 90)
