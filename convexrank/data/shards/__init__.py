"""Rows over processes: each holds its own, and what all have to know is gathered in the order of the ranks."""
