"""What holds of an answer when its data change."""

from __future__ import annotations

from convexrank.bounds.perturbation import PerturbationBound, perturbation_bound

__all__ = ["PerturbationBound", "perturbation_bound"]
