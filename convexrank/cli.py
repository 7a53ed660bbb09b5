"""The command line: ``convexrank demo``, ``convexrank verify``, ``convexrank check`` and ``convexrank claims``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from convexrank import __version__

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="convexrank", description="Ranking objectives, solved and certified."
    )
    parser.add_argument("--version", action="version", version=f"convexrank {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)

    demo = commands.add_parser(
        "demo", help="what the push buys at the top of a list, and what it costs: a table and a figure"
    )
    demo.add_argument("--output", default="demo.png", help="where the figure goes (default: %(default)s)")
    demo.add_argument("--seed", type=int, default=0, help="of the first split (default: %(default)s)")
    demo.add_argument(
        "--wide", action="store_true", help="all columns, not the six that fit into 80 characters"
    )
    forms = demo.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print the numbers as JSON")
    forms.add_argument("--csv", action="store_true", help="print the numbers as CSV")
    demo.set_defaults(run=_demo)

    verify = commands.add_parser("verify", help="compare fast solvers with exact models on random instances")
    verify.add_argument("names", nargs="*", metavar="NAME", help="problems (default: all)")
    verify.add_argument("--instances", type=int, default=20, help="of each problem (default: %(default)s)")
    verify.add_argument("--seed", type=int, default=0, help="first seed (default: %(default)s)")
    verify.add_argument(
        "--prove", action="store_true", help="prove the bound at each answer, in ball arithmetic"
    )
    verify.add_argument(
        "--designs",
        action="store_true",
        help="over thresholds and products of features, which are never built",
    )
    verify.add_argument("--json", action="store_true", help="print the report as JSON")
    verify.set_defaults(run=_verify)

    check = commands.add_parser(
        "check", help="check a proof that solution.export wrote, by a program that runs alone"
    )
    check.add_argument("path", help="the folder")
    check.add_argument("--data", default=".", help="folder with files too large to be in it (default: here)")
    check.set_defaults(run=_check)

    claims = commands.add_parser("claims", help="compute what the sources state, and say what holds")
    claims.add_argument("names", nargs="*", metavar="NAME", help="claims (default: all)")
    claims.add_argument("--source", help="only the claims of this source, such as u-statistics")
    claims.add_argument(
        "--chapter", type=int, help="only this chapter of the dissertation, or this section of --source"
    )
    claims.add_argument("--json", action="store_true", help="print every number as JSON")
    claims.set_defaults(run=_claims)
    return parser


def _demo(arguments: argparse.Namespace) -> int:
    from tqdm import tqdm

    from convexrank import demo

    target = demo.check_output(arguments.output)

    def bar(items: list[Any]) -> Any:
        return tqdm(items, desc="splits", file=sys.stderr)

    result = demo.run(seed=arguments.seed, progress=bar)
    demo.figure(result).savefig(target, dpi=150)
    if arguments.json or arguments.csv:
        print(demo.as_json(result) if arguments.json else demo.as_csv(result))
        return 0
    print(demo.table(result, wide=arguments.wide))
    print(f"\nfigure: {target}")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from tqdm import tqdm

    from convexrank.verification.designs import classes
    from convexrank.verification.report import verify

    target = [_registered(name) for name in arguments.names] or classes(arguments.designs)
    total = len(target) * arguments.instances
    with tqdm(total=total, desc="verifying", file=sys.stderr, disable=arguments.json) as bar:
        report = verify(
            target,
            instances=arguments.instances,
            seed=arguments.seed,
            prove=arguments.prove,
            designs=arguments.designs,
            progress=lambda _: bar.update(),
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
    return check_choice(name, problems.REGISTRY, "NAME")


def _check(arguments: argparse.Namespace) -> int:
    from convexrank.proof.export import checked

    return checked(arguments.path, arguments.data)


def _claims(arguments: argparse.Namespace) -> int:
    from tqdm import tqdm

    from convexrank import claims

    with tqdm(desc="judging", file=sys.stderr, unit=" claims", disable=arguments.json) as bar:
        report = claims.check(
            arguments.names, arguments.chapter, progress=lambda _: bar.update(), source=arguments.source
        )
    print(json.dumps(report.to_dict(), indent=2) if arguments.json else report)
    return 0 if report.ok else 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status (0 fine, 1 disagreement, 2 unusable arguments)."""
    arguments = _parser().parse_args(argv)
    try:
        return arguments.run(arguments)
    except (ValueError, TypeError, ImportError) as error:
        print(f"convexrank: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
