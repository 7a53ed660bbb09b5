"""The versions of what computes, for reports of bugs."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib import metadata


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
    ours = tuple(f"extra == '{name}'" for name in ("dev", "docs", "bench", "mutants", "coverage"))
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
