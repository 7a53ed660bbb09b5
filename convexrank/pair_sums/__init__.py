"""Sums over pairs of rows in less than quadratic time."""
