"""What is declared about the package agrees with what is there."""

from __future__ import annotations

import importlib
import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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
