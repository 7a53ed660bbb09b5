"""The oldest versions that pyproject.toml allows, one a line, as constraints for pip; `make lowest` tests with them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Of the extras for users; the tools of developers are as new as there are.
EXTRAS = ("plot", "proof", "pandas")


def constraints(project: dict) -> list[str]:
    """Return the lower bound of each dependency as its version."""
    lines = [
        *project["dependencies"],
        *(line for name in EXTRAS for line in project["optional-dependencies"][name]),
    ]
    found = [re.match(r"([\w-]+)>=([\w.]+)", line) for line in lines]
    return [f"{match[1]}=={match[2]}" for match in found if match is not None]


if __name__ == "__main__":
    with open(ROOT / "pyproject.toml", "rb") as file:
        print("\n".join(constraints(tomllib.load(file)["project"])))
