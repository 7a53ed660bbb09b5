"""Losses of others: compared with a formulation on many instances, and the first disagreement made small."""
