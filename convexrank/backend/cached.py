"""``functools.cached_property`` in a form that protocols accept.

Pyright takes a ``cached_property`` for an object of that class, and refuses it where a protocol declares a property.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["cached_property"]

if TYPE_CHECKING:
    cached_property = property
else:
    from functools import cached_property
