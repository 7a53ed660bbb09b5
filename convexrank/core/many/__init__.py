"""Many problems that differ in parameters or in weights of rows: solved together, each with its own certificate."""

from __future__ import annotations

from convexrank.core.many.solutions import Solutions
from convexrank.core.many.solve_many import solve_many

__all__ = ["Solutions", "solve_many"]
