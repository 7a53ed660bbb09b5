"""Comparison of fast answers with exact ones, and the report of it."""
