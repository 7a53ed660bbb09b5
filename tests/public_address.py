"""Write the public address of the repository into all places that need it, once there is one.

    python tests/public_address.py https://github.com/OWNER/NAME

Metadata of both packages, README (an index shows it without the files that it links to), citation, recipe, and the
request in paper/.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
# The workflows, the badge and the paths of links are GitHub's.
_ADDRESS = re.compile(r"https://github\.com/[\w.-]+/[\w-]+")
_LINK = re.compile(r"(!?)(\[[^\]]*\])\((?![a-z]+:|#)([^)\s]+)\)")


def _urls(text: str, address: str) -> str:
    """Metadata: the addresses that an index shows beside the package."""
    urls = {"Source": "", "Issues": "/issues", "Changelog": "/blob/main/CHANGELOG.md"}
    table = "".join(f'{name} = "{address}{rest}"\n' for name, rest in urls.items())
    return text.replace("\n[tool.hatch.version]\n", f"\n[project.urls]\n{table}\n[tool.hatch.version]\n")


def _absolute(text: str, address: str, folder: str = "") -> str:
    """Links to files, seen from a folder, as links into the repository."""

    def absolute(link: re.Match[str]) -> str:
        parts: list[str] = []
        for part in PurePosixPath(folder, link[3]).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        return f"{link[1]}{link[2]}({address}/{'raw' if link[1] else 'blob'}/main/{'/'.join(parts)})"

    return _LINK.sub(absolute, text)


def _readme(text: str, address: str) -> str:
    """The page of the package: a badge below the title, and absolute links."""
    title, rest = text.split("\n", 1)
    workflow = f"{address}/actions/workflows/ci.yml"
    return _absolute(f"{title}\n\n[![tests]({workflow}/badge.svg)]({workflow})\n{rest}", address)


PLACES: dict[str, Callable[[str, str], str]] = {
    "pyproject.toml": _urls,
    "annex/pyproject.toml": _urls,
    "README.md": _readme,
    "annex/README.md": lambda text, address: _absolute(text, address, "annex"),
    "CITATION.cff": lambda text, address: text.replace(
        "\nlicense:", f"\nrepository-code: {address}\nlicense:"
    ),
    "conda/recipe.yaml": lambda text, address: text.replace(
        "\nabout:\n", f"\nabout:\n  repository: {address}\n"
    ),
    "paper/scikit_learn_contrib.md": lambda text, address: text.replace(
        "* Current repository: ADDRESS", f"* Current repository: {address}"
    ).replace("the address of the repository in place of `ADDRESS`, ", ""),
}


def stated(root: Path) -> dict[str, set[str]]:
    """Return the addresses of repositories that each place has."""
    return {name: set(_ADDRESS.findall((root / name).read_text("utf-8"))) for name in PLACES}


def write(root: Path, address: str) -> None:
    """Write the address everywhere.

    Raises
    ------
    ValueError
        When it is no address of a repository, or a place has one.
    """
    if not _ADDRESS.fullmatch(address):
        raise ValueError(f"the address is {address!r}, expected https://github.com/OWNER/NAME.")
    known = {name: found for name, found in stated(root).items() if found}
    if known:
        raise ValueError(f"there are addresses already, replace them by hand: {known}.")
    for name, written in PLACES.items():
        path = root / name
        path.write_text(written(path.read_text("utf-8"), address), "utf-8")


if __name__ == "__main__":
    write(ROOT, sys.argv[1])
