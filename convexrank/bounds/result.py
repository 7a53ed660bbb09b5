"""The result of every bound: its value, its terms, its source, and whether it is informative."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Bound"]


@dataclass(frozen=True)
class Bound:
    """A bound, with its terms.

    Parameters
    ----------
    value : float
        The bound, even if it is above the trivial value.
    pieces : dict of str to float
        The terms of the bound, by name.
    source : str
        The statement with its number in the paper, or the place of its derivation.
    limit : float
        The trivial value, which the bounded quantity never exceeds.
    refuted : bool
        Whether the statement fails for some data; then the value is not a valid bound.
    note : str
        The error in the statement, or its assumptions.

    Examples
    --------
    >>> from convexrank import bounds
    >>> family = bounds.Halfspaces(1)
    >>> few = bounds.push_risk([1, 0, 1, 0], [2.0, 1.0, 0.5, 0.0], p=4, delta=0.05, covering=family)
    >>> print(f"{few.value:.2f}", few.vacuous, few.source)
    1.27 True convexrank.bounds.push_sample, halfspaces
    """

    value: float
    pieces: dict[str, float]
    source: str
    limit: float = 1.0
    refuted: bool = False
    note: str = field(default="", repr=False)

    @property
    def vacuous(self) -> bool:
        """Whether the bound is not informative: it is not below the trivial value."""
        return not self.value < self.limit
