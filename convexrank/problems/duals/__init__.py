"""Duals of the formulations with linear scores, and the conjugates of risks that they are made of."""
