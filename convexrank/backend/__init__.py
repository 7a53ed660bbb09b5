"""The ground: JAX, numba, Newton's method and the standard library, and nothing of ranking."""
