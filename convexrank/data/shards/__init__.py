"""Rows over processes: each process holds its own rows, and common numbers are gathered in the order of the ranks."""
