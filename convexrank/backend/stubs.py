"""Names that a module promises and imports when they are first used, as its stub lists them."""

from __future__ import annotations

import re

# Not by ``ast``, which takes a third of the time of ``import convexrank``.
_IMPORT = re.compile(r"^from (\S+) import (\([^)]*\)|.*)$", re.MULTILINE)


def imports_of_stub(file: str) -> dict[str, str]:
    """Return for each name that the stub beside a module imports under its own name the module where it is."""
    with open(f"{file}i", encoding="utf-8") as stub:
        listed = _IMPORT.findall(stub.read())
    return {name: module for module, names in listed for name in re.findall(r"\w+ as (\w+)", names)}
