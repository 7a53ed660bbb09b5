"""Kernels over the edges of a graph, compiled by numba."""
