"""Divergences by their generators, one kind a file."""
