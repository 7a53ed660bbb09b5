"""Ranks of the nodes of a graph."""
