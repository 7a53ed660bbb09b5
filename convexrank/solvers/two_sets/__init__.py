"""Projections on two convex sets in turn or at once."""
