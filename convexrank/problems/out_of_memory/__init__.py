"""Rows out of memory: risks as sums, or sums of log-sum-exps, over pieces."""
