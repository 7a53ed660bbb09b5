"""Losses of pairs of rows with graded labels."""
