"""Smooth expressions below those with kinks, and what their multipliers prove."""
