"""Derived features: weak rankers as a matrix, designs that are never built, kernels on pairs, shapes, explanations."""

from convexrank.features.products import Products, Stacked, pair_kernel
from convexrank.features.score_cards import Explanation
from convexrank.features.shapes import ScoreCard, Shapes, shapes
from convexrank.features.thresholds import Thresholds, quantile_thresholds, threshold_rankers

__all__ = [
    "Explanation",
    "Products",
    "ScoreCard",
    "Shapes",
    "Stacked",
    "Thresholds",
    "pair_kernel",
    "quantile_thresholds",
    "shapes",
    "threshold_rankers",
]
