"""Graphs from edge lists, files and other libraries."""
