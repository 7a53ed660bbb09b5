"""Read and write the results that are shipped with the gallery, so that its pages need no data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "results"


def read(name: str) -> dict[str, Any]:
    """Return the results that a command of ``examples/`` wrote; FileNotFoundError names the file."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def write(name: str, results: dict[str, Any]) -> None:
    """Write results as JSON, a list of numbers on one line, so that a change can be read."""
    FOLDER.mkdir(exist_ok=True)
    text = _lines(results, 0) + "\n"
    (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")


def _lines(value: Any, depth: int) -> str:
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    pad = " " * (depth + 1)
    inner = ",\n".join(
        f"{pad}{json.dumps(str(key), ensure_ascii=False)}: {_lines(v, depth + 1)}" for key, v in value.items()
    )
    return "{\n" + inner + "\n" + " " * depth + "}"
