"""Retargeting with margins between grades."""
