"""The ground: JAX, numba and the standard library, and nothing of ranking."""
