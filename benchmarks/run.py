"""Run the benchmarks: ``python benchmarks/run.py [NAME ...] [--effort N] [--write FILE or FOLDER]``.

Nothing here passes or fails on time; the last table has targets and measurements. The exit status is 1 only when a
benchmark could not be run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from accuracy import accuracy
from boosting import boosting
from bounds import bounds
from by_query import by_query
from certified import certified
from dask_rows import dask
from difficult import difficult
from extremes import extremes
from first_rows import first_rows
from gpu import gpu
from graphs import graphs
from growth import growth
from instances import data_name
from interval_coverage import coverage
from kinks import kinks
from learned_divergence import learned_divergence
from limits import limits
from many_ranks import many_ranks
from measure import JobFailed
from norms import norms
from pairs import pairs
from peers import peers
from pnorm import exact, pnorm
from projections import projections
from promise_coverage import promises
from reading import reading
from real_rows import real_rows
from real_solves import collinear
from reasons import explained, reasons
from report import Section, Table, environment, plain, plain_reasons, restructured, summary
from retargeting import retargeting
from scale import scale
from sizes import sizes
from sorted_objectives import sorted_objectives
from startup import startup
from text import text
from top import top
from top_alone import top_alone
from trees import trees
from wide import wide

# This process stays small: it imports neither numpy nor the package's problems, see measure.fresh.
BENCHMARKS: dict[str, Callable[[int], Section]] = {
    "accuracy": accuracy,
    "pnorm": pnorm,
    "exact": exact,
    "boosting": boosting,
    "first_rows": first_rows,
    "top": top,
    "top_alone": top_alone,
    "peers": peers,
    "kinks": kinks,
    "sorted": sorted_objectives,
    "by_query": by_query,
    "wide": wide,
    "difficult": difficult,
    "text": text,
    "real_rows": real_rows,
    "collinear": collinear,
    "trees": trees,
    "sizes": sizes,
    "growth": growth,
    "reading": reading,
    "gpu": gpu,
    "scale": scale,
    "dask": dask,
    "pairs": pairs,
    "projections": projections,
    "learned": learned_divergence,
    "graphs": graphs,
    "certified": certified,
    "norms": norms,
    "many_ranks": many_ranks,
    "retargeting": retargeting,
    "extremes": extremes,
    "bounds": bounds,
    "limits": limits,
    "startup": startup,
    "coverage": coverage,
    "promises": promises,
}
# Several by one name: those whose data are real: the first rows of tables, trees on them, text, and weak penalties.
TOGETHER = {"real": ("first_rows", "top", "peers", "trees", "text", "real_rows", "collinear")}
# Each benchmark writes a file of its own, NAME_results.inc, so that one can be run again alone.
_FILES = {"coverage": "inference_results.inc"}


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen benchmarks, print tables as they come, and write them if a file is named."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.explain:
        return _explain(options.explain)
    asked = [name for given in options.names for name in TOGETHER.get(given, (given,))]
    if unknown := [name for name in asked if name not in BENCHMARKS]:
        parser.error(
            f"unknown benchmark {unknown[0]!r}, expected one of: {', '.join((*BENCHMARKS, *TOGETHER))}"
        )
    names = [*asked, *(options.only or [])] or list(BENCHMARKS)
    machine = environment()
    print(plain(machine))
    print(f"Data: {data_name()}.\n")
    sections: dict[str, Section] = {}
    for number, name in enumerate(names, start=1):
        print(f"[{number}/{len(names)}] {name} …", file=sys.stderr, flush=True)
        start = time.perf_counter()
        try:
            sections[name] = BENCHMARKS[name](options.effort + (name in options.more))
        except JobFailed as error:
            print(f"{name} could not be run: {error}\n", file=sys.stderr, flush=True)
            continue
        for table in sections[name].tables:
            print(plain(table), flush=True)
        print(f"({name}: {time.perf_counter() - start:.0f} s)\n", flush=True)
    targets = [target for section in sections.values() for target in section.targets]
    print(plain(summary(targets)))
    print(plain_reasons(reasons(targets)))
    failed = [name for name in names if name not in sections]
    if options.write:
        _write(options.write, names, sections, machine)
    return 1 if failed else 0


def _write(place: Path, names: list[str], sections: dict[str, Section], machine: Table) -> None:
    """Write the tables into one file, or into the files of a folder; none of which a benchmark could not be run."""
    files: dict[Path, list[str]] = {}
    for name in names:
        path = place / _FILES.get(name, f"{name}_results.inc") if place.is_dir() else place
        files.setdefault(path, []).append(name)
    for path, inside in files.items():
        if missing := [name for name in inside if name not in sections]:
            print(
                f"not written: {path}, because these could not be run: {', '.join(missing)}", file=sys.stderr
            )
            continue
        found = [sections[name] for name in inside]
        targets = [target for section in found for target in section.targets]
        tables = [summary(targets)] if targets else []
        tables += [table for section in found for table in section.tables]
        path.write_text(restructured(tables, machine, reasons(targets)), encoding="utf-8")
        print(f"written: {path}")


def _explain(folder: Path) -> int:
    """Write the paragraphs of reasons.py into the pages of a folder."""
    for path in sorted(folder.glob("*_results.inc")):
        page = path.read_text(encoding="utf-8")
        if (now := explained(page)) != page:
            path.write_text(now, encoding="utf-8")
            print(f"written: {path}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Speed and memory of convexrank, side by side in one run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="the same as --only NAME")
    parser.add_argument(
        "--only", nargs="+", choices=sorted(BENCHMARKS), metavar="NAME", help=", ".join(BENCHMARKS)
    )
    parser.add_argument(
        "--effort", type=int, default=1, help="more rounds: 1 (default), 2, …; 0 for a quick look"
    )
    parser.add_argument(
        "--more",
        nargs="+",
        choices=sorted(BENCHMARKS),
        default=[],
        metavar="NAME",
        help="these with one effort more",
    )
    parser.add_argument(
        "--write",
        type=Path,
        metavar="PLACE",
        help="write the tables as reStructuredText: a file, or a folder",
    )
    parser.add_argument(
        "--explain",
        type=Path,
        metavar="FOLDER",
        help="measure nothing: write why rows say NO into the pages of a folder",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
