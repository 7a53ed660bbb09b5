"""Classifiers that hold rows out: thresholds with a promise, and probabilities with intervals."""
