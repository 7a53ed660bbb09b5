"""Loops over the edges of a graph, compiled by numba."""
