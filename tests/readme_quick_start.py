"""The quick start of README.md, extracted and executed.

As a script it is run by a clean environment's interpreter, where convexrank was installed from the built wheel.
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"


def quick_start(text: str) -> str:
    """Return the first Python block of a Markdown text."""
    block = re.search(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    if block is None:
        raise ValueError("README.md has no ```python block; the quick start is expected to be the first one.")
    return block.group(1)


def execute(code: str) -> dict[str, Any]:
    """Run code as a user would paste it and return the names it leaves."""
    names: dict[str, Any] = {}
    exec(compile(code, "README.md quick start", "exec"), names)
    return names


def check(names: dict[str, Any], tolerance: float) -> None:
    """Refuse a fast solution that did not converge, is not certified, or is not the exact one."""
    fast, exact = names["sol"], names["ref"]
    for label, solution in (("fast", fast), ("exact", exact)):
        if solution.status.name != "CONVERGED":
            raise AssertionError(f"the {label} solution ended with status {solution.status}")
    difference = abs(fast.value - exact.value)
    if not difference <= tolerance * (1 + abs(exact.value)):
        raise AssertionError(f"fast and exact differ by {difference}, more than {tolerance} relative")
    if not (math.isfinite(fast.gap) and 0 <= fast.gap <= tolerance * (1 + abs(exact.value))):
        raise AssertionError(f"the gap is {fast.gap}, expected between 0 and {tolerance} relative")


def main() -> None:
    """Run the quick start against the installed package, never against this checkout."""
    from tolerances import tolerance  # beside this script

    import convexrank

    place = Path(convexrank.__file__).resolve()
    if place.is_relative_to(ROOT / "convexrank"):
        raise SystemExit(f"convexrank came from the checkout ({place}), expected an installed wheel")
    if not (place.parent / "py.typed").is_file():
        raise SystemExit("the installed package lacks py.typed")
    check(execute(quick_start(README.read_text(encoding="utf-8"))), tolerance("readme"))
    print(
        f"README quick start: passed with convexrank {convexrank.__version__} on Python {sys.version.split()[0]}"
    )


if __name__ == "__main__":
    main()
