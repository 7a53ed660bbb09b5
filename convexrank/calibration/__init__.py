"""Probabilities from scores: isotonic regression with a band for all scores at once, and Venn–Abers as a check.

========================= =============================================================================================
function                  answer
========================= =============================================================================================
`calibrate`               probability of the positive class at each score, with a uniform confidence band
`venn_abers`              two probabilities for each new score, one of which is calibrated, for every distribution
========================= =============================================================================================

Both take rows that were not in the fit of the ranker. Scores of rankers by query mean nothing across queries; their
probabilities do: with ``groups`` each query counts as one row. :class:`convexrank.BandCalibratedClassifier` holds rows
out by itself.
"""

from __future__ import annotations

from convexrank.calibration.band import Calibration, calibrate
from convexrank.calibration.venn_abers import venn_abers

__all__ = ["Calibration", "calibrate", "venn_abers"]
