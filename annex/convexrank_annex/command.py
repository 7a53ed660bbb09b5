"""``convexrank claims``: judge claims of the sources, or list them."""

from __future__ import annotations

import argparse
import json
import sys
from textwrap import shorten

from tqdm import tqdm

from convexrank.commands.outcome import DISAGREES, FINE, WIDTH, Outcome
from convexrank_annex.claims.report import _chosen, check

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> Outcome:
    """Return the report of the claims that are asked for, or one line for each."""
    if arguments.list:
        return _listed(arguments)
    with tqdm(desc="judging", file=sys.stderr, unit=" claims", disable=arguments.json) as bar:
        report = check(
            arguments.names, arguments.chapter, progress=lambda _: bar.update(), source=arguments.source
        )
    text = json.dumps(report.to_dict(), indent=2) if arguments.json else str(report)
    return Outcome(text, FINE if report.ok else DISAGREES)


def _listed(arguments: argparse.Namespace) -> Outcome:
    """Return one line for each claim: identifier, place and beginning of the statement."""
    lines = []
    for claim in _chosen(arguments.names, arguments.chapter, arguments.source):
        text = f"{claim.location}: {claim.statement}"
        head = f"{claim.identifier:<29} "
        lines.append(head + shorten(text, WIDTH - len(head), placeholder=" ..."))
    return Outcome("\n".join(lines))
