"""Comparison of fast answers with exact ones, and reports."""
