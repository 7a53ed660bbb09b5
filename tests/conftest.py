"""Shared set-up: reproducible property tests, no display."""

from __future__ import annotations

import matplotlib
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")
settings.register_profile(
    "convexrank", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("convexrank")
