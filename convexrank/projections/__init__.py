"""Exact Euclidean projections by sorting and pooling, for monotone retargeting and learned divergences.

One call takes flat arrays with one group id per row, so that many small queries cost one pass and no Python loop. numpy
arrays give numpy arrays; JAX arrays, also inside ``jit``, ``vmap`` and ``grad``, give JAX arrays.
"""

from __future__ import annotations

from convexrank.projections.increments import bounded_increments, isotonic, permutahedron

__all__ = ["bounded_increments", "isotonic", "permutahedron"]
