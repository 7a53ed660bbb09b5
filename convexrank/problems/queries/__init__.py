"""Baselines on query data."""
