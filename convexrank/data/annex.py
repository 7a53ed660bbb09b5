"""The annex: the separate package ``convexrank_annex``, which judges and reproduces papers.

The annex imports this package, never the reverse. This module is the only one that names the annex; the names that the
package promises are read from it when they are first used.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from convexrank.backend.interruption import import_module

_ANNEX = "convexrank_annex"


def annex_module(name: str, asked: str) -> Any:
    """Import a module of the annex for what a user asked; a ModuleNotFoundError says how to get the annex."""
    try:
        return import_module(f"{_ANNEX}.{name}")
    except ModuleNotFoundError as error:
        if error.name != _ANNEX:  # the annex is there, and misses something else
            raise
        raise ModuleNotFoundError(
            f"{asked} needs the separate package convexrank-annex; "
            "install it, in a clone of convexrank, with: pip install ./annex",
            name=_ANNEX,
        ) from None


def annex_name(module: str, name: str, names: Collection[str]) -> Any:
    """Return a name of the annex as ``__getattr__`` of the module of the package that promises these names."""
    if name not in names:  # other packages probe for names that nobody promised
        raise AttributeError(f"module 'convexrank.{module}' has no attribute {name!r}")
    return getattr(annex_module(module, f"convexrank.{module}.{name}"), name)
