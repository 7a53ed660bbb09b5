"""Projections, compiled by numba."""
