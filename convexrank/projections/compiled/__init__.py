"""Projection kernels, compiled by numba."""
