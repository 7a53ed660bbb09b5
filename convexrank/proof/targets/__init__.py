"""Proofs for risks that hold an inner minimum: over targets in an order, or over links."""
