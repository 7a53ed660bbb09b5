"""The command line: ``convexrank`` with one of its commands; :mod:`convexrank.commands` implements the commands.

Exit statuses: 0 success, 1 no success (not converged, or a disagreement), 2 unusable arguments or data.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from convexrank import __version__
from convexrank.commands.outcome import Parser, spelled

__all__ = ["main"]

_EXITS = """exit status: 0 fine; 1 not as asked (not converged, or a disagreement);
2 the arguments or the data cannot be used"""
_LEGEND = """columns of the table: how many random instances were compared, and skipped; the
largest relative error of the objective, and of the point where the minimiser is
unique, against the exact model or a slow reference; the seed of the worst
instance, for NAME.random(seed); seconds; the verdict. Exit status: 0 if all
agree, 1 if not."""


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(
        prog="convexrank",
        description="Ranking objectives, solved and certified.",
        epilog=_EXITS,
        formatter_class=raw,
    )
    parser.add_argument("--version", action="version", version=f"convexrank {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    _later(commands)

    demo = commands.add_parser(
        "demo", help="what the push gains at the top of a list, and what it loses: a table and a figure"
    )
    demo.add_argument("--output", default="demo.png", help="path of the figure (default: %(default)s)")
    demo.add_argument("--seed", type=int, default=0, help="seed of the first split (default: %(default)s)")
    demo.add_argument(
        "--wide", action="store_true", help="all columns, not the six that fit into 80 characters"
    )
    forms = demo.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print the numbers as JSON")
    forms.add_argument("--csv", action="store_true", help="print the numbers as CSV")
    demo.set_defaults(run=partial(_of_annex, "demo", "command"))

    verify = commands.add_parser(
        "verify",
        help="compare fast solvers with exact models on random instances",
        epilog=_LEGEND,
        formatter_class=raw,
    )
    verify.add_argument("names", nargs="*", metavar="NAME", help="problems (default: all)")
    verify.add_argument(
        "--instances", type=int, default=20, help="number for each problem (default: %(default)s)"
    )
    verify.add_argument("--seed", type=int, default=0, help="first seed (default: %(default)s)")
    verify.add_argument("--tol", type=float, default=1e-6, help="relative tolerance (default: %(default)s)")
    verify.add_argument(
        "--prove", action="store_true", help="prove the bound at each answer, in ball arithmetic"
    )
    verify.add_argument(
        "--designs",
        action="store_true",
        help="over thresholds and products of features, which are never built",
    )
    verify.add_argument(
        "--device",
        help="compare the compiled solvers on this device, such as cpu or gpu; where none fits, instances are skipped",
    )
    verify.add_argument("--json", action="store_true", help="print the report as JSON")
    verify.set_defaults(run=_verify)

    check = commands.add_parser(
        "check", help="check a proof that solution.export wrote, by a program that runs alone"
    )
    check.add_argument("path", help="the folder")
    check.add_argument("--data", default=".", help="folder of files too large to be included (default: .)")
    check.add_argument(
        "--fractions",
        action="store_true",
        help="check by the second program, in fractions; for small instances",
    )
    check.set_defaults(run=_check)

    claims = commands.add_parser("claims", help="compute what the sources state, and say what holds")
    claims.add_argument("names", nargs="*", metavar="NAME", help="claims (default: all)")
    claims.add_argument("--source", help="only the claims of this source, such as u-statistics")
    claims.add_argument(
        "--chapter", type=int, help="only this chapter of the dissertation, or this section of --source"
    )
    claims.add_argument("--list", action="store_true", help="list the claims, and compute nothing")
    claims.add_argument("--json", action="store_true", help="print every number as JSON")
    claims.set_defaults(run=partial(_of_annex, "command", "run"))
    return parser


def _later(commands: Any) -> None:
    """Add the commands whose modules are in the folder of commands."""
    from convexrank.commands import listing, pagerank, rank, solve, table

    for module in (table, solve, rank, pagerank, listing):
        module.add(commands)


def _verify(arguments: argparse.Namespace) -> int:
    from tqdm import tqdm

    from convexrank.verification.definitions import classes
    from convexrank.verification.report import verify

    target = [_registered(name) for name in arguments.names]
    target = target or classes(arguments.designs, arguments.device, arguments.seed)
    total = len(target) * arguments.instances
    with tqdm(total=total, desc="verifying", file=sys.stderr, disable=arguments.json) as bar:
        report = verify(
            target,
            instances=arguments.instances,
            seed=arguments.seed,
            tol=arguments.tol,
            prove=arguments.prove,
            designs=arguments.designs,
            device=arguments.device,
            verbose=lambda _: bar.update(),
        )
    print(json.dumps(report.to_dict(), indent=2) if arguments.json else report)
    return 0 if report.ok else 1


def _registered(name: str) -> Any:
    """Return the problem that is verified under a name; the error says why there is none."""
    from convexrank import problems
    from convexrank.data import check_choice

    if name in problems.__all__ and name not in {*problems.REGISTRY, "REGISTRY"}:
        raise ValueError(
            f"NAME is {name!r}, which can be solved, but not verified: it is not convex, and has neither an exact "
            f"model nor a reference to be compared with. Expected one of: {', '.join(sorted(problems.REGISTRY))}."
        )
    return check_choice(name, dict(problems.REGISTRY), "NAME")


def _check(arguments: argparse.Namespace) -> int:
    if arguments.fractions:
        from convexrank.proof import check_fractions

        return check_fractions.main(arguments.path)
    from convexrank.proof import check

    return check.main(arguments.path, arguments.data)


def _of_annex(module: str, entry: str, arguments: argparse.Namespace) -> Any:
    from convexrank.data.annex import annex_module

    return getattr(annex_module(module, f"convexrank {arguments.command}"), entry)(arguments)


def _complete(parser: argparse.ArgumentParser) -> None:
    """Complete words in the shell, where argcomplete is installed and the shell asks."""
    if "_ARGCOMPLETE" in os.environ:
        try:
            import argcomplete  # type: ignore[import-not-found]
        except ImportError:
            return
        argcomplete.autocomplete(parser)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status (0 success, 1 no success, 2 unusable arguments or data)."""
    try:
        status = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _run(argv: Sequence[str] | None) -> int:
    parser = _parser()
    _complete(parser)
    arguments, rest = parser.parse_known_args(argv)
    if arguments.command is None:
        parser.print_help()
        return 0
    if rest and not getattr(arguments, "takes_options", False):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    arguments.options = rest
    try:
        found = arguments.run(arguments)
    except BrokenPipeError:
        raise
    except (ValueError, TypeError, ImportError, OSError) as error:
        print(f"convexrank: {spelled(error, vars(arguments))}", file=sys.stderr)
        return 2
    if isinstance(found, int):
        return found
    print(found.text)
    return found.status


if __name__ == "__main__":
    sys.exit(main())
