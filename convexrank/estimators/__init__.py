"""scikit-learn estimators."""

from __future__ import annotations

from convexrank.estimators.online import OnlineMEMR
from convexrank.estimators.push import PushRanker
from convexrank.estimators.retargeting import RetargetingRanker
from convexrank.estimators.single_index import SingleIndexRegressor

__all__ = ["OnlineMEMR", "PushRanker", "RetargetingRanker", "SingleIndexRegressor"]
