"""Monotone retargeting."""
