"""Bregman projections on hyperplanes, cones and simplices."""
