"""Features made of features: weak rankers as a matrix, and designs of many columns that are never built."""

from convexrank.features.products import Products
from convexrank.features.stacked import Stacked
from convexrank.features.thresholds import Thresholds
from convexrank.features.weak_rankers import quantile_thresholds, threshold_rankers

__all__ = ["Products", "Stacked", "Thresholds", "quantile_thresholds", "threshold_rankers"]
