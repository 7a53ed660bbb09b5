"""scikit-learn estimators."""

from __future__ import annotations

from convexrank.estimators.cross_validated import PushRankerCV, RetargetingRankerCV
from convexrank.estimators.held_out import BandCalibratedClassifier, PromisedThresholdClassifier
from convexrank.estimators.online import OnlineMEMR
from convexrank.estimators.push import PushRanker
from convexrank.estimators.ranker import Ranker
from convexrank.estimators.retargeting import RetargetingRanker
from convexrank.estimators.single_index import SingleIndexRegressor
from convexrank.estimators.tables import TableEncoder
from convexrank.estimators.transformers import LeafFeatures, QueryScaler, ThresholdFeatures

__all__ = [
    "BandCalibratedClassifier",
    "LeafFeatures",
    "OnlineMEMR",
    "PromisedThresholdClassifier",
    "PushRanker",
    "PushRankerCV",
    "QueryScaler",
    "Ranker",
    "RetargetingRanker",
    "RetargetingRankerCV",
    "SingleIndexRegressor",
    "TableEncoder",
    "ThresholdFeatures",
]
