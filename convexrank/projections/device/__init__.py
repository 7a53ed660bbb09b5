"""The same projections in JAX alone, for accelerators."""
