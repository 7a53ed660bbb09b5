"""Risks that are weighted sums of log-sum-exps: what is known of them beyond their convexity."""
