"""What the parts of the benchmark of scale hand in: tables, targets, and points for the model of time."""

from __future__ import annotations

from dataclasses import dataclass

from report import Section

__all__ = ["Point", "Scaled"]


@dataclass(frozen=True)
class Point:
    """One measured solve.

    Parameters
    ----------
    what : str
        The problem and its size, as the tables have them.
    where : str
        Where the data are: "memory", "pieces", "processes" or "disk" (graphs that are mapped into memory).
    unit : str
        What a pass goes through: "entries" of X, or "edges".
    count : float
        How many of them all processes go through in a pass.
    passes : float
        Passes over the data of the whole measured time, certificates and first looks included.
    bytes_a_pass : float
        The bytes of a pass as they lie in files or in memory, of all processes together.
    seconds : float
        Wall time.
    megabytes : float
        Peak memory of all processes together; 0 where it was not measured.
    disk : float
        Bytes of files.
    processes : int
        How many processes share the work.
    rows : float
        Rows of X, each of which has an exponential to be taken; 0 for graphs.
    """

    what: str
    where: str
    unit: str
    count: float
    passes: float
    bytes_a_pass: float
    seconds: float
    megabytes: float = 0.0
    disk: float = 0.0
    processes: int = 1
    rows: float = 0.0


@dataclass(frozen=True)
class Scaled(Section):
    """A section with points for the model."""

    points: tuple[Point, ...] = ()
