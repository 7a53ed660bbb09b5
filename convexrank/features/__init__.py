"""Derived features: weak rankers as a matrix, designs that are never built, and scores as functions of features."""

from convexrank.features.products import Products
from convexrank.features.score_cards import ScoreCard
from convexrank.features.shapes import Shapes, shapes
from convexrank.features.stacked import Stacked
from convexrank.features.thresholds import Thresholds
from convexrank.features.weak_rankers import quantile_thresholds, threshold_rankers

__all__ = [
    "Products",
    "ScoreCard",
    "Shapes",
    "Stacked",
    "Thresholds",
    "quantile_thresholds",
    "shapes",
    "threshold_rankers",
]
