"""What a function made of atoms is called with in order to be read: each atom asks it for its own form."""

from __future__ import annotations

from typing import Any

__all__ = ["Traced"]


class Traced:
    """An argument that answers atoms and arithmetic itself."""

    def of_atom(self, name: str, *operands: Any) -> Any:
        """Return an atom of operands, of which it is one."""
        raise NotImplementedError
