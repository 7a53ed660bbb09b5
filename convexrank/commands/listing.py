"""``convexrank problems``, what can be solved and the options of one, and the versions of what computes."""

from __future__ import annotations

import argparse
import inspect
import os
import platform
from dataclasses import dataclass
from importlib import metadata
from textwrap import shorten
from typing import Any

from convexrank.commands.outcome import WIDTH, Outcome, as_json, formulation, options_of, paragraph, tabular


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


@dataclass(frozen=True)
class Versions:
    """Names and versions, printed as a table.

    Parameters
    ----------
    entries : dict of str to str
        The version of each part, empty where it is not installed.

    Examples
    --------
    >>> Versions({"numpy": "2.1", "unopy": ""})
    numpy  2.1
    unopy  (not installed)
    """

    entries: dict[str, str]

    def __repr__(self) -> str:
        width = max(map(len, self.entries))
        lines = (f"{name:<{width}}  {version or '(not installed)'}" for name, version in self.entries.items())
        return "\n".join(lines)


def show_versions() -> Versions:
    """Return the versions of Python, of this package and of all that it uses; in a script print them.

    Returns
    -------
    Versions
        A table; nothing is imported for it.

    Examples
    --------
    >>> import convexrank as cr
    >>> list(cr.show_versions().entries)[:3]
    ['python', 'machine', 'convexrank']
    """
    found = {"python": platform.python_version(), "machine": f"{platform.platform()}, {os.cpu_count()} cores"}
    names = ["convexrank", *(_required("convexrank"))]
    return Versions({**found, **{name: _version(name) for name in names}})


def _required(name: str) -> list[str]:
    """The distributions that one requires, those of its extras for users included."""
    ours = tuple(f"extra == '{name}'" for name in ("dev", "docs", "bench", "peers", "mutants", "coverage"))
    try:
        lines = [line.replace('"', "'") for line in metadata.requires(name) or ()]
    except metadata.PackageNotFoundError:
        return []
    wanted = [line for line in lines if not line.endswith(ours)]
    names = [line.split(";")[0].split("[")[0].strip() for line in wanted]
    return [
        name[: min([name.find(mark) for mark in "<>=!~ " if mark in name], default=len(name))]
        for name in names
    ]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
