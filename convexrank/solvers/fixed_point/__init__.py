"""Iterations for the fixed points of graph ranks."""
