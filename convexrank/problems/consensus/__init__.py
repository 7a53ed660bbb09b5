"""Consensus over sets of recommendations."""
