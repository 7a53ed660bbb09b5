"""Validation of everything a caller hands in, and the ways data come in."""

from __future__ import annotations

from convexrank.data.checks import (
    Matrix,
    check_binary_labels,
    check_choice,
    check_groups,
    check_hashable,
    check_integer,
    check_interval,
    check_matrix,
    check_nonnegative,
    check_pairs,
    check_positive,
    check_positive_weights,
    check_real,
    check_vector,
    check_weights,
)

__all__ = [
    "Matrix",
    "Matrix",
    "check_binary_labels",
    "check_choice",
    "check_groups",
    "check_hashable",
    "check_integer",
    "check_interval",
    "check_matrix",
    "check_nonnegative",
    "check_pairs",
    "check_positive",
    "check_positive_weights",
    "check_real",
    "check_vector",
    "check_weights",
]
