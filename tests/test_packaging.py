"""What is declared about the package agrees with what is there."""

from __future__ import annotations

import importlib
import itertools
import re
import runpy
import shutil
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

import convexrank
from tests.public_address import PLACES, stated, write

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_one_version_everywhere() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changelog, flags=re.MULTILINE)
    assert newest is not None
    assert newest.group(1) == convexrank.__version__
    assert f"convexrank {convexrank.__version__}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_citation_and_recipe_agree_with_the_project() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == convexrank.__version__
    assert re.search(r"^license: (.+)$", citation, re.MULTILINE)[1] == PROJECT["license"]
    assert f'\n  version: "{convexrank.__version__}"\n' in recipe
    run = re.search(r"^  run:\n((?:    - .+\n)+)", recipe, re.MULTILINE)[1]
    wanted = {
        f"python {PROJECT['requires-python']}",
        *(re.sub(r"(?=>)", " ", d, count=1) for d in PROJECT["dependencies"]),
    }
    assert {line.removeprefix("    - ") for line in run.splitlines()} == wanted


def test_all_places_have_one_public_address_or_none() -> None:
    found = stated(ROOT)
    assert len({tuple(sorted(addresses)) for addresses in found.values()}) == 1, found
    assert len(next(iter(found.values()))) <= 1, found


def test_a_public_address_is_written_into_all_places(tmp_path: Path) -> None:
    if any(stated(ROOT).values()):
        pytest.skip("the repository has its address")
    for name in PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    address = "https://github.com/somebody/convexrank"
    with pytest.raises(ValueError, match="OWNER/NAME"):
        write(tmp_path, "convexrank")
    write(tmp_path, address)
    assert set(map(frozenset, stated(tmp_path).values())) == {frozenset([address])}
    for name in ("pyproject.toml", "annex/pyproject.toml"):
        urls = tomllib.loads((tmp_path / name).read_text("utf-8"))["project"]["urls"]
        assert urls["Source"] == address
        assert urls["Changelog"].endswith("/CHANGELOG.md")
    texts = {name: (tmp_path / name).read_text("utf-8") for name in PLACES}
    assert f"]({address}/raw/main/docs/_static/demo.png)" in texts["README.md"]
    assert f"]({address}/blob/main/README.md)" in texts["annex/README.md"]
    for name in ("README.md", "annex/README.md"):
        links = re.findall(r"\]\(([^)]+)\)", texts[name])
        assert all(link.startswith(address) for link in links)
        paths = re.findall(rf"{address}/(?:blob|raw)/main/([^)]+)", texts[name])
        assert paths
        assert all((ROOT / path).is_file() for path in paths)
    assert "ADDRESS" not in texts["paper/scikit_learn_contrib.md"]
    with pytest.raises(ValueError, match="already"):
        write(tmp_path, address)


def test_project_files_are_there() -> None:
    for name in (
        "CODE_OF_CONDUCT.md",
        "SECURITY.md",
        ".pre-commit-config.yaml",
        ".github/pull_request_template.md",
    ):
        assert (ROOT / name).stat().st_size > 100
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    commands = re.findall(r"entry: \.venv/bin/(.+)$", hooks, re.MULTILINE)
    assert commands == ["ruff check", "ruff format"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"$(BIN)/{command}" in makefile for command in commands), "the hooks run what make lint runs"


def test_the_logo_is_what_its_script_draws() -> None:
    names = runpy.run_path(str(ROOT / "docs" / "draw_logo.py"))
    drawn = names["logo"]()
    assert names["TARGET"].read_text(encoding="utf-8") == drawn
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height', drawn)]
    steps = [first - second for first, second in itertools.pairwise(widths)]
    assert len(widths) == 5
    assert steps == sorted(steps, reverse=True), "the lengths are a convex function of the place"


def test_installed_version_is_the_one_declared() -> None:
    try:
        installed = version("convexrank")
    except PackageNotFoundError:
        pytest.skip("convexrank is imported from the checkout without being installed")
    assert installed == convexrank.__version__


def test_console_script_exists() -> None:
    module, function = PROJECT["scripts"]["convexrank"].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_typing_marker_travels_with_the_package() -> None:
    assert (Path(convexrank.__file__).parent / "py.typed").is_file()


def test_the_paper_cites_what_it_lists_and_its_code_runs() -> None:
    text, sources = (
        (ROOT / "paper" / name).read_text(encoding="utf-8") for name in ("paper.md", "paper.bib")
    )
    assert set(re.findall(r"\[@(\w+)\]", text)) == set(re.findall(r"^@\w+\{(\w+),", sources, re.MULTILINE))
    names: dict[str, Any] = {}
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], names)
    problem = names["Own"]([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], l2=0.1)
    assert problem.solve().converged


def test_the_paper_has_the_sections_and_the_length_that_its_journal_asks_for() -> None:
    text = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8").split("---\n", 2)[2]
    asked = [
        "Summary",
        "Statement of need",
        "State of the field",
        "Software design",
        "Research impact statement",
    ]
    assert [name for name in re.findall(r"^# (.+)$", text, re.MULTILINE) if name in asked] == asked
    assert 750 <= len(text.split()) <= 1750


# Rows of the paper's table, and those of the benchmarks' pages that they sum up.
PAPER = {
    "10^6^ × 50": ("sizes", r"PNormPush, 1 000 000 × 50, against LogisticRegression"),
    "10^5^ × 50": ("sizes", r"PNormPush, 100 000 × 50, against LogisticRegression"),
    "docstrings": ("text", r"PNormPush p = .*, docstrings: time over LogisticRegression's"),
    "20 000 × 47 000": ("wide", r"PNormPush p = .*, 20 000 × 47 000: time over liblinear's"),
    "100 values": ("wide", r"100 values of l1: time over celer.*"),
    "14 040 × 136": ("sizes", r"MarginRetargeting, 14 040 × 136, against LightGBM"),
    "2^25^ nodes": ("certified", r"PageRank to a true .*, over the fastest other's"),
}


def paper_and_pages() -> dict[str, tuple[list[float], list[float]]]:
    """Least and largest ratio of each row, in the paper and on the pages."""
    text = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
    found = {}
    for words, (name, row) in PAPER.items():
        line = next(line for line in text.splitlines() if line.startswith("|") and words in line)
        page = (ROOT / "docs" / f"{name}_results.inc").read_text(encoding="utf-8")
        measured = re.findall(rf"^   \* - {row}\n     - .+\n     - ([\d.]+)", page, re.MULTILINE)
        numbers = [float(number) for number in measured]
        stated = [float(number) for number in line.split("|")[3].split(" to ")]
        found[words] = stated, sorted({min(numbers), max(numbers)})
    return found


def test_the_ratios_of_the_paper_are_those_of_the_pages() -> None:
    """The pages are measured again more often: a quarter is as much as ratios of one run differ from another's."""
    lines = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("| ") for line in lines) == len(PAPER) + 1
    for words, (written, measured) in paper_and_pages().items():
        assert written == pytest.approx(measured, rel=0.25, abs=0.01), (
            f"{words}: write {measured} into paper/paper.md"
        )


def test_versions_of_python_are_those_that_ci_runs() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    run = re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.+)\]", workflow)[1])
    said = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d", name)]
    assert said == run
    assert PROJECT["requires-python"] == f">={run[0]}"


def test_the_lowest_versions_are_those_of_the_project() -> None:
    lines = runpy.run_path(str(ROOT / "tests" / "lowest_versions.py"))["constraints"](PROJECT)
    named = [re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"]]
    assert [line.split("==")[0] for line in lines[: len(named)]] == named
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in lines)
