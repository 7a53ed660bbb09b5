"""``convexrank problems``: what can be solved, one line each, and the options of one."""

from __future__ import annotations

import argparse
import inspect
from textwrap import shorten
from typing import Any

from convexrank.commands.options import formulation, options_of, tabular
from convexrank.commands.outcome import WIDTH, Outcome, as_json, paragraph


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("problems", help="list the problems, or the options of one")
    parser.add_argument("name", nargs="?", help="a problem, for its options")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Outcome:
    """Return one line for each problem, or one for each option."""
    from convexrank import problems

    if arguments.name is not None:
        cls = formulation(arguments.name)
        if arguments.json:
            return Outcome(as_json({name: _default(item) for name, item in options_of(cls).items()}))
        options = [
            f"  --{name.replace('_', '-'):<17} {_default(item)}" for name, item in options_of(cls).items()
        ]
        return Outcome(
            "\n".join([f"{cls.__name__}: {_summary(cls)}", "options, and their defaults", *options])
        )
    names = sorted(name for name in problems.__all__ if name != "REGISTRY")
    classes = {name: formulation(name) for name in names}
    if arguments.json:
        return Outcome(
            as_json(
                {name: {"summary": _summary(cls), "table": tabular(cls)} for name, cls in classes.items()}
            )
        )
    lines = [
        f"{name:<23} {'*' if tabular(cls) else ' '} {shorten(_summary(cls), WIDTH - 26, placeholder=' ...')}"
        for name, cls in classes.items()
    ]
    foot = (
        "* takes a table: `convexrank solve data.csv --label NAME --problem ...`. "
        "`convexrank problems NAME` lists options."
    )
    return Outcome("\n".join([*lines, paragraph(foot)]))


def _summary(cls: Any) -> str:
    """The first sentence of the docstring without markup."""
    first = (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ")
    return first.replace(":math:", "").replace("`", "").replace("\\", "")


def _default(item: inspect.Parameter) -> str:
    return "required" if item.default is item.empty else str(item.default)
