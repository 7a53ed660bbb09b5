"""Proofs for distributions over the nodes of a graph: games, and consensus."""
