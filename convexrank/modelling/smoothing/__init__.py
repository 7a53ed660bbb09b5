"""Smooth expressions below those with kinks, and rows that may be left out or merged."""
