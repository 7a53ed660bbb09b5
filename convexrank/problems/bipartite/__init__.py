"""Positives above negatives: the push family."""
