"""Sets of recommendations, one kind a file."""
