"""Kernels that atoms own: sums over pairs by a sort, by products of blocks, or pair by pair."""
