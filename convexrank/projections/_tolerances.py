"""Tolerances that the compiled loops on the host and on devices share."""

# Rounding of a sum of bounds may empty an interval that holds one point; beyond this share of it, it is empty.
EMPTY = 1e-12
# How close to a bound an entry of a block counts as the one that holds the block there, against the largest entry.
TOUCHES = 1e-10
