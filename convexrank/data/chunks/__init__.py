"""Rows out of memory: pieces of files, arrays and iterables, read once in every pass of a solver."""
