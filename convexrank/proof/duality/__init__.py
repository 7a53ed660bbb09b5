"""Proofs by weak duality: the value of a dual point is a bound on the optimum, wherever the minimiser is."""
