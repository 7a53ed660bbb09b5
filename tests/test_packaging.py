"""What is declared about the package agrees with what is there."""

from __future__ import annotations

import importlib
import itertools
import re
import runpy
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

import convexrank

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


def test_the_lowest_versions_are_those_of_the_project() -> None:
    lines = runpy.run_path(str(ROOT / "tests" / "lowest_versions.py"))["constraints"](PROJECT)
    named = [re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"]]
    assert [line.split("==")[0] for line in lines[: len(named)]] == named
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in lines)
