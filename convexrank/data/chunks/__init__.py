"""Rows out of memory: pieces of files, arrays and iterables, gone through as often as a solver asks."""
