"""Readers of query data."""
