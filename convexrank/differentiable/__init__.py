"""Solutions that JAX differentiates."""

from __future__ import annotations

from convexrank.differentiable.solution_map import SolutionMap

__all__ = ["SolutionMap"]
