"""Names that a caller may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

__all__ = ["did_you_mean"]

# Longer texts are not compared: the time grows with the square of their length.
_LONGEST = 80


def did_you_mean(value: Any, names: Iterable[Any]) -> str:
    """Return " (did you mean ...?)" with the names that are spelled nearly so, or nothing.

    Examples
    --------
    >>> did_you_mean("pnormpush", ["PNormPush", "TopPush"])
    " (did you mean 'PNormPush'?)"
    >>> did_you_mean("zebra", ["PNormPush", "TopPush"])
    ''
    """
    if not isinstance(value, str) or len(value) > _LONGEST:
        return ""
    spelled = {name.lower(): name for name in reversed([name for name in names if isinstance(name, str)])}
    found = get_close_matches(value.lower(), spelled, 3, 0.7)
    return f" (did you mean {' or '.join(repr(spelled[name]) for name in found)}?)" if found else ""
