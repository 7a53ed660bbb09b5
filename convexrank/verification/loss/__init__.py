"""Comparison of any loss with a formulation on many instances, and the smallest first disagreement."""
