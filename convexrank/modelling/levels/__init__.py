"""Atoms whose numbers solve an equation or follow from level to level: log-sum-exps up to grades, thresholds."""
