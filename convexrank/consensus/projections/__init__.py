"""Kullback-Leibler projections on sets of recommendations."""
