"""Promises about new rows, made from held-out rows: each holds for every sample size and every distribution."""

from __future__ import annotations
