"""Run the benchmarks: ``python benchmarks/run.py [--only NAME ...] [--effort N] [--write FILE]``.

Nothing here passes or fails on time; the last table says what was wanted and what was measured. The exit status is 1
only when a benchmark could not be run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

# The checkout beside this folder comes first, so that the benchmarks also run without an installation.
sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from boosting import boosting
from extremes import extremes
from instances import data_name
from measure import JobFailed
from pairs import pairs
from pnorm import exact, pnorm
from report import Section, Table, Target, environment, plain, restructured, summary
from startup import startup
from top import top

# This process stays small: it imports neither numpy nor the package's problems, see measure.fresh.
BENCHMARKS: dict[str, Callable[[int], Section]] = {
    "pnorm": pnorm,
    "exact": exact,
    "boosting": boosting,
    "top": top,
    "pairs": pairs,
    "extremes": extremes,
    "startup": startup,
}


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for, print tables as they come, and write them if a file is named."""
    options = _parser().parse_args(arguments)
    names = options.only or list(BENCHMARKS)
    tables, targets, failed = [environment()], [], []
    print(plain(tables[0]))
    print(f"Data: {data_name()}.\n")
    for name in names:
        print(f"[{names.index(name) + 1}/{len(names)}] {name} …", file=sys.stderr, flush=True)
        start = time.perf_counter()
        try:
            section = BENCHMARKS[name](options.effort)
        except JobFailed as error:
            print(f"{name} could not be run: {error}\n", file=sys.stderr, flush=True)
            failed.append(name)
            continue
        for table in section.tables:
            print(plain(table), flush=True)
        print(f"({name}: {time.perf_counter() - start:.0f} s)\n", flush=True)
        tables += section.tables
        targets += section.targets
    print(plain(summary(targets)))
    if options.write and not failed:
        _write(options.write, tables, targets)
    return 1 if failed else 0


def _write(path: Path, tables: list[Table], targets: list[Target]) -> None:
    path.write_text(restructured([summary(targets), *tables[1:], tables[0]]), encoding="utf-8")
    print(f"written: {path}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Speed and memory of convexrank, side by side with what else there is.")
    parser.add_argument("--only", nargs="+", choices=sorted(BENCHMARKS), metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--effort", type=int, default=1, help="more rounds: 1 (default), 2, …; 0 for a quick look")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the tables as reStructuredText")
    return parser


if __name__ == "__main__":
    sys.exit(main())
