"""Rows of tables with columns of any kind, as features."""
