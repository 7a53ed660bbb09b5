"""Sums over the levels of columns, and over pairs of levels; compiled."""

from __future__ import annotations

import numpy as np

from convexrank.backend.numba_cache import compiled, read_only_array, types

Array = np.ndarray

_codes = read_only_array(types.int32, 2)
_numbers, _places = read_only_array(types.float64), read_only_array(types.int64)
_out = types.float64[::1]


@compiled(types.void(_codes, _places, _numbers, _out))
def sum_levels(codes: Array, bases: Array, values: Array, out: Array) -> None:
    """Add the value of each row to the level of each of its columns."""
    for j in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            out[bases[j] + codes[j, i]] += values[i]


@compiled(types.void(_codes, _places, _numbers, _out))
def add_levels(codes: Array, bases: Array, table: Array, out: Array) -> None:
    """Add to each row the entry of the table for the level of each of its columns."""
    for j in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            out[i] += table[bases[j] + codes[j, i]]


@compiled(types.void(_codes, _places, _places, _places, _places, _numbers, _out))
def sum_pairs(
    codes: Array, first: Array, second: Array, widths: Array, bases: Array, values: Array, out: Array
) -> None:
    """Add the value of each row to the pair of levels of each pair of columns."""
    for p in range(len(first)):
        j, k, width = first[p], second[p], widths[second[p]]
        for i in range(codes.shape[1]):
            out[bases[p] + codes[j, i] * width + codes[k, i]] += values[i]


@compiled(types.void(_codes, _places, _places, _places, _places, _numbers, _out))
def add_pairs(
    codes: Array, first: Array, second: Array, widths: Array, bases: Array, table: Array, out: Array
) -> None:
    """Add to each row the entry of the table for the pair of levels of each pair of columns."""
    for p in range(len(first)):
        j, k, width = first[p], second[p], widths[second[p]]
        for i in range(codes.shape[1]):
            out[i] += table[bases[p] + codes[j, i] * width + codes[k, i]]
