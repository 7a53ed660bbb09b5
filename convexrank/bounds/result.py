"""What every bound returns: its value, what it is made of, where it stands, and whether it says anything."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

__all__ = ["Bound", "exponential"]


@dataclass(frozen=True)
class Bound:
    """A bound, with what it is made of.

    Parameters
    ----------
    value : float
        The bound, also where it is above its trivial value.
    pieces : dict of str to float
        The terms it is made of, by name.
    source : str
        The statement, with its number in the paper, or where it is derived.
    limit : float
        The trivial value: what is bounded is never above it.
    refuted : bool
        Whether the statement fails for some data; the value is then no bound, whatever it is.
    note : str
        What is wrong with the statement, or what it needs.

    Examples
    --------
    >>> from convexrank import bounds
    >>> bound = bounds.push(200, 1000, 4, eps=0.5)
    >>> bound.vacuous, bound.refuted, bound.source
    (True, False, 'P-Norm Push report (2005), Theorem 2')
    """

    value: float
    pieces: dict[str, float]
    source: str
    limit: float = 1.0
    refuted: bool = False
    note: str = field(default="", repr=False)

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing: it is not below the trivial value."""
        return not self.value < self.limit


def exponential(log_value: float) -> float:
    """Return the exponential; infinity where it is above the largest float."""
    return math.exp(log_value) if log_value < 709.0 else math.inf
