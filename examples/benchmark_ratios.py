"""Ratios to other packages, as the tables of the benchmarks page have them."""

from __future__ import annotations

import re
from pathlib import Path

_DOCS = Path(__file__).resolve().parent.parent / "docs"
# How the rows say that a number is our time over another package's.
PEERS = {
    "LogisticRegression": r"(?:, warm, to|, against) LogisticRegression",
    "liblinear": "time over liblinear's",
    "celer": "time over celer",
    "LightGBM": r"against LightGBM",
}
_ROW = re.compile(r"^   \* - (.+)\n     - (.+)\n     - (.+)\n", re.MULTILINE)


def written():
    """Return what the benchmarks of the figure wrote."""
    files = [_DOCS / f"{name}_results.inc" for name in ("pnorm", "wide", "sizes")]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def ratios(text):
    """List (package, what was solved, our time over its time) in the order of the page."""
    found = []
    for what, _, measured in _ROW.findall(text):
        number = re.fullmatch(r"([\d.]+)\s*×?", measured)
        for package, words in PEERS.items():
            if number and re.search(words, what):
                short = re.sub(rf"[:,]? *{words}", "", what).replace("\\", "").strip()
                found.append((package, short, float(number[1])))
    return found
