"""Graphs in files: how they are written, opened, and built from more edges than fit in memory."""
